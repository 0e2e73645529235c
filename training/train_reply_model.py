"""Trains the reply model and writes its weights.

    python -m training.train_reply_model TRAIN DEV [--out FILE] [--processes 2]

TRAIN and DEV are folders with rooms, messages, links and conversations as .jsonl or .jsonl.gz (see README.md here).
DEV chooses nothing but the temperature and the bonus of starting a conversation. The same data give the same weights.

The rooms of TRAIN are cut into two halves. What was learnt of one half looks at the rooms of the other, so that the
replies among which a message is seen in training have the errors they will have later:

1. words: rarity, and for each half what words speak for which act;
2. messages are seen among true replies with some made wrong; a network for each half;
3. messages are seen among the replies found by the network of the other half; a network for each half again;
4. once more, with rooms made nameless, slower and not interleaved; the network that ships.
"""

import argparse
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from roomlore.conversations.message_text import Lexicon
from roomlore.conversations.reply_model import WEIGHTS, ReplyModel
from training.acts import learnt
from training.choosing import chosen
from training.collecting import collect_all, some
from training.network import Examples, Plan, Weights, folded, scale_of, train
from training.rooms import (
    TrainingRoom,
    one_after_another,
    rarity_of,
    read_rooms,
    with_other_clock,
    without_names,
)

#: How much messages of rooms that were made count beside those of real ones.
_MADE, _MADE_ALONE = 0.4, 0.3


def made_of(place: int, room: TrainingRoom, rarity: list[float]) -> list[TrainingRoom]:
    """Return a room and what is made of it: which, depends on its place."""
    chance = random.Random(place)  # noqa: S311  # no secret is made of it
    rooms = [room]
    if place % 2 == 0 or place % 3 == 0:
        rooms.append(replace(without_names(room, rarity), weight=_MADE))
    if place % 3 != 0:
        rooms.append(replace(with_other_clock(room, chance), weight=_MADE))
    alone = one_after_another(room, chance) if place % 2 else None
    if alone is not None:
        alone = without_names(alone, rarity) if place % 4 == 1 else alone
        alone = with_other_clock(alone, chance) if place % 3 else alone
        rooms.append(replace(alone, weight=_MADE_ALONE))
    return rooms


def fitted(examples: Examples, plan: Plan) -> Weights:
    """Return the weights of a network trained on some examples."""
    scale = scale_of(examples)
    return folded(train(examples, scale, plan), scale)


def halves_of(
    examples: Examples, fold: npt.NDArray[np.int64], lexicons: list[Lexicon], *, plan: Plan
) -> list[ReplyModel]:
    """Return for each half of the rooms a model that has not seen them."""
    return [
        ReplyModel(lexicon=lexicons[half], **fitted(some(examples, fold != half), plan)) for half in (0, 1)
    ]


def trained(rooms: list[TrainingRoom], processes: int) -> ReplyModel:
    """Return the model, neither temperature nor bonus chosen."""
    rarity = rarity_of(rooms)
    lexicons = [
        learnt([room for place, room in enumerate(rooms) if place % 2 != half], rarity) for half in (0, 1)
    ]
    each = [lexicons[place % 2] for place in range(len(rooms))]
    fold = np.repeat(
        [place % 2 for place in range(len(rooms))],
        [sum(line.judged for line in room.lines) for room in rooms],
    )
    models: list[ReplyModel | None] = [None] * len(rooms)
    for epochs in (2, 3):
        examples = collect_all(rooms, each, models=models, processes=processes)
        halves = halves_of(examples, fold, lexicons, plan=Plan(epochs=epochs))
        models = [halves[place % 2] for place in range(len(rooms))]
    every = [(place, made) for place, room in enumerate(rooms) for made in made_of(place, room, rarity)]
    examples = collect_all(
        [room for _, room in every],
        [lexicons[place % 2] for place, _ in every],
        models=[models[place] for place, _ in every],
        processes=processes,
    )
    return ReplyModel(lexicon=learnt(rooms, rarity), **fitted(examples, FINAL))


FINAL = Plan(hidden=96, second=48, epochs=3)


def write(model: ReplyModel, path: Path) -> None:
    """Write the weights of a model."""
    names = ("pair_weights", "own_weights", "bias", "start", "second_weights", "second_bias", "last_weights")
    np.savez_compressed(
        path,
        rarity=np.array(model.lexicon.rarity, dtype=np.float16),
        acts=model.lexicon.acts.astype(np.float16),
        usual=model.lexicon.bias,
        temperature=np.float32(model.temperature),
        start_bonus=np.float32(model.start_bonus),
        **{name: getattr(model, name) for name in names},
    )


def main() -> None:
    """Train and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("train", type=Path)
    parser.add_argument("dev", type=Path)
    parser.add_argument("--out", type=Path, default=WEIGHTS)
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    model = trained(read_rooms(given.train), given.processes)
    write(chosen(model, read_rooms(given.dev)), given.out)


if __name__ == "__main__":
    main()
