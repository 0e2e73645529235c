"""Points for tests, with defaults."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
from hypothesis import strategies as st

from roomlore.domain.projections import Point, QueryFilter, VisibilityFilter
from roomlore.domain.records import MembershipPeriod
from roomlore.projections.qdrant import QdrantProjection

DIMENSIONS = 4
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
EVERYTHING = VisibilityFilter(is_operator=True)
EVERYWHERE = QueryFilter()


def some_id(number: int) -> Any:
    """The id for a number, spread over all ids."""
    return UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128)


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def facing(*numbers: float) -> Any:
    """A vector of length one."""
    vector = np.array(numbers, dtype=np.float32)
    return vector / np.linalg.norm(vector)


def point(number: int, **facts: Any) -> Point:
    plain = Point(
        id=some_id(number),
        version=1,
        room_id=some_id(1),
        kind="message",
        author_id=some_id(2),
        author_name="Ana",
        author_kind="human",
        sent_at=at(number),
        sequence=number,
        thread_id=some_id(number),
        vector=facing(1, 0, 0, 0),
    )
    return replace(plain, **facts)


async def digests(points: QdrantProjection, copy: str) -> dict[UUID, str]:
    """All digests of an index."""
    return {held.id: held.digest for held in await points.stored_digests(copy, after=None, limit=10_000)}


def told(points: Sequence[Point]) -> dict[UUID, str]:
    """The digests that an index of these points must have."""
    return {one.id: one.digest for one in points}


# Few of each, so that they meet; times among them that are equal, or a microsecond apart.
rooms = st.sampled_from([some_id(number) for number in range(10, 14)])
people = st.sampled_from([some_id(number) for number in range(20, 24)])
moments = st.builds(
    lambda minute, tick: at(minute) + timedelta(microseconds=tick), st.integers(0, 3), st.integers(0, 1)
)


@st.composite
def points_anywhere(draw: st.DrawFn, *, most: int = 12) -> list[Point]:
    """Points of every kind, author and room."""
    return [
        point(
            100 + number,
            room_id=draw(rooms),
            kind=draw(st.sampled_from(["message", "whisper", "system", "context_injection"])),
            author_id=draw(people),
            author_kind=draw(st.sampled_from(["human", "agent", "system"])),
            sent_at=draw(moments),
            sequence=draw(st.integers(0, 2)),
            conversation_id=draw(st.none() | st.sampled_from([some_id(30), some_id(31)])),
            thread_id=some_id(100 + draw(st.integers(0, most - 1))),
            audience=draw(st.none() | st.lists(people, unique=True, max_size=3)),
            lexemes={"toner": 1},
        )
        for number in range(draw(st.integers(0, most)))
    ]


stays = st.builds(MembershipPeriod, room_id=rooms, joined_at=st.none() | moments, left_at=st.none() | moments)
sights = st.builds(
    VisibilityFilter,
    is_operator=st.integers(0, 9).map(lambda number: number == 0),
    is_agent=st.booleans(),
    open_room_ids=st.lists(rooms, unique=True, max_size=2),
    stays=st.lists(stays, max_size=4),
    own_ids=st.lists(people, unique=True, max_size=2),
)


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """No filter more often than one, and sometimes an empty one."""
    return st.none() | st.none() | st.lists(values, unique=True, max_size=3)


narrowings = st.builds(
    QueryFilter,
    room_ids=maybe(rooms),
    author_ids=maybe(people),
    author_kinds=maybe(st.sampled_from(["human", "agent", "system"])),
    conversation_ids=maybe(st.sampled_from([some_id(30), some_id(31)])),
    since=st.none() | moments,
    until=st.none() | moments,
)
