"""Scores each candidate parent of a message: a small network over its features, with bundled weights.

training/train_reply_model.py makes the weights; docs/replymodel.md describes them.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from roomlore.conversations.features import MESSAGE_FEATURES, PAIR_FEATURES, Features
from roomlore.conversations.message_text import Lexicon
from roomlore.conversations.window import WINDOW, Array, Places

WEIGHTS = Path(__file__).with_name("replymodel.npz")
#: The score of a column without a candidate.
_NEVER = np.float32(-1e9)


@dataclass(frozen=True, slots=True)
class ReplyModel:
    """Two hidden layers over each candidate and over the option of starting a conversation, then a softmax."""

    lexicon: Lexicon
    #: (hidden, PAIRS), (hidden, OWN), (hidden,): the weights of the first layer, which include the scaling of the
    #: inputs.
    pair_weights: Array
    own_weights: Array
    bias: Array
    #: (hidden,): takes the place of the pair features for the option that the message starts a conversation.
    start_vector: Array
    #: (second, hidden), (second,), (second,): the weights and the bias of the second layer (`second` is its number of
    #: units), and the weights of the last layer.
    second_weights: Array
    second_bias: Array
    last_weights: Array
    #: All scores are divided by this, to calibrate the probabilities.
    temperature: float = 1.0
    #: Added to the score of starting a conversation before the best option is chosen.
    start_bonus: float = 0.0
    #: The weight of a candidate's whole conversation in the choice, 0..1.
    conversation_weight: float = 0.5

    def scores(self, seen: Features) -> Array:
        """Return the score of each place, oldest first, followed by the score of starting a conversation."""
        own = self.own_weights @ seen.own + self.bias
        hidden = np.empty((len(own), WINDOW + 1), dtype=np.float32)
        np.matmul(self.pair_weights, seen.pairs, out=hidden[:, :WINDOW])
        hidden[:, WINDOW] = self.start_vector
        hidden += own[:, None]
        np.maximum(hidden, 0.0, out=hidden)
        second = self.second_weights @ hidden
        second += self.second_bias[:, None]
        np.maximum(second, 0.0, out=second)
        scores: Array = np.asarray(self.last_weights @ second, dtype=np.float32)
        scores[: WINDOW - seen.count] = _NEVER
        return scores

    def probabilities(self, scores: Array) -> Array:
        """Return the probability of each place, followed by that of starting a conversation."""
        scaled = scores / np.float32(self.temperature)
        shares: Array = np.exp(scaled - np.maximum.reduce(scaled), dtype=np.float32)
        return shares / np.add.reduce(shares)

    def choose(self, scores: Array, conversations: Places) -> int:
        """Return the best place, or WINDOW if the message starts a conversation.

        The probability of a place's whole conversation is part of its score: a message that probably answers some
        message of a conversation belongs to that conversation.
        """
        shares = np.exp(scores - np.maximum.reduce(scores), dtype=np.float64)
        places = shares[:WINDOW]
        together = np.bincount(conversations, weights=places, minlength=WINDOW)[conversations]
        worth = places ** (1.0 - self.conversation_weight) * together**self.conversation_weight
        best = int(worth.argmax())
        return WINDOW if shares[WINDOW] * math.exp(self.start_bonus) > worth[best] else best


@lru_cache(maxsize=1)
def load() -> ReplyModel:
    """Return the bundled model."""
    return load_from(WEIGHTS)


def load_from(path: Path) -> ReplyModel:
    """Return the model of a weights file.

    Raises:
        ValueError: The file was made for other features.
    """
    with np.load(path, allow_pickle=False) as stored:
        arrays = {name: np.ascontiguousarray(stored[name], dtype=np.float32) for name in stored.files}
    lexicon = Lexicon(arrays.pop("rarity").tolist(), arrays.pop("acts"), arrays.pop("usual"))
    if arrays["pair_weights"].shape[1] != PAIR_FEATURES or arrays["own_weights"].shape[1] != MESSAGE_FEATURES:
        raise ValueError(
            f"{path.name} was made for other features: it has {arrays['pair_weights'].shape[1]} of a pair and "
            f"{arrays['own_weights'].shape[1]} of a message where {PAIR_FEATURES} and {MESSAGE_FEATURES} are expected; train it again"
        )
    return ReplyModel(
        lexicon=lexicon,
        pair_weights=arrays["pair_weights"],
        own_weights=arrays["own_weights"],
        bias=arrays["bias"],
        start_vector=arrays["start"],
        second_weights=arrays["second_weights"],
        second_bias=arrays["second_bias"],
        last_weights=arrays["last_weights"],
        temperature=arrays["temperature"].item(),
        start_bonus=arrays["start_bonus"].item(),
    )
