"""Puts examples of about the same length together as padded batches."""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from roomlore.models.message_model import TextsTogether
from training.encoder_layers import WIDTH, Array
from training.message_network import Batch
from training.message_sets import Example
from training.message_states import States

#: Padded lengths; each is compiled once.
LENGTHS = (12, 18, 26, 38, 64, 192)
#: Tokens of a batch, with padding.
BATCH_TOKENS = 1_024


def _parts(example: Example, states: States) -> list[Array]:
    together = TextsTogether(texts=example.texts, segments=example.segments)
    return [states.of(text)[: together.limit(place)] for place, text in enumerate(example.texts)]


def batches(
    examples: Sequence[Example], states: States, *, seed: int | None = None
) -> Iterator[tuple[list[int], Batch]]:
    """Yield row numbers and batches, in random order if there is a seed."""
    order = list(range(len(examples)))
    chance = random.Random(seed)  # noqa: S311  not a secret
    if seed is not None:
        chance.shuffle(order)
    by_length: dict[int, list[int]] = defaultdict(list)
    for row in order:
        length = sum(len(part) for part in _parts(examples[row], states))
        by_length[next(each for each in LENGTHS if each >= length)].append(row)
    plan: list[tuple[int, list[int]]] = []
    for length, rows in by_length.items():
        size = max(4, BATCH_TOKENS // length)
        plan += [(length, rows[start : start + size]) for start in range(0, len(rows), size)]
    if seed is not None:
        chance.shuffle(plan)
    for length, rows in plan:
        size = max(4, BATCH_TOKENS // length)
        yield rows, _batch([examples[row] for row in rows], states, length, size)


def _batch(examples: Sequence[Example], states: States, length: int, size: int) -> Batch:
    # Every batch of a length has the same size, so that nothing is compiled twice. Empty rows weigh nothing.
    batch = Batch(
        states=np.zeros((size, length, WIDTH), np.float16),
        segments=np.zeros((size, length), np.int32),
        mask=np.zeros((size, length), np.float32),
        acts=np.full((size, len(examples[0].acts)), -1, np.float32),
        labels=np.full((size, 5), -1, np.int32),
        weight=np.zeros(size, np.float32),
    )
    batch.mask[:, 0] = 1
    for row, one in enumerate(examples):
        start = 0
        for part, segment in zip(_parts(one, states), one.segments, strict=True):
            end = start + len(part)
            batch.states[row, start:end] = part
            batch.segments[row, start:end] = segment
            batch.mask[row, start:end] = 1
            start = end
        batch.acts[row] = one.acts
        batch.labels[row] = (one.keep, one.intent, one.scope, one.relation, one.answer)
        batch.weight[row] = one.weight
    return batch
