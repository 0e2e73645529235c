"""The layers of the encoder in JAX, and how weights learn: what the networks of the message and the answer model share.

It needs only numpy, JAX and optax, so that it also runs on a machine without this project.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import jax as jax_library
import numpy as np
import optax as optax_library

Array = np.ndarray[Any, np.dtype[Any]]
#: The libraries have partial types, so their objects are untyped here.
jax, optax = cast("Any", jax_library), cast("Any", optax_library)
jnp = jax.numpy
Weights = dict[str, Any]
#: The loss of a batch, of: the weights that learn, the weights that do not, the batch, and a key for dropout.
Loss = Callable[[Weights, Weights, Any, Any], Any]

WIDTH, ATTENTION_HEADS, LAYERS = 384, 12, 6
#: What is added to the attention to a token that must not be seen.
FAR = -1e9
ON_GPU: bool = jax.default_backend() == "gpu"
#: Products are computed with these numbers.
_PRODUCTS = jnp.bfloat16 if ON_GPU else jnp.float32
_SMALLEST = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How fast weights learn."""

    steps: int
    rate: float
    head_rate: float = 1e-3
    warm_steps: int = 100
    #: The share of the highest rate at the end.
    last: float = 0.05
    decay: float = 0.02
    dropout: float = 0.1
    #: How slowly the shipped weights follow the trained ones.
    averaging: float = 0.997


def norm(weights: Weights, name: str, rows: Any) -> Any:
    """Return rows with mean 0 and spread 1, scaled and moved."""
    mean = rows.mean(-1, keepdims=True)
    spread = jnp.square(rows - mean).mean(-1, keepdims=True)
    scaled = (rows - mean) * jax.lax.rsqrt(spread + 1e-12)
    return scaled * weights[f"{name}/scale"] + weights[f"{name}/bias"]


def drop(rows: Any, key: Any, share: float) -> Any:
    """Return rows with a share of the values set to 0, and the others larger."""
    if share == 0.0:
        return rows
    kept = jax.random.bernoulli(key, 1 - share, rows.shape)
    return jnp.where(kept, rows / (1 - share), 0.0)


def layer(weights: Weights, number: int, *, asking: Any, rows: Any, far: Any, key: Any, share: float) -> Any:
    """Return the states of the tokens that ask, after they attended to the tokens of `rows`.

    `far` is added to the attention and has the shape (texts, asking tokens or 1, tokens).
    """

    def linear(part: str, of: Any) -> Any:
        made = of.astype(_PRODUCTS) @ weights[f"{number}/{part}/weight"].astype(_PRODUCTS)
        return made.astype(jnp.float32) + weights[f"{number}/{part}/bias"]

    def split(part: str, of: Any) -> Any:
        made = linear(part, of)
        return made.reshape(*made.shape[:2], ATTENTION_HEADS, -1).astype(_PRODUCTS)

    query, key_rows, value = split("query", asking), split("key", rows), split("value", rows)
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key_rows).astype(jnp.float32)
    scores = scores / np.sqrt(WIDTH / ATTENTION_HEADS) + far[:, None]
    shares = jax.nn.softmax(scores, axis=-1).astype(_PRODUCTS)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", shares, value).reshape(asking.shape)
    first, second = jax.random.split(key)
    asking = norm(weights, f"{number}/norm_1", asking + drop(linear("out", mixed), first, share))
    inner = jax.nn.gelu(linear("up", asking), approximate=False)
    return norm(weights, f"{number}/norm_2", asking + drop(linear("down", inner), second, share))


class Trainer:
    """Weights that learn from batches, and their running mean."""

    def __init__(
        self,
        schedule: Schedule,
        loss: Loss,
        weights: Mapping[str, Any],
        *,
        heads: Collection[str],
        fixed: Weights | None = None,
    ) -> None:
        """Start from weights.

        Args:
            schedule: How fast they learn.
            loss: What becomes smaller.
            weights: The weights that learn; they are copied.
            heads: The weights that begin from nothing and learn faster.
            fixed: The weights that do not learn.
        """
        self.schedule = schedule
        self.fixed = fixed or {}
        self.weights: Weights = {name: jnp.array(value, jnp.float32) for name, value in weights.items()}
        self.mean: Weights = jax.tree.map(jnp.copy, self.weights)
        self.step = 0
        self._loss = loss
        self._rule = _rule(schedule, {name: name in heads for name in self.weights})
        self._state: Any = self._rule.init(self.weights)
        self._update = jax.jit(self._updated, donate_argnums=0)

    def _updated(self, learnt: Any, fixed: Weights, batch: Any, step: Any) -> Any:
        weights, state, mean = learnt
        key = jax.random.fold_in(jax.random.key(7), step)
        loss, slopes = jax.value_and_grad(self._loss)(weights, fixed, batch, key)
        change, state = self._rule.update(slopes, state, weights)
        weights = optax.apply_updates(weights, change)
        # The mean begins short, so that the first weights do not stay in it.
        share = jnp.minimum(self.schedule.averaging, (1 + step) / (10 + step))
        mean = {name: share * mean[name] + (1 - share) * new for name, new in weights.items()}
        return (weights, state, mean), loss

    def learn(self, batch: Any) -> Any:
        """Take one step; return the loss, which may not be computed yet."""
        learnt = (self.weights, self._state, self.mean)
        learnt, loss = self._update(learnt, self.fixed, batch, np.int32(self.step))
        self.weights, self._state, self.mean = learnt
        self.step += 1
        return loss

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


def _rule(schedule: Schedule, is_head: Mapping[str, bool]) -> Any:
    def adam(peak: float) -> Any:
        rate = optax.warmup_cosine_decay_schedule(
            0.0, peak, schedule.warm_steps, schedule.steps, peak * schedule.last
        )
        return optax.adamw(rate, weight_decay=schedule.decay)

    parts = {True: adam(schedule.head_rate), False: adam(schedule.rate)}
    return optax.chain(optax.clip_by_global_norm(1.0), optax.multi_transform(parts, is_head))


def small(matrix: Array) -> tuple[Array, Array]:
    """Return a matrix as 8-bit numbers, and a scale for each column."""
    scale = np.maximum(np.abs(matrix).max(axis=0) / 127, _SMALLEST).astype(np.float32)
    return np.clip(np.rint(matrix / scale), -127, 127).astype(np.int8), scale


def floats(stored: Mapping[str, Array]) -> dict[str, Array]:
    """Return weights as floats. A matrix `name:8` of 8-bit numbers has its scale in `name:scale`."""
    found = {name: value for name, value in stored.items() if not name.endswith((":8", ":scale"))}
    for name in stored:
        if name.endswith(":8"):
            plain = name.removesuffix(":8")
            found[plain] = stored[name].astype(np.float32) * stored[f"{plain}:scale"]
    return found


def read_weights(path: Path) -> dict[str, Array]:
    """Return the weights in a file as floats."""
    with np.load(path, allow_pickle=False) as stored:
        return floats(dict(stored))
