"""Decides for each message which open conversation it continues, or that it starts one.

A small network scores each open conversation and the option of a start, from features that follow from how the messages
before it are grouped. The choice for a message waits for the next LOOKAHEAD - 1 messages: a beam of hypotheses goes on with
each of the best options, and the most probable one decides.

`training.train_conversation_model` makes the weights. The product does not use the model yet.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from roomlore.conversations.window import WINDOW, Array, Places
from roomlore.domain.vectors import Vectors
from training.open_conversations import (
    ARRIVAL_FEATURES,
    CONVERSATION_FEATURES,
    NO_LABEL,
    Arrival,
    candidates_of,
    features_of,
)

#: Messages that are read before the first of them is decided, and hypotheses that are kept meanwhile.
LOOKAHEAD = 5
BEAM = 4
#: The options of each hypothesis that are followed.
_BRANCHES = 3
_NEVER = np.float32(-1e9)


@dataclass(frozen=True, slots=True)
class Step:
    """A message to group: its facts, and its label where that is known already."""

    arrival: Arrival
    #: The number that names the conversation if the message starts one.
    number: int
    known: int | None = None


@dataclass(frozen=True, slots=True)
class ConversationModel:
    """Two hidden layers over each open conversation and over the option of a start, then a softmax."""

    pair_weights: Array
    own_weights: Array
    bias: Array
    start_vector: Array
    second_weights: Array
    second_bias: Array
    last_weights: Array
    #: (dimensions, rank) twice: a text continues another if the product of both projections is large.
    before_projection: Array
    after_projection: Array
    #: (dimensions,): how well a text starts a conversation.
    start_direction: Array
    #: Added to the score of a start.
    start_bonus: float = 0.0

    def projected_before(self, vectors: Vectors) -> Array:
        """Return (texts, rank): what `continues` compares of earlier messages."""
        return np.asarray(vectors @ self.before_projection, dtype=np.float32)

    def projected_after(self, vectors: Vectors) -> Array:
        """Return (texts, rank): what `continues` compares of later messages."""
        return np.asarray(vectors @ self.after_projection, dtype=np.float32)

    def starts(self, vectors: Vectors) -> Array:
        """Return (texts,): how well each text starts a conversation."""
        return np.asarray(vectors @ self.start_direction, dtype=np.float32)

    def log_probabilities(self, pairs: Array, own: Array, candidates: Places) -> Array:
        """Return (hypotheses, CANDIDATES + 1): of each candidate, and last of a start."""
        about = own @ self.own_weights.T + self.bias
        hidden = np.empty((len(pairs), len(self.bias), pairs.shape[2] + 1), dtype=np.float32)
        hidden[:, :, :-1] = self.pair_weights @ pairs
        hidden[:, :, -1] = self.start_vector
        hidden += about[:, :, None]
        np.maximum(hidden, 0.0, out=hidden)
        second = self.second_weights @ hidden + self.second_bias[:, None]
        np.maximum(second, 0.0, out=second)
        scores = np.asarray(self.last_weights @ second, dtype=np.float32)
        scores[:, -1] += np.float32(self.start_bonus)
        scores[:, :-1][candidates == NO_LABEL] = _NEVER
        scores -= scores.max(axis=1, keepdims=True)
        return np.asarray(scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)), dtype=np.float32)


def settle(model: ConversationModel, labels: Places, steps: Sequence[Step]) -> list[int]:
    """Return the labels of messages; each is decided after a look at the next LOOKAHEAD - 1 ones.

    Args:
        model: Scores the options.
        labels: (WINDOW,): of the messages before.
        steps: The messages, in order.
    """
    found: list[int] = []
    for place in range(len(steps)):
        found.append(_settle_first(model, labels, steps[place : place + LOOKAHEAD]))
        labels = np.append(labels[1:], found[-1])
    return found


def _settle_first(model: ConversationModel, labels: Places, steps: Sequence[Step]) -> int:
    """Return the label of the first of some messages, after a look at all of them."""
    if steps[0].known is not None:
        return steps[0].known
    beam, chances = labels[None, :], np.zeros(1, dtype=np.float32)
    firsts: Places = np.zeros(1, dtype=np.intp)
    for place, step in enumerate(steps):
        beam, chances, origins = _extended(model, beam, chances, step)
        firsts = beam[:, -1] if place == 0 else firsts[origins]
    return int(firsts[chances.argmax()])


def _extended(
    model: ConversationModel, beam: Places, chances: Array, step: Step
) -> tuple[Places, Array, Places]:
    """Return the best hypotheses with one more message: their labels, log probabilities and origins."""
    if step.known is not None:
        return _with_label(beam, np.full(len(beam), step.known)), chances, np.arange(len(beam))
    candidates = candidates_of(beam)
    pairs, own = features_of(step.arrival, beam, candidates)
    worth = model.log_probabilities(pairs, own, candidates) + chances[:, None]
    options = np.concatenate([candidates, np.full((len(beam), 1), step.number)], axis=1)
    best = np.argsort(-worth, axis=1, kind="stable")[:, :_BRANCHES]
    rows = np.repeat(np.arange(len(beam)), best.shape[1])
    values = worth[rows, best.ravel()]
    kept = np.argsort(-values, kind="stable")[:BEAM]
    kept = kept[values[kept] > _NEVER / 2]
    origins, chosen = rows[kept], best.ravel()[kept]
    return _with_label(beam[origins], options[origins, chosen]), values[kept], origins


def _with_label(beam: Places, labels: Places) -> Places:
    return np.concatenate([beam[:, 1:], labels[:, None]], axis=1)


def load_from(path: Path) -> ConversationModel:
    """Return the model of a weights file.

    Raises:
        ValueError: The file was made for other features.
    """
    with np.load(path, allow_pickle=False) as stored:
        arrays = {name: np.ascontiguousarray(stored[name], dtype=np.float32) for name in stored.files}
    if (
        arrays["pair_weights"].shape[1] != CONVERSATION_FEATURES
        or arrays["own_weights"].shape[1] != ARRIVAL_FEATURES
    ):
        raise ValueError(f"{path.name} was made for other features; train it again")
    return ConversationModel(
        pair_weights=arrays["pair_weights"],
        own_weights=arrays["own_weights"],
        bias=arrays["bias"],
        start_vector=arrays["start"],
        second_weights=arrays["second_weights"],
        second_bias=arrays["second_bias"],
        last_weights=arrays["last_weights"],
        before_projection=arrays["before_projection"],
        after_projection=arrays["after_projection"],
        start_direction=arrays["start_direction"],
        start_bonus=arrays["start_bonus"].item(),
    )


def empty_labels() -> Places:
    """Return the labels of a window without messages."""
    return np.full(WINDOW, NO_LABEL)
