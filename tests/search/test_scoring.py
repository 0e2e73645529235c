"""Scores: words by their rarity, what stands around counts less with distance, and rooms do not mix."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roomlore.db.search import ContextMessage
from roomlore.domain.ids import MessageId
from roomlore.search.ranking import CONTEXT_REACH, QueryTerms, ScoredMessage, ScoringFeatures, score_messages

ASKED = QueryTerms(stems=["boat", "harbour"], rarities=[1.0, 3.0])


def row(number: int, *counts: int, follows: bool = True, **more) -> ContextMessage:
    given = {"author_name": "Ana", "size": 5, "similarity": 0.0, "fits": True} | more
    message_id = MessageId(UUID(int=number))
    return ContextMessage(message_id=message_id, follows=follows, counts=counts or None, **given)


def ranked(*rows: ContextMessage, stages: ScoringFeatures | None = None) -> list[int]:
    more = {} if stages is None else {"stages": stages}
    return [one.message_id.int for one in score_messages(rows, ASKED, most=100, **more)]


def of(number: int, *rows: ContextMessage) -> ScoredMessage:
    return next(one for one in score_messages(rows, ASKED, most=100) if one.message_id.int == number)


def test_a_rare_word_counts_more_than_a_common_one():
    assert ranked(row(1, 1, 0, follows=False), row(2, 0, 1, follows=False)) == [2, 1]


def test_both_words_count_more_than_one_of_them_twice():
    assert ranked(row(1, 4, 0, follows=False), row(2, 1, 1, follows=False)) == [2, 1]


def test_of_two_texts_with_the_same_words_the_shorter_comes_first():
    assert ranked(row(1, 0, 1, size=40, follows=False), row(2, 0, 1, size=4, follows=False)) == [2, 1]


def test_what_follows_a_find_comes_before_what_stands_further_off():
    rows = [row(1, 1, 1, follows=False), row(2), row(3), row(9, follows=False)]
    assert ranked(*rows) == [1, 2, 3, 9]


def test_what_comes_after_tells_less_than_what_came_before():
    assert ranked(row(1, follows=False), row(2, 1, 1), row(3)) == [2, 3, 1]


def test_without_neighbours_only_a_messages_own_words_count():
    rows = [row(1, 1, 1, follows=False), row(2)]
    by_number = {
        one.message_id.int: one.score
        for one in score_messages(rows, ASKED, most=9, stages=ScoringFeatures(neighbours=False))
    }
    assert by_number[1] > by_number[2] == 0.0


def test_what_stands_in_another_place_tells_nothing():
    alone = of(2, row(1, follows=False), row(2, 1, 0, follows=False), row(3, 0, 1, follows=False))
    assert alone.context_coverage == alone.coverage == pytest.approx(0.25)


def test_words_of_neighbours_are_covered_together():
    assert of(2, row(1, 0, 1, follows=False), row(2, 1, 0)).context_coverage == pytest.approx(1.0)


def test_what_does_not_fit_informs_and_is_not_returned():
    rows = [row(1, 1, 1, follows=False, fits=False), row(2), row(3, follows=False)]
    assert ranked(*rows) == [2, 3]


def test_nearness_decides_where_words_do_not():
    rows = [row(1, similarity=0.2, follows=False), row(2, similarity=0.7, follows=False)]
    assert ranked(*rows) == [2, 1]


def test_a_message_without_vector_is_neither_near_nor_far():
    rows = [
        row(1, 1, 0, similarity=0.1, follows=False),
        row(2, 1, 0, similarity=None, follows=False),
        row(3, 1, 0, similarity=0.9, follows=False),
    ]
    assert ranked(*rows) == [3, 2, 1]


def test_without_vectors_a_neighbour_without_words_is_no_find():
    rows = [
        row(1, 1, 1, follows=False, similarity=None),
        row(2, similarity=None),
        row(3, 0, 1, similarity=None),
    ]
    assert ranked(*rows) == [1, 3]


def test_the_terms_are_those_it_has_rarest_first():
    assert of(1, row(1, 2, 1, follows=False)).terms == ["harbour", "boat"]


def test_nothing_scores_nothing():
    assert score_messages([], ASKED, most=5) == []


ROWS = st.lists(
    st.builds(
        lambda counts, follows, size, similarity, fits: (counts, follows, size, similarity, fits),
        st.one_of(st.none(), st.tuples(st.integers(0, 5), st.integers(0, 5))),
        st.booleans(),
        st.integers(0, 60),
        st.one_of(st.none(), st.floats(-1, 1)),
        st.booleans(),
    ),
    max_size=30,
)


@given(drawn=ROWS, most=st.integers(1, 40))
def test_whatever_stands_where_scores_are_within_bounds_and_in_order(drawn, most: int):
    rows = [
        row(n, *(counts or ()), follows=follows and n > 0, size=size, similarity=similarity, fits=fits)
        for n, (counts, follows, size, similarity, fits) in enumerate(drawn)
    ]
    found = score_messages(rows, ASKED, most=most)
    own = [one for one in rows if one.fits and (one.counts is not None or one.similarity is not None)]
    assert len(found) == min(most, len(own))
    assert {one.message_id for one in found} <= {one.message_id for one in own}
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert all(0 <= one.score <= 1 + 1e-9 and 0 <= one.context_coverage <= 1 + 1e-9 for one in found)


@given(place=st.integers(0, 12))
def test_a_find_reaches_so_far_and_no_further(place: int):
    rows = [row(n, *((1, 1) if n == place else ()), follows=n > 0) for n in range(13)]
    reached = {one.message_id.int for one in score_messages(rows, ASKED, most=99) if one.context_coverage > 0}
    assert reached == {n for n in range(13) if abs(n - place) <= CONTEXT_REACH}
