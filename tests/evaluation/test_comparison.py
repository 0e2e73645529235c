import random
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.comparison import LEXICAL_ONLY, OURS, compare, markdown_table
from evaluation.datasets import Question
from evaluation.metrics import ALL, Ranking, score_retrieval

QUESTION = Question(
    id="q",
    room="camp",
    question="Who brings the tent?",
    evidence_message_ids=("gold",),
    category="who",
    answerable=True,
    as_of_message_id=None,
    asker_id=None,
    include=(),
    leak_targets=(),
)
FOUND, MISSED = ("gold", "x"), ("x", "y")


def questions(count: int, **changes) -> list[Question]:
    return [replace(QUESTION, id=f"q{number}", **changes) for number in range(count)]


def run(asked: list[Question], hits: int, *, scores=None) -> list[Ranking]:
    """Return a run that finds the evidence of the first so many questions."""
    return [
        Ranking(
            question_id=question.id,
            ranked=FOUND if place < hits else MISSED,
            score=None if scores is None else scores[place],
        )
        for place, question in enumerate(asked)
    ]


def rows_of(asked, runs, negatives=None, texts=None):
    made = compare(asked, texts or {}, runs, negatives=negatives or {})
    return {(row.questions, row.figure): row for row in made}


def test_ours_is_held_against_the_best_of_the_others():
    asked = questions(10)
    runs = {OURS: run(asked, 8), LEXICAL_ONLY: run(asked, 10), "bm25": run(asked, 3), "dense": run(asked, 5)}
    row = rows_of(asked, runs)[ALL, "R@10"]
    assert row.values == {OURS: 0.8, LEXICAL_ONLY: 1.0, "bm25": 0.3, "dense": 0.5}
    assert (row.n, row.best_baseline, row.difference) == (10, "dense", 0.3)
    low, high = row.difference_ci95
    assert 0 <= low < 0.3 < high <= 0.6


def test_a_difference_of_the_same_questions_is_surer_than_the_parts():
    asked = questions(40)
    runs = {OURS: run(asked, 21), "bm25": run(asked, 20)}
    row = rows_of(asked, runs)[ALL, "R@10"]
    low, high = row.difference_ci95
    assert high - low < row.ci95[OURS][1] - row.ci95[OURS][0]


@pytest.mark.slow
@given(st.integers(0, 2**32))
def test_means_and_the_interval_are_those_of_the_score_alone(seed):
    chance = random.Random(seed)
    asked = [replace(one, category=chance.choice("ab")) for one in questions(12)]
    asked += [replace(QUESTION, id="trap", answerable=False, evidence_message_ids=("x",))]
    mine = [
        Ranking(question_id=one.id, ranked=chance.sample(["gold", "x", "y", "z"], 3), score=chance.random())
        for one in asked
    ]
    report = score_retrieval(asked, [], predicted=mine)
    rows = rows_of(asked, {OURS: mine})
    for kind in {ALL} | {one.category for one in asked[:-1]}:
        for figure in ("R@10", "nDCG@10", "MRR"):
            assert rows[kind, figure].values[OURS] == report[kind][figure]
            assert rows[kind, figure].n == report[kind]["n"]
    assert rows[ALL, "R@10"].ci95[OURS] == report[ALL]["R@10_ci95"]
    assert rows["refuse: all", "AUROC"].values[OURS] == pytest.approx(report["abstention_auroc"], abs=5e-5)


def test_of_leaks_the_fewest_are_the_best():
    asked = questions(
        2, category="privacy", evidence_message_ids=(), leak_targets=("4711",), include=("tent",)
    )
    texts = {"gold": "the code is 4711", "x": "the tent", "y": ""}
    runs = {OURS: run(asked, 2), "bm25": run(asked, 1), "dense": run(asked, 2)}
    rows = rows_of(asked, runs, texts=texts)
    leak = rows["privacy", "leak_strict@10"]
    assert leak.values == {OURS: 1.0, "bm25": 0.5, "dense": 1.0}
    assert (leak.best_baseline, leak.difference) == ("bm25", 0.5)
    assert rows["privacy", "coverage@10"].values[OURS] == 1
    assert (ALL, "R@10") not in rows


def test_what_must_be_refused_is_told_by_kind():
    asked = [
        *questions(2),
        replace(QUESTION, id="t1", category="trap", answerable=False),
        replace(QUESTION, id="t2", category="other trap", answerable=False),
    ]
    runs = {
        OURS: run(asked, 2, scores=[0.9, 0.8, 0.1, 0.85]),
        "bm25": run(asked, 2, scores=[0.5, 0.5, 0.5, 0.5]),
    }
    moved = {OURS: run(asked[:2], 0, scores=[0.1, 0.2]), "bm25": run(asked[:2], 0, scores=[0.9, 0.1])}
    rows = rows_of(asked, runs, negatives=moved)
    assert rows["refuse: all", "AUROC"].values == {OURS: 0.75, "bm25": 0.5}
    assert rows["refuse: trap", "AUROC"].values[OURS] == 1
    assert rows["refuse: other trap", "AUROC"].difference == 0
    assert rows["refuse: another room", "AUROC"].values == {OURS: 1.0, "bm25": 0.5}
    assert rows["refuse: another room", "AUROC"].n == 2
    low, high = rows["refuse: another room", "AUROC"].difference_ci95
    assert low <= 0.5 <= high


def test_a_system_that_was_not_asked_elsewhere_has_no_figure_there():
    asked = questions(2)
    runs = {OURS: run(asked, 2, scores=[0.9, 0.8]), LEXICAL_ONLY: run(asked, 2, scores=[0.9, 0.8])}
    rows = rows_of(asked, runs, negatives={OURS: run(asked, 0, scores=[0.1, 0.2])})
    row = rows["refuse: another room", "AUROC"]
    assert row.values == {OURS: 1.0, LEXICAL_ONLY: None}
    assert (row.best_baseline, row.difference, row.difference_ci95) == (None, None, None)


def test_nothing_asked_compares_nothing():
    assert compare([], {}, {OURS: [], "bm25": []}, negatives={}) == []


# As a table


def table_of(asked, systems, negatives=None) -> list[list[str]]:
    rows = [asdict(row) for row in compare(asked, {}, systems, negatives=negatives or {})]
    return [line.strip("| ").split(" | ") for line in markdown_table({"comparison": rows}).splitlines()]


def test_a_comparison_is_a_table_in_percent():
    asked = questions(10)
    headings, border, first, *_ = table = table_of(asked, {OURS: run(asked, 8), "bm25": run(asked, 5)})
    assert headings == ["questions", "figure", "n", OURS, "bm25", "ours above the best", "95 %"]
    assert border == ["---"] * 7
    assert first[:6] == [ALL, "R@10", "10", "80.0", "50.0", "+30.0 (bm25)"]
    assert all(len(row) == len(headings) for row in table)


def test_auroc_is_a_fraction_and_what_is_unknown_is_left_empty():
    asked = questions(2)
    systems = {OURS: run(asked, 2, scores=[0.9, 0.8]), LEXICAL_ONLY: run(asked, 2)}
    negatives = {OURS: run(asked, 0, scores=[0.1, 0.2])}
    rows = [asdict(row) for row in compare(asked, {}, systems, negatives=negatives)]
    table = markdown_table({"comparison": rows})
    assert table.endswith("| refuse: another room | AUROC | 2 | 1.000 |  |  |  |")


def test_a_bar_in_a_name_does_not_break_the_table():
    asked = questions(1, category="who|what")
    assert [row[0] for row in table_of(asked, {OURS: run(asked, 1)})[-1:]] == ["who\\|what"]


def test_a_report_that_compares_nothing_has_no_table():
    assert markdown_table({"P": 1.0}) is None
    assert markdown_table({"comparison": []}) is None
