"""Features from which the conversation model decides whether a message continues an open conversation or starts one.

A hypothesis is a row of labels: the number of a conversation for each place of the window. Features are computed from
the labels and from facts about each place. The facts do not depend on the labels, so many hypotheses are compared at
once.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from roomlore.conversations.features import MESSAGE_FEATURE_NAMES, PAIR_FEATURE_NAMES
from roomlore.conversations.message_text import ACT_NAMES
from roomlore.conversations.reply_linker import ReplyEvidence
from roomlore.conversations.window import LOG1P, WINDOW, Array, Places
from roomlore.domain.vectors import Vectors

#: The maximum number of open conversations that are candidates. The latest conversations are used.
CANDIDATES = 10
#: The label of an empty place.
NO_LABEL = -1

#: Facts of a place that do not depend on labels; the first ones are features of the reply model.
_FROM_REPLY_MODEL = (
    *("time", "time in paces", "same author", "is called", "is called loud", "calls author", "calls others"),
    *("likeness", "rarest shared", "candidate question mark", "candidate words", "candidate rare words"),
    *(f"candidate {name}" for name in ACT_NAMES),
)
PLACE_NAMES = (*_FROM_REPLY_MODEL, "similarity", "continues", "reply probability")
_TAKEN = np.array([PAIR_FEATURE_NAMES.index(name) for name in _FROM_REPLY_MODEL])
_SAME = PLACE_NAMES.index("same author")
_TIME, _PACES = PLACE_NAMES.index("time"), PLACE_NAMES.index("time in paces")
_SIMILARITY, _CONTINUES = PLACE_NAMES.index("similarity"), PLACE_NAMES.index("continues")
_REPLY = PLACE_NAMES.index("reply probability")


def _rows(*names: str) -> Places:
    return np.array([PLACE_NAMES.index(name) for name in names])


#: Facts that are read at the last message of a conversation, at its last message by somebody else, and at its last
#: message by the author.
_AT_LAST = np.arange(len(PLACE_NAMES))
_AT_OTHER = _rows(
    "time in paces", "candidate question mark", "calls author", "calls others", "similarity", "continues"
)
_AT_OWN = _rows("time in paces", "candidate question mark", "similarity")
_MOST = _rows(
    *("same author", "is called", "is called loud", "calls author", "likeness", "rarest shared"),
    *("candidate question mark", "similarity", "continues", "reply probability"),
)
_SUM = _rows("reply probability", "same author")
_MEAN = _rows("similarity", "continues")
_OF_LABELS = (
    *("size", "participants", "rank", "messages since", "share of author", "pauses since", "author's latest"),
    *("messages since author", "switches since"),
)
_ALONE_NAMES = (
    *(f"last: {PLACE_NAMES[row]}" for row in _AT_LAST),
    *(f"other's last: {PLACE_NAMES[row]}" for row in _AT_OTHER),
    *(f"own last: {PLACE_NAMES[row]}" for row in _AT_OWN),
    *(f"most: {PLACE_NAMES[row]}" for row in _MOST),
    *(f"sum: {PLACE_NAMES[row]}" for row in _SUM),
    *(f"mean: {PLACE_NAMES[row]}" for row in _MEAN),
    *_OF_LABELS,
)
#: Features that are also given as the difference to the best other candidate.
_COMPARED = (
    *("last: time", "last: similarity", "last: continues", "most: likeness", "most: similarity"),
    *("most: continues", "most: reply probability", "sum: reply probability", "mean: similarity"),
    *("mean: continues", "most: is called", "most: calls author", "most: same author"),
)
_COMPARED_ROWS = np.array([_ALONE_NAMES.index(name) for name in _COMPARED])
CONVERSATION_FEATURE_NAMES = (*_ALONE_NAMES, *(f"lead: {name}" for name in _COMPARED))
CONVERSATION_FEATURES = len(CONVERSATION_FEATURE_NAMES)

_BEST_NAMES = (
    "most: similarity",
    "most: continues",
    "most: likeness",
    "last: time in paces",
    "most: is called",
)
_BEST_ROWS = np.array([_ALONE_NAMES.index(name) for name in _BEST_NAMES])
ARRIVAL_FEATURE_NAMES = (
    *MESSAGE_FEATURE_NAMES,
    *("start probability", "seems to start", "open conversations", "switches", "starts"),
    *(f"best {name}" for name in _BEST_NAMES),
)
ARRIVAL_FEATURES = len(ARRIVAL_FEATURE_NAMES)
_MISSING = np.float32(-1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A new message, with the facts about the window before it that do not depend on labels."""

    #: (PLACES, WINDOW)
    places: Array
    #: (WINDOW,): the column of the author of each message, and the time of each message in seconds.
    slots: Places
    times: npt.NDArray[np.float64]
    time: float
    #: The reply model's features of the message alone.
    own: Array
    #: The probability that the message starts a conversation by the reply model, and a score for this by its text.
    start_probability: float
    seems_to_start: float
    count: int

    @property
    def reply_probabilities(self) -> Array:
        """(WINDOW,): the probability of each parent, by the reply model."""
        return self.places[_REPLY]


@dataclass(frozen=True, slots=True)
class TextRelations:
    """How the text of a message relates to the texts of the messages in the window."""

    #: (WINDOW,): the cosine to each message.
    similarity: Array
    #: (WINDOW,): how well the text continues the text of each message.
    continues: Array
    #: How well the text starts a conversation.
    seems_to_start: float


@dataclass(frozen=True, slots=True)
class TextProjections:
    """The learnt projections of text vectors."""

    #: (dimensions, rank) each: a text continues an earlier one if the product of both projections is large.
    before: Array
    after: Array
    #: (dimensions,): how well a text starts a conversation.
    start: Array

    def project(self, vectors: Vectors) -> "ProjectedTexts":
        """Return the vectors of the messages of a room, in order, with their projections."""
        return ProjectedTexts(vectors, vectors @ self.before, vectors @ self.after, vectors @ self.start)


@dataclass(frozen=True, slots=True)
class ProjectedTexts:
    """The text vectors of the messages of a room, in order, and their learnt projections."""

    vectors: Vectors
    before: Array
    after: Array
    starts: Array

    def relations(self, place: int, count: int) -> TextRelations:
        """Return how the text at a place relates to the `count` texts before it."""
        similarity, continues = np.zeros(WINDOW, np.float32), np.zeros(WINDOW, np.float32)
        if count:
            similarity[-count:] = self.vectors[place - count : place] @ self.vectors[place]
            continues[-count:] = self.before[place - count : place] @ self.after[place]
        return TextRelations(similarity, continues, float(self.starts[place]))


def arrival(evidence: ReplyEvidence, text: TextRelations) -> Arrival:
    """Return the facts about a message, from the evidence of the reply linker and the relations of its text."""
    places = np.empty((len(PLACE_NAMES), WINDOW), dtype=np.float32)
    places[: len(_TAKEN)] = evidence.seen.pairs[_TAKEN]
    places[_SIMILARITY], places[_CONTINUES] = text.similarity, text.continues
    places[_REPLY] = evidence.probabilities[:WINDOW]
    return Arrival(
        places=places,
        slots=evidence.slots,
        times=evidence.times,
        time=evidence.time,
        own=evidence.seen.own.copy(),
        start_probability=float(evidence.probabilities[WINDOW]),
        seems_to_start=text.seems_to_start,
        count=evidence.seen.count,
    )


def candidates_of(labels: Places) -> Places:
    """Return the latest conversations of each row of labels, padded with NO_LABEL: shape (hypotheses, CANDIDATES)."""
    found = np.full((len(labels), CANDIDATES), NO_LABEL)
    for row, each in enumerate(labels):
        latest = [label for label in dict.fromkeys(each[::-1].tolist()) if label != NO_LABEL][:CANDIDATES]
        found[row, : len(latest)] = latest
    return found


def features_of(seen: Arrival, labels: Places, candidates: Places) -> tuple[Array, Array]:
    """Return the features of each candidate, and the features of the message.

    Their shapes are (hypotheses, FEATURES, CANDIDATES) and (hypotheses, ARRIVAL).

    Args:
        seen: The message.
        labels: The hypotheses, shape (hypotheses, WINDOW).
        candidates: The result of `candidates_of`, shape (hypotheses, CANDIDATES).
    """
    members = (labels[:, None, :] == candidates[:, :, None]) & (candidates != NO_LABEL)[:, :, None]
    own = seen.places[_SAME] > 0
    weights = members.astype(np.float32)
    sizes = np.maximum(weights.sum(axis=2), 1.0)
    last = _last(members)
    by_other, by_own = _last(members & ~own), _last(members & own)
    parts = [
        _at(seen.places, last),
        _at(seen.places[_AT_OTHER], by_other),
        _at(seen.places[_AT_OWN], by_own),
        np.where(members[:, None], seen.places[_MOST][:, None, :], _MISSING).max(axis=3),
        np.moveaxis(weights @ seen.places[_SUM].T, 2, 1),
        np.moveaxis(weights @ seen.places[_MEAN].T, 2, 1) / sizes[:, None],
        _of_labels(seen, labels, members, last=last, by_own=by_own, sizes=sizes),
    ]
    alone = np.concatenate(parts, axis=1)
    is_open = candidates != NO_LABEL
    pairs = np.concatenate([alone, _leads(alone[:, _COMPARED_ROWS], is_open)], axis=1)
    return pairs.astype(np.float32), _of_arrival(seen, labels, alone, is_open)


def _last(members: npt.NDArray[np.bool_]) -> Places:
    """Return the place of the last member of each candidate; NO_LABEL if there is none."""
    reversed_place = members[:, :, ::-1].argmax(axis=2)
    return np.where(members.any(axis=2), WINDOW - 1 - reversed_place, NO_LABEL)


def _at(rows: Array, places: Places) -> Array:
    """Return the values of rows at one place for each candidate; `_MISSING` if the candidate has no such place."""
    found = np.moveaxis(rows[:, places], 0, 1)
    return np.where(places[:, None] == NO_LABEL, _MISSING, found)


def _of_labels(
    seen: Arrival,
    labels: Places,
    members: npt.NDArray[np.bool_],
    *,
    last: Places,
    by_own: Places,
    sizes: Array,
) -> Array:
    people = np.zeros((WINDOW, int(seen.slots.max(initial=0)) + 1), dtype=np.float32)
    people[np.arange(WINDOW), seen.slots] = 1.0
    weights = members.astype(np.float32)
    first = members.argmax(axis=2)
    span = seen.times[np.maximum(last, 0)] - seen.times[first]
    usual = span / np.maximum(sizes - 1.0, 1.0)
    since = np.maximum(seen.time - seen.times[np.maximum(last, 0)], 0.0)
    own = seen.places[_SAME] > 0
    latest = int(own.nonzero()[0][-1]) if own.any() else NO_LABEL
    theirs = labels[:, latest] if latest != NO_LABEL else np.full(len(labels), NO_LABEL)
    changes = np.zeros(labels.shape, dtype=np.float32)
    changes[:, 1:] = labels[:, 1:] != labels[:, :-1]
    switches = changes[:, ::-1].cumsum(axis=1)[:, ::-1]
    rank = np.broadcast_to(LOG1P[: members.shape[1]], sizes.shape)
    found = [
        np.log1p(sizes),
        LOG1P[((weights @ people) > 0).sum(axis=2)],
        rank,
        LOG1P[WINDOW - 1 - np.maximum(last, 0)],
        (weights @ own.astype(np.float32)) / sizes,
        np.where(sizes > 1.0, np.log((since + 1.0) / (usual + 1.0)), 0.0),
        (last != NO_LABEL)
        & (np.take_along_axis(labels, np.maximum(by_own, 0), axis=1) == theirs[:, None])
        & (by_own == latest),
        LOG1P[np.where(by_own == NO_LABEL, WINDOW, WINDOW - 1 - by_own)],
        np.log1p(np.take_along_axis(switches, np.maximum(last, 0), axis=1)),
    ]
    return np.stack([np.asarray(each, dtype=np.float32) for each in found], axis=1)


def _leads(values: Array, is_open: npt.NDArray[np.bool_]) -> Array:
    """Return by how much each candidate's values exceed those of the best other candidate."""
    held = np.where(is_open[:, None], values, np.float32(-9.0))
    ordered = np.sort(held, axis=2)
    best, second = ordered[:, :, -1:], ordered[:, :, -2:-1]
    return np.where(is_open[:, None], held - np.where(held == best, second, best), 0.0).clip(-9.0, 9.0)


def _of_arrival(seen: Arrival, labels: Places, alone: Array, is_open: npt.NDArray[np.bool_]) -> Array:
    count = max(seen.count, 1)
    filled = labels[:, WINDOW - seen.count :] if seen.count else labels[:, :0]
    found = np.empty((len(labels), ARRIVAL_FEATURES), dtype=np.float32)
    fixed = len(MESSAGE_FEATURE_NAMES)
    found[:, :fixed] = seen.own
    found[:, fixed] = seen.start_probability
    found[:, fixed + 1] = seen.seems_to_start
    found[:, fixed + 2] = LOG1P[is_open.sum(axis=1)]
    found[:, fixed + 3] = (filled[:, 1:] != filled[:, :-1]).sum(axis=1) / count
    found[:, fixed + 4] = [len(set(row.tolist())) / count for row in filled]
    best = np.where(is_open[:, None], alone[:, _BEST_ROWS], np.float32(-2.0)).max(axis=2)
    best[:, 3] = np.where(is_open, alone[:, _BEST_ROWS[3]], np.float32(9.0)).min(axis=1)
    found[:, fixed + 5 :] = best
    return found
