"""Erases messages that are older than the retention of their room.

Each batch is one transaction with its own receipt, so a room with a long history does not block writers. An error in
one room is logged and retried in the next round. The other rooms and orgs continue.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

from roomlore.db import audit_log, idempotency, outbox, room_retention, work_queue
from roomlore.db.database import Database
from roomlore.db.queries import Connection
from roomlore.domain.errors import DatabaseUnavailable
from roomlore.domain.ids import OrgId, RoomId, lowest_id_at, uuid7
from roomlore.domain.receipts import Receipt
from roomlore.domain.records import Viewer
from roomlore.jobs.scheduler import Scheduler, orgs
from roomlore.privacy.erasure import Erasure, verify
from roomlore.privacy.erasure import expire as expire_batch

ACTION = "expire"
INTERVAL_SECONDS = 60.0
#: A subscriber that was away for longer must start again from the current state.
CHANGE_RETENTION = timedelta(days=30)

#: Called with the number of erased messages.
OnExpired = Callable[[int], None]

LOG = logging.getLogger(__name__)


async def expire(db: Database, org_id: OrgId, *, now: datetime, by: Viewer) -> list[Receipt]:
    """Erase the messages of one org that are older than the retention of their rooms.

    Return one receipt for each batch.
    """
    receipts: list[Receipt] = []
    for room_id in await _rooms_with_retention(db, org_id, now=now):
        await _expire_room(db, org_id, room_id, now=now, by=by, receipts=receipts)
    return receipts


async def expire_everywhere(db: Database, *, now: datetime, only_org: OrgId | None = None) -> list[Receipt]:
    """Erase the messages that are older than the retention of their rooms, in one org or in all orgs.

    An error in one room does not stop the others.
    """
    receipts: list[Receipt] = []
    for org_id in await orgs(db, only_org):
        room_ids: list[RoomId] = []
        async with _log_and_continue(f"org {org_id}"):
            room_ids = await _rooms_with_retention(db, org_id, now=now)
        for room_id in room_ids:
            async with _log_and_continue(f"room {room_id}"):
                operator = Viewer.operator(org_id)
                await _expire_room(db, org_id, room_id, now=now, by=operator, receipts=receipts)
        async with _log_and_continue(f"changes of org {org_id}"):
            await db.change(org_id, partial(_drop_expired_changes, org_id=org_id, now=now))
    return receipts


async def run(
    db: Database,
    stop: asyncio.Event,
    *,
    interval: float = INTERVAL_SECONDS,
    on_expired: OnExpired | None = None,
) -> None:
    """Erase expired messages of every org until `stop` is set."""

    async def visit(org_id: OrgId) -> None:
        count = message_count(await expire_everywhere(db, now=datetime.now(UTC), only_org=org_id))
        if count and on_expired is not None:
            on_expired(count)

    await Scheduler(db=db, visit=visit, task_name="retention", interval=interval).run(stop)


def message_count(receipts: Iterable[Receipt]) -> int:
    """Return how many messages were removed according to these receipts."""
    return sum(part.count for receipt in receipts for part in receipt.removed if part.what == "messages")


@asynccontextmanager
async def _log_and_continue(what: str) -> AsyncGenerator[None]:
    """Log an error raised inside the block and continue. An outage of the database is raised."""
    try:
        with work_queue.translate_connection_errors():
            yield
    except DatabaseUnavailable:
        raise
    except Exception as error:  # noqa: BLE001  an error in one room must not stop the others
        # Only the type of the error: its text may quote a message.
        LOG.warning("retention of %s: %s; trying again later", what, type(error).__name__)


async def _drop_expired_changes(conn: Connection, org_id: OrgId, *, now: datetime) -> None:
    await outbox.drop_before(conn, org_id, lowest_id_at(now - CHANGE_RETENTION))
    await idempotency.drop_before(conn, org_id, now - idempotency.RESPONSE_TTL)


async def _rooms_with_retention(db: Database, org_id: OrgId, *, now: datetime) -> list[RoomId]:
    async with db.read_transaction(Viewer.operator(org_id)) as conn:
        return [room.room_id for room in await room_retention.rooms_with_retention(conn, org_id, now=now)]


async def _expire_room(
    db: Database, org_id: OrgId, room_id: RoomId, *, now: datetime, by: Viewer, receipts: list[Receipt]
) -> None:
    """Expire a room. Append a receipt for each batch, even if a later batch fails."""
    erasures: list[Erasure] = []
    try:
        expire_next = partial(_expire_batch, org_id=org_id, room_id=room_id, now=now, by=by)
        while (erasure := await db.change(org_id, expire_next)) is not None:
            erasures.append(erasure)
        # Verified after the last batch, because the check of each receipt covers everything that is older.
        for index, erasure in enumerate(erasures):
            verified = await db.change(org_id, partial(verify, org_id=org_id, done=erasure))
            erasures[index] = replace(erasure, receipt=verified)
    finally:
        receipts += [erasure.receipt for erasure in erasures]


async def _expire_batch(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, now: datetime, by: Viewer
) -> Erasure | None:
    erasure = await expire_batch(conn, org_id, room_id, now=now, by=by)
    if erasure is not None:
        subjects = [erasure.receipt.id, room_id]
        await audit_log.append(conn, by, ACTION, line_id=uuid7(), outcome="done", subject_ids=subjects)
    return erasure
