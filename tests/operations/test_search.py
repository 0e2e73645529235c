"""Searching and asking within filters, and by what a question says of who said something and when."""

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import TellOnce
from ingest.stories import message, room
from operations.village import error_of, log_lines
from roomlore.db.memories import lexical_matches
from roomlore.db.messages import mark_questions
from roomlore.db.queries import Connection
from roomlore.domain.errors import BadInput, NotFound
from roomlore.operations import App
from roomlore.operations.search import LONGEST_QUESTION, MOST_FOUND
from roomlore.search.query_parser import NO_FILTERS, Filters
from search.telling import BO, CY, PIP, all_ids, author, closed, found_ids, tell, without_model, words

#: In every body, so that a search for it asks for everything.
WORD = "village"
SQUARE, MILL = room("square"), room("mill")
#: One person, who is called Ana with both accounts.
ANA, ANA_HOME = author("a_work", name="Ana"), author("a_home", name="Ana")
#: Known to Ana and Bo only.
DEE = author("dee")
ATTIC = closed("attic", ANA, BO, DEE)


def day(number: int, hour: int = 12) -> datetime:
    """A day of March 2024, whose first is a Friday."""
    return datetime(2024, 3, number, hour, tzinfo=UTC)


def say(key: str, who, where, when: datetime, body: str = "", **fields):  # noqa: PLR0917  a line each
    return message(key, f"{WORD} {body or key}", author=who, room=where, sent_at=when, **fields)


STORY = [
    say("a1", ANA, SQUARE, day(4), "where is the lantern?"),
    say("b1", BO, SQUARE, day(5), "the lantern is in the mill", reply_to="a1"),
    say("p1", PIP, SQUARE, day(6), "the build is red"),
    say("a2", ANA, MILL, day(7), "the ferry leaves at noon"),
    say("d1", DEE, ATTIC, day(8), "the rope is ours"),
    say("a3", ANA, ATTIC, day(9), "who has the rope?"),
    say("b2", BO, ATTIC, day(10), "Dee has the rope", reply_to="a3"),
    say("h1", ANA_HOME, MILL, day(11), "apples for the ferry"),
    say("c1", CY, MILL, day(12), "where is the lantern now?"),
    say("p2", PIP, MILL, day(13, 9), "the build is green"),
    say("c2", CY, SQUARE, day(13, 10), "the ferry is late"),
]
SAID = {one.external_id: one for one in STORY}
ASKING = {"a1", "a3", "c1"}
ANSWERED = {"a1", "a3"}
LAST = "c2"
#: Whom each viewer may read: everybody everything but Cy, who was never in the attic.
ATTIC_IDS = {key for key, one in SAID.items() if one.room is ATTIC}
CLOSED = {"cy": ATTIC_IDS, "pip": ATTIC_IDS}


async def the_story(app: App) -> None:
    """The story with its questions marked, and no other work done: words find it, which is enough to tell filters apart."""
    accepted = await app.ingest_batch(STORY)
    assert accepted.skipped == []

    async def mark(conn: Connection) -> None:
        ids = [key for (_, external_id), key in accepted.added.items() if external_id in ASKING]
        await mark_questions(conn, app.org_id, ids, asking=ids)

    await app.db.change(app.org_id, mark)


@pytest.fixture
async def told(app: App, tell_once: TellOnce) -> App:
    await tell_once(app, the_story)
    return app


@pytest.fixture
async def worked(told: App) -> App:
    """The story embedded and disentangled."""
    await told.drain()
    return told


async def found(app: App, question: str = WORD, *, viewer: str | None = None, **options) -> set[str]:
    """The external ids of what was found, without what came with it."""
    reader = app.operator if viewer is None else await app.viewer(viewer)
    hits = (await app.search(reader, question, limit=50, **options)).hits
    return {key for hit in hits for key in found_ids(hit)}


# Filters


async def test_each_filter_narrows_by_itself(told: App):
    async def by(**filters) -> set[str]:
        return await found(told, filters=Filters(**filters))

    assert await by() == set(SAID)
    assert await by(by=["bo"]) == {"b1", "b2"}
    assert await by(by=["Bo", "cy"]) == {"b1", "b2", "c1", "c2"}
    assert await by(by=[str((await told.viewer("bo")).participant_id)[:23]]) == {"b1", "b2"}
    assert await by(kinds=["agent"]) == {"p1", "p2"}
    assert await by(kinds=["system"]) == set()
    assert await by(since="2024-03-12") == {"c1", "p2", "c2"}
    assert await by(until="2024-03-05") == {"a1", "b1"}
    assert await by(since=day(5), until=day(7)) == {"b1", "p1"}
    assert await by(since="2024-03-12", until="9999-12-31") == {"c1", "p2", "c2"}
    assert await by(since="9999-12-31") == set()
    assert await found(told, room="attic") == {"d1", "a3", "b2"}


async def test_answered_means_by_something_that_the_viewer_may_see(told: App):
    assert await found(told, filters=Filters(answered=True)) == ANSWERED
    assert await found(told, filters=Filters(answered=False)) == ASKING - ANSWERED
    assert await found(told, viewer="cy", filters=Filters(answered=True)) == {"a1"}


async def test_a_conversation_is_named_by_its_id_or_by_a_message_in_it(worked: App):
    conversation, placed = await worked.conversations.read(worked.operator, "message:b1")
    inside = {one.message.external_id for one in placed}
    assert {"a1", "b1"} <= inside < set(SAID)

    for word in (str(conversation.id), "message:b1"):
        assert await found(worked, filters=Filters(conversation=word)) == inside
    assert await found(worked, filters=Filters(conversation="message:b1", by=["bo"])) == {"b1"}


async def test_me_is_whoever_asks_by_any_of_their_accounts(told: App):
    mine = Filters(by=["me"])
    assert await found(told, viewer="a_home", filters=mine) == {"h1"}
    await told.people.merge("a_work", "a_home")

    everything = {"a1", "a2", "a3", "h1"}
    assert await found(told, viewer="a_home", filters=mine) == everything
    assert await found(told, filters=Filters(by=["a_work"])) == everything
    assert await found(told, filters=Filters(by=["Ana"])) == everything
    with pytest.raises(BadInput, match="the operator is no participant"):
        await told.search(told.operator, WORD, filters=mine)


async def test_of_two_people_of_one_name_a_filter_wants_to_know_which(told: App):
    with pytest.raises(BadInput, match="several are meant"):
        await told.search(told.operator, WORD, filters=Filters(by=["Ana"]))


async def test_words_for_times_count_from_the_moment_of_the_question(told: App):
    at_the_end = {"room": "square", "as_of": LAST}
    assert await found(told, filters=Filters(since="3 days ago"), **at_the_end) == {"c2"}
    assert await found(told, filters=Filters(since="last week", until="last week"), **at_the_end) == {
        *("a1", "b1", "p1"),
    }
    assert await found(told, filters=Filters(until="yesterday"), room="square", as_of="b1") == {"a1"}


@pytest.mark.parametrize(
    ("filters", "error"),
    [
        (Filters(since="soon"), "since: 'soon' is no time"),
        (Filters(since="2024-03-05", until="2024-03-04"), "until: must be after since"),
        (Filters(kinds=["robot"]), "kind: 'robot' is none of"),
    ],
)
async def test_a_filter_that_is_none_is_refused_in_searches_and_questions(filters, error, told: App):
    for call in (told.search, told.ask):
        with pytest.raises(BadInput, match=error):
            await call(told.operator, WORD, filters=filters)


WHO = {
    "a_work": {"a1", "a2", "a3"},
    "bo": {"b1", "b2"},
    "cy": {"c1", "c2"},
    "pip": {"p1", "p2"},
    "dee": {"d1"},
}
TIMES = st.none() | st.integers(1, 15).map(day)
FILTERS = st.builds(
    Filters,
    by=st.lists(st.sampled_from(["a_work", "bo"]), max_size=2),
    kinds=st.lists(st.sampled_from(["human", "agent", "system"]), max_size=2),
    since=TIMES,
    until=TIMES,
    answered=st.none() | st.booleans(),
)


def fits(key: str, filters: Filters, hidden: set[str]) -> bool:
    """Whether a message satisfies every filter."""
    one = SAID[key]
    answers = {other.reply_to for other in STORY if other.external_id not in hidden}
    return (
        (not filters.by or one.author.account_id in filters.by)
        and (not filters.kinds or one.author.kind in filters.kinds)
        and (filters.since is None or one.sent_at >= filters.since)
        and (filters.until is None or one.sent_at < filters.until)
        and (filters.answered is None or (key in answers) == filters.answered)
        and (filters.answered is not False or key in ASKING)
    )


@given(
    cases=st.lists(
        st.tuples(
            FILTERS, st.sampled_from(["a_work", "cy", "pip"]), st.sampled_from([None, "square", "mill"])
        ),
        min_size=25,
        max_size=25,
    )
)
@settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.slow
async def test_whatever_filters_are_put_together_what_is_found_satisfies_each_and_nothing_else_does(
    cases, open_app
):
    app = await open_app("many")
    await the_story(app)
    for filters, viewer, where in cases:
        hidden = CLOSED.get(viewer, set())
        if filters.since is not None and filters.until is not None and filters.since >= filters.until:
            with pytest.raises(BadInput, match="must be after since"):
                await found(app, viewer=viewer, filters=filters)
            continue
        wanted = {
            key
            for key in SAID
            if key not in hidden
            and fits(key, filters, hidden)
            and (where is None or SAID[key].room.external_id == where)
        }
        assert await found(app, viewer=viewer, room=where, filters=filters) == wanted


# What nobody is told


async def test_whoever_is_unknown_and_whoever_may_not_be_known_are_refused_in_the_same_words(worked: App):
    cy = await worked.viewer("cy")
    dee = str((await worked.viewer("dee")).participant_id)
    talk = str((await worked.conversations.read(worked.operator, "message:d1"))[0].id)
    for call in (worked.search, worked.ask):
        for hidden, unknown, filters in (
            ("Dee", "Eve", lambda word: Filters(by=[word])),
            ("dee", "eve", lambda word: Filters(by=["bo", word])),
            (dee, "f" + dee[1:], lambda word: Filters(by=[word])),
            (talk, "f" + talk[1:], lambda word: Filters(conversation=word)),
            ("message:d1", "message:d9", lambda word: Filters(conversation=word)),
        ):
            kind, text = await error_of(call(cy, WORD, filters=filters(hidden)))
            assert kind is NotFound
            other_kind, other_text = await error_of(call(cy, WORD, filters=filters(unknown)))
            shown = [hidden.removeprefix("message:"), unknown.removeprefix("message:")]
            assert (kind, text.replace(shown[0], shown[1])) == (other_kind, other_text)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("form", ["what did {} say about the rope?", "messages from {}", "what did {} say?"])
async def test_a_question_about_what_an_unknown_or_an_invisible_participant_said_reads_alike(
    form: str, told: App
):
    cy, answers = await told.viewer("cy"), []
    for name in ("Dee", "Eve"):
        searched = await told.search(cy, form.format(name))
        asked = await told.ask(cy, form.format(name))
        assert searched.applied_filters == asked.applied_filters
        assert searched.applied_filters is not None
        assert searched.applied_filters.unknown == [name]
        reads = [
            repr(searched.applied_filters).replace(name, "X"),
            searched.applied_filters.unknown_names_note().replace(name, "X"),
        ]
        answers.append((all_ids(searched.hits), asked.text.replace(name, "X"), reads))
    assert answers[0] == answers[1]
    # Of whom Bo may know, he reads.
    read = (await told.search(await told.viewer("bo"), form.format("Dee"))).applied_filters
    assert read is not None
    assert read.by == ["Dee"]


# What a question says


async def test_a_question_for_what_somebody_said_is_looked_for_in_what_they_said(told: App):
    searched = await told.search(told.operator, "what did Bo say about the lantern?")
    assert [found_ids(hit) for hit in searched.hits] == [["b1"]]
    assert searched.applied_filters is not None
    assert (searched.applied_filters.by, searched.applied_filters.words) == (["Bo"], "the lantern")
    assert searched.applied_filters.summary() == "by Bo"

    assert await found(told, "what did bots say about the village?") == {"p1", "p2"}
    assert await found(told, "what did I say about the village?", viewer="cy") == {"c1", "c2"}
    assert await found(told, "what does Bo like about the village?") == set(SAID)


async def test_others_words_are_not_given_for_those_of_somebody_unknown(told: App):
    question, remark = (
        "what did Zork say about the lantern in the mill?",
        "Nobody called \u201cZork\u201d is known here",
    )
    answer = await told.ask(told.operator, question)
    assert answer.is_answered
    first, *quoted = answer.text.splitlines()
    assert first.startswith(remark)
    assert [line.partition(" [")[2] for line in quoted] == ["Bo]: village the lantern is in the mill"]
    assert answer.applied_filters is not None
    assert (answer.applied_filters.unknown, answer.applied_filters.by, answer.applied_filters.words) == (
        ["Zork"],
        [],
        question,
    )
    nothing = await told.ask(told.operator, "what did Zork say about opera singers?")
    assert not nothing.is_answered
    assert nothing.text.startswith("I don't have this information.")
    assert remark in nothing.text

    literal = Filters(literal=True)
    assert remark not in (await told.ask(told.operator, question, filters=literal)).text
    assert remark not in (await told.ask(told.operator, question, filters=Filters(by=["bo"]))).text


async def test_of_several_of_whom_one_is_unknown_that_one_is_told_and_everybody_looked_through(told: App):
    for viewer, question in (
        (None, "what did Bo and Zork say about the village?"),
        ("cy", "what did I or Zork say?"),
    ):
        reader = told.operator if viewer is None else await told.viewer(viewer)
        searched = await told.search(reader, question)
        assert searched.applied_filters is not None
        assert (
            searched.applied_filters.unknown,
            searched.applied_filters.by,
            searched.applied_filters.words,
        ) == (["Zork"], [], question)


async def test_whoever_is_somebody_unsaid_is_not_unknown(told: App):
    for who in ("anyone in the mill", "the others", "people here"):
        assert (
            await told.search(told.operator, f"what did {who} say about the ferry?")
        ).applied_filters is None


async def test_a_time_narrows_where_whoever_is_named_is_unknown(told: App):
    searched = await told.search(told.operator, "what did Zork say last week about the village?", as_of=LAST)
    assert searched.applied_filters is not None
    assert searched.applied_filters.summary() == "since 2024-03-04, before 2024-03-11"
    assert searched.applied_filters.unknown == ["Zork"]


async def test_nobody_is_the_operator_who_asks_for_what_they_said(told: App):
    assert (await told.search(told.operator, "what did I say about the lantern?")).applied_filters is None


async def test_of_all_who_are_called_so_everything_is_looked_through(told: App):
    assert await found(told, "what did Ana say about the village?") == {"a1", "a2", "a3", "h1"}
    assert await found(told, "what did Ana say about the village?", viewer="cy") == {"a1", "a2", "h1"}


async def test_a_first_name_is_enough(app: App):
    silva, wu = author("s", name="Rui Silva"), author("w", name="Li Wu")
    await tell(app, say("1", silva, SQUARE, day(1)), say("2", wu, SQUARE, day(2)))
    assert await found(app, "what did rui say about the village?") == {"1"}
    assert await found(app, "what did Rui Silva say about the village?") == {"1"}
    assert await found(app, "what did Silva say about the village?") == {"1", "2"}


async def test_a_question_for_a_time_is_looked_for_in_that_time(told: App):
    searched = await told.search(
        told.operator, "what was said last week about the village?", room="square", as_of=LAST, limit=50
    )
    assert {key for hit in searched.hits for key in found_ids(hit)} == {"a1", "b1", "p1"}
    assert searched.applied_filters is not None
    assert searched.applied_filters.summary() == "since 2024-03-04, before 2024-03-11"
    assert (searched.applied_filters.since, searched.applied_filters.until) == (day(4, 0), day(11, 0))


async def test_what_is_named_goes_before_what_the_question_says(told: App):
    question = "what did Bo say last week about the village?"
    where = {"room": "square", "as_of": LAST}
    assert await found(told, question, **where) == {"b1"}
    assert await found(told, question, filters=Filters(by=["pip"]), **where) == {"p1"}
    assert await found(told, question, filters=Filters(since="yesterday"), **where) == set()
    assert await found(told, question, filters=Filters(since="2024-03-05"), **where) == {"b1"}
    # Nothing is read at all.
    assert await found(told, question, filters=Filters(literal=True), **where) > {"b1", "p1", "c2"}
    literal = await told.search(told.operator, question, filters=Filters(literal=True))
    assert literal.applied_filters is None


async def test_where_what_was_read_leaves_nothing_the_result_says_what_it_was(told: App):
    searched = await told.search(told.operator, "what did bots say last month about the ferry?", as_of=LAST)
    assert searched.hits == []
    assert searched.applied_filters is not None
    assert searched.applied_filters.summary() == "by agents, since 2024-02-01, before 2024-03-01"
    answer = await told.ask(told.operator, "what did bots say last month about the ferry?", as_of=LAST)
    assert not answer.is_answered
    assert answer.applied_filters == searched.applied_filters


# Everything that somebody said


async def test_a_question_for_all_that_somebody_said_lists_it_newest_first(told: App, tmp_path):
    for app in (told, await without_model(told, tmp_path)):
        hits = (await app.search(app.operator, "what did Bo say?")).hits
        assert [found_ids(hit) for hit in hits] == [["b2"], ["b1"]]
        assert all_ids(hits) == [["a3", "b2"], ["a1", "b1"]]
        assert [hit.room_name for hit in hits] == ["attic", "square"]
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert await found(app, "messages from bots") == {"p1", "p2"}
        assert await found(app, "what did bots say yesterday?", as_of="c2") == set()
        assert await found(app, "what did bots say today?", as_of="c2") == {"p2"}
        assert await found(app, "what was said last week?", as_of=LAST) == {
            *("a1", "b1", "p1", "a2", "d1", "a3", "b2"),
        }
        assert await found(app, "what was said last week?", viewer="cy", as_of=LAST) == {
            *("a1", "b1", "p1", "a2"),
        }


async def test_a_list_keeps_to_every_filter_and_to_the_limit(worked: App):
    async def listed(question: str, **filters) -> set[str]:
        return await found(worked, question, filters=Filters(**filters))

    assert await listed("what did Bo say?", answered=False) == set()
    assert await listed("what did Cy say?", answered=False) == {"c1"}
    assert await listed("what did Bo say?", answered=True) == set()
    assert await listed("what did Ana say?", answered=True) == ANSWERED
    assert await listed("what did Ana say?", conversation="message:b1") == {"a1"}
    assert await listed("what did Bo say?", until="2024-03-05") == {"b1"}
    assert await listed("what did they say since 2024-03-12?", kinds=["agent"]) == {"p2"}
    assert await found(worked, "what did Bo say?", room="attic") == {"b2"}
    [newest] = (await worked.search(worked.operator, "what did Bo say?", limit=1)).hits
    assert found_ids(newest) == ["b2"]


async def test_what_was_taken_back_is_not_listed(told: App):
    await told.erasure.redact("b2", room="attic")
    assert await found(told, "what did Bo say?") == {"b1"}


async def test_asked_for_all_that_somebody_said_the_answer_recites_it(told: App):
    answer = await told.ask(told.operator, "what did bots say?")
    assert answer.is_answered
    assert answer.stage == "history"
    assert words(answer) == [
        "[Pip (bot)]: village the build is green",
        "[Pip (bot)]: village the build is red",
    ]
    assert {hit.best.external_id for hit in answer.hits} == {"p1", "p2"}
    first = await told.ask(told.operator, "what did bots say?", room="square")
    assert (first.stage, words(first)) == ("room", ["[Pip (bot)]: village the build is red"])
    elsewhere = await told.ask(told.operator, "what did bots say?", room="attic")
    assert [step.outcome for step in elsewhere.trace] == ["empty", "answered"]
    nothing = await told.ask(told.operator, "what did bots say last month?", as_of=LAST)
    assert not nothing.is_answered
    assert nothing.text.startswith("I don't have this information.")


async def test_a_list_by_kind_goes_by_the_kind_that_a_message_has_as_a_search_does(told: App, admin):
    """Mostly that of its author: but who wrote while another writer found its author to be an agent did not know."""
    await admin.execute(
        "update messages set author_kind = 'agent' where org_id = %s and external_id = 'b1'", [told.org_id]
    )
    agents = {"p1", "p2", "b1"}
    for viewer in (None, "cy"):
        seen = set(SAID) - (CLOSED[viewer] if viewer else set())
        assert await found(told, "what did bots say?", viewer=viewer) == agents
        assert await found(told, "what did humans say?", viewer=viewer) == seen - agents
        assert await found(told, viewer=viewer, filters=Filters(kinds=["agent"])) == agents
    assert await found(told, "what did Bo say?") == {"b1", "b2"}


# Questions that are too much


async def test_a_question_is_as_long_as_questions_are(told: App):
    ana = await told.viewer("a_work")
    longest = " ".join(f"w{n:05}" for n in range(2000))[:LONGEST_QUESTION]
    assert len(longest) == LONGEST_QUESTION
    await told.search(ana, longest)
    await told.ask(ana, longest)
    await told.similar(ana, longest)
    await told.search(ana, "x" * LONGEST_QUESTION)

    # So many different words as PostgreSQL refuses.
    for text in (f"{longest} ", " ".join(f"w{n:08}" for n in range(100_000))):
        for call in (told.search, told.ask, told.similar):
            with pytest.raises(BadInput, match="question: must have at most 10,000 characters"):
                await call(ana, text)


async def test_of_a_long_question_the_first_words_find_memories(told: App):
    words = [f"word{n:03}" for n in range(200)]
    early = await told.memories.remember(f"{words[63]} is early.", sources=["a1"])
    late = await told.memories.remember(f"{words[64]} is late.", sources=["a1"])

    async with told.db.read_transaction(told.operator) as conn:
        assert [one.memory_id for one in await lexical_matches(conn, " ".join(words), wanted=10)] == [
            early.id
        ]
        assert [one.memory_id for one in await lexical_matches(conn, " ".join(words[1:]), wanted=10)] == [
            late.id,
            early.id,
        ]


@pytest.mark.parametrize("limit", [0, MOST_FOUND + 1, 1_000_000])
async def test_nobody_reads_more_exchanges_than_a_search_finds(limit, told: App):
    ana = await told.viewer("a_work")
    for call in (told.search, told.similar):
        with pytest.raises(BadInput, match="limit: must be at least 1 and at most 1,000 threads"):
            await call(ana, WORD, limit=limit)
        assert (await call(ana, WORD, limit=MOST_FOUND)).hits


# Questions asked before


async def test_similar_questions_are_ones_own_and_come_with_what_answered_them(worked: App):
    ana = await worked.viewer("a_work")
    hits = (await worked.similar(ana, "where did the lantern go?")).hits
    assert [found_ids(hit) for hit in hits] == [["a1"], ["a3"]]
    assert all_ids(hits)[0] == ["a1", "b1"]
    assert (await worked.similar(ana, "where did the lantern go?", room="attic")).hits[
        0
    ].best.external_id == "a3"
    assert len((await worked.similar(ana, "where did the lantern go?", limit=1)).hits) == 1
    cy = await worked.viewer("cy")
    assert [found_ids(hit) for hit in (await worked.similar(cy, "the lantern")).hits] == [["c1"]]
    assert (await worked.similar(await worked.viewer("bo"), "the lantern")).hits == []
    with pytest.raises(BadInput, match="the operator is no participant"):
        await worked.similar(worked.operator, "the lantern")
    with pytest.raises(BadInput, match="question"):
        await worked.similar(ana, " ")


@pytest.mark.slow
async def test_asked_for_questions_only_these_are_shown_where_there_are_any(told: App):
    assert await found(told, "questions Ana asked") == {"a1", "a3"}
    assert await found(told, "my questions about the village", viewer="cy") == {"c1"}
    assert await found(told, "what questions did Bo ask?") == {"b1", "b2"}
    [newest] = (await told.search(told.operator, "questions Ana asked", limit=1)).hits
    assert found_ids(newest) == ["a3"]


# The log


async def test_the_log_tells_whom_and_what_a_filter_named_and_once(told: App, admin):
    before = len(await log_lines(admin, told))
    bo = (await told.viewer("bo")).participant_id
    searched = await told.search(
        told.operator, "what did they say?", room="attic", filters=Filters(by=["bo"])
    )
    await told.ask(told.operator, "what did Bo say?")
    await told.similar(await told.viewer("a_work"), "the lantern")
    lines = (await log_lines(admin, told))[before:]
    assert [line[:2] for line in lines] == [("search", "done"), ("ask", "done"), ("search", "done")]
    assert bo in lines[0][4]
    assert bo in lines[1][4]
    assert {one.id for hit in searched.hits for one in hit.messages} <= set(lines[0][4])


async def test_everything_is_the_filter_that_leaves_everything():
    assert dataclasses.replace(NO_FILTERS) == Filters()
    assert NO_FILTERS.time_range(day(1)).since is None
    assert NO_FILTERS.time_range(day(1) + timedelta(days=1)).until is None
