"""What a person means by a word: a room, a participant, a message, a conversation, by name or beginning of an id.

The connection's viewer decides what can be meant: what may not be seen is not there. Each raises NotFound
when nothing is meant, and BadInput, naming the choices, when several are: each by its id, and in brackets, which no name
holds any more, by what people call it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from roomlore.db import conversations, directory, messages
from roomlore.db.database import without_restrictions
from roomlore.db.directory import ParticipantKey, RoomKey
from roomlore.db.positions import AFTER_ALL, UNKNOWN, Position
from roomlore.db.queries import Connection
from roomlore.domain.errors import BadInput, NotFound
from roomlore.domain.ids import ConversationId, OrgId, ParticipantId, RoomId
from roomlore.domain.records import Message, Viewer
from roomlore.domain.rendering import safe_name
from roomlore.domain.words import LAST
from roomlore.search.query_parser import without_article

#: A place in a room: as a word for the message there, or by itself; None is after all.
PositionLike = str | Position | None
#: Whoever asks, by whatever account.
SELF = "me"
#: So begins a word that means the conversation of a message.
MESSAGE_PREFIX = "message:"


async def participant(conn: Connection, org_id: OrgId, word: str) -> ParticipantId:
    """Return the participant of that name, account or id; of one person's accounts the first."""
    _check_word("participant", word)
    found = await directory.find_participants(conn, org_id, word)
    exact = [key for key in found if str(key.id) == word.lower()] or found
    persons = {key.person_id or key.id: key for key in reversed(exact)}
    _check_unique("participant", word, [f"{key.id} [{safe_name(key.name)}]" for key in persons.values()])
    return exact[0].id


async def single_account(conn: Connection, org_id: OrgId, word: str) -> ParticipantId:
    """Return the participant of that name, account or id, told apart from others of the same person."""
    _check_word("participant", word)
    found = await directory.find_participants(conn, org_id, word)
    exact = [key for key in found if str(key.id) == word.lower()] or found
    _check_unique("participant", word, [f"{key.id} [{safe_name(key.name)}]" for key in exact])
    return exact[0].id


async def accounts_of_person(conn: Connection, viewer: Viewer, word: str) -> list[ParticipantKey]:
    """Return every account of the person of that name, account or id, as far as the viewer may know them.

    Raises:
        NotFound: nobody is meant, or nobody the viewer may know of.
        BadInput: several are meant, or the operator means `me`.
    """
    if word.lower() != SELF:
        return await directory.accounts(conn, viewer.org_id, await participant(conn, viewer.org_id, word))
    if viewer.participant_id is None:
        raise BadInput(f"participant {word!r}", "the operator is none; name somebody, or read as somebody")
    return await directory.accounts(conn, viewer.org_id, viewer.participant_id)


async def accounts_named(conn: Connection, org_id: OrgId, names: Sequence[str]) -> list[ParticipantKey]:
    """Return every account of whoever is called so, by a whole name or the first word of one.

    Of several of one name all are meant. Nobody is where one of the names is nobody's that the viewer may know.
    """
    known = await directory.accounts(conn, org_id, None)
    found: list[ParticipantKey] = []
    for name in names:
        wanted = {name.casefold(), without_article(name).casefold()}
        same = [key for key in known if wanted & {key.name.casefold(), _first_word(key.name)}]
        if not same:
            return []
        persons = {key.person_id for key in same if key.person_id is not None}
        found += [key for key in known if key in same or key.person_id in persons]
    return list(dict.fromkeys(found))


async def conversation(conn: Connection, org_id: OrgId, word: str) -> ConversationId:
    """Return the conversation of that id or beginning of an id, or the one that a message is in."""
    _check_word("conversation", word)
    if word.startswith(MESSAGE_PREFIX):
        said = await message(conn, org_id, word.removeprefix(MESSAGE_PREFIX), room_id=None)
        found = list((await conversations.assignments_of(conn, org_id, [said.id])).values())
    else:
        found = await conversations.find(conn, org_id, word)
    _check_unique("conversation", word, map(str, found))
    return found[0]


async def room(conn: Connection, org_id: OrgId, word: str) -> RoomId:
    """Return the room of that name, external id or id; `workspace/name` tells rooms of one name apart."""
    _check_word("room", word)
    found = await directory.find_rooms(conn, org_id, word)
    _check_unique("room", word, [f"{key.id} [{safe_name(_place(key))}]" for key in found])
    return found[0].id


def _place(key: RoomKey) -> str:
    """Return what tells a room from another of its name."""
    named = f"{key.workspace}/{key.name} " if key.workspace else ""
    return f"{named}{key.platform} {key.external_id}"


async def message(conn: Connection, org_id: OrgId, word: str, *, room_id: RoomId | None) -> Message:
    """Return the message of that external id or id, or the last one of a room."""
    _check_word("message", word)
    if word == LAST and room_id is not None:
        newest = (await messages.messages_before(conn, org_id, room_id, AFTER_ALL, limit=1)).items
        _check_unique("message", word, [str(message.id) for message in newest])
        return newest[0]
    found = await messages.find_messages(conn, org_id, word, room_id=room_id)
    _check_unique("message", word, [str(message.id) for message in found])
    return found[0]


async def position(conn: Connection, org_id: OrgId, word: PositionLike, *, room_id: RoomId) -> Position:
    """Return the place in a room of the message that is meant; a place by itself needs no message there any more.

    Where it is gone, those of its very time come again.
    """
    if word is None:
        return AFTER_ALL
    if not isinstance(word, str):
        _, order, message_id = word
        found = [] if order != UNKNOWN else await messages.messages_by_id(conn, org_id, [message_id], most=0)
        return next((said.position for said in found if said.room_id == room_id), word)
    return (await message(conn, org_id, word, room_id=room_id)).position


async def trigger_message(conn: Connection, org_id: OrgId, word: str, *, room_id: RoomId) -> Message:
    """Return the message of a room that is to be answered, for a connection that recalls.

    The room's last is the last that no wish keeps from the viewer. One that is named and kept from them has no words.
    """
    try:
        return await message(conn, org_id, word, room_id=room_id)
    except NotFound:
        if word == LAST:
            raise
    async with without_restrictions(conn):
        found = await message(conn, org_id, word, room_id=room_id)
    return replace(found, body="")


def _first_word(name: str) -> str:
    return name.casefold().split()[0] if name.strip() else ""


def _check_word(what: str, word: str) -> None:
    """Refuse what the database cannot even be asked for: NUL, and halves of surrogate pairs."""
    if "\0" in word or any("\ud800" <= letter <= "\udfff" for letter in word):
        raise NotFound(what, word)


def _check_unique(what: str, word: str, choices: Iterable[str]) -> None:
    # By their names, which stand behind their ids.
    named = sorted(choices, key=lambda choice: choice.partition(" ")[2])
    if not named:
        raise NotFound(what, word)
    if len(named) > 1:
        raise BadInput(f"{what} {word!r}", f"several are meant, name one by id: {', '.join(named)}")
