"""Trains the network of the reply model: numpy alone, one seed, one outcome."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]


@dataclass(slots=True)
class Examples:
    """Messages with known replies."""

    #: (messages, PAIRS, WINDOW), half precision.
    pairs: npt.NDArray[np.float16]
    #: (messages, OWN)
    own: Array
    #: (messages, WINDOW + 1): where a right answer stands; last: it starts a conversation.
    right: npt.NDArray[np.bool_]
    #: (messages,): how many of the last columns hold a candidate.
    count: npt.NDArray[np.int64]
    #: (messages,)
    weight: Array


@dataclass(slots=True)
class Scale:
    """Mean and spread of each feature."""

    pair_mean: Array
    pair_spread: Array
    own_mean: Array
    own_spread: Array


def scale_of(examples: Examples) -> Scale:
    """Return mean and spread of the features of some examples."""
    some = np.linspace(0, len(examples.own) - 1, min(len(examples.own), 3000)).astype(int)
    columns = np.concatenate(
        [examples.pairs[k][:, -int(examples.count[k]) :] for k in some if examples.count[k]], axis=1
    )
    columns = columns.astype(np.float32)
    return Scale(
        columns.mean(axis=1),
        columns.std(axis=1) + np.float32(0.05),
        examples.own.mean(axis=0),
        examples.own.std(axis=0) + np.float32(0.05),
    )


Weights = dict[str, Array]


def fresh(pairs: int, own: int, *, hidden: int, second: int, chance: np.random.Generator) -> Weights:
    """Return weights to begin with."""

    def drawn(rows: int, columns: int) -> Array:
        return (chance.standard_normal((rows, columns)) * np.sqrt(2.0 / columns)).astype(np.float32)

    return {
        "pair_weights": drawn(hidden, pairs),
        "own_weights": drawn(hidden, own) * np.float32(0.5),
        "bias": np.zeros(hidden, np.float32),
        "start": (chance.standard_normal(hidden) * 0.5).astype(np.float32),
        "second_weights": drawn(second, hidden),
        "second_bias": np.zeros(second, np.float32),
        "last_weights": (chance.standard_normal(second) * np.sqrt(1.0 / second)).astype(np.float32),
    }


def forward(
    weights: Weights, pairs: Array, own: Array, count: npt.NDArray[np.int64]
) -> tuple[Array, Array, Array]:
    """Return the scores (messages, WINDOW + 1) and the two hidden layers, columns of all messages side by side."""
    messages, _, width = pairs.shape
    hidden = np.empty((messages, weights["bias"].size, width + 1), np.float32)
    hidden[:, :, :width] = np.matmul(weights["pair_weights"], pairs)
    hidden[:, :, width] = weights["start"]
    hidden += (own @ weights["own_weights"].T + weights["bias"])[:, :, None]
    np.maximum(hidden, 0, out=hidden)
    second = np.matmul(weights["second_weights"], hidden)
    second += weights["second_bias"][:, None]
    np.maximum(second, 0, out=second)
    scores = np.matmul(weights["last_weights"], second)
    scores[:, :width][np.arange(width)[None] < (width - count)[:, None]] = -1e9
    return scores, hidden, second


def gradients(
    weights: Weights, pairs: Array, *, own: Array, wrong: Array, layers: tuple[Array, Array]
) -> Weights:
    """Return the gradient of each weight, given that of the scores."""
    hidden, second = layers
    width = pairs.shape[2]
    found: Weights = {"last_weights": np.einsum("nsw,nw->s", second, wrong, optimize=True)}
    to_second = weights["last_weights"][None, :, None] * wrong[:, None, :]
    to_second *= second > 0
    found["second_bias"] = to_second.sum(axis=(0, 2))
    found["second_weights"] = np.matmul(to_second, hidden.transpose(0, 2, 1)).sum(axis=0)
    to_hidden = np.matmul(weights["second_weights"].T, to_second)
    to_hidden *= hidden > 0
    found["pair_weights"] = np.matmul(to_hidden[:, :, :width], pairs.transpose(0, 2, 1)).sum(axis=0)
    found["start"] = to_hidden[:, :, width].sum(axis=0)
    per_message = to_hidden.sum(axis=2)
    found["bias"] = per_message.sum(axis=0)
    found["own_weights"] = per_message.T @ own
    return found


def wrong_of(scores: Array, right: npt.NDArray[np.bool_], weight: Array) -> tuple[Array, float]:
    """Return the gradient of the scores, and the loss: minus the logarithm of the share of all right answers."""
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    good = shares * right
    total = np.maximum(good.sum(axis=1, keepdims=True), 1e-9)
    scaled = weight / weight.sum()
    return (shares - good / total) * scaled[:, None], float(-(np.log(total[:, 0]) * scaled).sum())


def _batches(size: int, batch: int, chance: np.random.Generator) -> Iterator[npt.NDArray[np.int64]]:
    order = chance.permutation(size)
    for start in range(0, size - batch + 1, batch):
        yield np.sort(order[start : start + batch])


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How to train."""

    hidden: int = 64
    second: int = 32
    epochs: int = 6
    batch: int = 64
    rate: float = 2e-3
    decay: float = 1e-2
    #: Candidates further back than this are left out of training, where no right answer stands there.
    width: int = 64
    seed: int = 1


def train(examples: Examples, scale: Scale, plan: Plan) -> Weights:
    """Return the weights of one network, for scaled features."""
    chance = np.random.default_rng(plan.seed)
    weights = fresh(
        examples.pairs.shape[1], examples.own.shape[1], hidden=plan.hidden, second=plan.second, chance=chance
    )
    first = {name: np.zeros_like(value) for name, value in weights.items()}
    square = {name: np.zeros_like(value) for name, value in weights.items()}
    mean = {name: value.copy() for name, value in weights.items()}
    steps, done = plan.epochs * (len(examples.own) // plan.batch), 0
    for epoch in range(plan.epochs):
        losses: list[float] = []
        for rows in _batches(len(examples.own), plan.batch, chance):
            done += 1
            found, loss = _step(weights, examples, scale=scale, rows=rows, plan=plan)
            losses.append(loss)
            rate = plan.rate * min(1.0, done / 200) * (0.5 + 0.5 * np.cos(np.pi * done / steps))
            for name, gradient in found.items():
                first[name] += 0.1 * (gradient - first[name])
                square[name] += 0.005 * (gradient * gradient - square[name])
                ahead = first[name] / (1 - 0.9**done)
                spread = np.sqrt(square[name] / (1 - 0.995**done)) + 1e-8
                weights[name] -= (rate * (ahead / spread + plan.decay * weights[name])).astype(np.float32)
                mean[name] += np.float32(max(0.003, 10 / (done + 10))) * (weights[name] - mean[name])
        print(f"  epoch {epoch + 1}: loss {np.mean(losses):.4f}", flush=True)  # noqa: T201  # a script's progress
    return mean


def _step(
    weights: Weights, examples: Examples, *, scale: Scale, rows: npt.NDArray[np.int64], plan: Plan
) -> tuple[Weights, float]:
    width = plan.width
    pairs = examples.pairs[rows][:, :, -width:].astype(np.float32)
    pairs -= scale.pair_mean[:, None]
    pairs /= scale.pair_spread[:, None]
    own = (examples.own[rows] - scale.own_mean) / scale.own_spread
    scores, *layers = forward(weights, pairs, own, np.minimum(examples.count[rows], width))
    right = examples.right[rows][:, -width - 1 :]
    weight = examples.weight[rows] * right.any(axis=1)
    wrong, loss = wrong_of(scores, right, weight)
    return gradients(weights, pairs, own=own, wrong=wrong, layers=(layers[0], layers[1])), loss


def folded(weights: Weights, scale: Scale) -> Weights:
    """Return weights that take the features as they are."""
    done = dict(weights)
    done["pair_weights"] = weights["pair_weights"] / scale.pair_spread
    done["own_weights"] = weights["own_weights"] / scale.own_spread
    offset = done["pair_weights"] @ scale.pair_mean
    done["bias"] = weights["bias"] - offset - done["own_weights"] @ scale.own_mean
    done["start"] = weights["start"] + offset
    return {name: value.astype(np.float32) for name, value in done.items()}
