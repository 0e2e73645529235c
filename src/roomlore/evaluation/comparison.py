"""Holds several systems against each other on the same questions."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from roomlore.evaluation.datasets import Question
from roomlore.evaluation.metrics import (
    ALL,
    Ranking,
    auroc,
    auroc_interval,
    confidence_interval,
    mean,
    ranking_scores,
    shown_scores,
)
from roomlore.evaluation.stages import WITHOUT

OURS = "ours"
#: Ours without an embedding model, and without anything but words; shown, and no baselines of ours, as all with a
#: stage left out.
OURS_WORDED, OURS_LEXICAL = "words only", "our bm25"
PARTS = frozenset({OURS_WORDED, OURS_LEXICAL, *WITHOUT})
#: So begins what ours is called after a switch to another embedding model; no baseline either.
SWITCHED = "ours by "
AUROC = "AUROC"

_RANKING_FIGURES = ("R@10", "nDCG@10", "MRR")
_LESS_IS_BETTER = frozenset({"leak_strict@10"})

#: The values of one system, one for each question, by what the questions are and the figure.
Columns = Mapping[tuple[str, str], Sequence[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure of one kind of question, for every system."""

    #: Which questions: all, a category, or those that must be refused.
    questions: str
    figure: str
    n: int
    #: By system, in parts of one; None where a system was not asked.
    values: Mapping[str, float | None]
    #: By system, the 95 % bootstrap interval over questions; of AUROC there is none.
    ci95: Mapping[str, Sequence[float] | None]
    #: The baseline with the best value; None without baselines.
    best_baseline: str | None
    #: How much higher ours is than that, and its paired 95 % bootstrap interval over questions.
    difference: float | None
    difference_ci95: Sequence[float] | None


def compare(
    questions: Sequence[Question],
    texts: Mapping[str, str],
    runs: Mapping[str, Sequence[Ranking]],
    *,
    elsewhere: Mapping[str, Sequence[Ranking]],
) -> list[Row]:
    """Return every figure for every system: first what is found, then what is shown, then what is refused.

    Args:
        questions: What was asked.
        texts: Of the messages, by id.
        runs: By system, a ranking for each question in their order; ours is among them.
        elsewhere: By system, rankings of questions asked in another room than theirs.
    """
    columns = {name: _columns(questions, run, texts) for name, run in runs.items()}
    rows = [
        _row(key, {name: found[key] for name, found in columns.items()}) for key in _in_order(columns[OURS])
    ]
    return rows + list(_refusals(questions, runs, elsewhere))


def _columns(questions: Sequence[Question], run: Sequence[Ranking], texts: Mapping[str, str]) -> Columns:
    columns: dict[tuple[str, str], list[float]] = defaultdict(list)
    for question, ranking in zip(questions, run, strict=True):
        if question.answerable and question.evidence_message_ids:
            scores = ranking_scores(ranking.ranked, set(question.evidence_message_ids))
            for figure in _RANKING_FIGURES:
                columns[ALL, figure].append(scores[figure])
                columns[question.category, figure].append(scores[figure])
        for figure, value in shown_scores(question, ranking.ranked, texts).items():
            columns[question.category, figure].append(value)
    return columns


def _in_order(columns: Columns) -> list[tuple[str, str]]:
    """Return the keys: what is found before what is shown, of the first the whole before its parts."""
    found = [key for key in columns if key[1] in _RANKING_FIGURES]
    kinds = [ALL, *sorted({kind for kind, _ in found} - {ALL})]
    order = [(kind, figure) for kind in kinds for figure in _RANKING_FIGURES if (kind, figure) in columns]
    return order + sorted(key for key in columns if key[1] not in _RANKING_FIGURES)


def _row(key: tuple[str, str], values: Mapping[str, Sequence[float]]) -> Row:
    kind, figure = key
    means = {name: mean(column) for name, column in values.items()}
    best = _best(means, figure)
    apart = None
    if best is not None:
        apart = [ours - other for ours, other in zip(values[OURS], values[best], strict=True)]
    return Row(
        questions=kind,
        figure=figure,
        n=len(values[OURS]),
        values=means,
        ci95={name: confidence_interval(column) for name, column in values.items()},
        best_baseline=best,
        difference=mean(apart or ()),
        difference_ci95=confidence_interval(apart or ()),
    )


def _best(values: Mapping[str, float | None], figure: str) -> str | None:
    sign = -1 if figure in _LESS_IS_BETTER else 1
    known = {
        name: sign * value
        for name, value in values.items()
        if value is not None and name != OURS and name not in PARTS and not name.startswith(SWITCHED)
    }
    return max(known, key=lambda name: known[name], default=None)


def _refusals(
    questions: Sequence[Question],
    runs: Mapping[str, Sequence[Ranking]],
    elsewhere: Mapping[str, Sequence[Ranking]],
) -> Iterator[Row]:
    """Yield how well each system tells what its room answers from what it does not."""
    known = _scores(runs, [place for place, question in enumerate(questions) if question.answerable])
    refused: dict[str, list[int]] = defaultdict(list)
    for place, question in enumerate(questions):
        if not question.answerable:
            refused["refuse: all"].append(place)
            refused[f"refuse: {question.category}"].append(place)
    for name, places in refused.items():
        yield _told_apart(name, known, _scores(runs, places))
    if elsewhere.get(OURS):
        yield _told_apart("refuse: another room", known, _scores(elsewhere, range(len(elsewhere[OURS]))))


def _scores(runs: Mapping[str, Sequence[Ranking]], places: Sequence[int]) -> dict[str, list[float]]:
    return {name: [run[place].score or 0.0 for place in places] for name, run in runs.items()}


def _told_apart(
    name: str, known: Mapping[str, Sequence[float]], unknown: Mapping[str, Sequence[float]]
) -> Row:
    values = {system: auroc(high, unknown.get(system, ())) for system, high in known.items()}
    best = _best(values, AUROC)
    ours, theirs = values[OURS], None if best is None else values[best]
    apart = None
    if best is not None:
        apart = auroc_interval(known[OURS], unknown[OURS], than=(known[best], unknown[best]))
    return Row(
        questions=name,
        figure=AUROC,
        n=len(unknown[OURS]),
        values={system: None if value is None else round(value, 4) for system, value in values.items()},
        ci95={},
        best_baseline=best,
        difference=None if ours is None or theirs is None else round(ours - theirs, 4),
        difference_ci95=apart,
    )
