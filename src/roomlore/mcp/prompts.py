"""The prompts: what somebody may begin with."""

from collections.abc import Sequence
from datetime import datetime

from roomlore.domain.records import Memory, Message
from roomlore.mcp.arguments import CatchUp
from roomlore.mcp.transcript import NOTE, Transcript
from roomlore.operations import App

CATCH_UP = "catch_up"
DESCRIPTION = "What was said and remembered in a room, to be summed up."
ROOM_IS = "Name or id of a room."
SINCE_IS = "A day or a time with its zone, like 2026-01-31T09:00:00Z; the newest by default."
BUDGET = 6_000
#: So many messages are looked at, and so many memories told.
MAX_MESSAGES, MAX_MEMORIES = 300, 20
#: Where nobody says since when.
DEFAULT_MESSAGES = 50
TASK = (
    "Sum up what happened in this room for me: what was decided, what is open, who is waited for. Cite what you say by "
    "the labels of the lines that say so, and keep apart who said what."
)


async def catch_up(app: App, given: CatchUp) -> str:
    """Return what was said and remembered in a room since a time, with the task to sum it up.

    Raises:
        NotFound: there is no such room, or the viewer may not see it.
        BadInput: several rooms are meant.
    """
    viewer = app.access.principal
    limit = DEFAULT_MESSAGES if given.since is None else MAX_MESSAGES
    said = await app.messages(viewer, given.room, limit=limit, recalls=True)
    since = given.since or (said[0].sent_at if said else None)
    new = [one for one in said if since is None or one.sent_at >= since]
    kept = await app.memories.all(viewer, limit=MAX_MEMORIES, room=given.room, since=since)
    return _to_text(new, kept, since=given.since, is_all=len(new) < limit)


def _to_text(said: Sequence[Message], kept: Sequence[Memory], *, since: datetime | None, is_all: bool) -> str:
    told = Transcript(budget=BUDGET)
    told.heading(_describe_period(since, is_all=is_all))
    if not (said or kept):
        told.heading("-- nothing that you may read")
    told.section("-- remembered")
    for memory in kept:
        told.memory(memory)
    told.section("-- said")
    told.messages(said)
    return f"{TASK}\n\n{NOTE}\n\n{told.with_citations()}"


def _describe_period(since: datetime | None, *, is_all: bool) -> str:
    if since is None:
        return "-- the newest"
    told = f"-- since {since:%Y-%m-%d %H:%M %Z}"
    return told if is_all else f"{told}, the newest of what was said"
