"""Plain methods that search is measured against: BM25, embeddings alone, and what is made of both.

They work on the stems and vectors that search itself works with, so that nothing differs but the method.
A question sees its room as it was: what came later counts in no statistic. Every message of the room is
scored, so rooms of some thousand messages take milliseconds.

BM25: S. Robertson and H. Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond, Foundations and
Trends in Information Retrieval 3 (2009), with the idf that is never negative. Reciprocal rank fusion: G. Cormack,
C. Clarke and S. Büttcher, Reciprocal rank fusion outperforms Condorcet and individual rank learning methods,
SIGIR 2009.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Vector = NDArray[np.float32]

K1 = 1.5
B = 0.75
#: Damps the first ranks in reciprocal rank fusion; the value of its authors.
RRF_K = 60
#: So many messages of a ranking are kept.
DEPTH = 100

BM25, WINDOWED, DENSE, RRF, FUSION, RRF_ALL = (
    "bm25",
    "bm25 x3",
    "dense",
    "rrf",
    "fusion",
    "rrf x3",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One message as reference methods see it."""

    message_id: str
    #: How often each stem occurs in "name: text".
    stems: Mapping[str, int]
    #: Of length one; None where it has none.
    vector: Vector | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question as reference methods see it."""

    stems: Iterable[str]
    #: Of length one; None leaves out the methods that need it.
    vector: Vector | None
    #: The last message before it was asked; None where that is the last of the room.
    last_message_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """What one method makes of the messages of a room."""

    #: One for each message, in room order.
    values: Floats
    #: How sure the method is that the answer is among them: comparable from question to question.
    certainty: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """What one method finds for one question."""

    #: Message ids, best first.
    ranked: Sequence[str]
    certainty: float


class ReferenceRoom:
    """The messages of one room, in its order, ready to be scored."""

    def __init__(self, lines: Sequence[Line], *, dimensions: int) -> None:
        self._ids = [line.message_id for line in lines]
        self._place = {message_id: place for place, message_id in enumerate(self._ids)}
        self._lengths = np.array([sum(line.stems.values()) for line in lines], np.float64)
        self._vectors = np.zeros((len(lines), dimensions), np.float32)
        postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for place, line in enumerate(lines):
            if line.vector is not None:
                self._vectors[place] = line.vector
            for stem, count in line.stems.items():
                postings[stem].append((place, count))
        self._postings = {stem: np.array(pairs, np.int64) for stem, pairs in postings.items()}

    def find(self, asked: Asked) -> dict[str, Ranked]:
        """Return what each method finds in the room as it was when the question was asked.

        Raises:
            KeyError: the last message is not one of the room.
        """
        count = len(self._ids)
        if asked.last_message_id is not None:
            count = self._place[asked.last_message_id] + 1
        worded = self.bm25(asked.stems, count=count)
        windowed = self.bm25(asked.stems, count=count, around=1)
        found = {BM25: worded, WINDOWED: windowed}
        if asked.vector is not None:
            near = self.dense(asked.vector, count=count)
            found |= {
                DENSE: near,
                RRF: rank_fusion([worded, near]),
                FUSION: score_fusion(worded, near),
                RRF_ALL: rank_fusion([worded, windowed, near]),
            }
        return {name: self._ranked(scored) for name, scored in found.items()}

    def bm25(self, stems: Iterable[str], *, count: int, around: int = 0) -> Scored:
        """Return how well the words of each of the first messages fit.

        Its certainty is the share of the highest value that any text could reach for the question.

        Args:
            stems: The question's; each counts once.
            count: How many messages there are yet.
            around: So many messages before and after each count as part of it.
        """
        lengths = _windows(self._lengths[:count], around)
        usual = lengths.mean() if count else 0.0
        damping = K1 * (1 - B + B * lengths / usual) if usual else np.full(count, K1)
        values = np.zeros(count)
        most = 0.0
        for stem in sorted(set(stems)):
            often = _windows(self._occurrences(stem, count), around)
            having = np.count_nonzero(often)
            rarity = np.log1p((count - having + 0.5) / (having + 0.5))
            values += rarity * often * (K1 + 1) / (often + damping)
            most += rarity * (K1 + 1)
        return Scored(values=values, certainty=float(values.max(initial=0.0)) / most if most else 0.0)

    def dense(self, vector: Vector, *, count: int) -> Scored:
        """Return the cosine of each of the first messages to the question; its certainty is the highest."""
        values = (self._vectors[:count] @ vector).astype(np.float64)
        return Scored(values=values, certainty=float(values.max(initial=-1.0)))

    def _occurrences(self, stem: str, count: int) -> Floats:
        often = np.zeros(count)
        if (pairs := self._postings.get(stem)) is not None:
            there = pairs[pairs[:, 0] < count]
            often[there[:, 0]] = there[:, 1]
        return often

    def _ranked(self, scored: Scored) -> Ranked:
        order = np.argsort(-scored.values, kind="stable")[:DEPTH]
        # What a method gives nothing at all it has not found.
        places = order[scored.values[order] > 0]
        return Ranked(ranked=[self._ids[int(place)] for place in places], certainty=scored.certainty)


def rank_fusion(scored: Sequence[Scored]) -> Scored:
    """Return the sums of reciprocal ranks, of what each method gives anything; their certainty is the highest."""
    values = np.zeros(len(scored[0].values))
    for one in scored:
        order = np.argsort(-one.values, kind="stable")
        ranks = np.empty(len(order))
        ranks[order] = np.arange(1, len(order) + 1)
        values += np.where(one.values > 0, 1 / (RRF_K + ranks), 0.0)
    return Scored(values=values, certainty=float(values.max(initial=0.0)))


def score_fusion(one: Scored, other: Scored) -> Scored:
    """Return the means of two methods' values, each scaled to 0..1; their certainty is the mean of theirs."""
    return Scored(
        values=(_scaled(one.values) + _scaled(other.values)) / 2,
        certainty=(one.certainty + other.certainty) / 2,
    )


def _windows(values: Floats, around: int) -> Floats:
    """Return for each place the sum of its value and those beside it."""
    total = values.copy()
    for step in range(1, around + 1):
        total[step:] += values[:-step]
        total[:-step] += values[step:]
    return total


def _scaled(values: Floats) -> Floats:
    if not values.size or values.max() == values.min():
        return np.zeros(len(values))
    return (values - values.min()) / (values.max() - values.min())
