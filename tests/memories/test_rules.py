import time
from dataclasses import replace
from string import printable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memories.chats import cases, contents, people, person, spoken, stated, told
from roomlore.domain.claims import NamedParticipant
from roomlore.memories.rule_extractor import extract

#: Sentences in which the speaker states something, and some in which nobody does.
LINES = sorted({one.body for case in cases() for one in case.said})
NAMES = ("Ana", "Ben", "xX_Kim_Xx", "zed|away", "Linda Park (mother)")
rooms = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(LINES)), max_size=12)
#: A whole room of these is read in well under a second; the bound leaves room for a busy machine.
A_WHILE = 3.0


@settings(deadline=None)
@given(rooms)
def test_every_statement_rests_on_words_that_were_said_by_its_author(lines):
    said = told(*lines)
    by_id = {one.message_id: one for one in said}

    for statement in extract(said, people(said)):
        first = by_id[statement.quotes[0].message_id]
        assert first.author_id == statement.author_id
        assert statement.content
        assert statement.title
        assert 0 < statement.confidence <= 1
        assert statement.author_id not in statement.involved_ids
        for quote in statement.quotes:
            assert by_id[quote.message_id].body[quote.start : quote.end].strip()


@settings(deadline=None)
@given(rooms)
def test_reading_again_finds_the_same(lines):
    said = told(*lines)

    assert extract(said, people(said)) == extract(said, people(said))


@settings(deadline=None)
@given(rooms)
def test_words_behind_a_quotation_mark_are_nobody_s(lines):
    said = [
        replace(one, body="\n".join(f"> {line}" for line in one.body.split("\n"))) for one in told(*lines)
    ]

    assert extract(said, people(said)) == []


@settings(deadline=None)
@given(rooms)
def test_what_was_injected_or_noticed_by_the_platform_is_nobody_s(lines):
    injected = [replace(one, kind="context_injection") for one in told(*lines)]
    noticed = [replace(one, kind="system", author_kind="system") for one in told(*lines)]

    assert extract(injected, people(injected)) == []
    assert extract(noticed, people(noticed)) == []


@settings(deadline=None)
@given(rooms)
def test_agents_state_things_of_themselves_only(lines):
    said = [replace(one, author_kind="agent") for one in told(*lines)]

    for statement in extract(said, people(said)):
        assert statement.subject_ids == {statement.author_id}
        assert statement.confidence < 0.5
        assert "agent" in statement.tags


def test_nothing_is_found_where_nothing_is_said():
    assert extract([], []) == []
    assert contents(("Ana", ""), ("Ben", "   \n\n  ")) == []


@settings(deadline=None)
@given(st.lists(st.text(st.sampled_from(printable + "\u2019“”…😂é"), max_size=200), max_size=5))
def test_any_text_at_all_can_be_read(bodies):
    stated(*(("Ana", body) for body in bodies))


def test_a_statement_is_told_in_the_third_person():
    assert contents(
        ("Ana", "I live in Lisbon with my two kids."),
        ("Ben", "my favourite editor is Helix 🙂"),
        ("Eve", "I can\u2019t stand meetings before 10"),
    ) == [
        "Ana lives in Lisbon with their two kids.",
        "Ben's favourite editor is Helix.",
        "Eve cannot stand meetings before 10.",
    ]


def test_what_cannot_be_told_in_the_third_person_is_quoted():
    assert contents(("Ana", "We adopted two kittens last week, and they broke our lamp.")) == [
        "Ana: “We adopted two kittens last week”"
    ]


def test_a_decision_names_those_who_made_it_and_rests_on_the_words_of_each():
    (decision,) = stated(
        ("Ana", "Let's use pgvector for the embeddings."), ("Ben", "+1"), ("Eve", "sounds good to me")
    )

    assert decision.content == "Decided by Ana, Ben and Eve: use pgvector for the embeddings."
    assert decision.involved_ids == {person("Ben"), person("Eve")}
    assert len(decision.quotes) == 3


def test_agreement_makes_a_decision_surer():
    (alone,) = stated(("Ana", "We've decided to hire two people."))
    (agreed,) = stated(("Ana", "We've decided to hire two people."), ("Ben", "agreed"))

    assert agreed.confidence > alone.confidence


def test_the_same_said_twice_is_one_statement_that_rests_on_both():
    (home,) = stated(("Ana", "I live in Lisbon"), ("Ben", "nice"), ("Ana", "I live in Lisbon."))

    assert len(home.quotes) == 2


def test_what_is_said_of_another_is_less_sure_and_stays_its_speaker_s():
    (own,) = stated(("Omar", "I live in Tunis."))
    (told_of,) = stated(("Ana", "Omar lives in Tunis."), others=("Omar",))

    assert told_of.author_id == person("Ana")
    assert told_of.subject_ids == own.subject_ids == {person("Omar")}
    assert told_of.confidence < own.confidence


def test_nobody_is_told_of_whose_name_may_mean_two():
    said = told(("Ana", "Kim lives in Oslo."))
    both = [
        NamedParticipant(id=person("Kim A"), name="Kim A", names=("Kim",)),
        NamedParticipant(id=person("Kim B"), name="Kim B", names=("Kim",)),
    ]

    assert extract(said, both) == []


def test_a_correction_rests_on_what_was_wrong_and_takes_its_place():
    (correction,) = stated(("Kim", "my birthday is May 4"), ("Ben", "noted"), ("Kim", "sorry, I meant May 5"))

    assert correction.kind == "correction"
    assert [quote.message_id for quote in correction.quotes] == [
        one.message_id for one in (spoken(3, "Kim", ""), spoken(1, "Kim", ""))
    ]


def test_what_is_taken_back_by_somebody_else_stands():
    assert contents(("Ana", "I'm vegan."), ("Ben", "scratch that")) == ["Ana is vegan."]
    assert contents(("Ana", "I'm vegan."), ("Ben", "oh?"), ("Ana", "jk")) == []


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "I prefer ",
        "1. ",
        "I. ",
        "'",
        '"',
        "*",
        "`",
        "```",
        "(",
        ", ",
        " it is",
        "...",
        "- ",
        "@a ",
        "\n> ",
        "A1b-",
        "ha",
        "the the ",
        "I really ",
        "not ",
        ":) ",
        "my ",
        "okay, ",
        "we decided to ",
        "“",
        "a: ",
        "\n",
        "so because ",
        '\n"a',
        ' "a\n',
        "«",
        " 'a'b",
        "Bo said a: ",
        "said a ",
        "imagine ",
        "here's what he ",
    ],
)
def test_a_long_hostile_message_is_read_in_no_time(piece):
    body = (piece * 10_000)[:10_000]
    began = time.perf_counter()

    extract(told(("Ana", body)), [])

    assert time.perf_counter() - began < A_WHILE


def test_a_long_conversation_is_read_in_no_time():
    lines = [(NAMES[number % 5], LINES[number % len(LINES)]) for number in range(1_000)]
    began = time.perf_counter()

    stated(*lines)

    assert time.perf_counter() - began < A_WHILE
