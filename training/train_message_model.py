"""Trains the message model: `python -m training.train_message_model MIRROR BENCH WORK OUT [--hold AUTHOR]`.

First the network learns the written sets. Then it reads ordinary messages of public corpora; those that it takes for
requests are learnt as ordinary ones in the second part. WORK keeps states and checkpoints: a stopped run goes on there.
"""

import argparse
import json
import random
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from training import corpora, message_export, message_measures, message_network, message_sets
from training.encoder_layers import Array, Trainer, Weights, jax
from training.message_batches import batches
from training.message_network import Plan, outputs
from training.message_sets import Example
from training.message_states import States

#: Shares of the examples of a source in each pass, and how much they weigh.
SHARES = {"rooms": 0.25, "room answers": 0.4}
#: How often a variant of a written example is learnt instead, and how often one without its context.
VARIED, ALONE = 0.4, 0.15
FIRST_PASSES, SECOND_PASSES = 3, 3
#: The ordinary messages that look most like requests, and some others, go into every pass of the second part.
FALSE_ALARMS, OTHERS = 5_000, 2_500
FIRST_RATE, SECOND_RATE = 2e-4, 2.5e-4
#: How many ordinary messages there are for each one that is wrongly proposed as a request, and wrongly applied. A wrong
#: proposal costs a look, a missed request costs more; what is applied hides messages at once.
ONE_PROPOSED_IN, ONE_APPLIED_IN = 2_500, 20_000
#: How many of the ordinary messages that look most like requests are written down.
SHOWN = 300


@dataclass(frozen=True, slots=True)
class Learnt:
    """Examples to learn from; a variant of each, the example itself where there is none."""

    examples: Sequence[Example]
    variants: Sequence[Example]


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)  # noqa: T201  a script's progress


def learnt_of(held: Collection[str]) -> Learnt:
    """Return the examples of all authors but those that are held, and their variants."""
    examples: list[Example] = []
    variants: list[Example] = []
    for author in message_sets.authors():
        own = message_sets.examples_of(author, held)
        pool = message_sets.names_of(own)
        for one in own:
            chance = random.Random("|".join(one.texts))  # noqa: S311  not a secret
            written = not one.source.startswith("room")
            examples.append(one)
            variants.append(message_sets.varied(one, pool, chance) if written else one)
    return Learnt(examples, variants)


def one_pass(learnt: Learnt, seed: int) -> list[Example]:
    """Return the examples of one pass."""
    chance = random.Random(seed)  # noqa: S311  not a secret
    chosen: list[Example] = []
    for one, variant in zip(learnt.examples, learnt.variants, strict=True):
        if chance.random() > SHARES.get(one.source, 1.0):
            continue
        found = variant if chance.random() < VARIED else one
        messages = found.source in {"acts", "rooms", "requests"}
        if messages and len(found.texts) > 1 and chance.random() < ALONE and one.scope != 1:
            found = message_sets.without_context(found)
        chosen.append(found)
    return chosen


def outputs_of(weights: Weights, examples: Sequence[Example], states: States) -> Array:
    """Return the outputs for each example, in order."""
    found: Array | None = None
    for rows, batch in batches(examples, states):
        part = outputs(weights, batch)[: len(rows)]
        found = np.zeros((len(examples), part.shape[1]), np.float32) if found is None else found
        found[rows] = part
    assert found is not None
    return found


def learn(trainer: Trainer, passes: Sequence[Sequence[Example]], states: States, checkpoint: Path) -> None:
    """Take all steps of the passes; go on from the checkpoint if there is one."""
    done = 0
    if checkpoint.exists():
        with np.load(checkpoint, allow_pickle=False) as stored:
            trainer.restore([stored[f"arr_{number}"] for number in range(len(stored.files) - 1)])
            done = int(stored["done"])
    step = 0
    losses: list[float] = []
    for number, examples in enumerate(passes):
        for _, batch in batches(examples, states, seed=number):
            step += 1
            if step <= done:
                continue
            losses.append(trainer.learn(batch))
            if step % 50 == 0:
                _say(
                    f"pass {number + 1}, step {step} of {trainer.schedule.steps}: loss {np.mean(losses[-50:]):.4f}"
                )
        if step > done:
            np.savez(checkpoint, *trainer.stored(), done=np.array(step))


def steps_of(passes: Sequence[Sequence[Example]], states: States) -> int:
    """Return the number of steps of passes."""
    return sum(1 for number, one in enumerate(passes) for _ in batches(one, states, seed=number))


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of the training; its checkpoint is named after it."""

    name: str
    rate: float
    passes: Sequence[Sequence[Example]]
    start: Weights | None = None


def train(part: Part, states: States, work: Path) -> Trainer:
    """Return the network after one part of the training."""
    steps = steps_of(part.passes, states)
    plan = Plan(steps=steps, mean_size=sum(map(len, part.passes)) / steps, rate=part.rate)
    trainer = message_network.trainer(plan, part.start)
    _say(f"{part.name}: {len(part.passes[0])} examples a pass, {steps} steps")
    learn(trainer, part.passes, states, work / f"{part.name}.npz")
    return trainer


def second_passes(learnt: Learnt, ordinary: Sequence[Example], scores: Array) -> list[list[Example]]:
    """Return the passes of the second part, with the false alarms of the first among ordinary messages."""
    order = _highest(scores)
    alarms = [ordinary[row] for row in order[:FALSE_ALARMS]]
    rest = [ordinary[row] for row in order[FALSE_ALARMS:]]
    chance = random.Random(5)  # noqa: S311  not a secret
    return [
        [*one_pass(learnt, FIRST_PASSES + number), *alarms, *chance.sample(rest, OTHERS)]
        for number in range(SECOND_PASSES)
    ]


def _highest(scores: Array) -> list[int]:
    return [int(row) for row in np.argsort(-scores, kind="stable")]


def _show(examples: Sequence[Example], scores: Array, path: Path) -> None:
    """Write the ordinary messages that look most like requests, for people to read."""
    rows = _highest(scores)[:SHOWN]
    told = [
        {
            "score": round(float(scores[row]), 4),
            "key": message_sets.key_of(examples[row]),
            "source": examples[row].source,
            "texts": examples[row].texts,
        }
        for row in rows
    ]
    path.write_text("\n".join(json.dumps(one, ensure_ascii=False) for one in told) + "\n")


def _texts(examples: Iterable[Example]) -> Iterator[str]:
    return (text for one in examples for text in one.texts)


def main() -> None:
    """Train, measure and write the weights."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mirror", type=Path)
    parser.add_argument("bench", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--hold", action="append", default=[], help="an author who is only measured")
    parser.add_argument(
        "--hold-first", action="append", default=[], help="an author who is only measured in the first part"
    )
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    jax.config.update("jax_compilation_cache_dir", str(options.work / "compiled"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)

    states = States(options.work / "states")
    not_first = {*options.hold, *options.hold_first}
    learnt = learnt_of(not_first)
    held = message_sets.held_examples(options.hold)
    held_first = message_sets.held_examples(not_first)
    states.add(_texts([*learnt.examples, *learnt.variants, *held_first]))
    passes = [one_pass(learnt, number) for number in range(FIRST_PASSES)]
    first = train(Part(name="first", rate=FIRST_RATE, passes=passes), states, options.work).weights
    if held_first:
        _tell(
            "after the first part", message_measures.report(held_first, outputs_of(first, held_first, states))
        )

    ordinary = message_sets.mined(corpora.Mirror(options.mirror), options.bench)
    states.add(_texts(ordinary))
    scores = message_measures.asks(outputs_of(first, ordinary, states))
    _show(ordinary, scores, options.work / "alarms.jsonl")

    learnt = learnt_of(options.hold)
    states.add(_texts([*learnt.examples, *learnt.variants]))
    passes = second_passes(learnt, ordinary, scores)
    second = Part(name="second", rate=SECOND_RATE, passes=passes, start=first)
    weights = train(second, states, options.work).mean
    shipped: dict[str, Array] = {name: np.asarray(value) for name, value in weights.items()}
    np.savez(options.work / "weights.npz", **cast("dict[str, Any]", shipped))

    measured = message_sets.measured(options.bench)
    states.add(_texts(measured))
    alarms = message_measures.asks(outputs_of(weights, measured, states))
    _show(measured, alarms, options.work / "measured.jsonl")
    told = {
        "request_threshold": message_measures.alarm_threshold(alarms, ONE_PROPOSED_IN),
        "certain_request_threshold": message_measures.alarm_threshold(alarms, ONE_APPLIED_IN),
    }
    if held:
        found = outputs_of(weights, held, states)
        _tell("at the end", message_measures.report(held, found, alarms))
        thresholds = message_measures.act_thresholds(held, found)
        told |= {f"act_threshold/{name}": threshold for name, threshold in thresholds.items()}
    message_export.write(
        shipped, options.out, told={name: f"{threshold:.6f}" for name, threshold in told.items()}
    )


def _tell(title: str, report: Iterable[str]) -> None:
    for line in report:
        _say(f"{title}: {line}")


if __name__ == "__main__":
    main()
