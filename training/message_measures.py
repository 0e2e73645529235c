"""Figures of the message model: how well its outputs separate what is labelled."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata

from roomlore.models.message_model import ACTS, INTENTS, KEEP, RELATIONS, SCOPES
from training.message_sets import UNKNOWN, Example

Array = np.ndarray[Any, np.dtype[Any]]
NONE = INTENTS.index("none")
#: The precision that a threshold of requests must reach.
PRECISION = 0.95
#: One false alarm in this many ordinary messages is the most.
ORDINARY = 5_000
#: An F1 that is this much below the best is as good.
NEARLY = 0.01
_ENDS = np.cumsum([len(ACTS), KEEP, len(INTENTS), len(SCOPES), len(RELATIONS)])


def parts_of(outputs: Array) -> tuple[Array, ...]:
    """Return the outputs for acts, keep, intent, scope, relation and answer."""
    return tuple(np.split(outputs, _ENDS, axis=1))


def shares(outputs: Array) -> Array:
    """Return the probabilities of choices."""
    rows = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return rows / rows.sum(axis=1, keepdims=True)


def asks(outputs: Array) -> Array:
    """Return for each row how surely it is a request."""
    return 1 - shares(parts_of(outputs)[2])[:, NONE]


def auc(scores: Array, labels: Array) -> float:
    """Return how often a right one scores above a wrong one."""
    ranks: Array = np.asarray(rankdata(scores))
    right = int(labels.sum())
    wrong = len(labels) - right
    return float((ranks[labels].sum() - right * (right + 1) / 2) / max(1, right * wrong))


def threshold_of(scores: Array, labels: Array, precision: float = PRECISION) -> float:
    """Return the lowest threshold with the precision."""
    order = np.argsort(-scores, kind="stable")
    right = np.cumsum(labels[order])
    reached = right / np.arange(1, len(order) + 1) >= precision
    return float(scores[order][np.flatnonzero(reached)[-1]]) if reached.any() else float("inf")


def interval(figure: Callable[[Array], float], count: int) -> tuple[float, float]:
    """Return the interval with 95 % of the figures of 300 samples with repetition."""
    random = np.random.default_rng(3)
    found = [figure(random.integers(0, count, count)) for _ in range(300)]
    return float(np.percentile(found, 2.5)), float(np.percentile(found, 97.5))


def _said(name: str, figure: Callable[[Array], float], count: int) -> str:
    low, high = interval(figure, count)
    return f"{name} {figure(np.arange(count)):.3f} [{low:.3f}, {high:.3f}] n={count}"


def act_thresholds(examples: Sequence[Example], outputs: Array) -> dict[str, float]:
    """Return for each act the probability with the best F1 on examples of acts."""
    rows = [place for place, one in enumerate(examples) if one.source == "acts"]
    labels = np.array([examples[row].acts for row in rows]) == 1
    scores = 1 / (1 + np.exp(-parts_of(outputs[rows])[0]))
    return {name: _best(scores[:, number], labels[:, number]) for number, name in enumerate(ACTS)}


def _best(scores: Array, labels: Array) -> float:
    """Return the threshold with the best F1: the middle of those that are nearly as good, which few labels shift less."""
    order = np.argsort(-scores, kind="stable")
    right = np.cumsum(labels[order])
    shared = 2 * right / (np.arange(1, len(order) + 1) + labels.sum())
    good = scores[order][shared >= shared.max() - NEARLY]
    return float(good.max() + good.min()) / 2


def alarm_threshold(ordinary: Array, one_in: int = ORDINARY) -> float:
    """Return the threshold with less than one false alarm in so many ordinary messages."""
    most = max(0, (len(ordinary) - 1) // one_in)
    return float(np.nextafter(np.sort(ordinary)[::-1][most], 2.0))


def report(examples: Sequence[Example], outputs: Array, ordinary: Array | None = None) -> list[str]:
    """Return lines with the figures of examples; `ordinary` are scores of ordinary messages as requests."""
    found: list[str] = []
    for source, read in (
        ("requests", _requests),
        ("acts", _acts),
        ("rooms", _acts),
        ("pairs", _pairs),
        ("answers", _answers),
        ("room answers", _answers),
    ):
        rows = [place for place, one in enumerate(examples) if one.source == source]
        if not rows:
            continue
        own = [examples[row] for row in rows]
        found += [f"{source}: {line}" for line in read(own, outputs[rows])]
        if source == "requests" and ordinary is not None:
            found += [f"requests: {line}" for line in _rare(own, outputs[rows], ordinary)]
        if source in {"requests", "pairs", "answers"}:
            for name, english in (("English", True), ("other languages", False)):
                part = [place for place in rows if (examples[place].lang == "en") == english]
                lines = read([examples[row] for row in part], outputs[part])
                found.append(f"{source}, {name}: {lines[0]}")
    return found


def _requests(examples: Sequence[Example], outputs: Array) -> list[str]:
    _, _, intent, scope, *_ = parts_of(outputs)
    labels = np.array([one.intent for one in examples])
    real = labels != NONE
    scores = asks(outputs)
    threshold = threshold_of(scores, real)

    def recall(at: Array) -> float:
        own = threshold_of(scores[at], real[at])
        return float((scores[at][real[at]] >= own).mean())

    right = intent[:, :NONE].argmax(1) == labels
    scopes = np.array([one.scope for one in examples])
    known = scopes != UNKNOWN
    return [
        f"AUC {auc(scores, real):.3f} n={len(examples)}",
        _said(f"recall at precision {PRECISION} (threshold {threshold:.4f})", recall, len(examples)),
        f"intent right among requests {right[real].mean():.3f}",
        f"scope right {(scope.argmax(1) == scopes)[known].mean():.3f}",
    ]


def _rare(examples: Sequence[Example], outputs: Array, ordinary: Array) -> list[str]:
    """Return what the threshold with few alarms among ordinary messages leaves of requests."""
    real = np.array([one.intent != NONE for one in examples])
    usual = threshold_of(asks(outputs), real)
    alarm = alarm_threshold(ordinary)
    alarms = int((ordinary >= usual).sum())
    return [
        f"{alarms} of {len(ordinary)} ordinary messages above the threshold for precision",
        f"threshold with < 1 alarm in {ORDINARY}: {alarm:.4f}",
        *at_threshold(examples, outputs, alarm),
    ]


def at_threshold(examples: Sequence[Example], outputs: Array, threshold: float) -> list[str]:
    """Return what a threshold finds of the requests among examples."""
    rows = [place for place, one in enumerate(examples) if one.source == "requests"]
    if not rows:
        return []
    labels = np.array([examples[row].intent for row in rows])
    real = labels != NONE
    above = asks(outputs)[rows] >= threshold

    def recall(at: Array) -> float:
        return float(above[at][real[at]].mean())

    return [
        _said(f"recall at {threshold:.4f}", recall, len(rows)),
        f"precision at it {real[above].mean():.3f}",
        *(
            f"recall of {name} at it {above[labels == number].mean():.3f} n={int((labels == number).sum())}"
            for number, name in enumerate(INTENTS[:NONE])
        ),
    ]


def acts_at(examples: Sequence[Example], outputs: Array, thresholds: Mapping[str, float]) -> list[str]:
    """Return the F1 of each act with the thresholds, and how often a message got one of its acts as the likeliest."""
    rows = [place for place, one in enumerate(examples) if one.source == "acts"]
    if not rows:
        return []
    labels = np.array([examples[row].acts for row in rows]) == 1
    likely = 1 / (1 + np.exp(-parts_of(outputs[rows])[0]))
    found: list[str] = []
    shared: list[float] = []
    for number, name in enumerate(ACTS):
        own, chosen = labels[:, number], likely[:, number] >= thresholds[name]
        shared.append(2 * float((own & chosen).sum()) / max(1, int(chosen.sum() + own.sum())))
        found.append(f"acts: {name} F1 with its threshold {shared[-1]:.3f}")
    first = labels[np.arange(len(rows)), likely.argmax(1)]
    return [f"acts: mean F1 {np.mean(shared):.3f}, likeliest act right {first.mean():.3f}", *found]


def _pairs(examples: Sequence[Example], outputs: Array) -> list[str]:
    relation = parts_of(outputs)[4]
    labels = np.array([one.relation for one in examples])
    chosen = relation.argmax(1)
    right = (chosen == 0) == (labels == 0)
    return [
        _said("replaces or not, right", lambda at: float(right[at].mean()), len(examples)),
        f"of four, right {float((chosen == labels).mean()):.3f}",
        f"AUC of replaces {auc(shares(relation)[:, 0], labels == 0):.3f}",
    ]


def _answers(examples: Sequence[Example], outputs: Array) -> list[str]:
    scores = parts_of(outputs)[5][:, 0]
    labels = np.array([one.answer == 1 for one in examples])
    return [
        _said("AUC", lambda at: auc(scores[at], labels[at]), len(examples)),
        f"right {float(((scores > 0) == labels).mean()):.3f}",
    ]


def _acts(examples: Sequence[Example], outputs: Array) -> list[str]:
    acts, keep, *_ = parts_of(outputs)
    found: list[str] = []
    labels = np.array([one.acts for one in examples]) == 1
    areas: list[float] = []
    shared: list[float] = []
    for number, name in enumerate(ACTS):
        own = labels[:, number]
        if not own.any():
            continue
        best = _best(acts[:, number], own)
        chosen = acts[:, number] >= best
        areas.append(auc(acts[:, number], own))
        shared.append(2 * float((own & chosen).sum()) / max(1, int(chosen.sum() + own.sum())))
        found.append(f"{name} AUC {areas[-1]:.3f} best F1 {shared[-1]:.3f} n={int(own.sum())}")
    kept = np.array([one.keep for one in examples])
    expected = shares(keep) @ np.arange(KEEP)
    return [
        f"mean AUC {np.mean(areas):.3f}, mean best F1 {np.mean(shared):.3f} n={len(examples)}",
        *found,
        f"keep: AUC of 2 and more {auc(expected, kept > 1):.3f}",
        f"keep: correlation {np.corrcoef(expected, kept)[0, 1]:.3f}",
    ]
