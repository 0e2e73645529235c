"""Reads while people come and go: each shows what could be read at one moment, never a mix of two.

Every version of the story is one transaction that changes who is a member of two rooms, what two messages
say, and what there is to read. What every read answers at every version is written down first, in quiet;
then reads and changes run side by side, and each answer must be that of one version between the read's
beginning and its end.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from ingest.stories import at, author, message, room
from roomlore.domain.errors import NotFound
from roomlore.domain.incoming import IncomingMembership, IncomingMessage, IncomingRoom
from roomlore.domain.records import Viewer
from roomlore.operations import App

OpenApp = Callable[[str], Awaitable[App]]
Answer = object
VERSIONS = 14
ROOMS = ("vault", "den")
ANA, VIC = author("ana"), author("vic")
#: Everything there is.
ALL = 1000


def minute(version: int) -> float:
    return 10 + version


def stay(version: int) -> IncomingMembership | None:
    """Return Vic's presence as the lists of this version tell it.

    It goes in sixes: Vic is there for two messages, then it turns out that Vic had left before the second,
    then nothing is heard of Vic, who comes back with the fifth.
    """
    if version == 0:
        return None
    turn, place = divmod(version - 1, 6)
    joined_at = at(minute(6 * turn - 1)) if turn else at(0)
    match place:
        case 0 | 1:
            return IncomingMembership(author=VIC, joined_at=joined_at)
        case 2:
            return IncomingMembership(author=VIC, joined_at=joined_at, left_at=at(minute(version - 1)))
        case 3:
            return None
        case _:
            return IncomingMembership(author=VIC, joined_at=at(minute(6 * turn + 5)))


def listed(where: str, version: int) -> IncomingRoom:
    presence = stay(version)
    members = [IncomingMembership(author=ANA, joined_at=at(0)), *([presence] if presence else [])]
    return room(where, visibility="members", members=tuple(members))


def changes(version: int) -> list[IncomingMessage]:
    """Return what one transaction brings: in each room a list, a message and a new text of an old one."""
    brought = []
    for where in ROOMS:
        described = listed(where, version)
        brought.append(
            message(
                "marker",
                f"the heron stands still, version {version}",
                room=room(where, visibility="members"),
                sent_at=at(1),
                edited_at=at(minute(version)) if version else None,
            )
        )
        brought.append(
            message(
                f"v{version}",
                f"another heron, number {version}",
                room=described,
                sent_at=at(minute(version)),
                order=version,
                reply_to="marker",
            )
        )
    return brought


def texts(messages) -> list[tuple[str, str]]:
    return [(one.external_id, one.body) for one in messages]


async def rooms(app: App, viewer: Viewer) -> Answer:
    found = await app.rooms(viewer)
    return sorted((one.name, one.message_count, one.last_activity_at) for one in found)


async def participants(app: App, viewer: Viewer) -> Answer:
    found = await app.participants(viewer)
    return sorted((one.name, one.message_count, one.last_seen_at) for one in found)


async def messages(app: App, viewer: Viewer) -> Answer:
    return texts(await app.messages(viewer, "vault", limit=ALL))


async def search(app: App, viewer: Viewer) -> Answer:
    found = await app.search(viewer, "heron", limit=ALL)
    return sorted((hit.room_name, text) for hit in found.hits for text in texts(hit.messages))


async def context(app: App, viewer: Viewer) -> Answer:
    built = await app.context(viewer, "den", private=True)
    return texts(line.message for line in built.lines)


READS: Mapping[str, Callable[[App, Viewer], Awaitable[Answer]]] = {
    read.__name__: read for read in (rooms, participants, messages, search, context)
}


async def answer(name: str, app: App, viewer: Viewer) -> Answer:
    try:
        return await READS[name](app, viewer)
    except NotFound:
        return "not found"


@dataclass(kw_only=True)
class Telling:
    """How far a story has been told."""

    begun: int = 0
    done: int = 0
    #: Reads during which the version changed, by name.
    met: Counter[str] = field(default_factory=Counter)

    async def tell(self, app: App) -> None:
        for version in range(1, VERSIONS):
            self.begun = version
            await app.ingest_batch(changes(version))
            self.done = version


async def begin(app: App) -> Viewer:
    """Tell the version in which Vic is in neither of the rooms yet."""
    await app.ingest(message("hello", "no bird", author=VIC, room=room("hall")))
    await app.ingest_batch(changes(0))
    await app.drain()
    return await app.viewer("vic")


async def answers_in_quiet(app: App) -> dict[str, list[Answer]]:
    viewer = await begin(app)
    found = {name: [await answer(name, app, viewer)] for name in READS}
    for version in range(1, VERSIONS):
        await app.ingest_batch(changes(version))
        for name, by_version in found.items():
            by_version.append(await answer(name, app, viewer))
    return found


async def keep_reading(
    name: str, app: App, viewer: Viewer, *, telling: Telling, wanted: list[Answer]
) -> None:
    while telling.done < VERSIONS - 1:
        first = telling.done
        shown = await answer(name, app, viewer)
        last = telling.begun
        telling.met[name] += last > first
        fitting = [version for version, one in enumerate(wanted) if one == shown]
        assert any(first <= version <= last for version in fitting), (name, first, last, fitting, shown)


@pytest.mark.slow
async def test_what_a_read_shows_was_to_be_read_at_one_moment(open_app: OpenApp):
    wanted = await answers_in_quiet(await open_app("quiet"))
    check_worth(wanted)
    app = await open_app("busy")
    viewer, telling = await begin(app), Telling()
    async with asyncio.TaskGroup() as together:
        for name, by_version in wanted.items():
            together.create_task(keep_reading(name, app, viewer, telling=telling, wanted=by_version))
        together.create_task(telling.tell(app))
    assert set(telling.met) == set(READS)
    assert min(telling.met.values()) >= 3


def check_worth(wanted: Mapping[str, list[Answer]]) -> None:
    """Check that versions can be told apart by what is read, and take away as well as give."""
    assert wanted["messages"][0] == wanted["context"][0] == "not found"
    for name in ("messages", "search", "context"):
        assert len({repr(one) for one in wanted[name]}) == VERSIONS
    counts = [len(one) for one in wanted["messages"][1:] if isinstance(one, list)]
    outbox_of_count = {later - earlier for earlier, later in pairwise(counts)}
    assert outbox_of_count == {-1, 0, 1}
