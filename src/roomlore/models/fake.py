"""Stand-ins for models, for tests and for demos without one.

They ship with the package so that whoever builds on Roomlore can test without a real model.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.ports import TextEmbeddings
from roomlore.domain.vectors import TOKEN_BYTES, TokenVectors, Vectors

_WORD = lazy_pattern(r"\w+")
#: Places that one word marks: with several, two words seldom look alike by accident.
_MARKS = 8
#: Words that get a vector each.
_MOST_TOKENS = 128


class FakeEmbedder:
    """Embeds texts as bags of hashed words: texts are near as far as they share words, meaning plays no part."""

    def __init__(self, dimensions: int = 384) -> None:
        self._dimensions = dimensions

    @property
    def model_id(self) -> str:
        """Name of the vector space; vectors of different ids are never compared."""
        return f"fake-hash-{self._dimensions}"

    @property
    def dimensions(self) -> int:
        """Length of each vector."""
        return self._dimensions

    @property
    def has_token_vectors(self) -> bool:
        """Whether `read` gives token vectors."""
        return True

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one row of length one per text, in the order given."""
        return _bag_vectors([_words(text) or [""] for text in texts], self._dimensions).astype(np.float32)

    def embed_with_tokens(self, texts: Sequence[str]) -> TextEmbeddings:
        """Return what `embed` returns and a vector for each word: equal for equal words, unlike for others."""
        return TextEmbeddings(vectors=self.embed(texts), tokens=[_word_vectors(text) for text in texts])


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _word_vectors(text: str) -> TokenVectors:
    bits = b"".join(_hash(word, TOKEN_BYTES) for word in _words(text)[:_MOST_TOKENS])
    return np.frombuffer(bits, np.int8).reshape(-1, TOKEN_BYTES)


def _bag_vectors(bags: Sequence[Sequence[str]], dimensions: int) -> NDArray[np.float64]:
    """Return one row of length one per bag of words."""
    vectors = np.zeros((len(bags), dimensions), np.float64)
    for vector, words in zip(vectors, bags, strict=True):
        for word in words:
            _add_word(vector, word)
        if not vector.any():  # marks can cancel out where there are few dimensions
            vector[0] = 1.0
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _add_word(vector: NDArray[np.float64], word: str) -> None:
    marks = np.frombuffer(_hash(word, 4 * _MARKS), "<u4")
    np.add.at(vector, (marks >> 1) % len(vector), np.where(marks & 1, 1.0, -1.0))


def _hash(word: str, size: int) -> bytes:
    return hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=size).digest()
