import random

import pytest

from context.rooms import ELSEWHERE, START, CountingSource, answer, mid, numbers, say
from jobs.rooms import busy_room
from roomlore.context.expansion import expand
from roomlore.context.limits import ExpansionLimits
from roomlore.context.sources import ListSource, StoreSource
from roomlore.db import messages as said
from roomlore.operations import App


async def test_before_is_newest_first_and_after_is_oldest_first():
    messages = [say(n) for n in range(6)]
    source = ListSource(messages[::-1])
    assert numbers(await source.before(messages[3], 2)) == [2, 1]
    assert numbers(await source.after(messages[3], 5)) == [4, 5]
    assert await source.before(messages[0], 5) == []


async def test_neighbours_are_of_the_same_room_only():
    source = ListSource([say(0), say(1, room_id=ELSEWHERE), say(2)])
    assert numbers(await source.before(say(2), 9)) == [0]
    assert numbers(await source.after(say(0), 9)) == [2]


async def test_a_place_the_source_does_not_hold_still_has_neighbours():
    source = ListSource([say(0), say(2)])
    assert numbers(await source.before(say(1), 9)) == [0]
    assert numbers(await source.after(say(1), 9)) == [2]


async def test_duplicate_message_counts_redacted_first_then_latest_edit():
    edited = say(0, body="new", edited_at=say(9).sent_at)
    assert await ListSource([edited, say(0), say(0)]).messages([mid(0), mid(0), mid(5)]) == [edited]
    redacted = say(0, body="", redacted_at=START)
    assert await ListSource([redacted, edited]).messages([mid(0)]) == [redacted]


async def test_replies_come_from_both_ends_most_confident_then_newest_first():
    messages = [say(0), say(1, reply_to=0), say(2), say(3)]
    edges = [answer(2, 0, 0.7), answer(3, 0, 0.7), answer(3, 2, 0.9), answer(1, 0, 0.3)]
    source = ListSource(messages, edges)
    found = [(numbers_of(e), e.confidence) for e in await source.replies([mid(0), mid(0)], 9)]
    assert found == [((1, 0), 1.0), ((3, 0), 0.7), ((2, 0), 0.7)]
    assert [numbers_of(e) for e in await source.replies([mid(3), mid(2)], 2)] == [(3, 2), (3, 0)]
    assert await source.replies([], 9) == []


async def test_a_list_that_was_never_stored_can_be_untangled():
    told = [
        say(0, by=1, author_name="ann", body="how do I mount a usb disk?"),
        say(1, by=2, author_name="cleo", body="which kernel has the new scheduler?"),
        say(2, by=3, author_name="ben", body="ann: plug it in and it mounts the usb disk by itself"),
        say(3, by=4, author_name="dora", body="cleo: the scheduler came with kernel 6.6"),
        say(4, by=1, author_name="ann", body="ben: thanks, it mounts now"),
    ]
    plain, disentangled = ListSource(told), ListSource.disentangled(told[::-1])
    assert await plain.replies([message.id for message in told], 9) == []
    edges = await disentangled.replies([message.id for message in told], 9)
    found = {numbers_of(edge): edge.method for edge in edges}
    assert found[2, 0] == found[3, 1] == found[4, 2] == "mention"
    assert all(0 < edge.confidence < 1 for edge in edges)
    walked = await expand(disentangled, told[4])
    assert {0, 2, 4} <= set(numbers(item for item in walked.selected if item.part == "conversation"))


async def test_disentangled_list_keeps_stated_replies():
    told = [say(0), say(1, by=2), say(2, by=3, reply_to=0), say(3, by=4, body="P1: yes")]
    stated = [answer(3, 1, 1.0, "thread")]
    edges = await ListSource.disentangled(told, stated).replies([mid(2), mid(3)], 9)
    assert {(numbers_of(edge), edge.method) for edge in edges} == {((2, 0), "explicit"), ((3, 1), "thread")}


async def test_whispers_notices_and_removed_messages_are_not_linked():
    ask = say(0, by=1, author_name="ann", body="ben: where is the key to the boat house?")
    for reply in (
        {"kind": "whisper"},
        {"kind": "system"},
        {"kind": "context_injection"},
        {"redacted_at": START},
        {"erased_at": START},
        {"room_id": ELSEWHERE},
    ):
        told = [ask, say(1, by=2, author_name="ben", body="ann: the key hangs in the boat house", **reply)]
        assert await ListSource.disentangled(told).replies([mid(0), mid(1)], 9) == []
    told = [ask, say(1, by=2, author_name="ben", body="ann: the key hangs in the boat house")]
    assert len(await ListSource.disentangled(told).replies([mid(0), mid(1)], 9)) == 1


def numbers_of(edge):
    return (edge.child_id.int - 10_000, edge.parent_id.int - 10_000)


#: All edges come, so that the order of those with one confidence does not matter; some are near and some are not.
WIDE = ExpansionLimits(max_messages=40, max_replies=2000, near=20, min_confidence=0)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("count", [1, 12, 120])
@pytest.mark.parametrize("reader", [None, "ana"])
async def test_store_and_list_of_visible_messages_expand_alike(
    app: App, seed: int, count: int, reader: str | None
):
    chance = random.Random(seed)
    room = busy_room(seed, count)
    await app.ingest_batch(room)
    await app.disentangle()
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


@pytest.mark.slow
async def test_a_context_in_an_untangled_room_takes_few_statements(app: App):
    room = busy_room(5, 300, whispers=False)
    await app.ingest_batch(room)
    await app.disentangle()
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
