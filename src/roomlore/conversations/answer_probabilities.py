"""The probability that a message answers a question, by the message model, where the earlier message asks something."""

from collections.abc import Sequence
from functools import lru_cache

from roomlore.conversations.recent_results import RecentResults, Texts
from roomlore.models.message_model import MessageInContext, MessageModel, bundled_model

#: The number of pairs whose result is kept. The messages around each new one are read again with it.
KEPT = 8_192
#: The probability of the act, read without context, from which on a message counts as a question. It is lower than the
#: threshold of the act, because the reply is known (docs/decisions/which-replies-form-a-thread.md).
QUESTION_THRESHOLD = 0.3


class AnswerProbabilities:
    """Reads pairs of a question and a message, and keeps the latest results."""

    def __init__(self, model: MessageModel, *, kept: int = KEPT) -> None:
        self._model = model
        self._results = RecentResults[float | None](self._read, kept=kept)

    def of(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        """Return for each pair of an earlier and a later text whether the later one answers; None if nothing is asked."""
        return self._results.of(pairs)

    def _read(self, pairs: list[Texts]) -> list[float | None]:
        earlier = list(dict.fromkeys(question for question, _ in pairs))
        read = self._model.read([MessageInContext(text=text) for text in earlier])
        asking = {
            text
            for text, one in zip(earlier, read, strict=True)
            if one.acts["question"] >= QUESTION_THRESHOLD
        }
        asked = [(question, answer) for question, answer in pairs if question in asking]
        answers = dict(zip(asked, self._model.answers(asked).tolist(), strict=True)) if asked else {}
        return [answers.get((question, answer)) for question, answer in pairs]


@lru_cache(maxsize=1)
def load() -> AnswerProbabilities:
    """Return the results of this process.

    Raises:
        ModelUnavailable: The message model is missing or damaged.
    """
    return AnswerProbabilities(bundled_model())
