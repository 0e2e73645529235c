"""Resolves a name, or the beginning of an id, to a room, participant, message or conversation.

Only what the connection's viewer may see can be found. Each function raises NotFound if there is no match, and BadInput
if there are several matches. The error then lists the id of each match with its name in brackets; names cannot contain
brackets.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar
from uuid import UUID

from roomlore.db import conversations, directory, messages
from roomlore.db.database import without_restrictions
from roomlore.db.directory import ParticipantKey, RoomKey
from roomlore.db.messages import AFTER_ALL, UNKNOWN, Position
from roomlore.db.queries import Connection
from roomlore.domain.errors import BadInput, NotFound
from roomlore.domain.ids import ConversationId, OrgId, ParticipantId, RoomId
from roomlore.domain.records import Message, Viewer
from roomlore.domain.rendering import safe_name
from roomlore.domain.words import LAST
from roomlore.search.query_parser import without_article


class HasId(Protocol):
    """Anything with an id."""

    @property
    def id(self) -> UUID:
        """The id."""
        ...


Identified = TypeVar("Identified", bound=HasId)

#: A word for a message, or a position in a room. None means the end of the room.
PositionLike = str | Position | None
#: The word for the viewer. It means all of the viewer's accounts.
SELF = "me"
#: A word that begins with this means the conversation of a message.
MESSAGE_PREFIX = "message:"


async def participant(conn: Connection, org_id: OrgId, word: str) -> ParticipantId:
    """Return the participant with this name, account or id.

    If the person has several accounts, return the first of them.
    """
    exact = await _find_accounts(conn, org_id, word)
    persons = {key.person_id or key.id: key for key in reversed(exact)}
    _check_unique("participant", word, [f"{key.id} [{safe_name(key.name)}]" for key in persons.values()])
    return exact[0].id


async def single_account(conn: Connection, org_id: OrgId, word: str) -> ParticipantId:
    """Return the only account with this name, account or id, even if its person has further accounts."""
    exact = await _find_accounts(conn, org_id, word)
    _check_unique("participant", word, [f"{key.id} [{safe_name(key.name)}]" for key in exact])
    return exact[0].id


async def _find_accounts(conn: Connection, org_id: OrgId, word: str) -> list[ParticipantKey]:
    _check_word("participant", word)
    found = await directory.find_participants(conn, org_id, word)
    return [key for key in found if str(key.id) == word.lower()] or found


async def accounts(conn: Connection, org_id: OrgId, word: str) -> list[ParticipantKey]:
    """Return all accounts of the person with this name, account or id, as far as the viewer may see the accounts."""
    return await directory.accounts(conn, org_id, await participant(conn, org_id, word))


async def accounts_of_person(conn: Connection, viewer: Viewer, word: str) -> list[ParticipantKey]:
    """Return the visible accounts of the person with this name, account or id.

    `me` stands for the viewer, unless the viewer is an operator.
    """
    if word.lower() != SELF:
        return await accounts(conn, viewer.org_id, word)
    if viewer.participant_id is None:
        raise BadInput(f"participant {word!r}", "the operator is no participant; name one, or read as one")
    return await directory.accounts(conn, viewer.org_id, viewer.participant_id)


async def accounts_named(conn: Connection, org_id: OrgId, names: Sequence[str]) -> list[ParticipantKey]:
    """Return all visible accounts whose whole name, or the first word of whose name, is one of these names.

    The result is empty if one name is unknown.
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
    """Return the conversation whose id is the word or begins with the word, or the conversation of a message."""
    _check_word("conversation", word)
    if word.startswith(MESSAGE_PREFIX):
        member = await message(conn, org_id, word.removeprefix(MESSAGE_PREFIX), room_id=None)
        found = list((await conversations.assignments_of(conn, org_id, [member.id])).values())
    else:
        found = await conversations.find(conn, org_id, word)
    _check_unique("conversation", word, map(str, found))
    return found[0]


async def room(conn: Connection, org_id: OrgId, word: str) -> RoomId:
    """Return the room with this name, external id or id. `workspace/name` distinguishes rooms of the same name."""
    _check_word("room", word)
    found = await directory.find_rooms(conn, org_id, word)
    _check_unique("room", word, [f"{key.id} [{safe_name(_place(key))}]" for key in found])
    return found[0].id


def _place(key: RoomKey) -> str:
    """Return what distinguishes a room from other rooms of the same name."""
    named = f"{key.workspace}/{key.name} " if key.workspace else ""
    return f"{named}{key.platform} {key.external_id}"


async def message(conn: Connection, org_id: OrgId, word: str, *, room_id: RoomId | None) -> Message:
    """Return the message with this id or external id, or the last message of a room."""
    _check_word("message", word)
    if word == LAST and room_id is not None:
        newest = (await messages.messages_before(conn, org_id, room_id, AFTER_ALL, limit=1)).items
        _check_unique("message", word, [str(message.id) for message in newest])
        return newest[0]
    found = await messages.find_messages(conn, org_id, word, room_id=room_id)
    _check_unique("message", word, [str(message.id) for message in found])
    return found[0]


async def position(conn: Connection, org_id: OrgId, word: PositionLike, *, room_id: RoomId) -> Position:
    """Return the position of a message in a room.

    If the message no longer exists, a page that starts at this position repeats messages of the same time.
    """
    if word is None:
        return AFTER_ALL
    if not isinstance(word, str):
        _, order, message_id = word
        found = [] if order != UNKNOWN else await messages.messages_by_id(conn, org_id, [message_id], most=0)
        return next((known.position for known in found if known.room_id == room_id), word)
    return (await message(conn, org_id, word, room_id=room_id)).position


async def trigger_message(conn: Connection, org_id: OrgId, word: str, *, room_id: RoomId) -> Message:
    """Return the message to answer, for a connection that applies recall restrictions.

    The word for the last message of a room stands for its last unrestricted message. A restricted message can be named
    only by its id, and is returned without its text.
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
    """Raise NotFound if a word has characters that the database does not accept: NUL or lone surrogates."""
    if "\0" in word or any("\ud800" <= letter <= "\udfff" for letter in word):
        raise NotFound(what, word)


def single(what: str, word: str, found: Sequence[Identified]) -> Identified:
    """Return the only match of a lookup. Raise NotFound if there is no match, BadInput if there are several matches."""
    _check_unique(what, word, [str(item.id) for item in found])
    return found[0]


def _check_unique(what: str, word: str, choices: Iterable[str]) -> None:
    # The choices are sorted by their names. In each choice, the name follows the id.
    named = sorted(choices, key=lambda choice: choice.partition(" ")[2])
    if not named:
        raise NotFound(what, word)
    if len(named) > 1:
        raise BadInput(f"{what} {word!r}", f"several are meant, name one by id: {', '.join(named)}")
