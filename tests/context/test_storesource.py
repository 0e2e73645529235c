"""The store answers a walk as a list of the same messages and replies does, in few statements."""

import random

import pytest

from context.rooms import CountingSource
from jobs.rooms import busy_room
from roomlore.context.expansion import expand
from roomlore.context.limits import ExpansionLimits
from roomlore.context.sources import ListSource, StoreSource
from roomlore.db import messages as said
from roomlore.operations import App

#: All edges come, so that the order of those with one confidence does not matter; some are near and some are not.
WIDE = ExpansionLimits(max_messages=40, max_replies=2000, near=20, min_confidence=0)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("count", [1, 12, 120])
@pytest.mark.parametrize("reader", [None, "ana"])
async def test_a_walk_over_the_store_is_the_walk_over_a_list_of_what_the_viewer_may_see(
    app: App, seed: int, count: int, reader: str | None
):
    chance = random.Random(seed)
    room = busy_room(seed, count)
    await app.ingest_batch(room)
    await app.untangle()
    viewer = app.operator if reader is None or count == 1 else await app.viewer(reader)
    told = await app.messages(viewer, room[0].room.external_id, limit=count)
    assert told
    async with app.db.read_transaction(viewer, generic_plan=True) as conn:
        ids = [message.id for message in told]
        edges = await said.replies_around(conn, app.org_id, ids, limit=100_000)
        whole = ListSource(told, edges)
        for trigger in chance.sample(told, min(len(told), 3)):
            source = CountingSource(StoreSource(conn=conn, org_id=app.org_id))
            assert await expand(source, trigger, limits=WIDE) == await expand(whole, trigger, limits=WIDE)
        for limit in (1, 3, 1000):
            source = StoreSource(conn=conn, org_id=app.org_id)
            some = chance.sample(ids, min(len(ids), 5))
            assert await source.replies(some, limit) == await said.replies_around(
                conn, app.org_id, some, limit=limit
            )


async def test_a_context_in_an_untangled_room_takes_few_statements(app: App):
    room = busy_room(5, 300, whispers=False)
    await app.ingest_batch(room)
    await app.untangle()
    told = await app.messages(app.operator, room[0].room.external_id, limit=300)
    calls: list[int] = []
    parts: set[str] = set()
    async with app.db.read_transaction(app.operator, generic_plan=True) as conn:
        for trigger in told[150::10]:
            source = CountingSource(StoreSource(conn=conn, org_id=app.org_id))
            found = await expand(source, trigger)
            calls.append(source.calls)
            parts |= {item.part for item in found.selected if item.rule != "trigger"}
    assert parts == {"conversation", "room"}
    assert sorted(calls)[len(calls) // 2] <= 8
    assert sum(calls) / len(calls) <= 10
