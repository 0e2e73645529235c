"""Hears wishes in what comes in and withholds what they cover, in the transaction that stores it.

What a wish covers depends on what was said before it. So a message that comes late has the wishes after it settled
anew, and one that comes in order is only asked whether a wish covers it: the end is the same in any order. But whom a
wish names, which of its words are values and how far back it reaches are told once, when it is heard, and kept as
long as its message says the same: nobody slips away from a wish, or into it, under another name.
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from roomlore.domain.ids import MessageId, OrgId, RoomId
from roomlore.store import untangling, wishreview, work
from roomlore.store import wishes as kept
from roomlore.store.queries import Connection
from roomlore.store.wishes import HeardWish, NewWish, WishMode, WishStatus
from roomlore.wishes import rows
from roomlore.wishes.certainty import doubt
from roomlore.wishes.covering import before_of, covers, settled
from roomlore.wishes.listening import NOTHING, Listened, voicing
from roomlore.wishes.looking import Surroundings, around, present, starts, under
from roomlore.wishes.parties import People, parties
from roomlore.wishes.recogniser import heard, names_nobody_known
from roomlore.wishes.records import RULES, Person, Reach, Said, Voice, Wish

#: A message that voices a wish, and one that is covered for it.
Pair = tuple[MessageId, MessageId]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Room:
    """A room, its wishes so far, and what is looked at of it."""

    id: RoomId
    people: People
    known: Mapping[MessageId, HeardWish]
    #: What was added or changed.
    fresh: Sequence[Said]
    #: What voices the known wishes that may have to be settled anew, and is not fresh.
    voices: Sequence[Said]


async def hear(
    conn: Connection,
    org_id: OrgId,
    bodies: Mapping[MessageId, str],
    *,
    rooms: Collection[RoomId],
    at: datetime,
    listened: Listened = NOTHING,
) -> None:
    """Hear the wishes in messages that were just added or changed, and withhold what wishes cover.

    What could not be listened to in time is left to the worker.

    Args:
        conn: In the transaction that stores the messages, their authors and edges; it holds the rooms.
        org_id: Whose.
        bodies: What the messages say now.
        rooms: Where they were said.
        at: When they are heard.
        listened: Which texts are put like a wish, as far as that was told before.
    """
    if await wishreview.mode(conn, org_id) == "off":
        return
    voices = await voicing(conn, org_id, bodies, listened)
    known = await kept.in_rooms(conn, org_id, rooms)
    if not voices and not known:
        return
    found: list[Pair] = []
    # Where no wish was, nothing is covered but by those that are heard now, which look for it.
    for looked_at in await _rooms(conn, org_id, known, fresh=bodies if known else voices):
        voiced = await asyncio.to_thread(_heard, looked_at)
        room = await _without_silenced(conn, org_id, looked_at, voiced)
        found += await _settle(conn, org_id, room, [one for one in voiced if _is_due(one, room)], at=at)
    if known:
        await kept.release_messages(conn, org_id, bodies)
    await _withhold(conn, org_id, found)


async def hear_again(conn: Connection, org_id: OrgId, rooms: Collection[RoomId]) -> None:
    """Settle the wishes of rooms anew from which something was taken."""
    known = await kept.in_rooms(conn, org_id, rooms)
    if not known or await wishreview.mode(conn, org_id) == "off":
        return
    at = max(wish.heard_at for wish in known)
    found: list[Pair] = []
    for looked_at in await _rooms(conn, org_id, known, fresh=()):
        voiced = await asyncio.to_thread(_heard, looked_at)
        room = await _without_silenced(conn, org_id, looked_at, voiced)
        found += await _settle(conn, org_id, room, voiced, at=at, is_all_new=True)
    await _withhold(conn, org_id, found)


async def hear_named(
    conn: Connection,
    org_id: OrgId,
    room_id: RoomId,
    wishes: Mapping[MessageId, Wish],
    *,
    heard_by: str,
    at: datetime,
) -> int:
    """Keep wishes that something else than the rules heard, for a person to decide, and return how many were kept.

    Left out are those in messages that are not in the room or have no words, those where the rules heard a wish
    themselves, and those that were dismissed. Of a topic or a value counts what the message says of it, word for word.
    One that was kept is heard anew as long as its message is not changed.

    Args:
        conn: In a transaction that holds the room, see `directory.lock_rooms`.
        org_id: Whose.
        room_id: Where they were voiced.
        wishes: What was heard, by the message that voices it.
        heard_by: The name of the language model that heard it.
        at: When they are heard.
    """
    if await wishreview.mode(conn, org_id) == "off":
        return 0
    known = await kept.in_rooms(conn, org_id, [room_id])
    dismissed = {wish.message_id for wish in known if wish.status == "dismissed"}
    for room in await _rooms(conn, org_id, known, fresh=wishes.keys() - dismissed):
        if room.id == room_id:
            voices = [
                _told(said, wishes[said.id], heard_by)
                for said in room.fresh
                if not _is_heard_by_rules(said, room)
            ]
            await _withhold(conn, org_id, await _settle(conn, org_id, room, voices, at=at))
            return len(voices)
    return 0


async def uncover(conn: Connection, org_id: OrgId, room_id: RoomId, wish_id: UUID) -> None:
    """Withhold nothing any more for a wish that was dismissed, nor what others covered because of it."""
    covered = await wishreview.covered_by(conn, org_id, [wish_id])
    await _name_again(conn, org_id, [one.message_id for one in covered])
    await kept.release_wish(conn, org_id, wish_id)
    await hear_again(conn, org_id, [room_id])


async def silence(conn: Connection, org_id: OrgId) -> None:
    """Withhold nothing any more in an org, but for wishes that are gone."""
    await _name_again(conn, org_id, await wishreview.withheld_in_org(conn, org_id))
    await kept.release_all(conn, org_id)


# What is known of the rooms


async def _rooms(
    conn: Connection, org_id: OrgId, known: Sequence[HeardWish], *, fresh: Collection[MessageId]
) -> list[_Room]:
    """Return the rooms of wishes and messages; where nothing is fresh, all that voices a wish is looked at."""
    wishes: dict[RoomId, dict[MessageId, HeardWish]] = defaultdict(dict)
    for wish in known:
        wishes[wish.room_id][wish.message_id] = wish
    came: dict[RoomId, list[Said]] = defaultdict(list)
    for row in await kept.said_by_ids(conn, org_id, fresh):
        came[row.room_id].append(rows.said_of(row))
    voices: dict[RoomId, list[Said]] = defaultdict(list)
    late = {wish.message_id for wish in known if not fresh or _is_late(wish, came[wish.room_id])}
    for row in await kept.said_by_ids(conn, org_id, late.difference(fresh)):
        voices[row.room_id].append(rows.said_of(row))
    people: dict[RoomId, list[Person]] = defaultdict(list)
    for person in await kept.people_of(conn, org_id, came.keys() | wishes.keys()):
        people[person.room_id].append(Person(id=person.id, name=person.name, kind=person.kind))
    return [
        _Room(
            id=room_id,
            people=People.of(people[room_id]),
            known=wishes[room_id],
            fresh=came[room_id],
            voices=voices[room_id],
        )
        for room_id in sorted(came.keys() | wishes.keys())
    ]


def _is_late(wish: HeardWish, fresh: Sequence[Said]) -> bool:
    """Return whether a wish may have to be settled anew.

    Something fresh came before it; or whom it names may have come only now.
    """
    position = (wish.sent_at, wish.native_order, wish.message_id)
    is_waiting = wish.told is None or bool(wish.told.get("awaited"))
    return is_waiting or any(said.position < position for said in fresh)


# What is heard


def _heard(room: _Room) -> list[Voice]:
    """Return the wishes that are voiced in what is looked at of a room."""
    found = (_voice(said, room) for said in (*room.fresh, *room.voices))
    return [one for one in found if one is not None]


def _voice(said: Said, room: _Room) -> Voice | None:
    """Return what a message wishes: as it was heard before, else by rules; what names nobody yet waits for them."""
    known = room.known.get(said.id)
    before = None if known is None else rows.wish_of(known, said.body)
    if known is not None and before is not None:
        return _joined(Voice(said=said, wish=before, heard_by=known.heard_by, told=known.told), room.people)
    wish = heard(said.body, said.author_id, room.people)
    if wish is not None:
        return _told(said, wish, RULES)
    return Voice(said=said, wish=Wish(kind="withhold")) if names_nobody_known(said.body) else None


def _joined(voice: Voice, people: People) -> Voice:
    """Return a wish that names whom it waited for too, once they have come; whoever has is named for good."""
    come = {name: parties(name, people) - {voice.said.author_id} for name in voice.wish.awaited}
    if voice.told is None or not any(come.values()):
        return voice
    places = zip(voice.wish.awaited, voice.told["awaited"], strict=True)
    wish = replace(
        voice.wish,
        party_ids=voice.wish.party_ids.union(*come.values()),
        awaited=tuple(name for name in voice.wish.awaited if not come[name]),
    )
    return replace(
        voice, wish=wish, told={**voice.told, "awaited": [place for name, place in places if not come[name]]}
    )


def _is_heard_by_rules(said: Said, room: _Room) -> bool:
    voice = _voice(said, room)
    return voice is not None and voice.told is not None and voice.heard_by == RULES


def _told(said: Said, wish: Wish, heard_by: str) -> Voice:
    told = rows.told(wish, said.body)
    return Voice(said=said, wish=rows.as_told(wish, told, said.body), heard_by=heard_by, told=told)


async def _without_silenced(conn: Connection, org_id: OrgId, room: _Room, voiced: Sequence[Voice]) -> _Room:
    """Forget the known wishes that are heard no more where they were voiced, and return the room without them.

    Those that somebody dismissed are kept: said again, they stay so.
    """
    looked_at = {said.id for said in (*room.fresh, *room.voices)}
    open_ones = {key for key, wish in room.known.items() if wish.status != "dismissed"}
    silenced = looked_at & open_ones - {voice.said.id for voice in voiced}
    if not silenced:
        return room
    await kept.drop(conn, org_id, silenced)
    return replace(room, known={key: wish for key, wish in room.known.items() if key not in silenced})


def _is_due(voice: Voice, room: _Room) -> bool:
    """Return whether a wish has to be settled: it is new, whom it names has come, or something came before it."""
    known = room.known.get(voice.said.id)
    if known is None or voice.told != known.told:
        return True
    return any(said.position <= voice.said.position for said in room.fresh)


# What is covered


async def _settle(
    conn: Connection,
    org_id: OrgId,
    room: _Room,
    due: Sequence[Voice],
    *,
    at: datetime,
    is_all_new: bool = False,
) -> list[Pair]:
    """Settle wishes of a room anew, and return what is withheld now for these, and for others of what is fresh."""
    due_ids = {voice.said.id for voice in due}
    others = [
        rows.reach_of(wish)
        for key, wish in room.known.items()
        if wish.status == "active" and key not in due_ids
    ]
    found = await asyncio.to_thread(_covered_by, others, room.fresh)
    if not due:
        return found
    look = await around(conn, org_id, room.id, due)
    standing = {voice.said.id for voice in due if voice.wish.is_standing}
    since = await starts(conn, org_id, standing) | {
        key: wish.since for key, wish in room.known.items() if wish.is_standing
    }
    look = replace(look, present=await present(conn, org_id, due_ids))
    mode = await wishreview.mode(conn, org_id)
    # Whoever writes a message chooses its text: nothing else waits until it is gone through.
    now = await asyncio.to_thread(_settled, due, room, look, others=others, since=since, mode=mode)
    await kept.put(conn, org_id, [one.row(room.id) for one in now], heard_at=at)
    for one in now:
        found += await _covered(conn, org_id, room, one, look=look, is_new=is_all_new)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settled:
    """A wish, what it covers, and whether it is carried out."""

    voice: Voice
    reach: Reach
    status: WishStatus
    doubt: str

    def row(self, room_id: RoomId) -> NewWish:
        """Return how it is kept."""
        return rows.kept(room_id, self.voice, self.reach, status=self.status, doubt=self.doubt)


def _settled(
    due: Sequence[Voice],
    room: _Room,
    look: Surroundings,
    *,
    others: Sequence[Reach],
    since: Mapping[MessageId, datetime | None],
    mode: WishMode,
) -> list[_Settled]:
    """Return what wishes cover, settled in the order of the room: later ones may rest on earlier ones."""
    before = list(others)
    found: list[_Settled] = []
    for voice in sorted(due, key=lambda one: one.said.position):
        said = voice.said
        reach = settled(
            voice.wish,
            said,
            look.said,
            people=room.people,
            earlier=[one for one in before if one.position < said.position],
            common=look.common.get(said.id, frozenset()),
            present=look.present.get(said.id, frozenset()),
        )
        if reach.is_standing:
            reach = replace(reach, since=since.get(said.id))
        known = room.known.get(said.id)
        if known is not None and reach.kind == known.kind == "confide" and known.told == voice.told:
            # Whom it was told to was told once: nobody is let in later, whatever they or others call themselves.
            reach = replace(reach, spared_ids=frozenset(known.spared_ids))
        why = doubt(voice, before_of(said, look.said))
        status = _status(known, why, mode)
        found.append(_Settled(voice=voice, reach=reach, status=status, doubt=why))
        if status == "active":
            before.append(reach)
    return found


def _status(known: HeardWish | None, why: str, mode: WishMode) -> WishStatus:
    """Return what becomes of a wish: what somebody decided stays, and so does what was as plain, or as doubtful, before."""
    if known is not None and (known.decided_at is not None or bool(known.doubt) == bool(why)):
        return known.status
    return "proposed" if why or mode != "on" else "active"


async def _covered(
    conn: Connection, org_id: OrgId, room: _Room, one: _Settled, *, look: Surroundings, is_new: bool
) -> list[Pair]:
    """Release what a wish covered, as far as that may have changed, and return what it covers now of it."""
    reach = one.reach
    if one.status != "active":
        await kept.release(conn, org_id, [reach.message_id])
        return []
    said: Collection[Said] = (*look.said, *room.fresh)
    if reach.is_standing:
        # What a restriction covers is much, and mostly stays as it was.
        known = room.known.get(reach.message_id)
        is_known = known is not None and known.status == "active" and rows.reach_of(known) == reach
        if is_known and not is_new:
            among = [said.id for said in room.fresh]
            return await asyncio.to_thread(
                _pairs, reach, await under(conn, org_id, room.id, reach, among=among)
            )
        said = await under(conn, org_id, room.id, reach)
    await kept.release(conn, org_id, [reach.message_id])
    return await asyncio.to_thread(_pairs, reach, said)


def _covered_by(reaches: Sequence[Reach], fresh: Sequence[Said]) -> list[Pair]:
    """Return which wishes cover which messages; message by message, for each is taken apart once."""
    return [(reach.message_id, said.id) for said in fresh for reach in reaches if covers(reach, said)]


def _pairs(reach: Reach, said: Collection[Said]) -> list[Pair]:
    by_id = {one.id: one for one in said}
    return [(reach.message_id, key) for key, one in by_id.items() if covers(reach, one)]


async def _withhold(conn: Connection, org_id: OrgId, found: Sequence[Pair]) -> None:
    """Withhold messages, and have the conversations they are in named anew."""
    if found:
        await kept.withhold(conn, org_id, found)
        await _name_again(conn, org_id, {message_id for _, message_id in found})


async def _name_again(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> None:
    if ids and await untangling.touch_rooms_of(conn, org_id, ids):
        await work.wake(conn, "untangle")
