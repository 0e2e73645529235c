"""Listings that a server gives in pages, put together again."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from roomlore.client import written
from roomlore.client.line import PAGE, Query

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """Which part of a listing is asked for."""

    limit: int
    #: What it ends before, by somebody's word, or by what the page before said.
    before: str | None = None
    cursor: str | None = None

    def query(self) -> Query:
        """Return how an address asks for it."""
        return written.query(limit=self.limit, before=self.before, cursor=self.cursor)


#: Returns the items of a page, the newest first, and where the next begins.
FetchPage = Callable[[PageRequest], Awaitable[tuple[list[Item], str | None]]]


async def fetch_all(fetch: FetchPage[Item], *, limit: int, before: str | None) -> list[Item]:
    """Return up to `limit` items, the newest first, page by page; a page that is cut because texts are large is the last."""
    page = PageRequest(limit=min(limit, PAGE), before=before)
    found, following = await fetch(page)
    reached = page.limit
    while following is not None and reached == len(found) < limit:
        page = PageRequest(limit=min(limit - len(found), PAGE), cursor=following)
        more, following = await fetch(page)
        found += more
        reached += page.limit
    return found
