"""Goes round the orgs again and again, doing some of what there is in each."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from uuid import UUID

from roomlore.db import work_queue
from roomlore.db.database import Database
from roomlore.domain.errors import DatabaseUnavailable
from roomlore.domain.ids import OrgId

#: Does some of what there is in an org. Returns None where there is nothing, else for how many seconds to leave all
#: of them alone, most often 0.
VisitOrg = Callable[[OrgId], Awaitable[float | None]]

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduler:
    """Visits every org in turns."""

    db: Database
    visit: VisitOrg
    #: What is done, as the log tells it.
    task_name: str
    #: Seconds to rest after a round that found nothing.
    interval: float
    #: In which order the orgs have their turns.
    order: Callable[[list[OrgId]], Iterable[OrgId]] = iter

    async def run(self, stop: asyncio.Event) -> None:
        """Go round until told to stop.

        Raises:
            DatabaseUnavailable: the server went away.
        """
        while not stop.is_set():
            if rest := await self._run_once(stop):
                try:
                    await asyncio.wait_for(stop.wait(), rest)
                except TimeoutError:
                    continue

    async def _run_once(self, stop: asyncio.Event) -> float:
        """Visit each org once; return how many seconds to rest."""
        rest = self.interval
        try:
            with work_queue.translate_connection_errors():
                for org_id in self.order(await orgs(self.db)):
                    if stop.is_set():
                        break
                    pause = await self.visit(org_id)
                    if pause:
                        return pause
                    rest = rest if pause is None else 0.0
        except DatabaseUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  whatever breaks here must not stop those who embed and untangle
            # The kind of error only: its text may quote what somebody said.
            LOG.warning("%s: %s; trying again later", self.task_name, type(error).__name__)
            return self.interval
        return rest


async def orgs(db: Database, only_org: OrgId | None = None) -> list[OrgId]:
    """Return every org, or the only one that is wanted."""
    if only_org is not None:
        return [only_org]
    async with db.system_connection() as conn:
        return await work_queue.org_ids(conn)


#: How often it does. Whoever was not seen for several times as long has ended, or is stuck.
HEARTBEAT_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatTask:
    """The heartbeat of one worker."""

    db: Database
    worker_id: UUID
    started_at: datetime
    interval: float = HEARTBEAT_SECONDS

    async def run(self, stop: asyncio.Event) -> None:
        """Beat until told to stop, and then leave no trace.

        Raises:
            DatabaseUnavailable: the server went away.
        """
        await Scheduler(db=self.db, visit=self._record, task_name="beating", interval=self.interval).run(stop)
        for org_id in await orgs(self.db):
            end = partial(work_queue.remove_heartbeat, org_id=org_id, worker_id=self.worker_id)
            await self.db.change(org_id, end)

    async def _record(self, org_id: OrgId) -> None:
        beat = partial(
            work_queue.record_heartbeat, org_id=org_id, worker_id=self.worker_id, started_at=self.started_at
        )
        await self.db.change(org_id, beat)
