"""Rooms as operators arrange them: who may read one, what it is called, who its members are, and that it goes."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from roomlore.db import projections
from roomlore.db.erased import RoomName, digest_of
from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import MemoryId, OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import RoomKind, Visibility
from roomlore.domain.records import RoomMember

QUERIES = Queries("rooms")
#: What of a room goes in one statement, in an order that the references between tables allow.
ROOM_STATEMENTS = (
    ("waiting work", "drop_work"),
    ("readings", "drop_readings"),
    ("withheld", "drop_withheld"),
    ("wishes", "drop_wishes"),
    ("injections", "drop_injections"),
    ("encounters", "drop_encounters"),
    ("conversations", "drop_conversations"),
    ("changes", "drop_changes"),
    ("calls", "drop_calls"),
    ("ranges", "drop_ranges"),
    ("activity", "drop_activity"),
    ("memberships", "drop_memberships"),
    ("rooms", "drop_room"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomState:
    """A room, who may read it, and how many messages those may read."""

    id: RoomId
    platform: str
    external_id: str
    workspace: str
    name: str
    kind: RoomKind
    visibility: Visibility
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVisibility:
    """How a platform names a room, and who may read it."""

    platform: str
    external_id: str
    visibility: Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRow:
    """What a statement changed or found."""

    id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedRoom:
    """An erased room, known by its digest only."""

    digest: bytes


async def room_state(conn: Connection, org_id: OrgId, room_id: RoomId) -> RoomState:
    """Return a room that is there."""
    row = await QUERIES.first(conn, "standing", RoomState, {"org_id": org_id, "room_id": room_id})
    assert row is not None
    return row


async def visibilities(
    conn: Connection, org_id: OrgId, names: Sequence[RoomName]
) -> dict[RoomName, Visibility]:
    """Return who may read those of these rooms that are there."""
    params = {
        "org_id": org_id,
        "platform": [name[0] for name in names],
        "external_id": [name[1] for name in names],
    }
    rows = await QUERIES.all(conn, "visibilities", StoredVisibility, params)
    return {(row.platform, row.external_id): row.visibility for row in rows}


async def closed_rooms(conn: Connection, org_id: OrgId, room_ids: Iterable[RoomId]) -> set[RoomId]:
    """Return those of these rooms that are for their members."""
    params = {"org_id": org_id, "room_ids": list(room_ids)}
    return {RoomId(row.id) for row in await QUERIES.all(conn, "closed", ChangedRow, params)}


async def set_visibility(
    conn: Connection, org_id: OrgId, room_ids: Iterable[RoomId], visibility: Visibility
) -> None:
    """Say who may read rooms; copies follow."""
    params = {"org_id": org_id, "room_ids": list(room_ids), "visibility": visibility}
    changed = await QUERIES.all(conn, "set_visibility", ChangedRow, params)
    await projections.enqueue_nodes(conn, org_id, [row.id for row in changed])


async def rename(conn: Connection, org_id: OrgId, room_id: RoomId, name: str) -> None:
    """Call a room by a name that stays."""
    await QUERIES.run(conn, "rename", {"org_id": org_id, "room_id": room_id, "name": name})
    await projections.enqueue_nodes(conn, org_id, [room_id])


async def members(conn: Connection, org_id: OrgId, room_id: RoomId) -> list[RoomMember]:
    """Return who is and was a member of a room, those who are first."""
    return await QUERIES.all(conn, "members", RoomMember, {"org_id": org_id, "room_id": room_id})


async def add_member(
    conn: Connection, org_id: OrgId, room_id: RoomId, participant_id: ParticipantId, *, since: datetime | None
) -> None:
    """Make somebody a member of a room from a time on; None is since ever."""
    params = {"org_id": org_id, "room_id": room_id, "participant_id": participant_id, "since": since}
    if not await QUERIES.all(conn, "confirm_member", ChangedRow, params):
        await QUERIES.run(conn, "add_member", params)
    await projections.enqueue_nodes(conn, org_id, [participant_id])


async def remove_member(
    conn: Connection, org_id: OrgId, room_id: RoomId, accounts: Iterable[ParticipantId], *, at: datetime
) -> bool:
    """End the presence of somebody in a room, by whatever account; return whether they were there."""
    params = {"org_id": org_id, "room_id": room_id, "participant_ids": list(accounts), "at": at}
    moved = {row.id for row in await QUERIES.all(conn, "remove_member", ChangedRow, params)}
    await projections.enqueue_nodes(conn, org_id, moved)
    return bool(moved)


async def memories_asserted_in(conn: Connection, org_id: OrgId, room_id: RoomId) -> list[MemoryId]:
    """Return the memories that were asserted in a room."""
    rows = await QUERIES.all(conn, "asserted_in", ChangedRow, {"org_id": org_id, "room_id": room_id})
    return [MemoryId(row.id) for row in rows]


async def drop(conn: Connection, org_id: OrgId, room: RoomState, *, at: datetime) -> Counter[str]:
    """Remove a room of which no message is left and keep it out from now on; return how much of what went."""
    params = {"org_id": org_id, "room_id": room.id}
    digest = room_digest(org_id, (room.platform, room.external_id))
    await QUERIES.run(conn, "remember_room", {"org_id": org_id, "digest": digest, "at": at})
    there = {row.id for row in await QUERIES.all(conn, "members_of", ChangedRow, params)}
    await projections.enqueue_nodes(conn, org_id, [room.id, *there])
    tally = Counter[str]()
    for what, statement in ROOM_STATEMENTS:
        tally[what] += await QUERIES.run(conn, statement, params)
    return tally


def room_digest(org_id: OrgId, name: RoomName) -> bytes:
    """Return what an erased room is recognised by, made as that of an account from platform and external id."""
    return digest_of(org_id, name)


async def erased_rooms(conn: Connection, org_id: OrgId, names: Sequence[RoomName]) -> frozenset[RoomName]:
    """Return those of these rooms that were erased whole."""
    digests = {room_digest(org_id, name): name for name in names}
    params = {"org_id": org_id, "digest": list(digests)}
    rows = await QUERIES.all(conn, "erased_rooms", ErasedRoom, params)
    return frozenset(digests[row.digest] for row in rows)
