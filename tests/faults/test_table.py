"""The table of seeded faults fits the code, so that it can be run at any time."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from faults.table import LEAST, LEAST_OF_AREA, Fault, problems, read_table, seeded

FAULT = Fault(
    id="sample",
    area="search",
    file="code.py",
    before="a < b",
    after="a <= b",
    why="off by one",
    tests=("code.py",),
)


def test_every_fault_can_be_seeded():
    assert list(problems(read_table())) == []


def test_the_areas_where_a_fault_costs_most_have_many():
    faults = read_table()
    areas = Counter(fault.area for fault in faults)
    assert len(faults) >= LEAST
    assert {area: areas[area] for area, least in LEAST_OF_AREA.items() if areas[area] < least} == {}


@pytest.mark.parametrize(("text", "count"), [("a > b", 0), ("a < b or a < b", 2)])
def test_a_text_that_is_gone_or_stands_twice_is_noticed(tmp_path: Path, text: str, count: int):
    (tmp_path / "code.py").write_text(text, "utf-8")
    assert list(problems([FAULT], tmp_path)) == [
        f"sample: the text `before` occurs {count} times in code.py, not once"
    ]


def test_a_fault_is_seeded_in_its_place(tmp_path: Path):
    (tmp_path / "code.py").write_text("if a < b:", "utf-8")
    assert seeded(FAULT, tmp_path) == "if a <= b:"


def test_what_a_fault_lacks_is_noticed(tmp_path: Path):
    (tmp_path / "code.py").write_text("a < b", "utf-8")
    odd = [
        replace(FAULT, after="a < b", tests=()),
        replace(FAULT, file="gone.py"),
        replace(FAULT, id="other", tests=("gone.py", "code.py::test_gone")),
    ]
    assert list(problems(odd, tmp_path)) == [
        "sample: 2 faults have this id",
        "sample: `before` and `after` are the same",
        "sample: names no tests",
        "sample: there is no file gone.py",
        "other: there is no test file gone.py",
        "other: there is no test test_gone in code.py",
    ]
