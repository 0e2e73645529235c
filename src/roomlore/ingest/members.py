"""Keeps up who is in closed rooms, where records list all their members.

Whoever a newer list leaves out has left: at the time of the first message that carried such a list, so that
batches do not matter. A list older than the newest one known ends nobody's presence and begins nobody's
that would last. Nothing here widens what was narrowed: a presence that has ended stays ended, and begins
again only where the platform states another beginning. An end that a list states for later than its own
message is taken at its word, and an older list that comes after may then end a presence sooner.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import zip_longest

from roomlore.domain.ids import OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import IncomingMessage, IncomingRoom
from roomlore.domain.roomaudience import visibility_of
from roomlore.ingest.resolve import ResolvedNames
from roomlore.store import directory
from roomlore.store.directory import MemberListTime, RoomMembership, StatedMembership
from roomlore.store.queries import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberList:
    """All members of a closed room, and the times of the messages in a row that said so."""

    room_id: RoomId
    first_at: datetime
    last_at: datetime
    stated: Sequence[StatedMembership]


def is_complete_list(room: IncomingRoom, *, is_closed: bool) -> bool:
    """Return whether a room as described lists all who may read it, which not the description alone may close."""
    return bool(room.members) and (is_closed or visibility_of(room).visibility == "members")


async def update_member_lists(
    conn: Connection,
    org_id: OrgId,
    batch: Sequence[IncomingMessage],
    names: ResolvedNames,
    *,
    closed: Collection[RoomId],
) -> None:
    """State the presences that complete lists give, and end those that they leave out; some rooms are closed already."""
    said = [
        message for message in batch if is_complete_list(message.room, is_closed=names.room(message) in closed)
    ]
    if not said:
        return
    told = await directory.member_list_times(conn, org_id, {names.room(message) for message in said})
    lists = _member_lists(said, names, told)
    # One list of every room at a time, oldest first: what a list says depends on those before it.
    for turn in zip_longest(*(of_room for _, of_room in sorted(lists.items()))):
        await _apply_lists(conn, org_id, [one for one in turn if one is not None], told)


def _member_lists(
    said: Sequence[IncomingMessage], names: ResolvedNames, told: Mapping[RoomId, datetime]
) -> dict[RoomId, list[MemberList]]:
    stated: dict[int, Sequence[StatedMembership]] = {}
    lists: dict[RoomId, list[MemberList]] = {}
    for message in sorted(said, key=lambda message: message.sent_at):
        room, room_id, sent_at = message.room, names.room(message), message.sent_at
        members = stated.get(id(room))
        if members is None:
            members = stated[id(room)] = _listed_memberships(message.platform, room, room_id, names)
        of_room = lists.setdefault(room_id, [])
        # What stands before the newest list known and what after it count differently.
        is_first = room_id in told and of_room and of_room[-1].last_at < told[room_id] <= sent_at
        if of_room and not is_first and of_room[-1].stated == members:
            of_room[-1] = replace(of_room[-1], last_at=sent_at)
        else:
            of_room.append(MemberList(room_id=room_id, first_at=sent_at, last_at=sent_at, stated=members))
    return lists


def _listed_memberships(platform: str, room: IncomingRoom, room_id: RoomId, names: ResolvedNames) -> Sequence[StatedMembership]:
    ends: dict[tuple[ParticipantId, datetime | None], datetime | None] = {}
    for member in room.members:
        key = (names.author(platform, member.author), member.joined_at)
        known = [end for end in (ends.get(key), member.left_at) if end is not None]
        ends[key] = min(known, default=None)
    return [
        StatedMembership(room_id=room_id, participant_id=participant_id, joined_at=joined_at, left_at=left_at)
        for (participant_id, joined_at), left_at in ends.items()
    ]


async def _apply_lists(
    conn: Connection, org_id: OrgId, lists: Sequence[MemberList], told: Mapping[RoomId, datetime]
) -> None:
    newer = [one for one in lists if one.room_id not in told or one.first_at >= told[one.room_id]]
    older = [one for one in lists if one.room_id in told and one.first_at < told[one.room_id]]
    stated = [member for one in newer for member in one.stated]
    if older:
        present = await directory.present_members(conn, org_id, [one.room_id for one in older])
        stated += [
            member if (member.room_id, member.participant_id) in present else _ended_membership(member, told)
            for one in older
            for member in one.stated
        ]
    await directory.add_stated_memberships(conn, org_id, stated)
    if not newer:
        return
    listed = {(member.room_id, member.participant_id) for one in newer for member in one.stated}
    await directory.end_memberships(
        conn,
        org_id,
        [MemberListTime(room_id=one.room_id, told_at=one.first_at) for one in newer],
        [RoomMembership(room_id=room_id, participant_id=who) for room_id, who in sorted(listed)],
    )
    await directory.update_member_list_times(
        conn, org_id, [MemberListTime(room_id=one.room_id, told_at=one.last_at) for one in newer]
    )


def _ended_membership(member: StatedMembership, told: Mapping[RoomId, datetime]) -> StatedMembership:
    """Return the presence of somebody whom the newest list left out."""
    told_at = told[member.room_id]
    return member if member.left_at else replace(member, left_at=max(told_at, member.joined_at or told_at))
