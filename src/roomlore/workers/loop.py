"""Takes work, does the slow part without holding a connection, writes it back, notes failures.

A worker that dies loses nothing: what it had taken is due again when its lease ends.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from roomlore.domain.errors import ModelUnavailable
from roomlore.domain.ids import OrgId
from roomlore.store import work
from roomlore.store.db import Database
from roomlore.store.work import Stage, Task

LEASE = timedelta(minutes=2)
LAST_ATTEMPT = 5
#: Notifications wake a worker at once; this is how long it sleeps if one is missed.
POLL_SECONDS = 2.0
LONGEST_ERROR = 500

#: Called after each batch with how many subjects were done.
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

    async def do(self, org_id: OrgId, tasks: Sequence[Task]) -> None:
        """Do the work and write it back; raises if any of it failed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """What a drain did."""

    done: int
    #: Work of this stage that was set aside after its last attempt, over all time.
    set_aside: int


async def drain(db: Database, worker: Worker, *, progress: Progress | None = None) -> Drained:
    """Work until nothing is left, waiting for what others have leased, and return what was done."""
    done = 0
    while True:
        finished = await step(db, worker)
        done += finished
        if finished and progress is not None:
            progress(finished)
        if not finished:
            async with db.outside_orgs() as conn:
                left = await work.count(conn, worker.stage)
            if not left.waiting:
                return Drained(done=done, set_aside=left.set_aside)
            await asyncio.sleep(POLL_SECONDS / 10)


async def run(db: Database, worker: Worker, *, stop: asyncio.Event, progress: Progress | None = None) -> None:
    """Work until told to stop, woken by notifications with a poll behind them."""
    async with db.listening(work.CHANNEL) as wake:
        while not stop.is_set():
            done = await step(db, worker)
            if done and progress is not None:
                progress(done)
            if not done:
                await _first_of(stop.wait(), wake(POLL_SECONDS))


async def step(db: Database, worker: Worker) -> int:
    """Take one batch and do it; return how many subjects were taken."""
    async with db.outside_orgs() as conn:
        tasks = await work.take(conn, worker.stage, per_org=worker.batch, total=worker.batch, lease=LEASE)
    by_org: dict[OrgId, list[Task]] = defaultdict(list)
    for task in tasks:
        by_org[task.org_id].append(task)
    for org_id, mine in by_org.items():
        await _do(db, worker, org_id, mine)
    return len(tasks)


async def _do(db: Database, worker: Worker, org_id: OrgId, tasks: Sequence[Task]) -> None:
    try:
        await worker.do(org_id, tasks)
    except asyncio.CancelledError:
        await asyncio.shield(db.change(org_id, lambda conn: work.release(conn, org_id, worker.stage, tasks)))
        raise
    except ModelUnavailable:
        await db.change(org_id, lambda conn: work.release(conn, org_id, worker.stage, tasks))
        raise
    except Exception as error:  # noqa: BLE001  whatever one subject breaks must not stop the others
        if len(tasks) > 1:
            for task in tasks:
                await _do(db, worker, org_id, [task])
            return
        # The kind of error only: its text may quote what somebody said.
        reason = type(error).__name__[:LONGEST_ERROR]
        await db.change(
            org_id,
            lambda conn: work.fail(
                conn, org_id, worker.stage, tasks, error=reason, last_attempt=LAST_ATTEMPT
            ),
        )


async def _first_of(*waits: Awaitable[object]) -> None:
    """Return when the first of these is done; the others are cancelled."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
