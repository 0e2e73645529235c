"""Trains the answer model: `python -m training.train_answer_model PACK OUT`.

PACK has pairs and the weights of the encoder (`pack_answer_pairs.py`). OUT gets the trained weights, and a checkpoint from
time to time: a stopped run goes on with the same command. It runs on a GPU or, slowly, on processors, and needs only numpy,
JAX and optax.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from training.answer_network import LAYERS, WIDTH, Array, Batch, Plan, Trainer, jax, jnp, lower

RIGHT, WRONG, TRICK, FOREIGN = range(4)
#: The most tokens of the message, the question, and the messages before.
LIMITS = np.array([80, 40, 24, 24])
#: Padded lengths with the number of examples of a batch; each is compiled once.
ON_GPU = jax.default_backend() == "gpu"
SIZES = ((64, 1024), (168, 384)) if ON_GPU else ((32, 32), (64, 16), (168, 8))
#: The same for reading alone.
READ_SIZES = ((168, 512),) if ON_GPU else SIZES
#: Wrong pairs of the excerpt, tricks, and lines of other excerpts, for one question in a pass.
IN_EXCERPT, TRICKS, FOREIGNERS = 3, 2, 2
#: Foreign lines are drawn from as many that look most alike.
ALIKE = 16
#: How often a message is read without those before it.
ALONE = 0.4
RIGHT_WEIGHT = 2.0
#: Steps between two lines of progress.
SHOWN = 200 if ON_GPU else 50
MATRIX = 2


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201  a script's progress


@dataclass(frozen=True, slots=True)
class Pack:
    """Pairs and the tokens of their texts."""

    pairs: Array
    tokens: Array
    lengths: Array
    starts: Array
    group_text: Array
    group_corpus: Array
    group_article: Array
    group_weight: Array

    @classmethod
    def read(cls, path: Path) -> "Pack":
        """Return what `pack_answer_pairs.py` wrote."""
        with np.load(path, allow_pickle=False) as stored:
            lengths = stored["lengths"]
            starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
            names = ("pairs", "tokens", "group_text", "group_corpus", "group_article", "group_weight")
            return cls(lengths=lengths, starts=starts, **{name: stored[name] for name in names})

    def batch(self, texts: Array, labels: Array, weights: Array, *, length: int, size: int) -> Batch:
        """Return padded examples; `texts` has a row of four for each: message, question, and two before it."""
        lens = np.where(texts >= 0, np.minimum(self.lengths[texts], LIMITS[: texts.shape[1]]), 0)
        flat, totals = lens.ravel(), lens.sum(1)
        ends = np.cumsum(flat)
        place = np.arange(ends[-1]) - np.repeat(ends - flat, flat)
        row = np.repeat(np.arange(len(texts)), totals)
        column = np.arange(ends[-1]) - np.repeat(np.cumsum(totals) - totals, totals)
        source = np.repeat(self.starts[np.maximum(texts, 0)].ravel(), flat) + place
        made = [np.zeros((size, length), np.int32), np.zeros((size, length), np.int32)]
        parts = np.full((size, length), -1, np.int32)
        parts[:, 0] = 0
        made[0][row, column], made[1][row, column] = self.tokens[source], place
        parts[row, column] = np.repeat(np.tile(np.arange(texts.shape[1]), len(texts)), flat)
        more = (0, size - len(texts))
        return Batch(*made, parts, np.pad(labels, more), np.pad(weights, more))

    def sizes(self, texts: Array) -> Array:
        """Return the number of tokens of each row."""
        return np.where(texts >= 0, np.minimum(self.lengths[texts], LIMITS[: texts.shape[1]]), 0).sum(1)


def encoder(path: Path) -> dict[str, Array]:
    """Return the weights of the encoder as floats."""
    with np.load(path, allow_pickle=False) as stored:
        found = {name: stored[name] for name in stored.files}
    for name in [name.removesuffix(":8") for name in found if name.endswith(":8")]:
        found[name] = (found.pop(f"{name}:8").astype(np.float32) * found.pop(f"{name}:scale")).astype(
            np.float32
        )
    if "place:added" in found:
        found["place"] += found.pop("place:added")
    return found


def batches(
    pack: Pack, texts: Array, labels: Array, weights: Array, *, seed: int | None = None
) -> Iterator[tuple[Array, Batch]]:
    """Yield row numbers and batches of about the same length; in random order if there is a seed."""
    sizes = pack.sizes(texts)
    chance = np.random.default_rng(seed)
    plan: list[tuple[int, int, Array]] = []
    least = 0
    for length, size in READ_SIZES if seed is None else SIZES:
        rows = np.flatnonzero((sizes > least) & (sizes <= length))
        least = length
        if seed is not None:
            chance.shuffle(rows)
        plan += [(length, size, rows[start : start + size]) for start in range(0, len(rows), size)]
    order = chance.permutation(len(plan)) if seed is not None else range(len(plan))
    for number in order:
        length, size, rows = plan[number]
        yield rows, pack.batch(texts[rows], labels[rows], weights[rows], length=length, size=size)


def vectors(pack: Pack, start: dict[str, Any], texts: Array) -> Array:
    """Return the unit vectors of texts by the encoder as it was."""
    weights = {name: jnp.asarray(value, jnp.float32) for name, value in start.items()}

    @jax.jit
    def read(weights: Any, batch: Batch) -> Any:
        rows = lower(weights, batch, LAYERS, key=jax.random.key(0))
        mask = (batch.parts >= 0)[:, :, None]
        mean = (rows * mask).sum(1) / mask.sum(1)
        return mean / jnp.linalg.norm(mean, axis=1, keepdims=True)

    found = np.zeros((len(texts), WIDTH), np.float32)
    column = texts[:, None]
    zeros = np.zeros(len(texts), np.float32)
    for rows, batch in batches(pack, column, zeros, zeros):
        found[rows] = np.asarray(read(weights, batch))[: len(rows)]
    return found


@dataclass(frozen=True, slots=True)
class Neighbours:
    """For each pair how alike question and message are, and for each group the most alike lines of other excerpts."""

    similarity: Array
    #: Rows of pairs, shape (groups, ALIKE).
    foreign: Array

    @classmethod
    def of(cls, pack: Pack, start: dict[str, Any]) -> "Neighbours":
        """Compare all questions with all lines of their corpus."""
        used = np.unique(np.concatenate([pack.pairs[:, 1], pack.pairs[:, 2]]))
        found = np.zeros((len(pack.lengths), WIDTH), np.float32)
        found[used] = vectors(pack, start, used)
        parts = np.array_split(pack.pairs, max(len(pack.pairs) // 200_000, 1))
        similarity = np.concatenate([(found[one[:, 1]] * found[one[:, 2]]).sum(1) for one in parts])
        foreign = np.zeros((len(pack.group_text), ALIKE), np.int32)
        genuine = pack.pairs[:, 5] != TRICK
        for corpus in np.unique(pack.group_corpus):
            groups = np.flatnonzero(pack.group_corpus == corpus)
            rows = np.flatnonzero(genuine & (pack.group_corpus[pack.pairs[:, 0]] == corpus))
            _, first = np.unique(pack.pairs[rows, 2], return_index=True)
            rows = rows[first]
            lines = jnp.asarray(found[pack.pairs[rows, 2]])
            article = jnp.asarray(pack.group_article[pack.pairs[rows, 0]])
            for part in np.array_split(groups, len(groups) // 1024 + 1):
                close = jnp.asarray(found[pack.group_text[part]]) @ lines.T
                own = jnp.asarray(pack.group_article[part])[:, None] == article[None]
                best = jax.lax.top_k(jnp.where(own, -2.0, close), min(ALIKE, len(rows)))[1]
                chosen = rows[np.asarray(best)]
                foreign[part] = np.resize(chosen.T, (ALIKE, len(part))).T
        return cls(similarity, foreign)


def one_pass(pack: Pack, near: Neighbours, seed: int) -> tuple[Array, Array, Array]:
    """Return the texts, labels and weights of one pass."""
    chance = np.random.default_rng(seed)
    group, kind = pack.pairs[:, 0], pack.pairs[:, 5]
    # The more alike a wrong line is, the more often it is drawn.
    drawn = near.similarity * 8 + chance.gumbel(size=len(group))
    chosen = [np.flatnonzero(kind == RIGHT)]
    for wanted, most in ((WRONG, IN_EXCERPT), (TRICK, TRICKS)):
        rows = np.flatnonzero(kind == wanted)
        order = rows[np.lexsort((-drawn[rows], group[rows]))]
        first = np.searchsorted(group[order], group[order])
        chosen.append(order[np.arange(len(order)) - first < most])
    own = np.concatenate(chosen)
    picks = chance.integers(0, ALIKE, (len(pack.group_text), FOREIGNERS))
    foreign = np.take_along_axis(near.foreign, picks, 1)
    groups = np.repeat(np.arange(len(foreign)), FOREIGNERS)
    lines = pack.pairs[foreign.ravel()]
    texts = np.concatenate(
        [
            pack.pairs[own][:, [2, 1, 3, 4]],
            np.stack([lines[:, 2], pack.group_text[groups], lines[:, 3], lines[:, 4]], 1),
        ]
    )
    texts[chance.random(len(texts)) < ALONE, 2:] = -1
    labels = np.concatenate([kind[own] == RIGHT, np.zeros(len(groups), bool)]).astype(np.float32)
    weights = pack.group_weight[np.concatenate([group[own], groups])] * np.where(
        labels > 0, RIGHT_WEIGHT, 1.0
    )
    return texts, labels, weights.astype(np.float32)


def learn(pack: Pack, start: dict[str, Any], near: Neighbours, options: argparse.Namespace) -> Trainer:
    """Take all steps, or go on from the checkpoint."""
    passes = [one_pass(pack, near, number) for number in range(options.passes)]
    steps = [sum(1 for _ in batches(pack, *one, seed=number)) for number, one in enumerate(passes)]
    _say(f"{len(passes[0][0])} pairs a pass, {sum(steps)} steps")
    trainer = Trainer(Plan(steps=sum(steps), split=options.split, rate=options.rate), start)
    checkpoint = options.out / f"checkpoint-{options.split}.npz"
    if checkpoint.exists():
        with np.load(checkpoint, allow_pickle=False) as stored:
            trainer.restore([stored[f"arr_{number}"] for number in range(len(stored.files))])
    done, step, losses = trainer.step, 0, []
    trainer.compile(
        [pack.batch(*(one[:1] for one in passes[0]), length=length, size=size) for length, size in SIZES]
    )
    began = time.monotonic()
    _say("compiled")
    for number, one in enumerate(passes):
        for _, batch in batches(pack, *one, seed=number):
            step += 1
            if step <= done:
                continue
            losses.append(trainer.learn(batch))
            if time.monotonic() - began > options.seconds:
                _say(f"the time is over after step {step}")
                return trainer
            if step % SHOWN == 0:
                mean = np.mean([float(loss) for loss in losses[-SHOWN:]])
                _say(f"{time.monotonic() - began:.0f} s, step {step} of {sum(steps)}: loss {mean:.4f}")
        if options.keep and step > done:
            np.savez(checkpoint, *trainer.stored())
    return trainer


def outputs(trainer: Trainer, pack: Pack, *, alone: bool) -> Array:
    """Return the outputs for all pairs of a pack."""
    texts = pack.pairs[:, [2, 1, 3, 4]].copy()
    if alone:
        texts[:, 2:] = -1
    found = np.zeros(len(texts), np.float32)
    zeros = np.zeros(len(texts), np.float32)
    for rows, batch in batches(pack, texts, zeros, zeros):
        found[rows] = np.asarray(trainer.read(batch))[: len(rows)]
    return found


def eight_bits(weights: dict[str, Any]) -> dict[str, Array]:
    """Return weights with matrices as 8-bit numbers and a scale for each column."""
    found: dict[str, Array] = {}
    for name, value in weights.items():
        array = np.asarray(value, np.float32)
        if array.ndim == MATRIX and name != "segments":
            scale = np.maximum(np.abs(array).max(0) / 127, 1e-8)
            found[f"{name}:8"], found[f"{name}:scale"] = np.rint(array / scale).astype(np.int8), scale
        else:
            found[name] = array
    return found


def main() -> None:
    """Train, measure on other packs, and write the weights."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pack", type=Path, help="a folder with pairs.npz and encoder.npz")
    parser.add_argument("out", type=Path)
    parser.add_argument("--start", type=Path, help="trained weights to start from, instead of the encoder")
    parser.add_argument(
        "--split", type=int, default=0, help="the layers that read each text alone and stay as they are"
    )
    parser.add_argument("--passes", type=int, default=4)
    parser.add_argument("--rate", type=float, default=1.5e-4, help="the highest rate of learning")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="the longest time of training")
    parser.add_argument("--keep", action="store_true", help="write a checkpoint after each pass")
    parser.add_argument(
        "--read",
        action="append",
        default=[],
        help="also write the outputs for the pairs of this file of PACK",
    )
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    pack, start = Pack.read(options.pack / "pairs.npz"), encoder(options.pack / "encoder.npz")
    near = Neighbours.of(pack, start)
    start |= {} if options.start is None else encoder(options.start)
    _say("neighbours are known")
    trainer = learn(pack, start, near, options)
    np.savez(options.out / f"answers-{options.split}.npz", **eight_bits(trainer.mean))
    found: dict[str, Array] = {}
    for name in options.read:
        measured = Pack.read(options.pack / f"{name}.npz")
        for alone in (False, True):
            found[f"{name}/{'alone' if alone else 'with messages before'}"] = outputs(
                trainer, measured, alone=alone
            )
    np.savez(options.out / f"outputs-{options.split}.npz", **found)


if __name__ == "__main__":
    main()
