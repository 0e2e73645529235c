"""Listings whose size in bytes is limited."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")

#: A page ends after the record that reaches this size. This is about a thousand messages of two thousand characters.
MAX_PAGE_BYTES = 2 * 2**20
#: After this size, records that must be listed are truncated to so many characters and marked.
TRUNCATED_LENGTH, TRUNCATION_MARK = 500, " [… cut]"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedPage(Generic[Item]):
    """The records of one page."""

    items: Sequence[Item]
    #: Whether the page ended because of its size, and not because of its limit or the end of the records.
    is_truncated: bool


def truncated(text: str, max_length: int = TRUNCATED_LENGTH) -> str:
    """Return the text, shortened and marked if it is too long."""
    return text if len(text) <= max_length else text[:max_length].rstrip() + TRUNCATION_MARK
