import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.baselines import (
    BM25,
    BM25_WINDOW,
    DENSE,
    FUSION,
    K1,
    RRF,
    RRF_ALL,
    RRF_K,
    B,
    BaselineRoom,
    Document,
    Query,
    Scored,
    rank_fusion,
    score_fusion,
)

NORTH, EAST = np.array([0.0, 1.0], np.float32), np.array([1.0, 0.0], np.float32)


def document(message_id: str, *stems: str, vector=None) -> Document:
    return Document(message_id=message_id, stems={stem: stems.count(stem) for stem in stems}, vector=vector)


def room(*documents: Document) -> BaselineRoom:
    return BaselineRoom(documents, dimensions=2)


CAMP = room(
    document("m1", "ana", "tent", vector=NORTH),
    document("m2", "bo", "boat", "boat", "key", vector=EAST),
    document("m3", "ana", "key", vector=EAST),
    document("m4", "cy", "lake", vector=NORTH),
)


def values(*numbers: float) -> Scored:
    return Scored(values=np.array(numbers, np.float64), confidence=max(numbers))


# BM25


def test_bm25_worked_out_by_hand():
    found = CAMP.bm25(["boat", "key"], count=4)
    usual = 10 / 4
    boat = math.log(1 + (4 - 1 + 0.5) / 1.5) * 2 / (2 + 1.5 * (0.25 + 0.75 * 4 / usual))
    key = math.log(1 + (4 - 2 + 0.5) / 2.5)
    assert found.values[0] == 0
    assert found.values[1] == pytest.approx(boat + key / (1 + 1.5 * (0.25 + 0.75 * 4 / usual)))
    assert found.values[2] == pytest.approx(key / (1 + 1.5 * (0.25 + 0.75 * 2 / usual)))
    most = math.log(1 + (4 - 1 + 0.5) / 1.5) + key
    assert found.confidence == pytest.approx(found.values.max() / most)


words = st.lists(st.sampled_from("abcdef"), max_size=6)


@given(st.lists(words, min_size=1, max_size=8), st.sets(st.sampled_from("abcxyz")), st.data())
def test_bm25_is_its_formula_over_what_was_said_until_then(texts, stems, data):
    count = data.draw(st.integers(1, len(texts)))
    made = room(*(document(f"m{place}", *text) for place, text in enumerate(texts)))
    said = texts[:count]
    usual = sum(map(len, said)) / count
    expected = np.zeros(count)
    for stem in stems:
        having = sum(stem in text for text in said)
        for place, text in enumerate(said):
            if stem in text:
                often = text.count(stem)
                rarity = math.log(1 + (count - having + 0.5) / (having + 0.5))
                damping = K1 * (1 - B + B * len(text) / usual)
                expected[place] += rarity * often / (often + damping)
    found = made.bm25(stems, count=count)
    assert found.values == pytest.approx(expected)
    assert 0 <= found.confidence <= 1


def test_a_line_is_found_by_the_words_of_the_lines_beside_it():
    assert CAMP.find(Query(stems=["lake"], vector=None))[BM25].ranked == ["m4"]
    assert set(CAMP.find(Query(stems=["lake"], vector=None))[BM25_WINDOW].ranked) == {"m3", "m4"}


def test_what_came_after_the_question_is_not_there_yet():
    asked = Query(stems=["key", "lake"], vector=NORTH, last_message_id="m2")
    alone = room(
        document("m1", "ana", "tent", vector=NORTH), document("m2", "bo", "boat", "boat", "key", vector=EAST)
    )
    then = CAMP.find(asked)
    assert then == alone.find(Query(stems=["key", "lake"], vector=NORTH))
    assert {message for found in then.values() for message in found.ranked} <= {"m1", "m2"}


def test_a_last_message_of_another_room_is_an_error():
    with pytest.raises(KeyError):
        CAMP.find(Query(stems=["key"], vector=None, last_message_id="elsewhere"))


def test_words_that_nobody_said_find_nothing():
    found = CAMP.find(Query(stems=["sun"], vector=None))
    assert (found[BM25].ranked, found[BM25].confidence) == ([], 0)
    assert CAMP.find(Query(stems=[], vector=None))[BM25].confidence == 0


def test_a_room_of_empty_messages_finds_nothing():
    assert room(document("m1"), document("m2")).find(Query(stems=["a"], vector=NORTH))[FUSION].ranked == []


# Vectors, and what is made of both


def test_without_a_vector_only_words_are_compared():
    assert set(CAMP.find(Query(stems=["key"], vector=None))) == {BM25, BM25_WINDOW}
    assert set(CAMP.find(Query(stems=["key"], vector=NORTH))) == {
        BM25,
        BM25_WINDOW,
        DENSE,
        RRF,
        FUSION,
        RRF_ALL,
    }


def test_dense_is_the_cosine_and_a_message_without_a_vector_is_nowhere():
    found = room(document("m1", vector=EAST), document("m2"), document("m3", vector=NORTH)).dense(
        NORTH, count=3
    )
    assert found.values.tolist() == [0, 0, 1]
    assert found.confidence == 1


def test_rank_fusion_adds_reciprocal_ranks_of_what_each_method_finds():
    fused = rank_fusion([values(3, 2, 0), values(0, 5, 0)])
    assert fused.values == pytest.approx([1 / (RRF_K + 1), 1 / (RRF_K + 2) + 1 / (RRF_K + 1), 0])
    assert fused.confidence == pytest.approx(fused.values[1])


def test_score_fusion_is_the_mean_of_scaled_scores():
    fused = score_fusion(values(0, 5, 10), values(0.2, 0.6, 0.4))
    assert fused.values == pytest.approx([0, 0.75, 0.75])
    assert fused.confidence == pytest.approx((10 + 0.6) / 2)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=9), st.data())
def test_fused_scores_stay_between_nothing_and_one(numbers, data):
    other = data.draw(st.lists(st.floats(-1, 1), min_size=len(numbers), max_size=len(numbers)))
    fused = score_fusion(values(*numbers), values(*other)).values
    assert ((fused >= 0) & (fused <= 1)).all()
