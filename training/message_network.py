"""The top layers and heads of the message model in JAX: weights, forward, loss, and training steps."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from roomlore.models.message_model import (
    ACTS,
    INTENTS,
    KEEP,
    OUTPUTS,
    RELATIONS,
    SCOPES,
    SEGMENTS,
)
from training.encoder_layers import (
    FAR,
    WIDTH,
    Array,
    Schedule,
    Trainer,
    Weights,
    drop,
    floats,
    jax,
    jnp,
    layer,
    optax,
)
from training.encoder_weights import encoder_weights

#: The layers of the encoder that are trained.
LAYERS = (3, 4, 5)
#: Each reads the text with a query of its own: acts and keep; requests; pairs.
QUERIES = 3
#: The query of each output.
QUERY_OF = np.array(
    [0] * (len(ACTS) + KEEP) + [1] * (len(INTENTS) + len(SCOPES)) + [2] * (len(RELATIONS) + 1)
)
#: The weights that begin from nothing.
HEADS = frozenset({"segments", "queries", "heads/weight", "heads/bias"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Schedule):
    """How the network learns."""

    #: The mean number of examples of a batch.
    mean_size: float
    rate: float = 2e-4
    #: How much each kind of label counts.
    acts: float = 0.25
    keep: float = 0.4
    intent: float = 1.0
    scope: float = 0.5
    relation: float = 1.5
    answer: float = 1.0
    smoothing: float = 0.05


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Batch:
    """Examples of about the same length, padded."""

    states: Array
    segments: Array
    mask: Array
    acts: Array
    #: keep, intent, scope, relation, answer; -1 where it is not known.
    labels: Array
    weight: Array


def first_weights() -> Weights:
    """Return the top layers of the shipped encoder, with heads that know nothing yet."""
    found = floats(encoder_weights())
    weights = {name: value for name, value in found.items() if name.split("/")[0] in map(str, LAYERS)}
    random = np.random.default_rng(1)
    weights["segments"] = random.normal(0, 0.02, (SEGMENTS, WIDTH))
    weights["queries"] = random.normal(0, 0.02, (QUERIES, WIDTH))
    weights["heads/weight"] = random.normal(0, 0.02, (OUTPUTS, WIDTH))
    weights["heads/bias"] = np.zeros(OUTPUTS)
    return {name: jnp.asarray(value, jnp.float32) for name, value in weights.items()}


def forward(weights: Weights, batch: Batch, key: Any, share: float) -> Any:
    """Return the outputs for each example; the first token of the first text asks."""
    rows = batch.states.astype(jnp.float32) + weights["segments"][batch.segments]
    far = ((1 - batch.mask) * FAR)[:, None]
    keys = jax.random.split(key, len(LAYERS) + 1)
    for number, one in zip(LAYERS[:-1], keys, strict=False):
        rows = layer(weights, number, asking=rows, rows=rows, far=far, key=one, share=share)
    asking = rows[:, :1] + weights["queries"]
    read = layer(weights, LAYERS[-1], asking=asking, rows=rows, far=far, key=keys[-2], share=share)
    read = drop(read, keys[-1], share)
    return jnp.einsum("bow,ow->bo", read[:, QUERY_OF], weights["heads/weight"]) + weights["heads/bias"]


def _choice(logits: Any, label: Any, smoothing: float) -> Any:
    logs = jax.nn.log_softmax(logits)
    right = jnp.take_along_axis(logs, jnp.maximum(label, 0)[:, None], 1)[:, 0]
    return jnp.where(label >= 0, -(1 - smoothing) * right - smoothing * logs.mean(-1), 0.0)


def _loss(weights: Weights, _fixed: Weights, batch: Batch, key: Any, *, plan: Plan) -> Any:
    acts, labels = batch.acts, batch.labels
    out = forward(weights, batch, key, plan.dropout)
    ends = np.cumsum([len(ACTS), KEEP, len(INTENTS), len(SCOPES), len(RELATIONS)])
    for_acts, for_keep, for_intent, for_scope, for_relation, for_answer = jnp.split(out, ends, axis=1)
    smooth = plan.smoothing
    soft = jnp.clip(acts, smooth / 2, 1 - smooth / 2)
    loss = plan.acts * jnp.where(acts >= 0, optax.sigmoid_binary_cross_entropy(for_acts, soft), 0.0).sum(1)
    loss += plan.keep * _choice(for_keep, labels[:, 0], smooth)
    loss += plan.intent * _choice(for_intent, labels[:, 1], smooth / 2)
    loss += plan.scope * _choice(for_scope, labels[:, 2], smooth)
    loss += plan.relation * _choice(for_relation, labels[:, 3], smooth)
    answer = labels[:, 4]
    soft = jnp.clip(answer, smooth / 2, 1 - smooth / 2)
    loss += plan.answer * jnp.where(
        answer >= 0, optax.sigmoid_binary_cross_entropy(for_answer[:, 0], soft), 0.0
    )
    return (loss * batch.weight).sum() / plan.mean_size


def trainer(plan: Plan, start: Weights | None = None) -> Trainer:
    """Return the network ready to learn, from some weights or from those of the encoder."""
    weights = first_weights() if start is None else start
    return Trainer(plan, partial(_loss, plan=plan), weights, heads=HEADS)


_KEY = jax.random.key(0)
_forward = jax.jit(forward, static_argnums=3)


def outputs(weights: Weights, batch: Batch) -> Array:
    """Return the outputs of a batch without dropout."""
    return np.asarray(_forward(weights, batch, _KEY, 0.0))
