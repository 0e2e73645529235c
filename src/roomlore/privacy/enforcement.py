"""Detects privacy requests in new messages and restricts what they cover, in the transaction that stores them.

The scope of a request depends on the messages before it. So when a message arrives late, the requests after it are
resolved again. A message that arrives in order is only compared with known requests. Both give the same result in any
order of arrival. The people and values that a request names, and how far back it reaches, are parsed once and stored
until its message is edited. So renaming a person does not change whom a request applies to.
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from roomlore.db import disentanglement, privacy_requests, work_queue
from roomlore.db import privacy_requests as kept
from roomlore.db.privacy_requests import (
    NewRequest,
    RequestMode,
    RequestStatus,
    RoomMessage,
    RoomParticipant,
    StoredRequest,
)
from roomlore.db.queries import Connection
from roomlore.domain.ids import MessageId, OrgId, RoomId
from roomlore.privacy import storage
from roomlore.privacy.mentions import NameIndex, mentioned_ids
from roomlore.privacy.recogniser import recognise, restricts_unknown_person
from roomlore.privacy.records import (
    BY_RULES,
    PrivacyRequest,
    RequestMessage,
    RequestScope,
)
from roomlore.privacy.review import review_reason
from roomlore.privacy.scope import covers, messages_before, resolve_scope
from roomlore.privacy.screening import NOTHING_SCREENED, Screened, request_messages
from roomlore.privacy.storage import RoomExcerpt, load_excerpt, load_present, load_restricted, load_starts

#: The id of a request's source message (the message that states it), and the id of a message that the request covers.
CoveredPair = tuple[MessageId, MessageId]


@dataclass(frozen=True, slots=True, kw_only=True)
class _RoomState:
    """A room with its known requests and the messages to examine."""

    id: RoomId
    name_index: NameIndex
    known: Mapping[MessageId, StoredRequest]
    #: New or edited messages.
    fresh: Sequence[RoomMessage]
    #: Source messages of other requests. These requests may have to be resolved again.
    messages: Sequence[RoomMessage]


async def apply(
    conn: Connection,
    org_id: OrgId,
    bodies: Mapping[MessageId, str],
    *,
    rooms: Collection[RoomId],
    at: datetime,
    screened: Screened = NOTHING_SCREENED,
) -> None:
    """Detect requests in new or edited messages, and restrict everything that requests cover.

    Run it in the transaction that stores the messages, under the lock of their `rooms`. `bodies` are the current
    texts, `screened` earlier screening results. Messages whose screening times out are left to the worker.
    """
    if await privacy_requests.mode(conn, org_id) == "off":
        return
    sources = await request_messages(conn, org_id, bodies, screened)
    known = await kept.in_rooms(conn, org_id, rooms)
    if not sources and not known:
        return
    covered: list[CoveredPair] = []
    # Without known requests, only requests in the new messages can cover anything. Those requests load what they need.
    for loaded in await _load_rooms(conn, org_id, known, fresh=bodies if known else sources):
        stated = await asyncio.to_thread(_requests_in, loaded)
        room = await _without_withdrawn(conn, org_id, loaded, stated)
        covered += await _resolve_and_store(
            conn, org_id, room, [request for request in stated if _needs_resolving(request, room)], at=at
        )
    if known:
        await kept.lift_messages(conn, org_id, bodies)
    await _restrict(conn, org_id, covered)


async def reapply(conn: Connection, org_id: OrgId, rooms: Collection[RoomId]) -> None:
    """Resolve the requests of rooms again after messages were removed."""
    known = await kept.in_rooms(conn, org_id, rooms)
    if not known or await privacy_requests.mode(conn, org_id) == "off":
        return
    at = max(request.detected_at for request in known)
    covered: list[CoveredPair] = []
    for loaded in await _load_rooms(conn, org_id, known, fresh=()):
        stated = await asyncio.to_thread(_requests_in, loaded)
        room = await _without_withdrawn(conn, org_id, loaded, stated)
        covered += await _resolve_and_store(conn, org_id, room, stated, at=at, is_all_new=True)
    await _restrict(conn, org_id, covered)


async def add_detected(
    conn: Connection,
    org_id: OrgId,
    room_id: RoomId,
    requests: Mapping[MessageId, PrivacyRequest],
    *,
    detected_by: str,
    at: datetime,
) -> int:
    """Store requests that a model detected; return how many were stored.

    Three kinds of requests are skipped: requests whose message is empty or not in the room, requests that the rules
    detect themselves, and dismissed requests. Words of a request that its message does not contain are ignored. A
    stored request is kept until its message is edited. The caller must hold the lock of the room.
    """
    if await privacy_requests.mode(conn, org_id) == "off":
        return 0
    known = await kept.in_rooms(conn, org_id, [room_id])
    dismissed = {request.message_id for request in known if request.status == "dismissed"}
    for room in await _load_rooms(conn, org_id, known, fresh=requests.keys() - dismissed):
        if room.id == room_id:
            sources = [
                _with_parsed_spans(message, requests[message.id], detected_by)
                for message in room.fresh
                if not _is_heard_by_rules(message, room)
            ]
            await _restrict(conn, org_id, await _resolve_and_store(conn, org_id, room, sources, at=at))
            return len(sources)
    return 0


async def lift(conn: Connection, org_id: OrgId, room_id: RoomId, request_id: UUID) -> None:
    """Lift everything that a dismissed request restricted, directly or through other requests."""
    covered = await privacy_requests.covered_messages(conn, org_id, [request_id])
    await _relabel(conn, org_id, [one.message_id for one in covered])
    await kept.lift_request(conn, org_id, request_id)
    await reapply(conn, org_id, [room_id])


async def lift_all(conn: Connection, org_id: OrgId) -> None:
    """Lift all restrictions of an org, except those of requests whose message is a tombstone."""
    await _relabel(conn, org_id, await privacy_requests.restricted_in_org(conn, org_id))
    await kept.lift_all(conn, org_id)


# Load the rooms


async def _load_rooms(
    conn: Connection, org_id: OrgId, known: Sequence[StoredRequest], *, fresh: Collection[MessageId]
) -> list[_RoomState]:
    """Return the rooms of requests and messages. Without `fresh` messages, load all source messages."""
    requests: dict[RoomId, dict[MessageId, StoredRequest]] = defaultdict(dict)
    for request in known:
        requests[request.room_id][request.message_id] = request
    fresh_messages: dict[RoomId, list[RoomMessage]] = defaultdict(list)
    for row in await kept.messages_by_id(conn, org_id, fresh):
        fresh_messages[row.room_id].append(row)
    sources: dict[RoomId, list[RoomMessage]] = defaultdict(list)
    affected = {
        request.message_id
        for request in known
        if not fresh or _may_have_changed(request, fresh_messages[request.room_id])
    }
    for row in await kept.messages_by_id(conn, org_id, affected.difference(fresh)):
        sources[row.room_id].append(row)
    people: dict[RoomId, list[RoomParticipant]] = defaultdict(list)
    for person in await kept.room_participants(conn, org_id, fresh_messages.keys() | requests.keys()):
        people[person.room_id].append(person)
    return [
        _RoomState(
            id=room_id,
            name_index=NameIndex.build(people[room_id]),
            known=requests[room_id],
            fresh=fresh_messages[room_id],
            messages=sources[room_id],
        )
        for room_id in sorted(fresh_messages.keys() | requests.keys())
    ]


def _may_have_changed(request: StoredRequest, fresh: Sequence[RoomMessage]) -> bool:
    """Return whether the scope of a request may have changed.

    The scope may change if a fresh message comes before the request, or if a person whom the request names has joined.
    """
    position = (request.sent_at, request.sequence, request.message_id)
    is_waiting = request.spans is None or bool(request.spans.get("awaited"))
    return is_waiting or any(message.position < position for message in fresh)


# Detect requests


def _requests_in(room: _RoomState) -> list[RequestMessage]:
    requests = (_request_in(message, room) for message in (*room.fresh, *room.messages))
    return [request for request in requests if request is not None]


def _request_in(message: RoomMessage, room: _RoomState) -> RequestMessage | None:
    """Return the request of a message: the stored request, or else the request that the rules detect.

    Return None if there is no request. A request that names only unknown people is kept, and takes effect once they
    join.
    """
    known = room.known.get(message.id)
    stored = None if known is None else storage.to_request(known, message.body)
    if known is not None and stored is not None:
        return _with_resolved_names(
            RequestMessage(message=message, request=stored, detected_by=known.detected_by, spans=known.spans),
            room.name_index,
        )
    request = recognise(message.body, message.author_id, room.name_index)
    if request is not None:
        return _with_parsed_spans(message, request, BY_RULES)
    return (
        RequestMessage(message=message, request=PrivacyRequest(kind="restrict"))
        if restricts_unknown_person(message.body)
        else None
    )


def _with_resolved_names(source: RequestMessage, name_index: NameIndex) -> RequestMessage:
    """Return the request with added people: those whom the request names and who have joined meanwhile.

    The added people stay part of the request.
    """
    joined = {
        name: mentioned_ids(name, name_index) - {source.message.author_id}
        for name in source.request.unresolved_names
    }
    if source.spans is None or not any(joined.values()):
        return source
    places = zip(source.request.unresolved_names, source.spans["awaited"], strict=True)
    request = replace(
        source.request,
        restricted_ids=source.request.restricted_ids.union(*joined.values()),
        unresolved_names=tuple(name for name in source.request.unresolved_names if not joined[name]),
    )
    return replace(
        source,
        request=request,
        spans={**source.spans, "awaited": [place for name, place in places if not joined[name]]},
    )


def _is_heard_by_rules(message: RoomMessage, room: _RoomState) -> bool:
    source = _request_in(message, room)
    return source is not None and source.spans is not None and source.detected_by == BY_RULES


def _with_parsed_spans(message: RoomMessage, request: PrivacyRequest, detected_by: str) -> RequestMessage:
    spans = storage.to_spans(request, message.body)
    return RequestMessage(
        message=message,
        request=storage.with_spans(request, spans, message.body),
        detected_by=detected_by,
        spans=spans,
    )


async def _without_withdrawn(
    conn: Connection, org_id: OrgId, room: _RoomState, stated: Sequence[RequestMessage]
) -> _RoomState:
    """Return the state without known requests that their message no longer states. Their restrictions are lifted.

    Dismissed requests are kept, in case their message states them again.
    """
    message_ids = {message.id for message in (*room.fresh, *room.messages)}
    undismissed = {key for key, request in room.known.items() if request.status != "dismissed"}
    withdrawn = message_ids & undismissed - {source.message.id for source in stated}
    if not withdrawn:
        return room
    await kept.drop(conn, org_id, withdrawn)
    return replace(room, known={key: request for key, request in room.known.items() if key not in withdrawn})


def _needs_resolving(source: RequestMessage, room: _RoomState) -> bool:
    """Return whether a request has to be resolved: it is new, names a new person, or follows a new message."""
    known = room.known.get(source.message.id)
    if known is None or source.spans != known.spans:
        return True
    return any(message.position <= source.message.position for message in room.fresh)


# Resolve what they cover


async def _resolve_and_store(
    conn: Connection,
    org_id: OrgId,
    room: _RoomState,
    due: Sequence[RequestMessage],
    *,
    at: datetime,
    is_all_new: bool = False,
) -> list[CoveredPair]:
    """Resolve requests that are due, and store them; return all new pairs of a request and a covered message.

    These are the pairs of the requests that are due, and the pairs of other requests with new or edited messages.
    """
    due_ids = {source.message.id for source in due}
    others = [
        storage.to_scope(request)
        for key, request in room.known.items()
        if request.status == "active" and key not in due_ids
    ]
    covered = await asyncio.to_thread(_covered_pairs, others, room.fresh)
    if not due:
        return covered
    excerpt = await load_excerpt(conn, org_id, room.id, due)
    ongoing = {source.message.id for source in due if source.request.is_ongoing}
    since = await load_starts(conn, org_id, ongoing) | {
        key: request.since for key, request in room.known.items() if request.is_ongoing
    }
    excerpt = replace(excerpt, present=await load_present(conn, org_id, due_ids))
    mode = await privacy_requests.mode(conn, org_id)
    # Matching text of users may be slow, so it runs in a thread.
    resolved = await asyncio.to_thread(_resolve, due, room, excerpt, others=others, since=since, mode=mode)
    await kept.add(conn, org_id, [each.row(room.id) for each in resolved], detected_at=at)
    for each in resolved:
        covered += await _covered_now(conn, org_id, room, each, excerpt=excerpt, is_new=is_all_new)
    return covered


@dataclass(frozen=True, slots=True, kw_only=True)
class _ResolvedRequest:
    """A request with its scope and status."""

    voice: RequestMessage
    reach: RequestScope
    status: RequestStatus
    doubt: str

    def row(self, room_id: RoomId) -> NewRequest:
        """Return its row."""
        return storage.to_row(room_id, self.voice, self.reach, status=self.status, doubt=self.doubt)


def _resolve(
    due: Sequence[RequestMessage],
    room: _RoomState,
    excerpt: RoomExcerpt,
    *,
    others: Sequence[RequestScope],
    since: Mapping[MessageId, datetime | None],
    mode: RequestMode,
) -> list[_ResolvedRequest]:
    """Resolve requests in the order of the room, because later requests depend on earlier ones."""
    active = list(others)
    resolved: list[_ResolvedRequest] = []
    for source in sorted(due, key=lambda each: each.message.position):
        message = source.message
        scope = resolve_scope(
            source.request,
            message,
            excerpt.messages,
            name_index=room.name_index,
            earlier=[each for each in active if each.position < message.position],
            common=excerpt.common.get(message.id, frozenset()),
            present=excerpt.present.get(message.id, frozenset()),
        )
        if scope.is_ongoing:
            scope = replace(scope, since=since.get(message.id))
        known = room.known.get(message.id)
        if known is not None and scope.kind == known.kind == "confidential" and known.spans == source.spans:
            # The audience of a confidential message is determined only once, so that renaming a person adds nobody.
            scope = replace(scope, exempt_ids=frozenset(known.exempt_ids))
        doubt = review_reason(source, messages_before(message, excerpt.messages))
        status = _next_status(known, doubt, mode)
        resolved.append(_ResolvedRequest(voice=source, reach=scope, status=status, doubt=doubt))
        if status == "active":
            active.append(scope)
    return resolved


def _next_status(known: StoredRequest | None, doubt: str, mode: RequestMode) -> RequestStatus:
    """Return the new status.

    A person's decision is kept. The status is also kept while the doubt is unchanged.
    """
    if known is not None and (known.decided_at is not None or bool(known.review_reason) == bool(doubt)):
        return known.status
    return "proposed" if doubt or mode != "on" else "active"


async def _covered_now(
    conn: Connection,
    org_id: OrgId,
    room: _RoomState,
    resolved: _ResolvedRequest,
    *,
    excerpt: RoomExcerpt,
    is_new: bool,
) -> list[CoveredPair]:
    """Lift the earlier restrictions of a request, and return the pairs that the request covers now.

    Restrictions that cannot have changed are not lifted.
    """
    scope = resolved.reach
    if resolved.status != "active":
        await kept.lift(conn, org_id, [scope.message_id])
        return []
    message: Collection[RoomMessage] = (*excerpt.messages, *room.fresh)
    if scope.is_ongoing:
        # An ongoing restriction covers many messages. If it is unchanged, only new or edited messages are compared with
        # it.
        known = room.known.get(scope.message_id)
        is_known = known is not None and known.status == "active" and storage.to_scope(known) == scope
        if is_known and not is_new:
            among = [message.id for message in room.fresh]
            return await asyncio.to_thread(
                _pairs_of, scope, await load_restricted(conn, org_id, room.id, scope, among=among)
            )
        message = await load_restricted(conn, org_id, room.id, scope)
    await kept.lift(conn, org_id, [scope.message_id])
    return await asyncio.to_thread(_pairs_of, scope, message)


def _covered_pairs(scopes: Sequence[RequestScope], fresh: Sequence[RoomMessage]) -> list[CoveredPair]:
    """Return the pairs of these requests and messages.

    The pairs are found message by message, so that each message is split into tokens once.
    """
    return [(scope.message_id, message.id) for message in fresh for scope in scopes if covers(scope, message)]


def _pairs_of(reach: RequestScope, said: Collection[RoomMessage]) -> list[CoveredPair]:
    by_id = {one.id: one for one in said}
    return [(reach.message_id, key) for key, one in by_id.items() if covers(reach, one)]


async def _restrict(conn: Connection, org_id: OrgId, covered: Sequence[CoveredPair]) -> None:
    """Restrict messages, and label their conversations again."""
    if covered:
        await kept.restrict(conn, org_id, covered)
        await _relabel(conn, org_id, {message_id for _, message_id in covered})


async def _relabel(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> None:
    if ids and await disentanglement.mark_messages_dirty(conn, org_id, ids):
        await work_queue.wake(conn, "disentangle")
