"""The answer model in JAX: an encoder that reads a question with a message.

It needs only numpy, JAX and optax, so that it also runs on a machine without this project.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from training.encoder_layers import (
    FAR,
    LAYERS,
    WIDTH,
    Array,
    Schedule,
    Trainer,
    Weights,
    drop,
    jax,
    jnp,
    layer,
    norm,
    optax,
)

#: The parts of an input: the message, the question, and up to two messages before, nearest first.
PARTS = 4
#: Kinds of pairs: the line answers the question, it does not, or it only looks like an answer.
RIGHT, WRONG, TRICK = range(3)
#: The weights that begin from nothing, and those of the encoder that stay as they are.
HEADS = frozenset({"segments", "query", "head/weight", "head/bias"})
FIXED = frozenset({"word", "place", "kind", "embedded/scale", "embedded/bias"})
_DROPOUT, _SMOOTHING = 0.1, 0.02


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Batch:
    """Examples of about the same length, padded. `parts` is -1 where there is no token."""

    tokens: Array
    places: Array
    parts: Array
    labels: Array
    weights: Array


def _embedded(weights: Weights, batch: Batch) -> Any:
    rows = weights["word"][batch.tokens] + weights["place"][batch.places] + weights["kind"]
    return norm(weights, "embedded", rows)


def _far(batch: Batch) -> Any:
    return jnp.where(batch.parts >= 0, 0.0, FAR)[:, None, :]


def vectors(weights: Weights, batch: Batch) -> Any:
    """Return the unit vectors of texts, one in each example, as the embedding model gives them."""
    rows, far = _embedded(weights, batch), _far(batch)
    for number in range(LAYERS):
        rows = layer(weights, number, asking=rows, rows=rows, far=far, key=jax.random.key(0), share=0.0)
    mask = (batch.parts >= 0)[:, :, None]
    mean = (rows * mask).sum(1) / mask.sum(1)
    return mean / jnp.linalg.norm(mean, axis=1, keepdims=True)


def forward(weights: Weights, batch: Batch, key: Any, share: float) -> Any:
    """Return for each example the logarithm of the odds that the message answers the question."""
    *keys, last = jax.random.split(key, LAYERS + 1)
    rows = _embedded(weights, batch) + weights["segments"][jnp.maximum(batch.parts, 0)]
    far = _far(batch)
    for number in range(LAYERS - 1):
        rows = layer(weights, number, asking=rows, rows=rows, far=far, key=keys[number], share=share)
    asking = rows[:, :1] + weights["query"]
    read = layer(weights, LAYERS - 1, asking=asking, rows=rows, far=far, key=keys[-1], share=share)
    return drop(read[:, 0], last, share) @ weights["head/weight"] + weights["head/bias"]


def _loss(weights: Weights, fixed: Weights, batch: Batch, key: Any) -> Any:
    out = forward({**fixed, **weights}, batch, key, _DROPOUT)
    soft = jnp.clip(batch.labels, _SMOOTHING, 1 - _SMOOTHING)
    loss = optax.sigmoid_binary_cross_entropy(out, soft)
    return (loss * batch.weights).sum() / batch.weights.sum()


def trainer(steps: int, rate: float, start: Mapping[str, Array]) -> Trainer:
    """Return the network ready to learn, from the weights of the encoder or from trained ones."""
    random = np.random.default_rng(1)
    heads = {
        "segments": random.normal(0, 0.02, (PARTS, WIDTH)),
        "query": random.normal(0, 0.02, WIDTH),
        "head/weight": random.normal(0, 0.02, WIDTH),
        "head/bias": np.zeros(()),
    }
    weights = {**heads, **start}
    return Trainer(
        Schedule(steps=steps, rate=rate, warm_steps=steps // 20, last=0.02, averaging=0.998),
        _loss,
        {name: value for name, value in weights.items() if name not in FIXED},
        heads=HEADS,
        fixed={name: jnp.asarray(weights[name], jnp.float32) for name in FIXED},
    )
