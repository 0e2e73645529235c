"""Queue workers and their loop: take tasks, do the slow part without a connection, write the result.

If a worker dies, nothing is lost: its tasks are due again when their lease ends. If a worker loses the database, it
waits and then continues. `jobs.scheduler` has the other loop, which visits one org after another.
"""

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from roomlore.db import work_queue
from roomlore.db.database import Database
from roomlore.db.queries import Connection
from roomlore.db.work_queue import QueueName, RetrySchedule, Task
from roomlore.domain.errors import BackendUnavailable, DatabaseUnavailable, ModelUnavailable
from roomlore.domain.ids import OrgId

Done = TypeVar("Done")

LONGEST_ERROR = 100
#: The number of lanes: one batch is read and written while another is processed.
CONCURRENCY = 2
#: While other orgs have tasks, too, an org gets at most the batch size divided by this number.
FAIR_SHARE = 4
#: Seconds after which a worker that has to stop abandons its batch.
SHUTDOWN_TIMEOUT = 10.0
#: Seconds for releasing a task. If the release fails, the task is due again when its lease ends.
RELEASE_TIMEOUT = 3.0

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Lease, retries and polling of a worker."""

    #: The time after which a leased task is due again if it was neither finished nor released.
    lease: timedelta
    retries: RetrySchedule
    #: Seconds between two polls if no notification arrives, and the pause during an outage.
    poll_seconds: float


DEFAULT_POLICY = RetryPolicy(
    lease=timedelta(minutes=2),
    retries=RetrySchedule(first_after=timedelta(seconds=1), last_attempt=5),
    poll_seconds=2.0,
)
#: For drains. Somebody waits for their end, so tasks are retried soon and given up soon.
DRAIN_POLICY = replace(
    DEFAULT_POLICY,
    retries=RetrySchedule(first_after=timedelta(milliseconds=10), last_attempt=5),
    poll_seconds=0.2,
)

#: Starts the database again, if Roomlore runs the database itself.
Reconnect = Callable[[], Awaitable[None]]
#: Runs until told to stop. It is started again after an outage.
PeriodicTask = Callable[[asyncio.Event], Awaitable[None]]
#: Called after each batch with the number of messages.
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueWorker(ABC):
    """A queue and the way to do its tasks. `run` and `drain` do everything else."""

    db: Database
    queue: QueueName
    #: The number of tasks taken at once. It is small enough that a batch takes only seconds.
    batch: int

    @abstractmethod
    async def do(self, org_id: OrgId, tasks: Sequence[Task]) -> int:
        """Do the tasks and write the result; return the number of messages done. Raise an error if any task failed."""

    async def begin(self, only_org: OrgId | None) -> None:  # noqa: B027  optional
        """Enqueue missing tasks of one org or of all orgs. It is called before the first batch."""

    async def tidy(self) -> None:  # noqa: B027  optional
        """Clean up. It is called each time the queue becomes empty after work."""

    def orgs_backing_off(self) -> Collection[OrgId]:
        """Return the orgs whose tasks have to wait, because their server is down."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainResult:
    """The result of a drain."""

    #: Messages that were processed.
    done: int
    #: Tasks of this queue that have failed for good, now or earlier.
    dead_lettered: int
    #: Messages erased by retention.
    expired: int = 0
    #: Messages that were assigned to conversations.
    disentangled: int = 0
    #: Memories that were extracted.
    remembered: int = 0
    #: Projection servers that are down. Their updates stay pending.
    failing: Sequence[str] = ()
    #: Embedding models that are down. Their texts stay pending.
    unembedded: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """The result of one batch."""

    #: The number of tasks that were taken.
    taken: int
    #: The number of messages that were processed.
    done: int


async def drain(
    worker: QueueWorker,
    *,
    only_org: OrgId | None = None,
    progress: Progress | None = None,
    policy: RetryPolicy = DRAIN_POLICY,
) -> DrainResult:
    """Work until the queue is empty; wait for tasks that other workers have leased.

    Raises DatabaseUnavailable in an outage.
    """
    finishing = asyncio.Event()

    async def until_empty() -> int:
        nonlocal finishing
        done = 0
        while True:
            another = finishing
            result = await step(worker, only_org=only_org, policy=policy)
            done += result.done
            _report(progress, result)
            if result.taken:
                # Wake the idle lane: the tasks of this batch may be due again, or everything may be done.
                finishing.set()
                finishing = asyncio.Event()
            elif not (await _count(worker, only_org, without=worker.orgs_backing_off())).waiting:
                return done
            else:
                await _until_first(another.wait(), asyncio.sleep(policy.poll_seconds))

    with work_queue.translate_connection_errors():
        await worker.begin(only_org)
        done = sum(await _run_concurrently([until_empty() for _ in range(CONCURRENCY)]))
        if done:
            await worker.tidy()
        return DrainResult(done=done, dead_lettered=(await _count(worker, only_org)).dead_lettered)


async def run(
    worker: QueueWorker,
    *,
    stop: asyncio.Event,
    reconnect: Reconnect | None = None,
    progress: Progress | None = None,
    policy: RetryPolicy = DEFAULT_POLICY,
    tasks: Sequence[PeriodicTask] = (),
) -> None:
    """Work until `stop` is set, also through outages.

    Notifications wake the worker; polling finds the changes that notifications missed. In an outage, `reconnect` is
    called before each new attempt to reach the database. `tasks` run at the same time.
    """
    running = _RunningWorker(worker=worker, stop=stop, reconnect=reconnect, progress=progress, policy=policy)
    parts = [partial(worker.begin, None), running.listen, *(running.work for _ in range(CONCURRENCY))]
    parts += [partial(task, stop) for task in tasks]

    async def set_limit() -> None:
        await stop.wait()
        limit.reschedule(asyncio.get_running_loop().time() + SHUTDOWN_TIMEOUT)

    limit = asyncio.timeout(None)
    try:
        async with limit:
            await _run_concurrently([set_limit(), *(running.through_outages(part) for part in parts)])
    except TimeoutError:
        if not limit.expired():
            raise


@dataclass(slots=True, kw_only=True)
class _RunningWorker:
    """The state that the parts of a running worker share."""

    worker: QueueWorker
    stop: asyncio.Event
    reconnect: Reconnect | None
    progress: Progress | None
    policy: RetryPolicy
    wake_event: asyncio.Event = field(default_factory=asyncio.Event)
    idle_count: int = 0
    needs_tidying: bool = False

    async def through_outages(self, part: Callable[[], Awaitable[None]]) -> None:
        """Run a part of the worker until it ends. After an outage, start the part again."""
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
        while not self.stop.is_set():
            result = await step(self.worker, policy=self.policy)
            self.needs_tidying = self.needs_tidying or result.done > 0
            _report(self.progress, result)
            if not result.taken:
                await self._wait_for_work()

    async def _wait_for_work(self) -> None:
        self.idle_count += 1
        try:
            # The last lane to become idle cleans up, because then no lane waits for the locks.
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
        async with self.worker.db.listening(work_queue.CHANNEL) as wake:
            while not self.stop.is_set():
                await _until_first(self.stop.wait(), wake(self.policy.poll_seconds))
                self.wake_event.set()


async def step(
    worker: QueueWorker, *, only_org: OrgId | None = None, policy: RetryPolicy = DEFAULT_POLICY
) -> StepResult:
    """Take one batch and do it. If it is interrupted, release its tasks at once."""
    tasks: list[Task] = []
    leased: set[Task] = set()
    try:
        async with worker.db.system_connection() as conn:
            tasks += await _take(conn, worker, only_org, policy=policy)
            leased.update(tasks)
        done = 0
        for org_id, org_tasks in _by_org(tasks).items():
            done += await _do(worker, org_id, org_tasks, policy=policy, leased=leased)
    except BaseException:
        await asyncio.shield(_release(worker, leased))
        raise
    return StepResult(taken=len(tasks), done=done)


async def _take(
    conn: Connection, worker: QueueWorker, only_org: OrgId | None, *, policy: RetryPolicy
) -> list[Task]:
    """Take a fair share of the tasks of every org, then fill the batch.

    A task that failed before is taken alone.
    """
    share, without = max(worker.batch // FAIR_SHARE, 1), worker.orgs_backing_off()
    take = partial(work_queue.take, conn, worker.queue, only_org, lease=policy.lease, without=without)
    tasks = await take(per_org=share, total=worker.batch)
    if not tasks:
        return await work_queue.take_poison(conn, worker.queue, only_org, lease=policy.lease, without=without)
    free = worker.batch - len(tasks)
    if free:
        tasks += await take(per_org=free, total=free)
    return tasks


async def _do(
    worker: QueueWorker,
    org_id: OrgId,
    tasks: Sequence[Task],
    *,
    policy: RetryPolicy,
    leased: set[Task],
) -> int:
    """Do leased tasks of an org together; if they fail together, do them one by one.

    Return the number of messages.
    """
    try:
        with work_queue.translate_connection_errors():
            done = await worker.do(org_id, tasks)
    except (ModelUnavailable, DatabaseUnavailable, BackendUnavailable):
        raise
    except Exception as error:  # noqa: BLE001  one subject must not stop the others
        # Only the type of the error: its text may quote a message.
        reason = type(error).__name__[:LONGEST_ERROR]
    else:
        leased.difference_update(tasks)
        return done
    if len(tasks) > 1:
        alone = [await _do(worker, org_id, [task], policy=policy, leased=leased) for task in tasks]
        return sum(alone)
    await worker.db.change(
        org_id,
        lambda conn: work_queue.fail(conn, org_id, worker.queue, tasks, error=reason, retries=policy.retries),
    )
    leased.difference_update(tasks)
    return 0


async def _release(worker: QueueWorker, leased: Iterable[Task]) -> None:
    """Release tasks, so that they are due at once. If the database is down, they are due when their lease ends."""
    with contextlib.suppress(DatabaseUnavailable, TimeoutError), work_queue.translate_connection_errors():
        async with asyncio.timeout(RELEASE_TIMEOUT):
            for org_id, tasks in _by_org(leased).items():
                await worker.db.change(
                    org_id, partial(work_queue.release, org_id=org_id, queue=worker.queue, tasks=tasks)
                )


def _by_org(tasks: Iterable[Task]) -> dict[OrgId, list[Task]]:
    by_org: dict[OrgId, list[Task]] = defaultdict(list)
    for task in tasks:
        by_org[task.org_id].append(task)
    return by_org


def _report(progress: Progress | None, result: StepResult) -> None:
    if result.done and progress is not None:
        progress(result.done)


async def _count(
    worker: QueueWorker, only_org: OrgId | None, *, without: Collection[OrgId] = ()
) -> work_queue.WorkCount:
    async with worker.db.system_connection() as conn:
        return await work_queue.count(conn, worker.queue, only_org, without=without)


async def _run_concurrently(lanes: Sequence[Coroutine[Any, Any, Done]]) -> list[Done]:
    """Return the results of all lanes.

    If a lane fails or the caller is cancelled, wait until all lanes have ended before the error is raised.
    """
    tasks = [asyncio.create_task(lane) for lane in lanes]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            # A second cancellation would end a lane while it releases its tasks.
            if not task.cancelling():
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _until_first(*waits: Awaitable[object]) -> None:
    """Wait until one of the awaitables ends, and cancel the others.

    If the awaitable that ended failed, raise its error.
    """
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
