"""A question and messages, compared token by token."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from roomlore.domain.vectors import TOKEN_BYTES, TokenVectors
from roomlore.models.fake import FakeEmbedder
from roomlore.search.late_interaction import max_similarity


def tokens(most: int) -> st.SearchStrategy[TokenVectors]:
    return st.integers(0, most).flatmap(lambda rows: hnp.arrays(np.int8, (rows, TOKEN_BYTES)))


def one_by_one(question: TokenVectors, messages: Sequence[TokenVectors]) -> list[float]:
    """The same, token by token and sign by sign."""
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


@given(question=tokens(4), messages=st.lists(tokens(4), max_size=5))
def test_it_is_what_comparing_token_by_token_gives(question: TokenVectors, messages: list[TokenVectors]):
    found = max_similarity(question, messages)
    assert found.dtype == np.float32
    assert found.tolist() == pytest.approx(one_by_one(question, messages), abs=1e-5)


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


def test_what_has_no_tokens_is_neither_near_nor_far():
    none = np.empty((0, TOKEN_BYTES), np.int8)
    some = np.ones((2, TOKEN_BYTES), np.int8)
    assert max_similarity(some, []).shape == (0,)
    assert max_similarity(some, [none, some, none]).tolist() == pytest.approx([0, 1, 0])
    assert max_similarity(none, [some, none]).tolist() == [0, 0]


def test_opposite_tokens_are_as_far_as_can_be():
    some = np.ones((1, TOKEN_BYTES), np.int8)
    assert max_similarity(some, [~some]).tolist() == pytest.approx([-1])


def test_the_message_that_has_every_word_of_the_question_is_nearest_whatever_else_it_says():
    texts = ["see you at nine", "the tent leaks", "well, the tent is where we left it last summer, I think"]
    *messages, question = FakeEmbedder().embed_with_tokens([*texts, "where is the tent"]).tokens or ()
    none, half, whole = max_similarity(question, messages).tolist()
    assert whole == pytest.approx(1)
    assert whole > half > none + 0.3
