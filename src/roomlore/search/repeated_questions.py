"""Detects what only repeats a question, so that it ranks below what may answer it.

The message model and the bundled embedding model read the first few messages, outside any database connection.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from roomlore.domain.errors import ModelUnavailable, TextRefused
from roomlore.domain.ids import MessageId
from roomlore.domain.records import Message
from roomlore.models.local_embedding import LocalEmbedder, bundled_embedder
from roomlore.models.message_model import MessageInContext, MessageModel, bundled_model
from roomlore.search.quotes import Quote
from roomlore.search.records import Hit

#: The number of threads whose best message is read.
THREADS_READ = 5
#: The cosine from which on two questions ask the same (docs/decisions/search-returns-threads.md).
SAME_QUESTION = 0.82
#: The probability of the act from which on a text asks.
ASKS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class RepetitionReader:
    """Reads which messages only repeat a question."""

    embedder: LocalEmbedder
    model: MessageModel

    def repeating(self, question: str, messages: Sequence[Message]) -> set[MessageId]:
        """Return the messages that ask the same as a question; empty if it asks nothing."""
        said = [message for message in messages if message.body.strip()]
        if not said:
            return set()
        vectors = self.embedder.embed([question, *(message.body for message in said)])
        same = vectors[1:] @ vectors[0] >= SAME_QUESTION
        near = [message for message, is_same in zip(said, same, strict=True) if is_same]
        if not near:
            return set()
        read = self.model.read(
            [MessageInContext(text=text) for text in (question, *(one.body for one in near))]
        )
        asks = [one.acts["question"] >= ASKS for one in read]
        return {one.id for one, is_asking in zip(near, asks[1:], strict=True) if asks[0] and is_asking}


def rank_repetitions_last(question: str, hits: Sequence[Hit]) -> list[Hit]:
    """Return hits with those that only repeat the question after the others among the first ones."""
    first, rest = hits[:THREADS_READ], hits[THREADS_READ:]
    unanswered = {hit.best.id: hit.best for hit in first if not _is_answered(hit)}
    repeating = _repeating(question, list(unanswered.values()))
    return [*sorted(first, key=lambda hit: hit.best.id in repeating), *rest]


def without_repetitions(question: str, quotes: Sequence[Quote]) -> list[Quote]:
    """Return quotes without those that only repeat the question and have no answer."""
    unanswered = [quote.message for quote in quotes if not quote.answers]
    repeating = _repeating(question, unanswered)
    return [quote for quote in quotes if quote.answers or quote.message.id not in repeating]


def _is_answered(hit: Hit) -> bool:
    return any(edge.parent_id == hit.best.id for edge in hit.replies)


def _repeating(question: str, messages: Sequence[Message]) -> Collection[MessageId]:
    if not messages:
        return ()
    try:
        return RepetitionReader(embedder=bundled_embedder(), model=bundled_model()).repeating(
            question, messages
        )
    except (ModelUnavailable, TextRefused):
        return ()
