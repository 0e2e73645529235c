"""How relevant a message is to a question, and how sure a search is that it found the answer."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from roomlore.domain.ids import MessageId
from roomlore.domain.patterns import lazy_pattern
from roomlore.search.ranking import BASE_SIMILARITY, BASE_TEXTS, ScoredMessage
from roomlore.search.records import MatchReason

#: The lowest confidence of an answer, by the evidence that was compared: token vectors, vectors, or words only. The
#: values suit any embedding model; docs/decisions/answer-thresholds.md says how they were measured.
TOKEN_THRESHOLD, VECTOR_THRESHOLD, WORD_THRESHOLD = 0.41, 0.33, 0.27
#: Confidence is computed from at most this many of the best messages, whatever the limit of results is.
CANDIDATES_READ = 50
#: The weight of the best single message's relevance, and the factor by which confidence may exceed this relevance. The
#: factor is a limit, because many slightly similar messages are no answer.
BEST_MESSAGE_WEIGHT, MOST_CARRIED = 2.0, 1.2
#: The weight of the margin by which the closest text is closer than texts usually are. In a room about everything,
#: every text is close.
OUTLIER_WEIGHT = 4.0
#: The weight of the name margin (`_name_margin`), and its limit in both directions. Because of the limit, a name never
#: outweighs the content.
NAMED, MAX_NAME_DIFFERENCE = 6.0, 0.1
#: The weighted sum of all evidence is divided by this to give a confidence of 0..1.
MAX_EVIDENCE = 8.0
#: The minimum length of a word that may be a name. Shorter words rarely are names.
NAME = lazy_pattern(r"\w{3,}")
WORD = lazy_pattern(r"\w+")
#: Common words of questions that are not taken for names. "Will" and "May" are missing in this list, because they are
#: common names.
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
    """The confidence of a search, and the threshold that applies to its evidence."""

    #: The confidence, 0..1; None if the search has no results.
    value: float | None
    threshold: float


def relevance(why: MatchReason) -> float:
    """Return the mean of similarity and coverage, 0..1.

    Unlike the score, the relevance does not depend on the other candidates.
    """
    similarity = max(why.similarity or 0.0, 0.0)
    return (similarity + (why.coverage or 0.0)) / 2


def confidence(
    question: str, scored: Sequence[ScoredMessage], reasons: Mapping[MessageId, MatchReason]
) -> Confidence:
    """Return the confidence that the answer is among the results, and the threshold for it.

    If token vectors were compared, the confidence sums five parts: the highest sum of similarity, coverage and rerank
    score; the highest rerank score; the best relevance; how far the closest text is ahead of the others; and how far
    texts by people named in the question are ahead of texts by others. Otherwise it is computed from similarity and
    coverage, or from coverage alone if no message has a vector.
    """
    best = scored[:CANDIDATES_READ]
    if not best:
        return Confidence(value=None, threshold=WORD_THRESHOLD)
    fit = {
        message.message_id: max(message.similarity or 0.0, 0.0) + message.context_coverage for message in best
    }
    rerank_score = {key: value for key in fit if (value := reasons[key].rerank_score) is not None}
    if not rerank_score:
        if any(message.similarity is not None for message in best):
            return Confidence(value=max(fit.values()) / 2, threshold=VECTOR_THRESHOLD)
        return Confidence(value=max(fit.values()), threshold=WORD_THRESHOLD)
    carried = max(relevance(reasons[key]) for key in fit)
    named = _name_margin(question, best, rerank_score)
    signs = (
        max(value + rerank_score.get(key, 0.0) for key, value in fit.items())
        + max(rerank_score.values())
        + BEST_MESSAGE_WEIGHT * carried
        + OUTLIER_WEIGHT * _outlier_margin(rerank_score.values())
        + NAMED * min(max(named, -MAX_NAME_DIFFERENCE), MAX_NAME_DIFFERENCE)
    )
    value = min(max(signs / MAX_EVIDENCE, 0.0), MOST_CARRIED * carried, 1.0)
    return Confidence(value=value, threshold=TOKEN_THRESHOLD)


def _outlier_margin(rerank_score: Collection[float]) -> float:
    """Return how much closer the closest text is than texts usually are.

    If there is no answer, the margin is small, because all texts are about equally close. Speaker verification
    normalises scores by a cohort in the same way (Auckenthaler et al. 2000).
    """
    usual = (sum(rerank_score) + BASE_TEXTS * BASE_SIMILARITY) / (len(rerank_score) + BASE_TEXTS)
    return max(rerank_score) - usual


def _name_margin(
    question: str, scored: Sequence[ScoredMessage], rerank_score: Mapping[MessageId, float]
) -> float:
    """Return the best rerank score of authors named in the question, minus the best rerank score of other authors.

    Return 0 if one of the two groups wrote no compared text.
    """
    words = set(WORD.findall(question.casefold())) - NOT_NAMES
    named: list[float] = []
    others: list[float] = []
    for message in scored:
        if message.message_id in rerank_score:
            is_named = not words.isdisjoint(NAME.findall(message.author_name.casefold()))
            (named if is_named else others).append(rerank_score[message.message_id])
    return max(named) - max(others) if named and others else 0.0
