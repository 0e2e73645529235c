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


@settings(max_examples=40, deadline=None)
@given(rooms)
def test_every_claim_quotes_words_of_its_author_and_is_extracted_again(lines):
    said = told(*lines)
    by_id = {one.message_id: one for one in said}
    found = extract(said, people(said))
    assert extract(said, people(said)) == found
    for statement in found:
        first = by_id[statement.quotes[0].message_id]
        assert first.author_id == statement.author_id
        assert statement.content
        assert statement.title
        assert 0 < statement.confidence <= 1
        assert statement.author_id not in statement.involved_ids
        for quote in statement.quotes:
            assert by_id[quote.message_id].body[quote.start : quote.end].strip()


@settings(max_examples=25, deadline=None)
@given(rooms)
def test_quoted_injected_and_system_messages_state_nothing(lines):
    for change in (
        lambda one: {"body": "\n".join(f"> {line}" for line in one.body.split("\n"))},
        lambda _: {"kind": "context_injection"},
        lambda _: {"kind": "system", "author_kind": "system"},
    ):
        said = [replace(one, **change(one)) for one in told(*lines)]
        assert extract(said, people(said)) == []


def test_forms_of_the_first_person_know_their_verbs():
    assert contents(
        ("Ana", "I attended the pottery fair in Faro yesterday."), ("Ben", "I'm taking Spanish.")
    ) == [
        "Ana attended the pottery fair in Faro yesterday.",
        "Ben is taking Spanish.",
    ]


@settings(max_examples=40, deadline=None)
@given(rooms)
def test_agents_state_only_things_about_themselves(lines):
    said = [replace(one, author_kind="agent") for one in told(*lines)]
    for statement in extract(said, people(said)):
        assert statement.subject_ids == {statement.author_id}
        assert statement.confidence < 0.5
        assert "agent" in statement.tags


def test_empty_conversations_have_no_claims():
    assert extract([], []) == []
    assert contents(("Ana", ""), ("Ben", "   \n\n  ")) == []


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(st.sampled_from(printable + "\u2019“”…😂é"), max_size=200), max_size=5))
def test_any_text_can_be_parsed(bodies):
    stated(*(("Ana", body) for body in bodies))


def test_claims_are_written_in_the_third_person():
    assert contents(
        ("Ana", "I live in Lisbon with my two kids."),
        ("Ben", "my favourite editor is Helix 🙂"),
        ("Eve", "I can\u2019t stand meetings before 10"),
    ) == [
        "Ana lives in Lisbon with their two kids.",
        "Ben's favourite editor is Helix.",
        "Eve cannot stand meetings before 10.",
    ]


def test_a_claim_that_cannot_be_in_the_third_person_is_quoted():
    assert contents(("Ana", "We adopted two kittens last week, and they broke our lamp.")) == [
        "Ana: “We adopted two kittens last week”"
    ]


def test_a_decision_names_and_quotes_everybody_who_agreed():
    (decision,) = stated(
        ("Ana", "Let's use pgvector for the embeddings."), ("Ben", "+1"), ("Eve", "sounds good to me")
    )
    assert decision.content == "Decided by Ana, Ben and Eve: use pgvector for the embeddings."
    assert decision.involved_ids == {person("Ben"), person("Eve")}
    assert len(decision.quotes) == 3


def test_agreement_raises_the_confidence_of_a_decision():
    (alone,) = stated(("Ana", "We've decided to hire two people."))
    (agreed,) = stated(("Ana", "We've decided to hire two people."), ("Ben", "agreed"))
    assert agreed.confidence > alone.confidence


def test_equal_claims_are_merged():
    (home,) = stated(("Ana", "I live in Lisbon"), ("Ben", "nice"), ("Ana", "I live in Lisbon."))
    assert len(home.quotes) == 2


def test_a_claim_about_another_has_less_confidence():
    (own,) = stated(("Omar", "I live in Tunis."))
    (told_of,) = stated(("Ana", "Omar lives in Tunis."), others=("Omar",))
    assert told_of.author_id == person("Ana")
    assert told_of.subject_ids == own.subject_ids == {person("Omar")}
    assert told_of.confidence < own.confidence


def test_an_ambiguous_name_has_no_claim():
    said = told(("Ana", "Kim lives in Oslo."))
    both = [
        NamedParticipant(id=person("Kim A"), name="Kim A", names=("Kim",)),
        NamedParticipant(id=person("Kim B"), name="Kim B", names=("Kim",)),
    ]
    assert extract(said, both) == []


def test_a_correction_quotes_and_replaces_the_corrected_message():
    (correction,) = stated(("Kim", "my birthday is May 4"), ("Ben", "noted"), ("Kim", "sorry, I meant May 5"))
    assert correction.kind == "correction"
    assert [quote.message_id for quote in correction.quotes] == [
        one.message_id for one in (spoken(3, "Kim", ""), spoken(1, "Kim", ""))
    ]


def test_only_the_author_can_retract_a_claim():
    assert contents(("Ana", "I'm vegan."), ("Ben", "scratch that")) == ["Ana is vegan."]
    assert contents(("Ana", "I'm vegan."), ("Ben", "oh?"), ("Ana", "jk")) == []


@pytest.mark.parametrize(
    "piece",
    (
        "a|I prefer |1. |I. |'|\"|*|`|```|(|, | it is|...|- |@a |\n> |A1b-|ha|the the |I really |"
        "not |:) |my |okay, |we decided to |“|a: |\n|so because |\n\"a| \"a\n|«| 'a'b|Bo said a: |"
        "said a |imagine |here's what he "
    ).split("|"),
)
def test_a_long_hostile_message_takes_little_time(piece):
    body = (piece * 10_000)[:10_000]
    began = time.perf_counter()
    extract(told(("Ana", body)), [])
    assert time.perf_counter() - began < A_WHILE


@pytest.mark.slow
def test_a_long_conversation_takes_little_time():
    lines = [(NAMES[number % 5], LINES[number % len(LINES)]) for number in range(1_000)]
    began = time.perf_counter()
    stated(*lines)
    assert time.perf_counter() - began < A_WHILE
