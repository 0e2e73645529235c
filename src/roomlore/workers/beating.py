"""A worker's heartbeat: it goes round the orgs and says that it is there."""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from uuid import UUID

from roomlore.domain.ids import OrgId
from roomlore.store import heartbeats
from roomlore.store.db import Database
from roomlore.workers.rounds import Scheduler, orgs

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
            end = partial(heartbeats.remove_heartbeat, org_id=org_id, worker_id=self.worker_id)
            await self.db.change(org_id, end)

    async def _record(self, org_id: OrgId) -> None:
        beat = partial(heartbeats.record_heartbeat, org_id=org_id, worker_id=self.worker_id, started_at=self.started_at)
        await self.db.change(org_id, beat)
