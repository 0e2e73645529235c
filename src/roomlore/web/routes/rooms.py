"""The rooms, and how much there is in each."""

from collections.abc import Sequence
from dataclasses import dataclass

from roomlore.domain.records import Room
from roomlore.operations.rooms import RoomDirectory
from roomlore.web.pages import PageRoutes
from roomlore.web.request_context import RequestContext

PAGES = PageRoutes()
#: Rooms of a page, and pages that an address may name.
SHOWN, MOST_PAGES = 100, 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomsPage:
    """The rooms that a viewer may see, most recently active first."""

    #: Of whose names this is a part; empty is all.
    named: str
    rooms: Sequence[Room]
    #: From 1.
    number: int
    has_more: bool
    #: Whether there are any, whatever they are named.
    is_empty: bool


@PAGES.page("/", "rooms.html")
async def rooms(visit: RequestContext) -> RoomsPage:
    """Return the rooms whose names have what is looked for."""
    named, number = visit.word("named") or "", visit.number("page", 1, most=MOST_PAGES)
    listed = RoomDirectory(access=visit.app.access)
    found, has_more = await listed.page(visit.viewer, named=named, skip=(number - 1) * SHOWN, limit=SHOWN)
    is_empty = not found and not await listed.names(visit.viewer, limit=1)
    return RoomsPage(named=named, rooms=found, number=number, has_more=has_more, is_empty=is_empty)
