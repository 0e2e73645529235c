"""Resources: rooms and memories by address, and the list of rooms."""

from collections import Counter
from collections.abc import Mapping
from urllib.parse import unquote

from roomlore.domain.errors import BadInput, NotFound
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.records import Room
from roomlore.domain.rendering import as_one_line, safe_name
from roomlore.mcp import arguments
from roomlore.mcp.results import quoted
from roomlore.mcp.tools import memory_provenance
from roomlore.mcp.transcript import Transcript
from roomlore.operations import App

TIMELINE, MEMORY = "room://{room}/timeline", "memory://{memory}"
TEXT = "text/plain"
#: The number of messages and tokens of a timeline.
NEWEST, BUDGET = 50, 4_000
#: The number of rooms on one page, and of completions.
ROOMS_PAGE, MOST_CHOICES = 100, 50
_TIMELINE = lazy_pattern(r"room://([^/?#]+)/timeline")
_MEMORY = lazy_pattern(r"memory://([^/?#]+)")
_MAX_URI_LENGTH = 2_000


async def read_resource(app: App, uri: str) -> str:
    """Return the text of a resource."""
    if found := _TIMELINE.fullmatch(uri[:_MAX_URI_LENGTH]):
        return await _timeline(app, unquote(found[1]))
    if found := _MEMORY.fullmatch(uri[:_MAX_URI_LENGTH]):
        return (await memory_provenance(app, unquote(found[1]), budget=BUDGET)).to_text()
    raise NotFound("resource", uri[:_MAX_URI_LENGTH])


async def rooms(app: App, cursor: str | None) -> tuple[Mapping[str, str], str | None]:
    """Return a page of rooms and the cursor of the next page. The most recently active room comes first.

    The rooms are safe names by address. The cursor is None on the last page.
    """
    seen = await app.rooms(app.access.principal)
    start = 0
    if cursor is not None:
        positions = {str(room.id): number for number, room in enumerate(seen, start=1)}
        # If the viewer no longer sees a room, the error is the same as for a room that never existed.
        if cursor not in positions:
            raise BadInput("cursor", "names no page; start again without one")
        start = positions[cursor]
    page = seen[start : start + ROOMS_PAGE]
    more = start + len(page) < len(seen)
    listed = {TIMELINE.format(room=room.id): safe_name(room.qualified_name) for room in page}
    return listed, str(page[-1].id) if more else None


async def complete_room(app: App, prefix: str) -> tuple[list[str], int]:
    """Return completions for the start of a room's name, and their total.

    A completion is an id if several rooms have the same name, or if the name is not a plain name.
    """
    seen = await app.rooms(app.access.principal)
    wanted = prefix.casefold()
    same = Counter(room.qualified_name for room in seen)
    matches = [
        _room_reference(room, same)
        for room in seen
        if any(name.casefold().startswith(wanted) for name in (room.name, room.qualified_name))
    ]
    return matches[:MOST_CHOICES], len(matches)


def _room_reference(room: Room, same: Counter[str]) -> str:
    name = room.qualified_name
    is_plain = safe_name(name) == as_one_line(name) == name
    return name if is_plain and same[name] == 1 else str(room.id)


async def _timeline(app: App, room: str) -> str:
    if len(room) > arguments.LONGEST_WORD:
        raise NotFound("room", room[: arguments.LONGEST_WORD])
    messages = await app.messages(app.access.principal, room, limit=NEWEST, apply_restrictions=True)
    transcript = Transcript(budget=BUDGET)
    transcript.heading(
        "-- the newest, oldest first" if messages else "-- there are no messages that you may read"
    )
    transcript.messages(messages)
    return quoted(transcript, nothing="").to_text()
