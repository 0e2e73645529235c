"""Operations: how far the work has come in each room, who does it, what failed, and how long reads take."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast, get_args

from roomlore.agents.blocks import Hits
from roomlore.app.generations import GenerationStatus
from roomlore.app.operations import Counts, RoomNumbers
from roomlore.app.projecting import Copies
from roomlore.app.wishes import SpokenWish, WishCounts, WishMode
from roomlore.store.heartbeats import Heartbeat
from roomlore.store.operations import Failure, Latency, Size
from roomlore.store.readings import Backlog
from roomlore.store.work import EmbeddingPolicy
from roomlore.surfaces.web.pages import Form, Pages
from roomlore.surfaces.web.visits import Visit

PAGES = Pages()
#: Rooms on one page, and pages that may be asked for.
SHOWN, MOST_PAGES = 50, 100_000
#: Of requests that wait.
MOST_PROPOSED = 20
#: A worker that was not seen for longer has ended without a word, or is stuck.
MISSED = timedelta(minutes=1)
NOTICES: Mapping[str, str] = {
    "retried": "What was set aside will be tried again.",
    "accepted": "The request is carried out.",
    "dismissed": "The request does not count.",
    "mode": "That is what becomes of spoken requests from now on.",
    "embedding": "The room embeds that from now on; the worker sees to what is missing.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerShown:
    """A worker, and whether it still comes by."""

    worker: Heartbeat
    is_alive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """How an org is run."""

    at: datetime
    #: Of all rooms together.
    counts: Counts
    #: Those of one page, most messages first.
    rooms: Sequence[RoomNumbers]
    number: int
    pages: int
    workers: Sequence[WorkerShown]
    failures: Sequence[Failure]
    latencies: Sequence[Latency]
    readings: Backlog
    blocks: Hits
    #: None for who came with a key: other orgs are in them, too.
    sizes: Sequence[Size] | None
    #: Of what may be embedded in a room.
    policies: Sequence[EmbeddingPolicy]
    #: In other servers; one for each kind of them.
    copies: Sequence[Copies]
    #: The models by which is searched, that is to come, and that was before.
    embedding: Sequence[GenerationStatus]
    #: How many spoken requests there are, by what became of them.
    requests: WishCounts
    #: Those that wait for somebody to decide, newest first; of more than fit, the newest.
    proposed: Sequence[SpokenWish]
    #: What becomes of requests, and what else could.
    mode: WishMode
    modes: Sequence[WishMode]
    #: How the server's clock disagrees with others; empty where it agrees.
    clock: Sequence[str]
    notice: str


@PAGES.page("/ops", "ops.html")
async def operations(visit: Visit) -> Ledger:
    """Return the ledger; operators' alone."""
    numbers = await visit.app.operations.numbers()
    state = await visit.app.operations.state()
    pages = max(1, -(-len(numbers.rooms) // SHOWN))
    number = min(visit.number("page", 1, most=MOST_PAGES), pages)
    return Ledger(
        at=numbers.at,
        counts=numbers.counts,
        rooms=numbers.rooms[(number - 1) * SHOWN : number * SHOWN],
        number=number,
        pages=pages,
        workers=[WorkerShown(worker=one, is_alive=state.at - one.seen_at < MISSED) for one in state.workers],
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
        modes=get_args(WishMode),
        notice=NOTICES.get(visit.word("done") or "", ""),
    )


@PAGES.action("/ops/retry")
async def retry(visit: Visit, form: Form) -> str:
    """Let what was set aside be tried again."""
    del form
    await visit.app.retry()
    return visit.address("/ops", {"done": "retried"})


@PAGES.action("/ops/embedding")
async def embedding(visit: Visit, form: Form) -> str:
    """Say what a room embeds."""
    policy = cast("EmbeddingPolicy", form.word("policy"))
    await visit.app.operations.embed(form.word("room"), policy)
    return visit.address("/ops", {"done": "embedding"})


@PAGES.action("/ops/requests/mode")
async def set_mode(visit: Visit, form: Form) -> str:
    """Say what becomes of the requests that are heard."""
    await visit.app.wishes.set_mode(cast("WishMode", form.word("mode")))
    return visit.address("/ops", {"done": "mode"}, at="requests")


@PAGES.action("/ops/requests/{wish}/accept")
async def accept(visit: Visit, form: Form, wish: str) -> str:
    """Carry a request out that was proposed."""
    del form
    await visit.app.wishes.accept(wish)
    return visit.address("/ops", {"done": "accepted"}, at="requests")


@PAGES.action("/ops/requests/{wish}/dismiss")
async def dismiss(visit: Visit, form: Form, wish: str) -> str:
    """Let a request not count that was proposed."""
    del form
    await visit.app.wishes.dismiss(wish)
    return visit.address("/ops", {"done": "dismissed"}, at="requests")
