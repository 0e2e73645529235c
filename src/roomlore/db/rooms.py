"""Rooms as operators manage them: visibility, name, members, and deletion."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from roomlore.db import directory, projections
from roomlore.db.directory import ChangedMembership
from roomlore.db.erasure_guard import RoomName, digest_of
from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import MemoryId, OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import RoomKind, Visibility
from roomlore.domain.records import RoomMember

QUERIES = Queries("rooms")
#: The rows of a room and the statements that delete them, in an order that foreign keys allow.
ROOM_STATEMENTS = (
    ("waiting work", "drop_work"),
    ("language model calls", "drop_llm_calls"),
    ("restricted messages", "drop_restricted_messages"),
    ("privacy requests", "drop_privacy_requests"),
    ("injections", "drop_injections"),
    ("interactions", "drop_interactions"),
    ("conversations", "drop_conversations"),
    ("events", "drop_outbox"),
    ("call counts", "drop_calls"),
    ("ranges", "drop_ranges"),
    ("activity", "drop_activity"),
    ("memberships", "drop_memberships"),
    ("rooms", "drop_room"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomState:
    """A room, and the number of its messages that all its readers may read."""

    id: RoomId
    platform: str
    external_id: str
    workspace: str
    name: str
    kind: RoomKind
    visibility: Visibility
    messages: int


@QUERIES.query
async def room_state(conn: Connection, org_id: OrgId, room_id: RoomId) -> RoomState:
    """Return a room, which must exist."""
    ...


@QUERIES.query
async def visibilities(
    conn: Connection, org_id: OrgId, names: Sequence[RoomName]
) -> dict[RoomName, Visibility]:
    """Return the visibility of the given rooms that exist."""
    ...


@QUERIES.query
async def closed_rooms(conn: Connection, org_id: OrgId, room_ids: Collection[RoomId]) -> set[RoomId]:
    """Return the given rooms that only members may read."""
    ...


async def set_visibility(
    conn: Connection, org_id: OrgId, room_ids: Collection[RoomId], visibility: Visibility
) -> None:
    """Set who may read rooms."""
    changed = await change_visibility(conn, org_id, room_ids, visibility)
    if visibility == "members":
        await directory.note_closed(conn, org_id, changed)
    else:
        await projections.enqueue_nodes(conn, org_id, changed)


@QUERIES.query
async def change_visibility(
    conn: Connection, org_id: OrgId, room_ids: Collection[RoomId], visibility: Visibility
) -> set[RoomId]:
    """Set who may read rooms; return the rooms that changed."""
    ...


async def rename(conn: Connection, org_id: OrgId, room_id: RoomId, name: str) -> None:
    """Rename a room."""
    await set_name(conn, org_id, room_id, name)
    await projections.enqueue_nodes(conn, org_id, [room_id])


@QUERIES.query
async def set_name(conn: Connection, org_id: OrgId, room_id: RoomId, name: str) -> None:
    """Set the name of a room. Afterwards the name no longer follows the platform."""
    ...


@QUERIES.query
async def set_context(conn: Connection, org_id: OrgId, room_id: RoomId, context_id: str) -> None:
    """Set the context of a room; an empty text removes it."""
    ...


@QUERIES.query
async def rooms_of_context(conn: Connection, org_id: OrgId, context_id: str) -> set[RoomId]:
    """Return the visible rooms of a project or issue."""
    ...


@QUERIES.query
async def members(conn: Connection, org_id: OrgId, room_id: RoomId) -> list[RoomMember]:
    """Return the current and former members of a room, current first."""
    ...


async def add_member(
    conn: Connection, org_id: OrgId, room_id: RoomId, participant_id: ParticipantId, *, since: datetime | None
) -> None:
    """Make a participant a member of a room since a time. None means since before the records begin."""
    if not await confirm_member(conn, org_id, room_id, participant_id, since=since):
        await start_membership(conn, org_id, room_id, participant_id, since=since)
    await projections.enqueue_nodes(conn, org_id, [participant_id])


@QUERIES.query
async def confirm_member(
    conn: Connection, org_id: OrgId, room_id: RoomId, participant_id: ParticipantId, *, since: datetime | None
) -> ParticipantId | None:
    """Confirm a membership, so that no member list ends it.

    Return the member, or None if the participant had not joined by `since`.
    """
    ...


@QUERIES.query
async def start_membership(
    conn: Connection, org_id: OrgId, room_id: RoomId, participant_id: ParticipantId, *, since: datetime | None
) -> None:
    """Start a membership."""
    ...


async def remove_member(
    conn: Connection, org_id: OrgId, room_id: RoomId, accounts: Collection[ParticipantId], *, at: datetime
) -> bool:
    """End the memberships of a person's accounts; return whether there were any."""
    ended = await end_membership(conn, org_id, room_id, accounts, at=at)
    await directory.note_changed(conn, org_id, ended)
    return bool(ended)


@QUERIES.query
async def end_membership(
    conn: Connection,
    org_id: OrgId,
    room_id: RoomId,
    participant_ids: Collection[ParticipantId],
    *,
    at: datetime,
) -> list[ChangedMembership]:
    """End the memberships of accounts; return these memberships."""
    ...


@QUERIES.query
async def memories_asserted_in(conn: Connection, org_id: OrgId, room_id: RoomId) -> list[MemoryId]:
    """Return the memories that were asserted in a room."""
    ...


async def drop(conn: Connection, org_id: OrgId, room: RoomState, *, at: datetime) -> Counter[str]:
    """Delete a room without messages, and reject the room from now on; return how much was deleted, by kind."""
    digest = digest_of(org_id, (room.platform, room.external_id))
    await record_erased(conn, org_id, digest=digest, at=at)
    await projections.enqueue_nodes(conn, org_id, [room.id, *await all_members(conn, org_id, room.id)])
    params = {"org_id": org_id, "room_id": room.id}
    return Counter({what: await QUERIES.run(conn, statement, params) for what, statement in ROOM_STATEMENTS})


@QUERIES.query
async def record_erased(conn: Connection, org_id: OrgId, *, digest: bytes, at: datetime) -> None:
    """Reject a room from now on."""
    ...


@QUERIES.query
async def all_members(conn: Connection, org_id: OrgId, room_id: RoomId) -> set[ParticipantId]:
    """Return everybody who was ever a member of a room."""
    ...


async def erased_rooms(conn: Connection, org_id: OrgId, names: Sequence[RoomName]) -> frozenset[RoomName]:
    """Return the given rooms that were erased."""
    digests = {digest_of(org_id, name): name for name in names}
    return frozenset(digests[digest] for digest in await erased_digests(conn, org_id, list(digests)))


@QUERIES.query
async def erased_digests(conn: Connection, org_id: OrgId, digests: Sequence[bytes]) -> set[bytes]:
    """Return the given digests that are digests of erased rooms."""
    ...
