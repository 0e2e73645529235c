"""Pairs two groups of things off so that the pairs are worth as much as possible together."""

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int64]

#: Dearer than any way there is.
_OUT_OF_REACH = np.iinfo(np.int64).max // 4


def best_pairs(worth: Whole) -> list[tuple[int, int]]:
    """Return pairs (row, column), each row and column in one at most, whose worth together is the largest.

    As many pairs as there are rows or columns, whichever is less, in the order of the rows. Takes time in the
    order of n² · m for n of the fewer and m of the more of them. Shortest augmenting paths with
    potentials: H. W. Kuhn, The Hungarian method for the assignment problem, Naval Research Logistics Quarterly 2
    (1955); in the form of R. Jonker and A. Volgenant, A shortest augmenting path algorithm for dense and sparse
    linear assignment problems, Computing 38 (1987).

    Args:
        worth: What each pair is worth, rows by columns, in whole numbers.
    """
    if not worth.size:
        return []
    if worth.shape[0] > worth.shape[1]:
        return sorted((row, column) for column, row in best_pairs(worth.T))
    # The dearest pairs become the cheapest.
    row_of = _assigned(worth.max() - worth)
    return sorted((int(row_of[column]), int(column)) for column in np.flatnonzero(row_of >= 0))


def _assigned(cost: Whole) -> Whole:
    """Return the row that each column is given at the least cost together, -1 for none."""
    rows, columns = cost.shape
    row_of = np.full(columns, -1, np.int64)
    row_price, column_price = np.zeros(rows, np.int64), np.zeros(columns, np.int64)
    for row in range(rows):
        _give(row, cost, row_of, prices=(row_price, column_price))
    return row_of


def _give(row: int, cost: Whole, row_of: Whole, *, prices: tuple[Whole, Whole]) -> None:
    """Give one more row a column: along the cheapest way of changes to those given so far."""
    row_price, column_price = prices
    far = np.full(cost.shape[1], _OUT_OF_REACH, np.int64)
    came_from = np.full(cost.shape[1], -1, np.int64)
    is_done = np.zeros(cost.shape[1], np.bool_)
    column, here, walked = -1, row, 0
    while here >= 0:
        way = walked + cost[here] - row_price[here] - column_price
        is_shorter = ~is_done & (way < far)
        far[is_shorter], came_from[is_shorter] = way[is_shorter], column
        column = int(np.where(is_done, _OUT_OF_REACH, far).argmin())
        walked, here = int(far[column]), int(row_of[column])
        is_done[column] = True
    saved = np.where(is_done, walked - far, 0)
    moved = is_done & (row_of >= 0)
    row_price[row] += walked
    row_price[row_of[moved]] += saved[moved]
    column_price -= saved
    while column >= 0:
        before = int(came_from[column])
        row_of[column] = row if before < 0 else row_of[before]
        column = before
