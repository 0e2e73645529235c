"""Searches return only what the viewer may read."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import HealthCheck, example, given, settings

from domain.audience import MessageFacts, Period, RoomFacts, ViewerFacts, can_see_message
from projections.qdrant.stories import (
    EVERYTHING,
    EVERYWHERE,
    at,
    digests,
    facing,
    narrowings,
    point,
    points_anywhere,
    sights,
    some_id,
)
from roomlore.domain.projections import QueryFilter, VisibilityFilter
from roomlore.domain.records import MembershipPeriod, Viewer

TOGETHER = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
ORG = some_id(1000)
ROOM, OTHER_ROOM = some_id(10), some_id(11)
ANA, BEA = some_id(20), some_id(21)


def hears(one, sight):
    stays = (stay for stay in sight.stays if stay.room_id == one.room_id)
    return one.room_id in sight.open_room_ids or any(
        Period(joined_at=stay.joined_at, left_at=stay.left_at).covers(one.sent_at) for stay in stays
    )


def may_read(one, sight):
    """The rule without the filter."""
    if sight.is_operator or one.author_id in sight.own_ids:
        return True
    if one.audience is not None:
        is_addressed = not set(one.audience).isdisjoint(sight.own_ids)
        return one.kind in {"whisper", "context_injection"} and is_addressed
    for_all = {"message", "system"} | ({"context_injection"} if sight.is_agent else set())
    return one.kind in for_all and hears(one, sight)


def lies_in(one, query_filter):
    chosen = (
        (query_filter.room_ids, one.room_id),
        (query_filter.author_ids, one.author_id),
        (query_filter.author_kinds, one.author_kind),
        (query_filter.conversation_ids, one.conversation_id),
    )
    return (
        all(wanted is None or value in wanted for wanted, value in chosen)
        and (query_filter.since is None or one.sent_at >= query_filter.since)
        and (query_filter.until is None or one.sent_at < query_filter.until)
    )


def the_database_shows(one, sight):
    """Whether the rule of the database lets the viewer see it."""
    periods = {}
    for stay in sight.stays:
        period = Period(joined_at=stay.joined_at, left_at=stay.left_at)
        periods.setdefault(stay.room_id, []).append(period)
    who = sight.own_ids[0] if sight.own_ids else None
    viewer = ViewerFacts(
        viewer=Viewer(org_id=ORG, participant_id=None if sight.is_operator else (who or some_id(999))),
        is_agent=sight.is_agent,
        periods=periods,
        accounts=frozenset(sight.own_ids),
    )
    visibility = "open" if one.room_id in sight.open_room_ids else "members"
    room = RoomFacts(org_id=ORG, id=one.room_id, visibility=visibility)
    facts = MessageFacts(
        room=room,
        kind=one.kind,
        author_id=one.author_id,
        sent_at=one.sent_at,
        audience=frozenset(one.audience or ()),
    )
    return can_see_message(facts, viewer)


async def fill(points, copy, said):
    await points.drop(copy, list(await digests(points, copy)))
    await points.put(copy, said)


async def found(points, copy, sight, query_filter=EVERYWHERE):
    """What dense search finds, which must equal what lexical search finds."""
    how = {"sight": sight, "query_filter": query_filter, "wanted": 1000}
    near, worded = await asyncio.gather(
        points.search_dense(copy, facing(1, 0, 0, 0), **how), points.search_lexical(copy, ["toner"], **how)
    )
    assert {one.message_id for one in near} == {one.message_id for one in worded}
    return {one.message_id for one in near}


@pytest.mark.slow
@TOGETHER
@example(said=[point(1, lexemes={"toner": 1})], sight=VisibilityFilter(), query_filter=EVERYWHERE)
@example(said=[point(1, lexemes={"toner": 1})], sight=EVERYTHING, query_filter=QueryFilter(room_ids=[]))
@given(said=points_anywhere(), sight=sights, query_filter=narrowings)
async def test_search_finds_exactly_the_visible_messages(points, copy, *, said, sight, query_filter):
    await fill(points, copy, said)
    result = await found(points, copy, sight, query_filter)
    assert result == {one.id for one in said if may_read(one, sight) and lies_in(one, query_filter)}
    assert result <= {one.id for one in said if the_database_shows(one, sight)}


@pytest.mark.slow
async def test_viewer_without_rooms_finds_nothing(points, copy):
    await points.put(copy, [point(1, lexemes={"toner": 1})])
    assert await found(points, copy, EVERYTHING) == {some_id(1)}
    assert await found(points, copy, VisibilityFilter()) == set()
    assert await found(points, copy, VisibilityFilter(is_agent=True)) == set()


@pytest.mark.slow
@pytest.mark.parametrize("field", ["room_ids", "author_ids", "author_kinds", "conversation_ids"])
async def test_an_empty_list_is_nowhere_even_for_the_operator(points, copy, field):
    await points.put(copy, [point(1, lexemes={"toner": 1}, conversation_id=some_id(30))])
    assert await found(points, copy, EVERYTHING, QueryFilter(**{field: []})) == set()


@pytest.mark.slow
async def test_a_whisper_without_addressees_is_for_its_author_alone(points, copy):
    whisper = point(1, kind="whisper", room_id=ROOM, author_id=ANA, lexemes={"toner": 1})
    await points.put(copy, [whisper, replace(whisper, id=some_id(2), audience=[])])
    assert (
        await found(points, copy, VisibilityFilter(open_room_ids=[ROOM], own_ids=[BEA], is_agent=True))
        == set()
    )
    assert await found(points, copy, VisibilityFilter(own_ids=[ANA])) == {some_id(1), some_id(2)}


@pytest.mark.slow
async def test_point_without_an_audience_kind_is_for_its_author(points, copy):
    from qdrant_client.models import PointStruct, SparseVector  # noqa: PLC0415  needs the extra

    from roomlore.projections.qdrant_connection import lexeme_dimension, payload_of  # noqa: PLC0415  needs the extra

    said = [
        point(1, room_id=ROOM, author_id=ANA),
        point(2, room_id=ROOM, author_id=ANA, kind="whisper", audience=[BEA]),
    ]
    toner = SparseVector(indices=[lexeme_dimension("toner")], values=[1.0])
    for one in said:
        stored = {key: value for key, value in payload_of(one).items() if key != "audience_kind"}
        vectors = {"dense": [1.0, 0.0, 0.0, 0.0], "words": toner}
        struct = PointStruct(id=str(one.id), vector=vectors, payload=stored)
        await points._wire._client.upsert(f"roomlore_{copy}", [struct], wait=True)
    assert (
        await found(points, copy, VisibilityFilter(open_room_ids=[ROOM], own_ids=[BEA], is_agent=True))
        == set()
    )
    assert await found(points, copy, VisibilityFilter(own_ids=[ANA])) == {some_id(1), some_id(2)}


@pytest.mark.slow
async def test_audience_of_an_ordinary_message_grants_nothing(points, copy):
    await points.put(copy, [point(1, room_id=ROOM, audience=[BEA], lexemes={"toner": 1})])
    assert await found(points, copy, VisibilityFilter(own_ids=[BEA], open_room_ids=[ROOM])) == set()


@pytest.mark.slow
async def test_a_stay_begins_and_ends_to_the_microsecond(points, copy):
    tick = timedelta(microseconds=1)
    moments = [at(0) - tick, at(0), at(0) + tick, at(9) - tick, at(9)]
    said = [
        point(number, room_id=ROOM, sent_at=moment, lexemes={"toner": 1})
        for number, moment in enumerate(moments, start=1)
    ]
    await points.put(copy, said)
    elsewhere = timezone(timedelta(hours=5, minutes=30))
    for zone in (UTC, elsewhere):
        stay = MembershipPeriod(
            room_id=ROOM, joined_at=at(0).astimezone(zone), left_at=at(9).astimezone(zone)
        )
        assert await found(points, copy, VisibilityFilter(stays=[stay])) == {
            some_id(2),
            some_id(3),
            some_id(4),
        }


@pytest.mark.slow
async def test_a_stay_in_one_room_is_none_in_another(points, copy):
    await points.put(copy, [point(1, room_id=OTHER_ROOM, lexemes={"toner": 1})])
    stays = [
        MembershipPeriod(room_id=ROOM, joined_at=None, left_at=None),
        MembershipPeriod(room_id=OTHER_ROOM, joined_at=at(5), left_at=None),
    ]
    assert await found(points, copy, VisibilityFilter(stays=stays)) == set()


@pytest.mark.slow
async def test_extreme_times_can_be_stored_and_filtered(points, copy):
    first, last = datetime(1, 1, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    said = [
        point(1, room_id=ROOM, sent_at=first, lexemes={"toner": 1}),
        point(2, room_id=ROOM, sent_at=last, lexemes={"toner": 1}),
    ]
    await points.put(copy, said)
    stay = MembershipPeriod(room_id=ROOM, joined_at=first, left_at=last)
    assert await found(points, copy, VisibilityFilter(stays=[stay])) == {some_id(1)}
    assert await found(points, copy, EVERYTHING, QueryFilter(since=last)) == {some_id(2)}


@pytest.mark.slow
async def test_filter_with_thousands_of_rooms_works(points, copy):
    many = [some_id(5000 + number) for number in range(4000)]
    said = [point(number, room_id=many[number], lexemes={"toner": 1}) for number in (1, 1999, 3000, 3999)]
    await points.put(copy, [*said, point(9, room_id=ROOM, lexemes={"toner": 1})])
    stays = [
        MembershipPeriod(room_id=room, joined_at=at(-number), left_at=None)
        for number, room in enumerate(many[3000:], start=3000)
    ]
    sight = VisibilityFilter(open_room_ids=many[:2000], stays=stays, own_ids=[BEA])
    assert await found(points, copy, sight) == {some_id(1), some_id(1999), some_id(3000), some_id(3999)}
    assert await found(points, copy, EVERYTHING, QueryFilter(room_ids=many[1000:])) == {
        some_id(1999),
        some_id(3000),
        some_id(3999),
    }
