"""Has Roomlore untangle rooms, and keeps who answers whom in which conversation as runs."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager

from roomlore.app import App
from roomlore.domain.errors import BadInput
from roomlore.domain.records import Placed
from roomlore.domain.wording import counted
from roomlore.evaluation.datasets import Link
from roomlore.evaluation.untangling import Placement

Progress = Callable[[int], None]
#: Shows how far something named has come, of how much where that is known, while its context lasts.
Bar = Callable[[str, int | None], AbstractContextManager[Progress]]

#: Messages per read.
PAGE = 1_000


async def untangle(app: App, bar: Bar) -> None:
    """Find out for every message what it answers and which conversation it is in.

    Raises:
        BadInput: it could not be found out for some: what is half done is not measured.
    """
    with bar("untangling", None) as progress:
        done = await app.untangle(progress)
    if done.set_aside:
        raise BadInput(
            "data set",
            f"{counted(done.set_aside, 'piece')} of it could not be untangled; nothing was measured",
        )


async def placed_messages(app: App, rooms: Iterable[str], bar: Bar) -> list[Placed]:
    """Return every message of the rooms, untangled, in the order of each room."""
    await untangle(app, bar)
    placed: list[Placed] = []
    with bar("reading", None) as progress:
        for room in rooms:
            placed += await _timeline(app, room, progress)
    return placed


async def _timeline(app: App, room: str, progress: Progress) -> list[Placed]:
    pages: list[list[Placed]] = []
    before: str | None = None
    while page := await app.conversations.timeline(app.operator, room, limit=PAGE, before=before):
        progress(len(page))
        pages.append(page)
        before = str(page[0].message.id)
    return [placed for page in reversed(pages) for placed in page]


def answered(placed: Sequence[Placed]) -> list[Link]:
    """Return who answers whom, by external ids; notices of the platform answer nobody."""
    external = {one.message.id: one.message.external_id for one in placed}
    return [
        Link(child=one.message.external_id, parent=external[one.answers.parent_id])
        for one in placed
        if one.answers is not None and one.message.kind != "system"
    ]


def placements(placed: Iterable[Placed]) -> list[Placement]:
    """Return which conversation each message is in that is in one, by external ids."""
    return [
        Placement(message_id=one.message.external_id, conversation=str(one.conversation_id))
        for one in placed
        if one.conversation_id is not None
    ]
