"""What the links in messages point to: the text of a page, or why it was not read."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Article:
    """What a page says, without what surrounds it."""

    #: As it was asked for; redirects may have led elsewhere.
    url: str
    #: Empty where the page has none.
    title: str
    #: As the page has it: nobody vouches for it, and nothing in it has been made harmless yet.
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchFailure:
    """A link whose page was not read."""

    url: str
    #: One phrase for a person. It never tells what address a name stands for.
    reason: str
