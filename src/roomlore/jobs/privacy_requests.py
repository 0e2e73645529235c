"""Detects privacy requests in messages whose detection timed out on ingest.

A request that is detected late takes effect from the position of its message. If the detection always times out, the
task fails for good.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from roomlore.db import directory, erasure_guard, work_queue
from roomlore.db.privacy_requests import RoomMessage, messages_by_id
from roomlore.db.queries import Connection
from roomlore.db.work_queue import QueueName, Task
from roomlore.domain.clock import utc_now
from roomlore.domain.ids import OrgId
from roomlore.domain.records import Viewer
from roomlore.jobs.runner import QueueWorker
from roomlore.privacy import enforcement
from roomlore.privacy.screening import Screened, screen


class DetectionTookTooLong(Exception):
    """The detection in a message timed out again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyRequestWorker(QueueWorker):
    """Detects privacy requests in queued messages."""

    queue: QueueName = "privacy_requests"
    #: One message at a time, because each may need the full time limit.
    batch: int = 1
    now: Callable[[], datetime] = utc_now

    async def do(self, org_id: OrgId, tasks: Sequence[Task]) -> int:
        """Detect and store the requests in these messages. Raises DetectionTookTooLong."""
        async with self.db.read_transaction(Viewer.operator(org_id)) as conn:
            messages = await messages_by_id(conn, org_id, [task.subject_id for task in tasks])
        screened = await screen(message.body for message in messages)
        if None in screened.values():
            raise DetectionTookTooLong
        store = partial(self._store, org_id=org_id, tasks=tasks, messages=messages, screened=screened)
        await self.db.change(org_id, store)
        return len(tasks)

    async def _store(
        self,
        conn: Connection,
        org_id: OrgId,
        *,
        tasks: Sequence[Task],
        messages: Sequence[RoomMessage],
        screened: Screened,
    ) -> None:
        await erasure_guard.lock_shared(conn, org_id)
        rooms = {message.room_id for message in messages}
        await directory.lock_rooms(conn, rooms)
        current = await work_queue.finish(conn, org_id, self.queue, tasks)
        bodies = {message.id: message.body for message in messages if message.id in current}
        await enforcement.apply(conn, org_id, bodies, rooms=rooms, at=self.now(), screened=screened)
