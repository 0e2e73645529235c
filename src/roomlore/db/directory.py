"""Rooms, participants, accounts and memberships."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from roomlore.db import disentanglement, projections
from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import ParticipantKind, RoomKind, Visibility

QUERIES = Queries("directory")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomKey:
    """The platform's id of a room and ours."""

    platform: str
    external_id: str
    id: RoomId
    name: str
    workspace: str
    visibility: Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomName:
    """The name of a room and its platform."""

    id: RoomId
    name: str
    platform: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomForPosting:
    """A room as its platform describes it, and whether one of the given participants may post there now."""

    platform: str
    external_id: str
    name: str
    kind: RoomKind
    visibility: Visibility
    topic: str
    is_present: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountKey:
    """The platform's key of an account, and its participant."""

    platform: str
    account_id: str
    persona: str
    participant_id: ParticipantId
    kind: ParticipantKind


@dataclass(frozen=True, slots=True, kw_only=True)
class ParticipantKey:
    """A participant, and the person it was merged into."""

    id: ParticipantId
    name: str
    kind: ParticipantKind
    person_id: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalAccount:
    """The platform's key of a participant's account."""

    platform: str
    account_id: str
    persona: str
    participant_id: ParticipantId
    #: Whether a bridge posts for an account of another platform.
    bridged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedMembership:
    """A membership that began, ended or is gone."""

    room_id: RoomId
    participant_id: ParticipantId
    #: When it ended; None if it goes on or is gone.
    left_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRoom:
    """A room to add."""

    id: RoomId
    platform: str
    external_id: str
    name: str
    kind: RoomKind
    visibility: Visibility
    #: Whether the platform says that the room is closed. A room may also be closed because its platform says nothing
    #: about it.
    is_stated_closed: bool
    topic: str
    workspace: str
    #: Empty if there is none.
    context_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAccount:
    """An account to add."""

    platform: str
    account_id: str
    persona: str
    participant_id: ParticipantId
    kind: ParticipantKind
    name: str
    bridged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NameUpdate:
    """The latest and the first name of a participant in a batch, each with its time.

    Names from member lists have no time.
    """

    participant_id: ParticipantId
    name: str
    named_at: datetime | None
    first_name: str
    first_named_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KindUpdate:
    """The new kind of a participant."""

    participant_id: ParticipantId
    kind: ParticipantKind


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomUpdate:
    """The current name, kind, topic, workspace and context of a room."""

    room_id: RoomId
    name: str
    #: None if the platform does not state it.
    kind: RoomKind | None
    topic: str
    workspace: str
    #: Empty if the platform does not state it.
    context_id: str
    #: Whether the newest message of the room says that the room is open. In this case, a later record can close the
    #: room again.
    is_stated_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomClosure:
    """A room that records describe as closed."""

    room_id: RoomId
    #: The kind of the room if it is a direct one.
    direct: RoomKind | None
    #: Whether an earlier message of the same batch describes the room as open.
    is_news: bool
    #: Whether the newest message of the room was just added and says that the room is closed.
    is_newest: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedMembership:
    """A membership that the platform states. A time is None if the platform does not state it."""

    room_id: RoomId
    participant_id: ParticipantId
    joined_at: datetime | None
    left_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberListTime:
    """When the members of a room were last listed."""

    room_id: RoomId
    told_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NewActivity:
    """How much a participant wrote in a room in one batch."""

    room_id: RoomId
    participant_id: ParticipantId
    message_count: int
    first_at: datetime
    last_at: datetime


@QUERIES.query
async def lock_directory(conn: Connection, org_id: OrgId) -> None:
    """Block writers of rooms and accounts of the org until the transaction ends."""
    ...


@QUERIES.query
async def lock_rooms(conn: Connection, room_ids: Collection[RoomId]) -> None:
    """Lock rooms until the transaction ends, so that nobody else can write messages into them.

    Otherwise a reply and its parent, stored at the same time, might not find each other.
    """
    ...


@QUERIES.query
async def rooms_by_external_id(
    conn: Connection, org_id: OrgId, keys: Collection[tuple[str, str]]
) -> dict[tuple[str, str], RoomId]:
    """Return the ids of the existing rooms by (platform, external id)."""
    ...


async def add_rooms(conn: Connection, org_id: OrgId, rooms: Sequence[NewRoom]) -> None:
    """Add rooms. Rooms that exist stay unchanged."""
    await _add_rooms(conn, org_id, rooms)
    await projections.enqueue_nodes(conn, org_id, [room.id for room in rooms])


@QUERIES.query
async def _add_rooms(conn: Connection, org_id: OrgId, rooms: Sequence[NewRoom]) -> None: ...


@QUERIES.query
async def accounts_by_key(
    conn: Connection, org_id: OrgId, keys: Collection[tuple[str, str, str]]
) -> dict[tuple[str, str, str], AccountKey]:
    """Return the existing accounts by (platform, account, persona)."""
    ...


async def add_participants_with_accounts(
    conn: Connection, org_id: OrgId, accounts: Sequence[NewAccount]
) -> None:
    """Add accounts, each with a participant of its own."""
    await _add_participants(conn, org_id, accounts)
    await add_accounts(conn, org_id, accounts)


@QUERIES.query
async def _add_participants(conn: Connection, org_id: OrgId, accounts: Sequence[NewAccount]) -> None: ...


async def add_accounts(conn: Connection, org_id: OrgId, accounts: Sequence[NewAccount]) -> None:
    """Add accounts of existing participants."""
    await _add_accounts(conn, org_id, accounts)
    await projections.enqueue_nodes(conn, org_id, [account.participant_id for account in accounts])


@QUERIES.query
async def _add_accounts(conn: Connection, org_id: OrgId, accounts: Sequence[NewAccount]) -> None: ...


@QUERIES.query
async def room_for_posting(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, participants: Collection[ParticipantId], at: datetime
) -> RoomForPosting | None:
    """Return a room, and whether one of these participants may post in it at the given time."""
    ...


async def update_names(conn: Connection, org_id: OrgId, names: Sequence[NameUpdate]) -> None:
    """Update the current and first names of participants.

    The current name is the newest one. The first name comes from a member list; without a member list, it is the oldest
    one.
    """
    await projections.enqueue_nodes(conn, org_id, await _update_names(conn, org_id, names))


@QUERIES.query
async def _update_names(
    conn: Connection, org_id: OrgId, names: Sequence[NameUpdate]
) -> set[ParticipantId]: ...


async def update_kinds(conn: Connection, org_id: OrgId, kinds: Sequence[KindUpdate]) -> None:
    """Change the kinds of participants and of their messages."""
    ids = [one.participant_id for one in kinds]
    await _update_kinds(conn, org_id, kinds)
    await _update_author_kinds(conn, org_id, ids)
    await projections.enqueue_written_by(conn, org_id, ids)


@QUERIES.query
async def _update_kinds(conn: Connection, org_id: OrgId, kinds: Sequence[KindUpdate]) -> None: ...


@QUERIES.query
async def _update_author_kinds(
    conn: Connection, org_id: OrgId, participant_ids: Collection[ParticipantId]
) -> None: ...


async def update_rooms(conn: Connection, org_id: OrgId, rooms: Sequence[RoomUpdate]) -> None:
    """Update the names and kinds of rooms from their newest messages.

    A name set by an operator and the kind of a direct room stay unchanged. A missing kind, a missing workspace, and a
    name that is only the platform's id change nothing. No record opens a room.
    """
    await projections.enqueue_nodes(conn, org_id, await _update_rooms(conn, org_id, rooms))


@QUERIES.query
async def _update_rooms(conn: Connection, org_id: OrgId, rooms: Sequence[RoomUpdate]) -> set[RoomId]: ...


async def close_rooms(conn: Connection, org_id: OrgId, closed: Sequence[RoomClosure]) -> None:
    """Close rooms that records describe as closed; a later record does not open them again.

    A room that an operator opened is closed only if it is direct, or if a record has described it as open since the
    operator opened it. Otherwise it stays open.
    """
    await note_closed(conn, org_id, await _close_rooms(conn, org_id, closed))


async def note_closed(conn: Connection, org_id: OrgId, room_ids: Collection[RoomId]) -> None:
    """Enqueue the work that follows from the closing of rooms."""
    await projections.enqueue_nodes(conn, org_id, room_ids)
    ends = await ends_in(conn, org_id, room_ids) if room_ids else []
    await disentanglement.end_conversations(conn, org_id, ends)


@QUERIES.query
async def ends_in(
    conn: Connection, org_id: OrgId, room_ids: Collection[RoomId]
) -> list[tuple[RoomId, datetime]]:
    """Return when memberships in rooms ended."""
    ...


@QUERIES.query
async def _close_rooms(conn: Connection, org_id: OrgId, closed: Sequence[RoomClosure]) -> list[RoomId]: ...


async def add_stated_memberships(conn: Connection, org_id: OrgId, stated: Sequence[StatedMembership]) -> None:
    """Add memberships that the platform states. They replace implied memberships."""
    await note_changed(conn, org_id, await _add_stated_memberships(conn, org_id, stated))


async def note_changed(conn: Connection, org_id: OrgId, changed: Sequence[ChangedMembership]) -> None:
    """Enqueue the work that follows from changed memberships."""
    await projections.enqueue_nodes(conn, org_id, {one.participant_id for one in changed})
    ends = {(one.room_id, one.left_at) for one in changed if one.left_at is not None}
    await disentanglement.end_conversations(conn, org_id, ends)


@QUERIES.query
async def _add_stated_memberships(
    conn: Connection, org_id: OrgId, stated: Sequence[StatedMembership]
) -> list[ChangedMembership]: ...


@QUERIES.query
async def member_list_times(
    conn: Connection, org_id: OrgId, room_ids: Collection[RoomId]
) -> dict[RoomId, datetime]:
    """Return when the members of these rooms were last listed, if ever."""
    ...


@QUERIES.query
async def present_members(
    conn: Connection, org_id: OrgId, room_ids: Collection[RoomId]
) -> set[tuple[RoomId, ParticipantId]]:
    """Return the stated memberships of these rooms that have no end."""
    ...


async def end_memberships(
    conn: Connection,
    org_id: OrgId,
    lists: Sequence[MemberListTime],
    listed: Sequence[tuple[RoomId, ParticipantId]],
) -> None:
    """End the stated memberships of participants who are missing from a complete member list."""
    await note_changed(conn, org_id, await _end_memberships(conn, org_id, lists, listed))


@QUERIES.query
async def _end_memberships(
    conn: Connection,
    org_id: OrgId,
    lists: Sequence[MemberListTime],
    listed: Sequence[tuple[RoomId, ParticipantId]],
) -> list[ChangedMembership]: ...


@QUERIES.query
async def update_member_list_times(conn: Connection, org_id: OrgId, lists: Sequence[MemberListTime]) -> None:
    """Store when the members of rooms were last listed. A time before the stored time changes nothing."""
    ...


async def add_implied_memberships(conn: Connection, org_id: OrgId, activity: Sequence[NewActivity]) -> None:
    """Give each author without a stated membership an implied one. It begins with the author's first message."""
    await projections.enqueue_nodes(conn, org_id, await _add_implied_memberships(conn, org_id, activity))


@QUERIES.query
async def _add_implied_memberships(
    conn: Connection, org_id: OrgId, activity: Sequence[NewActivity]
) -> set[ParticipantId]: ...


@QUERIES.query
async def add_activity(conn: Connection, org_id: OrgId, activity: Sequence[NewActivity]) -> None:
    """Count new messages per room and participant."""
    ...


@QUERIES.query
async def room_names(conn: Connection, org_id: OrgId, room_ids: Collection[RoomId]) -> dict[RoomId, RoomName]:
    """Return the full names of the given rooms that are visible."""
    ...


@QUERIES.query
async def find_rooms(conn: Connection, org_id: OrgId, word: str) -> list[RoomKey]:
    """Return the rooms that a word may mean.

    The word is an id or its beginning, an external id, or a name with or without workspace.
    """
    ...


@QUERIES.query
async def find_participants(conn: Connection, org_id: OrgId, word: str) -> list[ParticipantKey]:
    """Return the participants that a word may mean.

    The word is an id or its beginning, an account id, or a name that the viewer knows.
    """
    ...


@QUERIES.query
async def accounts(
    conn: Connection, org_id: OrgId, participant_id: ParticipantId | None
) -> list[ParticipantKey]:
    """Return the visible accounts of a participant's person, including the participant.

    None means all visible accounts.
    """
    ...


@QUERIES.query
async def external_accounts(
    conn: Connection, org_id: OrgId, participant_ids: Collection[ParticipantId]
) -> list[ExternalAccount]:
    """Return the platform accounts of participants."""
    ...


@QUERIES.query
async def merge(
    conn: Connection, org_id: OrgId, participant_ids: Collection[ParticipantId], *, person_id: UUID
) -> None:
    """Make participants accounts of one person."""
    ...


@QUERIES.query
async def split(conn: Connection, org_id: OrgId, participant_ids: Collection[ParticipantId]) -> None:
    """Make each participant a person of its own."""
    ...
