"""Tools that write: each as whoever the App acts for, and only what is theirs to write."""

from typing import Literal

from roomlore.app import App
from roomlore.domain.errors import BadInput
from roomlore.domain.records import Memory
from roomlore.domain.wording import memory_audience_phrase
from roomlore.surfaces.mcp import arguments
from roomlore.surfaces.mcp.results import WriteResult, QuotedResult, quoted
from roomlore.surfaces.mcp.transcript import Transcript, memory_line


async def remember(app: App, given: arguments.Remember) -> QuotedResult:
    """Keep a statement as a memory, and return it."""
    details = given.model_dump(exclude={"content"})
    kept = await app.memories.remember(given.content, **details)
    told = Transcript(budget=arguments.DEFAULT_BUDGET)
    told.memory(kept)
    return quoted(told, nothing="", remarks=[f"It is {memory_audience_phrase(kept)}."])


async def say(app: App, given: arguments.RoomSay) -> WriteResult:
    """Say something in a room, and return which message it is."""
    said = await app.intake.say(given.room, given.text, reply_to=given.reply_to, to=given.to)
    return WriteResult(done="said", message_id=said)


async def forget(app: App, given: arguments.Forget) -> WriteResult:
    """Put a memory aside, or erase a message; return which one."""
    _check_one(given)
    if given.message is not None:
        return WriteResult(done="erased", message_id=(await app.erasure.message(given.message)).message_id)
    return _write_result("put aside", await app.memories.forget(given.memory or ""))


async def correct(app: App, given: arguments.Correct) -> WriteResult:
    """Put what is right in the place of a memory, or edit a message; return which one."""
    _check_one(given)
    if given.message is not None:
        return WriteResult(done="edited", message_id=await app.intake.edit(given.message, given.text))
    return _write_result("replaced", await app.memories.correct(given.memory or "", given.text))


def _check_one(given: arguments.Forget | arguments.Correct) -> None:
    if (given.memory is None) == (given.message is None):
        raise BadInput("memory", "name a memory or a message, and not both")


def _write_result(done: Literal["replaced", "put aside"], memory: Memory) -> WriteResult:
    return WriteResult(done=done, memory_id=memory.id, text=memory_line(memory))
