"""Threads are disjoint trees for any reply edges, and large ones are shown in part."""

import asyncio
import random
from collections.abc import Sequence
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roomlore.cli.output import hit_json, omission_note
from roomlore.db.search import ThreadMessage
from roomlore.domain.errors import BadInput, NotFound
from roomlore.domain.ids import MessageId
from roomlore.domain.records import Reply
from roomlore.search.threads import FIRST_ANSWERS, MAX_MEMBERS, answers_lookup, build_threads, visible_members
from search.telling import (
    ANA,
    BO,
    CY,
    all_ids,
    at,
    closed,
    find,
    found_ids,
    ids,
    message,
    tell,
    without_model,
)


def mid(number: int) -> MessageId:
    return MessageId(UUID(int=number + 1))


def member(number: int, parent: int | None = None, method: str = "explicit", *, minute: int | None = None):
    return ThreadMessage(
        member_id=mid(number),
        parent_id=None if parent is None else mid(parent),
        method=None if parent is None else method,
        confidence=None if parent is None else 1.0,
        sent_at=at(number if minute is None else minute),
        sequence=0,
    )


def numbers(keys) -> list[int]:
    return [key.int - 1 for key in keys]


@st.composite
def any_members(draw: st.DrawFn) -> list[ThreadMessage]:
    """Draw members with any parents: cycles, replies to later messages, missing parents."""
    count = draw(st.integers(0, 12))
    parents = st.none() | st.integers(0, count + 1)
    made = [(number, draw(parents), draw(st.integers(0, 5))) for number in range(count)]
    return [
        member(number, None if parent == number else parent, minute=minute) for number, parent, minute in made
    ]


@settings(max_examples=50)
@given(any_members(), st.randoms(use_true_random=False))
def test_every_message_is_in_one_thread_below_its_root(members, chance: random.Random):
    made = build_threads(members)
    assert sorted(key for one in made for key in one.member_ids) == sorted(one.member_id for one in members)
    for one in made:
        above = {edge.child_id: edge.parent_id for edge in one.replies}
        assert set(above) == set(one.member_ids) - {one.root_id}
        for key in one.member_ids:
            walked: list[MessageId] = []
            while key in above:
                walked.append(key)
                key = above[key]  # noqa: PLW2901  the walk starts where the loop stands
                assert key not in walked
            assert key == one.root_id
    chance.shuffle(members)
    again = build_threads(members)
    assert {one.root_id: one.member_ids for one in again} == {one.root_id: one.member_ids for one in made}


@pytest.mark.slow
@settings(max_examples=50)
@given(any_members(), st.integers(0, 5), st.integers(1, 4), st.data())
def test_visible_members_are_bounded_and_include_root_and_best_match(members, last, bound, data):
    for one in build_threads(members, last=(at(last), 0, mid(6))):
        found = data.draw(st.lists(st.sampled_from(one.member_ids), unique=True, min_size=1))
        kept = visible_members(one, found, bound=bound)
        assert len(kept) <= bound
        assert kept <= set(one.member_ids)
        assert one.root_id in kept
        assert len(one.member_ids) > bound or kept == set(one.member_ids)
        assert bound == 1 or found[0] in kept
        above = {edge.child_id: edge.parent_id for edge in one.replies}
        way = [found[0]]
        while way[-1] in above:
            way.append(above[way[-1]])
        # No answer without its question, but where the way up from the best find is longer than the bound.
        cut = len(way) > bound
        assert all(above[key] in kept for key in kept if key in above and not (cut and key in way))


def test_earliest_message_of_a_cycle_is_the_root():
    members = [member(0, 1), member(1, 2, minute=9), member(2, 3, minute=5), member(3, 1, minute=7)]
    [one] = build_threads(members)
    assert one.root_id == mid(2)
    assert {(edge.child_id, edge.parent_id) for edge in one.replies} == {
        (mid(0), mid(1)),
        (mid(1), mid(2)),
        (mid(3), mid(1)),
    }


def test_nothing_after_the_last_place_belongs_to_an_exchange():
    members = [member(0), member(1, 0), member(2, 1), member(3, 2)]
    [one] = build_threads(members, last=members[1].position)
    assert numbers(one.member_ids) == [0, 1]
    assert [edge.child_id for edge in one.replies] == [mid(1)]


def test_matches_of_a_large_thread_come_with_ancestors_and_first_answers():
    chain = [member(number, number - 1 if number else None) for number in range(30)]
    aside = [member(100 + number, 20) for number in range(FIRST_ANSWERS + 2)]
    [one] = build_threads([*chain, *aside, *(member(200 + number, 0) for number in range(40))])
    kept = visible_members(one, [mid(20), mid(25), mid(200)], bound=30)
    assert numbers(sorted(kept)) == [*range(27), 100, 101, 200]


def test_path_longer_than_the_bound_is_shown_near_the_match():
    [one] = build_threads(member(number, number - 1 if number else None) for number in range(90))
    kept = visible_members(one, [mid(80)], bound=12)
    assert numbers(sorted(kept)) == [0, *range(71, 82)]


def test_further_answers_fill_the_bound():
    [one] = build_threads([member(0), *(member(number, 0) for number in range(1, 60))])
    assert numbers(sorted(visible_members(one, [mid(0)], bound=10))) == list(range(10))


def test_members_far_from_every_match_are_not_shown():
    [one] = build_threads(member(number, number - 1 if number else None) for number in range(60))
    assert numbers(sorted(visible_members(one, [mid(2)], bound=50))) == [0, 1, 2, 3]


def test_later_messages_of_a_platform_thread_may_answer_unless_answers_are_stated():
    def edge(child: int, parent: int, method) -> Reply:
        return Reply(child_id=mid(child), parent_id=mid(parent), method=method, confidence=1.0)

    answers = answers_lookup(
        [edge(1, 0, "thread"), edge(2, 0, "thread"), edge(3, 2, "explicit"), edge(4, 0, "thread")]
    )
    assert numbers(answers(mid(0))) == [1, 2, 4]
    assert numbers(answers(mid(1))) == [2, 4]
    assert numbers(answers(mid(2))) == [3]
    assert answers(mid(3)) == answers(mid(4)) == []


# In the database


Edges = list[tuple[int | None, int | None]]


@st.composite
def reply_graphs(draw: st.DrawFn) -> Edges:
    """Draw for each message any reply target and any thread root."""
    count = draw(st.integers(1, 14))
    ends = st.none() | st.integers(0, count)
    return [(draw(ends), draw(ends)) for _ in range(count)]


def graph(edges: Edges):
    for number, (answered, root) in enumerate(edges):
        yield message(
            str(number),
            f"lantern number {number}",
            reply_to=None if answered is None else str(answered),
            thread_root=None if root is None else str(root),
        )


def components(edges: Edges) -> set[frozenset[str]]:
    """The connected components over the one edge of each message."""
    group = {number: {number} for number in range(len(edges))}
    for number, ends in enumerate(edges):
        there = [end for end in ends if end is not None and end != number and end < len(edges)]
        for end in there[:1]:
            joined = group[number] | group[end]
            group |= dict.fromkeys(joined, joined)
    return {frozenset(map(str, one)) for one in group.values()}


@pytest.mark.slow
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edges=reply_graphs())
async def test_any_reply_graph_comes_back_as_a_partition_of_its_messages(edges, open_app):
    app = await tell(await open_app("graph"), *graph(edges))
    async with asyncio.timeout(60):
        found = await app.search(app.operator, "lantern", limit=50)
    assert sorted(key for one in all_ids(found.hits) for key in one) == sorted(map(str, range(len(edges))))
    assert {frozenset(one) for one in all_ids(found.hits)} == components(edges)


@pytest.mark.slow
async def test_messages_with_two_parents_each_do_not_multiply_the_ways_up(app):
    """There are as many paths as the square of the thirtieth Fibonacci number."""
    two = [
        (number - 1, number - 2) if number > 1 else (number - 1 if number else None, None)
        for number in range(60)
    ]
    await tell(app, *graph(two))
    async with asyncio.timeout(60):
        [hit] = (await app.search(app.operator, "lantern")).hits
    assert len(hit.messages) + hit.omitted == 60


async def test_two_that_answer_each_other_are_one_exchange_which_the_earlier_opens(app):
    await tell(app, *graph([(1, None), (0, None), (1, None)]))
    [hit] = (await app.search(app.operator, "lantern")).hits
    assert ids(hit) == ["0", "1", "2"]
    assert hit.root.external_id == "0"


@pytest.mark.slow
async def test_a_message_under_two_parents_is_in_one_exchange_only(app):
    """A reply across threads: the stated reply counts, not the thread."""
    await tell(app, *graph([(None, None), (None, None), (0, 1), (None, 1)]))
    found = await app.search(app.operator, "lantern number")
    assert sorted(all_ids(found.hits)) == [["0", "2"], ["1", "3"]]


@pytest.mark.slow
async def test_path_follows_stated_replies_before_the_platform_thread(app, tmp_path):
    told = [message("0", "one"), message("1", "two"), message("2", "anchor", reply_to="0", thread_root="1")]
    await tell(app, *told, message("3", "three", thread_root="2"))
    found = await (await without_model(app, tmp_path)).search(app.operator, "anchor")
    assert all_ids(found.hits) == [["0", "2", "3"]]


@pytest.mark.slow
async def test_a_very_long_exchange_is_shown_around_its_finds_and_says_how_much_is_left_out(app):
    told = [
        message(
            str(number),
            "anchor" if number == 215 else f"line {number}",
            reply_to=str(number - 1) if number else None,
        )
        for number in range(230)
    ]
    await tell(app, *told)
    found = await app.search(app.operator, "anchor", limit=1)
    [hit] = found.hits
    assert len(hit.messages) == MAX_MEMBERS
    assert hit.omitted == 230 - MAX_MEMBERS
    assert {"0", "214", "215", "216"} <= set(ids(hit))
    assert "215" in found_ids(hit)
    assert hit.root.external_id == "0"
    assert hit_json(hit)["omitted"] == 230 - MAX_MEMBERS
    told = omission_note(hit)
    assert told.startswith(f"{230 - MAX_MEMBERS} more messages of this thread omitted: roomlore messages ")
    # What it says reads the whole of it.
    room, before = told.split()[-4], told.split()[-1]
    [whole] = await app.threads(app.operator, room, limit=1, before=before)
    assert (len(whole.messages), whole.omitted) == (230, 0)


@pytest.mark.slow
async def test_an_exchange_of_a_member_is_walked_within_time_in_a_database_never_analysed(app):
    where = closed("harbour", ANA, BO)
    told = [
        message(
            str(number),
            f"lantern {number}",
            room=where,
            author=BO,
            reply_to=str(number - 1) if number % 40 else None,
            thread_root=str(number // 40 * 40) if number % 40 else None,
        )
        for number in range(2000)
    ]
    await tell(app, *told)
    ana = await app.viewer("ana")
    async with asyncio.timeout(60):
        found = await app.search(ana, "lantern 77", limit=50)
    assert found.hits
    assert all(len(hit.messages) == 40 and hit.omitted == 0 for hit in found.hits)


@pytest.mark.slow
async def test_members_that_the_viewer_may_not_see_are_neither_shown_nor_counted(app):
    where = closed("cellar", BO)
    told: Sequence = [
        message("1", "where is the lantern?", room=where, author=BO),
        message(
            "2",
            "psst, under the stairs",
            room=where,
            author=BO,
            kind="whisper",
            audience=(ANA,),
            reply_to="1",
        ),
        message("3", "no idea", room=where, author=BO, reply_to="1"),
    ]
    await tell(app, *told, message("9", "hello", author=ANA))
    best, greeting = (await app.search(await app.viewer("ana"), "stairs")).hits
    assert (ids(best), best.omitted, best.replies) == (["2"], 0, [])
    assert (best.room_name, best.platform) == ("", "")
    assert (ids(greeting), greeting.room_name) == (["9"], "general")
    best, _ = (await app.search(await app.viewer("bo"), "stairs")).hits
    assert ids(best) == ["1", "2", "3"]


# Found replies

QUESTION, ANSWER = "who has the lantern?", "Ana, under the stairs"


async def found_for(app, question: str = "lantern"):
    return all_ids((await app.search(app.operator, question)).hits)


async def test_an_answer_that_was_found_comes_with_its_question_and_says_how_sure_that_is(app, admin):
    await tell(app, message("1", QUESTION), message("2", "nice weather"), message("3", ANSWER, author=BO))
    await find(admin, app, "3", "1", confidence=0.875)
    hit = (await app.search(app.operator, "lantern")).hits[0]
    assert ids(hit) == ["1", "3"]
    [edge] = hit.replies
    assert (edge.method, edge.confidence) == ("mention", 0.875)


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("opening", "edge"),
    [
        (QUESTION, {"confidence": 0.55}),
        (QUESTION, {"method": "inferred", "confidence": 1.0, "answers": 0.09}),
        ("here is the lantern", {"confidence": 1.0, "answers": None}),
    ],
)
async def test_inferred_reply_joins_no_thread_unless_it_probably_answers_a_question(
    app, admin, opening, edge
):
    await tell(app, message("1", opening), message("3", ANSWER, author=BO))
    await find(admin, app, "3", "1", **edge)
    assert sorted(await found_for(app, "lantern stairs")) == [["1"], ["3"]]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["mention", "inferred"])
async def test_inferred_answer_to_a_question_is_in_its_thread(app, admin, method):
    await tell(app, message("1", QUESTION), message("3", ANSWER, author=BO))
    await find(admin, app, "3", "1", method=method, confidence=0.6, answers=0.1)
    assert await found_for(app, "lantern stairs") == [["1", "3"]]


async def test_the_database_and_the_program_agree_which_replies_are_answers(admin):
    for confidence in (0.59, 0.6, 1.0):
        for answers in (None, 0.0, 0.0999, 0.1, 1.0):
            [(stored,)] = await (
                await admin.execute("select roomlore.is_answer(%s::real, %s::real)", (confidence, answers))
            ).fetchall()
            edge = Reply(
                child_id=mid(1),
                parent_id=mid(0),
                method="inferred",
                confidence=confidence,
                answer_probability=answers,
            )
            assert stored == edge.is_answer


@pytest.mark.slow
async def test_stated_reply_wins_over_an_inferred_one(app, admin):
    told = [
        message("1", QUESTION),
        message("2", "which lantern?", author=CY),
        message("3", ANSWER, reply_to="2"),
    ]
    await tell(app, *told)
    await find(admin, app, "3", "1")
    assert sorted(await found_for(app)) == [["1"], ["2", "3"]]


@pytest.mark.slow
async def test_an_afternoon_of_finds_does_not_become_one_exchange(app, admin):
    told = [message(str(number), f"Ana, lantern {number}", author=BO) for number in range(30)]
    await tell(app, *told)
    for number in range(1, 30):
        await find(admin, app, str(number), str(number - 1), confidence=1.0, answers=None)
    assert all(len(one) == 1 for one in await found_for(app))


async def test_an_edge_found_to_something_invisible_is_not_there(app, admin):
    where = closed("attic", BO)
    late = closed("attic", BO, CY, since=2)
    told = [message("1", QUESTION, room=where, author=BO), message("3", ANSWER, room=late, author=CY)]
    await tell(app, *told)
    await find(admin, app, "3", "1")
    [hit] = (await app.search(await app.viewer("cy"), "stairs")).hits
    assert (ids(hit), hit.replies, hit.omitted) == (["3"], [], 0)
    assert all_ids(await app.threads(await app.viewer("cy"), "attic")) == [["3"]]
    assert all_ids(await app.threads(app.operator, "attic")) == [["1", "3"]]


async def test_views_of_threads_and_vectors_show_only_visible_messages(app, admin):
    where = closed("attic", BO)
    late = closed("attic", BO, CY, since=2)
    told = [message("1", QUESTION, room=where, author=BO), message("3", ANSWER, room=late, author=CY)]
    await tell(app, *told)
    await find(admin, app, "3", "1")
    counts = "select (select count(*) from thread_edges), (select count(*) from embeddable_messages)"
    for viewer, seen in (
        (app.operator, (1, 2)),
        (await app.viewer("bo"), (1, 2)),
        (await app.viewer("cy"), (0, 1)),
    ):
        async with app.db.read_transaction(viewer) as conn:
            assert await (await conn.execute(counts)).fetchone() == seen


# History by threads


@pytest.mark.slow
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edges=reply_graphs(), limit=st.integers(1, 5))
async def test_pages_of_exchanges_hold_every_message_once_whole_exchanges_newest_opening_first(
    edges, limit, open_app
):
    app = await tell(await open_app("graph"), *graph(edges))
    pages = []
    before = None
    while page := await app.threads(app.operator, "general", limit=limit, before=before):
        assert len(page) <= limit
        pages += page
        before = str(page[-1].root.id)
    assert {frozenset(one) for one in all_ids(pages)} == components(edges)
    assert len(pages) == len(components(edges))
    openings = [one.root.position for one in pages]
    assert openings == sorted(openings, reverse=True)
    assert pages == await app.threads(app.operator, "general", limit=50)


async def test_a_limit_of_history_counts_exchanges_and_none_is_returned_in_part(app):
    told = [message("1", "where is it?"), message("2", "what else?"), message("5", "sunny today")]
    await tell(app, *told, *(message(str(number), "there", reply_to="2") for number in range(10, 40)))
    newest = await app.threads(app.operator, "general", limit=2)
    assert all_ids(newest) == [["5"], ["2", *map(str, range(10, 40))]]
    assert all_ids(await app.threads(app.operator, "general", limit=2, before="2")) == [["1"]]


async def test_an_exchange_of_any_length_is_listed_whole(app):
    await tell(
        app, message("0", "all in here"), *(message(str(n), "so", thread_root="0") for n in range(1, 61))
    )
    [one] = await app.threads(app.operator, "general", limit=3)
    assert ids(one) == [str(n) for n in range(61)]
    assert (one.root.external_id, one.omitted, one.shortened_to) == ("0", 0, None)


@pytest.mark.slow
async def test_history_lists_every_message_of_a_long_thread_shortened(app):
    many = [message(str(n), "so " * 400 if n % 2 else "so", thread_root="0") for n in range(1, 260)]
    await tell(app, message("0", "all in here"), *many)
    [one] = await app.threads(app.operator, "general", limit=3)
    assert ids(one) == [str(n) for n in range(260)]
    assert one.shortened_to is not None
    cut = [said.body.endswith("[… cut]") for said in one.messages]
    assert cut == [n % 2 == 1 for n in range(260)]


async def test_history_is_only_for_viewers_of_the_room(app):
    await tell(app, message("1", room=closed("attic", BO), author=BO), message("2", author=ANA))
    with pytest.raises(NotFound):
        await app.threads(await app.viewer("ana"), "attic")
    with pytest.raises(NotFound):
        await app.threads(await app.viewer("ana"), "general", before="1")
    with pytest.raises(BadInput):
        await app.threads(app.operator, "attic", limit=0)
