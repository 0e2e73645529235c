"""An index has the newest version of every point, and lists what it has."""

import asyncio
import json
from dataclasses import replace
from urllib.request import Request, urlopen

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from projections.qdrant.stories import (
    DIMENSIONS,
    EVERYTHING,
    EVERYWHERE,
    digests,
    facing,
    point,
    some_id,
    told,
)
from roomlore.domain.errors import BackendUnavailable, BadInput
from roomlore.projections import qdrant

TOGETHER = settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.slow
async def test_put_stores_the_digest(points, copy):
    said = [point(1), point(2, audience=[some_id(3)], kind="whisper"), point(3, vector=None, lexemes={})]
    await points.put(copy, said)
    assert await digests(points, copy) == told(said)


@pytest.mark.slow
async def test_same_version_does_not_replace(points, copy):
    await points.put(copy, [point(1, version=3)])
    await points.put(copy, [point(1, version=3, author_name="Bea")])
    assert await digests(points, copy) == told([point(1, version=3)])


@pytest.mark.slow
async def test_a_newer_version_takes_the_place_of_an_older_one_with_all_it_had(points, copy):
    await points.put(copy, [point(1, audience=[some_id(3)], lexemes={"toner": 1})])
    newer = point(1, version=2, vector=None)
    await points.put(copy, [newer])
    assert await digests(points, copy) == told([newer])
    everything = {"sight": EVERYTHING, "query_filter": EVERYWHERE, "wanted": 9}
    assert await points.search_dense(copy, facing(1, 0, 0, 0), **everything) == []
    assert await points.search_lexical(copy, ["toner"], **everything) == []


@pytest.mark.slow
async def test_put_compares_versions_within_one_call(points, copy):
    old, new = point(1, version=5, author_name="old"), point(1, version=8, author_name="new")
    await points.put(copy, [point(2, version=6), point(3, version=2)])
    stale, fresh = point(2, version=5, author_name="stale"), point(3, version=7, author_name="fresh")
    await points.put(copy, [new, stale, old, fresh])
    assert await digests(points, copy) == told([new, point(2, version=6), fresh])


@pytest.mark.slow
async def test_more_than_a_batch_is_held_in_the_order_of_ids_page_by_page(points, copy):
    said = [point(number, version=1 + number % 3) for number in range(1, 2 * qdrant.BATCH + 20)]
    await points.put(copy, said)
    found, after = [], None
    while page := await points.stored_digests(copy, after=after, limit=97):
        assert len(page) <= 97
        found += page
        after = page[-1].id
    assert [one.id for one in found] == sorted(one.id for one in said)
    assert await digests(points, copy) == told(said)


@pytest.mark.slow
async def test_a_request_is_no_larger_than_servers_take(points, copy, monkeypatch):
    monkeypatch.setattr(qdrant, "BATCH_BYTES", 3000)
    said = [point(number) for number in range(1, 20)]
    await points.put(copy, said)
    assert await digests(points, copy) == told(said)
    assert len(list(qdrant._batches(said))) == 7


@pytest.mark.slow
async def test_drop_removes_points_and_ignores_unknown_ids(points, copy):
    await points.put(copy, [point(1), point(2)])
    await points.drop(copy, [some_id(1), some_id(9)])
    await points.drop(copy, [])
    assert await digests(points, copy) == told([point(2)])


@pytest.mark.slow
async def test_dropped_point_can_be_written_again(points, copy):
    await points.put(copy, [point(1, version=4)])
    await points.drop(copy, [some_id(1)])
    await points.put(copy, [point(1, version=2)])
    assert await digests(points, copy) == told([point(1)])


@pytest.mark.slow
async def test_invalidated_point_stays_until_any_version_replaces_it(points, copy):
    everything = {"sight": EVERYTHING, "query_filter": EVERYWHERE, "wanted": 9}
    said = [point(1, version=7, author_name="Bea"), point(2, version=7)]
    await points.put(copy, said)

    await points.invalidate(copy, [some_id(1), some_id(9)])
    await points.invalidate(copy, [])

    assert await digests(points, copy) == told(said)
    assert len(await points.search_dense(copy, facing(1, 0, 0, 0), **everything)) == 2
    older = [point(1, version=3), point(2, version=3, author_name="Bea")]
    await points.put(copy, older)
    assert await digests(points, copy) == told([older[0], said[1]])
    await points.put(copy, [point(1, version=2, author_name="Bea")])
    assert await digests(points, copy) == told([older[0], said[1]])


@pytest.mark.slow
async def test_more_than_a_batch_is_distrusted(points, copy):
    numbers = range(1, qdrant.BATCH + 20)
    await points.put(copy, [point(number, version=2) for number in numbers])
    await points.invalidate(copy, [some_id(number) for number in numbers])
    anew = [point(number, author_name="Bea") for number in numbers]
    await points.put(copy, anew)
    assert await digests(points, copy) == told(anew)


@pytest.mark.slow
async def test_putting_nothing_changes_nothing(points, copy):
    await points.put(copy, [])
    assert await digests(points, copy) == {}
    assert await points.stored_digests(copy, after=None, limit=0) == []


@pytest.mark.slow
async def test_the_last_of_all_ids_is_held_and_nothing_is_behind_it(points, copy):
    last = replace(point(1), id=qdrant._LAST_ID)
    await points.put(copy, [last])
    assert await digests(points, copy) == told([last])
    assert await points.stored_digests(copy, after=qdrant._LAST_ID, limit=5) == []


@pytest.mark.slow
async def test_preparing_again_leaves_a_copy_as_it_is(points, copy):
    await points.put(copy, [point(1)])
    await points.prepare(copy, dimensions=DIMENSIONS)
    assert await digests(points, copy) == told([point(1)])


@pytest.mark.slow
async def test_a_copy_for_other_vectors_is_to_be_rebuilt(points, copy):
    with pytest.raises(BackendUnavailable, match="4 numbers, and ours have 5; run: roomlore index rebuild"):
        await points.prepare(copy, dimensions=DIMENSIONS + 1)
    with pytest.raises(BackendUnavailable, match="another length; run: roomlore index rebuild qdrant"):
        await points.put(copy, [point(1, vector=facing(1, 0, 0, 0, 0))])
    with pytest.raises(BackendUnavailable, match="rebuild"):
        await points.search_dense(copy, facing(1, 0), sight=EVERYTHING, query_filter=EVERYWHERE, wanted=1)


@pytest.mark.slow
async def test_copies_are_named_as_they_were_prepared_and_gone_when_removed(points, copy, other):
    await points.prepare(other, dimensions=7)
    assert {copy, other} <= set(await points.index_names())
    await points.remove(other)
    await points.remove(other)
    assert copy in await points.index_names()
    assert other not in await points.index_names()


@pytest.mark.slow
async def test_two_copies_know_nothing_of_each_other(points, copy, other):
    await points.prepare(other, dimensions=DIMENSIONS)
    await points.put(copy, [point(1)])
    await points.put(other, [point(2)])
    await points.drop(other, [some_id(1)])
    assert await digests(points, copy) == told([point(1)])
    assert await digests(points, other) == told([point(2)])


async def test_every_call_reports_a_missing_index(points):
    everything = {"sight": EVERYTHING, "query_filter": EVERYWHERE}
    for call in (
        points.put("nowhere", [point(1)]),
        points.drop("nowhere", [some_id(1)]),
        points.invalidate("nowhere", [some_id(1)]),
        points.stored_digests("nowhere", after=None, limit=1),
        points.search_dense("nowhere", facing(1, 0, 0, 0), wanted=1, **everything),
        points.search_lexical("nowhere", ["toner"], wanted=1, **everything),
    ):
        with pytest.raises(BackendUnavailable, match="gone; run: roomlore index rebuild qdrant"):
            await call


@pytest.mark.slow
async def test_refused_points_are_named_and_the_rest_is_written(points, copy):
    said = [point(number) for number in range(1, 60)]
    short, endless = point(70, vector=facing(1, 0)), point(71, vector=np.full(4, np.inf, np.float32))
    unsayable = point(72, author_name="secret \ud800")
    with pytest.raises(BadInput) as refused:
        await points.put(copy, [short, *said[:30], endless, unsayable, *said[30:]])
    assert await digests(points, copy) == told(said)
    for one in (short, endless, unsayable):
        assert str(one.id) in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.slow
async def test_many_that_are_never_taken_do_not_fill_the_log(points, copy):
    with pytest.raises(BadInput, match="and 20 more"):
        await points.put(copy, [point(one, vector=np.full(4, np.nan, np.float32)) for one in range(1, 31)])


@pytest.mark.usefixtures("server")
def test_payload_contains_no_text():
    from roomlore.projections.qdrant_connection import payload_of  # noqa: PLC0415  needs the extra

    stored = payload_of(point(1, lexemes={"secret": 2}, author_kind="agent"))
    assert "secret" not in repr(stored)
    assert stored["author_is_bot"] is True
    assert stored["sent_at"] == "2026-03-01T12:01:00.000000+00:00"
    assert "audience" not in stored
    assert stored["audience_kind"] == "room"


@pytest.mark.slow
async def test_a_filter_of_somebodys_own_finds_who_is_a_bot(points, copy, server):
    await points.put(copy, [point(1, author_kind="agent"), point(2, author_kind="human")])
    url, key = server

    def found(value) -> set[str]:
        wanted = {"filter": {"must": [{"key": "author_is_bot", "match": {"value": value}}]}}
        headers = {"content-type": "application/json"} | ({"api-key": key} if key else {})
        request = Request(
            f"{url}/collections/{qdrant.PREFIX}{copy}/points/scroll",
            json.dumps(wanted).encode(),
            headers,
            method="POST",
        )
        with urlopen(request) as answer:
            points = json.load(answer)["result"]["points"]
        assert all(set(one["payload"]) == set(points[0]["payload"]) for one in points)
        return {one["id"] for one in points}

    assert await asyncio.to_thread(found, True) == {str(point(1).id)}
    assert await asyncio.to_thread(found, False) == {str(point(2).id)}
    assert await asyncio.to_thread(found, 1) == set()


versions = st.integers(1, 4)
writings = st.lists(st.tuples(st.integers(1, 3), versions), max_size=4)
steps = st.lists(writings | st.lists(st.integers(1, 3), min_size=1, max_size=2).map(tuple), max_size=6)


@pytest.mark.slow
@TOGETHER
@given(steps=steps)
async def test_newest_version_wins_in_any_order(points, copy, steps):
    await points.drop(copy, [some_id(number) for number in range(1, 4)])
    newest = {}
    for step in steps:
        if isinstance(step, tuple):
            await points.drop(copy, [some_id(number) for number in step])
            newest = {number: version for number, version in newest.items() if number not in step}
            continue
        await points.put(copy, [point(number, version=one, author_name=str(one)) for number, one in step])
        for number, version in step:
            newest[number] = max(version, newest.get(number, 0))
    expected = [point(number, version=one, author_name=str(one)) for number, one in newest.items()]
    assert await digests(points, copy) == told(expected)
