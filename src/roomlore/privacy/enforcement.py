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

from roomlore.db import disentanglement, privacy_requests, work_queue
from roomlore.db import privacy_requests as kept
from roomlore.db.privacy_requests import NewRequest, RequestMode, RequestStatus, StoredRequest
from roomlore.db.queries import Connection
from roomlore.domain.ids import MessageId, OrgId, RoomId
from roomlore.privacy import storage
from roomlore.privacy.mentions import NameIndex, mentioned_ids
from roomlore.privacy.recogniser import recognise, restricts_unknown_person
from roomlore.privacy.records import (
    BY_RULES,
    NameIndexEntry,
    PrivacyRequest,
    RequestMessage,
    RequestScope,
    ScreenedMessage,
)
from roomlore.privacy.review import review_reason
from roomlore.privacy.scope import covers, messages_before, resolve_scope
from roomlore.privacy.screening import NOTHING_SCREENED, Screened, request_messages
from roomlore.privacy.storage import RoomExcerpt, load_excerpt, load_present, load_restricted, load_starts

#: A message that voices a wish, and one that is covered for it.
CoveredPair = tuple[MessageId, MessageId]


@dataclass(frozen=True, slots=True, kw_only=True)
class _RoomState:
    """A room, its wishes so far, and what is looked at of it."""

    id: RoomId
    name_index: NameIndex
    known: Mapping[MessageId, StoredRequest]
    #: What was added or changed.
    fresh: Sequence[ScreenedMessage]
    #: What voices the known wishes that may have to be settled anew, and is not fresh.
    messages: Sequence[ScreenedMessage]


async def apply(
    conn: Connection,
    org_id: OrgId,
    bodies: Mapping[MessageId, str],
    *,
    rooms: Collection[RoomId],
    at: datetime,
    screened: Screened = NOTHING_SCREENED,
) -> None:
    """Hear the wishes in messages that were just added or changed, and withhold what wishes cover.

    What could not be listened to in time is left to the worker.

    Args:
        conn: In the transaction that stores the messages, their authors and edges; it holds the rooms.
        org_id: Whose.
        bodies: What the messages say now.
        rooms: Where they were said.
        at: When they are heard.
        screened: Which texts are put like a wish, as far as that was told before.
    """
    if await privacy_requests.mode(conn, org_id) == "off":
        return
    voices = await request_messages(conn, org_id, bodies, screened)
    known = await kept.in_rooms(conn, org_id, rooms)
    if not voices and not known:
        return
    found: list[CoveredPair] = []
    # Where no wish was, nothing is covered but by those that are heard now, which look for it.
    for looked_at in await _load_rooms(conn, org_id, known, fresh=bodies if known else voices):
        voiced = await asyncio.to_thread(_requests_in, looked_at)
        room = await _without_withdrawn(conn, org_id, looked_at, voiced)
        found += await _resolve_and_store(
            conn, org_id, room, [one for one in voiced if _needs_resolving(one, room)], at=at
        )
    if known:
        await kept.lift_messages(conn, org_id, bodies)
    await _restrict(conn, org_id, found)


async def reapply(conn: Connection, org_id: OrgId, rooms: Collection[RoomId]) -> None:
    """Settle the wishes of rooms anew from which something was taken."""
    known = await kept.in_rooms(conn, org_id, rooms)
    if not known or await privacy_requests.mode(conn, org_id) == "off":
        return
    at = max(wish.heard_at for wish in known)
    found: list[CoveredPair] = []
    for looked_at in await _load_rooms(conn, org_id, known, fresh=()):
        voiced = await asyncio.to_thread(_requests_in, looked_at)
        room = await _without_withdrawn(conn, org_id, looked_at, voiced)
        found += await _resolve_and_store(conn, org_id, room, voiced, at=at, is_all_new=True)
    await _restrict(conn, org_id, found)


async def add_detected(
    conn: Connection,
    org_id: OrgId,
    room_id: RoomId,
    requests: Mapping[MessageId, PrivacyRequest],
    *,
    detected_by: str,
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
        requests: What was heard, by the message that voices it.
        detected_by: The name of the language model that heard it.
        at: When they are heard.
    """
    if await privacy_requests.mode(conn, org_id) == "off":
        return 0
    known = await kept.in_rooms(conn, org_id, [room_id])
    dismissed = {wish.message_id for wish in known if wish.status == "dismissed"}
    for room in await _load_rooms(conn, org_id, known, fresh=requests.keys() - dismissed):
        if room.id == room_id:
            voices = [
                _with_parsed_spans(said, requests[said.id], detected_by)
                for said in room.fresh
                if not _is_heard_by_rules(said, room)
            ]
            await _restrict(conn, org_id, await _resolve_and_store(conn, org_id, room, voices, at=at))
            return len(voices)
    return 0


async def lift(conn: Connection, org_id: OrgId, room_id: RoomId, wish_id: UUID) -> None:
    """Withhold nothing any more for a wish that was dismissed, nor what others covered because of it."""
    covered = await privacy_requests.covered_messages(conn, org_id, [wish_id])
    await _relabel(conn, org_id, [one.message_id for one in covered])
    await kept.lift_request(conn, org_id, wish_id)
    await reapply(conn, org_id, [room_id])


async def lift_all(conn: Connection, org_id: OrgId) -> None:
    """Withhold nothing any more in an org, but for wishes that are gone."""
    await _relabel(conn, org_id, await privacy_requests.restricted_in_org(conn, org_id))
    await kept.lift_all(conn, org_id)


# What is known of the rooms


async def _load_rooms(
    conn: Connection, org_id: OrgId, known: Sequence[StoredRequest], *, fresh: Collection[MessageId]
) -> list[_RoomState]:
    """Return the rooms of wishes and messages; where nothing is fresh, all that voices a wish is looked at."""
    wishes: dict[RoomId, dict[MessageId, StoredRequest]] = defaultdict(dict)
    for wish in known:
        wishes[wish.room_id][wish.message_id] = wish
    came: dict[RoomId, list[ScreenedMessage]] = defaultdict(list)
    for row in await kept.messages_by_id(conn, org_id, fresh):
        came[row.room_id].append(storage.to_message(row))
    voices: dict[RoomId, list[ScreenedMessage]] = defaultdict(list)
    late = {wish.message_id for wish in known if not fresh or _may_have_changed(wish, came[wish.room_id])}
    for row in await kept.messages_by_id(conn, org_id, late.difference(fresh)):
        voices[row.room_id].append(storage.to_message(row))
    people: dict[RoomId, list[NameIndexEntry]] = defaultdict(list)
    for person in await kept.room_participants(conn, org_id, came.keys() | wishes.keys()):
        people[person.room_id].append(NameIndexEntry(id=person.id, name=person.name, kind=person.kind))
    return [
        _RoomState(
            id=room_id,
            name_index=NameIndex.build(people[room_id]),
            known=wishes[room_id],
            fresh=came[room_id],
            messages=voices[room_id],
        )
        for room_id in sorted(came.keys() | wishes.keys())
    ]


def _may_have_changed(wish: StoredRequest, fresh: Sequence[ScreenedMessage]) -> bool:
    """Return whether a wish may have to be settled anew.

    Something fresh came before it; or whom it names may have come only now.
    """
    position = (wish.sent_at, wish.native_order, wish.message_id)
    is_waiting = wish.told is None or bool(wish.told.get("awaited"))
    return is_waiting or any(said.position < position for said in fresh)


# What is heard


def _requests_in(room: _RoomState) -> list[RequestMessage]:
    """Return the wishes that are voiced in what is looked at of a room."""
    found = (_request_in(said, room) for said in (*room.fresh, *room.messages))
    return [one for one in found if one is not None]


def _request_in(said: ScreenedMessage, room: _RoomState) -> RequestMessage | None:
    """Return what a message wishes: as it was heard before, else by rules; what names nobody yet waits for them."""
    known = room.known.get(said.id)
    before = None if known is None else storage.to_request(known, said.body)
    if known is not None and before is not None:
        return _with_resolved_names(
            RequestMessage(message=said, request=before, detected_by=known.heard_by, spans=known.told),
            room.name_index,
        )
    wish = recognise(said.body, said.author_id, room.name_index)
    if wish is not None:
        return _with_parsed_spans(said, wish, BY_RULES)
    return (
        RequestMessage(message=said, request=PrivacyRequest(kind="withhold"))
        if restricts_unknown_person(said.body)
        else None
    )


def _with_resolved_names(voice: RequestMessage, people: NameIndex) -> RequestMessage:
    """Return a wish that names whom it waited for too, once they have come; whoever has is named for good."""
    come = {
        name: mentioned_ids(name, people) - {voice.message.author_id}
        for name in voice.request.unresolved_names
    }
    if voice.spans is None or not any(come.values()):
        return voice
    places = zip(voice.request.unresolved_names, voice.spans["awaited"], strict=True)
    wish = replace(
        voice.request,
        restricted_ids=voice.request.restricted_ids.union(*come.values()),
        unresolved_names=tuple(name for name in voice.request.unresolved_names if not come[name]),
    )
    return replace(
        voice,
        request=wish,
        spans={**voice.spans, "awaited": [place for name, place in places if not come[name]]},
    )


def _is_heard_by_rules(said: ScreenedMessage, room: _RoomState) -> bool:
    voice = _request_in(said, room)
    return voice is not None and voice.spans is not None and voice.detected_by == BY_RULES


def _with_parsed_spans(said: ScreenedMessage, wish: PrivacyRequest, heard_by: str) -> RequestMessage:
    told = storage.to_spans(wish, said.body)
    return RequestMessage(
        message=said, request=storage.with_spans(wish, told, said.body), detected_by=heard_by, spans=told
    )


async def _without_withdrawn(
    conn: Connection, org_id: OrgId, room: _RoomState, voiced: Sequence[RequestMessage]
) -> _RoomState:
    """Forget the known wishes that are heard no more where they were voiced, and return the room without them.

    Those that somebody dismissed are kept: said again, they stay so.
    """
    looked_at = {said.id for said in (*room.fresh, *room.messages)}
    open_ones = {key for key, wish in room.known.items() if wish.status != "dismissed"}
    silenced = looked_at & open_ones - {voice.message.id for voice in voiced}
    if not silenced:
        return room
    await kept.drop(conn, org_id, silenced)
    return replace(room, known={key: wish for key, wish in room.known.items() if key not in silenced})


def _needs_resolving(voice: RequestMessage, room: _RoomState) -> bool:
    """Return whether a wish has to be settled: it is new, whom it names has come, or something came before it."""
    known = room.known.get(voice.message.id)
    if known is None or voice.spans != known.told:
        return True
    return any(said.position <= voice.message.position for said in room.fresh)


# What is covered


async def _resolve_and_store(
    conn: Connection,
    org_id: OrgId,
    room: _RoomState,
    due: Sequence[RequestMessage],
    *,
    at: datetime,
    is_all_new: bool = False,
) -> list[CoveredPair]:
    """Settle wishes of a room anew, and return what is withheld now for these, and for others of what is fresh."""
    due_ids = {voice.message.id for voice in due}
    others = [
        storage.to_scope(wish)
        for key, wish in room.known.items()
        if wish.status == "active" and key not in due_ids
    ]
    found = await asyncio.to_thread(_covered_pairs, others, room.fresh)
    if not due:
        return found
    look = await load_excerpt(conn, org_id, room.id, due)
    standing = {voice.message.id for voice in due if voice.request.is_ongoing}
    since = await load_starts(conn, org_id, standing) | {
        key: wish.since for key, wish in room.known.items() if wish.is_standing
    }
    look = replace(look, present=await load_present(conn, org_id, due_ids))
    mode = await privacy_requests.mode(conn, org_id)
    # Whoever writes a message chooses its text: nothing else waits until it is gone through.
    now = await asyncio.to_thread(_resolve, due, room, look, others=others, since=since, mode=mode)
    await kept.add(conn, org_id, [one.row(room.id) for one in now], heard_at=at)
    for one in now:
        found += await _covered_now(conn, org_id, room, one, look=look, is_new=is_all_new)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _ResolvedRequest:
    """A wish, what it covers, and whether it is carried out."""

    voice: RequestMessage
    reach: RequestScope
    status: RequestStatus
    doubt: str

    def row(self, room_id: RoomId) -> NewRequest:
        """Return how it is kept."""
        return storage.to_row(room_id, self.voice, self.reach, status=self.status, doubt=self.doubt)


def _resolve(
    due: Sequence[RequestMessage],
    room: _RoomState,
    look: RoomExcerpt,
    *,
    others: Sequence[RequestScope],
    since: Mapping[MessageId, datetime | None],
    mode: RequestMode,
) -> list[_ResolvedRequest]:
    """Return what wishes cover, settled in the order of the room: later ones may rest on earlier ones."""
    before = list(others)
    found: list[_ResolvedRequest] = []
    for voice in sorted(due, key=lambda one: one.message.position):
        said = voice.message
        reach = resolve_scope(
            voice.request,
            said,
            look.messages,
            name_index=room.name_index,
            earlier=[one for one in before if one.position < said.position],
            common=look.common.get(said.id, frozenset()),
            present=look.present.get(said.id, frozenset()),
        )
        if reach.is_ongoing:
            reach = replace(reach, since=since.get(said.id))
        known = room.known.get(said.id)
        if known is not None and reach.kind == known.kind == "confide" and known.told == voice.spans:
            # Whom it was told to was told once: nobody is let in later, whatever they or others call themselves.
            reach = replace(reach, exempt_ids=frozenset(known.spared_ids))
        why = review_reason(voice, messages_before(said, look.messages))
        status = _next_status(known, why, mode)
        found.append(_ResolvedRequest(voice=voice, reach=reach, status=status, doubt=why))
        if status == "active":
            before.append(reach)
    return found


def _next_status(known: StoredRequest | None, why: str, mode: RequestMode) -> RequestStatus:
    """Return what becomes of a wish: what somebody decided stays, and so does what was as plain, or as doubtful, before."""
    if known is not None and (known.decided_at is not None or bool(known.doubt) == bool(why)):
        return known.status
    return "proposed" if why or mode != "on" else "active"


async def _covered_now(
    conn: Connection,
    org_id: OrgId,
    room: _RoomState,
    one: _ResolvedRequest,
    *,
    look: RoomExcerpt,
    is_new: bool,
) -> list[CoveredPair]:
    """Release what a wish covered, as far as that may have changed, and return what it covers now of it."""
    reach = one.reach
    if one.status != "active":
        await kept.lift(conn, org_id, [reach.message_id])
        return []
    said: Collection[ScreenedMessage] = (*look.messages, *room.fresh)
    if reach.is_ongoing:
        # What a restriction covers is much, and mostly stays as it was.
        known = room.known.get(reach.message_id)
        is_known = known is not None and known.status == "active" and storage.to_scope(known) == reach
        if is_known and not is_new:
            among = [said.id for said in room.fresh]
            return await asyncio.to_thread(
                _pairs_of, reach, await load_restricted(conn, org_id, room.id, reach, among=among)
            )
        said = await load_restricted(conn, org_id, room.id, reach)
    await kept.lift(conn, org_id, [reach.message_id])
    return await asyncio.to_thread(_pairs_of, reach, said)


def _covered_pairs(reaches: Sequence[RequestScope], fresh: Sequence[ScreenedMessage]) -> list[CoveredPair]:
    """Return which wishes cover which messages; message by message, for each is taken apart once."""
    return [(reach.message_id, said.id) for said in fresh for reach in reaches if covers(reach, said)]


def _pairs_of(reach: RequestScope, said: Collection[ScreenedMessage]) -> list[CoveredPair]:
    by_id = {one.id: one for one in said}
    return [(reach.message_id, key) for key, one in by_id.items() if covers(reach, one)]


async def _restrict(conn: Connection, org_id: OrgId, found: Sequence[CoveredPair]) -> None:
    """Withhold messages, and have the conversations they are in named anew."""
    if found:
        await kept.restrict(conn, org_id, found)
        await _relabel(conn, org_id, {message_id for _, message_id in found})


async def _relabel(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> None:
    if ids and await disentanglement.mark_messages_dirty(conn, org_id, ids):
        await work_queue.wake(conn, "untangle")
