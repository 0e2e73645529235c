"""Operations: how far the work has come in each room, who does it, what failed, and how long reads take."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast, get_args

from roomlore.agents.section_cache import CacheStatistics
from roomlore.db.llm_calls import ExtractionBacklog
from roomlore.db.stats import DeadLetters, Latency, Size
from roomlore.db.work_queue import EmbeddingPolicy, Heartbeat
from roomlore.operations.embedding_versions import EmbeddingVersionStatus
from roomlore.operations.monitoring import RoomCounts, RoomStatistics
from roomlore.operations.privacy import PrivacyRequestView, RequestCounts, RequestMode
from roomlore.operations.projection_service import ProjectionStatus
from roomlore.web.pages import Form, PageRoutes
from roomlore.web.request_context import RequestContext

PAGES = PageRoutes()
#: Rooms on one page, and pages that may be asked for.
SHOWN, MOST_PAGES = 50, 100_000
#: Of requests that wait.
MOST_PROPOSED = 20
#: A worker that was not seen for longer has ended without a word, or is stuck.
HEARTBEAT_TIMEOUT = timedelta(minutes=1)
NOTICES: Mapping[str, str] = {
    "retried": "What was set aside will be tried again.",
    "accepted": "The request is carried out.",
    "dismissed": "The request does not count.",
    "mode": "That is what becomes of spoken requests from now on.",
    "embedding": "The room embeds that from now on; the worker sees to what is missing.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """A worker, and whether it still comes by."""

    worker: Heartbeat
    is_alive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoringPage:
    """How an org is run."""

    at: datetime
    #: Of all rooms together.
    counts: RoomCounts
    #: Those of one page, most messages first.
    rooms: Sequence[RoomStatistics]
    number: int
    pages: int
    workers: Sequence[WorkerStatus]
    failures: Sequence[DeadLetters]
    latencies: Sequence[Latency]
    readings: ExtractionBacklog
    blocks: CacheStatistics
    #: None for who came with a key: other orgs are in them, too.
    sizes: Sequence[Size] | None
    #: Of what may be embedded in a room.
    policies: Sequence[EmbeddingPolicy]
    #: In other servers; one for each kind of them.
    copies: Sequence[ProjectionStatus]
    #: The models by which is searched, that is to come, and that was before.
    embedding: Sequence[EmbeddingVersionStatus]
    #: How many spoken requests there are, by what became of them.
    requests: RequestCounts
    #: Those that wait for somebody to decide, newest first; of more than fit, the newest.
    proposed: Sequence[PrivacyRequestView]
    #: What becomes of requests, and what else could.
    mode: RequestMode
    modes: Sequence[RequestMode]
    #: How the server's clock disagrees with others; empty where it agrees.
    clock: Sequence[str]
    notice: str


@PAGES.page("/ops", "ops.html")
async def operations(visit: RequestContext) -> MonitoringPage:
    """Return the ledger; operators' alone."""
    numbers = await visit.app.operations.numbers()
    state = await visit.app.operations.state()
    pages = max(1, -(-len(numbers.rooms) // SHOWN))
    number = min(visit.number("page", 1, most=MOST_PAGES), pages)
    return MonitoringPage(
        at=numbers.at,
        counts=numbers.counts,
        rooms=numbers.rooms[(number - 1) * SHOWN : number * SHOWN],
        number=number,
        pages=pages,
        workers=[
            WorkerStatus(worker=one, is_alive=state.at - one.seen_at < HEARTBEAT_TIMEOUT)
            for one in state.workers
        ],
        failures=state.failures,
        latencies=numbers.latencies,
        readings=numbers.readings,
        blocks=numbers.blocks,
        sizes=state.sizes,
        clock=numbers.clock,
        policies=get_args(EmbeddingPolicy),
        copies=numbers.copies,
        embedding=numbers.embedding,
        requests=await visit.app.wishes.counts(visit.viewer),
        proposed=await visit.app.wishes.all(visit.viewer, status="proposed", limit=MOST_PROPOSED),
        mode=await visit.app.wishes.mode(),
        modes=get_args(RequestMode),
        notice=NOTICES.get(visit.word("done") or "", ""),
    )


@PAGES.action("/ops/retry")
async def retry(visit: RequestContext, form: Form) -> str:
    """Let what was set aside be tried again."""
    del form
    await visit.app.retry()
    return visit.address("/ops", {"done": "retried"})


@PAGES.action("/ops/embedding")
async def embedding(visit: RequestContext, form: Form) -> str:
    """Say what a room embeds."""
    policy = cast("EmbeddingPolicy", form.word("policy"))
    await visit.app.operations.embed(form.word("room"), policy)
    return visit.address("/ops", {"done": "embedding"})


@PAGES.action("/ops/requests/mode")
async def set_mode(visit: RequestContext, form: Form) -> str:
    """Say what becomes of the requests that are heard."""
    await visit.app.wishes.set_mode(cast("RequestMode", form.word("mode")))
    return visit.address("/ops", {"done": "mode"}, at="requests")


@PAGES.action("/ops/requests/{wish}/accept")
async def accept(visit: RequestContext, form: Form, wish: str) -> str:
    """Carry a request out that was proposed."""
    del form
    await visit.app.wishes.accept(wish)
    return visit.address("/ops", {"done": "accepted"}, at="requests")


@PAGES.action("/ops/requests/{wish}/dismiss")
async def dismiss(visit: RequestContext, form: Form, wish: str) -> str:
    """Let a request not count that was proposed."""
    del form
    await visit.app.wishes.dismiss(wish)
    return visit.address("/ops", {"done": "dismissed"}, at="requests")
