import numpy as np
import pytest

from roomlore.models.fake import FakeEmbedder


def test_the_name_of_the_space_tells_its_size():
    assert FakeEmbedder().model_id == "fake-hash-384"
    assert FakeEmbedder(64).model_id == "fake-hash-64"
    assert FakeEmbedder(64).embed(["a"]).shape == (1, 64)


def test_case_order_and_punctuation_do_not_count():
    first, second = FakeEmbedder().embed(["Pack the TENT!", "tent: the pack"])
    assert np.array_equal(first, second)


def test_nearness_grows_with_the_words_shared():
    base, three, one, none = FakeEmbedder().embed(
        ["red green blue black", "red green blue white", "red oak elm ash", "six seven eight nine"]
    )
    assert base @ three > base @ one > base @ none
    assert abs(base @ none) < 0.3


def test_vectors_do_not_change_from_one_process_to_the_next():
    vector = FakeEmbedder(16).embed(["hello room"])[0]
    marks = [0, 0, -3, 1, -2, 1, 0, 0, 0, 1, 0, -2, -2, -1, 1, 0]
    assert vector.tolist() == pytest.approx([mark / 26**0.5 for mark in marks], abs=1e-7)


def test_one_dimension_still_gives_vectors_of_length_one():
    assert np.abs(FakeEmbedder(1).embed([f"word {n}" for n in range(50)])).ravel().tolist() == [1.0] * 50


def test_each_word_has_a_vector_in_order():
    tokens = FakeEmbedder().embed_with_tokens(["Pack the TENT!", "the tent, the pack"]).tokens
    assert tokens is not None
    first, second = tokens
    assert np.array_equal(first[[1, 2, 1, 0]], second)
    assert len(np.unique(second, axis=0)) == 3
