"""How wishes and what they look at stand in the database."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any, cast

from roomlore.domain.ids import RoomId
from roomlore.store.wishes import HeardWish, NewWish, RoomSaid
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
        permits=_matters(row.permits),
        denies=_matters(row.denies),
        of_ids=None if row.of_ids is None else frozenset(row.of_ids),
    )


def kept(room_id: RoomId, voice: Voice, reach: Reach) -> NewWish:
    """Return the row of a wish that was settled."""
    return NewWish(
        room_id=room_id,
        message_id=reach.message_id,
        author_id=reach.wisher_id,
        kind=reach.kind,
        heard_by=voice.heard_by,
        told=voice.told,
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


def told(wish: Wish, body: str) -> dict[str, Any]:
    """Return what rules would not find again of a wish, its words as places in the body that voices it.

    What the body does not say is left out: nobody wished it there.
    """
    places = [_place(value, body) for value in wish.values]
    return {
        "body": _digest(body),
        "points_back": wish.points_back,
        "is_record": wish.is_record,
        "topic": _place(wish.topic, body),
        "values": [place for place in places if place is not None],
    }


def wish_of(row: HeardWish, body: str) -> Wish | None:
    """Return the wish that something else than rules heard in a body; None if that has changed since."""
    if row.told is None or row.told["body"] != _digest(body):
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
    values = tuple(_at(place, body) for place in told["values"])
    return replace(wish, topic=_at(told["topic"], body), values=values)


def _place(words: str, body: str) -> tuple[int, int] | None:
    start = body.casefold().find(words.casefold()) if words.strip() else -1
    # folding may change a length, and then the places are others
    if start < 0 or body[start : start + len(words)].casefold() != words.casefold():
        return None
    return start, start + len(words)


def _at(place: tuple[int, int] | None, body: str) -> str:
    return "" if place is None else body[slice(*place)]


def _digest(body: str) -> str:
    return blake2b(body.encode(), digest_size=16).hexdigest()


def _matters(names: Iterable[str]) -> frozenset[Matter]:
    return frozenset(cast("Iterable[Matter]", names))
