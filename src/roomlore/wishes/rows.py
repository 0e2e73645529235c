"""How wishes and what they look at stand in the database."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any, cast

from roomlore.domain.ids import RoomId
from roomlore.domain.patterns import later
from roomlore.store.wishes import HeardWish, NewWish, RoomSaid, WishStatus
from roomlore.wishes.marks import TOKEN
from roomlore.wishes.records import Matter, Reach, Said, Voice, Wish, WishKind


def said_of(row: RoomSaid) -> Said:
    """Return a message as wishes look at it."""
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


def reach_of(row: HeardWish) -> Reach:
    """Return what a wish covers as it was settled."""
    return Reach(
        message_id=row.message_id,
        wisher_id=row.author_id,
        kind=cast("WishKind", row.kind),
        position=(row.sent_at, row.native_order, row.message_id),
        targets=frozenset(row.target_ids),
        marks=frozenset(row.marks),
        own_marks=frozenset(row.own_marks),
        from_ids=None if row.from_ids is None else frozenset(row.from_ids),
        spared_ids=frozenset(row.spared_ids),
        is_standing=row.is_standing,
        since=row.since,
        permits=_matters(row.permits),
        denies=_matters(row.denies),
        of_ids=None if row.of_ids is None else frozenset(row.of_ids),
    )


def kept(room_id: RoomId, voice: Voice, reach: Reach, *, status: WishStatus, doubt: str) -> NewWish:
    """Return the row of a wish that was settled."""
    return NewWish(
        room_id=room_id,
        message_id=reach.message_id,
        author_id=reach.wisher_id,
        kind=reach.kind,
        status=status,
        doubt=doubt,
        heard_by=voice.heard_by,
        told=voice.told,
        target_ids=reach.targets,
        marks=reach.marks,
        own_marks=reach.own_marks,
        from_ids=reach.from_ids,
        spared_ids=reach.spared_ids,
        is_standing=reach.is_standing,
        since=reach.since,
        permits=reach.permits,
        denies=reach.denies,
        of_ids=reach.of_ids,
    )


def told(wish: Wish, body: str) -> dict[str, Any]:
    """Return what was heard of a wish's words, as places in the body that voices it.

    Heard again they might mean something else: whoever is called like a value, or like somebody it names, may have
    come since. What the body does not say is left out: nobody wished it there.
    """
    whole = _place(wish.topic, body)
    words = [wish.topic] if whole is not None else TOKEN.findall(wish.topic)
    return {
        "body": _digest(body),
        "points_back": wish.points_back,
        "is_record": wish.is_record,
        "topic": _places(words, body),
        "values": _places(wish.values, body),
        "awaited": _places(wish.awaited, body),
    }


def wish_of(row: HeardWish, body: str) -> Wish | None:
    """Return the wish as it was heard in a body; None if that has changed since, or it waits for whom it names."""
    if row.told is None or not is_said(row.told, body):
        return None
    wish = Wish(
        kind=cast("WishKind", row.kind),
        points_back=row.told["points_back"],
        is_record=row.told["is_record"],
        party_ids=frozenset(row.from_ids or ()),
        permits=_matters(row.permits),
        denies=_matters(row.denies),
        is_standing=row.is_standing,
    )
    return as_told(wish, row.told, body)


def as_told(wish: Wish, told: Mapping[str, Any], body: str) -> Wish:
    """Return a wish with the words that the body which voices it says of it, and no others."""
    topic, values, awaited = (
        tuple(_at(place, body) for place in told.get(part, ())) for part in ("topic", "values", "awaited")
    )
    return replace(wish, topic=" ".join(topic), values=values, awaited=awaited)


def is_said(told: Mapping[str, Any], body: str) -> bool:
    """Return whether a body is still the one in which this was heard."""
    return told["body"] == _digest(body)


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
            match = later(rf"(?<![^\W_]){spelled}(?![^\W_])", flags).search(body)
            if match is not None:
                return list(match.span())
    return None


def _at(place: tuple[int, int], body: str) -> str:
    return body[slice(*place)]


def _digest(body: str) -> str:
    return blake2b(body.encode(), digest_size=16).hexdigest()


def _matters(names: Iterable[str]) -> frozenset[Matter]:
    return frozenset(cast("Iterable[Matter]", names))
