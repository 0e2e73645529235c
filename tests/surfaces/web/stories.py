"""A square and an attic, told so that there is something of everything that a room's page shows."""

import re
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from ingest.stories import at, author, message, room
from operations.village import ANA, BO, CY, EVE, PIP, SQUARE
from privacy.village import converse, tangle
from roomlore.domain.incoming import IncomingMembership, IncomingMessage
from roomlore.operations import App

GULL = author("gull", bridged=True)
NOTICE = author("", kind="system", name="notice")
#: Dee came later.
DEE = author("dee")
ATTIC = room(
    "attic",
    visibility="members",
    members=(
        *(IncomingMembership(author=one) for one in (ANA, BO)),
        IncomingMembership(author=DEE, joined_at=at(500)),
    ),
)


def in_square(number: int, body: str, **fields: Any) -> IncomingMessage:
    return message(f"s{number}", body, room=SQUARE, sent_at=at(number), **fields)


OPEN = [
    in_square(1, "when does the ferry leave?", author=ANA),
    in_square(2, "at nine", author=BO, reply_to="s1"),
    in_square(3, "see https://ferry.example/times?a=1&b=2, <b>now</b>", author=PIP),
    in_square(4, "Eve joined", author=NOTICE, kind="system"),
    in_square(5, "apples are cheep", author=CY),
    in_square(5, "apples are cheap", author=CY, edited_at=at(60)),
    in_square(6, "a slip of the tongue", author=EVE),
    in_square(7, "from across the water", author=GULL),
    in_square(8, "red ones", author=EVE, reply_to="s5"),
    in_square(9, "and pears", author=EVE),
    in_square(1500, "the next day", author=ANA),
]
HIDDEN = [
    in_square(20, "hush one", author=ANA, kind="whisper", audience=(BO, CY)),
    in_square(21, "hush two", author=BO, kind="whisper", audience=(ANA, CY), reply_to="s20"),
    message("a1", "the salary hush list is lost", author=ANA, room=ATTIC, sent_at=at(30)),
    message("a2", "hush, I have it", author=BO, room=ATTIC, sent_at=at(31), reply_to="a1"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What was told, by our own ids."""

    room: str
    attic: str
    ids: dict[str, str]
    ferry: str
    apples: str
    #: Of the whispers.
    hush: str
    salary: str


async def square(app: App) -> Told:
    """Tell the story, and say what belongs together."""
    accepted = await app.ingest_batch([*OPEN, *HIDDEN])
    assert accepted.skipped == []
    await app.erasure.redact("s6")
    await tangle(app)
    ids = await ids_by_mark(app)
    return Told(
        room=await room_id(app, "square"),
        attic=await room_id(app, "attic"),
        ids=ids,
        ferry=str(await converse(app, "ferry", ["s1", "s2", "s3"])),
        apples=str(await converse(app, "apples", ["s5", "s6", "s7", "s8", "s9"])),
        hush=str(await converse(app, "hush", ["s20", "s21"])),
        salary=str(await converse(app, "salary", ["a1", "a2"])),
    )


async def room_id(app: App, name: str) -> str:
    return next(str(one.id) for one in await app.rooms(app.operator) if one.name == name)


async def ids_by_mark(app: App) -> dict[str, str]:
    """Our ids of everything that was told, by those of the platform."""
    found: dict[str, str] = {}
    for one in await app.rooms(app.operator):
        before = None
        # A listing ends where an answer is full.
        while said := await app.messages(app.operator, str(one.id), limit=1_000, before=before):
            found |= {each.external_id: str(each.id) for each in said}
            before = str(said[0].id)
    return found


async def key_of(app: App, who: str) -> str:
    role = "agent" if who == "pip" else "member"
    return (await app.keys.create(role, name=f"of {who}", participant=who)).key


def timeless(page: str) -> str:
    """Return a page without what is new with each visit: tokens, ids of requests, and where events go on."""
    page = re.sub(r'(name="token" value=")[^"]+', r"\1", page)
    page = re.sub(r"(after=|\"as_of\":\")[0-9a-f-]{36}", r"\1", page)
    return re.sub(r"Request \S+\.", "", page)


def without(page: str, *ids: str) -> str:
    """Return a page without some ids, which stand in links of our own."""
    for one in ids:
        page = page.replace(one, "")
    return page


def ids_in(page: str) -> set[UUID]:
    """Return every id that a page names."""
    return {UUID(one) for one in re.findall(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", page)}
