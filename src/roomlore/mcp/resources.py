"""The resources: rooms and memories by address, and the rooms there are for whoever asks."""

from collections import Counter
from dataclasses import dataclass
from urllib.parse import unquote

from roomlore.domain.errors import BadInput, NotFound
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.records import Room
from roomlore.domain.rendering import as_one_line, safe_name
from roomlore.mcp import arguments
from roomlore.mcp.arguments import MemoryWhy
from roomlore.mcp.tools import TOOLS
from roomlore.mcp.transcript import NOTE, Transcript
from roomlore.operations import App

TIMELINE, MEMORY = "room://{room}/timeline", "memory://{memory}"
TEXT = "text/plain"
#: Messages of a timeline, and tokens of them.
NEWEST, BUDGET = 50, 4_000
#: Rooms on one page, and choices for a word that was begun.
ROOMS_PAGE, MOST_CHOICES = 100, 50
_TIMELINE = lazy_pattern(r"room://([^/?#]+)/timeline")
_MEMORY = lazy_pattern(r"memory://([^/?#]+)")
_MAX_URI_LENGTH = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomResource:
    """A room as it is listed."""

    uri: str
    #: Harmless.
    name: str


async def read_resource(app: App, uri: str) -> str:
    """Return what stands at an address, as text.

    Raises:
        NotFound: nothing stands there, or the viewer may not see it.
        BadInput: several are meant.
    """
    if found := _TIMELINE.fullmatch(uri[:_MAX_URI_LENGTH]):
        return await _timeline(app, unquote(found[1]))
    if found := _MEMORY.fullmatch(uri[:_MAX_URI_LENGTH]):
        why = next(tool for tool in TOOLS if tool.name == "memory_why")
        return (
            await why.call(app, MemoryWhy.model_construct(memory=unquote(found[1]), budget=BUDGET))
        ).to_text()
    raise NotFound("resource", uri[:_MAX_URI_LENGTH])


async def rooms(app: App, cursor: str | None) -> tuple[list[RoomResource], str | None]:
    """Return a page of the rooms the viewer may see, most recently active first, and what names the next page.

    Raises:
        BadInput: the cursor names no page.
    """
    seen = await app.rooms(app.access.principal)
    start = 0
    if cursor is not None:
        places = {str(room.id): number for number, room in enumerate(seen, start=1)}
        # One that was the last of a page and is not seen any more is like one that never was.
        if cursor not in places:
            raise BadInput("cursor", "names no page; begin anew without one")
        start = places[cursor]
    page = seen[start : start + ROOMS_PAGE]
    more = start + len(page) < len(seen)
    listed = [
        RoomResource(uri=TIMELINE.format(room=room.id), name=safe_name(room.qualified_name)) for room in page
    ]
    return listed, str(page[-1].id) if more else None


async def complete_room(app: App, prefix: str) -> tuple[list[str], int]:
    """Return what may be meant by the beginning of a room's name, and how much that is in all.

    A room is told by its id where several have its name, or where the name holds more than plain words.
    """
    seen = await app.rooms(app.access.principal)
    wanted = prefix.casefold()
    same = Counter(room.qualified_name for room in seen)
    fit = [
        _room_reference(room, same)
        for room in seen
        if any(name.casefold().startswith(wanted) for name in (room.name, room.qualified_name))
    ]
    return fit[:MOST_CHOICES], len(fit)


def _room_reference(room: Room, same: Counter[str]) -> str:
    name = room.qualified_name
    is_plain = safe_name(name) == as_one_line(name) == name
    return name if is_plain and same[name] == 1 else str(room.id)


async def _timeline(app: App, room: str) -> str:
    if len(room) > arguments.LONGEST_WORD:
        raise NotFound("room", room[: arguments.LONGEST_WORD])
    said = await app.messages(app.access.principal, room, limit=NEWEST, recalls=True)
    told = Transcript(budget=BUDGET)
    told.heading("-- the newest, oldest first" if said else "-- nothing was said that you may read")
    told.messages(said)
    return f"{NOTE}\n\n{told.with_citations()}"
