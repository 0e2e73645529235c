"""The vectors of message texts, by the bundled embedding model; the conversation model compares them."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np

from roomlore.conversations.recent_results import RecentResults, Texts
from roomlore.domain.vectors import Vectors
from roomlore.models.local_embedding import bundled_embedder

#: The number of vectors that are kept: 12 MB.
KEPT = 8_192


class TextEmbedder(Protocol):
    """Makes vectors of texts."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector per text, in order."""
        ...


class TextVectors:
    """Embeds texts and keeps the latest vectors, because each message is compared with the 100 messages after it."""

    def __init__(self, embedder: TextEmbedder, *, kept: int = KEPT) -> None:
        self._embedder = embedder
        self._results = RecentResults[Vectors](self._embed, kept=kept)

    def of(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector per text, in order."""
        return np.stack(self._results.of([(text,) for text in texts]))

    def _embed(self, items: list[Texts]) -> Vectors:
        return self._embedder.embed([text for (text,) in items])


@lru_cache(maxsize=1)
def load() -> TextVectors:
    """Return the vectors of this process.

    Raises:
        ModelUnavailable: The bundled embedding model is missing or changed.
    """
    return TextVectors(bundled_embedder())
