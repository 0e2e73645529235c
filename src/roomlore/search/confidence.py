"""How well a message speaks to a question, and how sure a search is that it found the answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roomlore.domain.ids import MessageId
from roomlore.domain.patterns import lazy_pattern
from roomlore.search.ranking import ScoredMessage
from roomlore.search.records import MatchReason

#: How sure a search must be to answer, by what it could compare: each kind of evidence has its own scale. Where they
#: come from is in docs/why.md; they were measured with one embedding model and hold for any.
TOKEN_THRESHOLD, VECTOR_THRESHOLD, WORD_THRESHOLD = 0.41, 0.33, 0.27
#: Among so many of the best it is looked for how sure a search is, however many are wanted.
CANDIDATES_READ = 50
#: How much it counts what the best message carries by itself, without what stands around it, and how many times that
#: a search is sure at most: much that is a little near makes no answer.
BEST_MESSAGE_WEIGHT, MOST_CARRIED = 2.0, 1.2
#: How much it counts by how much the closest text stands out: a room that is about everything is close to everything.
OUTLIER_WEIGHT = 4.0
#: What texts that have nothing to do with a question are usually close to it, and for how many texts that counts: of
#: few texts the mean says little.
BASE_SIMILARITY, BASE_TEXTS = 0.3, 10
#: How much it counts whether those speak to the question whom it names, and the most by which they can be closer than
#: others: beyond that it is plain who spoke, and more must not outweigh what was said.
NAMED, MAX_NAME_DIFFERENCE = 6.0, 0.1
#: What the signs of certainty add up to at most, or nearly so.
MAX_EVIDENCE = 8.0
#: What is shorter is rarely a name and often a word.
NAME = lazy_pattern(r"\w{3,}")
WORD = lazy_pattern(r"\w+")
#: Words of any question, which name nobody in it, even where they are part of a name. Will and May are left out: as
#: names they are common.
NOT_NAMES = frozenset(
    WORD.findall(
        """
        about after all also and any are because been before being but can could did does doing done for from get got
        had has have her hers him his how into its just many more most much not off one other our out over said say
        says she should some such than that the their them then there these they this those too under was were what
        when where which while who whom whose why with would you your
        """
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Confidence:
    """How sure a search is that it found the answer, and how sure it must be, for the evidence it had."""

    #: 0..1; None where nothing was found.
    value: float | None
    threshold: float


def relevance(why: MatchReason) -> float:
    """Return how well a message fits a question, 0..1: the mean of meaning and words.

    Unlike the score it does not depend on the other candidates, so that it can be held against a bar.
    """
    similarity = max(why.similarity or 0.0, 0.0)
    return (similarity + (why.coverage or 0.0)) / 2


def confidence(
    question: str, scored: Sequence[ScoredMessage], reasons: Mapping[MessageId, MatchReason]
) -> Confidence:
    """Return how sure it is that the answer is among what was found, with the bar for such evidence.

    Where texts were compared token by token, five signs: the best fit in meaning, words and tokens together; the
    closest text; the best fit in meaning and words of one message by itself; by how much the closest text stands out
    from what is usually found; and whether the closest text of somebody whom the question names is closer than those
    of others, for the right words of somebody else are no answer. But hardly surer than what one message carries. Otherwise
    meaning and words alone, or words alone where nothing found has a vector, as before anything is embedded.

    Args:
        question: As it was asked.
        scored: What was found.
        reasons: Why, for each message that was found.
    """
    looked_at = scored[:CANDIDATES_READ]
    if not looked_at:
        return Confidence(value=None, threshold=WORD_THRESHOLD)
    fit = max(max(one.similarity or 0.0, 0.0) + one.context_coverage for one in looked_at)
    close = {one.message_id: reasons[one.message_id].closeness for one in looked_at}
    known = [value for value in close.values() if value is not None]
    if not known:
        has_vectors = any(one.similarity is not None for one in looked_at)
        return (
            Confidence(value=fit / 2, threshold=VECTOR_THRESHOLD)
            if has_vectors
            else Confidence(value=fit, threshold=WORD_THRESHOLD)
        )
    together = max(
        max(one.similarity or 0.0, 0.0) + one.context_coverage + (close[one.message_id] or 0.0)
        for one in looked_at
    )
    carried = max(relevance(reasons[one.message_id]) for one in looked_at)
    named = _name_margin(question, looked_at, close)
    signs = (
        together
        + max(known)
        + BEST_MESSAGE_WEIGHT * carried
        + OUTLIER_WEIGHT * _outlier_margin(known)
        + NAMED * min(max(named, -MAX_NAME_DIFFERENCE), MAX_NAME_DIFFERENCE)
    )
    return Confidence(
        value=min(max(signs / MAX_EVIDENCE, 0.0), MOST_CARRIED * carried, 1.0), threshold=TOKEN_THRESHOLD
    )


def _outlier_margin(close: Sequence[float]) -> float:
    """Return by how much the closest text is closer than is usual among these.

    As scores are normalised by those of a cohort where speakers are verified (Auckenthaler et al. 2000): what is
    found for a question that nobody answered is all as close as the rest.
    """
    usual = (sum(close) + BASE_TEXTS * BASE_SIMILARITY) / (len(close) + BASE_TEXTS)
    return max(close) - usual


def _name_margin(
    question: str, scored: Sequence[ScoredMessage], close: Mapping[MessageId, float | None]
) -> float:
    """Return by how much texts of those whom the question names are closer than texts of others."""
    words = set(WORD.findall(question.casefold())) - NOT_NAMES
    named: list[float] = []
    others: list[float] = []
    for one in scored:
        value = close[one.message_id]
        if value is not None:
            is_named = not words.isdisjoint(NAME.findall(one.author_name.casefold()))
            (named if is_named else others).append(value)
    return max(named) - max(others) if named and others else 0.0
