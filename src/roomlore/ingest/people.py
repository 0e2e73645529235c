"""Keeps up what follows from messages about people and rooms: presence, counts, names and kinds.

Everything here comes out the same whatever the order in which records arrive: the newest record says how
somebody or something is called, the narrower of two presences holds, an agent stays one.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from roomlore.domain.ids import MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import IncomingAuthor, IncomingMessage, IncomingRoom, RoomKind
from roomlore.domain.roomaudience import DIRECT_KINDS, is_stated_closed, is_stated_open
from roomlore.ingest import members
from roomlore.ingest.resolve import ResolvedNames, RoomName, distinct_rooms
from roomlore.store import directory, messages
from roomlore.store import rooms as stored_rooms
from roomlore.store.directory import NewActivity, NameUpdate, RoomUpdate, RoomClosure, StatedMembership
from roomlore.store.queries import Connection


async def update_participants(
    conn: Connection,
    org_id: OrgId,
    batch: Sequence[IncomingMessage],
    fresh: Mapping[MessageId, IncomingMessage],
    *,
    names: ResolvedNames,
) -> None:
    """Keep up memberships, counts, names and kinds after a batch, of which `fresh` was not there before."""
    rooms = distinct_rooms(batch)
    await _update_members(conn, org_id, batch, rooms=rooms, names=names)
    newest = await _newest_rooms(conn, org_id, fresh, names) if fresh else {}
    closed = _stated_closed(rooms, fresh, names, newest=newest)
    if closed:
        await directory.close_rooms(conn, org_id, closed)
    await directory.update_names(conn, org_id, _current_names(batch, rooms, names))
    if names.changed_kinds:
        await directory.update_kinds(conn, org_id, names.changed_kinds)
    if fresh:
        said = list(fresh.values())
        activity = _activity(said, names)
        await directory.add_activity(conn, org_id, activity)
        spoken = [message for message in said if message.kind == "message"]
        spoke = activity if len(spoken) == len(said) else _activity(spoken, names)
        await directory.add_implied_memberships(conn, org_id, spoke)
        await _update_rooms(conn, org_id, newest)


async def _update_members(
    conn: Connection,
    org_id: OrgId,
    batch: Sequence[IncomingMessage],
    *,
    rooms: Sequence[tuple[RoomName, IncomingRoom]],
    names: ResolvedNames,
) -> None:
    listing = {names.rooms[name] for name, room in rooms if room.members}
    if not listing:
        return
    closed = await stored_rooms.closed_rooms(conn, org_id, listing)
    partial = [
        (name, room)
        for name, room in rooms
        if not members.is_complete_list(room, is_closed=names.rooms[name] in closed)
    ]
    stated = _stated_memberships(partial, names)
    if stated:
        await directory.add_stated_memberships(conn, org_id, stated)
    await members.update_member_lists(conn, org_id, batch, names, closed=closed)


def _stated_closed(
    rooms: Sequence[tuple[RoomName, IncomingRoom]],
    fresh: Mapping[MessageId, IncomingMessage],
    names: ResolvedNames,
    *,
    newest: Mapping[RoomId, IncomingRoom],
) -> list[RoomClosure]:
    """Return the rooms that a batch says are for their members, and how new that is."""
    direct: dict[RoomId, RoomKind | None] = {}
    for name, room in rooms:
        if is_stated_closed(room):
            room_id = names.rooms[name]
            direct[room_id] = room.kind if room.kind in DIRECT_KINDS else direct.get(room_id)
    opened: set[RoomId] = set()
    news: set[RoomId] = set()
    for message in sorted(fresh.values(), key=lambda message: message.sent_at):
        if is_stated_open(message.room):
            opened.add(names.room(message))
        elif is_stated_closed(message.room) and names.room(message) in opened:
            news.add(names.room(message))
    return [
        RoomClosure(
            room_id=room_id,
            direct=kind,
            is_news=room_id in news,
            is_newest=room_id in newest and is_stated_closed(newest[room_id]),
        )
        for room_id, kind in sorted(direct.items())
    ]


def _stated_memberships(rooms: Iterable[tuple[tuple[str, str], IncomingRoom]], names: ResolvedNames) -> list[StatedMembership]:
    ends: dict[tuple[RoomId, ParticipantId, datetime | None], datetime | None] = {}
    for name, room in rooms:
        for member in room.members:
            key = (names.rooms[name], names.author(name[0], member.author), member.joined_at)
            known = [end for end in (ends.get(key), member.left_at) if end is not None]
            ends[key] = min(known, default=None)
    return [
        StatedMembership(room_id=room_id, participant_id=participant_id, joined_at=joined_at, left_at=left_at)
        for (room_id, participant_id, joined_at), left_at in ends.items()
    ]


def _activity(said: Sequence[IncomingMessage], names: ResolvedNames) -> list[NewActivity]:
    times: dict[tuple[RoomId, ParticipantId], list[datetime]] = defaultdict(list)
    for message in said:
        times[names.room(message), names.author(message.platform, message.author)].append(message.sent_at)
    return [
        NewActivity(
            room_id=room_id,
            participant_id=participant_id,
            message_count=len(sent),
            first_at=min(sent),
            last_at=max(sent),
        )
        for (room_id, participant_id), sent in sorted(times.items())
    ]


def _current_names(
    batch: Sequence[IncomingMessage], rooms: Iterable[tuple[tuple[str, str], IncomingRoom]], names: ResolvedNames
) -> list[NameUpdate]:
    """Return what everybody is called by the batch, at first and now.

    Now by the newest message, at first by lists, which not only those see who may read a message, or else by the
    oldest message. Of names at one time the greatest counts, at first the least.
    """
    written: dict[ParticipantId, list[tuple[datetime, str]]] = defaultdict(list)
    for message in batch:
        participant_id = names.author(message.platform, message.author)
        written[participant_id].append((message.edited_at or message.sent_at, message.author.name))
    listed: dict[ParticipantId, list[str]] = defaultdict(list)
    for platform, author in _listed_names(batch, rooms):
        listed[names.author(platform, author)].append(author.name)
    return [
        _name_update(participant_id, written.get(participant_id, ()), listed.get(participant_id, ()))
        for participant_id in {**written, **listed}
    ]


def _name_update(
    participant_id: ParticipantId, written: Sequence[tuple[datetime, str]], listed: Sequence[str]
) -> NameUpdate:
    named_at, name = max(written) if written else (None, max(listed))
    first_named_at, first_name = (None, min(listed)) if listed else min(written)
    return NameUpdate(
        participant_id=participant_id,
        name=name,
        named_at=named_at,
        first_name=first_name,
        first_named_at=first_named_at,
    )


def _listed_names(
    batch: Sequence[IncomingMessage], rooms: Iterable[tuple[tuple[str, str], IncomingRoom]]
) -> Iterable[tuple[str, IncomingAuthor]]:
    for (platform, _), room in rooms:
        for member in room.members:
            yield platform, member.author
    for message in batch:
        for author in message.audience:
            yield message.platform, author


async def _newest_rooms(
    conn: Connection, org_id: OrgId, fresh: Mapping[MessageId, IncomingMessage], names: ResolvedNames
) -> dict[RoomId, IncomingRoom]:
    """Return how rooms are described with their newest messages, where these have just come."""
    room_ids = sorted({names.room(message) for message in fresh.values()})
    newest = await messages.newest_of_rooms(conn, org_id, room_ids)
    return {room_id: fresh[message_id].room for room_id, message_id in newest.items() if message_id in fresh}


async def _update_rooms(conn: Connection, org_id: OrgId, newest: Mapping[RoomId, IncomingRoom]) -> None:
    """Take over how rooms are called now."""
    noted = [
        RoomUpdate(
            room_id=room_id,
            name=room.name,
            kind=room.kind,
            topic=room.topic,
            workspace=room.workspace,
            is_stated_open=is_stated_open(room),
        )
        for room_id, room in newest.items()
    ]
    if noted:
        await directory.update_rooms(conn, org_id, noted)
