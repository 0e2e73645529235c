"""Rooms, participants, identities and memberships: who and where."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from roomlore.db import projections
from roomlore.db.queries import Connection, Queries, columns
from roomlore.domain.ids import OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import ParticipantKind, RoomKind, Visibility
from roomlore.domain.records import Participant, Room, Viewer

QUERIES = Queries("directory")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomKey:
    """How a platform names a room, and ours."""

    platform: str
    external_id: str
    id: RoomId
    name: str
    workspace: str
    visibility: Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomName:
    """What a room is called, and where it is."""

    id: RoomId
    name: str
    platform: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomForPosting:
    """A room as its platform describes it, and whether somebody may say something there now."""

    platform: str
    external_id: str
    name: str
    kind: RoomKind
    visibility: Visibility
    topic: str
    is_present: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountKey:
    """How a platform names an author, and the participant behind it."""

    platform: str
    account_id: str
    persona: str
    participant_id: ParticipantId
    kind: ParticipantKind


@dataclass(frozen=True, slots=True, kw_only=True)
class ParticipantKey:
    """A participant's id, current name and kind, and the person whose account it is, if merged."""

    id: ParticipantId
    name: str
    kind: ParticipantKind
    person_id: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalAccount:
    """How a platform names a participant."""

    platform: str
    account_id: str
    persona: str
    participant_id: ParticipantId
    #: True where a bridge speaks for somebody of another platform.
    bridged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRoom:
    """A room to add."""

    id: RoomId
    platform: str
    external_id: str
    name: str
    kind: RoomKind
    visibility: Visibility
    #: Whether its platform says that it is for its members; else that is only assumed.
    is_stated_closed: bool
    topic: str
    workspace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAccount:
    """An identity to add, with a participant of its own."""

    platform: str
    account_id: str
    persona: str
    participant_id: ParticipantId
    kind: ParticipantKind
    name: str
    bridged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NameUpdate:
    """What a batch calls somebody, now and at first, and since when; None where a list gives the name."""

    participant_id: ParticipantId
    name: str
    named_at: datetime | None
    first_name: str
    first_named_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KindUpdate:
    """What kind of participant somebody has turned out to be."""

    participant_id: ParticipantId
    kind: ParticipantKind


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomUpdate:
    """How a room is called now."""

    room_id: RoomId
    name: str
    #: None where nobody here knows it.
    kind: RoomKind | None
    topic: str
    workspace: str
    #: Whether its newest message says that it is open: the next that says otherwise is news.
    is_stated_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomClosure:
    """A room that records say is for its members."""

    room_id: RoomId
    #: Its kind, where that is a direct one.
    direct: RoomKind | None
    #: Whether the records say before that it is open.
    is_news: bool
    #: Whether the newest message of the room says so and has just come.
    is_newest: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedMembership:
    """A presence that the platform states; None for a time it does not tell."""

    room_id: RoomId
    participant_id: ParticipantId
    joined_at: datetime | None
    left_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberListTime:
    """When the members of a room were last told."""

    room_id: RoomId
    told_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedRoom:
    """A room that was open and is no more, or of which that was not known."""

    room_id: RoomId


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomMembership:
    """Somebody who is in a room."""

    room_id: RoomId
    participant_id: ParticipantId


@dataclass(frozen=True, slots=True, kw_only=True)
class NewActivity:
    """How much a participant wrote in a room, in one batch."""

    room_id: RoomId
    participant_id: ParticipantId
    message_count: int
    first_at: datetime
    last_at: datetime


async def lock_directory(conn: Connection, org_id: OrgId) -> None:
    """Wait until no other writer adds rooms or identities to the org; held until the transaction ends."""
    await QUERIES.run(conn, "lock_directory", {"org_id": org_id})


async def lock_rooms(conn: Connection, room_ids: Iterable[RoomId]) -> None:
    """Wait until no other writer adds messages to these rooms; held until the transaction ends."""
    await QUERIES.run(conn, "lock_rooms", {"room_ids": list(room_ids)})


async def rooms_by_external_id(
    conn: Connection, org_id: OrgId, keys: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], RoomId]:
    """Return the known ones of these (platform, external id) pairs."""
    params = {"org_id": org_id, "platform": [key[0] for key in keys], "external_id": [key[1] for key in keys]}
    rows = await QUERIES.all(conn, "rooms_by_external_id", RoomKey, params)
    return {(row.platform, row.external_id): row.id for row in rows}


async def add_rooms(conn: Connection, org_id: OrgId, rooms: Sequence[NewRoom]) -> None:
    """Add rooms; one that exists is left as it is."""
    await QUERIES.run(conn, "add_rooms", {"org_id": org_id, **columns(NewRoom, rooms)})
    await projections.enqueue_nodes(conn, org_id, [room.id for room in rooms])


async def accounts_by_key(
    conn: Connection, org_id: OrgId, keys: Sequence[tuple[str, str, str]]
) -> dict[tuple[str, str, str], AccountKey]:
    """Return the known ones of these (platform, account, persona) triples."""
    platform, account_id, persona = zip(*keys, strict=True) if keys else ((), (), ())
    params = {
        "org_id": org_id,
        "platform": list(platform),
        "account_id": list(account_id),
        "persona": list(persona),
    }
    rows = await QUERIES.all(conn, "identities_by_account", AccountKey, params)
    return {(row.platform, row.account_id, row.persona): row for row in rows}


async def add_participants_with_accounts(
    conn: Connection, org_id: OrgId, identities: Sequence[NewAccount]
) -> None:
    """Add identities, each with a participant of its own."""
    params = {"org_id": org_id, **columns(NewAccount, identities)}
    await QUERIES.run(conn, "add_participants", params)
    await QUERIES.run(conn, "add_identities", params)
    await projections.enqueue_nodes(conn, org_id, [identity.participant_id for identity in identities])


async def add_accounts(conn: Connection, org_id: OrgId, identities: Sequence[NewAccount]) -> None:
    """Add identities of participants that are there already."""
    await QUERIES.run(conn, "add_identities", {"org_id": org_id, **columns(NewAccount, identities)})


async def room_for_posting(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, participants: Sequence[ParticipantId], at: datetime
) -> RoomForPosting | None:
    """Return a room, and whether one of these participants may say something there at a time."""
    params = {"org_id": org_id, "room_id": room_id, "participant_ids": list(participants), "at": at}
    return await QUERIES.first(conn, "room_to_speak_in", RoomForPosting, params)


async def update_names(conn: Connection, org_id: OrgId, names: Sequence[NameUpdate]) -> None:
    """Keep each participant's current display name: the one of its newest message."""
    await QUERIES.run(conn, "note_names", {"org_id": org_id, **columns(NameUpdate, names)})


async def update_kinds(conn: Connection, org_id: OrgId, kinds: Sequence[KindUpdate]) -> None:
    """Give participants, and all they wrote, the kind they have turned out to be of."""
    params = {"org_id": org_id, **columns(KindUpdate, kinds)}
    await QUERIES.run(conn, "note_kinds", params)
    await QUERIES.run(conn, "note_author_kinds", params)
    await projections.enqueue_written_by(conn, org_id, [one.participant_id for one in kinds])


async def update_rooms(conn: Connection, org_id: OrgId, rooms: Sequence[RoomUpdate]) -> None:
    """Keep how rooms are called: as their newest message says."""
    await QUERIES.run(conn, "note_rooms", {"org_id": org_id, **columns(RoomUpdate, rooms)})


async def close_rooms(conn: Connection, org_id: OrgId, closed: Sequence[RoomClosure]) -> None:
    """Close rooms that records say are for their members; what was closed once is not opened by a later record.

    A room that an operator opened although its records said so before stays open, unless it is direct or they said
    meanwhile that it was open.
    """
    params = {"org_id": org_id, **columns(RoomClosure, closed)}
    narrowed = await QUERIES.all(conn, "narrow_rooms", ClosedRoom, params)
    await projections.enqueue_nodes(conn, org_id, [row.room_id for row in narrowed])


async def add_stated_memberships(conn: Connection, org_id: OrgId, stated: Sequence[StatedMembership]) -> None:
    """Record memberships that the platform states; what was only implied gives way."""
    params = {"org_id": org_id, **columns(StatedMembership, stated)}
    await _enqueue_memberships(
        conn, org_id, await QUERIES.all(conn, "state_memberships", RoomMembership, params)
    )


async def member_list_times(
    conn: Connection, org_id: OrgId, room_ids: Iterable[RoomId]
) -> dict[RoomId, datetime]:
    """Return when the members of these rooms were last told, where they ever were."""
    params = {"org_id": org_id, "room_ids": list(room_ids)}
    rows = await QUERIES.all(conn, "members_told", MemberListTime, params)
    return {row.room_id: row.told_at for row in rows}


async def present_members(
    conn: Connection, org_id: OrgId, room_ids: Iterable[RoomId]
) -> set[tuple[RoomId, ParticipantId]]:
    """Return who is stated to be in these rooms without an end."""
    params = {"org_id": org_id, "room_ids": list(room_ids)}
    rows = await QUERIES.all(conn, "present_members", RoomMembership, params)
    return {(row.room_id, row.participant_id) for row in rows}


async def end_memberships(
    conn: Connection, org_id: OrgId, told: Sequence[MemberListTime], listed: Sequence[RoomMembership]
) -> None:
    """End the stated presence of everybody whom complete lists of members leave out."""
    of_listed = columns(RoomMembership, listed)
    params = {
        "org_id": org_id,
        **columns(MemberListTime, told),
        "listed_room_id": of_listed["room_id"],
        "participant_id": of_listed["participant_id"],
    }
    await _enqueue_memberships(
        conn, org_id, await QUERIES.all(conn, "end_memberships", RoomMembership, params)
    )


async def update_member_list_times(conn: Connection, org_id: OrgId, told: Sequence[MemberListTime]) -> None:
    """Keep when the members of rooms were last told; a time only moves on."""
    await QUERIES.run(conn, "note_members_told", {"org_id": org_id, **columns(MemberListTime, told)})


async def add_implied_memberships(conn: Connection, org_id: OrgId, spoke: Sequence[NewActivity]) -> None:
    """Give those who wrote a membership from their first message on, where none is stated."""
    params = {"org_id": org_id, **columns(NewActivity, spoke)}
    await _enqueue_memberships(
        conn, org_id, await QUERIES.all(conn, "imply_memberships", RoomMembership, params)
    )


async def _enqueue_memberships(conn: Connection, org_id: OrgId, moved: Sequence[RoomMembership]) -> None:
    await projections.enqueue_nodes(conn, org_id, [row.participant_id for row in moved])


async def add_activity(conn: Connection, org_id: OrgId, activity: Sequence[NewActivity]) -> None:
    """Count new messages per room and participant."""
    await QUERIES.run(conn, "add_activity", {"org_id": org_id, **columns(NewActivity, activity)})


async def rooms(conn: Connection, viewer: Viewer, room_id: RoomId | None = None) -> list[Room]:
    """Return the rooms the viewer may see, or the one asked for, most recently active first."""
    name = "rooms_for_operator" if viewer.is_operator else "rooms_for_viewer"
    return await QUERIES.all(conn, name, Room, {"org_id": viewer.org_id, "room_id": room_id})


async def room_names(conn: Connection, org_id: OrgId, ids: Iterable[RoomId]) -> dict[RoomId, RoomName]:
    """Return the names of these rooms, as far as they are visible."""
    rows = await QUERIES.all(conn, "room_names", RoomName, {"org_id": org_id, "room_ids": list(ids)})
    return {row.id: row for row in rows}


async def find_rooms(conn: Connection, org_id: OrgId, word: str) -> list[RoomKey]:
    """Return the rooms a person may mean by a word: an id or its beginning, an external id, a name."""
    return await QUERIES.all(conn, "find_rooms", RoomKey, {"org_id": org_id, "word": word})


async def participants(conn: Connection, viewer: Viewer, room_id: RoomId | None = None) -> list[Participant]:
    """Return the persons the viewer may know of, or those who wrote in one room, most talkative first."""
    name = "participants_for_operator" if viewer.is_operator else "participants_for_viewer"
    return await QUERIES.all(conn, name, Participant, {"org_id": viewer.org_id, "room_id": room_id})


async def find_participants(conn: Connection, org_id: OrgId, word: str) -> list[ParticipantKey]:
    """Return the participants a person may mean by a word: an id or its beginning, an account, a name."""
    return await QUERIES.all(conn, "find_participants", ParticipantKey, {"org_id": org_id, "word": word})


async def accounts(
    conn: Connection, org_id: OrgId, participant_id: ParticipantId | None
) -> list[ParticipantKey]:
    """Return the accounts of the same person as this participant, itself included, or every one."""
    params = {"org_id": org_id, "participant_id": participant_id}
    return await QUERIES.all(conn, "accounts", ParticipantKey, params)


async def external_accounts(
    conn: Connection, org_id: OrgId, participant_ids: Iterable[ParticipantId]
) -> list[ExternalAccount]:
    """Return how platforms name these participants."""
    params = {"org_id": org_id, "participant_ids": list(participant_ids)}
    return await QUERIES.all(conn, "identities", ExternalAccount, params)


async def merge(
    conn: Connection, org_id: OrgId, participant_ids: Iterable[ParticipantId], *, person_id: UUID
) -> None:
    """Make participants accounts of one person, whatever persons they were of before."""
    params = {"org_id": org_id, "participant_ids": list(participant_ids), "person_id": person_id}
    await QUERIES.run(conn, "merge", params)


async def split(conn: Connection, org_id: OrgId, participant_ids: Iterable[ParticipantId]) -> None:
    """Make participants persons of their own."""
    await QUERIES.run(conn, "split", {"org_id": org_id, "participant_ids": list(participant_ids)})
