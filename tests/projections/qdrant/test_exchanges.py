"""Pages of exchanges: each exchange whole on one page, none lost and none twice, whatever was sent at the same time."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from projections.qdrant.stories import (
    EVERYTHING,
    EVERYWHERE,
    at,
    digests,
    narrowings,
    point,
    points_anywhere,
    sights,
    some_id,
)
from projections.qdrant.test_seeing import lies_in, may_read
from roomlore.domain.errors import BadInput
from roomlore.domain.projections import QueryFilter, VisibilityFilter

TOGETHER = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


async def pages(points, copy, *, limit, sight=EVERYTHING, narrowing=EVERYWHERE):
    """All pages there are."""
    told, after = [], None
    while True:
        page = await points.exchanges(copy, sight=sight, narrowing=narrowing, after=after, limit=limit)
        assert len(page.threads) <= limit
        told.append(page.threads)
        after = page.after
        if after is None:
            return told


async def exchanges(points, copy, **how):
    return [exchange for page in await pages(points, copy, **how) for exchange in page]


def expected(said, sight, narrowing):
    """The same without a server: by the first message of each that lies there."""
    first, whole = {}, {}
    for one in sorted(said, key=lambda one: (one.sent_at, one.id)):
        if may_read(one, sight) and lies_in(one, narrowing):
            first.setdefault(one.exchange_id, one)
    for one in sorted(said, key=lambda one: (one.sent_at, one.native_order, one.id)):
        if may_read(one, sight):
            whole.setdefault(one.exchange_id, []).append(one.id)
    return [whole[exchange_id] for exchange_id in first]


@TOGETHER
@given(said=points_anywhere(most=16), asked=st.tuples(sights, narrowings), limit=st.integers(1, 4))
async def test_pages_tell_each_exchange_once_and_whole(points, copy, *, said, asked, limit):
    sight, narrowing = asked
    await points.drop(copy, list(await digests(points, copy)))
    await points.put(copy, said)
    told = await exchanges(points, copy, limit=limit, sight=sight, narrowing=narrowing)
    assert told == expected(said, sight, narrowing)


@pytest.mark.parametrize("limit", [1, 3, 7])
async def test_what_was_all_sent_at_once_is_told_once(points, copy, limit):
    said = [point(number, sent_at=at(0), exchange_id=some_id(1 + number % 25)) for number in range(1, 60)]
    await points.put(copy, said)
    told = await exchanges(points, copy, limit=limit)
    assert told == expected(said, EVERYTHING, EVERYWHERE)
    assert len(told) == 25


async def test_a_late_answer_is_on_the_page_of_what_it_answers(points, copy):
    said = [point(number) for number in range(1, 12)]
    late = point(99, exchange_id=some_id(1))
    await points.put(copy, [*said, late])
    first, *rest = await pages(points, copy, limit=2)
    assert first == [[some_id(1), some_id(99)], [some_id(2)]]
    assert some_id(99) not in {one for page in rest for exchange in page for one in exchange}


async def test_an_exchange_is_told_of_whose_opening_the_viewer_may_not_read(points, copy):
    hidden = point(1, room_id=some_id(10))
    answer = point(2, room_id=some_id(11), exchange_id=hidden.id)
    await points.put(copy, [hidden, answer])
    told = await exchanges(points, copy, limit=5, sight=VisibilityFilter(open_room_ids=[some_id(11)]))
    assert told == [[answer.id]]


async def test_an_exchange_is_whole_where_only_a_part_of_it_was_asked_for(points, copy):
    asked = point(1)
    answer = point(2, author_id=some_id(5), exchange_id=asked.id)
    await points.put(copy, [asked, answer, point(3)])
    told = await exchanges(points, copy, limit=5, narrowing=QueryFilter(author_ids=[some_id(5)]))
    assert told == [[asked.id, answer.id]]


async def test_an_exchange_longer_than_any_page_is_whole(points, copy):
    said = [point(number, exchange_id=some_id(1)) for number in range(1, 1200)]
    await points.put(copy, [*said, point(2000)])
    told = await exchanges(points, copy, limit=1)
    assert [len(exchange) for exchange in told] == [1199, 1]


async def test_a_page_of_nothing_is_the_callers_mistake(points, copy):
    with pytest.raises(BadInput, match="limit"):
        await points.exchanges(copy, sight=EVERYTHING, narrowing=EVERYWHERE, after=None, limit=0)
