import re
from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context.rooms import OPERATOR, ROOM, START, CountingSource, answer, mid, numbers, rooms, say, viewer
from roomlore.context.builder import build
from roomlore.context.expansion import expand
from roomlore.context.limits import ExpansionLimits
from roomlore.context.render import PARTIAL, to_anthropic, to_openai, to_text
from roomlore.context.sources import ListSource
from roomlore.context.tokens import MESSAGE_OVERHEAD, estimate_tokens
from roomlore.domain.errors import BadInput


def one_each(_text):
    """Count tokens so that each line costs ten."""
    return 10 - MESSAGE_OVERHEAD


async def test_lines_are_labelled_in_the_order_of_the_room_and_cite_their_messages():
    messages = [say(0, by=2), say(1, reply_to=0), say(2, reply_to=50)]
    context = await build(ListSource(messages), messages[2], viewer=viewer(1))
    assert (context.room_id, context.trigger_id, context.viewer) == (ROOM, mid(2), viewer(1))
    assert [line.label for line in context.lines] == ["m1", "m2", "m3"]
    assert [line.reply_to for line in context.lines] == [None, "m1", None]
    assert context.omitted == ()
    citation = context.citations["m1"]
    assert (citation.message_id, citation.external_id) == (mid(0), "x0")
    assert (citation.author_id, citation.author_name, citation.sent_at) == (
        viewer(2).participant_id,
        "P2",
        START,
    )
    assert context.tokens == sum(line.tokens for line in context.lines)
    with pytest.raises(FrozenInstanceError):
        context.tokens = 0


async def test_least_important_messages_are_dropped_first():
    # 0-1 old talk; 1 is what the trigger answers, 0 its neighbour; 5-8 recent; 9 the trigger.
    messages = [say(0, 0), say(1, 1), *(say(n, 5000 + n) for n in range(5, 9)), say(9, 5009, reply_to=1)]
    limits = ExpansionLimits(min_recent=3, max_messages=10)
    kept = {}
    for lines in range(2, 8):
        context = await build(
            ListSource(messages),
            messages[-1],
            viewer=OPERATOR,
            limits=limits,
            budget=lines * 10,
            counter=one_each,
        )
        assert context.tokens == lines * 10
        kept[lines] = numbers(context.lines)
        assert sorted(numbers(context.omitted) + kept[lines]) == numbers(messages)
        assert {item.reason for item in context.omitted} <= {"budget"}
    assert kept == {
        2: [1, 9],
        3: [1, 8, 9],
        4: [1, 7, 8, 9],
        5: [1, 6, 7, 8, 9],
        6: [1, 5, 6, 7, 8, 9],
        7: [0, 1, 5, 6, 7, 8, 9],
    }


@pytest.mark.parametrize(
    ("method", "confidence", "up", "down"),
    [
        ("explicit", 1.0, "answered by #m2", "answers #m1"),
        ("thread", 1.0, "the root of the thread of #m2", "in the thread of #m1"),
        (
            "mention",
            0.83,
            "answered by #m2, found by name (83% sure)",
            "answers #m1, found by name (83% sure)",
        ),
        ("inferred", 0.614, "answered by #m2, found (61% sure)", "answers #m1, found (61% sure)"),
    ],
)
async def test_reply_is_explained_by_method_and_confidence(method, confidence, up, down):
    messages = [say(0), say(1), say(2)]
    edges = [answer(1, 0, confidence, method)]
    context = await build(ListSource(messages, edges), messages[1], viewer=OPERATOR)
    assert [told.reason for told in context.explain()] == [up, "the trigger"]
    sideways = [answer(2, 0, 1.0, "explicit"), *edges]
    context = await build(ListSource(messages, sideways), messages[2], viewer=OPERATOR)
    assert context.explain()[1].reason == down


async def test_the_trigger_stays_even_where_it_alone_exceeds_the_budget():
    messages = [say(0), say(1, body="x" * 150)]
    context = await build(ListSource(messages), messages[1], viewer=OPERATOR, budget=5)
    assert numbers(context.lines) == [1]
    assert context.lines[0].text == "x" * 150
    assert context.tokens > context.budget


async def test_a_long_body_is_cut_and_says_how_much():
    body = "".join(f"{n:04d} " for n in range(2000))
    messages = [say(0, body=body), say(1)]
    context = await build(ListSource(messages), messages[1], viewer=OPERATOR, budget=1000)
    long = context.lines[0]
    shown, cut = re.fullmatch(r"(.*) \[… (\d+) characters cut\]", long.text).groups()
    assert body.startswith(shown)
    assert len(shown) + int(cut) == len(body.strip())
    assert long.characters_cut == int(cut)
    assert 240 <= long.tokens <= 250


async def test_the_trigger_may_take_half_the_budget_and_others_a_quarter():
    messages = [say(0, body="y" * 9000), say(1, body="z" * 9000)]
    context = await build(ListSource(messages), messages[1], viewer=OPERATOR, budget=1000)
    other, trigger = context.lines
    assert 240 <= other.tokens <= 250
    assert 490 <= trigger.tokens <= 500


async def test_a_body_within_its_share_is_whole():
    messages = [say(0, body="y" * 900), say(1)]
    context = await build(ListSource(messages), messages[1], viewer=OPERATOR, budget=1000)
    assert context.lines[0].text == "y" * 900
    assert context.lines[0].characters_cut == 0


async def test_a_giant_body_is_never_counted_whole():
    longest = 0

    def counter(text):
        nonlocal longest
        longest = max(longest, len(text))
        return estimate_tokens(text)

    messages = [say(0, body=" " * 3_000_000 + "end"), say(1, body="x" * 3_000_000)]
    context = await build(ListSource(messages), messages[1], viewer=OPERATOR, budget=1000, counter=counter)
    assert longest < 10_000
    assert (context.lines[0].text, context.lines[0].characters_cut) == ("end", 0)
    assert context.lines[1].characters_cut > 2_990_000


async def test_every_candidate_is_explained_in_or_out():
    messages = [say(n, n * 1000) for n in range(4)] + [say(9, 3001, reply_to=1)]
    edges = [answer(9, 0, 0.9)]
    context = await build(
        ListSource(messages, edges),
        messages[-1],
        viewer=OPERATOR,
        limits=ExpansionLimits(min_recent=1, max_messages=3),
        budget=20,
        counter=one_each,
    )
    told = dict(zip([0, 1, 3, 9], context.explain(), strict=True))
    assert [e.message_id for e in context.explain()] == [mid(0), mid(1), mid(3), mid(9)]
    assert [told[n].included for n in (0, 1, 3, 9)] == [False, True, False, True]
    assert told[9].reason == "the trigger"
    assert told[1].reason == "answered by #m2"
    assert (
        told[3].reason
        == "among the most recent before the trigger; the budget went to more important messages"
    )
    assert told[0].reason == "answered by #m2, found (90% sure); the limit of messages was reached"
    assert [told[n].part for n in (0, 1, 3, 9)] == ["conversation", "conversation", "room", "conversation"]
    assert [told[n].method for n in (0, 1, 3, 9)] == ["inferred", "explicit", None, None]
    assert [told[n].confidence for n in (0, 1, 3, 9)] == [0.9, 1.0, None, None]
    assert {item.reason for item in context.omitted} == {"limit", "budget"}
    assert all(e.tokens == 10 for e in told.values())
    assert told[0].label is None
    assert told[1].label == "m1"


async def test_seals_are_passed_on():
    messages = [say(0, 0), say(1, 100)]
    limits = ExpansionLimits(min_recent=0)
    context = await build(ListSource(messages), messages[1], viewer=OPERATOR, limits=limits)
    assert [(s.message_id, s.beyond) for s in context.boundaries] == [(mid(1), mid(0))]


async def test_a_neighbour_that_is_out_is_named_by_its_id():
    messages = [say(0, 0), say(1, 1), say(2, 2)]
    limits = ExpansionLimits(min_recent=0)
    context = await build(
        ListSource(messages), messages[2], viewer=OPERATOR, limits=limits, budget=10, counter=one_each
    )
    assert context.explain()[0].reason.startswith(f"next to message {mid(1)} in time; ")


async def test_no_budget_is_refused_before_anything_is_fetched():
    source = CountingSource(ListSource([say(0)]))
    with pytest.raises(BadInput):
        await build(source, say(0), viewer=OPERATOR, budget=0)
    assert source.calls == 0


LONG = st.builds(lambda text, times: text * times, st.text(max_size=40), st.sampled_from([1, 1, 3, 60]))


@pytest.mark.slow
@settings(max_examples=30)
@given(rooms(bodies=LONG), st.integers(1, 900))
async def test_the_budget_holds_and_nothing_is_shown_in_part_without_saying_so(room, budget):
    messages, edges, trigger = room
    source = ListSource(messages, edges)
    context = await build(source, trigger, viewer=OPERATOR, budget=budget)
    found = await expand(source, trigger)

    assert context.tokens <= budget or len(context.lines) == 1
    assert context.lines[-1].message.id == trigger.id
    walked = {s.message.id for s in [*found.selected, *found.over_limit]}
    walked |= {line.message.id for line in (*context.lines, *context.omitted) if line.rule == "reply"}
    inside = {line.message.id for line in context.lines}
    outside = {item.message.id for item in context.omitted}
    assert inside | outside == walked
    assert not inside & outside
    assert len(context.explain()) == len(walked)
    assert {c.message_id for c in context.citations.values()} == inside
    places = [line.message.position for line in context.lines]
    assert places == sorted(places)
    for line in context.lines:
        assert line.text.endswith(f"[… {line.characters_cut} characters cut]") == (line.characters_cut > 0)
        assert f"#{line.label} " in to_text(context)
        if line.message.redacted_at:
            assert line.text == "[message removed]"
    total = sum(estimate_tokens(line) for line in to_text(context).split("\n#"))
    assert total <= context.tokens


@pytest.mark.slow
@settings(max_examples=30)
@given(rooms(bodies=LONG), st.integers(60, 900))
async def test_omitted_messages_rank_no_higher_than_included_ones(room, budget):
    messages, edges, trigger = room
    # Nothing is stated to answer anything: each message is a thread of its own.
    messages = [replace(message, reply_to=None) for message in messages]
    trigger = replace(trigger, reply_to=None)
    context = await build(ListSource(messages, edges), trigger, viewer=OPERATOR, budget=budget)
    walked = [*context.lines, *context.omitted]
    chain, ahead = set(), {trigger.id}
    while ahead:
        chain |= ahead
        ahead = {
            item.message.id
            for item in walked
            if item.part == "conversation"
            and item.reply
            and item.reached_from in ahead
            and item.reply.child_id == item.reached_from
        }

    def rank(item):
        if item.message.id in chain:
            return 0
        if item.part == "conversation":
            return 1
        return 2 if item.rule == "recent" else 3

    out = [rank(item) for item in context.omitted if item.reason == "budget"]
    if out:
        assert max(rank(line) for line in context.lines) <= min(out)
        recent_out = [i.message.position for i in context.omitted if i.reason == "budget" and rank(i) == 2]
        recent_in = [line.message.position for line in context.lines if rank(line) == 2]
        assert not recent_out or not recent_in or max(recent_out) < min(recent_in)


def exchanges_of(messages, edges, trigger):
    """Return for each message up to the trigger the ids of its thread."""
    there = {
        one.id: one for one in messages if one.room_id == trigger.room_id and one.position <= trigger.position
    }
    order = ("explicit", "thread", "mention", "inferred")
    stated = {(one.id, one.reply_to): "explicit" for one in there.values() if one.reply_to in there}
    for edge in edges:
        asks = edge.method == "thread" or edge.is_answer
        if edge.method in order and {edge.child_id, edge.parent_id} <= there.keys() and asks:
            stated.setdefault((edge.child_id, edge.parent_id), edge.method)
    parents = {}
    for (child, parent), _method in sorted(stated.items(), key=lambda one: (order.index(one[1]), one[0][1])):
        if child != parent:
            parents.setdefault(child, parent)
    together = {key: {key} for key in there}
    for child, parent in parents.items():
        both = together[child] | together[parent]
        together |= dict.fromkeys(both, both)
    return together


EDGES = st.lists(
    st.builds(
        answer,
        *[st.integers(0, 48)] * 2,
        st.sampled_from([0.5, 0.9, 1.0]),
        st.sampled_from(["thread", "mention", "inferred"]),
        answers=st.sampled_from([None, 0.01, 0.5]),
    ),
    max_size=20,
    unique_by=lambda edge: (edge.child_id, edge.parent_id),
)


@pytest.mark.slow
@settings(max_examples=30)
@given(rooms(bodies=LONG), EDGES, st.integers(1, 900), st.integers(11, 40))
async def test_an_exchange_is_in_with_all_of_its_messages_or_not_at_all(room, edges, budget, limit):
    messages, _, trigger = room
    limits = ExpansionLimits(max_messages=limit)
    context = await build(ListSource(messages, edges), trigger, viewer=OPERATOR, budget=budget, limits=limits)
    inside = {line.message.id for line in context.lines}
    assert len(inside) <= limit
    for key, thread in exchanges_of(messages, edges, trigger).items():
        if key in inside and not thread <= inside:
            assert trigger.id in thread
            assert context.is_partial
            assert PARTIAL in to_text(context).splitlines()[0]


async def test_an_answer_brings_its_question_and_the_other_answers():
    """The question and another answer are older than what the expansion reaches by time."""
    question, other = say(0, 0, body="When do we sail?"), say(1, 1, reply_to=0, body="At nine.")
    old = [say(n, n) for n in range(2, 150)]
    late = say(150, 5000, reply_to=0, body="At ten, now.")
    trigger = say(151, 5001)
    context = await build(ListSource([question, other, *old, late, trigger]), trigger, viewer=OPERATOR)
    inside = numbers(context.lines)
    assert {0, 1, 150, 151} <= set(inside)
    assert not context.is_partial


async def test_a_long_exchange_is_shortened_with_all_of_it_there():
    thread = [
        say(0, 0, body="When do we sail?"),
        *(say(n, n, reply_to=0, body="At nine. " * 60) for n in range(1, 20)),
    ]
    trigger = say(20, 20, reply_to=0)
    context = await build(ListSource([*thread, trigger]), trigger, viewer=OPERATOR, budget=1200)
    assert numbers(context.lines) == list(range(21))
    assert context.tokens <= 1200
    assert all(line.characters_cut for line in context.lines[1:-1])


async def test_oversized_thread_shows_the_trigger_and_what_it_answers():
    messages = [say(0, 0), *(say(n, n, reply_to=n - 1) for n in range(1, 200))]
    context = await build(ListSource(messages), messages[-1], viewer=OPERATOR)
    assert numbers(context.lines)[-3:] == [197, 198, 199]
    assert context.is_partial
    for written in (to_openai(context), to_anthropic(context)):
        assert written[0]["content"].startswith(PARTIAL)
