"""Trains the answer model: `python -m training.train_answer_model PACK OUT`.

PACK has pairs and the weights of the encoder (`pack_answer_pairs.py`). OUT gets the trained weights, and with `--keep` a
checkpoint after each pass: a stopped run goes on with the same command. It runs on a GPU or, slowly, on processors, and
needs only numpy, JAX and optax.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from training import answer_network
from training.answer_network import RIGHT, TRICK, WRONG, Batch
from training.encoder_layers import ON_GPU, WIDTH, Array, Trainer, Weights, jax, jnp, read_weights, small

#: Padded lengths with the number of examples of a batch; each is compiled once.
SIZES = ((64, 1024), (168, 384)) if ON_GPU else ((32, 32), (64, 16), (168, 8))
#: Wrong pairs of the excerpt, tricks, and lines of other excerpts, for one question in a pass.
IN_EXCERPT, TRICKS, FOREIGNERS = 3, 2, 2
#: Foreign lines are drawn from as many that look most alike.
ALIKE = 16
#: How often a message is read without those before it.
ALONE = 0.4
RIGHT_WEIGHT = 2.0
#: Steps between two lines of progress.
SHOWN = 200 if ON_GPU else 50
#: The number of dimensions of weights that are written with 8 bits.
_MATRIX = 2


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201  a script's progress


@dataclass(frozen=True, slots=True)
class Pack:
    """Pairs and the tokens of their texts."""

    pairs: Array
    tokens: Array
    lengths: Array
    starts: Array
    #: The most tokens of the message, of the question, and of each message before.
    limits: Array
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
            groups = ("group_text", "group_corpus", "group_article", "group_weight")
            names = ("pairs", "tokens", "limits", *groups)
            return cls(lengths=lengths, starts=starts, **{name: stored[name] for name in names})

    def sizes(self, texts: Array) -> Array:
        """Return the number of tokens that are read of each text; 0 where the number of a text is negative."""
        most = self.limits[: texts.shape[1]]
        return np.where(texts >= 0, np.minimum(self.lengths[texts], most), 0)

    def batch(self, texts: Array, labels: Array, weights: Array, *, length: int, size: int) -> Batch:
        """Return padded examples; each row of `texts` has a message, a question, and two messages before."""
        sizes = self.sizes(texts)
        flat, totals = sizes.ravel(), sizes.sum(1)
        ends = np.cumsum(flat)
        place = np.arange(ends[-1]) - np.repeat(ends - flat, flat)
        row = np.repeat(np.arange(len(texts)), totals)
        column = np.arange(ends[-1]) - np.repeat(np.cumsum(totals) - totals, totals)
        source = np.repeat(self.starts[np.maximum(texts, 0)].ravel(), flat) + place
        tokens, places = np.zeros((2, size, length), np.int32)
        parts = np.full((size, length), -1, np.int32)
        parts[:, 0] = 0
        tokens[row, column], places[row, column] = self.tokens[source], place
        parts[row, column] = np.repeat(np.tile(np.arange(texts.shape[1]), len(texts)), flat)
        more = (0, size - len(texts))
        return Batch(tokens, places, parts, np.pad(labels, more), np.pad(weights, more))


def batches(
    pack: Pack, texts: Array, labels: Array, weights: Array, *, seed: int
) -> Iterator[tuple[Array, Batch]]:
    """Yield row numbers and batches of about the same length, in random order."""
    sizes = pack.sizes(texts).sum(1)
    chance = np.random.default_rng(seed)
    plan: list[tuple[int, int, Array]] = []
    least = 0
    for length, size in SIZES:
        rows = np.flatnonzero((sizes > least) & (sizes <= length))
        least = length
        chance.shuffle(rows)
        plan += [(length, size, rows[start : start + size]) for start in range(0, len(rows), size)]
    for number in chance.permutation(len(plan)):
        length, size, rows = plan[number]
        yield rows, pack.batch(texts[rows], labels[rows], weights[rows], length=length, size=size)


def vectors(pack: Pack, start: Weights, texts: Array) -> Array:
    """Return the unit vectors of texts by the encoder as it was."""
    weights = {name: jnp.asarray(value, jnp.float32) for name, value in start.items()}
    read = jax.jit(answer_network.vectors)
    found = np.zeros((len(texts), WIDTH), np.float32)
    zeros = np.zeros(len(texts), np.float32)
    for rows, batch in batches(pack, texts[:, None], zeros, zeros, seed=0):
        found[rows] = np.asarray(read(weights, batch))[: len(rows)]
    return found


@dataclass(frozen=True, slots=True)
class Neighbours:
    """For each pair how alike question and message are, and for each group the most alike lines of other excerpts."""

    similarity: Array
    #: Rows of pairs, shape (groups, ALIKE).
    foreign: Array

    @classmethod
    def of(cls, pack: Pack, start: Weights) -> "Neighbours":
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


def learn(pack: Pack, start: Weights, near: Neighbours, options: argparse.Namespace) -> Trainer:
    """Take the steps, or go on from the checkpoint."""
    passes = [one_pass(pack, near, number) for number in range(options.passes)]
    steps = sum(1 for number, one in enumerate(passes) for _ in batches(pack, *one, seed=number))
    _say(f"{len(passes[0][0])} pairs a pass, {steps} steps")
    trainer = answer_network.trainer(steps, options.rate, start)
    checkpoint = options.out / "checkpoint.npz"
    if checkpoint.exists():
        with np.load(checkpoint, allow_pickle=False) as stored:
            trainer.restore([stored[f"arr_{number}"] for number in range(len(stored.files))])
    done, step, losses = trainer.step, 0, []
    began = time.monotonic()
    for number, one in enumerate(passes):
        for _, batch in batches(pack, *one, seed=number):
            step += 1
            if step <= done:
                continue
            losses.append(trainer.learn(batch))
            if step == options.steps:
                return trainer
            if step % SHOWN == 0:
                mean = np.mean([float(loss) for loss in losses[-SHOWN:]])
                _say(f"{time.monotonic() - began:.0f} s, step {step} of {steps}: loss {mean:.4f}")
        if options.keep and step > done:
            np.savez(checkpoint, *trainer.stored())
    return trainer


def with_8_bits(weights: Weights) -> dict[str, Array]:
    """Return weights as `encoder_layers.floats` reads them: matrices with 8 bits."""
    found: dict[str, Array] = {}
    for name, value in weights.items():
        array = np.asarray(value, np.float32)
        if array.ndim == _MATRIX and name != "segments":
            found[f"{name}:8"], found[f"{name}:scale"] = small(array)
        else:
            found[name] = array
    return found


def main() -> None:
    """Train and write the weights."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pack", type=Path, help="a folder with pairs.npz and encoder.npz")
    parser.add_argument("out", type=Path)
    parser.add_argument("--start", type=Path, help="trained weights to start from, instead of the encoder")
    parser.add_argument("--passes", type=int, default=4)
    parser.add_argument("--rate", type=float, default=1.5e-4, help="the highest rate of learning")
    parser.add_argument("--steps", type=int, help="stop after so many steps")
    parser.add_argument("--keep", action="store_true", help="write a checkpoint after each pass")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    pack, start = Pack.read(options.pack / "pairs.npz"), read_weights(options.pack / "encoder.npz")
    near = Neighbours.of(pack, start)
    _say("neighbours are known")
    start |= {} if options.start is None else read_weights(options.start)
    trainer = learn(pack, start, near, options)
    np.savez(options.out / "answers.npz", **with_8_bits(trainer.mean))


if __name__ == "__main__":
    main()
