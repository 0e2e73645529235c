"""The probability that a message answers a question, by the message model, where the earlier message asks something."""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache

from roomlore.models.message_model import MessageInContext, MessageModel, bundled_model

#: The number of pairs whose result is kept. The messages around each new one are read again with it.
KEPT = 8_192
#: The probability of the act, read without context, from which on a message counts as a question. It is lower than the
#: threshold of the act, because the reply is known (docs/decisions/which-replies-form-a-thread.md).
ASKS = 0.3


class AnswerProbabilities:
    """Reads pairs of a question and a message, and keeps the latest results."""

    def __init__(self, model: MessageModel, *, kept: int = KEPT) -> None:
        self._model = model
        self._kept = kept
        self._known: OrderedDict[bytes, float | None] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        """Return for each pair of an earlier and a later text whether the later one answers; None if nothing is asked."""
        keys = [_digest(pair) for pair in pairs]
        with self._lock:
            found = {key: self._known[key] for key in keys if key in self._known}
        missing = {key: pair for key, pair in zip(keys, pairs, strict=True) if key not in found}
        if missing:
            found |= zip(missing, self._read(list(missing.values())), strict=True)
        with self._lock:
            for key in dict.fromkeys(keys):
                self._known[key] = found[key]
                self._known.move_to_end(key)
            while len(self._known) > self._kept:
                self._known.popitem(last=False)
        return [found[key] for key in keys]

    def _read(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        earlier = list(dict.fromkeys(question for question, _ in pairs))
        read = self._model.read([MessageInContext(text=text) for text in earlier])
        asking = {text for text, one in zip(earlier, read, strict=True) if one.acts["question"] >= ASKS}
        asked = [pair for pair in dict.fromkeys(pairs) if pair[0] in asking]
        answers = dict(zip(asked, self._model.answers(asked).tolist(), strict=True)) if asked else {}
        return [answers.get(pair) for pair in pairs]


def _digest(pair: tuple[str, str]) -> bytes:
    """Return a digest, so that no text of an erased message stays in memory."""
    made = hashlib.blake2b(digest_size=16)
    for text in pair:
        words = text.encode("utf-8", "surrogatepass")
        made.update(len(words).to_bytes(8, "big") + words)
    return made.digest()


@lru_cache(maxsize=1)
def load() -> AnswerProbabilities:
    """Return the results of this process.

    Raises:
        ModelUnavailable: The message model is missing or damaged.
    """
    return AnswerProbabilities(bundled_model())
