"""What is known of the rooms and messages that lines of raw logs may be of."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from roomlore.db.erased import MessageName, RoomName
from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import OrgId, RoomId

QUERIES = Queries("raw_logs")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRoom:
    """A room as its platform names it, and whether all of the org may read it."""

    id: RoomId
    platform: str
    room: str
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipRow:
    """The viewer's membership of a room; None for always, and for still."""

    room_id: RoomId
    joined_at: datetime | None
    left_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomWithRemovals:
    """A room in which something was removed, or is kept from somebody."""

    platform: str
    room: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedText:
    """A text that repeats what is withheld, by its place in a list, from 1."""

    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SuppressedValue:
    """The digest of a value that is to be forgotten."""

    mark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformName:
    """The name of a platform."""

    platform: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessageName:
    """A message's place as its platform names it."""

    platform: str
    room: str
    external_id: str


async def rooms_named(conn: Connection, org_id: OrgId, names: Collection[RoomName]) -> list[NamedRoom]:
    """Return those of these rooms that the viewer may see."""
    params = {"org_id": org_id, "platform": [name[0] for name in names], "room": [name[1] for name in names]}
    return await QUERIES.all(conn, "rooms_named", NamedRoom, params)


async def membership_periods(conn: Connection, room_ids: Collection[RoomId]) -> list[MembershipRow]:
    """Return when the viewer was a member of these rooms; nothing for the operator."""
    return await QUERIES.all(conn, "stays", MembershipRow, {"room_ids": list(room_ids)})


async def rooms_with_removals(conn: Connection, org_id: OrgId) -> set[RoomName]:
    """Return the rooms in which something was redacted or erased."""
    rows = await QUERIES.all(conn, "removed_in", RoomWithRemovals, {"org_id": org_id})
    return {(row.platform, row.room) for row in rows}


async def rooms_with_restrictions(conn: Connection, org_id: OrgId) -> set[RoomName]:
    """Return the rooms in which something is kept from somebody by a request."""
    rows = await QUERIES.all(conn, "withheld_in", RoomWithRemovals, {"org_id": org_id})
    return {(row.platform, row.room) for row in rows}


async def restricted_repeats(conn: Connection, org_id: OrgId, texts: Sequence[str]) -> set[str]:
    """Return those of some texts that repeat what a request withholds; for the operator's connection."""
    rows = await QUERIES.all(conn, "repeating", RepeatedText, {"org_id": org_id, "texts": list(texts)})
    return {texts[row.place - 1] for row in rows}


async def suppressed_values(conn: Connection, org_id: OrgId) -> set[str]:
    """Return the digests of the values that requests want forgotten; for the operator's connection."""
    return {row.mark for row in await QUERIES.all(conn, "marked", SuppressedValue, {"org_id": org_id})}


async def platforms(conn: Connection, org_id: OrgId) -> list[str]:
    """Return the platforms of all rooms."""
    return [row.platform for row in await QUERIES.all(conn, "platforms", PlatformName, {"org_id": org_id})]


async def stored_messages(conn: Connection, org_id: OrgId, places: Sequence[MessageName]) -> set[MessageName]:
    """Return those of these places at which there is a message, or was one."""
    params = {
        "org_id": org_id,
        "platform": [place[0] for place in places],
        "room": [place[1] for place in places],
        "external_id": [place[2] for place in places],
    }
    rows = await QUERIES.all(conn, "stored", StoredMessageName, params)
    return {(row.platform, row.room, row.external_id) for row in rows}
