"""Reports as rows of a table, for people and for pages."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from roomlore.evaluation.comparison import AUROC
from roomlore.evaluation.metrics import Report

#: What every row begins with.
_LEFT = ("questions", "figure", "n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Headings, and rows of as many cells."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]

    @property
    def markdown(self) -> str:
        """The table as a page of Markdown holds it."""
        lines = [self.headings, ["---"] * len(self.headings), *self.rows]
        return "\n".join(f"| {' | '.join(_escaped(cell) for cell in line)} |" for line in lines)


def comparison_table(report: Report) -> Table | None:
    """Return the systems of a report side by side, in percent, AUROC in parts of one; None where it has none."""
    rows = _rows(report)
    if not rows:
        return None
    headings = [*_LEFT, *rows[0]["values"], "ours above the best", "95 %"]
    return Table(
        headings=headings,
        rows=[
            [*_values(row, rows[0]["values"]), f"{_difference(row)}{_best(row)}", _between(row)]
            for row in rows
        ],
    )


def screen_tables(report: Report) -> list[Table]:
    """Return the same in two parts that fit a screen: every system, and ours against the best of the others."""
    rows = _rows(report)
    if not rows:
        return []
    compared = [row for row in rows if row["best_baseline"] is not None]
    return [
        Table(
            headings=[*_LEFT, *rows[0]["values"]],
            rows=[_values(row, rows[0]["values"]) for row in rows],
        ),
        Table(
            headings=[*_LEFT, "best other", "ours above it", "95 %"],
            rows=[
                [*_values(row, ()), row["best_baseline"], _difference(row), _between(row)] for row in compared
            ],
        ),
    ]


def _rows(report: Report) -> list[dict[str, Any]]:
    return report.get("comparison", [])


def _values(row: dict[str, Any], systems: Iterable[str]) -> list[str]:
    told = (_told(row["values"].get(name), row["figure"]) for name in systems)
    return [row["questions"], row["figure"], str(row["n"]), *told]


def _difference(row: dict[str, Any]) -> str:
    return _told(row["difference"], row["figure"], signed=True)


def _best(row: dict[str, Any]) -> str:
    return "" if row["best_baseline"] is None else f" ({row['best_baseline']})"


def _between(row: dict[str, Any]) -> str:
    interval = row["difference_ci95"] or ()
    return " to ".join(_told(end, row["figure"], signed=True) for end in interval)


def _told(value: float | None, figure: str, *, signed: bool = False) -> str:
    if value is None:
        return ""
    sign = "+" if signed else ""
    return f"{value:{sign}.3f}" if figure == AUROC else f"{100 * value:{sign}.1f}"


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")
