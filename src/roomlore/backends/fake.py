"""Stand-ins for models, for tests and for demos without one.

They ship with the package so that whoever builds on Roomlore can test without a real model.
"""

import hashlib
import re
from collections.abc import Sequence

import numpy as np

from roomlore.domain.ports import Vectors

_WORD = re.compile(r"\w+")
#: Places that one word marks: with several, two words seldom look alike by accident.
_MARKS = 8


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

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one row of length one per text, in the order given."""
        vectors = np.zeros((len(texts), self._dimensions), np.float64)
        for vector, text in zip(vectors, texts, strict=True):
            for word in _WORD.findall(text.casefold()) or [""]:
                self._mark(vector, word)
            if not vector.any():  # marks can cancel out where there are few dimensions
                vector[0] = 1.0
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)

    def _mark(self, vector: np.ndarray[tuple[int], np.dtype[np.float64]], word: str) -> None:
        digest = hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=4 * _MARKS).digest()
        marks = np.frombuffer(digest, "<u4")
        np.add.at(vector, (marks >> 1) % self._dimensions, np.where(marks & 1, 1.0, -1.0))
