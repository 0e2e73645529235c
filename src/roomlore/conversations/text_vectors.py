"""Computes the vectors of message texts that the conversation model compares, with the bundled embedding model."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np

from roomlore.domain.vectors import Vectors
from roomlore.models.local_embedding import bundled_embedder
from roomlore.models.recent_results import RecentResults

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
        self._results = RecentResults[str, Vectors](embedder.embed, texts=lambda text: [text], kept=kept)

    def of(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector per text, in order."""
        return np.stack(self._results.of(texts))


@lru_cache(maxsize=1)
def load() -> TextVectors:
    """Return the `TextVectors` that this process shares.

    Raises:
        ModelUnavailable: The bundled embedding model is missing or changed.
    """
    return TextVectors(bundled_embedder())
