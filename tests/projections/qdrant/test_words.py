"""Dense and lexical search order their results."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.qdrant.stories import EVERYTHING, EVERYWHERE, facing, point, some_id
from roomlore.domain.errors import BadInput

ALL = {"sight": EVERYTHING, "query_filter": EVERYWHERE}
lexemes = st.dictionaries(st.text(min_size=1, max_size=8), st.integers(1, 10_000), max_size=20)


async def worded(points, copy, *words, wanted=20):
    return [one.message_id for one in await points.search_lexical(copy, words, wanted=wanted, **ALL)]


@pytest.mark.slow
async def test_the_nearest_comes_first_with_its_cosine(points, copy):
    said = [
        point(1, vector=facing(1, 1, 0, 0)),
        point(2, vector=facing(1, 0, 0, 0)),
        point(3, vector=facing(0, 0, 0, 1)),
        point(4, vector=None),
    ]
    await points.put(copy, said)
    near = await points.search_dense(copy, facing(1, 0, 0, 0), wanted=2, **ALL)
    assert [one.message_id for one in near] == [some_id(2), some_id(1)]
    assert [one.score for one in near] == pytest.approx([1.0, 0.5**0.5], abs=1e-6)


async def test_no_more_come_than_are_wanted(points, copy):
    await points.put(copy, [point(number, lexemes={"toner": 1}) for number in range(1, 9)])
    assert len(await points.search_dense(copy, facing(1, 0, 0, 0), wanted=3, **ALL)) == 3
    assert len(await worded(points, copy, "toner", wanted=3)) == 3
    assert await points.search_dense(copy, facing(1, 0, 0, 0), wanted=0, **ALL) == []
    assert await worded(points, copy, "toner", wanted=0) == []


async def test_a_vector_that_is_no_vector_is_the_callers_mistake(points, copy):
    with pytest.raises(BadInput, match="finite"):
        await points.search_dense(copy, np.full(4, np.nan, np.float32), wanted=1, **ALL)


async def test_a_rare_word_weighs_more_than_a_common_one(points, copy):
    common = [point(number, lexemes={"printer": 1, f"word{number}": 1}) for number in range(10, 40)]
    await points.put(copy, [*common, point(1, lexemes={"toner": 1, "word1": 1})])
    assert (await worded(points, copy, "printer", "toner"))[0] == some_id(1)
    assert len(await worded(points, copy, "printer")) == 20


async def test_messages_without_shared_words_are_not_found(points, copy):
    await points.put(copy, [point(1, lexemes={"toner": 1}), point(2, lexemes={})])
    assert await worded(points, copy, "paper") == []
    assert await worded(points, copy) == []
    assert await worded(points, copy, "toner", "toner") == [some_id(1)]


@pytest.mark.slow
async def test_words_of_any_script_are_found(points, copy):
    words = ["тонер", "碳粉", "tónér", "🖨", "nul\0", "half\ud83d"]
    await points.put(copy, [point(number, lexemes={word: 1}) for number, word in enumerate(words, start=1)])
    for number, word in enumerate(words, start=1):
        assert await worded(points, copy, word) == [some_id(number)]


@pytest.mark.usefixtures("server")
@given(lexemes=lexemes)
def test_weights_are_those_of_bm25(lexemes):
    from roomlore.projections.qdrant_connection import AVERAGE_LEXEMES, lexeme_dimension, lexeme_weights  # noqa: PLC0415  needs the extra

    weights = lexeme_weights(lexemes)
    length = sum(lexemes.values())
    for lexeme, count in lexemes.items():
        weight = count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length / AVERAGE_LEXEMES))
        assert weights[lexeme_dimension(lexeme)] == pytest.approx(weight)
        assert 0 <= lexeme_dimension(lexeme) < 2**32


@pytest.mark.usefixtures("server")
def test_words_keep_their_places_for_copies_outlive_programs():
    from roomlore.projections.qdrant_connection import lexeme_dimension  # noqa: PLC0415  needs the extra

    assert [lexeme_dimension(word) for word in ("toner", "碳粉")] == [1866397205, 1898227729]
