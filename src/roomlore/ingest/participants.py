"""Maintains memberships, counts, names and kinds from messages."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import zip_longest

from roomlore.db import directory, messages
from roomlore.db import rooms as stored_rooms
from roomlore.db.directory import (
    MemberListTime,
    NameUpdate,
    NewActivity,
    RoomClosure,
    RoomUpdate,
    StatedMembership,
)
from roomlore.db.queries import Connection
from roomlore.domain.ids import MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import IncomingAuthor, IncomingMessage, IncomingRoom, RoomKind
from roomlore.domain.room_visibility import DIRECT_KINDS, is_stated_closed, is_stated_open, visibility_of
from roomlore.ingest.resolve import ResolvedNames, RoomName, distinct_rooms


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberList:
    """A complete member list of a closed room, and the times of the first and last message that state the list.

    Consecutive messages that state the same list share one object.
    """

    room_id: RoomId
    first_at: datetime
    last_at: datetime
    stated: Sequence[StatedMembership]


def is_complete_list(room: IncomingRoom, *, is_closed: bool) -> bool:
    """Return whether a room description lists all its readers. `is_closed`: whether other facts close the room."""
    return bool(room.members) and (is_closed or visibility_of(room).visibility == "members")


async def update_member_lists(
    conn: Connection,
    org_id: OrgId,
    batch: Sequence[IncomingMessage],
    names: ResolvedNames,
    *,
    closed: Collection[RoomId],
) -> None:
    """Store the memberships of complete lists. End the memberships that the lists omit."""
    listing = [
        message
        for message in batch
        if is_complete_list(message.room, is_closed=names.room(message) in closed)
    ]
    if not listing:
        return
    list_times = await directory.member_list_times(conn, org_id, {names.room(message) for message in listing})
    lists = _member_lists(listing, names, list_times)
    # One list per room at a time, oldest first, because each list depends on the lists before it.
    for lists_at_once in zip_longest(*(of_room for _, of_room in sorted(lists.items()))):
        await _apply_lists(conn, org_id, [each for each in lists_at_once if each is not None], list_times)


def _member_lists(
    listing: Sequence[IncomingMessage], names: ResolvedNames, list_times: Mapping[RoomId, datetime]
) -> dict[RoomId, list[MemberList]]:
    stated: dict[int, Sequence[StatedMembership]] = {}
    lists: dict[RoomId, list[MemberList]] = {}
    for message in sorted(listing, key=lambda message: message.sent_at):
        room, room_id, sent_at = message.room, names.room(message), message.sent_at
        members = stated.get(id(room))
        if members is None:
            members = stated[id(room)] = _stated_memberships(
                [((message.platform, room.external_id), room)], names
            )
        of_room = lists.setdefault(room_id, [])
        # Messages before the newest known list are treated differently from messages after it.
        is_first = room_id in list_times and of_room and of_room[-1].last_at < list_times[room_id] <= sent_at
        if of_room and not is_first and of_room[-1].stated == members:
            of_room[-1] = replace(of_room[-1], last_at=sent_at)
        else:
            of_room.append(MemberList(room_id=room_id, first_at=sent_at, last_at=sent_at, stated=members))
    return lists


async def _apply_lists(
    conn: Connection, org_id: OrgId, lists: Sequence[MemberList], list_times: Mapping[RoomId, datetime]
) -> None:
    newer = [
        each for each in lists if each.room_id not in list_times or each.first_at >= list_times[each.room_id]
    ]
    older = [
        each for each in lists if each.room_id in list_times and each.first_at < list_times[each.room_id]
    ]
    stated = [member for each in newer for member in each.stated]
    if older:
        present = await directory.present_members(conn, org_id, [each.room_id for each in older])
        stated += [
            member
            if (member.room_id, member.participant_id) in present
            else _ended_membership(member, list_times)
            for each in older
            for member in each.stated
        ]
    await directory.add_stated_memberships(conn, org_id, stated)
    if not newer:
        return
    listed = {(member.room_id, member.participant_id) for each in newer for member in each.stated}
    await directory.end_memberships(
        conn,
        org_id,
        [MemberListTime(room_id=each.room_id, told_at=each.first_at) for each in newer],
        sorted(listed),
    )
    await directory.update_member_list_times(
        conn, org_id, [MemberListTime(room_id=each.room_id, told_at=each.last_at) for each in newer]
    )


def _ended_membership(member: StatedMembership, list_times: Mapping[RoomId, datetime]) -> StatedMembership:
    """Return the membership with an end, because the newest list omits the member."""
    ended_at = list_times[member.room_id]
    return member if member.left_at else replace(member, left_at=max(ended_at, member.joined_at or ended_at))


async def update_participants(
    conn: Connection,
    org_id: OrgId,
    batch: Sequence[IncomingMessage],
    fresh: Mapping[MessageId, IncomingMessage],
    *,
    names: ResolvedNames,
) -> None:
    """Update memberships, counts, names and kinds after a batch; `fresh` are its new messages."""
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
        new_messages = list(fresh.values())
        activity = _activity(new_messages, names)
        await directory.add_activity(conn, org_id, activity)
        spoken = [message for message in new_messages if message.kind == "message"]
        speaker_activity = activity if len(spoken) == len(new_messages) else _activity(spoken, names)
        await directory.add_implied_memberships(conn, org_id, speaker_activity)
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
        if not is_complete_list(room, is_closed=names.rooms[name] in closed)
    ]
    stated = _stated_memberships(partial, names)
    if stated:
        await directory.add_stated_memberships(conn, org_id, stated)
    await update_member_lists(conn, org_id, batch, names, closed=closed)


def _stated_closed(
    rooms: Sequence[tuple[RoomName, IncomingRoom]],
    fresh: Mapping[MessageId, IncomingMessage],
    names: ResolvedNames,
    *,
    newest: Mapping[RoomId, IncomingRoom],
) -> list[RoomClosure]:
    """Return a `RoomClosure` for each room that a batch describes as closed."""
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


def _stated_memberships(
    rooms: Iterable[tuple[tuple[str, str], IncomingRoom]], names: ResolvedNames
) -> list[StatedMembership]:
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


def _activity(messages: Sequence[IncomingMessage], names: ResolvedNames) -> list[NewActivity]:
    times: dict[tuple[RoomId, ParticipantId], list[datetime]] = defaultdict(list)
    for message in messages:
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
    batch: Sequence[IncomingMessage],
    rooms: Iterable[tuple[tuple[str, str], IncomingRoom]],
    names: ResolvedNames,
) -> list[NameUpdate]:
    """Return the current and the first name of everybody in a batch.

    The current name is the name in the newest message. The first name is the name in a member list, because more people
    may see a member list than a message. Without a member list, the first name is the name in the oldest message. If
    several names have the same time, the current name is the greatest name and the first name is the least name.
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
    """Return, for each room whose newest message is in `fresh`, the room description in this message."""
    room_ids = sorted({names.room(message) for message in fresh.values()})
    newest = await messages.newest_of_rooms(conn, org_id, room_ids)
    return {room_id: fresh[message_id].room for room_id, message_id in newest.items() if message_id in fresh}


async def _update_rooms(conn: Connection, org_id: OrgId, newest: Mapping[RoomId, IncomingRoom]) -> None:
    """Store the current names of rooms."""
    noted = [
        RoomUpdate(
            room_id=room_id,
            name=room.name,
            kind=room.kind,
            topic=room.topic,
            workspace=room.workspace,
            context_id=room.context_id,
            is_stated_open=is_stated_open(room),
        )
        for room_id, room in newest.items()
    ]
    if noted:
        await directory.update_rooms(conn, org_id, noted)
