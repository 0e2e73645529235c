"""A worker's heartbeat: it goes round the orgs and says that it is there."""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from uuid import UUID

from roomlore.domain.ids import OrgId
from roomlore.store import heartbeats
from roomlore.store.db import Database
from roomlore.workers.rounds import Rounds, orgs

#: How often it does. Whoever was not seen for several times as long has ended, or is stuck.
EVERY_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """The heartbeat of one worker."""

    db: Database
    worker_id: UUID
    started_at: datetime
    every: float = EVERY_SECONDS

    async def run(self, stop: asyncio.Event) -> None:
        """Beat until told to stop, and then leave no trace.

        Raises:
            DatabaseUnavailable: the server went away.
        """
        await Rounds(db=self.db, visit=self._beat, doing="beating", every=self.every).run(stop)
        for org_id in await orgs(self.db):
            end = partial(heartbeats.end, org_id=org_id, worker_id=self.worker_id)
            await self.db.change(org_id, end)

    async def _beat(self, org_id: OrgId) -> None:
        beat = partial(heartbeats.beat, org_id=org_id, worker_id=self.worker_id, started_at=self.started_at)
        await self.db.change(org_id, beat)
