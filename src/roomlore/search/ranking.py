"""Scores messages by words, by vectors and by their neighbours. Scores the best messages by late interaction, too.

A chat message rarely repeats the topic of the message before it: the answer to "when do we fly to Rome?" is "Friday".
So the words and the similarity of neighbours are added to those of a message, with weights that fall with distance.
Word counts are added before BM25 saturates them, as if the neighbourhood were one longer text (Robertson and Zaragoza
2009). The BM25 score and the similarity are added by value, not by rank, because differences in BM25 carry much
information.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from roomlore.db.search import ContextMessage
from roomlore.domain.ids import MessageId
from roomlore.domain.vectors import TOKEN_BYTES, TokenVectors

#: Weights of the messages one to four places before a message.
BEFORE_WEIGHTS = (0.5, 0.25, 0.125, 0.0625)
#: The factor for messages after a message. An answer follows its question, so messages after it weigh half as much.
AFTER_FACTOR = 0.5
CONTEXT_REACH = len(BEFORE_WEIGHTS)
#: BM25 parameters: saturation, and weight of the length. The weight is 0.5 rather than the usual 0.75, because messages
#: together with their neighbours differ little in length.
K1, B = 1.5, 0.5
#: The share of similarity in the score. The rest of the score is BM25.
DENSE_WEIGHT = 0.4
#: Share of late interaction in the scores of the best messages.
LATE_INTERACTION_WEIGHT = 0.5
#: The usual similarity of unrelated texts, and its weight in a mean: as if so many such texts were added. Without them,
#: the mean of few texts would say little.
BASE_SIMILARITY, BASE_TEXTS = 0.3, 10
#: How strongly the weight of a token falls if the token is close to all compared messages.
_DISTINCTIVENESS = 4

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTerms:
    """The stems of a question and the rarity of each."""

    stems: Sequence[str]
    rarities: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredMessage:
    """A message with its scores. The scores are comparable only within one search."""

    message_id: MessageId
    author_name: str
    #: The value is 0..1.
    score: float
    similarity: float | None
    coverage: float | None
    #: Coverage of the message with its neighbours, 0..1.
    context_coverage: float
    terms: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringFeatures:
    """The parts of the score that are used. The evaluation turns them off one by one."""

    neighbours: bool = True
    dense: float = DENSE_WEIGHT
    late_interaction: float = LATE_INTERACTION_WEIGHT
    #: Whether the best messages are read with the question.
    answers: bool = True


ALL_FEATURES = ScoringFeatures()


def score_messages(
    rows: Sequence[ContextMessage],
    terms: QueryTerms,
    *,
    limit: int,
    features: ScoringFeatures = ALL_FEATURES,
) -> list[ScoredMessage]:
    """Return the best messages, best first.

    The rows must be in the order of their rooms, with neighbours next to each other.
    """
    if not rows:
        return []
    neighbours = _NeighbourWeights(rows, reach=CONTEXT_REACH if features.neighbours else 0)
    counts = np.zeros((len(rows), len(terms.stems)))
    for place, row in enumerate(rows):
        if row.counts:
            counts[place] = row.counts
    rarities = np.array(terms.rarities, np.float64)
    sizes = np.array([row.size for row in rows], np.float64)
    gathered = neighbours.gather(counts)
    lexical = _bm25(gathered, neighbours.gather(sizes), rarities)
    dense = _dense_scores(rows)
    total = _fuse(lexical, None if dense is None else neighbours.gather(dense), weight=features.dense)
    mass = max(rarities.sum(), 1e-9)
    context_coverage = (gathered > 0) @ rarities / mass
    coverage = (counts > 0) @ rarities / mass
    # A neighbour is a result only if it matches the question itself.
    matching = np.flatnonzero(
        [row.matches_filter and (row.counts is not None or row.similarity is not None) for row in rows]
    )
    best: list[int] = matching[np.argsort(-total[matching], kind="stable")[:limit]].tolist()
    return [
        ScoredMessage(
            message_id=rows[place].message_id,
            author_name=rows[place].author_name,
            score=float(total[place]),
            similarity=rows[place].similarity,
            coverage=float(coverage[place]) if rows[place].counts else None,
            context_coverage=float(context_coverage[place]),
            terms=_shared_terms(rows[place], terms),
        )
        for place in best
    ]


class _NeighbourWeights:
    """Adds the weighted values of neighbours to each row.

    Weights fall with distance. Rows of different rooms are never neighbours.
    """

    def __init__(self, rows: Sequence[ContextMessage], *, reach: int) -> None:
        self._runs = np.cumsum([not row.follows for row in rows])
        self._reach = min(reach, len(rows) - 1)

    def gather(self, values: Array) -> Array:
        """Return for each row its own value plus the weighted values of its neighbours."""
        gathered = values.copy()
        for distance in range(1, self._reach + 1):
            together = self._runs[distance:] == self._runs[:-distance]
            weight = (BEFORE_WEIGHTS[distance - 1] * together).reshape(-1, *[1] * (values.ndim - 1))
            gathered[distance:] += weight * values[:-distance]
            gathered[:-distance] += AFTER_FACTOR * weight * values[distance:]
        return gathered


def _bm25(counts: Array, sizes: Array, rarities: Array) -> Array:
    """Return the BM25 score of each row from (rows, words) counts and the lengths of the texts."""
    if not counts.size:
        return np.zeros(len(sizes))
    usual = max(sizes[counts.any(axis=1)].mean(), 1.0) if counts.any() else 1.0
    length = (1 - B + B * sizes / usual)[:, None]
    return (counts * (K1 + 1) / (counts + K1 * length)) @ rarities


def _dense_scores(rows: Sequence[ContextMessage]) -> Array | None:
    """Return how much the similarity of each row exceeds the mean; 0 for a row without a vector.

    Return None if no row has a vector.
    """
    known = [row.similarity for row in rows if row.similarity is not None]
    if not known:
        return None
    usual = sum(known) / len(known)
    return np.array([0.0 if row.similarity is None else row.similarity - usual for row in rows])


def _fuse(lexical: Array, dense: Array | None, *, weight: float) -> Array:
    if dense is None or not weight:
        return unit_range(lexical)
    if not lexical.any():
        return unit_range(dense)
    return (1 - weight) * unit_range(lexical) + weight * unit_range(dense)


def unit_range(values: NDArray[np.floating]) -> Array:
    """Return the values scaled to 0..1; all 1 if they are equal and not 0."""
    least, greatest = values.min(), values.max()
    if greatest - least <= 0:
        return np.ones(len(values)) if greatest else np.zeros(len(values))
    return (values - least) / (greatest - least)


def _shared_terms(row: ContextMessage, terms: QueryTerms) -> list[str]:
    """Return the stems that a message shares with the question, rarest first."""
    shared = (
        (-rarity, stem)
        for stem, rarity, count in zip(terms.stems, terms.rarities, row.counts or (), strict=False)
        if count
    )
    return [stem for _, stem in sorted(shared)]


def fill_similarities(
    rows: Sequence[ContextMessage], similarities: Mapping[MessageId, float]
) -> list[ContextMessage]:
    """Return the rows with missing similarities filled in from a second model, on the scale of the first model.

    The mapping between the scales comes from messages that both models know. Messages of equal rank get equal values.
    """
    both = {row.message_id: row.similarity for row in rows if row.similarity is not None}
    ours = sorted(similarity for key, similarity in both.items() if key in similarities)
    theirs = sorted(similarities[key] for key in both if key in similarities)

    def mapped(similarity: float) -> float:
        return float(np.interp(similarity, theirs, ours)) if ours else similarity

    return [
        replace(row, similarity=mapped(similarities[row.message_id]))
        if row.similarity is None and row.message_id in similarities
        else row
        for row in rows
    ]


# Late interaction


def max_similarity(question: TokenVectors, messages: Sequence[TokenVectors]) -> NDArray[np.float32]:
    """Return a score of -1..1 for each message.

    The score is the weighted mean of the best cosine of each token of the question. This is MaxSim of ColBERT (Khattab
    & Zaharia 2020), but with weights: a token that is close to every message, such as the name of somebody in every
    scene, weighs less. A message without tokens scores 0.
    """
    near = _nearest_cosines(question, messages)
    if not near.size:
        return np.zeros(len(messages), np.float32)
    with_tokens = [place for place, message in enumerate(messages) if len(message)]
    usual = near[:, with_tokens].sum(axis=1) + BASE_TEXTS * BASE_SIMILARITY
    weights = (1 - usual / (len(with_tokens) + BASE_TEXTS)) ** _DISTINCTIVENESS
    return (weights / weights.sum() @ near).astype(np.float32)


def _nearest_cosines(question: TokenVectors, messages: Sequence[TokenVectors]) -> NDArray[np.float32]:
    """Return (question tokens, messages): the cosine between each token and the nearest token of each message.

    Token vectors are the signs of 8 * TOKEN_BYTES dimensions. If two vectors have an angle a, they differ in a share
    a/pi of the signs (Charikar 2002). So the number of differing bits gives the angle. The bits are compared 64 at a
    time.
    """
    near = np.zeros((len(question), len(messages)), np.float32)
    lengths = np.array([len(message) for message in messages], np.intp)
    has_tokens = lengths > 0
    if not len(question) or not has_tokens.any():
        return near
    ours, theirs = (
        np.ascontiguousarray(tokens).view(np.uint64) for tokens in (question, np.concatenate(messages))
    )
    differing = np.bitwise_count(ours[:, :, None] ^ np.ascontiguousarray(theirs.T)[None]).sum(
        axis=1, dtype=np.uint16
    )
    starts = (np.cumsum(lengths) - lengths)[has_tokens]
    fewest = np.minimum.reduceat(differing, starts, axis=1)
    near[:, has_tokens] = np.cos(fewest * np.float32(np.pi / (8 * TOKEN_BYTES)))
    return near
