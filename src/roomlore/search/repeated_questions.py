"""Detects messages that only repeat a question. They rank below messages that may answer it.

The message model and the bundled embedding model read the first few messages, outside any database connection.
"""

from collections.abc import Sequence

from roomlore.domain.errors import ModelUnavailable, TextRefused
from roomlore.domain.ids import MessageId
from roomlore.domain.records import Message
from roomlore.models.local_embedding import bundled_embedder
from roomlore.models.message_model import MessageInContext, bundled_model
from roomlore.search.quotes import Quote
from roomlore.search.records import Hit

#: The number of hits whose best message is read.
HITS_READ = 5
#: The lowest cosine of two questions that ask the same (docs/decisions/search-returns-threads.md).
SAME_QUESTION = 0.82
#: The lowest probability of the act `question` at which a text counts as a question.
QUESTION_THRESHOLD = 0.5


def rank_repetitions_last(question: str, hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits in a new order: of the first `HITS_READ` hits, those that only repeat the question come last.

    A hit only repeats the question if its best message asks the same and has no reply.
    """
    first, rest = hits[:HITS_READ], hits[HITS_READ:]
    unanswered = {hit.best.id: hit.best for hit in first if not _is_answered(hit)}
    repeating = _repeating(question, list(unanswered.values()))
    return [*sorted(first, key=lambda hit: hit.best.id in repeating), *rest]


def without_repetitions(question: str, quotes: Sequence[Quote]) -> list[Quote]:
    """Return the quotes without quotes that repeat the question and have no answer."""
    unanswered = [quote.message for quote in quotes if not quote.answers]
    repeating = _repeating(question, unanswered)
    return [quote for quote in quotes if quote.answers or quote.message.id not in repeating]


def _is_answered(hit: Hit) -> bool:
    return any(edge.parent_id == hit.best.id for edge in hit.replies)


def _repeating(question: str, messages: Sequence[Message]) -> set[MessageId]:
    """Return the ids of the messages that ask the same as a question.

    The result is empty if `question` is not a question, or if the models cannot be used.
    """
    said = [message for message in messages if message.body.strip()]
    try:
        near = _similar(question, said) if said else []
        return _asking(question, near) if near else set()
    except (ModelUnavailable, TextRefused):
        return set()


def _similar(question: str, messages: Sequence[Message]) -> list[Message]:
    vectors = bundled_embedder().embed([question, *(message.body for message in messages)])
    same = vectors[1:] @ vectors[0] >= SAME_QUESTION
    return [message for message, is_same in zip(messages, same, strict=True) if is_same]


def _asking(question: str, messages: Sequence[Message]) -> set[MessageId]:
    """Return the ids of the messages that ask something; empty if `question` is not a question."""
    texts = [question, *(message.body for message in messages)]
    read = bundled_model().read([MessageInContext(text=text) for text in texts])
    asks = [one.acts["question"] >= QUESTION_THRESHOLD for one in read]
    return {one.id for one, is_asking in zip(messages, asks[1:], strict=True) if asks[0] and is_asking}
