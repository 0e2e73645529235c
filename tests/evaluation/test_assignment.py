from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from roomlore.evaluation.assignment import best_pairs


def worth_of(grid: np.ndarray, pairs: list[tuple[int, int]]) -> int:
    rows, columns = zip(*pairs, strict=True) if pairs else ((), ())
    assert len(set(rows)) == len(rows) == len(set(columns)) == min(grid.shape)
    return sum(int(grid[pair]) for pair in pairs)


def grids(side: int, most: int):
    shapes = st.tuples(st.integers(1, side), st.integers(1, side))
    return shapes.flatmap(lambda shape: arrays.arrays(np.int64, shape, elements=st.integers(0, most)))


def test_the_greedy_choice_is_not_taken_where_another_is_worth_more():
    assert best_pairs(np.array([[9, 8], [8, 1]])) == [(0, 1), (1, 0)]


def test_of_more_rows_than_columns_some_go_without():
    assert best_pairs(np.array([[1], [7], [3]])) == [(1, 0)]


def test_of_more_columns_than_rows_some_go_without():
    assert best_pairs(np.array([[1, 7, 3], [0, 6, 0]])) == [(0, 2), (1, 1)]


def test_nothing_is_paired_with_nothing():
    assert best_pairs(np.zeros((0, 3), np.int64)) == []
    assert best_pairs(np.zeros((0, 0), np.int64)) == []


@given(grids(5, 6))
def test_no_other_pairing_is_worth_more(grid):
    few = grid if grid.shape[0] <= grid.shape[1] else grid.T
    best = max(
        sum(int(few[row, column]) for row, column in enumerate(columns))
        for columns in permutations(range(few.shape[1]), few.shape[0])
    )
    assert worth_of(grid, best_pairs(grid)) == best


# The first call also loads the other solver.
@settings(deadline=None)
@given(st.one_of(grids(25, 3), grids(25, 1000), grids(25, 10**12)))
def test_the_worth_is_that_of_another_solver(grid):
    optimize = pytest.importorskip("scipy.optimize")
    rows, columns = optimize.linear_sum_assignment(grid, maximize=True)
    assert worth_of(grid, best_pairs(grid)) == int(grid[rows, columns].sum())


@pytest.mark.timeout(100)  # it takes a moment; to try every way would take longer than there is time
def test_many_small_groups_are_paired_off_in_time():
    chance = np.random.default_rng(7)
    grid = np.where(chance.random((400, 500)) < 0.01, chance.integers(1, 20, (400, 500)), 0)
    assert worth_of(grid, best_pairs(grid)) > 0
