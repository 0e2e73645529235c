"""What a viewer may read and where they look, as a filter of Qdrant, and how to search under one.

It fails closed: whoever may read nothing gets a filter that matches nothing, never none at all, and a point that does not
say for whom it is is for its author alone. Needs the extra: only what has made sure of it imports this.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from uuid import UUID

from qdrant_client.models import (
    AcornSearchParams,
    Condition,
    DatetimeRange,
    FieldCondition,
    Filter,
    MatchAny,
    MatchValue,
    SearchParams,
)

from roomlore.domain.ids import MessageId, RoomId
from roomlore.domain.projected import QueryFilter, VisibilityFilter

#: For whom a point is: whoever may read its room, or the addressees it names.
ROOM, NAMED = "room", "named"
_IMPOSSIBLE = FieldCondition(key="audience_kind", match=MatchValue(value="nobody"))
#: Contradicts itself, so whatever may be stored, it is not matched.
MATCH_NOTHING = Filter(must=[_IMPOSSIBLE], must_not=[_IMPOSSIBLE])
#: Points that a filter hides are stepped over on the way to the nearest ones, however few or many they are: otherwise
#: less is found for whoever looks through a filter.
SEARCH_PARAMS = SearchParams(acorn=AcornSearchParams(enable=True, max_selectivity=1.0))


def visible_filter(
    sight: VisibilityFilter,
    narrowing: QueryFilter,
    *,
    at: datetime | None = None,
    behind: datetime | None = None,
    exchange_ids: Sequence[MessageId] | None = None,
) -> Filter:
    """Return a filter that matches what a viewer may read where they look.

    Args:
        sight: What the viewer may read.
        narrowing: Where they look.
        at: Only what was sent just then.
        behind: Only what was sent later.
        exchange_ids: Only what is part of these exchanges.
    """
    must = _query_conditions(narrowing)
    if not sight.is_operator:
        must.append(_visibility(sight))
    if at is not None:
        must.append(_sent_between(gte=at, lte=at))
    if behind is not None:
        must.append(_sent_between(gt=behind))
    if exchange_ids is not None:
        must.append(_one_of("exchange_id", exchange_ids))
    return Filter(must=must or None)


def _query_conditions(narrowing: QueryFilter) -> list[Condition]:
    chosen: dict[str, Sequence[UUID | str] | None] = {
        "room_id": narrowing.room_ids,
        "author_id": narrowing.author_ids,
        "author_kind": narrowing.author_kinds,
        "conversation_id": narrowing.conversation_ids,
    }
    must: list[Condition] = [_one_of(key, some) for key, some in chosen.items() if some is not None]
    if narrowing.since is not None or narrowing.until is not None:
        must.append(_sent_between(gte=narrowing.since, lt=narrowing.until))
    return must


def _visibility(sight: VisibilityFilter) -> Filter:
    """Return what is visible: to the room and heard there, to the viewer by name, or their own."""
    ways: list[Condition] = []
    if sight.open_room_ids or sight.stays:
        kinds = ["message", "system", *(["context_injection"] if sight.is_agent else [])]
        ways.append(Filter(must=[_one_of("kind", kinds), _audience_condition(ROOM), Filter(should=_membership_conditions(sight))]))
    if sight.own_ids:
        kinds = ["whisper", "context_injection"]
        ways.append(Filter(must=[_one_of("kind", kinds), _audience_condition(NAMED), _one_of("audience", sight.own_ids)]))
        ways.append(_one_of("author_id", sight.own_ids))
    return Filter(should=ways) if ways else MATCH_NOTHING


def _membership_conditions(sight: VisibilityFilter) -> list[Condition]:
    """Return where and when the viewer could hear. Most stays begin with the room and last: they are told together."""
    ways: list[Condition] = [_one_of("room_id", sight.open_room_ids)] if sight.open_room_ids else []
    rooms: dict[tuple[datetime | None, datetime | None], list[RoomId]] = defaultdict(list)
    for stay in sight.stays:
        rooms[stay.joined_at, stay.left_at].append(stay.room_id)
    for (joined_at, left_at), room_ids in rooms.items():
        there: list[Condition] = [_one_of("room_id", room_ids)]
        if joined_at is not None or left_at is not None:
            there.append(_sent_between(gte=joined_at, lt=left_at))
        ways.append(Filter(must=there))
    return ways


def _one_of(key: str, values: Iterable[UUID | str]) -> Condition:
    """Return that a field has one of these values: a filter that matches nothing, if there are none."""
    wanted = [str(value) for value in dict.fromkeys(values)]
    return FieldCondition(key=key, match=MatchAny(any=wanted)) if wanted else MATCH_NOTHING


def _audience_condition(audience_kind: str) -> FieldCondition:
    return FieldCondition(key="audience_kind", match=MatchValue(value=audience_kind))


def _sent_between(
    *,
    gte: datetime | None = None,
    gt: datetime | None = None,
    lte: datetime | None = None,
    lt: datetime | None = None,
) -> FieldCondition:
    bounds = (None if one is None else one.astimezone(UTC) for one in (gte, gt, lte, lt))
    at_least, beyond, at_most, below = bounds
    return FieldCondition(key="sent_at", range=DatetimeRange(gte=at_least, gt=beyond, lte=at_most, lt=below))
