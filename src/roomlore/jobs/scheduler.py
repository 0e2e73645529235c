"""Jobs that visit one org after another, and the loop that these jobs share.

`jobs.runner` has the other loop: it takes queued tasks under leases.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Generic, TypeVar
from uuid import UUID

from roomlore.db import work_queue
from roomlore.db.database import Database
from roomlore.domain.errors import DatabaseUnavailable
from roomlore.domain.ids import OrgId

#: Does some work of an org. Returns the seconds to pause before the next org (usually 0), or None if no work is left.
VisitOrg = Callable[[OrgId], Awaitable[float | None]]
Outcome = TypeVar("Outcome")

HEARTBEAT_SECONDS = 10.0

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduler:
    """Visits one org after another until told to stop."""

    db: Database
    visit: VisitOrg
    #: The name of the job in the log.
    task_name: str
    #: Seconds to wait after a round without work.
    interval: float
    order: Callable[[list[OrgId]], Iterable[OrgId]] = iter

    async def run(self, stop: asyncio.Event) -> None:
        """Run rounds until `stop` is set. Raises DatabaseUnavailable in an outage."""
        while not stop.is_set():
            if pause := await self._run_once(stop):
                try:
                    await asyncio.wait_for(stop.wait(), pause)
                except TimeoutError:
                    continue

    async def _run_once(self, stop: asyncio.Event) -> float:
        """Visit each org once; return how many seconds to wait."""
        next_round = self.interval
        try:
            with work_queue.translate_connection_errors():
                for org_id in self.order(await orgs(self.db)):
                    if stop.is_set():
                        break
                    pause = await self.visit(org_id)
                    if pause:
                        return pause
                    next_round = next_round if pause is None else 0.0
        except DatabaseUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  a failing job must not stop the other ones
            # Only the type of the error: its text may quote a message.
            LOG.warning("%s: %s; trying again later", self.task_name, type(error).__name__)
            return self.interval
        return next_round


@dataclass(frozen=True, slots=True, kw_only=True)
class OrgWorker(ABC, Generic[Outcome]):
    """A job that does one piece of work after another in each org."""

    db: Database
    task_name: str
    interval: float

    @abstractmethod
    async def next(self, org_id: OrgId, *, now: datetime, stop: asyncio.Event | None = None) -> Outcome:
        """Do the next piece of work of an org and return its outcome. `stop` interrupts the work."""

    @abstractmethod
    def pause_after(self, outcome: Outcome) -> float | None:
        """Return how many seconds to pause after an outcome; None if no work is left in the org."""

    def order(self, org_ids: list[OrgId]) -> Iterable[OrgId]:
        """Return the order in which orgs are visited."""
        return org_ids

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set. Raises DatabaseUnavailable in an outage."""

        async def visit(org_id: OrgId) -> float | None:
            return self.pause_after(await self.next(org_id, now=datetime.now(UTC), stop=stop))

        scheduler = Scheduler(
            db=self.db, visit=visit, task_name=self.task_name, interval=self.interval, order=self.order
        )
        await scheduler.run(stop)

    async def drain(self, only_org: OrgId | None = None) -> list[Outcome]:
        """Work until no work is left in one org or in all orgs, or until a pause is due; return all outcomes."""
        outcomes: list[Outcome] = []
        with work_queue.translate_connection_errors():
            for org_id in await orgs(self.db, only_org):
                pause: float | None = 0.0
                while pause == 0.0:
                    outcomes.append(await self.next(org_id, now=datetime.now(UTC)))
                    pause = self.pause_after(outcomes[-1])
                if pause:
                    break
        return outcomes


async def orgs(db: Database, only_org: OrgId | None = None) -> list[OrgId]:
    """Return all orgs, or only the given org."""
    if only_org is not None:
        return [only_org]
    async with db.system_connection() as conn:
        return await work_queue.org_ids(conn)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatTask:
    """The heartbeat of a worker process. A process that has missed several heartbeats in a row has ended or hangs."""

    db: Database
    worker_id: UUID
    started_at: datetime
    interval: float = HEARTBEAT_SECONDS

    async def run(self, stop: asyncio.Event) -> None:
        """Record heartbeats until `stop` is set, then remove the worker's record."""
        await Scheduler(db=self.db, visit=self._record, task_name="heartbeat", interval=self.interval).run(
            stop
        )
        for org_id in await orgs(self.db):
            remove = partial(work_queue.remove_heartbeat, org_id=org_id, worker_id=self.worker_id)
            await self.db.change(org_id, remove)

    async def _record(self, org_id: OrgId) -> None:
        record = partial(
            work_queue.record_heartbeat, org_id=org_id, worker_id=self.worker_id, started_at=self.started_at
        )
        await self.db.change(org_id, record)
