"""The rooms and messages to which lines of raw logs may belong."""

from collections.abc import Collection
from dataclasses import dataclass

from roomlore.db.erasure_guard import MessageName, RoomName
from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import OrgId, RoomId

QUERIES = Queries("raw_logs")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRoom:
    """A room by its platform name, and whether the whole org may read it."""

    id: RoomId
    platform: str
    room: str
    is_open: bool


@QUERIES.query
async def rooms_named(conn: Connection, org_id: OrgId, names: Collection[RoomName]) -> list[NamedRoom]:
    """Return the given rooms that the viewer may see."""
    ...


@QUERIES.query
async def rooms_with_removals(conn: Connection, org_id: OrgId) -> set[RoomName]:
    """Return the rooms with redacted or erased messages."""
    ...


@QUERIES.query
async def rooms_with_restrictions(conn: Connection, org_id: OrgId) -> set[RoomName]:
    """Return the rooms with active privacy requests."""
    ...


@QUERIES.query
async def restricted_repeats(conn: Connection, org_id: OrgId, texts: Collection[str]) -> set[str]:
    """Return the given texts that contain a whole restricted message. For the operator."""
    ...


@QUERIES.query
async def suppressed_values(conn: Connection, org_id: OrgId) -> set[str]:
    """Return the digests of the values that privacy requests name. For the operator."""
    ...


@QUERIES.query
async def platforms(conn: Connection, org_id: OrgId) -> list[str]:
    """Return the platforms of all rooms."""
    ...


@QUERIES.query
async def stored_messages(
    conn: Connection, org_id: OrgId, names: Collection[MessageName]
) -> set[MessageName]:
    """Return the given message names that belong to a stored message or its tombstone."""
    ...
