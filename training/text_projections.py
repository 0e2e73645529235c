"""Learns from vectors of texts how well a text starts a conversation, and how well it continues another text."""

from collections.abc import Sequence

import numpy as np

from roomlore.conversations.open_conversations import TextProjections
from roomlore.conversations.window import Array
from roomlore.domain.vectors import Vectors
from training.mixing import Line

RANK = 32
#: The weight of the plain cosine while the projections learn what it lacks.
_COSINE = np.float32(5.0)
#: Earlier texts among which one is right: those of other open conversations, filled with random ones.
_CHOICES, _OPEN = 8, 5
_EPOCHS, _BATCH, _RATE = 30, 256, 0.003
_START_STEPS, _START_RATE = 400, 0.02


class _Adam:
    """Adam (Kingma and Ba 2015) for one array."""

    def __init__(self, value: Array) -> None:
        self.value = value
        self._mean, self._square, self._steps = np.zeros_like(value), np.zeros_like(value), 0

    def step(self, gradient: Array, rate: float) -> None:
        self._steps += 1
        self._mean += 0.1 * (gradient - self._mean)
        self._square += 0.005 * (gradient * gradient - self._square)
        ahead = self._mean / (1 - 0.9**self._steps)
        spread = np.sqrt(self._square / (1 - 0.995**self._steps)) + 1e-8
        self.value -= (rate * ahead / spread).astype(np.float32)


def train(rooms: Sequence[Sequence[Line]], vectors: Sequence[Vectors], *, seed: int = 0) -> TextProjections:
    """Return the projections for rooms with known conversations; `vectors` has those of each room's messages."""
    chance = np.random.default_rng(seed)
    before, after = _train_continuation(*_choices(rooms, vectors, chance), chance=chance)
    return TextProjections(before, after, _train_start(rooms, vectors))


def _train_start(rooms: Sequence[Sequence[Line]], vectors: Sequence[Vectors]) -> Array:
    """Return the direction of texts that start a conversation, by logistic regression."""
    starts = np.array([is_start for room in rooms for is_start in _starts(room)], dtype=np.float32)
    texts = np.concatenate(vectors)
    weights, bias = _Adam(np.zeros(texts.shape[1], dtype=np.float32)), 0.0
    for _ in range(_START_STEPS):
        wrong = 1 / (1 + np.exp(-(texts @ weights.value + bias))) - starts
        weights.step((texts.T @ wrong / len(starts) + 2e-4 * weights.value).astype(np.float32), _START_RATE)
        bias -= 0.5 * float(wrong.mean())
    return weights.value


def _starts(room: Sequence[Line]) -> list[bool]:
    seen: set[int] = set()
    found: list[bool] = []
    for line in room:
        found.append(line.conversation not in seen)
        seen.add(line.conversation)
    return found


def _choices(
    rooms: Sequence[Sequence[Line]], vectors: Sequence[Vectors], chance: np.random.Generator
) -> tuple[Array, Array]:
    """Return for each continuing text the earlier texts to choose from, the right one first, and the text."""
    everything = np.concatenate(vectors)
    choices: list[Array] = []
    texts: list[Array] = []
    for room, known in zip(rooms, vectors, strict=True):
        last: dict[int, int] = {}
        for place, line in enumerate(room):
            if line.conversation in last:
                others = [at for conversation, at in last.items() if conversation != line.conversation][
                    -_OPEN:
                ]
                random = everything[chance.integers(len(everything), size=_CHOICES - 1 - len(others))]
                choices.append(np.concatenate([known[[last[line.conversation], *others]], random]))
                texts.append(known[place])
            last[line.conversation] = place
    return np.array(choices, dtype=np.float32), np.array(texts, dtype=np.float32)


def _train_continuation(choices: Array, texts: Array, *, chance: np.random.Generator) -> tuple[Array, Array]:
    size = texts.shape[1]
    before = _Adam((chance.standard_normal((size, RANK)) * 0.05).astype(np.float32))
    after = _Adam((chance.standard_normal((size, RANK)) * 0.05).astype(np.float32))
    for epoch in range(_EPOCHS):
        order = chance.permutation(len(texts))
        for start in range(0, len(texts) - _BATCH + 1, _BATCH):
            rows = order[start : start + _BATCH]
            earlier, text = choices[rows], texts[rows]
            left, right = earlier @ before.value, text @ after.value
            scores = np.einsum("bkr,br->bk", left, right) + _COSINE * np.einsum("bkd,bd->bk", earlier, text)
            wrong = np.exp(scores - scores.max(axis=1, keepdims=True))
            wrong /= wrong.sum(axis=1, keepdims=True)
            wrong[:, 0] -= 1
            wrong /= len(rows)
            rate = _RATE * (1 - epoch / _EPOCHS)
            to_before = np.einsum("bkd,bk,br->dr", earlier, wrong, right, optimize=True)
            to_after = np.einsum("bd,bk,bkr->dr", text, wrong, left, optimize=True)
            before.step((to_before + 1e-4 * before.value).astype(np.float32), rate)
            after.step((to_after + 1e-4 * after.value).astype(np.float32), rate)
    return before.value, after.value
