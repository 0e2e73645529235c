"""What a person means by a word: a room, a participant, a message, by name, id or the beginning of an id.

The connection's viewer decides what can be meant: what may not be seen is not there. Each raises NotFound
when nothing is meant, and BadInput, naming the choices, when several are.
"""

from collections.abc import Iterable

from roomlore.domain.errors import BadInput, NotFound
from roomlore.domain.ids import OrgId, ParticipantId, RoomId
from roomlore.domain.records import Message
from roomlore.store import directory, messages
from roomlore.store.queries import Connection

#: The newest message of a room.
LAST = "last"


async def participant(conn: Connection, org_id: OrgId, word: str) -> ParticipantId:
    """Return the participant of that name, account or id."""
    _check("participant", word)
    found = await directory.find_participants(conn, org_id, word)
    exact = [key for key in found if str(key.id) == word.lower()] or found
    _check_one("participant", word, [f"{key.name} {key.id}" for key in exact])
    return exact[0].id


async def room(conn: Connection, org_id: OrgId, word: str) -> RoomId:
    """Return the room of that name, external id or id."""
    _check("room", word)
    found = await directory.find_rooms(conn, org_id, word)
    _check_one("room", word, [f"{key.platform} {key.external_id} {key.id}" for key in found])
    return found[0].id


async def message(conn: Connection, org_id: OrgId, word: str, *, room_id: RoomId | None) -> Message:
    """Return the message of that external id or id, or the last one of a room."""
    _check("message", word)
    if word == LAST and room_id is not None:
        newest = await messages.newest_messages(conn, org_id, room_id, limit=1)
        _check_one("message", word, [str(message.id) for message in newest])
        return newest[0]
    found = await messages.find_messages(conn, org_id, word, room_id=room_id)
    _check_one("message", word, [str(key.id) for key in found])
    return (await messages.messages_by_id(conn, org_id, [found[0].id]))[0]


def _check(what: str, word: str) -> None:
    """Refuse what the database cannot even be asked for: NUL, and halves of surrogate pairs."""
    if "\0" in word or any("\ud800" <= letter <= "\udfff" for letter in word):
        raise NotFound(what, word)


def _check_one(what: str, word: str, choices: Iterable[str]) -> None:
    named = list(choices)
    if not named:
        raise NotFound(what, word)
    if len(named) > 1:
        raise BadInput(f"{what} {word!r}", f"several are meant, name one by id: {', '.join(named)}")
