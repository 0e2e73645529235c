"""Colours of authors, by first appearance in a room: hashed names would give neighbours the same."""

from collections.abc import Hashable, Iterable, Mapping

#: As many as `roomlore.css` has; the next begins again, and a name stands beside each anyway.
COLOUR_COUNT = 24


def colours(authors: Iterable[Hashable]) -> Mapping[Hashable, int]:
    """Return the number of each author's colour, given authors in the order in which they appear."""
    first = dict.fromkeys(authors)
    return {author: place % COLOUR_COUNT for place, author in enumerate(first)}
