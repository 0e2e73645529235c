"""What every embedder promises, run on each of them."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.embeddingserver import embedding_server
from roomlore.domain.ports import Embedder
from roomlore.domain.vectors import TOKEN_BYTES, TokenVectors
from roomlore.models.fake import FakeEmbedder
from roomlore.models.http_models import open_http_embedder

ODD_TEXTS = [
    *("", " \n\t ", "\x00", "before\x00after", "lone \ud800 surrogate", "😀" * 40),
    *("👩‍👩‍👧‍👦 with joiners", "日本語のメッセージ", "مرحبا بالجميع", "e\u0301 and \ufb01 and \u00ad"),
    *("[SEP] [MASK] [CLS] [PAD]", "x" * 5000, "https://example.org/" + "a/" * 300),
    *("word " * 20_000, "\n" * 50_000 + "late"),
]
CHAT = [
    f"{name}: {text}"
    for name in ("Ana", "Bo")
    for text in ("ok", "see you at nine", "why? " * 30, "no " * 90)
]


@pytest.fixture(scope="module")
def http():
    with embedding_server() as server:
        yield open_http_embedder(server.url, "small")


@pytest.fixture(params=["local", "fake", "http"])
def embedder(request):
    """Every implementation of the port in turn."""
    return FakeEmbedder() if request.param == "fake" else request.getfixturevalue(request.param)


@pytest.fixture(params=["local", "fake"])
def giver(request):
    """Every one that gives tokens; the protocol of the other has none."""
    return FakeEmbedder() if request.param == "fake" else request.getfixturevalue(request.param)


def tokens_of(embedder: Embedder, texts: list[str]) -> list[TokenVectors]:
    found = embedder.embed_with_tokens(texts).tokens
    assert found is not None
    return list(found)


@pytest.mark.slow
@pytest.mark.sampled(1)
def test_vectors_are_unit_rows_in_order_whatever_other_texts_there_are(embedder: Embedder):
    texts = CHAT + ODD_TEXTS
    vectors = embedder.embed(texts)
    assert embedder.model_id
    assert embedder.dimensions == 384
    assert vectors.shape == (len(texts), 384)
    assert vectors.dtype == np.float32
    assert np.isfinite(vectors).all()
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)
    assert np.array_equal(embedder.embed(texts[::-1])[::-1], vectors)
    assert np.array_equal(np.concatenate([embedder.embed([text]) for text in texts]), vectors)
    assert np.array_equal(embedder.embed_with_tokens(texts).vectors, vectors)
    assert embedder.embed([]).shape == (0, 384)


@pytest.mark.sampled(1)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text(max_size=80), min_size=1, max_size=8), data=st.data())
def test_any_texts_in_any_company_give_the_same_bits(embedder: Embedder, texts, data):
    together = embedder.embed(texts)
    order = data.draw(st.permutations(range(len(texts))))
    cut = data.draw(st.integers(0, len(texts)))
    shuffled = [texts[i] for i in order]
    parts = np.concatenate([embedder.embed(shuffled[:cut]), embedder.embed(shuffled[cut:])])
    assert np.array_equal(parts, together[order])


def test_texts_with_shared_words_are_closer(embedder: Embedder):
    near, other, far = embedder.embed(
        ["the tent leaks when it rains", "our tent leaks in the rain", "please review invoice 88 by Friday"]
    )
    assert near @ other > near @ far + 0.2


@pytest.mark.slow
def test_several_threads_may_embed_at_once(embedder: Embedder):
    texts = [text for number in range(6) for text in (f"number {number}", f"and then {number} " * number * 5)]
    expected = embedder.embed(texts)
    with ThreadPoolExecutor(4) as threads:
        for vectors in threads.map(embedder.embed, [texts] * 8):
            assert np.array_equal(vectors, expected)


@pytest.mark.slow
def test_every_token_is_a_row_of_bits_and_long_texts_have_no_more_than_128(giver: Embedder):
    assert giver.has_token_vectors
    assert tokens_of(giver, []) == []
    found = tokens_of(giver, CHAT + ODD_TEXTS)
    assert len(found) == len(CHAT + ODD_TEXTS)
    assert {(each.dtype, each.shape[1]) for each in found} == {(np.dtype(np.int8), TOKEN_BYTES)}
    assert max(map(len, found)) == 128
    assert [len(each) for each in tokens_of(giver, ["", "Ana: ok", "why not"])][::2] == [0, 2]


@pytest.mark.slow
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text(max_size=80), min_size=1, max_size=8), data=st.data())
def test_any_texts_in_any_company_give_the_same_tokens(giver: Embedder, texts, data):
    together = tokens_of(giver, texts)
    for place in data.draw(st.permutations(range(len(texts)))):
        (alone,) = tokens_of(giver, [texts[place]])
        assert np.array_equal(alone, together[place])
