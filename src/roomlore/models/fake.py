"""Fake models for tests and demos. Applications that are built on Roomlore may use them, too."""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.ports import TextEmbeddings
from roomlore.domain.vectors import TOKEN_BYTES, TokenVectors, Vectors

_WORD = lazy_pattern(r"\w+")
#: The number of dimensions that one word changes. Because there are several, two words rarely change the same
#: dimensions.
_MARKS = 8
#: The maximum number of words of a text that get a token vector.
_MOST_TOKENS = 128


class FakeEmbedder:
    """Embeds a text as a bag of hashed words, so that texts are close if they share words."""

    def __init__(self, dimensions: int = 384) -> None:
        self._dimensions = dimensions

    @property
    def model_id(self) -> str:
        """Name of the vector space."""
        return f"fake-hash-{self._dimensions}"

    @property
    def dimensions(self) -> int:
        """Length of each vector."""
        return self._dimensions

    @property
    def has_token_vectors(self) -> bool:
        """Whether `embed_with_tokens` returns token vectors: True."""
        return True

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector per text, in order."""
        return _bag_vectors([_words(text) or [""] for text in texts], self._dimensions).astype(np.float32)

    def embed_with_tokens(self, texts: Sequence[str]) -> TextEmbeddings:
        """Return the vectors of texts, and of the words in each."""
        return TextEmbeddings(vectors=self.embed(texts), tokens=[_word_vectors(text) for text in texts])


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _word_vectors(text: str) -> TokenVectors:
    bits = b"".join(_hash(word, TOKEN_BYTES) for word in _words(text)[:_MOST_TOKENS])
    return np.frombuffer(bits, np.int8).reshape(-1, TOKEN_BYTES)


def _bag_vectors(bags: Sequence[Sequence[str]], dimensions: int) -> NDArray[np.float64]:
    """Return one unit vector per bag of words."""
    vectors = np.zeros((len(bags), dimensions), np.float64)
    for vector, words in zip(vectors, bags, strict=True):
        for word in words:
            _add_word(vector, word)
        if not vector.any():  # With few dimensions, marks can cancel each other out.
            vector[0] = 1.0
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _add_word(vector: NDArray[np.float64], word: str) -> None:
    marks = np.frombuffer(_hash(word, 4 * _MARKS), "<u4")
    np.add.at(vector, (marks >> 1) % len(vector), np.where(marks & 1, 1.0, -1.0))


def _hash(word: str, size: int) -> bytes:
    return hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=size).digest()
