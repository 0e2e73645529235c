"""Metrics of retrieval, abstention, leaks and context, with bootstrap intervals.

Pure functions from records to a report. Figures are rounded to four digits, like published ones; a share of nothing
is None and never zero.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata  # pyright: ignore[reportUnknownVariableType]

from evaluation.datasets import ContextItem, DatasetMessage, Question
from roomlore.domain.errors import BadInput

Floats = NDArray[np.float64]
#: A report is printed as JSON.
Report = dict[str, Any]

_CUTOFFS = (1, 5, 10, 20, 50)
#: How many messages a person sees: nDCG, coverage and leaks are judged on them.
_SHOWN = 10
#: The category of all answerable questions together.
ALL = "ALL answerable"
#: How many messages a context may hold.
MOST_SELECTED = 30
_RESAMPLES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """What a system found for one question, best first."""

    question_id: str
    #: Message ids.
    ranked: Sequence[str]
    #: The system's confidence that the room holds the answer, on any scale.
    score: float | None = None
    #: Whether it gave an answer or said that it does not know.
    answered: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What a system put into the context of one message."""

    trigger_message_id: str
    selected: Sequence[str]


def score_retrieval(
    questions: Sequence[Question], messages: Iterable[DatasetMessage], *, predicted: Iterable[Ranking]
) -> Report:
    """Return how well a system finds evidence, tells unanswerable questions apart and keeps secrets.

    A question without a ranking counts as one for which nothing was found.

    Raises:
        BadInput: A message is ranked twice, or a score is not a number.
    """
    rankings = {ranking.question_id: ranking for ranking in predicted}
    pairs = [(q, rankings.get(q.id) or Ranking(question_id=q.id, ranked=())) for q in questions]
    for _, ranking in pairs:
        _check(ranking)
    report: Report = {
        "questions": len(questions),
        "without_a_run_line": sum(q.id not in rankings for q in questions),
    }
    report |= _ranking_means(pairs)
    report |= _abstention(pairs)
    report["governance"] = _governance(pairs, {message.id: message.text for message in messages})
    return report


def score_context(
    items: Iterable[ContextItem], messages: Iterable[DatasetMessage], *, predicted: Iterable[Selection]
) -> Report:
    """Return how well selected contexts match the messages that belong to each trigger.

    System messages, what comes after the trigger and what stands before the judged range do not count.
    A trigger without a selection counts as one for which nothing was selected.

    Raises:
        BadInput: More than 30 messages are selected, or one that does not exist.
    """
    selections = {selection.trigger_message_id: selection.selected for selection in predicted}
    place = {message.id: (number, message.system) for number, message in enumerate(messages)}
    columns: dict[str, list[float]] = defaultdict(list)
    empty: list[float] = []
    sizes: list[float] = []
    for item in items:
        selected = _judged(item, selections.get(item.trigger_message_id, ()), place)
        sizes.append(len(selected))
        if not item.gold_context_ids:
            empty.append(float(not selected))
            continue
        for name, value in _overlap(selected, set(item.gold_context_ids)).items():
            columns[name].append(value)
        if parents := set(item.gold_parent_ids):
            columns["parent found"].append(len(parents & selected) / len(parents))
    report: Report = {name: mean(values) for name, values in columns.items()}
    return report | {
        "starters left empty": mean(empty),
        "mean size": mean(sizes),
        "triggers": len(columns["F1"]),
        "F1_ci95": confidence_interval(columns["F1"]),
    }


def ranking_scores(ranked: Sequence[str], gold: set[str]) -> dict[str, float]:
    """Return recall and any-hit at several cut-offs, nDCG@10 and reciprocal rank; gold is not empty."""
    scores: dict[str, float] = {}
    for cutoff in _CUTOFFS:
        hits = len(gold.intersection(ranked[:cutoff]))
        scores[f"R@{cutoff}"] = hits / len(gold)
        scores[f"any@{cutoff}"] = float(hits > 0)
    places = [place for place, message in enumerate(ranked, 1) if message in gold]
    gain = sum(1 / math.log2(place + 1) for place in places if place <= _SHOWN)
    best = sum(1 / math.log2(place + 1) for place in range(1, min(_SHOWN, len(gold)) + 1))
    return scores | {"nDCG@10": gain / best, "MRR": 1 / places[0] if places else 0.0}


def auroc(positive: Sequence[float], negative: Sequence[float]) -> float | None:
    """Return the area under the ROC curve, ties counted half; None without a pair."""
    if not positive or not negative:
        return None
    return float(_auroc(np.array(positive), np.array(negative)))


def confidence_interval(values: Sequence[float]) -> list[float] | None:
    """Return the 95 % bootstrap interval of the mean; the same for the same values, None for no values."""
    if not values:
        return None
    return _middle(np.array(values, np.float64)[_draws(len(values))].mean(axis=1))


def auroc_interval(
    positive: Sequence[float], negative: Sequence[float], *, than: tuple[Sequence[float], Sequence[float]]
) -> list[float] | None:
    """Return the 95 % bootstrap interval of how much higher an AUROC is than another of the same questions.

    `positive` should score high and `negative` low; `than` has the scores of the other, in the same order.
    """
    if not positive or not negative:
        return None
    above, below = _draws(len(positive)), _draws(len(negative))
    one, other = (
        _auroc(np.array(high)[above], np.array(low)[below]) for high, low in ((positive, negative), than)
    )
    return _middle(one - other)


def _auroc(positive: Floats, negative: Floats) -> Floats:
    """Return the AUROC along the last axis, by the rank sum of Mann and Whitney."""
    count, others = positive.shape[-1], negative.shape[-1]
    ranks = rankdata(np.concatenate([positive, negative], axis=-1), axis=-1)
    return (ranks[..., :count].sum(axis=-1) - count * (count + 1) / 2) / (count * others)


def _draws(count: int) -> NDArray[np.int64]:
    """Return the places of each bootstrap resample; the same for the same count."""
    return np.random.default_rng(0).integers(0, count, (_RESAMPLES, count))


def _middle(values: Floats) -> list[float]:
    return [round(float(np.percentile(values, percent)), 4) for percent in (2.5, 97.5)]


def _check(ranking: Ranking) -> None:
    if len(set(ranking.ranked)) != len(ranking.ranked):
        raise BadInput(f"ranking for {ranking.question_id}", "a message is ranked twice")
    if ranking.score is not None and math.isnan(ranking.score):
        raise BadInput(f"ranking for {ranking.question_id}", "the score is not a number")


def _ranking_means(pairs: Sequence[tuple[Question, Ranking]]) -> Report:
    """Return mean ranking scores over all answerable questions and by category."""
    rows: dict[str, list[dict[str, float]]] = defaultdict(list)
    for question, ranking in pairs:
        if question.answerable and question.evidence_message_ids:
            scores = ranking_scores(ranking.ranked, set(question.evidence_message_ids))
            rows[ALL].append(scores)
            rows[question.category].append(scores)
    report: Report = {}
    for name, group in rows.items():
        means = {score: mean([scores[score] for scores in group]) for score in group[0]}
        report[name] = {**means, "n": len(group)}
    if rows:
        report[ALL]["R@10_ci95"] = confidence_interval([scores["R@10"] for scores in rows[ALL]])
    return report


def _abstention(pairs: Sequence[tuple[Question, Ranking]]) -> Report:
    scores: dict[bool, list[float]] = {True: [], False: []}
    answered: dict[bool, list[float]] = {True: [], False: []}
    for question, ranking in pairs:
        if ranking.score is not None:
            scores[question.answerable].append(ranking.score)
        if ranking.answered is not None:
            answered[question.answerable].append(float(ranking.answered))
    return {
        "abstention_auroc": auroc(scores[True], scores[False]),
        "answered": {"when_answerable": mean(answered[True]), "when_not": mean(answered[False])},
    }


def _governance(pairs: Sequence[tuple[Question, Ranking]], texts: Mapping[str, str]) -> Report:
    """Return by category how much of what is needed is shown, and how often a secret leaks."""
    values: dict[str, list[float]] = defaultdict(list)
    for question, ranking in pairs:
        for name, value in shown_scores(question, ranking.ranked, texts).items():
            values[f"{question.category}/{name}"].append(value)
    return {name: {"mean": mean(numbers), "n": len(numbers)} for name, numbers in sorted(values.items())}


def shown_scores(question: Question, ranked: Sequence[str], texts: Mapping[str, str]) -> dict[str, float]:
    """Return how much of what is needed is shown and whether a secret is, where the question has such.

    A secret that the question itself states is none.
    """
    scores: dict[str, float] = {}
    shown = "\n".join(texts.get(message, "") for message in ranked[:_SHOWN])
    if question.include:
        hits = sum(_matches(pattern, shown) for pattern in question.include)
        scores["coverage@10"] = hits / len(question.include)
    secrets = [pattern for pattern in question.leak_targets if not _matches(pattern, question.question)]
    if secrets:
        scores["leak_strict@10"] = float(any(_matches(pattern, shown) for pattern in secrets))
    return scores


def _matches(pattern: str, text: str) -> bool:
    """Whether a pattern occurs in any letter case; what is no regular expression is taken literally."""
    try:
        return re.search(pattern, text, re.IGNORECASE) is not None
    except re.error:
        return re.search(re.escape(pattern), text, re.IGNORECASE) is not None


def _judged(item: ContextItem, selected: Sequence[str], place: Mapping[str, tuple[int, bool]]) -> set[str]:
    """Return those of the selected messages that count."""
    for message in (item.trigger_message_id, item.judged_from_id, *selected):
        if message not in place:
            raise BadInput(f"context of {item.trigger_message_id}", f"no message {message!r}")
    first, trigger = place[item.judged_from_id][0], place[item.trigger_message_id][0]
    judged = {i for i in selected if first <= place[i][0] < trigger and not place[i][1]}
    if len(judged) > MOST_SELECTED:
        raise BadInput(
            f"context of {item.trigger_message_id}", f"more than {MOST_SELECTED} messages selected"
        )
    return judged


def _overlap(selected: set[str], gold: set[str]) -> dict[str, float]:
    hits = len(selected & gold)
    precision, recall = hits / len(selected) if selected else 0.0, hits / len(gold)
    return {"P": precision, "R": recall, "F1": 2 * precision * recall / (precision + recall) if hits else 0.0}


def mean(values: Sequence[float]) -> float | None:
    """Return the mean to four digits; None of nothing."""
    return round(sum(values) / len(values), 4) if values else None
