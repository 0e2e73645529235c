"""Goes through rooms as the linker does and writes down what it sees of the messages whose replies are known."""

import mmap
import random
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import accumulate
from multiprocessing import get_context
from typing import Any

import numpy as np
import numpy.typing as npt

from roomlore.conversations.features import MESSAGE_FEATURES, PAIR_FEATURES, FeatureExtractor
from roomlore.conversations.message_text import Lexicon
from roomlore.conversations.reply_model import ReplyModel
from roomlore.conversations.window import WINDOW, Window
from training.network import Examples
from training.rooms import TrainingRoom

#: Without a model: how often the true reply is taken, and how far back a wrong one lies.
_TRUE, _WRONG = 0.75, 6
#: So many of the last candidates are kept for training; few messages answer anything older.
WIDTH = 64


def empty(size: int) -> Examples:
    """Return room for so many messages, in memory that processes share."""
    return Examples(
        pairs=_shared((size, PAIR_FEATURES, WIDTH), np.float16),
        own=_shared((size, MESSAGE_FEATURES), np.float32),
        right=_shared((size, WIDTH + 1), np.bool_),
        count=_shared((size,), np.int64),
        weight=_shared((size,), np.float32),
    )


def _shared(shape: tuple[int, ...], kind: type[np.generic]) -> npt.NDArray[Any]:
    size = int(np.prod(shape))
    memory = mmap.mmap(-1, max(1, size * np.dtype(kind).itemsize))
    return np.frombuffer(memory, dtype=kind, count=size).reshape(shape)


def collect(
    room: TrainingRoom, lexicon: Lexicon, *, model: ReplyModel | None, examples: Examples, row: int
) -> None:
    """Write down the judged messages of a room, among the replies a model finds (without one: true, with errors)."""
    chance = random.Random(room.id)  # noqa: S311  # no secret is made of it
    window = Window(lexicon)
    eye = FeatureExtractor(window)
    for line in room.lines:
        heard = window.parse(line.said)
        parent = None
        if model or line.judged:
            seen = eye.extract(heard)
            if line.judged:
                examples.pairs[row] = seen.pairs[:, -WIDTH:]
                examples.own[row] = seen.own
                examples.count[row] = min(seen.count, WIDTH)
                examples.weight[row] = room.weight
                for place in (window.position_of(above) for above in line.parents):
                    if place is not None and place >= WINDOW - WIDTH:
                        examples.right[row, place - WINDOW + WIDTH] = True
                examples.right[row, WIDTH] = not line.parents
                row += 1
            if model:
                place = model.choose(model.scores(seen), seen.conversations)
                parent = None if place == WINDOW else window.at(place).message.id
            elif chance.random() < _TRUE:
                parent = min(line.parents, default=None)
            elif window.count:
                parent = window.at(WINDOW - chance.randint(1, min(_WRONG, window.count))).message.id
        window.add(heard, parent)


_Work = tuple[TrainingRoom, Lexicon, ReplyModel | None, Examples, int]
#: What the processes find when they are forked.
_work: list[_Work] = []


def _one(place: int) -> None:
    room, lexicon, model, examples, row = _work[place]
    collect(room, lexicon, model=model, examples=examples, row=row)


def collect_all(
    rooms: Sequence[TrainingRoom],
    lexicons: Sequence[Lexicon],
    *,
    models: Sequence[ReplyModel | None],
    processes: int = 2,
) -> Examples:
    """Return the examples of rooms, in order, seen with the lexicon and the model given for each."""
    sizes = [sum(line.judged for line in room.lines) for room in rooms]
    starts = [0, *accumulate(sizes)]
    examples = empty(starts[-1])
    _work[:] = [
        (room, lexicon, model, examples, start)
        for room, lexicon, model, start in zip(rooms, lexicons, models, starts[:-1], strict=True)
    ]
    with ProcessPoolExecutor(processes, mp_context=get_context("fork")) as pool:
        list(pool.map(_one, range(len(rooms)), chunksize=4))
    return examples


def some(examples: Examples, rows: npt.NDArray[Any]) -> Examples:
    """Return some of the examples."""
    return Examples(
        examples.pairs[rows],
        examples.own[rows],
        right=examples.right[rows],
        count=examples.count[rows],
        weight=examples.weight[rows],
    )
