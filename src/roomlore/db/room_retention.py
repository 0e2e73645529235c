"""How long rooms keep messages."""

from dataclasses import dataclass
from datetime import datetime

from roomlore.db.queries import Connection, Queries
from roomlore.domain.errors import NotFound
from roomlore.domain.ids import OrgId, RoomId
from roomlore.domain.retention import RetentionPolicy

QUERIES = Queries("room_retention")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomWithRetention:
    """A room with a retention period."""

    room_id: RoomId
    platform: str
    room: str
    kept_since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OldMessages:
    """The number of messages before a time, with the times of the first and last."""

    messages: int
    oldest_at: datetime | None
    newest_at: datetime | None


@QUERIES.query
async def rooms_with_retention(
    conn: Connection, org_id: OrgId, room_id: RoomId | None = None, *, now: datetime
) -> list[RoomWithRetention]:
    """Return the rooms with a retention period, or the given room if it has one.

    A shorter period counts only after its grace time, by the clock of the database.
    """
    ...


async def retention_now(conn: Connection, org_id: OrgId, room_id: RoomId) -> tuple[RetentionPolicy, datetime]:
    """Return the retention of a room and the time by the clock of the database.

    The retention is locked for a change.
    """
    now = await _lock_retention(conn, org_id, room_id)
    policy = await retention_of(conn, org_id, room_id)
    assert now is not None
    return policy, now


@QUERIES.query
async def _lock_retention(conn: Connection, org_id: OrgId, room_id: RoomId) -> datetime | None: ...


async def retention_of(conn: Connection, org_id: OrgId, room_id: RoomId) -> RetentionPolicy:
    """Return the retention of a room."""
    policy = await _find_retention(conn, org_id, room_id)
    if policy is None:
        raise NotFound("room", str(room_id))
    return policy


@QUERIES.query
async def _find_retention(conn: Connection, org_id: OrgId, room_id: RoomId) -> RetentionPolicy | None: ...


@QUERIES.query
async def set_retention(conn: Connection, org_id: OrgId, room_id: RoomId, policy: RetentionPolicy) -> None:
    """Set the retention of a room."""
    ...


@QUERIES.query
async def messages_before(conn: Connection, org_id: OrgId, room_id: RoomId, before: datetime) -> OldMessages:
    """Return the number of messages in a room before a time; tombstones do not count."""
    ...
