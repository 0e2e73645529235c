"""Decides for each message which open conversation it continues, or whether it starts a conversation.

A small network scores each open conversation and the option of starting one. Its features depend on how the earlier
messages are grouped. If no option is certain, the choice for a message waits for the next LOOKAHEAD - 1 messages: a
beam search follows the best options over these messages, and the most probable hypothesis decides.

`training.train_conversation_model` makes the weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from roomlore.conversations.open_conversations import (
    ARRIVAL_FEATURES,
    CONVERSATION_FEATURES,
    NO_LABEL,
    Arrival,
    TextProjections,
    candidates_of,
    features_of,
)
from roomlore.conversations.window import WINDOW, Array, Places

WEIGHTS = Path(__file__).with_name("conversationmodel.npz")
#: The number of messages that are read before the first of them is decided, and the number of hypotheses in the beam.
LOOKAHEAD = 5
BEAM = 4
#: The longest pause in a conversation, in seconds: two weeks. Longer pauses are rare even in slow rooms.
LONGEST_PAUSE = 14 * 86_400
#: A first option that is at least this probable is taken without a look at later messages.
CERTAIN = 0.98
#: The number of options of each hypothesis that are followed.
_BRANCHES = 3
_NEVER = np.float32(-1e9)


@dataclass(frozen=True, slots=True)
class Step:
    """A message to group, with facts about the message, and with its conversation as far as it is known."""

    arrival: Arrival
    #: The label of the conversation if the message starts one.
    number: int
    #: The label of the message, if it is known.
    known: int | None = None
    #: If the message certainly has the label of an earlier message: how many messages back that message is.
    follows_offset: int | None = None
    #: Whether the message certainly starts a conversation.
    is_start: bool = False
    #: How many messages lie between the last border and this message. The message cannot continue a conversation that
    #: has messages before the border.
    since_border: int = WINDOW


@dataclass(frozen=True, slots=True)
class Settled:
    """The decision for a message."""

    label: int
    #: The probability of the label, 0..1.
    probability: float


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
    projections: TextProjections
    #: Added to the score of a start.
    start_bonus: float = 0.0

    def log_probabilities(self, pairs: Array, own: Array, candidates: Places) -> Array:
        """Return the log probability of each candidate, and last of a start: shape (hypotheses, CANDIDATES + 1)."""
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


def settle(
    model: ConversationModel, labels: Sequence[int], steps: Sequence[Step], count: int
) -> list[Settled]:
    """Return the decisions for the first `count` messages. Each takes the next LOOKAHEAD - 1 messages into account.

    Messages after a border are not taken into account.

    Args:
        model: Scores the options.
        labels: The labels of all earlier messages that are already grouped, in order.
        steps: The messages, in order.
        count: The number of messages to decide. Later messages in `steps` only help to decide.
    """
    known = list(labels)
    found: list[Settled] = []
    for place in range(count):
        found.append(_settle_first(model, known, _until_border(steps[place : place + LOOKAHEAD])))
        known.append(found[-1].label)
    return found


def _until_border(steps: Sequence[Step]) -> Sequence[Step]:
    """Return the first message, and the following messages up to the next border."""
    return [step for place, step in enumerate(steps) if step.since_border >= place]


def _settle_first(model: ConversationModel, known: Sequence[int], steps: Sequence[Step]) -> Settled:
    """Return the decision for the first message, which takes all following messages in `steps` into account."""
    beam, chances = window_of(known)[None, :], np.zeros(1, dtype=np.float32)
    if (label := _known_label(steps[0], beam, known, 0)) is not None:
        return Settled(int(label[0]), 1.0)
    firsts: Places = np.zeros(1, dtype=np.intp)
    for place, step in enumerate(steps):
        if (label := _known_label(step, beam, known, place)) is not None:
            beam = _with_label(beam, label)
            continue
        beam, chances, origins = _extended(model, beam, chances, step)
        firsts = beam[:, -1] if place == 0 else firsts[origins]
        if place == 0 and (surest := float(np.exp(chances.max()))) >= CERTAIN:
            return Settled(int(firsts[chances.argmax()]), min(surest, 1.0))
    shares = np.exp(chances - chances.max())
    best = int(firsts[chances.argmax()])
    return Settled(best, min(float(shares[firsts == best].sum() / shares.sum()), 1.0))


def _known_label(step: Step, beam: Places, known: Sequence[int], place: int) -> Places | None:
    """Return the certain label of a message in each hypothesis; None if the label has to be decided."""
    if step.is_start:
        return np.full(len(beam), step.number)
    if step.known is not None:
        return np.full(len(beam), step.known)
    if step.follows_offset is None:
        return None
    if step.follows_offset <= WINDOW:
        return beam[:, -step.follows_offset]
    return np.full(len(beam), known[place - step.follows_offset])


def _extended(
    model: ConversationModel, beam: Places, chances: Array, step: Step
) -> tuple[Places, Array, Places]:
    """Return the best hypotheses after one more message: their labels, log probabilities and previous hypotheses."""
    candidates = candidates_of(beam)
    candidates[~_are_open(step, beam, candidates)] = NO_LABEL
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


def _are_open(step: Step, beam: Places, candidates: Places) -> npt.NDArray[np.bool_]:
    """Return whether the message may continue each candidate: shape (hypotheses, CANDIDATES).

    A candidate is open if one of its messages is at most LONGEST_PAUSE old, and none of them lies before the last
    border.
    """
    times = step.arrival.times
    recent = _have_any(candidates, beam[:, times >= step.arrival.time - LONGEST_PAUSE])
    return recent & ~_have_any(candidates, beam[:, : max(WINDOW - step.since_border, 0)])


def _have_any(candidates: Places, labels: Places) -> npt.NDArray[np.bool_]:
    return (candidates[:, :, None] == labels[:, None, :]).any(axis=2)


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
        projections=TextProjections(
            arrays["before_projection"], arrays["after_projection"], arrays["start_direction"]
        ),
        start_bonus=arrays["start_bonus"].item(),
    )


def window_of(labels: Sequence[int]) -> Places:
    """Return the labels of the last WINDOW messages, padded in front."""
    window = np.full(WINDOW, NO_LABEL)
    if latest := labels[-WINDOW:]:
        window[-len(latest) :] = latest
    return window


@lru_cache(maxsize=1)
def load() -> ConversationModel:
    """Return the bundled model."""
    return load_from(WEIGHTS)
