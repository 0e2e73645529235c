"""The learned confidence: each sign by itself, their product, and when the rule decides instead."""

from dataclasses import replace

import numpy as np
import pytest

from roomlore.models.local_embedding import bundled_embedder
from roomlore.operations import App
from roomlore.search.answer_confidence import (
    LEARNED_THRESHOLD,
    NOBODY_NAMED,
    Evidence,
    FoundText,
    learned_confidence,
    read_signs,
)
from search.telling import ANA, BO, author, closed, message, tell

PIECES = ("when", "did", "ana", "paint", "the", "boat", "##house", "?")
QUESTION = "When did Ana paint the boathouse?"


def found(*best: tuple[str, str, float], question: str = QUESTION, pieces: tuple[str, ...] = PIECES):
    """Return evidence in which each word piece is as close to each message as stated."""
    return Evidence(
        question=question,
        pieces=pieces,
        weights=np.full(len(pieces), 1 / len(pieces), np.float32),
        cosines=np.array([[close for *_, close in best]] * len(pieces), np.float32),
        best=[FoundText(author_name=author, text=text) for author, text, _ in best],
        author_names=[author for author, *_ in best],
        fit=0.6,
    )


def test_the_fit_is_the_confidence_by_rule():
    assert read_signs(found(("Ana", "in May", 0.8))).fit == 0.6


def test_the_speaker_counts_where_the_named_person_wrote_the_closest_text():
    hers = read_signs(found(("Ana", "in May", 0.8), ("Bo", "in June", 0.3))).speaker
    his = read_signs(found(("Ana", "in May", 0.3), ("Bo", "in June", 0.8))).speaker
    assert his < 0.1
    assert hers > 0.9


@pytest.mark.parametrize(
    ("text", "is_about"),
    [
        ("Ana painted it in May", True),
        ("that was Ana's work", True),
        ("Ana, it is done", False),
        ("Hey Ana it is done", False),
        ("it is done, Ana", False),
        ("Diana painted it", False),
    ],
)
def test_a_text_about_the_named_person_counts_like_hers_but_not_one_that_speaks_to_her(
    text: str,
    is_about: bool,  # noqa: FBT001  a case of the table
):
    signs = read_signs(found(("Bo", text, 0.8), ("Ana", "hello", 0.1)))
    assert (signs.speaker > 0.9) == is_about


def test_the_most_completely_named_author_is_meant():
    best = [("Ana Lund", "in May", 0.8), ("Ana Holm", "in June", 0.8)]
    pieces = ("when", "did", "ana", "holm", "paint", "?")
    signs = read_signs(found(*best, question="When did Ana Holm paint?", pieces=pieces))
    assert signs.speaker == pytest.approx(0.5)


def test_the_speaker_says_nothing_about_a_question_that_names_nobody():
    signs = read_signs(found(("Bo", "in May", 0.8), question="When was the boathouse painted?"))
    assert signs.speaker == NOBODY_NAMED


def test_names_and_numbers_are_looked_for_in_texts_and_authors():
    question = "What did Ana paint in May 2023?"
    half = found(("Ana", "a boat", 0.8), ("Bo", "a house", 0.8), question=question)
    whole = found(("Ana", "a boat in May 2023", 0.8), question=question)
    assert read_signs(half).names == pytest.approx(1 / 6)
    assert read_signs(whole).names == 1.0


def test_a_question_without_names_and_numbers_misses_none():
    assert read_signs(found(("Bo", "no", 0.1), question="Is the boat red?")).names == 1.0


def test_the_first_word_is_no_name_and_short_words_are_none():
    assert read_signs(found(("Bo", "no", 0.1), question="Paint is what I need?")).names == 1.0


def test_one_message_must_be_close_to_every_word_of_the_topic():
    evidence = found(("Ana", "in May", 0.9), ("Bo", "in June", 0.9))
    cosines = evidence.cosines.copy()
    cosines[3, 0] = cosines[5, 1] = 0.2
    assert read_signs(replace(evidence, cosines=cosines)).words == pytest.approx(0.2)
    cosines[5, 1] = 0.7
    assert read_signs(replace(evidence, cosines=cosines)).words == pytest.approx(0.7)


def test_names_of_authors_and_common_words_are_no_topic():
    evidence = found(("Ana", "in May", 0.9))
    cosines = evidence.cosines.copy()
    cosines[[0, 1, 2, 4, 7]] = 0.0
    assert read_signs(replace(evidence, cosines=cosines)).words == pytest.approx(0.9)


def test_a_question_of_common_words_alone_has_all_its_words_as_topic():
    signs = read_signs(found(("Bo", "here", 0.4), question="who is it", pieces=("who", "is", "it")))
    assert signs.words == pytest.approx(0.4)


def test_all_words_of_a_question_can_be_names():
    signs = read_signs(found(("Ana", "here", 0.4), question="Ana?", pieces=("ana",)))
    assert signs.words == pytest.approx(0.4)


def test_one_bad_sign_is_enough_to_refuse():
    good = replace(found(("Ana", "in May I painted the boathouse", 0.9)), fit=0.5)
    assert learned_confidence(good).value > LEARNED_THRESHOLD
    others = [
        replace(good, fit=0.1),
        replace(good, best=[FoundText(author_name="Bo", text="in May I painted the boathouse")]),
        replace(good, cosines=np.zeros_like(good.cosines)),
        replace(good, question="When did the Red Mill open in 2019?"),
    ]
    values = [learned_confidence(one).value for one in others]
    assert all(value < learned_confidence(good).value / 1.5 for value in values)
    assert all(0 <= value < LEARNED_THRESHOLD for value in values)


def test_closer_words_make_it_surer():
    far, close = (learned_confidence(found(("Ana", "in May", value))).value for value in (0.5, 0.9))
    assert far < close


# With the bundled embedding model

STORY = (
    message("1", "I painted the old boathouse blue on Saturday", author=ANA),
    message("2", "the pier needs three new planks, I will nail them in tomorrow", author=BO),
    message("3", "coffee is out again", author=BO),
    message("4", "we fly to Rome on Friday at noon", author=ANA),
)


@pytest.fixture
def with_model(app: App) -> App:
    """The App with the bundled embedding model."""
    return App(db=app.db, org_id=app.org_id, settings=app.settings, _embedder=bundled_embedder())


@pytest.mark.slow
async def test_questions_about_another_person_or_thing_are_less_certain_than_those_that_were_answered(
    with_model,
):
    app = await tell(with_model, *STORY)

    async def sure(question: str) -> float:
        return (await app.search(app.operator, question)).confidence

    answered = await sure("What did Ana paint blue?")
    assert answered >= LEARNED_THRESHOLD
    assert await sure("What did Bo paint blue?") < answered
    for question in ("Which lighthouse was sold in 1987?", "Where does Cy live?"):
        assert await sure(question) < LEARNED_THRESHOLD, question


@pytest.mark.slow
async def test_an_answer_is_refused_by_the_learned_confidence(with_model):
    app = await tell(with_model, *STORY)
    answer = await app.ask(app.operator, "When do we fly to Rome?")
    assert (answer.stage, answer.trace[-1].threshold) == ("history", LEARNED_THRESHOLD)
    answer = await app.ask(app.operator, "When do we fly to Oslo in 2019?")
    assert not answer.is_answered


@pytest.mark.slow
async def test_what_a_viewer_may_not_read_changes_nothing_in_the_confidence(with_model):
    cy = author("cy")
    app = await tell(with_model, *STORY, message("5", "hello", author=cy))
    viewer, question = await app.viewer("cy"), "What did Bo paint blue in Rome?"
    before = (await app.search(viewer, question)).confidence
    secret = closed("attic", ANA, BO)
    await tell(app, message("6", "Bo painted the cellar in Rome blue", room=secret, author=BO))
    assert (await app.search(viewer, question)).confidence == before
    assert (await app.search(await app.viewer("bo"), question)).confidence > before


@pytest.mark.slow
@pytest.mark.parametrize("question", ["?", "who", "Ana", "ana ana", "é", "日本語", "3", "'s", "##x"])
async def test_any_question_gets_a_confidence(with_model, question: str):
    app = await tell(with_model, *STORY)
    found = await app.search(app.operator, question, room="general")
    assert found.confidence is None or 0 <= found.confidence <= 1
