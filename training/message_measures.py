"""Figures of the message model: how well its outputs separate what is labelled."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from roomlore.models.message_model import ACTS, INTENTS, KEEP, RELATIONS, SCOPES
from training.message_sets import UNKNOWN, Example

Array = np.ndarray[Any, np.dtype[Any]]
NONE = INTENTS.index("none")
#: The precision that a threshold of requests must reach.
PRECISION = 0.95
#: One false alarm in this many ordinary messages is the most.
ORDINARY = 5_000
FEWEST = 20
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
    order = np.argsort(scores, kind="stable")
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    for value in np.unique(scores):
        same = scores == value
        ranks[same] = ranks[same].mean()
    right = int(labels.sum())
    wrong = len(labels) - right
    return float((ranks[labels].sum() - right * (right + 1) / 2) / max(1, right * wrong))


def threshold_of(scores: Array, labels: Array, precision: float = PRECISION) -> float:
    """Return the lowest threshold with the precision."""
    order = np.argsort(-scores, kind="stable")
    right = np.cumsum(labels[order])
    reached = right / np.arange(1, len(order) + 1) >= precision
    return float(scores[order][np.flatnonzero(reached)[-1]]) if reached.any() else float("inf")


def best_f1(scores: Array, labels: Array) -> tuple[float, float]:
    """Return the best F1 and its threshold."""
    order = np.argsort(-scores, kind="stable")
    right = np.cumsum(labels[order])
    values = 2 * right / (np.arange(1, len(order) + 1) + labels.sum())
    best = int(values.argmax())
    return float(values[best]), float(scores[order][best])


def interval(figure: Callable[[Array], float], count: int) -> tuple[float, float]:
    """Return the interval with 95 % of the figures of 300 samples with repetition."""
    random = np.random.default_rng(3)
    found = [figure(random.integers(0, count, count)) for _ in range(300)]
    return float(np.percentile(found, 2.5)), float(np.percentile(found, 97.5))


def _said(name: str, figure: Callable[[Array], float], count: int) -> str:
    low, high = interval(figure, count)
    return f"{name} {figure(np.arange(count)):.3f} [{low:.3f}, {high:.3f}] n={count}"


def request_threshold(examples: Sequence[Example], outputs: Array) -> float:
    """Return the threshold with the precision on examples of requests."""
    rows = [place for place, one in enumerate(examples) if one.source == "requests"]
    real = np.array([examples[row].intent != NONE for row in rows])
    return threshold_of(asks(outputs)[rows], real)


def alarm_threshold(ordinary: Array) -> float:
    """Return the threshold with less than one false alarm in 5,000 of ordinary messages."""
    most = max(0, (len(ordinary) - 1) // ORDINARY)
    return float(np.nextafter(np.sort(ordinary)[::-1][most], 2.0))


def report(examples: Sequence[Example], outputs: Array, ordinary: Array | None = None) -> list[str]:
    """Return lines with the figures of examples; `ordinary` are scores of ordinary messages as requests."""
    acts, keep, intent, scope, relation, answer = parts_of(outputs)
    found: list[str] = []

    def rows_of(source: str, lang: str | None = None) -> Array:
        return np.array(
            [
                place
                for place, one in enumerate(examples)
                if one.source == source and (lang is None or (one.lang == "en") == (lang == "en"))
            ],
            dtype=int,
        )

    rows = rows_of("requests")
    if len(rows):
        found += _requests(examples, rows, intent, scope, asks(outputs), ordinary)
        for lang in ("en", "other"):
            own = rows_of("requests", lang)
            labels = np.array([examples[row].intent != NONE for row in own])
            found.append(f"requests {lang}: AUC {auc(asks(outputs)[own], labels):.3f} n={len(own)}")
    for source in ("acts", "rooms"):
        rows = rows_of(source)
        if len(rows):
            found += _acts(examples, rows, acts, keep, source)
    for lang in (None, "en", "other"):
        rows = rows_of("pairs", lang)
        if len(rows):
            labels = np.array([examples[row].relation for row in rows])
            chosen, surely = relation[rows].argmax(1), shares(relation[rows])[:, 0]
            name = f"pairs {lang or 'all'}:"
            found += [
                _said(
                    f"{name} replaces or not",
                    lambda at, c=chosen, t=labels: float(((c == 0) == (t == 0))[at].mean()),
                    len(rows),
                ),
                f"{name} of four {float((chosen == labels).mean()):.3f}, AUC replaces {auc(surely, labels == 0):.3f}",
            ]
    for source, lang in (("answers", None), ("answers", "en"), ("answers", "other"), ("room answers", None)):
        rows = rows_of(source, lang)
        if len(rows):
            labels = np.array([examples[row].answer == 1 for row in rows])
            scores = answer[rows, 0]
            found.append(
                _said(
                    f"{source} {lang or 'all'}: AUC",
                    lambda at, s=scores, t=labels: auc(s[at], t[at]),
                    len(rows),
                )
            )
            found.append(f"{source} {lang or 'all'}: right {float(((scores > 0) == labels).mean()):.3f}")
    return found


def _requests(
    examples: Sequence[Example],
    rows: Array,
    intent: Array,
    scope: Array,
    surely: Array,
    ordinary: Array | None,
) -> list[str]:
    labels = np.array([examples[row].intent for row in rows])
    real = labels != NONE
    scores = surely[rows]
    threshold = threshold_of(scores, real)

    def recall(at: Array) -> float:
        own = threshold_of(scores[at], real[at])
        return float((scores[at][real[at]] >= own).mean())

    right = intent[rows][:, :NONE].argmax(1) == labels
    scopes = np.array([examples[row].scope for row in rows])
    known = scopes != UNKNOWN
    found = [
        f"requests: AUC {auc(scores, real):.3f}, threshold for precision {PRECISION}: {threshold:.4f}",
        _said("requests: recall at precision .95", recall, len(rows)),
        f"requests: intent right among requests {right[real].mean():.3f}",
        f"requests: scope right {(scope[rows].argmax(1) == scopes)[known].mean():.3f}",
    ]
    if ordinary is not None:
        alarm = alarm_threshold(ordinary)
        above = scores >= alarm
        found += [
            f"ordinary messages: {int((ordinary >= threshold).sum())} of {len(ordinary)} above the threshold for precision",
            f"requests: threshold with < 1 alarm in {ORDINARY} {alarm:.4f}",
            _said(
                "requests: recall at it",
                lambda at: float(above[at][real[at]].mean()),
                len(rows),
            ),
            f"requests: precision at it {real[above].mean():.3f}",
        ]
        for number, name in enumerate(INTENTS[:NONE]):
            own = labels == number
            found.append(f"requests: recall of {name} at it {above[own].mean():.3f} n={own.sum()}")
    return found


def _acts(examples: Sequence[Example], rows: Array, acts: Array, keep: Array, source: str) -> list[str]:
    found: list[str] = []
    labels = np.array([examples[row].acts for row in rows]) == 1
    areas: list[float] = []
    best: list[float] = []
    for number, name in enumerate(ACTS):
        own = labels[:, number]
        if own.sum() == 0:
            continue
        scores = acts[rows, number]
        half = 2 * float((own & (scores > 0)).sum()) / max(1, int((scores > 0).sum() + own.sum()))
        areas.append(auc(scores, own))
        best.append(half)
        found.append(f"{source}: {name} AUC {areas[-1]:.3f} F1 {half:.3f} n={own.sum()}")
    kept = np.array([examples[row].keep for row in rows])
    expected = shares(keep[rows]) @ np.arange(KEEP)
    found += [
        f"{source}: mean AUC {np.mean(areas):.3f}, mean F1 {np.mean(best):.3f} n={len(rows)}",
        f"{source}: keep AUC of 2 and more {auc(expected, kept >= 2):.3f},"  # noqa: PLR2004  worth keeping
        f" correlation {np.corrcoef(expected, kept)[0, 1]:.3f}, exact {(keep[rows].argmax(1) == kept).mean():.3f}",
    ]
    return found
