import random
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context.rooms import (
    CountingSource,
    answer,
    mid,
    numbers,
    rooms,
    say,
)
from roomlore.context.expansion import expand
from roomlore.context.limits import ExpansionLimits
from roomlore.context.sources import ListSource
from roomlore.domain.errors import BadInput
from roomlore.domain.records import Reply

SMALL = ExpansionLimits(min_recent=2, max_messages=12, page=2)

limits = st.builds(
    lambda recent, more, near, page, replies: ExpansionLimits(
        min_recent=recent,
        max_messages=recent + more,
        min_confidence=0.5,
        near=near,
        page=page,
        max_replies=replies,
    ),
    st.integers(0, 10),
    st.integers(1, 20),
    st.integers(0, 50),
    st.integers(1, 6),
    st.integers(1, 130),
)


def by_number(found):
    return {item.message.id.int - 10_000: item for item in found.selected}


async def test_most_recent_messages_are_in_despite_pauses():
    messages = [say(n, n * 600) for n in range(6)]
    found = await expand(
        ListSource(messages), messages[5], limits=ExpansionLimits(min_recent=3, max_messages=10)
    )
    assert numbers(found.selected) == [2, 3, 4, 5]
    assert [s.rule for s in found.selected] == ["recent", "recent", "recent", "trigger"]
    assert [(s.message_id, s.direction, s.beyond) for s in found.boundaries] == [(mid(2), "before", mid(1))]
    assert found.boundaries[0].gap == timedelta(minutes=600)


async def test_defaults_are_ten_recent_thirty_in_all_and_thirty_minutes():
    messages = [say(n) for n in range(100)]
    found = await expand(ListSource(messages), messages[99])
    assert numbers(found.selected) == list(range(70, 100))
    assert sum(s.rule == "recent" for s in found.selected) == 10


async def test_old_parent_is_included_with_its_neighbours():
    old = [say(n, n) for n in range(3)]
    talk = [say(n, 100_000 + n) for n in range(10, 13)]
    trigger = say(13, 100_013, reply_to=1)
    found = await expand(ListSource([*old, *talk, trigger]), trigger, limits=SMALL)
    assert numbers(found.selected) == [0, 1, 2, 10, 11, 12, 13]
    reasons = by_number(found)
    assert (reasons[1].rule, reasons[1].reached_from, reasons[1].step, reasons[1].hops) == (
        "reply",
        mid(13),
        1,
        1,
    )
    assert (reasons[0].rule, reasons[0].reached_from, reasons[0].step, reasons[0].hops) == (
        "temporal",
        mid(1),
        4,
        2,
    )
    assert (reasons[10].rule, reasons[10].reached_from) == ("temporal", mid(11))
    # Both sides of the long pause came in, so there is nothing sealed to tell.
    assert found.boundaries == ()


async def test_a_pause_of_exactly_the_gap_does_not_seal_and_a_second_more_does():
    for seconds, expected in ((0, [0, 1]), (1, [1])):
        early = say(0, 0)
        trigger = say(1, 30 + seconds / 60)
        found = await expand(
            ListSource([early, trigger]), trigger, limits=ExpansionLimits(min_recent=0, max_messages=5)
        )
        assert numbers(found.selected) == expected
        assert len(found.boundaries) == seconds


async def test_only_the_side_with_the_pause_is_sealed():
    messages = [say(0, 0), say(1, 100), say(2, 110), say(3, 120), say(4, 5000), say(5, 5001, reply_to=2)]
    found = await expand(
        ListSource(messages), messages[5], limits=ExpansionLimits(min_recent=1, max_messages=9)
    )
    assert numbers(found.selected) == [1, 2, 3, 4, 5]
    assert [(s.message_id, s.direction, s.beyond) for s in found.boundaries] == [(mid(1), "before", mid(0))]


async def test_replies_are_followed_one_level_per_step():
    messages = [say(n, n * 1000, reply_to=n - 1 if n else None) for n in range(5)]
    found = await expand(
        ListSource(messages), messages[4], limits=ExpansionLimits(min_recent=0, max_messages=9)
    )
    assert {n: (s.step, s.hops) for n, s in by_number(found).items()} == {
        4: (0, 0),
        3: (1, 1),
        2: (2, 2),
        1: (3, 3),
        0: (4, 4),
    }


async def test_uncertain_replies_are_not_followed():
    messages = [say(n, n * 1000) for n in range(3)]
    edges = [answer(2, 0, 0.49), answer(2, 1, 0.5)]
    limits = ExpansionLimits(min_recent=0, min_confidence=0.5)
    found = await expand(ListSource(messages, edges), messages[2], limits=limits)
    assert numbers(found.selected) == [1, 2]


@pytest.mark.parametrize(
    ("pace", "silence", "ties"),
    [(1, 30, True), (1, 31, False), (10, 300, True), (10, 301, False), (60, 720, True), (60, 721, False)],
)
async def test_a_guess_across_a_silence_that_is_long_for_the_room_must_be_surer(pace, silence, ties):
    messages = [say(n, n * pace) for n in range(6)]
    trigger = say(9, 5 * pace + silence)
    for confidence, expected in ((0.4, ties), (0.5, True)):
        source = ListSource([*messages, trigger], [answer(9, 5, confidence)])
        assert (parts(await expand(source, trigger))[5] == "conversation") == expected


class EveryEdge(ListSource):
    """Returns several edges between the same two messages, of which a list keeps one."""

    edges: list[Reply]

    async def replies(self, ids, limit):
        asked = set(ids)
        return [edge for edge in self.edges if asked & {edge.child_id, edge.parent_id}][:limit]


@pytest.mark.parametrize("confidences", [(0.2, 0.9), (0.9, 0.2)])
async def test_most_certain_of_several_edges_counts(confidences):
    messages = [say(n) for n in range(6)]
    trigger = say(9, 5 + 31)
    source = EveryEdge([*messages, trigger])
    source.edges = [answer(9, 5, confidence) for confidence in confidences]
    assert parts(await expand(source, trigger))[5] == "conversation"


async def test_the_nearest_then_the_newest_come_in_when_the_limit_cuts_a_step():
    messages = [say(n, n * 1000) for n in range(6)]
    edges = [answer(5, 0), answer(4, 1), answer(4, 2), answer(4, 3)]
    found = await expand(
        ListSource(messages, edges), messages[5], limits=ExpansionLimits(min_recent=1, max_messages=4)
    )
    assert numbers(found.selected) == [0, 3, 4, 5]
    assert numbers(found.over_limit) == [1, 2]
    assert {s.rule for s in found.over_limit} == {"reply"}


async def test_explicit_parents_come_in_even_where_answers_fill_the_edge_limit():
    messages = [say(0, 0), *(say(n, 1000 + n, reply_to=9) for n in range(1, 9)), say(9, 999, reply_to=0)]
    trigger = say(20, 9000, reply_to=9)
    found = await expand(
        ListSource([*messages, trigger]),
        trigger,
        limits=ExpansionLimits(min_recent=0, max_messages=4, max_replies=1),
    )
    assert 0 in numbers(found.selected)


async def test_messages_of_the_same_time_follow_their_native_order():
    messages = [say(9 - n, 0, sequence=n) for n in range(5)]
    found = await expand(ListSource(messages), messages[3])
    assert numbers(found.selected) == [9, 8, 7, 6]


async def test_missing_parent_is_fetched_once():
    messages = [say(0, 0, reply_to=77), say(1, 1000, reply_to=0), say(2, 2000, reply_to=77)]
    edges = [answer(2, 1)]
    source = CountingSource(ListSource(messages, edges))
    found = await expand(source, messages[2], limits=ExpansionLimits(min_recent=0))
    assert numbers(found.selected) == [0, 1, 2]
    assert source.asked.count("messages") == 1


@pytest.mark.parametrize("parent", range(5))
async def test_newest_of_equally_long_paths_counts(parent):
    messages = [say(n, n * 1000) for n in range(9)]
    edges = [answer(n, parent) for n in range(5, 8)]
    limits = ExpansionLimits(min_recent=3, max_messages=9)
    found = await expand(ListSource(messages, edges), messages[8], limits=limits)
    assert numbers(found.selected) == [parent, 5, 6, 7, 8]
    assert by_number(found)[parent].reached_from == mid(7)


# The trigger's own conversation, and what was said around it


def parts(found):
    return {n: s.part for n, s in by_number(found).items()}


async def test_messages_connected_by_replies_are_the_conversation():
    messages = [say(n) for n in range(8)]
    edges = [answer(7, 4), answer(4, 1), answer(6, 1), answer(5, 3)]
    found = await expand(ListSource(messages, edges), messages[7])
    own = [n for n, part in parts(found).items() if part == "conversation"]
    assert own == [1, 4, 6, 7]
    assert [s.rule for s in found.selected if s.part == "conversation"] == ["reply"] * 3 + ["trigger"]
    assert by_number(found)[6].reply == edges[2]
    assert len(found.selected) == 8


@pytest.mark.parametrize("method", ["explicit", "thread", "mention", "inferred"])
async def test_reply_of_any_method_and_age_connects(method):
    messages = [say(0, 0), say(1, 900_000), say(2, 900_001)]
    edge = answer(2, 0, 0.9, method)
    found = await expand(ListSource(messages, [edge]), messages[2])
    assert parts(found) == {0: "conversation", 1: "room", 2: "conversation"}
    assert by_number(found)[0].reply == edge


async def test_the_conversation_takes_every_place_but_those_of_the_most_recent():
    # All even ones are one conversation, the odd ones are nobody's.
    messages = [say(n) for n in range(100)]
    edges = [answer(n, n - 2) for n in range(2, 100, 2)]
    found = await expand(ListSource(messages, edges), messages[98])
    recent = set(range(88, 98))
    own = {n for n, part in parts(found).items() if part == "conversation"}
    assert set(numbers(found.selected)) == recent | set(range(50, 99, 2))
    assert own == set(range(50, 99, 2))
    assert len(found.selected) == 30
    assert {s.rule for n, s in by_number(found).items() if n in recent - own} == {"recent"}


async def test_a_recent_message_is_of_the_conversation_even_where_others_fill_it():
    # 28 hangs on the far end of the conversation: it has its place, and is told to be of it.
    messages = [say(n) for n in range(30)]
    edges = [answer(29, 20), *(answer(n, n - 1) for n in range(1, 21)), answer(28, 1)]
    limits = ExpansionLimits(min_recent=3, max_messages=10)
    found = await expand(ListSource(messages, edges), messages[29], limits=limits)
    assert parts(found) == dict.fromkeys([*range(15, 21), 28, 29], "conversation") | {26: "room", 27: "room"}
    assert by_number(found)[28].reached_from == mid(1)
    assert numbers(found.over_limit) == list(range(15))


async def test_messages_that_the_trigger_answers_come_before_other_answers():
    messages = [say(n) for n in range(40)]
    edges = [answer(39, 5), answer(5, 0), *(answer(n, 5) for n in range(10, 39))]
    limits = ExpansionLimits(min_recent=0, max_messages=4)
    found = await expand(ListSource(messages, edges), messages[39], limits=limits)
    assert numbers(found.selected) == [0, 5, 38, 39]


async def test_near_messages_come_before_far_ones_and_stated_answers_first():
    # 0 is answered by the platform's word, 1 was only found; both are far, 60 and later are near.
    messages = [say(n) for n in range(100)]
    edges = [answer(99, 0, 1.0, "explicit"), answer(99, 1, 0.9), answer(99, 60, 0.9)]
    edges += [answer(n, n - 1, 0.9) for n in range(61, 90)]
    source = CountingSource(ListSource(messages, edges))
    limits = ExpansionLimits(min_recent=2, max_messages=8, near=40)
    found = await expand(source, messages[99], limits=limits)
    assert parts(found) == dict.fromkeys([0, 60, 61, 62, 63, 99], "conversation") | {97: "room", 98: "room"}
    assert {1, 64, 65} <= set(numbers(found.over_limit))
    wider = await expand(source, messages[99], limits=ExpansionLimits(min_recent=2, max_messages=40, near=40))
    assert {0, 1, *range(60, 90), 99} == {n for n, part in parts(wider).items() if part == "conversation"}


async def test_replies_outside_the_conversation_are_followed_and_stay_outside():
    messages = [say(0, 0), *(say(n, 9000 + n) for n in range(1, 4))]
    limits = ExpansionLimits(min_recent=2)
    found = await expand(ListSource(messages, [answer(2, 0)]), messages[3], limits=limits)
    assert parts(found) == {0: "room", 1: "room", 2: "room", 3: "conversation"}
    assert (by_number(found)[0].rule, by_number(found)[0].reached_from) == ("reply", mid(2))


async def test_most_certain_reply_is_reported():
    messages = [say(0), say(1, reply_to=0), say(2)]
    edges = [answer(1, 0, 0.4), answer(2, 1, 0.4, "mention"), answer(2, 1, 1.0, "thread")]
    for given_first in (edges, edges[::-1]):
        found = by_number(await expand(ListSource(messages, given_first), messages[2]))
        assert (found[0].reply.method, found[1].reply.method) == ("explicit", "thread")


async def test_message_with_very_many_answers_keeps_the_conversation_together():
    # More answers to 1 than edges are fetched: those near the trigger are told to be of its conversation.
    messages = [say(0), say(1), *(say(n) for n in range(2, 500))]
    edges = [answer(n, 1, 1.0, "thread") for n in range(2, 500, 2)]
    source = CountingSource(ListSource(messages, edges))
    found = await expand(source, messages[498])
    own = [n for n, part in parts(found).items() if part == "conversation"]
    assert set(range(488, 500, 2)) <= {*own, 498}
    assert 1 in own
    assert source.rows < 700


async def test_near_conversation_takes_three_calls():
    messages = [say(n) for n in range(500)]
    edges = [answer(n, n - 1 - n % 7) for n in range(10, 500)]
    source = CountingSource(ListSource(messages, edges))
    await expand(source, messages[499])
    assert source.asked == ["before", "replies", "messages"]
    assert source.rows < 330


@settings(max_examples=30)
@given(rooms())
async def test_the_conversation_is_all_that_replies_tie_to_the_trigger_and_nothing_else(room):
    messages, edges, trigger = room
    limits = ExpansionLimits(max_messages=500, max_replies=500, min_confidence=0.5)
    may = {m.id: m for m in messages if m.room_id == trigger.room_id and m.position <= trigger.position}
    ends = [(m.id, m.reply_to) for m in may.values()]
    ends += [(e.child_id, e.parent_id) for e in edges if e.confidence >= 0.5]
    tied, fresh = set(), {trigger.id}
    while fresh:
        tied |= fresh
        fresh = {b for one, other in ends for a, b in ((one, other), (other, one)) if a in tied and b in may}
        fresh -= tied
    found = await expand(ListSource(messages, edges), trigger, limits=limits)
    assert {s.message.id for s in found.selected if s.part == "conversation"} == tied


@settings(max_examples=30)
@given(rooms(), st.integers(0, 50), st.integers(0, 50))
async def test_how_much_is_fetched_at_once_changes_nothing_where_nothing_is_cut(room, one, other):
    messages, edges, trigger = room
    told = [
        await expand(
            ListSource(messages, edges),
            trigger,
            limits=ExpansionLimits(max_messages=500, max_replies=500, min_confidence=0.5, near=near),
        )
        for near in (one, other)
    ]
    one, other = ({(item.message.id, item.part) for item in found.selected} for found in told)
    assert one == other


async def test_source_that_returns_short_pages_is_asked_again():
    class Stingy(CountingSource):
        async def before(self, message, limit):
            return await super().before(message, min(limit, 2))

    messages = [say(n, n * 1000) for n in range(9)]
    found = await expand(
        Stingy(ListSource(messages)), messages[8], limits=ExpansionLimits(min_recent=5, max_messages=9)
    )
    assert sum(s.rule == "recent" for s in found.selected) == 5


async def test_a_trigger_the_source_does_not_hold_yet_is_walked_from():
    messages = [say(n) for n in range(3)]
    found = await expand(ListSource(messages), say(3, reply_to=0))
    assert numbers(found.selected) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "wrong",
    [
        {"min_recent": -1},
        {"min_recent": 5, "max_messages": 5},
        {"gap": timedelta(seconds=-1)},
        {"near": -1},
        {"min_confidence": 1.1},
        {"min_confidence": -0.1},
        {"min_confidence_across_silence": 1.1},
        {"page": 0},
        {"max_replies": 0},
    ],
)
def test_limits_that_make_no_sense_are_refused(wrong):
    with pytest.raises(BadInput):
        ExpansionLimits(**wrong)


@settings(max_examples=30)
@given(rooms(), limits)
async def test_any_walk_is_bounded_chronological_and_keeps_its_guarantees(room, limits):
    messages, edges, trigger = room
    source = CountingSource(ListSource(messages, edges))
    found = await expand(source, trigger, limits=limits)

    assert source.calls <= limits.max_calls
    assert source.rows <= limits.max_rows
    ids = [s.message.id for s in found.selected]
    places = [s.message.position for s in found.selected]
    assert len(ids) == len(set(ids)) <= limits.max_messages
    assert places == sorted(places)
    assert found.selected[-1].message == trigger
    assert all(s.message.room_id == trigger.room_id for s in found.selected)
    assert not {s.message.id for s in found.over_limit} & set(ids)
    earlier = sorted(
        {
            m.id: m for m in messages if m.room_id == trigger.room_id and m.position < trigger.position
        }.values(),
        key=lambda m: m.position,
    )
    recent = earlier[-limits.min_recent :] if limits.min_recent else []
    assert {m.id for m in recent} <= set(ids)
    if len(ids) < limits.max_messages:
        assert not found.over_limit


@settings(max_examples=30)
@given(rooms(), limits)
async def test_every_message_is_reached_over_an_edge_that_exists(room, limits):
    messages, edges, trigger = room
    found = await expand(ListSource(messages, edges), trigger, limits=limits)
    inside = {s.message.id for s in found.selected}
    reached = {s.message.id: s for s in [*found.selected, *found.over_limit]}
    line = sorted(
        {m.id: m for m in messages if m.room_id == trigger.room_id}.values(), key=lambda m: m.position
    )
    place = {m.id: index for index, m in enumerate(line)}
    tied = {(e.child_id, e.parent_id) for e in edges if e.confidence >= limits.min_confidence}
    tied |= {(m.id, m.reply_to) for m in messages}
    for item in [*found.selected, *found.over_limit]:
        if item.rule == "trigger":
            assert (item.message.id, item.reached_from, item.hops) == (trigger.id, None, 0)
            continue
        origin = reached[item.reached_from]
        one, other = item.message, origin.message
        assert item.hops == origin.hops + 1
        assert item.step > origin.step or item.rule == "recent"
        if item.rule == "reply":
            ends = (item.reply.child_id, item.reply.parent_id)
            assert set(ends) == {one.id, other.id}
            assert ends in tied
        else:
            assert item.reply is None
        assert item.part == "room" or item.rule == "reply"
        assert item.part == "room" or origin.part == "conversation"
        if item.rule == "temporal":
            assert abs(place[one.id] - place[other.id]) == 1
            assert abs(one.sent_at - other.sent_at) <= limits.gap
    for seal in found.boundaries:
        assert seal.beyond not in inside
        assert abs(place[seal.beyond] - place[seal.message_id]) == 1
        assert seal.gap > limits.gap


@settings(max_examples=30)
@given(rooms(), limits, st.integers(0, 2**32))
async def test_the_order_in_which_a_source_holds_and_hands_out_its_rows_changes_nothing(room, limits, seed):
    messages, edges, trigger = room
    expected = await expand(ListSource(messages, edges), trigger, limits=limits)
    shuffle = random.Random(seed)
    mixed = ListSource(shuffle.sample(messages, len(messages)), shuffle.sample(edges, len(edges)))
    source = CountingSource(mixed, seed=seed, shuffled=True)
    assert await expand(source, trigger, limits=limits) == expected


@settings(max_examples=30)
@given(rooms())
async def test_without_a_limit_the_walk_ends_where_nothing_more_can_be_reached(room):
    messages, edges, trigger = room
    found = await expand(
        ListSource(messages, edges),
        trigger,
        limits=ExpansionLimits(min_recent=3, max_messages=500, max_replies=500, min_confidence=0.5),
    )
    inside = {s.message.id for s in found.selected}
    may = {m.id: m for m in messages if m.room_id == trigger.room_id and m.position <= trigger.position}
    line = sorted(may.values(), key=lambda m: m.position)
    for one, other in pairwise(line):
        if other.sent_at - one.sent_at <= timedelta(minutes=30):
            assert (one.id in inside) == (other.id in inside)
    tied = {(m.id, m.reply_to) for m in messages} | {
        (e.child_id, e.parent_id) for e in edges if e.confidence >= 0.5
    }
    for one, other in tied:
        if one in may and other in may:
            assert (one in inside) == (other in inside)
