"""Compares several systems on the same questions, and shows the comparison as a table."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from evaluation.baselines import METHODS
from evaluation.datasets import Question
from evaluation.metrics import (
    ALL,
    Ranking,
    Report,
    auroc,
    auroc_interval,
    confidence_interval,
    mean,
    ranking_scores,
    shown_scores,
)

#: The usual search, search without an embedding model, and the lexical index alone.
OURS, LEXICAL_ONLY, LEXICAL_INDEX = "ours", "lexical only", "lexical index"
#: Begins the name of search after a switch to another embedding model.
SWITCHED = "ours by "
AUROC = "AUROC"

_RANKING_FIGURES = ("R@10", "nDCG@10", "MRR")
_LESS_IS_BETTER = frozenset({"leak_strict@10"})

#: The values of one system, one for each question, by category and figure.
Columns = Mapping[tuple[str, str], Sequence[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure of one category of questions, for every system."""

    #: Which questions: all, a category, or those to be refused.
    questions: str
    figure: str
    n: int
    #: By system, 0..1; None where a system was not asked.
    values: Mapping[str, float | None]
    #: By system, the 95 % bootstrap interval over questions; of AUROC there is none.
    ci95: Mapping[str, Sequence[float] | None]
    #: The best baseline; None without baselines.
    best_baseline: str | None
    #: Ours minus the best baseline, and its paired 95 % bootstrap interval over questions.
    difference: float | None
    difference_ci95: Sequence[float] | None


def compare(
    questions: Sequence[Question],
    texts: Mapping[str, str],
    systems: Mapping[str, Sequence[Ranking]],
    *,
    negatives: Mapping[str, Sequence[Ranking]],
) -> list[Row]:
    """Return every figure for every system: retrieval first, then coverage and leaks, then abstention.

    Args:
        questions: What was asked.
        texts: Of the messages, by id.
        systems: By system, a ranking for each question in their order; ours is among them.
        negatives: By system, the rankings of questions asked in another room than theirs.
    """
    columns = {name: _columns(questions, found, texts) for name, found in systems.items()}
    rows = [
        _row(key, {name: column[key] for name, column in columns.items()}) for key in _in_order(columns[OURS])
    ]
    return rows + list(_abstention(questions, systems, negatives))


def _columns(questions: Sequence[Question], found: Sequence[Ranking], texts: Mapping[str, str]) -> Columns:
    columns: dict[tuple[str, str], list[float]] = defaultdict(list)
    for question, ranking in zip(questions, found, strict=True):
        if question.answerable and question.evidence_message_ids:
            scores = ranking_scores(ranking.ranked, set(question.evidence_message_ids))
            for figure in _RANKING_FIGURES:
                columns[ALL, figure].append(scores[figure])
                columns[question.category, figure].append(scores[figure])
        for figure, value in shown_scores(question, ranking.ranked, texts).items():
            columns[question.category, figure].append(value)
    return columns


def _in_order(columns: Columns) -> list[tuple[str, str]]:
    """Return the keys: retrieval first, of all questions before each category."""
    found = [key for key in columns if key[1] in _RANKING_FIGURES]
    kinds = [ALL, *sorted({kind for kind, _ in found} - {ALL})]
    order = [(kind, figure) for kind in kinds for figure in _RANKING_FIGURES if (kind, figure) in columns]
    return order + sorted(key for key in columns if key[1] not in _RANKING_FIGURES)


def _row(key: tuple[str, str], values: Mapping[str, Sequence[float]]) -> Row:
    kind, figure = key
    means = {name: mean(column) for name, column in values.items()}
    best = _best(means, figure)
    gap = None
    if best is not None:
        gap = [ours - other for ours, other in zip(values[OURS], values[best], strict=True)]
    return Row(
        questions=kind,
        figure=figure,
        n=len(values[OURS]),
        values=means,
        ci95={name: confidence_interval(column) for name, column in values.items()},
        best_baseline=best,
        difference=mean(gap or ()),
        difference_ci95=confidence_interval(gap or ()),
    )


def _best(values: Mapping[str, float | None], figure: str) -> str | None:
    sign = -1 if figure in _LESS_IS_BETTER else 1
    known = {name: sign * value for name in METHODS if (value := values.get(name)) is not None}
    return max(known, key=lambda name: known[name], default=None)


def _abstention(
    questions: Sequence[Question],
    systems: Mapping[str, Sequence[Ranking]],
    negatives: Mapping[str, Sequence[Ranking]],
) -> Iterator[Row]:
    """Yield how well the confidence of each system separates what its room answers from what it does not."""
    known = _scores(systems, [place for place, question in enumerate(questions) if question.answerable])
    refused: dict[str, list[int]] = defaultdict(list)
    for place, question in enumerate(questions):
        if not question.answerable:
            refused["refuse: all"].append(place)
            refused[f"refuse: {question.category}"].append(place)
    for name, places in refused.items():
        yield _separation(name, known, _scores(systems, places))
    if negatives.get(OURS):
        yield _separation("refuse: another room", known, _scores(negatives, range(len(negatives[OURS]))))


def _scores(systems: Mapping[str, Sequence[Ranking]], places: Sequence[int]) -> dict[str, list[float]]:
    return {name: [found[place].score or 0.0 for place in places] for name, found in systems.items()}


def _separation(
    name: str, known: Mapping[str, Sequence[float]], unknown: Mapping[str, Sequence[float]]
) -> Row:
    values = {system: auroc(high, unknown.get(system, ())) for system, high in known.items()}
    best = _best(values, AUROC)
    ours, theirs = values[OURS], None if best is None else values[best]
    interval = None
    if best is not None:
        interval = auroc_interval(known[OURS], unknown[OURS], than=(known[best], unknown[best]))
    return Row(
        questions=name,
        figure=AUROC,
        n=len(unknown[OURS]),
        values={system: None if value is None else round(value, 4) for system, value in values.items()},
        ci95={},
        best_baseline=best,
        difference=None if ours is None or theirs is None else round(ours - theirs, 4),
        difference_ci95=interval,
    )


def markdown_table(report: Report) -> str | None:
    """Return the systems of a report side by side, in percent, AUROC as 0..1; None without a comparison."""
    rows: list[Report] = report.get("comparison", [])
    if not rows:
        return None
    systems = list(rows[0]["values"])
    headings = ["questions", "figure", "n", *systems, "ours above the best", "95 %"]
    lines = [headings, ["---"] * len(headings), *(_cells(row, systems) for row in rows)]
    return "\n".join(f"| {' | '.join(map(_escaped, line))} |" for line in lines)


def _cells(row: Report, systems: Sequence[str]) -> list[str]:
    figure, best = row["figure"], row["best_baseline"]
    return [
        row["questions"],
        figure,
        str(row["n"]),
        *(_number(row["values"].get(name), figure) for name in systems),
        _number(row["difference"], figure, sign="+") + (f" ({best})" if best is not None else ""),
        " to ".join(_number(end, figure, sign="+") for end in row["difference_ci95"] or ()),
    ]


def _number(value: float | None, figure: str, *, sign: str = "") -> str:
    if value is None:
        return ""
    return f"{value:{sign}.3f}" if figure == AUROC else f"{100 * value:{sign}.1f}"


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")
