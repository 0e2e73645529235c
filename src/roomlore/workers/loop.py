"""Takes work, does the slow part without holding a connection, writes it back, notes failures.

A worker that dies loses nothing: what it had taken is due again when its lease ends. One that loses the
database waits for it and goes on.
"""

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any, Protocol, TypeVar, runtime_checkable

from roomlore.domain.errors import BackendUnavailable, DatabaseUnavailable, ModelUnavailable
from roomlore.domain.ids import OrgId
from roomlore.store import work
from roomlore.store.db import Database
from roomlore.store.queries import Connection
from roomlore.store.work import Retries, Stage, Task

Done = TypeVar("Done")

LONGEST_ERROR = 100
#: One batch is read and written back while another is worked on.
LANES = 2
#: No org gets more than this part of a batch while others wait.
SHARE = 4
#: A worker that is told to stop finishes its batch within so many seconds, or abandons it.
FAREWELL = 10.0
#: What cannot be given back within so many seconds is left to its lease.
GIVING_BACK = 3.0

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long a worker waits for what."""

    #: What was taken and neither finished nor given back is due again after this.
    lease: timedelta
    retries: Retries
    #: Notifications wake a worker at once; this is how long it sleeps if one is missed, and how long it
    #: lets a database rest that went away.
    poll_seconds: float


USUAL = Pace(
    lease=timedelta(minutes=2),
    retries=Retries(first_after=timedelta(seconds=1), last_attempt=5),
    poll_seconds=2.0,
)
#: Somebody waits for a drain to end: what fails is tried again soon, or set aside soon.
BRISK = replace(
    USUAL, retries=Retries(first_after=timedelta(milliseconds=10), last_attempt=5), poll_seconds=0.2
)

#: Brings the database back, if that is in our hands.
Mend = Callable[[], Awaitable[None]]
#: Something else to be done until told to stop, from its beginning again after an outage.
Chore = Callable[[asyncio.Event], Awaitable[None]]
#: Called after each batch with how many messages were done.
Progress = Callable[[int], None]


class Worker(Protocol):
    """One stage of work."""

    @property
    def stage(self) -> Stage:
        """Which work it takes."""
        ...

    @property
    def batch(self) -> int:
        """How many subjects it takes at once; small enough to finish within seconds."""
        ...

    async def begin(self, only_org: OrgId | None) -> None:
        """Ask for work that nobody asked for yet, in one org or in all; called before the first batch."""
        ...

    async def do(self, org_id: OrgId, tasks: Sequence[Task]) -> int:
        """Do the work, write it back and return with how many messages; raises if any of it failed."""
        ...

    async def tidy(self) -> None:
        """Do what is better done when nothing is waiting; called after work, each time it runs out."""
        ...


@runtime_checkable
class Choosy(Protocol):
    """A worker that leaves some orgs alone for a while."""

    def left_alone(self) -> Collection[OrgId]:
        """Return the orgs of which no work is taken now: what does it is away."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """What a drain did."""

    #: Messages that were worked on.
    done: int
    #: Work of this stage that was set aside after its last attempt, over all time.
    set_aside: int
    #: Messages that went because their rooms no longer keep them.
    expired: int = 0
    #: Messages that were gone through to find what they answer.
    untangled: int = 0
    #: Memories that were drawn from conversations.
    remembered: int = 0
    #: Servers that could not be written to; what is to be written stays to be done.
    failing: Sequence[str] = ()
    #: Embedding models that give no vectors; what is to be embedded by them stays to be done.
    unembedded: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What became of one batch."""

    #: Pieces of work.
    taken: int
    #: Messages.
    done: int


async def drain(
    db: Database,
    worker: Worker,
    *,
    only_org: OrgId | None = None,
    progress: Progress | None = None,
    pace: Pace = BRISK,
) -> Drained:
    """Work until nothing is left, waiting for what others have leased, and return what was done.

    Raises:
        DatabaseUnavailable: the server went away.
    """
    finishing = asyncio.Event()

    async def until_empty() -> int:
        nonlocal finishing
        done = 0
        while True:
            next_one = finishing
            finished = await step(db, worker, only_org=only_org, pace=pace)
            done += finished.done
            _tell(progress, finished)
            if finished.taken:
                # A lane that found nothing looks again at once: what this one had may be due again, or all is done.
                finishing.set()
                finishing = asyncio.Event()
            elif not (await _count(db, worker, only_org, without=_left_alone(worker))).waiting:
                return done
            else:
                await _first_of(next_one.wait(), asyncio.sleep(pace.poll_seconds))

    with work.meeting_outages():
        await worker.begin(only_org)
        done = sum(await _side_by_side([until_empty() for _ in range(LANES)]))
        if done:
            await worker.tidy()
        return Drained(done=done, set_aside=(await _count(db, worker, only_org)).set_aside)


async def run(
    db: Database,
    worker: Worker,
    *,
    stop: asyncio.Event,
    mend: Mend | None = None,
    progress: Progress | None = None,
    pace: Pace = USUAL,
    chores: Sequence[Chore] = (),
) -> None:
    """Work until told to stop, woken by notifications with a poll behind them, through any outage.

    Args:
        db: Where the work is.
        worker: What does it.
        stop: Ends the run once it is set.
        mend: Tried in an outage before the database is.
        progress: Told of each batch.
        pace: How long to wait for what.
        chores: What else is done meanwhile.
    """
    shift = _Shift(db=db, worker=worker, stop=stop, mend=mend, progress=progress, pace=pace)
    parts = [partial(worker.begin, None), shift.listen, *(shift.work for _ in range(LANES))]
    parts += [partial(chore, stop) for chore in chores]

    async def set_limit() -> None:
        await stop.wait()
        limit.reschedule(asyncio.get_running_loop().time() + FAREWELL)

    limit = asyncio.timeout(None)
    try:
        async with limit:
            await _side_by_side([set_limit(), *(shift.through_outages(part) for part in parts)])
    except TimeoutError:
        if not limit.expired():
            raise


@dataclass(slots=True, kw_only=True)
class _Shift:
    """What the parts of a running worker share."""

    db: Database
    worker: Worker
    stop: asyncio.Event
    mend: Mend | None
    progress: Progress | None
    pace: Pace
    news: asyncio.Event = field(default_factory=asyncio.Event)
    resting: int = 0
    untidy: bool = False

    async def through_outages(self, part: Callable[[], Awaitable[None]]) -> None:
        """Run a part to its end, from its beginning whenever it loses the database."""
        while not self.stop.is_set():
            try:
                with work.meeting_outages():
                    return await part()
            except (DatabaseUnavailable, BackendUnavailable, ModelUnavailable) as error:
                LOG.warning("%s; trying again", error.why)
                await _first_of(self.stop.wait(), asyncio.sleep(self.pace.poll_seconds))
                if isinstance(error, DatabaseUnavailable):
                    await self._try_to_mend()
        return None

    async def _try_to_mend(self) -> None:
        if self.mend is not None and not self.stop.is_set():
            with contextlib.suppress(DatabaseUnavailable):
                await self.mend()

    async def work(self) -> None:
        """Do batch after batch; rest when there is none."""
        while not self.stop.is_set():
            finished = await step(self.db, self.worker, pace=self.pace)
            self.untidy = self.untidy or finished.done > 0
            _tell(self.progress, finished)
            if not finished.taken:
                await self._rest()

    async def _rest(self) -> None:
        self.resting += 1
        try:
            # Whoever is last to rest tidies up, for then nobody waits for a lock that it takes.
            if self.untidy and self.resting == LANES:
                await self.worker.tidy()
                self.untidy = False
            await _first_of(self.stop.wait(), self.news.wait(), asyncio.sleep(self.pace.poll_seconds))
            self.news.clear()
        finally:
            self.resting -= 1

    async def listen(self) -> None:
        """Wake those who rest when there is news."""
        async with self.db.listening(work.CHANNEL) as wake:
            while not self.stop.is_set():
                await _first_of(self.stop.wait(), wake(self.pace.poll_seconds))
                self.news.set()


async def step(db: Database, worker: Worker, *, only_org: OrgId | None = None, pace: Pace = USUAL) -> Step:
    """Take one batch and do it; what is interrupted is given back at once."""
    tasks: list[Task] = []
    leased: set[Task] = set()
    try:
        async with db.outside_orgs() as conn:
            tasks += await _take(conn, worker, only_org, pace=pace)
            leased.update(tasks)
        done = 0
        for org_id, mine in _by_org(tasks).items():
            done += await _do(db, worker, org_id, mine, pace=pace, leased=leased)
    except BaseException:
        await asyncio.shield(_give_back(db, worker, leased))
        raise
    return Step(taken=len(tasks), done=done)


async def _take(conn: Connection, worker: Worker, only_org: OrgId | None, *, pace: Pace) -> list[Task]:
    """Take some of every org first, then fill up with whatever there is most of; what is suspect alone."""
    share, without = max(worker.batch // SHARE, 1), _left_alone(worker)
    take = partial(work.take, conn, worker.stage, only_org, lease=pace.lease, without=without)
    tasks = await take(per_org=share, total=worker.batch)
    if not tasks:
        return await work.take_suspect(conn, worker.stage, only_org, lease=pace.lease, without=without)
    free = worker.batch - len(tasks)
    if free:
        tasks += await take(per_org=free, total=free)
    return tasks


def _left_alone(worker: Worker) -> Collection[OrgId]:
    return worker.left_alone() if isinstance(worker, Choosy) else ()


async def _do(
    db: Database, worker: Worker, org_id: OrgId, tasks: Sequence[Task], *, pace: Pace, leased: set[Task]
) -> int:
    """Do some of the leased work of an org, one by one if it fails together; return how much was done."""
    try:
        with work.meeting_outages():
            done = await worker.do(org_id, tasks)
    except (ModelUnavailable, DatabaseUnavailable, BackendUnavailable):
        raise
    except Exception as error:  # noqa: BLE001  whatever one subject breaks must not stop the others
        # The kind of error only: its text may quote what somebody said.
        reason = type(error).__name__[:LONGEST_ERROR]
    else:
        leased.difference_update(tasks)
        return done
    if len(tasks) > 1:
        alone = [await _do(db, worker, org_id, [task], pace=pace, leased=leased) for task in tasks]
        return sum(alone)
    await db.change(
        org_id,
        lambda conn: work.fail(conn, org_id, worker.stage, tasks, error=reason, retries=pace.retries),
    )
    leased.difference_update(tasks)
    return 0


async def _give_back(db: Database, worker: Worker, leased: Iterable[Task]) -> None:
    """Give work back; where the database has gone, the lease does it later."""
    with contextlib.suppress(DatabaseUnavailable, TimeoutError), work.meeting_outages():
        async with asyncio.timeout(GIVING_BACK):
            for org_id, tasks in _by_org(leased).items():
                await db.change(org_id, partial(work.release, org_id=org_id, stage=worker.stage, tasks=tasks))


def _by_org(tasks: Iterable[Task]) -> dict[OrgId, list[Task]]:
    by_org: dict[OrgId, list[Task]] = defaultdict(list)
    for task in tasks:
        by_org[task.org_id].append(task)
    return by_org


def _tell(progress: Progress | None, finished: Step) -> None:
    if finished.done and progress is not None:
        progress(finished.done)


async def _count(
    db: Database, worker: Worker, only_org: OrgId | None, *, without: Collection[OrgId] = ()
) -> work.WorkCount:
    async with db.outside_orgs() as conn:
        return await work.count(conn, worker.stage, only_org, without=without)


async def _side_by_side(lanes: Sequence[Coroutine[Any, Any, Done]]) -> list[Done]:
    """Return what each lane returns; when one fails or the caller is cancelled, all end first."""
    tasks = [asyncio.create_task(lane) for lane in lanes]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _first_of(*waits: Awaitable[object]) -> None:
    """Return when the first of these is done, or raise what it raises; the others are cancelled."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
