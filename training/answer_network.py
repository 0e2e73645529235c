"""The answer model in JAX: an encoder that reads a question with a message, its forward pass, loss and training steps.

It needs only numpy, JAX and optax, so that it also runs on a machine without this project.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import jax as jax_library
import numpy as np
import optax as optax_library

Array = np.ndarray[Any, np.dtype[Any]]
#: The libraries have partial types, so their objects are untyped here.
jax, optax = cast("Any", jax_library), cast("Any", optax_library)
jnp = jax.numpy
Weights = dict[str, Any]

WIDTH, ATTENTION_HEADS, LAYERS = 384, 12, 6
#: The parts of an input, which are also their segments: the message, the question, and messages before, nearest first.
MESSAGE, QUESTION, BEFORE = 0, 1, 2
SEGMENTS = 4
_FAR = -1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How the network learns."""

    steps: int
    #: The layers below this one read each part alone and stay as they are.
    split: int
    rate: float = 1.5e-4
    head_rate: float = 1e-3
    decay: float = 0.02
    dropout: float = 0.1
    #: The share of the steps in which the rate rises.
    warm: float = 0.05
    #: How slowly the shipped weights follow the trained ones.
    averaging: float = 0.998
    smoothing: float = 0.02


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Batch:
    """Examples of about the same length, padded. `parts` is -1 where there is no token."""

    tokens: Array
    places: Array
    parts: Array
    labels: Array
    weights: Array


def _norm(weights: Weights, name: str, rows: Any) -> Any:
    rows = rows.astype(jnp.float32)
    mean = rows.mean(-1, keepdims=True)
    spread = jnp.square(rows - mean).mean(-1, keepdims=True)
    scaled = (rows - mean) * jax.lax.rsqrt(spread + 1e-12)
    return scaled * weights[f"{name}/scale"] + weights[f"{name}/bias"]


def _linear(weights: Weights, name: str, rows: Any) -> Any:
    kind = jnp.bfloat16 if jax.default_backend() == "gpu" else jnp.float32
    made = rows.astype(kind) @ weights[f"{name}/weight"].astype(kind)
    return made.astype(jnp.float32) + weights[f"{name}/bias"]


def _drop(rows: Any, key: Any, share: float) -> Any:
    if share == 0.0:
        return rows
    kept = jax.random.bernoulli(key, 1 - share, rows.shape)
    return jnp.where(kept, rows / (1 - share), 0.0)


def _layer(weights: Weights, layer: int, *, asking: Any, rows: Any, far: Any, key: Any, share: float) -> Any:
    kind = jnp.bfloat16 if jax.default_backend() == "gpu" else jnp.float32

    def split(part: str, of: Any) -> Any:
        made = _linear(weights, f"{layer}/{part}", of)
        return made.reshape(*made.shape[:2], ATTENTION_HEADS, -1).astype(kind)

    query, key_rows, value = split("query", asking), split("key", rows), split("value", rows)
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key_rows).astype(jnp.float32)
    shares = jax.nn.softmax(scores / np.sqrt(WIDTH / ATTENTION_HEADS) + far[:, None], axis=-1).astype(kind)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", shares, value).reshape(asking.shape)
    first, second = jax.random.split(key)
    mixed = _drop(_linear(weights, f"{layer}/out", mixed), first, share)
    asking = _norm(weights, f"{layer}/norm_1", asking + mixed)
    inner = jax.nn.gelu(_linear(weights, f"{layer}/up", asking), approximate=False)
    inner = _drop(_linear(weights, f"{layer}/down", inner), second, share)
    return _norm(weights, f"{layer}/norm_2", asking + inner)


def lower(weights: Weights, batch: Batch, layers: int, *, key: Any, share: float = 0.0) -> Any:
    """Return the states after the first layers; each part is read alone."""
    embedded = weights["word"][batch.tokens].astype(jnp.float32) + weights["place"][batch.places]
    rows = _norm(weights, "embedded", embedded)
    same = (batch.parts[:, :, None] == batch.parts[:, None, :]) & (batch.parts >= 0)[:, None, :]
    far = jnp.where(same, 0.0, _FAR)
    for layer in range(layers):
        key, own = jax.random.split(key)
        rows = _layer(weights, layer, asking=rows, rows=rows, far=far, key=own, share=share)
    return rows


def forward(weights: Weights, batch: Batch, split: int, *, key: Any, share: float = 0.0) -> Any:
    """Return for each example the logarithm of the odds that the message answers the question."""
    first, *keys = jax.random.split(key, LAYERS - split + 2)
    rows = lower(weights, batch, split, key=first)
    if split:
        rows = jax.lax.stop_gradient(rows)
    rows = rows + weights["segments"][jnp.maximum(batch.parts, 0)]
    far = jnp.where(batch.parts >= 0, 0.0, _FAR)[:, None, :]
    for layer, own in zip(range(split, LAYERS - 1), keys, strict=False):
        rows = _layer(weights, layer, asking=rows, rows=rows, far=far, key=own, share=share)
    asking = rows[:, :1] + weights["query"]
    read = _layer(weights, LAYERS - 1, asking=asking, rows=rows, far=far, key=keys[-2], share=share)
    read = _drop(read[:, 0], keys[-1], share)
    return read @ weights["head/weight"] + weights["head/bias"]


def _loss(trained: Weights, fixed: Weights, batch: Batch, *, key: Any, plan: Plan) -> Any:
    out = forward({**fixed, **trained}, batch, plan.split, key=key, share=plan.dropout)
    soft = jnp.clip(batch.labels, plan.smoothing, 1 - plan.smoothing)
    loss = optax.sigmoid_binary_cross_entropy(out, soft)
    return (loss * batch.weights).sum() / batch.weights.sum()


class Trainer:
    """Weights that learn from batches, and their running mean."""

    def __init__(self, plan: Plan, start: Mapping[str, Array]) -> None:
        self._plan = plan
        random = np.random.default_rng(1)
        weights = {name: jnp.asarray(value, jnp.float32) for name, value in start.items()}
        for name, shape in (("segments", (SEGMENTS, WIDTH)), ("query", (WIDTH,)), ("head/weight", (WIDTH,))):
            weights.setdefault(name, jnp.asarray(random.normal(0, 0.02, shape), jnp.float32))
        weights.setdefault("head/bias", jnp.zeros((), jnp.float32))
        learns = {name for name in weights if self._learns(name)}
        self.fixed = {name: value for name, value in weights.items() if name not in learns}
        self.weights = {name: value for name, value in weights.items() if name in learns}
        self.mean: Weights = jax.tree.map(jnp.copy, self.weights)
        new = {name: name.split("/")[0] in {"head", "query", "segments"} for name in self.weights}

        def rate(peak: float) -> Any:
            warm = int(plan.warm * plan.steps)
            return optax.warmup_cosine_decay_schedule(0.0, peak, warm, plan.steps, peak / 50)

        self._rule = optax.chain(
            optax.clip_by_global_norm(1.0),
            optax.multi_transform(
                {
                    True: optax.adamw(rate(plan.head_rate), weight_decay=plan.decay),
                    False: optax.adamw(rate(plan.rate), weight_decay=plan.decay),
                },
                new,
            ),
        )
        self._state: Any = self._rule.init(self.weights)
        self._update = jax.jit(self._updated, donate_argnums=0)
        self._compiled: dict[int, Any] = {}
        self._read = jax.jit(
            lambda weights, batch: forward(weights, batch, plan.split, key=jax.random.key(0))
        )
        self.step = 0

    def compile(self, batches: list[Batch]) -> None:
        """Compile the steps for batches of these shapes."""
        learnt = (self.weights, self._state, self.mean)
        for batch in batches:
            made = self._update.lower(learnt, self.fixed, batch, np.int32(0)).compile()
            self._compiled[batch.tokens.shape[1]] = made

    def _learns(self, name: str) -> bool:
        top = name.partition("/")[0]
        return top in {"head", "query", "segments"} or (top.isdigit() and int(top) >= self._plan.split)

    def _updated(self, learnt: Any, fixed: Weights, batch: Batch, step: Any) -> Any:
        weights, state, mean = learnt
        key = jax.random.fold_in(jax.random.key(7), step)
        loss, slopes = jax.value_and_grad(_loss)(weights, fixed, batch, key=key, plan=self._plan)
        change, state = self._rule.update(slopes, state, weights)
        weights = optax.apply_updates(weights, change)
        # The mean begins short, so that the first weights do not stay in it.
        share = jnp.minimum(self._plan.averaging, (1 + step) / (10 + step))
        mean = {name: share * mean[name] + (1 - share) * new for name, new in weights.items()}
        return (weights, state, mean), loss

    def learn(self, batch: Batch) -> Any:
        """Take one step; return the loss, which may not be computed yet."""
        learnt = (self.weights, self._state, self.mean)
        update = self._compiled.get(batch.tokens.shape[1], self._update)
        (self.weights, self._state, self.mean), loss = update(learnt, self.fixed, batch, np.int32(self.step))
        self.step += 1
        return loss

    def read(self, batch: Batch) -> Any:
        """Return the outputs of the running mean for a batch, which may not be computed yet."""
        return self._read({**self.fixed, **self.mean}, batch)

    def stored(self) -> list[Array]:
        """Return all that is needed to go on later."""
        return [
            *map(np.asarray, jax.tree.leaves((self.weights, self._state, self.mean))),
            np.array(self.step),
        ]

    def restore(self, stored: list[Array]) -> None:
        """Go on from what `stored` returned."""
        form = jax.tree.structure((self.weights, self._state, self.mean))
        self.weights, self._state, self.mean = jax.tree.unflatten(
            form, [jnp.asarray(one) for one in stored[:-1]]
        )
        self.step = int(stored[-1])
