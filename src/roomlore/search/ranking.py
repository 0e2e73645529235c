"""Scores messages by words, by meaning, and by what was said around them.

In a room a message seldom repeats what the one before it was about: the answer to "when do we fly to Rome?" is
"Friday". So the words and the nearness of neighbours count towards a message, less the further away they stand. Words
are joined before their weight saturates (BM25, Robertson and Zaragoza 2009, over what is as good as a longer text),
and both sides are added by value and not by rank, because the margins of BM25 tell much.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from roomlore.db.search import ContextMessage
from roomlore.domain.ids import MessageId, ParticipantId
from roomlore.search.records import MatchReason

#: How much counts what was said one, two, three, four places before a message: half as much at each step.
BEFORE_WEIGHTS = (0.5, 0.25, 0.125, 0.0625)
#: What was said after it counts so much less: an answer follows its question.
AFTER_FACTOR = 0.5
#: How far around a message is looked.
CONTEXT_REACH = len(BEFORE_WEIGHTS)
#: How soon further mentions of a word tell nothing new, and how much the length of a text takes from them.
#: Half, and not three quarters as for documents: with its neighbours a message is rarely much longer than another.
K1, B = 1.5, 0.5
#: The part of nearness in the score; the rest are words.
DENSE_WEIGHT = 0.4
#: The part that the comparison token by token has in the score of the best.
LATE_INTERACTION_WEIGHT = 0.5

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTerms:
    """The words of a question, as stems, and how rare each is."""

    stems: Sequence[str]
    rarities: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredMessage:
    """A message and how well it fits a question; the scores are comparable within one search only."""

    message_id: MessageId
    author_name: str
    #: 0..1.
    score: float
    #: Cosine between question and message; None without a vector.
    similarity: float | None
    #: Share of the question's words, by rarity, that the message has; None if it has none.
    coverage: float | None
    #: The same share of what it has together with what stands around it; 0..1.
    context_coverage: float
    #: The words it has of the question, rarest first.
    terms: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringFeatures:
    """Which parts of the score count; for measuring what each adds."""

    neighbours: bool = True
    dense: float = DENSE_WEIGHT
    late_interaction: float = LATE_INTERACTION_WEIGHT


ALL_FEATURES = ScoringFeatures()


def score_messages(
    rows: Sequence[ContextMessage], terms: QueryTerms, *, most: int, stages: ScoringFeatures = ALL_FEATURES
) -> list[ScoredMessage]:
    """Return the messages of the scope that fit best, best first.

    Args:
        rows: In the order of their rooms, neighbours together.
        terms: What the counts of the rows count.
        most: How many are returned at most.
        stages: What to leave out.
    """
    if not rows:
        return []
    around = _NeighbourWeights(rows, reach=CONTEXT_REACH if stages.neighbours else 0)
    counts = np.zeros((len(rows), len(terms.stems)))
    for place, row in enumerate(rows):
        if row.counts:
            counts[place] = row.counts
    rarities = np.array(terms.rarities, np.float64)
    sizes = np.array([row.size for row in rows], np.float64)
    gathered = around.gather(counts)
    words = _bm25(gathered, around.gather(sizes), rarities)
    nearness = _dense_scores(rows)
    total = _fuse(words, None if nearness is None else around.gather(nearness), dense=stages.dense)
    mass = max(rarities.sum(), 1e-9)
    covered = (gathered > 0) @ rarities / mass
    own = (counts > 0) @ rarities / mass
    # What stands next to a find is one itself only if it has a reason of its own.
    fitting = np.flatnonzero(
        [row.fits and (row.counts is not None or row.similarity is not None) for row in rows]
    )
    best: list[int] = fitting[np.argsort(-total[fitting], kind="stable")[:most]].tolist()
    return [
        ScoredMessage(
            message_id=rows[place].message_id,
            author_name=rows[place].author_name,
            score=float(total[place]),
            similarity=rows[place].similarity,
            coverage=float(own[place]) if rows[place].counts else None,
            context_coverage=float(covered[place]),
            terms=_terms(rows[place], terms),
        )
        for place in best
    ]


class _NeighbourWeights:
    """Which rows stand next to each other, and how much each counts for the other."""

    def __init__(self, rows: Sequence[ContextMessage], *, reach: int) -> None:
        self._runs = np.cumsum([not row.follows for row in rows])
        self._reach = min(reach, len(rows) - 1)

    def gather(self, values: Array) -> Array:
        """Return of each row its own value and those of its neighbours, by weight."""
        gathered = values.copy()
        for distance in range(1, self._reach + 1):
            together = self._runs[distance:] == self._runs[:-distance]
            weight = (BEFORE_WEIGHTS[distance - 1] * together).reshape(-1, *[1] * (values.ndim - 1))
            gathered[distance:] += weight * values[:-distance]
            gathered[:-distance] += AFTER_FACTOR * weight * values[distance:]
        return gathered


def _bm25(counts: Array, sizes: Array, rarities: Array) -> Array:
    """Return the weight of the words of each row: (rows, words) counts, by rarity and the length of the text."""
    if not counts.size:
        return np.zeros(len(sizes))
    usual = max(sizes[counts.any(axis=1)].mean(), 1.0) if counts.any() else 1.0
    length = (1 - B + B * sizes / usual)[:, None]
    return (counts * (K1 + 1) / (counts + K1 * length)) @ rarities


def _dense_scores(rows: Sequence[ContextMessage]) -> Array | None:
    """Return how much nearer each row is than the mean; 0 of one that has no vector, None if none has."""
    known = [row.similarity for row in rows if row.similarity is not None]
    if not known:
        return None
    usual = sum(known) / len(known)
    return np.array([0.0 if row.similarity is None else row.similarity - usual for row in rows])


def _fuse(words: Array, nearness: Array | None, *, dense: float) -> Array:
    if nearness is None or not dense:
        return unit_range(words)
    if not words.any():
        return unit_range(nearness)
    return (1 - dense) * unit_range(words) + dense * unit_range(nearness)


def unit_range(values: NDArray[np.floating]) -> Array:
    """Return the values moved and scaled so that the least is 0 and the greatest 1; all 1 where they are equal."""
    least, greatest = values.min(), values.max()
    if greatest - least <= 0:
        return np.ones(len(values)) if greatest else np.zeros(len(values))
    return (values - least) / (greatest - least)


def _terms(row: ContextMessage, asked: QueryTerms) -> list[str]:
    if not row.counts:
        return []
    had = [
        (-rarity, lexeme)
        for lexeme, rarity, count in zip(asked.stems, asked.rarities, row.counts, strict=True)
        if count
    ]
    return [lexeme for _, lexeme in sorted(had)]


def fill_similarities(
    rows: Sequence[ContextMessage], similarities: Mapping[MessageId, float]
) -> list[ContextMessage]:
    """Return rows in which those have a similarity, too, that have one of another model alone.

    Args:
        rows: As the model that searches use knows them.
        similarities: Similarities of the other model, which may know others.
    """
    both = {row.message_id: row.similarity for row in rows if row.similarity is not None}
    ours = sorted(similarity for key, similarity in both.items() if key in similarities)
    theirs = sorted(similarities[key] for key in both if key in similarities)

    def as_ours(similarity: float) -> float:
        return float(np.interp(similarity, theirs, ours)) if ours else similarity

    return [
        replace(row, similarity=as_ours(similarities[row.message_id]))
        if row.similarity is None and row.message_id in similarities
        else row
        for row in rows
    ]


#: What is added to the score, of which the best have 1 and the least 0: for one's own words, for those of whoever one
#: talks to most, and for what the weightiest memory about oneself rests on.
OWN_BOOST, PERSON_BOOST, TOPIC_BOOST = 0.1, 0.05, 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class ProximityBoost:
    """Who and what is near whoever asks, each from 0 to 1."""

    own_account_ids: frozenset[ParticipantId]
    person_weights: Mapping[ParticipantId, float] = field(default_factory=dict[ParticipantId, float])
    #: By message: those that memories near them rest on.
    message_weights: Mapping[MessageId, float] = field(default_factory=dict[MessageId, float])

    def boost_for(self, message_id: MessageId, author_id: ParticipantId | None) -> float:
        """Return what is added to a score of 0 to 1."""
        if author_id is None:
            person = 0.0
        else:
            person = (
                OWN_BOOST
                if author_id in self.own_account_ids
                else PERSON_BOOST * self.person_weights.get(author_id, 0.0)
            )
        return person + TOPIC_BOOST * self.message_weights.get(message_id, 0.0)


def boost_near(
    reasons: Mapping[MessageId, MatchReason],
    authors: Mapping[MessageId, ParticipantId],
    nearness: ProximityBoost,
) -> dict[MessageId, MatchReason]:
    """Return the reasons with nearness in the scores of those that have an author here, best first.

    The scores keep to the range that these had: what is not among them stays behind or before them.
    """
    first = [key for key in reasons if key in authors]
    if not first:
        return dict(reasons)
    least, greatest = reasons[first[-1]].score, reasons[first[0]].score
    plain = unit_range(np.array([reasons[key].score for key in first]))
    total = unit_range(plain + np.array([nearness.boost_for(key, authors[key]) for key in first]))
    scored: dict[MessageId, MatchReason] = {
        key: replace(reasons[key], score=float(least + (greatest - least) * part))
        for key, part in zip(first, total, strict=True)
    }
    found = {**reasons, **scored}
    return dict(sorted(found.items(), key=lambda item: (-item[1].score, item[0])))
