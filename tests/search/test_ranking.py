"""Scores: rarity, neighbours, vectors, late interaction."""

import math
from collections.abc import Sequence
from itertools import pairwise
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from roomlore.db.search import ContextMessage
from roomlore.domain.ids import MessageId
from roomlore.domain.vectors import TOKEN_BYTES, TokenVectors
from roomlore.models.fake import FakeEmbedder
from roomlore.search.ranking import (
    CONTEXT_REACH,
    QueryTerms,
    ScoredMessage,
    ScoringFeatures,
    max_similarity,
    score_messages,
)

ASKED = QueryTerms(stems=["boat", "harbour"], rarities=[1.0, 3.0])


def row(number: int, *counts: int, follows: bool = True, **more) -> ContextMessage:
    given = {"author_name": "Ana", "size": 5, "similarity": 0.0, "matches_filter": True} | more
    message_id = MessageId(UUID(int=number))
    return ContextMessage(message_id=message_id, follows=follows, counts=counts or None, **given)


def ranked(*rows: ContextMessage, stages: ScoringFeatures | None = None) -> list[int]:
    more = {} if stages is None else {"features": stages}
    return [one.message_id.int for one in score_messages(rows, ASKED, limit=100, **more)]


def of(number: int, *rows: ContextMessage) -> ScoredMessage:
    return next(one for one in score_messages(rows, ASKED, limit=100) if one.message_id.int == number)


def test_a_rare_word_counts_more_than_a_common_one():
    assert ranked(row(1, 1, 0, follows=False), row(2, 0, 1, follows=False)) == [2, 1]


def test_both_words_count_more_than_one_of_them_twice():
    assert ranked(row(1, 4, 0, follows=False), row(2, 1, 1, follows=False)) == [2, 1]


def test_shorter_text_with_the_same_words_comes_first():
    assert ranked(row(1, 0, 1, size=40, follows=False), row(2, 0, 1, size=4, follows=False)) == [2, 1]


def test_closer_neighbours_score_higher():
    rows = [row(1, 1, 1, follows=False), row(2), row(3), row(9, follows=False)]
    assert ranked(*rows) == [1, 2, 3, 9]


def test_later_neighbours_count_less_than_earlier_ones():
    assert ranked(row(1, follows=False), row(2, 1, 1), row(3)) == [2, 3, 1]


def test_without_neighbours_only_a_messages_own_words_count():
    rows = [row(1, 1, 1, follows=False), row(2)]
    by_number = {
        one.message_id.int: one.score
        for one in score_messages(rows, ASKED, limit=9, features=ScoringFeatures(neighbours=False))
    }
    assert by_number[1] > by_number[2] == 0.0


def test_messages_of_another_room_do_not_count():
    alone = of(2, row(1, follows=False), row(2, 1, 0, follows=False), row(3, 0, 1, follows=False))
    assert alone.context_coverage == alone.coverage == pytest.approx(0.25)


def test_words_of_neighbours_are_covered_together():
    assert of(2, row(1, 0, 1, follows=False), row(2, 1, 0)).context_coverage == pytest.approx(1.0)


def test_message_outside_the_filter_counts_as_a_neighbour_only():
    rows = [row(1, 1, 1, follows=False, matches_filter=False), row(2), row(3, follows=False)]
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
    assert score_messages([], ASKED, limit=5) == []


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
def test_scores_are_bounded_and_ordered(drawn, most: int):
    rows = [
        row(
            n,
            *(counts or ()),
            follows=follows and n > 0,
            size=size,
            similarity=similarity,
            matches_filter=fits,
        )
        for n, (counts, follows, size, similarity, fits) in enumerate(drawn)
    ]
    found = score_messages(rows, ASKED, limit=most)
    own = [
        one for one in rows if one.matches_filter and (one.counts is not None or one.similarity is not None)
    ]
    assert len(found) == min(most, len(own))
    assert {one.message_id for one in found} <= {one.message_id for one in own}
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert all(0 <= one.score <= 1 + 1e-9 and 0 <= one.context_coverage <= 1 + 1e-9 for one in found)


@given(place=st.integers(0, 12))
def test_match_affects_neighbours_within_reach_only(place: int):
    rows = [row(n, *((1, 1) if n == place else ()), follows=n > 0) for n in range(13)]
    reached = {
        one.message_id.int for one in score_messages(rows, ASKED, limit=99) if one.context_coverage > 0
    }
    assert reached == {n for n in range(13) if abs(n - place) <= CONTEXT_REACH}


def tokens(most: int) -> st.SearchStrategy[TokenVectors]:
    return st.integers(0, most).flatmap(lambda rows: hnp.arrays(np.int8, (rows, TOKEN_BYTES)))


def one_by_one(question: TokenVectors, messages: Sequence[TokenVectors]) -> list[float]:
    """The formula in plain Python."""
    near = [[nearest(asked, message) for message in messages if len(message)] for asked in question]
    weights = [(1 - (sum(row) + 10 * 0.3) / (len(row) + 10)) ** 4 for row in near]
    worded = iter(range(len(messages)))
    return [
        sum(w * row[place] for w, row in zip(weights, near, strict=True)) / sum(weights)
        if len(message) and len(question) and (place := next(worded)) is not None
        else 0.0
        for message in messages
    ]


def nearest(asked: np.ndarray, message: TokenVectors) -> float:
    return max(
        math.cos(math.pi * sum(int(a ^ b).bit_count() for a, b in pairs(asked, said)) / (8 * TOKEN_BYTES))
        for said in message
    )


def pairs(one: TokenVectors, other: TokenVectors) -> list[tuple[int, int]]:
    return list(zip(one.view(np.uint8).tolist(), other.view(np.uint8).tolist(), strict=True))


@settings(max_examples=40)
@given(question=tokens(4), messages=st.lists(tokens(4), max_size=5))
def test_max_similarity_equals_the_plain_formula(question: TokenVectors, messages: list[TokenVectors]):
    found = max_similarity(question, messages)
    assert found.dtype == np.float32
    assert found.tolist() == pytest.approx(one_by_one(question, messages), abs=1e-5)


@settings(max_examples=40)
@given(question=tokens(4), messages=st.lists(tokens(4), max_size=6), data=st.data())
def test_the_order_of_messages_changes_nothing(question: TokenVectors, messages: list[TokenVectors], data):
    order = data.draw(st.permutations(range(len(messages))))
    found = max_similarity(question, messages)
    assert max_similarity(question, [messages[place] for place in order]) == pytest.approx(
        found[order], abs=1e-5
    )


def test_a_word_that_is_in_everything_tells_less_than_one_that_is_in_a_single_message():
    texts = ["tent one", "tent two", "tent three", "four leaks"]
    *messages, question = FakeEmbedder().embed_with_tokens([*texts, "tent leaks"]).tokens or ()
    tents, leak = max_similarity(question, messages)[:3], max_similarity(question, messages)[3]
    assert leak > tents.max()


@settings(max_examples=40)
@given(question=tokens(4), messages=st.lists(tokens(4), max_size=5))
def test_nearness_has_bounds_and_more_tokens_never_make_a_message_less_near(
    question: TokenVectors, messages: list[TokenVectors]
):
    found = max_similarity(question, messages)
    assert (np.abs(found) <= 1 + 1e-6).all()
    for shorter, longer in pairwise(messages):
        if len(shorter):
            both = max_similarity(question, [shorter, np.concatenate([shorter, longer])])
            assert both[1] >= both[0] - 1e-6


def test_message_without_tokens_scores_zero():
    none = np.empty((0, TOKEN_BYTES), np.int8)
    some = np.ones((2, TOKEN_BYTES), np.int8)
    assert max_similarity(some, []).shape == (0,)
    assert max_similarity(some, [none, some, none]).tolist() == pytest.approx([0, 1, 0])
    assert max_similarity(none, [some, none]).tolist() == [0, 0]


def test_opposite_tokens_are_as_far_as_can_be():
    some = np.ones((1, TOKEN_BYTES), np.int8)
    assert max_similarity(some, [~some]).tolist() == pytest.approx([-1])


def test_message_with_every_word_of_the_question_is_nearest():
    texts = ["see you at nine", "the tent leaks", "well, the tent is where we left it last summer, I think"]
    *messages, question = FakeEmbedder().embed_with_tokens([*texts, "where is the tent"]).tokens or ()
    none, half, whole = max_similarity(question, messages).tolist()
    assert whole == pytest.approx(1)
    assert whole > half > none + 0.3
