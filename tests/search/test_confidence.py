"""Confidence of a search: similarity, words, token vectors, and authors named in the question."""

from uuid import UUID

import pytest

from roomlore.domain.ids import MessageId
from roomlore.search.confidence import (
    TOKEN_THRESHOLD,
    VECTOR_THRESHOLD,
    WORD_THRESHOLD,
    Confidence,
    confidence,
    relevance,
)
from roomlore.search.ranking import ScoredMessage
from roomlore.search.records import MatchReason


def found(*rows: tuple[str, float | None, float, float | None], question: str = "what did Ana paint?"):
    return judged(*rows, question=question).value


def judged(
    *rows: tuple[str, float | None, float, float | None], question: str = "what did Ana paint?"
) -> Confidence:
    scored = [
        ScoredMessage(
            message_id=MessageId(UUID(int=number)),
            author_name=author,
            score=1.0,
            similarity=similarity,
            coverage=covered,
            context_coverage=covered,
            terms=(),
        )
        for number, (author, similarity, covered, _) in enumerate(rows)
    ]
    reasons = {
        one.message_id: MatchReason(
            score=1.0, similarity=one.similarity, coverage=one.coverage, terms=(), rerank_score=rerank_score
        )
        for one, (*_, rerank_score) in zip(scored, rows, strict=True)
    }
    return confidence(question, scored, reasons)


def test_confidence_is_none_without_results():
    assert found() is None


def test_words_alone_tell_as_much_as_they_cover():
    assert found(("Ana", None, 0.4, None), ("Bo", None, 0.7, None)) == pytest.approx(0.7)


def test_words_alone_suffice_sooner_than_words_with_little_meaning():
    by_words = judged(("Ana", None, 0.3, None))
    by_vectors = judged(("Ana", 0.3, 0.3, None))
    assert by_words.value is not None
    assert by_vectors.value is not None
    assert by_words.value >= by_words.threshold
    assert by_vectors.value < by_vectors.threshold


def test_without_tokens_meaning_and_words_tell_half_each():
    assert found(("Ana", 0.5, 0.3, None)) == pytest.approx(0.4)


def test_a_closer_text_is_surer():
    far, close = (found(("Bo", 0.5, 0.5, value), ("Bo", 0.2, 0.1, 0.1)) for value in (0.3, 0.8))
    assert far < close


def test_confidence_is_higher_if_the_named_person_wrote_the_answer():
    theirs = found(("Ana", 0.6, 0.9, 0.8), ("Bo", 0.3, 0.2, 0.4))
    of_another = found(("Bo", 0.6, 0.9, 0.8), ("Ana", 0.3, 0.2, 0.4))
    assert of_another < theirs


def test_confidence_ignores_authors_if_the_question_names_nobody():
    rows = [("Ana", 0.6, 0.9, 0.8), ("Bo", 0.3, 0.2, 0.4)]
    swapped = [("Bo", 0.6, 0.9, 0.8), ("Ana", 0.3, 0.2, 0.4)]
    question = "what was painted?"
    assert found(*rows, question=question) == found(*swapped, question=question)


@pytest.mark.parametrize("question", ["what was painted?", "when did the boat sink?", "WHAT about the boat?"])
def test_common_question_words_name_nobody(question: str):
    rows = [("The What When", 0.6, 0.9, 0.8), ("Bo", 0.3, 0.2, 0.4)]
    swapped = [("Bo", 0.6, 0.9, 0.8), ("The What When", 0.3, 0.2, 0.4)]
    assert found(*rows, question=question) == found(*swapped, question=question)


def test_names_with_a_common_word_count_by_their_other_words():
    theirs = found(
        ("The Painter", 0.6, 0.9, 0.8), ("Bo", 0.3, 0.2, 0.4), question="what did the painter paint?"
    )
    of_another = found(
        ("Bo", 0.6, 0.9, 0.8), ("The Painter", 0.3, 0.2, 0.4), question="what did the painter paint?"
    )
    assert of_another < theirs


def test_by_how_much_the_named_person_is_closer_counts_up_to_a_limit():
    closer = [found(("Ana", 0.7, 0.7, 0.8), ("Bo", 0.7, 0.7, value)) for value in (0.75, 0.6, 0.5)]
    gain, more = closer[1] - closer[0], closer[2] - closer[1]
    assert gain > more


def test_confidence_is_higher_for_an_outlier():
    alone = [("Bo", 0.5, 0.5, 0.7)] + [("Bo", 0.3, 0.2, 0.2)] * 20
    among_many = [("Bo", 0.5, 0.5, 0.7)] * 21
    assert found(*among_many) < found(*alone)


def test_a_room_of_few_messages_can_be_sure_of_one_of_them():
    assert found(("Ana", 0.7, 0.9, 0.8)) > TOKEN_THRESHOLD


def test_a_close_text_that_carries_neither_meaning_nor_words_makes_nothing_sure():
    assert found(("Bo", 0.0, 0.0, 1.0), ("Bo", 0.0, 0.0, 0.2)) == 0.0


def test_certainty_stays_within_bounds():
    assert found(("Ana", 1.0, 1.0, 1.0), ("Bo", -1.0, 0.0, -1.0)) == 1.0
    assert found(("Bo", -1.0, 0.0, 1.0), ("Ana", -1.0, 0.0, -1.0)) == 0.0


def test_relevance_does_not_depend_on_other_results():
    assert relevance(MatchReason(score=0.1, similarity=0.6, coverage=0.2, terms=())) == pytest.approx(0.4)
    assert relevance(MatchReason(score=0.9, similarity=-0.6, coverage=None, terms=())) == 0


def test_each_kind_of_evidence_is_held_against_its_own_bar():
    assert judged(("Ana", 0.5, 0.3, 0.4), ("Bo", None, 0.3, None)).threshold == TOKEN_THRESHOLD
    assert judged(("Ana", 0.5, 0.3, None), ("Bo", None, 0.3, None)).threshold == VECTOR_THRESHOLD
    assert judged(("Ana", None, 0.3, None)).threshold == WORD_THRESHOLD
    assert judged().threshold == WORD_THRESHOLD
