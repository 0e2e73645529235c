"""Keeps the states of texts, so that training computes only the top layers."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from roomlore.models.local_embedding import LocalEmbedder
from roomlore.models.message_model import TEXT_TOKENS

Array = np.ndarray[Any, np.dtype[Any]]
_PART = 2_048


class States:
    """The states of the tokens of texts, each computed once and kept in files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, Array] = {}
        folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(folder.glob("*.npz")):
            with np.load(path, allow_pickle=False) as stored:
                parts = np.split(stored["states"], np.cumsum(stored["lengths"])[:-1])
                self._known.update(zip(stored["digests"].tolist(), parts, strict=True))

    def add(self, texts: Iterable[str]) -> None:
        """Compute the states of all texts that are not known yet."""
        missing = [text for text in dict.fromkeys(texts) if _digest(text) not in self._known]
        embedder = LocalEmbedder.load() if missing else None
        for start in range(0, len(missing), _PART):
            part = missing[start : start + _PART]
            assert embedder is not None
            found = [states[:TEXT_TOKENS].astype(np.float16) for states in embedder.token_states(part)]
            digests = [_digest(text) for text in part]
            self._known.update(zip(digests, found, strict=True))
            np.savez(
                self._folder / f"{_digest(' '.join(digests))}.npz",
                digests=digests,
                states=np.concatenate(found),
                lengths=[len(states) for states in found],
            )
            print(f"states of {start + len(part)} of {len(missing)} texts", flush=True)  # noqa: T201  progress

    def of(self, text: str) -> Array:
        """Return the states of a text, one row per token."""
        return self._known[_digest(text)]


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
