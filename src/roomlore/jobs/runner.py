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

from roomlore.db import work_queue
from roomlore.db.database import Database
from roomlore.db.queries import Connection
from roomlore.db.work_queue import QueueName, RetrySchedule, Task
from roomlore.domain.errors import BackendUnavailable, DatabaseUnavailable, ModelUnavailable
from roomlore.domain.ids import OrgId

Done = TypeVar("Done")

LONGEST_ERROR = 100
#: One batch is read and written back while another is worked on.
CONCURRENCY = 2
#: No org gets more than this part of a batch while others wait.
FAIR_SHARE = 4
#: A worker that is told to stop finishes its batch within so many seconds, or abandons it.
SHUTDOWN_TIMEOUT = 10.0
#: What cannot be given back within so many seconds is left to its lease.
RELEASE_TIMEOUT = 3.0

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How long a worker waits for what."""

    #: What was taken and neither finished nor given back is due again after this.
    lease: timedelta
    retries: RetrySchedule
    #: Notifications wake a worker at once; this is how long it sleeps if one is missed, and how long it
    #: lets a database rest that went away.
    poll_seconds: float


DEFAULT_POLICY = RetryPolicy(
    lease=timedelta(minutes=2),
    retries=RetrySchedule(first_after=timedelta(seconds=1), last_attempt=5),
    poll_seconds=2.0,
)
#: Somebody waits for a drain to end: what fails is tried again soon, or set aside soon.
DRAIN_POLICY = replace(
    DEFAULT_POLICY,
    retries=RetrySchedule(first_after=timedelta(milliseconds=10), last_attempt=5),
    poll_seconds=0.2,
)

#: Brings the database back, if that is in our hands.
Reconnect = Callable[[], Awaitable[None]]
#: Something else to be done until told to stop, from its beginning again after an outage.
PeriodicTask = Callable[[asyncio.Event], Awaitable[None]]
#: Called after each batch with how many messages were done.
Progress = Callable[[int], None]


class Worker(Protocol):
    """One stage of work."""

    @property
    def queue(self) -> QueueName:
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
class BackingOff(Protocol):
    """A worker that leaves some orgs alone for a while."""

    def orgs_backing_off(self) -> Collection[OrgId]:
        """Return the orgs of which no work is taken now: what does it is away."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainResult:
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
class StepResult:
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
    policy: RetryPolicy = DRAIN_POLICY,
) -> DrainResult:
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
            finished = await step(db, worker, only_org=only_org, policy=policy)
            done += finished.done
            _report(progress, finished)
            if finished.taken:
                # A lane that found nothing looks again at once: what this one had may be due again, or all is done.
                finishing.set()
                finishing = asyncio.Event()
            elif not (await _count(db, worker, only_org, without=_orgs_backing_off(worker))).waiting:
                return done
            else:
                await _until_first(next_one.wait(), asyncio.sleep(policy.poll_seconds))

    with work_queue.translate_connection_errors():
        await worker.begin(only_org)
        done = sum(await _run_concurrently([until_empty() for _ in range(CONCURRENCY)]))
        if done:
            await worker.tidy()
        return DrainResult(done=done, set_aside=(await _count(db, worker, only_org)).set_aside)


async def run(
    db: Database,
    worker: Worker,
    *,
    stop: asyncio.Event,
    reconnect: Reconnect | None = None,
    progress: Progress | None = None,
    policy: RetryPolicy = DEFAULT_POLICY,
    tasks: Sequence[PeriodicTask] = (),
) -> None:
    """Work until told to stop, woken by notifications with a poll behind them, through any outage.

    Args:
        db: Where the work is.
        worker: What does it.
        stop: Ends the run once it is set.
        reconnect: Tried in an outage before the database is.
        progress: Told of each batch.
        policy: How long to wait for what.
        tasks: What else is done meanwhile.
    """
    shift = _RunningWorker(
        db=db, worker=worker, stop=stop, reconnect=reconnect, progress=progress, policy=policy
    )
    parts = [partial(worker.begin, None), shift.listen, *(shift.work for _ in range(CONCURRENCY))]
    parts += [partial(chore, stop) for chore in tasks]

    async def set_limit() -> None:
        await stop.wait()
        limit.reschedule(asyncio.get_running_loop().time() + SHUTDOWN_TIMEOUT)

    limit = asyncio.timeout(None)
    try:
        async with limit:
            await _run_concurrently([set_limit(), *(shift.through_outages(part) for part in parts)])
    except TimeoutError:
        if not limit.expired():
            raise


@dataclass(slots=True, kw_only=True)
class _RunningWorker:
    """What the parts of a running worker share."""

    db: Database
    worker: Worker
    stop: asyncio.Event
    reconnect: Reconnect | None
    progress: Progress | None
    policy: RetryPolicy
    wake_event: asyncio.Event = field(default_factory=asyncio.Event)
    idle_count: int = 0
    needs_tidying: bool = False

    async def through_outages(self, part: Callable[[], Awaitable[None]]) -> None:
        """Run a part to its end, from its beginning whenever it loses the database."""
        while not self.stop.is_set():
            try:
                with work_queue.translate_connection_errors():
                    return await part()
            except (DatabaseUnavailable, BackendUnavailable, ModelUnavailable) as error:
                LOG.warning("%s; trying again", error.why)
                await _until_first(self.stop.wait(), asyncio.sleep(self.policy.poll_seconds))
                if isinstance(error, DatabaseUnavailable):
                    await self._try_reconnect()
        return None

    async def _try_reconnect(self) -> None:
        if self.reconnect is not None and not self.stop.is_set():
            with contextlib.suppress(DatabaseUnavailable):
                await self.reconnect()

    async def work(self) -> None:
        """Do batch after batch; rest when there is none."""
        while not self.stop.is_set():
            finished = await step(self.db, self.worker, policy=self.policy)
            self.needs_tidying = self.needs_tidying or finished.done > 0
            _report(self.progress, finished)
            if not finished.taken:
                await self._wait_for_work()

    async def _wait_for_work(self) -> None:
        self.idle_count += 1
        try:
            # Whoever is last to rest tidies up, for then nobody waits for a lock that it takes.
            if self.needs_tidying and self.idle_count == CONCURRENCY:
                await self.worker.tidy()
                self.needs_tidying = False
            await _until_first(
                self.stop.wait(), self.wake_event.wait(), asyncio.sleep(self.policy.poll_seconds)
            )
            self.wake_event.clear()
        finally:
            self.idle_count -= 1

    async def listen(self) -> None:
        """Wake those who rest when there is news."""
        async with self.db.listening(work_queue.CHANNEL) as wake:
            while not self.stop.is_set():
                await _until_first(self.stop.wait(), wake(self.policy.poll_seconds))
                self.wake_event.set()


async def step(
    db: Database, worker: Worker, *, only_org: OrgId | None = None, policy: RetryPolicy = DEFAULT_POLICY
) -> StepResult:
    """Take one batch and do it; what is interrupted is given back at once."""
    tasks: list[Task] = []
    leased: set[Task] = set()
    try:
        async with db.system_connection() as conn:
            tasks += await _take(conn, worker, only_org, policy=policy)
            leased.update(tasks)
        done = 0
        for org_id, mine in _by_org(tasks).items():
            done += await _do(db, worker, org_id, mine, policy=policy, leased=leased)
    except BaseException:
        await asyncio.shield(_release(db, worker, leased))
        raise
    return StepResult(taken=len(tasks), done=done)


async def _take(
    conn: Connection, worker: Worker, only_org: OrgId | None, *, policy: RetryPolicy
) -> list[Task]:
    """Take some of every org first, then fill up with whatever there is most of; what is suspect alone."""
    share, without = max(worker.batch // FAIR_SHARE, 1), _orgs_backing_off(worker)
    take = partial(work_queue.take, conn, worker.queue, only_org, lease=policy.lease, without=without)
    tasks = await take(per_org=share, total=worker.batch)
    if not tasks:
        return await work_queue.take_poison(conn, worker.queue, only_org, lease=policy.lease, without=without)
    free = worker.batch - len(tasks)
    if free:
        tasks += await take(per_org=free, total=free)
    return tasks


def _orgs_backing_off(worker: Worker) -> Collection[OrgId]:
    return worker.orgs_backing_off() if isinstance(worker, BackingOff) else ()


async def _do(
    db: Database,
    worker: Worker,
    org_id: OrgId,
    tasks: Sequence[Task],
    *,
    policy: RetryPolicy,
    leased: set[Task],
) -> int:
    """Do some of the leased work of an org, one by one if it fails together; return how much was done."""
    try:
        with work_queue.translate_connection_errors():
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
        alone = [await _do(db, worker, org_id, [task], policy=policy, leased=leased) for task in tasks]
        return sum(alone)
    await db.change(
        org_id,
        lambda conn: work_queue.fail(conn, org_id, worker.queue, tasks, error=reason, retries=policy.retries),
    )
    leased.difference_update(tasks)
    return 0


async def _release(db: Database, worker: Worker, leased: Iterable[Task]) -> None:
    """Give work back; where the database has gone, the lease does it later."""
    with contextlib.suppress(DatabaseUnavailable, TimeoutError), work_queue.translate_connection_errors():
        async with asyncio.timeout(RELEASE_TIMEOUT):
            for org_id, tasks in _by_org(leased).items():
                await db.change(
                    org_id, partial(work_queue.release, org_id=org_id, queue=worker.queue, tasks=tasks)
                )


def _by_org(tasks: Iterable[Task]) -> dict[OrgId, list[Task]]:
    by_org: dict[OrgId, list[Task]] = defaultdict(list)
    for task in tasks:
        by_org[task.org_id].append(task)
    return by_org


def _report(progress: Progress | None, finished: StepResult) -> None:
    if finished.done and progress is not None:
        progress(finished.done)


async def _count(
    db: Database, worker: Worker, only_org: OrgId | None, *, without: Collection[OrgId] = ()
) -> work_queue.WorkCount:
    async with db.system_connection() as conn:
        return await work_queue.count(conn, worker.queue, only_org, without=without)


async def _run_concurrently(lanes: Sequence[Coroutine[Any, Any, Done]]) -> list[Done]:
    """Return what each lane returns; when one fails or the caller is cancelled, all end first."""
    tasks = [asyncio.create_task(lane) for lane in lanes]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _until_first(*waits: Awaitable[object]) -> None:
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
