"""A small village for tests of who may read what, by what account and with what key."""

from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from ingest.stories import at, author, message
from roomlore.domain.errors import RoomloreError
from roomlore.domain.incoming import IncomingAuthor, IncomingMessage, IncomingRoom
from roomlore.domain.records import Viewer
from roomlore.operations import App
from search.telling import closed

#: In every body, so that a search for it asks for everything.
EVERYWHERE = "village"
ANA, ANA_HOME, BO, CY, DEE, EVE = map(author, ("ana", "ana_home", "bo", "cy", "dee", "eve"))
PIP = author("pip", kind="agent")
SQUARE = IncomingRoom(external_id="square", name="square")
#: Ana and Bo; her other account and Cy; Dee hears both.
ATTIC = closed("attic", ANA, BO, DEE)
CELLAR = closed("cellar", ANA_HOME, CY, DEE)


def say(number: int, who: IncomingAuthor, where: IncomingRoom, **fields: Any) -> IncomingMessage:
    """Return a message of the village, said in the minute of its number."""
    body = fields.pop("body", f"{EVERYWHERE} word{number}")
    return message(f"m{number}", body, author=who, room=where, sent_at=at(number), **fields)


STORY = [
    say(1, BO, SQUARE),
    say(2, EVE, SQUARE),
    say(3, PIP, SQUARE),
    say(4, ANA, ATTIC),
    say(5, BO, ATTIC),
    say(6, ANA_HOME, CELLAR),
    say(7, CY, CELLAR),
    say(8, BO, ATTIC, kind="whisper", audience=(ANA,)),
    say(9, CY, CELLAR, kind="whisper", audience=(ANA_HOME,)),
    say(10, ANA, SQUARE, kind="whisper", audience=(BO,)),
    say(11, DEE, ATTIC),
    say(12, DEE, CELLAR),
]
PEOPLE = ("ana", "ana_home", "bo", "cy", "dee", "eve", "pip")


async def village(app: App) -> App:
    """Tell the story to an org."""
    accepted = await app.ingest_batch(STORY)
    assert accepted.skipped == []
    return app


async def whole_village(app: App) -> None:
    """Tell the story to an org, for fixtures that tell it once."""
    await village(app)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Everything that the public reads show a viewer."""

    rooms: object
    messages: object
    found: object
    participants: object
    accounts: object


async def seen(app: App, viewer: Viewer) -> Seen:
    """Return everything that a viewer is shown."""
    rooms = await app.rooms(viewer)
    return Seen(
        rooms=rooms,
        messages=[await app.messages(viewer, str(room.id), limit=100) for room in rooms],
        found=[hit.messages for hit in (await app.search(viewer, EVERYWHERE, limit=50)).hits],
        participants=await app.participants(viewer),
        accounts=await app.people.accounts(viewer),
    )


async def read_by(app: App, viewer: Viewer) -> set[str]:
    """Return the external ids of all messages that a viewer reads: in rooms, and by searching."""
    read = {
        said.external_id
        for room in await app.rooms(viewer)
        for said in await app.messages(viewer, str(room.id), limit=100)
    }
    found = (await app.search(viewer, EVERYWHERE, limit=50)).hits
    return read | {said.external_id for hit in found for said in hit.messages}


async def log_lines(admin: psycopg.AsyncConnection, app: App) -> list[tuple[Any, ...]]:
    """Return the lines of an org's log in order: action, outcome, viewer, key, subjects."""
    query = (
        "select action, outcome, viewer_id, key_id, subject_ids from audit_log where org_id = %s order by id"
    )
    return await (await admin.execute(query, [app.org_id])).fetchall()


async def error_of(call: Any) -> tuple[type, str]:
    """Return kind and text of the error that a call ends in."""
    with pytest.raises(RoomloreError) as raised:
        await call
    return type(raised.value), str(raised.value)
