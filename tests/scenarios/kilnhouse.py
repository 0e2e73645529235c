"""Kiln House, a pottery with a few people and two agents: what was said there, for stories about what is remembered."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from ingest.stories import author, message, room
from roomlore.domain.incoming import IncomingAuthor, IncomingMembership, IncomingMessage, IncomingRoom
from roomlore.domain.records import Memory
from roomlore.operations import App

HOME = "I live in Porto, on Rua das Flores 12, above the bakery."
MARA, TEO, INES = author("mara"), author("teo"), author("ines")
PIP, QUILL = author("pip", kind="agent"), author("quill", kind="agent")
#: The day before yesterday: all of it is over, and nothing has lost weight.
NOON = datetime.now(UTC).replace(microsecond=0) - timedelta(days=2)


def _members(*people: IncomingAuthor) -> tuple[IncomingMembership, ...]:
    return tuple(IncomingMembership(author=who) for who in people)


STUDIO = room("studio", kind="project", members=_members(MARA, TEO, INES, PIP, QUILL))
OFFICE = room("office", visibility="members", members=_members(MARA, TEO, PIP))


def said(
    key: str, who: IncomingAuthor, body: str, *, where: IncomingRoom = STUDIO, **fields: Any
) -> IncomingMessage:
    """Return what somebody says: by itself now, or at another time."""
    return message(key, body, author=who, room=where, **({"sent_at": datetime.now(UTC)} | fields))


def talk(
    *lines: tuple[str, IncomingAuthor, str, str | None], since: datetime = NOON
) -> list[IncomingMessage]:
    """Return what was said one after the other: a key each, who, what, and in answer to which."""
    return [
        said(key, who, body, reply_to=reply_to, sent_at=since + timedelta(seconds=30 * number))
        for number, (key, who, body, reply_to) in enumerate(lines)
    ]


TOLD = [
    *talk(
        ("glaze", MARA, "let's go with cone six glazes for the new bowls", None),
        ("glaze-yes", TEO, "sounds good, agreed", "glaze"),
        ("clay", MARA, "I prefer white stoneware over porcelain.", None),
        ("clay-ok", INES, "noted", "clay"),
        ("home", TEO, HOME, None),
        ("home-ok", INES, "lovely", "home"),
        ("burn", INES, "Lesson learned: never open the kiln above 200 degrees.", None),
        ("burn-ok", TEO, "thanks, good point", "burn"),
        ("short", QUILL, "I prefer short answers.", None),
        ("short-ok", MARA, "ok Quill", "short"),
        ("ask", MARA, "Pip, which cone was the blue celadon fired at?", None),
        ("answer", PIP, "Cone nine, in reduction, and it crawled at the foot.", "ask"),
        ("answer-no", INES, "no, that's wrong: it was cone ten", "answer"),
    ),
    said("safe", MARA, "The combination of the safe is twelve.", where=OFFICE, sent_at=NOON),
    said("key", MARA, "Ines lost the first key.", where=OFFICE, sent_at=NOON + timedelta(minutes=2)),
    said("safe-ok", PIP, "understood", where=OFFICE, sent_at=NOON + timedelta(minutes=1)),
]


async def tell(app: App, *lines: IncomingMessage) -> App:
    """Let something be said, and everything be done that follows from it."""
    accepted = await app.ingest_batch(lines)
    assert accepted.skipped == []
    await app.drain()
    return app


async def acting(app: App, name: str) -> App:
    """Return the App on behalf of somebody."""
    return app.impersonate(await app.viewer(name))


async def remember(app: App, name: str | None, content: str, **details: Any) -> Memory:
    """Let an agent assert something, or the operator."""
    asserting = app if name is None else await acting(app, name)
    return await asserting.memories.remember(content, **details)


async def known(app: App, name: str | None = None, **wanted: Any) -> list[Memory]:
    """Return the memories that somebody may see."""
    viewer = app.operator if name is None else await app.viewer(name)
    return await app.memories.all(viewer, **wanted)


async def contents(app: App, name: str | None = None, **wanted: Any) -> set[str]:
    """Return what the memories say that somebody may see."""
    return {one.content for one in await known(app, name, **wanted)}


def names(memory: Memory, role: str) -> set[str]:
    """Return whom a memory names in a role."""
    return {person.name for person in memory.participants if person.role == role}


def texts(found: Sequence[Memory]) -> list[str]:
    """Return what memories say, in their order."""
    return [one.content for one in found]
