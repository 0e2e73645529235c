"""How wishes and what they look at stand in the database."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any, cast

from roomlore.domain.ids import RoomId
from roomlore.domain.patterns import lazy_pattern
from roomlore.store.wishes import StoredRequest, NewRequest, RoomMessage, RequestStatus
from roomlore.wishes.marks import TOKEN
from roomlore.wishes.records import Topic, RequestScope, ScreenedMessage, RequestMessage, PrivacyRequest, RequestKind


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


def to_row(room_id: RoomId, voice: RequestMessage, scope: RequestScope, *, status: RequestStatus, doubt: str) -> NewRequest:
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
        tuple(_text_at(place, body) for place in spans.get(part, ())) for part in ("topic", "values", "awaited")
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
