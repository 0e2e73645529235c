"""Caches the latest results that were computed from texts, without keeping the texts."""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class RecentResults(Generic[Item, Result]):
    """Computes a result for each item, and caches the latest results. Several threads may share one cache."""

    def __init__(
        self,
        compute: Callable[[list[Item]], Iterable[Result]],
        *,
        texts: Callable[[Item], Sequence[str]],
        kept: int,
    ) -> None:
        """Create a cache of at most `kept` results.

        Args:
            compute: Returns one result per item, in order.
            texts: Returns the texts that identify an item.
            kept: The maximum number of results that are kept.
        """
        self._compute = compute
        self._texts = texts
        self._kept = kept
        self._known: OrderedDict[bytes, Result] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, items: Sequence[Item]) -> list[Result]:
        """Return the result for each item, in order."""
        keys = [_digest(self._texts(item)) for item in items]
        with self._lock:
            found = {key: self._known[key] for key in keys if key in self._known}
        missing = {key: item for key, item in zip(keys, items, strict=True) if key not in found}
        if missing:
            found |= zip(missing, self._compute(list(missing.values())), strict=True)
        self._keep({key: found[key] for key in keys})
        return [found[key] for key in keys]

    def add(self, items: Sequence[Item], results: Sequence[Result]) -> None:
        """Cache results that were computed elsewhere, one per item."""
        keys = [_digest(self._texts(item)) for item in items]
        self._keep(dict(zip(keys, results, strict=True)))

    def _keep(self, results: Mapping[bytes, Result]) -> None:
        with self._lock:
            for key, result in results.items():
                self._known[key] = result
                self._known.move_to_end(key)
            while len(self._known) > self._kept:
                self._known.popitem(last=False)


def _digest(texts: Sequence[str]) -> bytes:
    """Return a digest of texts. The cache keeps digests, so that no text of an erased message stays in memory."""
    made = hashlib.blake2b(digest_size=16)
    for text in texts:
        content = text.encode("utf-8", "surrogatepass")
        made.update(len(content).to_bytes(8, "big") + content)
    return made.digest()
