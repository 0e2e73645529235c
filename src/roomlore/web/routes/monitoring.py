"""Operations: the progress of each room, workers, failures and latencies."""

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
#: Rooms on a page, and the highest page number.
SHOWN, MOST_PAGES = 50, 100_000
#: The maximum number of proposed requests on the page.
MOST_PROPOSED = 20
#: If a worker's last heartbeat is older than this, the worker has crashed or is stuck.
HEARTBEAT_TIMEOUT = timedelta(minutes=1)
NOTICES: Mapping[str, str] = {
    "retried": "The failed jobs will run again.",
    "accepted": "The request is carried out.",
    "dismissed": "The request is dismissed.",
    "mode": "New requests are handled that way.",
    "embedding": "The room has a new embedding policy. The worker embeds what is missing.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """A worker, and whether it is alive."""

    worker: Heartbeat
    is_alive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoringPage:
    """The state of an org."""

    at: datetime
    counts: RoomCounts
    #: The rooms of this page, the most messages first.
    rooms: Sequence[RoomStatistics]
    number: int
    pages: int
    workers: Sequence[WorkerStatus]
    failures: Sequence[DeadLetters]
    latencies: Sequence[Latency]
    llm_calls: ExtractionBacklog
    blocks: CacheStatistics
    #: Sizes of tables and similar values. None for a user with a key, because they include other orgs.
    sizes: Sequence[Size] | None
    policies: Sequence[EmbeddingPolicy]
    #: The state of the indexes on other servers.
    projections: Sequence[ProjectionStatus]
    #: The current embedding model, the next one and the previous one.
    embedding: Sequence[EmbeddingVersionStatus]
    requests: RequestCounts
    #: The newest proposed privacy requests.
    proposed: Sequence[PrivacyRequestView]
    mode: RequestMode
    modes: Sequence[RequestMode]
    #: How the server's clock differs from other clocks; empty if all clocks agree.
    clock: Sequence[str]
    notice: str


@PAGES.page("/ops", "ops.html")
async def operations(visit: RequestContext) -> MonitoringPage:
    """Return the state of an org. For operators."""
    numbers = await visit.app.monitoring.statistics()
    state = await visit.app.monitoring.job_state()
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
        llm_calls=numbers.llm_calls,
        blocks=numbers.blocks,
        sizes=state.sizes,
        clock=numbers.clock,
        policies=get_args(EmbeddingPolicy),
        projections=numbers.projections,
        embedding=numbers.embedding,
        requests=await visit.app.privacy_requests.counts(visit.viewer),
        proposed=await visit.app.privacy_requests.all(visit.viewer, status="proposed", limit=MOST_PROPOSED),
        mode=await visit.app.privacy_requests.mode(),
        modes=get_args(RequestMode),
        notice=NOTICES.get(visit.word("done") or "", ""),
    )


@PAGES.action("/ops/retry")
async def retry(visit: RequestContext, form: Form) -> str:
    """Run failed jobs again."""
    del form
    await visit.app.retry()
    return visit.address("/ops", {"done": "retried"})


@PAGES.action("/ops/embedding")
async def embedding(visit: RequestContext, form: Form) -> str:
    """Set the embedding policy of a room."""
    policy = cast("EmbeddingPolicy", form.word("policy"))
    await visit.app.monitoring.set_embedding_policy(form.word("room"), policy)
    return visit.address("/ops", {"done": "embedding"})


@PAGES.action("/ops/requests/mode")
async def set_mode(visit: RequestContext, form: Form) -> str:
    """Set how new privacy requests are handled."""
    await visit.app.privacy_requests.set_mode(cast("RequestMode", form.word("mode")))
    return visit.address("/ops", {"done": "mode"}, at="requests")


@PAGES.action("/ops/requests/{request_id}/apply")
async def accept(visit: RequestContext, form: Form, request_id: str) -> str:
    """Accept a proposed request."""
    del form
    await visit.app.privacy_requests.apply(request_id)
    return visit.address("/ops", {"done": "accepted"}, at="requests")


@PAGES.action("/ops/requests/{request_id}/dismiss")
async def dismiss(visit: RequestContext, form: Form, request_id: str) -> str:
    """Dismiss a proposed request."""
    del form
    await visit.app.privacy_requests.dismiss(request_id)
    return visit.address("/ops", {"done": "dismissed"}, at="requests")
