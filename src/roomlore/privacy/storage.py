"""How wishes and what they look at stand in the database."""

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
    ScreenedMessage,
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


def to_message(row: RoomMessage) -> ScreenedMessage:
    """Return a message as wishes look at it."""
    return ScreenedMessage(
        id=row.id,
        author_id=row.author_id,
        author_name=row.author_name,
        author_kind=row.author_kind,
        body=row.body,
        sent_at=row.sent_at,
        native_order=row.native_order,
        reply_to=row.reply_to,
    )


def to_scope(row: StoredRequest) -> RequestScope:
    """Return what a wish covers as it was settled."""
    return RequestScope(
        message_id=row.message_id,
        requester_id=row.author_id,
        kind=cast("RequestKind", row.kind),
        position=(row.sent_at, row.native_order, row.message_id),
        target_ids=frozenset(row.target_ids),
        digests=frozenset(row.marks),
        author_digests=frozenset(row.own_marks),
        restricted_ids=None if row.from_ids is None else frozenset(row.from_ids),
        exempt_ids=frozenset(row.spared_ids),
        is_ongoing=row.is_standing,
        since=row.since,
        allowed=_topics(row.permits),
        denied=_topics(row.denies),
        author_ids=None if row.of_ids is None else frozenset(row.of_ids),
    )


def to_row(
    room_id: RoomId, voice: RequestMessage, scope: RequestScope, *, status: RequestStatus, doubt: str
) -> NewRequest:
    """Return the row of a wish that was settled."""
    return NewRequest(
        room_id=room_id,
        message_id=scope.message_id,
        author_id=scope.requester_id,
        kind=scope.kind,
        status=status,
        doubt=doubt,
        heard_by=voice.detected_by,
        told=voice.spans,
        target_ids=scope.target_ids,
        marks=scope.digests,
        own_marks=scope.author_digests,
        from_ids=scope.restricted_ids,
        spared_ids=scope.exempt_ids,
        is_standing=scope.is_ongoing,
        since=scope.since,
        permits=scope.allowed,
        denies=scope.denied,
        of_ids=scope.author_ids,
    )


def to_spans(request: PrivacyRequest, body: str) -> dict[str, Any]:
    """Return what was heard of a wish's words, as places in the body that voices it.

    Heard again they might mean something else: whoever is called like a value, or like somebody it names, may have
    come since. What the body does not say is left out: nobody wished it there.
    """
    whole = _place(request.subject, body)
    words = [request.subject] if whole is not None else TOKEN.findall(request.subject)
    return {
        "body": _digest(body),
        "points_back": request.refers_back,
        "is_record": request.is_record,
        "topic": _places(words, body),
        "values": _places(request.identifiers, body),
        "awaited": _places(request.unresolved_names, body),
    }


def to_request(row: StoredRequest, body: str) -> PrivacyRequest | None:
    """Return the wish as it was heard in a body; None if that has changed since, or it waits for whom it names."""
    if row.told is None or not is_unchanged(row.told, body):
        return None
    wish = PrivacyRequest(
        kind=cast("RequestKind", row.kind),
        refers_back=row.told["points_back"],
        is_record=row.told["is_record"],
        restricted_ids=frozenset(row.from_ids or ()),
        allowed=_topics(row.permits),
        denied=_topics(row.denies),
        is_ongoing=row.is_standing,
    )
    return with_spans(wish, row.told, body)


def with_spans(request: PrivacyRequest, spans: Mapping[str, Any], body: str) -> PrivacyRequest:
    """Return a wish with the words that the body which voices it says of it, and no others."""
    topic, values, awaited = (
        tuple(_text_at(place, body) for place in spans.get(part, ()))
        for part in ("topic", "values", "awaited")
    )
    return replace(request, subject=" ".join(topic), identifiers=values, unresolved_names=awaited)


def is_unchanged(spans: Mapping[str, Any], body: str) -> bool:
    """Return whether a body is still the one in which this was heard."""
    return spans["body"] == _digest(body)


def _places(found: Iterable[str], body: str) -> list[list[int]]:
    places = (_place(words, body) for words in found)
    return [place for place in places if place is not None]


def _place(words: str, body: str) -> list[int] | None:
    """Return where a body says some words, nowhere within others: as they are, else in any letters, else apart."""
    tokens: list[str] = TOKEN.findall(words)
    if not tokens:
        return None
    between = r"[\W_]+".join(map(re.escape, tokens))
    for spelled in (re.escape(words), between):
        for flags in (0, re.IGNORECASE):
            match = lazy_pattern(rf"(?<![^\W_]){spelled}(?![^\W_])", flags).search(body)
            if match is not None:
                return list(match.span())
    return None


def _text_at(place: tuple[int, int], body: str) -> str:
    return body[slice(*place)]


def _digest(body: str) -> str:
    return blake2b(body.encode(), digest_size=16).hexdigest()


def _topics(names: Iterable[str]) -> frozenset[Topic]:
    return frozenset(cast("Iterable[Topic]", names))


#: A value that nobody says by chance, and that more messages have than these, is looked for no further.
MAX_OCCURRENCES = 200
#: So many messages back a restriction reaches, of those that are there when it is heard.
MAX_MESSAGES_BACK = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomExcerpt:
    """As much of a room as some wishes may be about."""

    #: In the order of the room.
    messages: Sequence[ScreenedMessage]
    #: By the message that voices a wish: what it names that is said too often for all who say it to be here.
    common: Mapping[MessageId, frozenset[str]] = field(default_factory=dict[MessageId, frozenset[str]])
    #: By the same: who was there when it was said.
    present: Mapping[MessageId, frozenset[ParticipantId]] = field(
        default_factory=dict[MessageId, frozenset[ParticipantId]]
    )


async def load_excerpt(
    conn: Connection, org_id: OrgId, room_id: RoomId, voices: Sequence[RequestMessage]
) -> RoomExcerpt:
    """Return what wishes of a room may be about, themselves included, and whoever may be covered by them."""
    looked = _ExcerptLoader(conn=conn, org_id=org_id)
    ids = [voice.message.id for voice in voices]
    parents = [voice.message.reply_to for voice in voices if voice.message.reply_to is not None]
    await looked.load([*ids, *parents, *await kept.messages_before(conn, org_id, ids, most=MAX_DISTANCE)])
    topics = {
        (voice.message.author_id, _like_pattern(stem))
        for voice in voices
        for stem in word_stems(voice.request.subject)
    }
    if topics:
        await looked.load(await kept.messages_by_word(conn, org_id, room_id, topics))
    meant = {voice.message.id: looked.referenced(voice) for voice in voices}
    about = {message_id for found in meant.values() for message_id in found}
    if about:
        await looked.load(await kept.reply_neighbours(conn, org_id, about))
    values = {
        voice.message.id: request_values(
            voice.request, voice.message, looked.before(voice), about=meant[voice.message.id]
        )
        for voice in voices
        if voice.request.kind == "forget"
    }
    common = await looked.load_common(room_id, values)
    return RoomExcerpt(messages=looked.in_order(), common=common)


async def load_present(
    conn: Connection, org_id: OrgId, ids: Collection[MessageId]
) -> dict[MessageId, frozenset[ParticipantId]]:
    """Return who was there when messages were said, as far as the platform tells."""
    found: dict[MessageId, set[ParticipantId]] = defaultdict(set)
    for one in await kept.present_participants(conn, org_id, ids):
        found[one.message_id].add(one.participant_id)
    return {message_id: frozenset(those) for message_id, those in found.items()}


async def load_starts(
    conn: Connection, org_id: OrgId, ids: Collection[MessageId]
) -> dict[MessageId, datetime]:
    """Return how far back restrictions reach that these messages voice; of those left out, to the beginning."""
    found = await kept.restriction_starts(conn, org_id, ids, back=MAX_MESSAGES_BACK)
    return {one.message_id: one.sent_at for one in found}


async def load_restricted(
    conn: Connection,
    org_id: OrgId,
    room_id: RoomId,
    scope: RequestScope,
    *,
    among: Collection[MessageId] | None = None,
) -> list[ScreenedMessage]:
    """Return what a restriction of a room may cover, of everything that was said there or of these."""
    found = await kept.messages_since(
        conn, org_id, room_id, since=scope.since, author_ids=scope.author_ids, among=among
    )
    return [to_message(row) for row in await kept.messages_by_id(conn, org_id, found)]


@dataclass(slots=True, kw_only=True)
class _ExcerptLoader:
    """What was looked up so far."""

    conn: Connection
    org_id: OrgId
    found: dict[MessageId, ScreenedMessage] = field(default_factory=dict[MessageId, ScreenedMessage])

    async def load(self, ids: Iterable[MessageId]) -> None:
        missing = set(ids) - self.found.keys()
        if missing:
            rows = await kept.messages_by_id(self.conn, self.org_id, missing)
            self.found |= {row.id: to_message(row) for row in rows}

    def in_order(self) -> list[ScreenedMessage]:
        return sorted(self.found.values(), key=lambda said: said.position)

    def before(self, voice: RequestMessage) -> Sequence[ScreenedMessage]:
        return messages_before(voice.message, self.in_order())

    def referenced(self, voice: RequestMessage) -> list[MessageId]:
        return referenced_messages(voice.request, voice.message, self.before(voice))

    async def load_common(
        self, room_id: RoomId, values: Mapping[MessageId, Sequence[str]]
    ) -> dict[MessageId, frozenset[str]]:
        """Look up who says values, and return those that too many say, by the message that voices a wish."""
        sought: dict[tuple[MessageId, str], SoughtWord] = {}
        wanted: dict[tuple[MessageId, str], tuple[MessageId, str]] = {}
        for voice_id, named in values.items():
            # those that may be said oftener last: of two that are looked for alike they decide
            for value in sorted(named, key=is_distinctive):
                most = MAX_OCCURRENCES if is_distinctive(value) else MAX_SECRET_USES
                for piece in with_revealing_parts([value]):
                    pattern = _like_pattern(*tokens_of(piece))
                    wanted[voice_id, piece] = (voice_id, pattern)
                    sought[voice_id, pattern] = SoughtWord(voice_id=voice_id, pattern=pattern, most=most)
        if not sought:
            return {}
        rows = await kept.word_holders(self.conn, self.org_id, room_id, list(sought.values()))
        await self.load(row.message_id for row in rows if row.message_id is not None)
        many = {(row.voice_id, row.pattern) for row in rows if row.is_common}
        common: dict[MessageId, set[str]] = defaultdict(set)
        for (voice_id, piece), key in wanted.items():
            if key in many:
                common[voice_id].add(piece)
        return {voice_id: frozenset(found) for voice_id, found in common.items()}


def _like_pattern(*words: str) -> str:
    # What folds otherwise in the database than here is any letter.
    return f"%{'%'.join(''.join(sign if sign.isascii() else '_' for sign in word) for word in words)}%"
