"""Tools that write: each as whoever the App acts for, and only what is theirs to write."""

from typing import Literal

from roomlore.app import App
from roomlore.domain.errors import BadInput
from roomlore.domain.records import Memory
from roomlore.domain.wording import for_whom
from roomlore.surfaces.mcp import arguments
from roomlore.surfaces.mcp.results import Done, Quoted, quoted
from roomlore.surfaces.mcp.transcript import Transcript, memory_line


async def remember(app: App, given: arguments.Remember) -> Quoted:
    """Keep a statement as a memory, and return it."""
    details = given.model_dump(exclude={"content"})
    kept = await app.memories.remember(given.content, **details)
    told = Transcript(budget=arguments.DEFAULT_BUDGET)
    told.memory(kept)
    return quoted(told, nothing="", remarks=[f"It is {for_whom(kept)}."])


async def say(app: App, given: arguments.RoomSay) -> Done:
    """Say something in a room, and return which message it is."""
    said = await app.intake.say(given.room, given.text, reply_to=given.reply_to, to=given.to)
    return Done(done="said", message_id=said)


async def forget(app: App, given: arguments.Forget) -> Done:
    """Put a memory aside, or erase a message; return which one."""
    _check_one(given)
    if given.message is not None:
        return Done(done="erased", message_id=(await app.erasure.message(given.message)).message_id)
    return _told("put aside", await app.memories.forget(given.memory or ""))


async def correct(app: App, given: arguments.Correct) -> Done:
    """Put what is right in the place of a memory, or edit a message; return which one."""
    _check_one(given)
    if given.message is not None:
        return Done(done="edited", message_id=await app.intake.edit(given.message, given.text))
    return _told("replaced", await app.memories.correct(given.memory or "", given.text))


def _check_one(given: arguments.Forget | arguments.Correct) -> None:
    if (given.memory is None) == (given.message is None):
        raise BadInput("memory", "name a memory or a message, and not both")


def _told(done: Literal["replaced", "put aside"], memory: Memory) -> Done:
    return Done(done=done, memory_id=memory.id, text=memory_line(memory))
