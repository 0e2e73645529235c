"""Erases what is older than its room keeps, now and then, in every org.

A portion is one transaction with its receipt, so that a room with a long past does not hold up writers. What
breaks in one room is logged and tried again the next time: neither other rooms nor the worker wait for it.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

from roomlore.db import audit_log, erased, idempotency, outbox, work_queue
from roomlore.db.database import Database
from roomlore.db.queries import Connection
from roomlore.domain.errors import DatabaseUnavailable
from roomlore.domain.ids import OrgId, RoomId, lowest_id_at
from roomlore.domain.receipts import Receipt
from roomlore.domain.records import Viewer
from roomlore.privacy.erasure import Erasure, verify
from roomlore.privacy.erasure import expire as expire_portion

ACTION = "expire"
#: How often a running worker looks.
INTERVAL_SECONDS = 60.0
#: Whoever listens and was away for longer begins anew.
CHANGE_RETENTION = timedelta(days=30)

#: Called with how many messages went.
OnExpired = Callable[[int], None]

LOG = logging.getLogger(__name__)


async def expire(db: Database, org_id: OrgId, *, now: datetime, by: Viewer | None = None) -> list[Receipt]:
    """Erase what is older than its room keeps in one org; return a receipt for each portion that went.

    Args:
        db: Where.
        org_id: Whose rooms.
        now: What is old is old at this time.
        by: Who asked for it; the operator without a key by default.
    """
    found: list[Receipt] = []
    for room_id in await _rooms_with_retention(db, org_id, now=now):
        await _expire_room(db, org_id, room_id, now=now, by=by or Viewer.operator(org_id), found=found)
    return found


async def expire_everywhere(db: Database, *, now: datetime, only_org: OrgId | None = None) -> list[Receipt]:
    """Erase what is older than its room keeps in every org, or in one; return the receipts.

    A room where that breaks stops no other: it is left to the next time.

    Raises:
        DatabaseUnavailable: the server went away.
    """
    found: list[Receipt] = []
    org_ids: list[OrgId] = [] if only_org is None else [only_org]
    if only_org is None:
        async with _log_and_continue("orgs"):
            org_ids = await _org_ids(db)
    for org_id in org_ids:
        room_ids: list[RoomId] = []
        async with _log_and_continue(f"org {org_id}"):
            room_ids = await _rooms_with_retention(db, org_id, now=now)
        for room_id in room_ids:
            async with _log_and_continue(f"room {room_id}"):
                await _expire_room(db, org_id, room_id, now=now, by=Viewer.operator(org_id), found=found)
        async with _log_and_continue(f"changes of org {org_id}"):
            await db.change(org_id, partial(_tidy, org_id=org_id, now=now))
    return found


async def run(
    db: Database,
    stop: asyncio.Event,
    *,
    interval: float = INTERVAL_SECONDS,
    on_expired: OnExpired | None = None,
) -> None:
    """Erase what is older than its room keeps, again and again, until told to stop; tell how much went."""
    while not stop.is_set():
        count = message_count(await expire_everywhere(db, now=datetime.now(UTC)))
        if count and on_expired is not None:
            on_expired(count)
        try:
            await asyncio.wait_for(stop.wait(), interval)
        except TimeoutError:
            continue


def message_count(found: Iterable[Receipt]) -> int:
    """Return how many messages these receipts tell of."""
    return sum(part.count for receipt in found for part in receipt.removed if part.what == "messages")


@asynccontextmanager
async def _log_and_continue(what: str) -> AsyncGenerator[None]:
    """Log what breaks inside the block and go on behind it; an outage is nothing to go on from."""
    try:
        with work_queue.translate_connection_errors():
            yield
    except DatabaseUnavailable:
        raise
    except Exception as error:  # noqa: BLE001  whatever one room breaks must not stop the others
        # The kind of error only: its text may quote what somebody said.
        LOG.warning("retention of %s: %s; trying again later", what, type(error).__name__)


async def _org_ids(db: Database) -> list[OrgId]:
    async with db.system_connection() as conn:
        return await work_queue.org_ids(conn)


async def _tidy(conn: Connection, org_id: OrgId, *, now: datetime) -> None:
    """Drop what is kept for a while only, for those who missed it."""
    await outbox.drop_before(conn, org_id, lowest_id_at(now - CHANGE_RETENTION))
    await idempotency.drop_before(conn, org_id, now - idempotency.RESPONSE_TTL)


async def _rooms_with_retention(db: Database, org_id: OrgId, *, now: datetime) -> list[RoomId]:
    async with db.read_transaction(Viewer.operator(org_id)) as conn:
        return [room.room_id for room in await erased.rooms_with_retention(conn, org_id, now=now)]


async def _expire_room(
    db: Database, org_id: OrgId, room_id: RoomId, *, now: datetime, by: Viewer, found: list[Receipt]
) -> None:
    """Erase what is older than a room keeps, and add a receipt for each portion, even if one breaks."""
    portion = partial(_expire, org_id=org_id, room_id=room_id, now=now, by=by)
    gone: list[Erasure] = []
    try:
        while (done := await db.change(org_id, portion)) is not None:
            gone.append(done)
        # Not before the last portion went: a receipt speaks of all that was older.
        for place, done in enumerate(gone):
            checked = await db.change(org_id, partial(verify, org_id=org_id, done=done))
            gone[place] = replace(done, receipt=checked)
    finally:
        found += [done.receipt for done in gone]


async def _expire(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, now: datetime, by: Viewer
) -> Erasure | None:
    done = await expire_portion(conn, org_id, room_id, now=now, by=by)
    if done is not None:
        subjects = [done.receipt.id, room_id]
        await audit_log.append(conn, by, ACTION, outcome="done", subject_ids=subjects)
    return done
