"""Claims are the speakers' own words, and what the message model reads in them decides which."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from string import printable
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roomlore.domain.claims import Claim, NamedParticipant, SourceText
from roomlore.memories.model_extractor import extract
from roomlore.models.message_model import (
    ACTS,
    RELATIONS,
    MessageInContext,
    MessageReading,
    StatementPair,
    bundled_model,
)

START = datetime(2025, 3, 3, 9, 0, tzinfo=UTC)


def person(name: str) -> UUID:
    return uuid5(NAMESPACE_URL, name)


def told(*lines: tuple[str, str], answers: dict[int, int] | None = None, **fields: Any) -> list[SourceText]:
    links = answers or {}
    return [
        SourceText(
            **{
                "message_id": UUID(int=number),
                "author_id": person(name),
                "author_name": name,
                "author_kind": "agent" if name == "Pip" else "human",
                "kind": "message",
                "body": body,
                "sent_at": START + timedelta(minutes=number),
                "answers": UUID(int=links[number]) if number in links else None,
            }
            | fields
        )
        for number, (name, body) in enumerate(lines, start=1)
    ]


def people(*names: str) -> list[NamedParticipant]:
    return [NamedParticipant(id=person(name), name=name) for name in names]


class Scripted:
    """Reads what the first word of a text says, as in "fact: …", "fact+answer: …"; everything else is chatter."""

    relation = "separate"

    def read(self, messages: Sequence[MessageInContext]) -> list[MessageReading]:
        return [self._reading(one.text) for one in messages]

    def answers(self, pairs: Sequence[tuple[str, str]]) -> Any:
        return np.array([0.9] * len(pairs))

    def relations(self, pairs: Sequence[StatementPair]) -> Any:
        return np.array([[float(name == self.relation) for name in RELATIONS]] * len(pairs))

    def _reading(self, text: str) -> MessageReading:
        label = next(
            (word for word in text.split() if word.endswith(":") and word[:-1].islower()), "chatter:"
        )
        wish = label == "wish:"
        names = {"fact": "person_fact", "link": "resource"}
        acts = [] if wish else [names.get(one, one) for one in label[:-1].split("+")]
        keep = 0.5 if acts in (["chatter"], ["question"], ["thanks"]) else 2.0
        return MessageReading(
            acts={act: float(act in acts) for act in ACTS},
            does=tuple(acts),
            keep=keep,
            intents={},
            scopes={"this": 0.1, "previous": 0.9},
            request="forget" if wish else None,
            is_certain_request=wish,
        )


def claims(
    *lines: tuple[str, str], model: Any = None, others: Sequence[str] = (), **fields: Any
) -> list[Claim]:
    said = told(*lines, **fields)
    return extract(said, people(*{one.author_name for one in said}, *others), model or Scripted())


def contents(*lines: tuple[str, str], **fields: Any) -> list[str]:
    return [one.content for one in claims(*lines, **fields)]


# Which words


@pytest.mark.parametrize(
    ("act", "kind"),
    [
        ("decision", "decision"),
        ("announcement", "announcement"),
        ("promise", "promise"),
        ("preference", "preference"),
        ("fact", "fact"),
        ("how_to", "lesson"),
        ("resource", "resource"),
        ("correction", "correction"),
        ("announcement+decision", "decision"),
    ],
)
def test_what_words_do_gives_the_kind_of_the_claim(act, kind):
    [one] = claims(("Ana", f"{act}: something or other"))
    assert (one.kind, one.author_id) == (kind, person("Ana"))
    assert one.content == f"Ana: \u201c{act}: something or other\u201d"
    assert [(quote.start, quote.end) for quote in one.quotes] == [(0, len(act) + 20)]


def test_questions_thanks_and_chatter_give_nothing():
    assert contents(("Ana", "question: who is there?"), ("Bo", "thanks: for that"), ("Cy", "haha")) == []


def test_of_a_long_message_the_sentences_that_carry_it_are_quoted():
    chat = "It was a long day and there is much to tell about the weather and the road. " * 3
    body = f"{chat}fact: I live in Porto now. fact: My street is Rua das Flores. {chat}"
    [one] = claims(("Ana", body))
    assert one.content == "Ana: \u201cfact: I live in Porto now. fact: My street is Rua das Flores.\u201d"
    [quote] = one.quotes
    assert body[quote.start : quote.end] == one.content[6:-1]


def test_of_many_claims_in_a_conversation_the_best_half_is_kept():
    assert len(claims(*[("Ana", f"fact: number {n}") for n in range(10)])) == 5
    assert len(claims(*[("Ana", f"fact: number {n}") for n in range(3)])) == 3


@pytest.mark.parametrize(
    "fields",
    [{"kind": "context_injection"}, {"kind": "system"}, {"author_kind": "system"}],
)
def test_injected_and_system_messages_state_nothing(fields):
    assert contents(("Ana", "fact: I live in Porto"), **fields) == []


@pytest.mark.parametrize(
    "body",
    [
        "> fact: I live in Porto",
        "On Monday Bo wrote:\nfact: I live in Porto",
        "```\nfact: I live in Porto\n```",
        "   ",
    ],
)
def test_other_peoples_words_state_nothing(body):
    assert contents(("Ana", body)) == []


def test_a_privacy_request_and_what_it_is_about_give_nothing():
    assert contents(
        ("Ana", "fact: one"), ("Ana", "fact: two"), ("Bo", "haha"), ("Ana", "wish: forget that")
    ) == ["Ana: \u201cfact: one\u201d"]


def test_a_bare_link_is_quoted_with_what_its_author_says_next_to_it_or_what_it_answers():
    link, quoted = "link: https://example.org/a", "\u201clink: https://example.org/a\u201d"
    slides = ("Ana", "the slides of today")
    for lines in ((slides, ("Ana", link)), (("Ana", link), slides), (slides, ("Bo", "haha"), ("Ana", link))):
        answers = {3: 1} if len(lines) == 3 else None
        assert contents(*lines, answers=answers) == [f"Ana: \u201cthe slides of today\u201d Ana: {quoted}"]
    assert contents(("Bo", "the slides of today"), ("Ana", link)) == []
    assert contents(("Ana", f"{link} has the slides")) == [f"Ana: {quoted[:-1]} has the slides\u201d"]


# Answers


def test_an_answer_is_one_claim_with_its_question():
    [one] = claims(("Ana", "question: when is the demo?"), ("Bo", "haha"), ("Cy", "answer: on Thursday"))
    assert one.kind == "answer"
    assert one.content == "Ana: \u201cquestion: when is the demo?\u201d Cy: \u201canswer: on Thursday\u201d"
    assert (one.author_id, one.involved_ids) == (person("Cy"), {person("Ana")})
    assert [quote.message_id.int for quote in one.quotes] == [3, 1]
    assert one.title == "Question: when is the demo?"


def test_an_answer_about_a_person_is_a_claim_about_them_with_the_question():
    [one] = claims(("Ana", "question: where do you live?"), ("Bo", "fact+answer: in Porto"))
    assert (one.kind, one.subject_ids) == ("fact", {person("Bo")})
    assert one.content.startswith("Ana: \u201cquestion")


def test_an_answer_without_a_question_is_left_out():
    assert contents(("Ana", "answer: on Thursday")) == []
    assert contents(("Ana", "question: when?"), ("Ana", "answer: on Thursday")) == []


def test_an_answer_belongs_to_whom_it_addresses_or_replies_to():
    lines = (("Ana", "question: one?"), ("Bo", "question: two?"), ("Cy", "Ana: answer: yes"))
    [one] = claims(*lines)
    assert one.content.startswith("Ana: \u201cquestion: one?")
    [one] = claims(*lines[:2], ("Cy", "answer: yes"), answers={3: 1})
    assert one.content.startswith("Ana: \u201cquestion: one?")
    [one] = claims(*lines[:2], ("Cy", "answer: yes"))
    assert one.content.startswith("Bo: \u201cquestion: two?")


def test_of_several_answers_of_a_person_one_is_kept():
    found = claims(("Ana", "question: one?"), ("Bo", "answer: a"), ("Bo", "answer: b"), ("Cy", "answer: c"))
    assert [one.author_id for one in found] == [person("Bo"), person("Cy")]


# People


def test_a_statement_is_about_those_whom_it_names_and_otherwise_about_its_author():
    named, own, promised, lesson = claims(
        ("Ana", "fact: Omar lives in Tunis"),
        ("Ana", "fact: I live in Porto"),
        ("Ana", "promise: I call Omar tomorrow"),
        ("Ana", "how_to: open the kiln slowly"),
        ("Bo", "haha"),
        ("Bo", "haha"),
        ("Bo", "haha"),
        others=["Omar"],
    )
    assert [one.subject_ids for one in (named, own, promised, lesson)] == [
        {person("Omar")},
        {person("Ana")},
        {person("Ana")},
        frozenset(),
    ]
    assert named.confidence < own.confidence


def test_whom_a_message_addresses_is_not_its_subject():
    lines = ("Omar: fact: I live in Porto", "@Omar fact: I live in Porto", "fact: I will omar the door")
    for body in lines:
        [one] = claims(("Ana", body), others=["Omar"])
        assert one.subject_ids == {person("Ana")}
    [one] = claims(("Ana", "fact: ask @omar about it"), others=["omar"])
    assert one.subject_ids == {person("omar")}


def test_agents_count_like_people_and_are_marked_but_say_nothing_of_others():
    own, decided = claims(("Pip", "fact: I am offline at night"), ("Pip", "decision: we use the small kiln"))
    assert own.tags == decided.tags == {"agent"}
    assert claims(("Pip", "fact: Omar lives in Tunis"), others=["Omar"]) == []


# Corrections


def test_what_its_author_corrects_soon_is_left_out():
    model = Scripted()
    model.relation = "replaces"
    [one] = claims(("Ana", "fact: on Monday"), ("Ana", "correction: on Tuesday"), model=model)
    assert one.content == "Ana: \u201cfact: on Monday\u201d Ana: \u201ccorrection: on Tuesday\u201d"


def test_what_somebody_else_corrects_is_contested():
    first, second = claims(("Ana", "decision: on Monday"), ("Bo", "correction: on Tuesday"), answers={2: 1})
    assert first.tags == {"contested"}
    assert second.content == "Ana: \u201cdecision: on Monday\u201d Bo: \u201ccorrection: on Tuesday\u201d"


def test_what_is_said_of_somebody_who_denies_it_is_left_out():
    assert contents(
        ("Ana", "fact: Omar lives in Tunis"), ("Omar", "correction: I do not"), answers={2: 1}
    ) == ["Ana: \u201cfact: Omar lives in Tunis\u201d Omar: \u201ccorrection: I do not\u201d"]


# The shipped model

TEXTS = [
    "I live in Porto, on Rua das Flores 12, above the bakery.",
    "Heads up: the office is closed on Friday 5 May.",
    "when is the demo?",
    "On Thursday at 10, in the small room on the second floor.",
    "lol",
    "thanks, that helped!",
    "please forget what I said about the flat",
    "> I live in Rome",
    "I moved to Braga last month, I don't live in Porto any more.",
]


def test_the_shipped_model_reads_ordinary_rooms():
    found = contents(
        ("Ana", TEXTS[0]),
        ("Bo", "nice!"),
        ("Cy", "when is the demo?"),
        ("Ana", TEXTS[3]),
        ("Cy", "thanks!"),
        ("Bo", TEXTS[1]),
        ("Ana", "haha ok"),
        model=bundled_model(),
    )
    assert found == [
        f"Ana: \u201c{TEXTS[0]}\u201d",
        f"Cy: \u201cwhen is the demo?\u201d Ana: \u201c{TEXTS[3]}\u201d",
        f"Bo: \u201c{TEXTS[1]}\u201d",
    ]


def test_the_shipped_model_reads_other_languages():
    found = contents(
        ("Luc", "La réunion est déplacée à jeudi 10h, salle 3."),
        ("Tim", "danke"),
        ("Eva", "La reunión del equipo pasa al jueves a las 10:00, en la sala grande."),
        model=bundled_model(),
    )
    assert len(found) == 2


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(("Ana", "Bo", "Pip")), st.sampled_from(TEXTS)), max_size=8))
def test_every_claim_quotes_words_of_its_author_and_is_extracted_again(lines):
    said = told(*lines)
    by_id = {one.message_id: one for one in said}
    found = extract(said, people("Ana", "Bo", "Pip"), bundled_model())
    assert extract(said, people("Ana", "Bo", "Pip"), bundled_model()) == found
    for claim in found:
        assert by_id[claim.quotes[0].message_id].author_id == claim.author_id
        assert claim.title
        assert 0 < claim.confidence <= 1
        assert claim.author_id not in claim.involved_ids
        for quote in claim.quotes:
            assert by_id[quote.message_id].body[quote.start : quote.end].strip()


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.text(st.sampled_from(printable + "\u2019\u201c\u201d\u2026\U0001f602é"), max_size=200), max_size=4
    )
)
def test_any_text_can_be_read(bodies):
    claims(*(("Ana", body) for body in bodies))
