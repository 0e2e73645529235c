"""Learns the confidence of a search: the four logistic functions of `roomlore.search.answer_confidence`.

    python -m training.train_confidence BENCH [ROWS]

BENCH has the data sets that `confidence_questions.py` names. Each question is searched for in a temporary App, and the
signs are written to ROWS, if given; a later run reads them from there. The output is, for each corpus, how well the fit
on the other corpora tells its questions apart, and the numbers of the fit on all corpora.
"""

import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, astuple, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from evaluation.benchmark import BenchmarkRun, Options
from evaluation.datasets import Gold
from evaluation.loading import load, prepare_search
from evaluation.metrics import auroc
from evaluation.runner import temporary_apps
from evaluation.search import concurrently, search_room
from roomlore.search import message_search
from roomlore.search.answer_confidence import Evidence, Signs, learned_confidence, read_signs
from roomlore.search.confidence import TOKEN_THRESHOLD, Confidence
from training.confidence_questions import KINDS, SAMPLES, AskedQuestion, Kind, Sample, read_sample

Array = NDArray[np.float64]

SIGNS = tuple(one.name for one in fields(Signs))
#: Kinds that nothing is learned from: GateMem's questions must be refused although the answer was said, and a question
#: of a meeting mostly keeps its sense with another object. Kinds with fewer questions are left out, too.
NOT_LEARNED = {("GateMem", "unanswerable"), ("QMSum", "object")}
FEWEST = 15
#: The strength of the penalty on slopes, and on the offsets that only one corpus has.
PENALTY = 0.01
#: At the threshold, no corpus has more of its answerable questions refused.
MOST_REFUSED = 0.14
#: The number of threads of a search, as in an answer.
THREADS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The signs of one search."""

    corpus: str
    kind: Kind
    signs: Signs


_found: ContextVar[list[Signs]] = ContextVar("found")


@contextmanager
def recorded_signs() -> Iterator[None]:
    """Add the signs of each search to the list of its context."""

    def record(evidence: Evidence) -> Confidence:
        _found.get().append(read_signs(evidence))
        return learned_confidence(evidence)

    with patch.object(message_search, "learned_confidence", record):
        yield


async def collect(folder: Path, sample: Sample) -> list[Row]:
    """Return the signs of a search for each question of a data set. Questions for which nothing is found have none."""
    messages, asked = read_sample(folder, sample)
    async with temporary_apps(Options(), searches=True) as (app, _, _):
        run = BenchmarkRun(app=app, messages=messages, gold=Gold())
        await load(run, now=datetime.now(UTC))
        await prepare_search(run)

        async def signs_of(one: AskedQuestion) -> list[Row]:
            found: list[Signs] = []
            _found.set(found)
            await search_room(app, app.operator, one.question, limit=THREADS)
            return [Row(corpus=sample.corpus, kind=one.kind, signs=signs) for signs in found]

        with recorded_signs():
            rows = await concurrently(asked, signs_of, lambda _: None)
    return [row for found in rows for row in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The signs of all searches as arrays."""

    corpora: Array
    kinds: Array
    signs: Array

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "Rows":
        """Return the rows as arrays."""
        return cls(
            corpora=np.array([row.corpus for row in rows]),
            kinds=np.array([row.kind for row in rows]),
            signs=np.array([astuple(row.signs) for row in rows]),
        )

    @property
    def is_own(self) -> Array:
        """Whether the room answers the question."""
        return self.kinds == "own"

    def only(self, rows: Array) -> "Rows":
        """Return some of the rows."""
        return Rows(corpora=self.corpora[rows], kinds=self.kinds[rows], signs=self.signs[rows])

    def weights(self) -> Array:
        """Return weights by which each corpus counts the same, and in it answerable questions as much as others.

        All kinds of other questions count the same.
        """
        weights = np.zeros(len(self.kinds))
        for corpus in sorted(set(self.corpora)):
            here = self.corpora == corpus
            groups = [here & (self.kinds == kind) for kind in KINDS[1:] if (corpus, kind) not in NOT_LEARNED]
            groups = [group for group in groups if group.sum() >= FEWEST]
            weights[here & self.is_own] = 1 / (here & self.is_own).sum()
            for group in groups:
                weights[group] = 1 / len(groups) / group.sum()
        return weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The slopes and offsets of the four logistic functions."""

    slopes: Array
    offsets: Array

    def confidence(self, signs: Array) -> Array:
        """Return the product of the probabilities of each row."""
        return np.exp(-np.logaddexp(0, -(signs * self.slopes + self.offsets)).sum(axis=1))


def learn(rows: Rows) -> Fit:
    """Return the fit with the highest likelihood, with no negative slope.

    Corpora differ in how well anything fits, which a search cannot know. So while it learns, each corpus has an offset
    of its own for the fit, which is dropped afterwards.
    """
    weights = rows.weights()
    rows, weights = rows.only(weights > 0), weights[weights > 0]
    mean = np.average(rows.signs, axis=0, weights=weights)
    scale = np.sqrt(np.average((rows.signs - mean) ** 2, axis=0, weights=weights))
    signs, count = (rows.signs - mean) / scale, len(SIGNS)
    of_corpus = np.array([rows.corpora == corpus for corpus in sorted(set(rows.corpora))], np.float64).T

    def loss(numbers: Array) -> tuple[float, Array]:
        slopes, offsets, own = np.split(numbers, [count, 2 * count])
        inputs = signs * slopes + offsets
        inputs[:, 0] += of_corpus @ own
        logs = -np.logaddexp(0, -inputs)
        total = np.minimum(logs.sum(axis=1), -1e-9)
        value = np.exp(total)
        likelihood = np.where(rows.is_own, total, np.log1p(-value))
        by_total = np.where(rows.is_own, -1, value / (1 - value)) * weights
        by_input = by_total[:, None] * (1 - np.exp(logs))
        penalty = PENALTY / 2 * (slopes @ slopes + own @ own) + PENALTY / 10 * (offsets @ offsets)
        gradient = np.concatenate(
            [
                (signs * by_input).sum(axis=0) + PENALTY * slopes,
                by_input.sum(axis=0) + PENALTY / 5 * offsets,
                of_corpus.T @ by_input[:, 0] + PENALTY * own,
            ]
        )
        return float(penalty - weights @ likelihood), gradient

    corpora = of_corpus.shape[1]
    start = np.concatenate([np.full(count, 0.1), [0.0], np.full(count - 1, 2.0), np.zeros(corpora)])
    bounds = [(0, None)] * count + [(None, None)] * (count + corpora)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    slopes = found[:count] / scale
    return Fit(slopes=slopes, offsets=found[count : 2 * count] - slopes * mean)


def threshold_of(confidence: Array, rows: Rows) -> float:
    """Return the highest threshold at which no corpus has too many of its answerable questions refused."""
    return min(
        float(np.quantile(confidence[rows.is_own & (rows.corpora == corpus)], MOST_REFUSED))
        for corpus in set(rows.corpora)
    )


def report(confidence: Array, rows: Rows, thresholds: dict[str, float]) -> Iterator[str]:
    """Yield a line for each corpus: the area under the curve and the share that is answered, for each kind."""
    for corpus in sorted(set(rows.corpora)):
        here = rows.corpora == corpus
        own, threshold = confidence[here & rows.is_own], thresholds[corpus]
        parts = [f"{corpus:9} refused {(own < threshold).mean():.3f}"]
        for kind in KINDS[1:]:
            others = confidence[here & (rows.kinds == kind)]
            if len(others) >= FEWEST:
                area, answered = auroc(own.tolist(), others.tolist()), (others >= threshold).mean()
                parts.append(f"{kind} {area:.3f} ({len(others)}, answered {answered:.2f})")
        yield ", ".join(parts)


def held_out(rows: Rows) -> Iterator[str]:
    """Yield the report on each corpus, with what was learned from the others alone."""
    confidence, thresholds = np.zeros(len(rows.kinds)), dict[str, float]()
    for corpus in sorted(set(rows.corpora)):
        here = rows.corpora == corpus
        fit = learn(rows.only(~here))
        confidence[here] = fit.confidence(rows.signs[here])
        thresholds[corpus] = threshold_of(fit.confidence(rows.signs[~here]), rows.only(~here))
    yield from report(confidence, rows, thresholds)


def main(bench: Path, file: Path | None = None) -> None:
    """Collect the rows or read them from a file, and print the figures and the numbers."""
    if file is not None and file.exists():
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        found = [Row(**(line | {"signs": Signs(**line["signs"])})) for line in lines]
    else:
        found = [row for sample in SAMPLES for row in asyncio.run(collect(bench / sample.name, sample))]
        if file is not None:
            file.write_text("".join(f"{json.dumps(asdict(row))}\n" for row in found))
    rows = Rows.of(found)
    corpora = sorted(set(rows.corpora))
    fit = learn(rows)
    confidence = fit.confidence(rows.signs)
    threshold = round(threshold_of(confidence, rows), 2)
    lines = [
        "by rule",
        *report(rows.signs[:, 0], rows, dict.fromkeys(corpora, TOKEN_THRESHOLD)),
        "held out",
        *held_out(rows),
        "all corpora",
        *report(confidence, rows, dict.fromkeys(corpora, threshold)),
        f"LEARNED_THRESHOLD = {threshold}",
    ]
    for name, slope, offset in zip(SIGNS, fit.slopes, fit.offsets, strict=True):
        lines.append(f"{name.upper()} = Sigmoid(slope={slope:.2f}, offset={offset:.2f})")
    print(*lines, sep="\n")  # noqa: T201  the figures


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
