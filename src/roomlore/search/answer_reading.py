"""Reads the best messages of a search together with the question, to find out which of them answers it, and if any does.

Words and vectors find messages about the same things. Only reading tells whether a message says what was asked, and of
whom. The answer model reads each message with its author and with the messages before it in the thread.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from roomlore.domain.errors import ModelUnavailable, TextRefused
from roomlore.domain.ids import MessageId
from roomlore.models.answer_model import CONTEXT, CandidateAnswer, author_and_text, bundled_answer_model
from roomlore.search.confidence import Confidence
from roomlore.search.quotes import quoted_answers
from roomlore.search.ranking import unit_range
from roomlore.search.records import Hit, MatchReason

#: The number of best messages that are read.
MESSAGES_READ = 8
#: The weight of the search's score (scaled to 0..1) beside the log-odds of the model, in the order of the messages read.
SEARCH_WEIGHT = 4.0
#: The log-odds that a question is answered: weights of how far the search's confidence exceeds its threshold and of the
#: highest log-odds of a message, and a constant (docs/decisions/search-reads-its-best-messages.md).
CONFIDENCE_WEIGHT, ANSWER_WEIGHT, CONSTANT = 8.0, 0.5, 0.58
#: Lower log-odds count as this in the confidence: no single message answers a request for a summary.
LOWEST = -1.5
#: The lowest confidence of an answer where messages were read.
READ_THRESHOLD = 0.5


def read_answers(question: str, hits: Sequence[Hit], found: Confidence) -> tuple[list[Hit], Confidence]:
    """Return the hits in a new order with new scores, and the confidence that one of them answers.

    The new scores keep the range of the old scores. If the model is unavailable, nothing changes.
    """
    best = _best_messages(hits)
    pairs = [pair for hit in hits for pair in _candidates(hit, best)]
    if not pairs or found.value is None:
        return list(hits), found
    try:
        read = bundled_answer_model().scores(question, [candidate for _, candidate in pairs])
    except (ModelUnavailable, TextRefused):
        return list(hits), found
    log_odds: dict[MessageId, float] = {}
    for (key, _), value in zip(pairs, read.tolist(), strict=True):
        log_odds[key] = max(value, log_odds.get(key, value))
    sure = _confidence(found.value, found.threshold, max(log_odds.values()))
    return _with_scores(hits, log_odds), sure


def _best_messages(hits: Sequence[Hit]) -> set[MessageId]:
    scores = {key: why.score for hit in hits for key, why in hit.why.items()}
    return set(sorted(scores, key=lambda key: (-scores[key], key))[:MESSAGES_READ])


def _candidates(hit: Hit, best: Collection[MessageId]) -> Iterator[tuple[MessageId, CandidateAnswer]]:
    """Yield each of the best messages of a thread with what is read for it: the message, and its first answer.

    So a question ranks as high as the answer that is quoted with it.
    """
    said = [author_and_text(message.author_name, message.body) for message in hit.messages]
    for place, message in enumerate(hit.messages):
        if message.id in best:
            before = tuple(reversed(said[max(0, place - CONTEXT) : place]))
            yield message.id, CandidateAnswer(text=said[place], before=before)
            for answer in quoted_answers(hit, message)[:1]:
                text = author_and_text(answer.author_name, answer.body)
                yield message.id, CandidateAnswer(text=text, before=(said[place],))


def _with_scores(hits: Sequence[Hit], log_odds: Mapping[MessageId, float]) -> list[Hit]:
    """Return the hits with the scores of the messages that were read, best hit first."""
    before = {key: why.score for hit in hits for key, why in hit.why.items() if key in log_odds}
    old = np.array(list(before.values()))
    total = np.array([log_odds[key] for key in before]) + SEARCH_WEIGHT * unit_range(old)
    scaled = old.min() + (old.max() - old.min()) * unit_range(total)
    scores = dict(zip(before, scaled.tolist(), strict=True))

    def read(key: MessageId, why: MatchReason) -> MatchReason:
        if key not in scores:
            return why
        return replace(why, score=scores[key], answer_probability=_probability(log_odds[key]))

    changed = [replace(hit, why={key: read(key, why) for key, why in hit.why.items()}) for hit in hits]
    return sorted(changed, key=lambda hit: hit.score, reverse=True)


def _confidence(value: float, threshold: float, best: float) -> Confidence:
    log_odds = CONFIDENCE_WEIGHT * (value - threshold) + ANSWER_WEIGHT * max(best, LOWEST) + CONSTANT
    return Confidence(value=_probability(log_odds), threshold=READ_THRESHOLD)


def _probability(log_odds: float) -> float:
    return float(1 / (1 + np.exp(-log_odds)))
