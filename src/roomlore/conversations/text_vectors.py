"""The vectors of message texts, by the bundled embedding model; the conversation model compares them."""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np

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
        self._kept = kept
        self._known: OrderedDict[bytes, Vectors] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector per text, in order."""
        # Digests, so that no text of an erased message stays in memory.
        keys = [
            hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() for text in texts
        ]
        with self._lock:
            found = {key: self._known[key] for key in keys if key in self._known}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if missing:
            found |= zip(missing, self._embedder.embed(list(missing.values())), strict=True)
        with self._lock:
            for key in dict.fromkeys(keys):
                self._known[key] = found[key]
                self._known.move_to_end(key)
            while len(self._known) > self._kept:
                self._known.popitem(last=False)
        return np.stack([found[key] for key in keys])


@lru_cache(maxsize=1)
def load() -> TextVectors:
    """Return the vectors of this process.

    Raises:
        ModelUnavailable: The bundled embedding model is missing or changed.
    """
    return TextVectors(bundled_embedder())
