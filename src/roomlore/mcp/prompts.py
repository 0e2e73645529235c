"""The prompt `catch_up`."""

from roomlore.mcp.arguments import ShortText, UtcTime
from roomlore.mcp.results import quoted
from roomlore.mcp.transcript import Transcript
from roomlore.operations import App

CATCH_UP = "catch_up"
DESCRIPTION = "The messages and memories of a room, to be summed up."
BUDGET = 6_000
MAX_MESSAGES, MAX_MEMORIES = 300, 20
#: The number of messages if `since` is not given.
DEFAULT_MESSAGES = 50
TASK = (
    "Sum up what happened in this room for me: what was decided, what is open, who is waited for. Cite the labels of the "
    "lines that support what you say, and keep apart who said what."
)


async def catch_up(app: App, room: ShortText, since: UtcTime | None = None) -> str:
    """Return the messages and memories of a room, with the task to sum them up.

    Args:
        since: A day or a time with its zone, like 2026-01-31T09:00:00Z; the newest by default.
    """
    viewer, limit = app.access.principal, DEFAULT_MESSAGES if since is None else MAX_MESSAGES
    messages = await app.messages(viewer, room, limit=limit, apply_restrictions=True)
    start = since or (messages[0].sent_at if messages else None)
    new = [one for one in messages if start is None or one.sent_at >= start]
    memories = await app.memories.all(viewer, limit=MAX_MEMORIES, room=room, since=start)
    transcript = Transcript(budget=BUDGET)
    if since is None:
        transcript.heading("-- the newest")
    else:
        cut = "" if len(new) < limit else ", only the newest"
        transcript.heading(f"-- since {since:%Y-%m-%d %H:%M %Z}{cut}")
    if not (new or memories):
        transcript.heading("-- nothing that you may read")
    transcript.section("-- memories")
    for memory in memories:
        transcript.memory(memory)
    transcript.section("-- messages")
    transcript.messages(new)
    return f"{TASK}\n\n{quoted(transcript, nothing='').to_text()}"
