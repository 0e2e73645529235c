"""Hears wishes in what comes in and withholds what they cover, in the transaction that stores it.

What a wish covers depends on what was said before it. So a message that comes late has the wishes after it settled
anew, and one that comes in order is only asked whether a wish covers it: the end is the same in any order.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import cast

from roomlore.domain.ids import MessageId, OrgId, RoomId
from roomlore.store import untangling, work
from roomlore.store import wishes as kept
from roomlore.store.queries import Connection
from roomlore.store.wishes import HeardWish, NewWish, SaidRow
from roomlore.wishes.covering import covers, settled
from roomlore.wishes.parties import Circle
from roomlore.wishes.recogniser import heard, names_nobody_known
from roomlore.wishes.recogniser import voices as put_like_a_wish
from roomlore.wishes.records import Matter, Person, Position, Reach, Said, Wish, WishKind

RULES = "rules"


@dataclass(slots=True, kw_only=True)
class _Room:
    """What is known of a room in which wishes are heard."""

    people: list[Person] = field(default_factory=list[Person])
    known: list[HeardWish] = field(default_factory=list[HeardWish])
    #: Those of the batch that were said here, and what voices restrictions that are known.
    fresh: list[Said] = field(default_factory=list[Said])
    voiced: list[Said] = field(default_factory=list[Said])

    @property
    def earliest(self) -> Position | None:
        """The place of the first message of the batch."""
        return min((said.position for said in self.fresh), default=None)


async def hear(
    conn: Connection,
    org_id: OrgId,
    bodies: Mapping[MessageId, str],
    *,
    rooms: Collection[RoomId],
    at: datetime,
) -> None:
    """Hear the wishes in messages that were just added or changed, and withhold what wishes cover.

    Args:
        conn: In the transaction that stores the messages, their authors and edges; it holds the rooms.
        org_id: Whose.
        bodies: What the messages say now.
        rooms: Where they were said.
        at: When they are heard.
    """
    voices = [key for key, body in bodies.items() if put_like_a_wish(body)]
    known = await kept.in_rooms(conn, org_id, rooms)
    if not voices and not known:
        return
    # Whom a restriction names may have come only now.
    named = {wish.message_id for wish in known if wish.kind == "withhold"}
    by_room = await _rooms(conn, org_id, known, {*voices, *(bodies if known else ())}, named=named)
    silenced = {wish.message_id for wish in known} & bodies.keys()
    found: list[tuple[MessageId, MessageId]] = []
    for room_id, room in by_room.items():
        wishes = _heard(room, {*voices, *named})
        lost = [
            wish.message_id
            for wish in room.known
            if wish.message_id in silenced and wish.message_id not in wishes
        ]
        if lost:
            await kept.drop(conn, org_id, lost)
            room.known = [wish for wish in room.known if wish.message_id not in lost]
        if wishes or room.known:
            found += await _settle_room(conn, org_id, room_id, room=room, wishes=wishes, at=at)
    if known:
        await kept.release_messages(conn, org_id, bodies)
    await _withhold(conn, org_id, found)


async def hear_again(conn: Connection, org_id: OrgId, rooms: Collection[RoomId]) -> None:
    """Settle the wishes of rooms anew from which something was taken."""
    known = await kept.in_rooms(conn, org_id, rooms)
    if not known:
        return
    at = max(wish.heard_at for wish in known)
    found: list[tuple[MessageId, MessageId]] = []
    by_room = await _rooms(conn, org_id, known, [wish.message_id for wish in known])
    for room_id, room in by_room.items():
        wishes = _heard(room, {wish.message_id for wish in room.known})
        found += await _settle_room(conn, org_id, room_id, room=room, wishes=wishes, at=at)
    await _withhold(conn, org_id, found)


async def uncover(conn: Connection, org_id: OrgId, room_id: RoomId, voice_id: MessageId) -> None:
    """Withhold nothing any more for a wish that was undone, nor what others covered because of it."""
    await _name_again(conn, org_id, await kept.covered_for(conn, org_id, voice_id))
    await kept.release(conn, org_id, [voice_id])
    await hear_again(conn, org_id, [room_id])


async def _rooms(
    conn: Connection,
    org_id: OrgId,
    known: Sequence[HeardWish],
    ids: Collection[MessageId],
    *,
    named: Collection[MessageId] = (),
) -> dict[RoomId, _Room]:
    by_room: dict[RoomId, _Room] = defaultdict(_Room)
    for wish in known:
        by_room[wish.room_id].known.append(wish)
    for row in await kept.said_by_ids(conn, org_id, {*ids, *named}):
        room = by_room[row.room_id]
        (room.fresh if row.id in ids else room.voiced).append(_said(row))
    for person in await kept.people_of(conn, org_id, list(by_room)):
        by_room[person.room_id].people.append(Person(id=person.id, name=person.name, kind=person.kind))
    return by_room


def _heard(room: _Room, voices: set[MessageId]) -> dict[MessageId, Wish]:
    """Return the wishes that messages of a room voice."""
    circle = Circle.of(room.people)
    found = {said.id: _wish(said, circle) for said in (*room.fresh, *room.voiced) if said.id in voices}
    standing = {
        wish.message_id: frozenset(wish.from_ids or ()) for wish in room.known if wish.kind == "withhold"
    }
    fresh = {said.id for said in room.fresh}
    return {
        key: wish
        for key, wish in found.items()
        if wish is not None and (key in fresh or wish.party_ids != standing.get(key))
    }


def _wish(said: Said, circle: Circle) -> Wish | None:
    """Return what a message wishes; one that names nobody who is known waits for them."""
    wish = heard(said.body, said.author_id, circle)
    if wish is None and names_nobody_known(said.body):
        return Wish(kind="withhold")
    return wish


async def _settle_room(
    conn: Connection,
    org_id: OrgId,
    room_id: RoomId,
    *,
    room: _Room,
    wishes: Mapping[MessageId, Wish],
    at: datetime,
) -> list[tuple[MessageId, MessageId]]:
    """Settle what has to be settled anew, and return what is withheld now: pairs of a voice and what it covers."""
    earliest = room.earliest
    stale = {
        wish.message_id
        for wish in room.known
        if wish.message_id in wishes
        or (earliest is not None and (wish.sent_at, wish.native_order, wish.message_id) > earliest)
    } | wishes.keys()
    standing = [
        _reach(wish) for wish in room.known if wish.status == "active" and wish.message_id not in stale
    ]
    found = [(reach.message_id, said.id) for reach in standing for said in room.fresh if covers(reach, said)]
    if not stale:
        return found
    said = [_said(row) for row in await kept.said_in(conn, org_id, room_id)]
    undone = {wish.message_id for wish in room.known if wish.status == "undone"}
    reaches = _settled(said, room, wishes=wishes, stale=stale, standing=standing, undone=undone)
    await kept.release(conn, org_id, stale)
    gone = stale - {reach.message_id for reach in reaches}
    if gone:
        await kept.drop(conn, org_id, gone)
    await kept.put(conn, org_id, [_kept(room_id, reach) for reach in reaches], heard_by=RULES, heard_at=at)
    return found + [(reach.message_id, one.id) for reach in reaches for one in said if covers(reach, one)]


def _settled(
    said: Sequence[Said],
    room: _Room,
    *,
    wishes: Mapping[MessageId, Wish],
    stale: Collection[MessageId],
    standing: Sequence[Reach],
    undone: Collection[MessageId],
) -> list[Reach]:
    """Return what the wishes that are to be settled anew cover, in the order of the room."""
    circle = Circle.of(room.people)
    earlier = {reach.message_id: reach for reach in standing}
    before: list[Reach] = []
    found: list[Reach] = []
    for one in said:
        if one.id in earlier:
            before.append(earlier[one.id])
        if one.id not in stale:
            continue
        wish = wishes.get(one.id) or _wish(one, circle)
        if wish is not None:
            reach = settled(wish, one, said, circle=circle, earlier=before)
            found.append(reach)
            before += [] if one.id in undone else [reach]
    return found


async def _withhold(conn: Connection, org_id: OrgId, found: Sequence[tuple[MessageId, MessageId]]) -> None:
    """Withhold messages, and have the conversations they are in named anew."""
    if not found:
        return
    await kept.withhold(conn, org_id, found)
    await _name_again(conn, org_id, {message_id for _, message_id in found})


async def _name_again(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> None:
    if ids and await untangling.touch_rooms_of(conn, org_id, ids):
        await work.wake(conn, "untangle")


def _said(row: SaidRow) -> Said:
    return Said(
        id=row.id,
        author_id=row.author_id,
        author_name=row.author_name,
        author_kind=row.author_kind,
        body=row.body,
        sent_at=row.sent_at,
        native_order=row.native_order,
        reply_to=row.reply_to,
    )


def _reach(wish: HeardWish) -> Reach:
    return Reach(
        message_id=wish.message_id,
        wisher_id=wish.author_id,
        kind=cast("WishKind", wish.kind),
        position=(wish.sent_at, wish.native_order, wish.message_id),
        targets=frozenset(wish.target_ids),
        marks=frozenset(wish.marks),
        own_marks=frozenset(wish.own_marks),
        from_ids=None if wish.from_ids is None else frozenset(wish.from_ids),
        spared_ids=frozenset(wish.spared_ids),
        is_standing=wish.is_standing,
        permits=_matters(wish.permits),
        denies=_matters(wish.denies),
        of_ids=None if wish.of_ids is None else frozenset(wish.of_ids),
    )


def _matters(names: Iterable[str]) -> frozenset[Matter]:
    return frozenset(cast("Iterable[Matter]", names))


def _kept(room_id: RoomId, reach: Reach) -> NewWish:
    return NewWish(
        room_id=room_id,
        message_id=reach.message_id,
        author_id=reach.wisher_id,
        kind=reach.kind,
        target_ids=reach.targets,
        marks=reach.marks,
        own_marks=reach.own_marks,
        from_ids=reach.from_ids,
        spared_ids=reach.spared_ids,
        is_standing=reach.is_standing,
        permits=reach.permits,
        denies=reach.denies,
        of_ids=reach.of_ids,
    )
