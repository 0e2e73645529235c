"""Listens again to messages that took too long to be listened to for requests of privacy when they came in.

A request that is heard now is settled where its message stands, as one is whose message comes late. What takes too long
at every attempt is set aside like all other work.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from roomlore.db import directory, erased, work_queue
from roomlore.db.database import Database
from roomlore.db.privacy_requests import RoomMessage, messages_by_id
from roomlore.db.queries import Connection
from roomlore.db.work_queue import QueueName, Task
from roomlore.domain.clock import utc_now
from roomlore.domain.ids import OrgId
from roomlore.domain.records import Viewer
from roomlore.privacy import enforcement
from roomlore.privacy.screening import Screened, screen


class DetectionTookTooLong(Exception):
    """A message could not be listened to in time once more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyRequestWorker:
    """Hears requests in messages that were not listened to in time."""

    db: Database
    now: Callable[[], datetime] = utc_now
    #: One: each may take all the time that a text has.
    batch: int = 1
    queue: QueueName = "listen"

    async def begin(self, only_org: OrgId | None) -> None:
        """Do nothing: whoever stores a message asks for it to be listened to."""

    async def do(self, org_id: OrgId, tasks: Sequence[Task]) -> int:
        """Listen to these messages and hear what they ask; return how many that were.

        Raises:
            DetectionTookTooLong: one of them takes too long again.
        """
        async with self.db.read_transaction(Viewer.operator(org_id)) as conn:
            said = await messages_by_id(conn, org_id, [task.subject_id for task in tasks])
        listened = await screen(one.body for one in said)
        if None in listened.values():
            raise DetectionTookTooLong
        await self.db.change(
            org_id, partial(self._store_requests, org_id=org_id, tasks=tasks, said=said, listened=listened)
        )
        return len(tasks)

    async def tidy(self) -> None:
        """Do nothing."""

    async def _store_requests(
        self,
        conn: Connection,
        org_id: OrgId,
        *,
        tasks: Sequence[Task],
        said: Sequence[RoomMessage],
        listened: Screened,
    ) -> None:
        await erased.lock_shared(conn, org_id)
        rooms = {one.room_id for one in said}
        await directory.lock_rooms(conn, rooms)
        current = await work_queue.finish(conn, org_id, self.queue, tasks)
        bodies = {one.id: one.body for one in said if one.id in current}
        await enforcement.apply(conn, org_id, bodies, rooms=rooms, at=self.now(), screened=listened)
