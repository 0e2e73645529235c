"""Listings: as much of what there is as one answer holds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")

#: A listing ends with the record that brings its texts to so many bytes: a thousand messages of two thousand characters.
MAX_PAGE_BYTES = 2 * 2**20
#: Characters of a text that is told after that, where none may be left out; and what stands behind them.
TRUNCATED_LENGTH, TRUNCATION_MARK = 500, " [… cut]"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedPage(Generic[Item]):
    """Records of a listing."""

    items: Sequence[Item]
    #: Whether it ends because they are large, and not because there are no more or no more were wanted.
    is_cut: bool


def truncated(text: str, max_length: int = TRUNCATED_LENGTH) -> str:
    """Return a text that is told by its beginning alone: one that is longer says so."""
    return text if len(text) <= max_length else text[:max_length].rstrip() + TRUNCATION_MARK
