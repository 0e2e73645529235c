"""Stores privacy requests, and loads the messages that they may cover."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import blake2b
from typing import Any, cast

from roomlore.db import privacy_requests as kept
from roomlore.db.privacy_requests import NewRequest, RequestStatus, RoomMessage, SoughtWord, StoredRequest
from roomlore.db.queries import Connection
from roomlore.domain.ids import MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.patterns import lazy_pattern
from roomlore.privacy.identifiers import TOKEN, is_distinctive, tokens_of
from roomlore.privacy.records import (
    PrivacyRequest,
    RequestKind,
    RequestMessage,
    RequestScope,
    Topic,
)
from roomlore.privacy.scope import (
    MAX_DISTANCE,
    MAX_SECRET_USES,
    messages_before,
    referenced_messages,
    request_values,
    with_revealing_parts,
    word_stems,
)


def to_scope(row: StoredRequest) -> RequestScope:
    """Return the scope of a stored request."""
    return RequestScope(
        message_id=row.message_id,
        requester_id=row.author_id,
        kind=cast("RequestKind", row.kind),
        position=(row.sent_at, row.sequence, row.message_id),
        target_ids=frozenset(row.target_ids),
        digests=frozenset(row.identifiers),
        author_digests=frozenset(row.own_identifiers),
        restricted_ids=None if row.from_ids is None else frozenset(row.from_ids),
        exempt_ids=frozenset(row.exempt_ids),
        is_ongoing=row.is_ongoing,
        since=row.since,
        allowed=_topics(row.allowed_topics),
        denied=_topics(row.denied_topics),
        author_ids=None if row.covered_author_ids is None else frozenset(row.covered_author_ids),
    )


def to_row(
    room_id: RoomId, source: RequestMessage, scope: RequestScope, *, status: RequestStatus, doubt: str
) -> NewRequest:
    """Return the row of a resolved request."""
    return NewRequest(
        room_id=room_id,
        message_id=scope.message_id,
        author_id=scope.requester_id,
        kind=scope.kind,
        status=status,
        review_reason=doubt,
        detected_by=source.detected_by,
        spans=source.spans,
        target_ids=scope.target_ids,
        identifiers=scope.digests,
        own_identifiers=scope.author_digests,
        from_ids=scope.restricted_ids,
        exempt_ids=scope.exempt_ids,
        is_ongoing=scope.is_ongoing,
        since=scope.since,
        allowed_topics=scope.allowed,
        denied_topics=scope.denied,
        covered_author_ids=scope.author_ids,
    )


def to_spans(request: PrivacyRequest, body: str) -> dict[str, Any]:
    """Return the parsed words of a request as positions in its message.

    Requests are parsed only once, because somebody who joins later may have a name that is a value or a name in the
    request. Words that the message does not contain are left out.
    """
    whole = _place(request.subject, body)
    words = [request.subject] if whole is not None else TOKEN.findall(request.subject)
    return {
        "body": _digest(body),
        "points_back": request.refers_back,
        "is_record": request.is_record,
        "is_certain": request.is_certain,
        "topic": _places(words, body),
        "values": _places(request.identifiers, body),
        "awaited": _places(request.unresolved_names, body),
    }


def to_request(row: StoredRequest, body: str) -> PrivacyRequest | None:
    """Return the stored request; None if its message was edited, or if the request waits for people whom it names."""
    if row.spans is None or not is_unchanged(row.spans, body):
        return None
    request = PrivacyRequest(
        kind=cast("RequestKind", row.kind),
        refers_back=row.spans["points_back"],
        is_record=row.spans["is_record"],
        is_certain=row.spans["is_certain"],
        restricted_ids=frozenset(row.from_ids or ()),
        allowed=_topics(row.allowed_topics),
        denied=_topics(row.denied_topics),
        is_ongoing=row.is_ongoing,
    )
    return with_spans(request, row.spans, body)


def with_spans(request: PrivacyRequest, spans: Mapping[str, Any], body: str) -> PrivacyRequest:
    """Return the request with its topic, values and awaited names read from these spans of its message."""
    topic, values, awaited = (
        tuple(_text_at(place, body) for place in spans.get(part, ()))
        for part in ("topic", "values", "awaited")
    )
    return replace(request, subject=" ".join(topic), identifiers=values, unresolved_names=awaited)


def is_unchanged(spans: Mapping[str, Any], body: str) -> bool:
    """Return whether the message is the one for which the spans were stored."""
    return spans["body"] == _digest(body)


def _places(found: Iterable[str], body: str) -> list[list[int]]:
    places = (_place(words, body) for words in found)
    return [place for place in places if place is not None]


def _place(words: str, body: str) -> list[int] | None:
    """Return start and end of words in a body; None if the words are not in the body.

    Case and separators do not matter. Words inside longer words do not count.
    """
    tokens: list[str] = TOKEN.findall(words)
    if not tokens:
        return None
    between = r"[\W_]+".join(map(re.escape, tokens))
    for pattern in (re.escape(words), between):
        for flags in (0, re.IGNORECASE):
            match = lazy_pattern(rf"(?<![^\W_]){pattern}(?![^\W_])", flags).search(body)
            if match is not None:
                return list(match.span())
    return None


def _text_at(place: tuple[int, int], body: str) -> str:
    return body[slice(*place)]


def _digest(body: str) -> str:
    return blake2b(body.encode(), digest_size=16).hexdigest()


def _topics(names: Iterable[str]) -> frozenset[Topic]:
    return frozenset(cast("Iterable[Topic]", names))


#: If a distinctive value occurs in more messages than this, no further messages are searched for the value.
MAX_OCCURRENCES = 200
#: The maximum number of earlier messages that a restriction covers.
MAX_MESSAGES_BACK = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomExcerpt:
    """The messages of a room that some requests may cover."""

    #: In the order of the room.
    messages: Sequence[RoomMessage]
    #: By source message, the values that occur in too many messages to load all of these messages.
    common: Mapping[MessageId, frozenset[str]] = field(default_factory=dict[MessageId, frozenset[str]])
    #: By source message, the participants who were present.
    present: Mapping[MessageId, frozenset[ParticipantId]] = field(
        default_factory=dict[MessageId, frozenset[ParticipantId]]
    )


async def load_excerpt(
    conn: Connection, org_id: OrgId, room_id: RoomId, sources: Sequence[RequestMessage]
) -> RoomExcerpt:
    """Return the messages that requests of a room may cover, including the source messages."""
    loader = _ExcerptLoader(conn=conn, org_id=org_id)
    ids = [source.message.id for source in sources]
    parents = [source.message.reply_to for source in sources if source.message.reply_to is not None]
    await loader.load([*ids, *parents, *await kept.messages_before(conn, org_id, ids, most=MAX_DISTANCE)])
    topics = {
        (source.message.author_id, _like_pattern(stem))
        for source in sources
        for stem in word_stems(source.request.subject)
    }
    if topics:
        await loader.load(await kept.messages_by_word(conn, org_id, room_id, topics))
    referenced = {source.message.id: loader.referenced(source) for source in sources}
    referenced_ids = {message_id for ids in referenced.values() for message_id in ids}
    if referenced_ids:
        await loader.load(await kept.reply_neighbours(conn, org_id, referenced_ids))
    values = {
        source.message.id: request_values(
            source.request, source.message, loader.before(source), about=referenced[source.message.id]
        )
        for source in sources
        if source.request.kind == "forget"
    }
    common = await loader.load_common(room_id, values)
    return RoomExcerpt(messages=loader.in_order(), common=common)


async def load_present(
    conn: Connection, org_id: OrgId, ids: Collection[MessageId]
) -> dict[MessageId, frozenset[ParticipantId]]:
    """Return the participants who were present at each message, if the platform states this."""
    present: dict[MessageId, set[ParticipantId]] = defaultdict(set)
    for message_id, participant_id in await kept.present_participants(conn, org_id, ids):
        present[message_id].add(participant_id)
    return {message_id: frozenset(ids) for message_id, ids in present.items()}


async def load_starts(
    conn: Connection, org_id: OrgId, ids: Collection[MessageId]
) -> dict[MessageId, datetime]:
    """Return, for each ongoing restriction, the time from which it covers messages, keyed by its source message.

    If the result has no entry for a source message, its restriction covers the room from the first message on.
    """
    starts = await kept.restriction_starts(conn, org_id, ids, back=MAX_MESSAGES_BACK)
    return {start.message_id: start.sent_at for start in starts}


async def load_restricted(
    conn: Connection,
    org_id: OrgId,
    room_id: RoomId,
    scope: RequestScope,
    *,
    among: Collection[MessageId] | None = None,
) -> list[RoomMessage]:
    """Return the messages that a restriction may cover, of the whole room or of the messages in `among`."""
    ids = await kept.messages_since(
        conn, org_id, room_id, since=scope.since, author_ids=scope.author_ids, among=among
    )
    return await kept.messages_by_id(conn, org_id, ids)


@dataclass(slots=True, kw_only=True)
class _ExcerptLoader:
    """Loads the messages of an excerpt. Keeps the messages that it has loaded."""

    conn: Connection
    org_id: OrgId
    found: dict[MessageId, RoomMessage] = field(default_factory=dict[MessageId, RoomMessage])

    async def load(self, ids: Iterable[MessageId]) -> None:
        missing = set(ids) - self.found.keys()
        if missing:
            rows = await kept.messages_by_id(self.conn, self.org_id, missing)
            self.found |= {row.id: row for row in rows}

    def in_order(self) -> list[RoomMessage]:
        return sorted(self.found.values(), key=lambda message: message.position)

    def before(self, source: RequestMessage) -> Sequence[RoomMessage]:
        return messages_before(source.message, self.in_order())

    def referenced(self, source: RequestMessage) -> list[MessageId]:
        return referenced_messages(source.request, source.message, self.before(source))

    async def load_common(
        self, room_id: RoomId, values: Mapping[MessageId, Sequence[str]]
    ) -> dict[MessageId, frozenset[str]]:
        """Load the messages that contain values, and return the values that too many messages contain."""
        searches: dict[tuple[MessageId, str], SoughtWord] = {}
        patterns: dict[tuple[MessageId, str], tuple[MessageId, str]] = {}
        for voice_id, names in values.items():
            # Values with a higher limit come last, because the last of several equal patterns is used.
            for value in sorted(names, key=is_distinctive):
                limit = MAX_OCCURRENCES if is_distinctive(value) else MAX_SECRET_USES
                for part in with_revealing_parts([value]):
                    pattern = _like_pattern(*tokens_of(part))
                    patterns[voice_id, part] = (voice_id, pattern)
                    searches[voice_id, pattern] = SoughtWord(voice_id=voice_id, pattern=pattern, most=limit)
        if not searches:
            return {}
        rows = await kept.word_holders(self.conn, self.org_id, room_id, list(searches.values()))
        await self.load(row.message_id for row in rows if row.message_id is not None)
        common_patterns = {(row.voice_id, row.pattern) for row in rows if row.is_common}
        common: dict[MessageId, set[str]] = defaultdict(set)
        for (voice_id, part), key in patterns.items():
            if key in common_patterns:
                common[voice_id].add(part)
        return {voice_id: frozenset(found) for voice_id, found in common.items()}


def _like_pattern(*words: str) -> str:
    # The database may fold the case of other letters differently, so in their place any character matches.
    return f"%{'%'.join(''.join(sign if sign.isascii() else '_' for sign in word) for word in words)}%"
