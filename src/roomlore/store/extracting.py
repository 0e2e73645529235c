"""Drawing from conversations what is stated in them: which are to be gone through, what is said, how far that has come.

All of it runs for the operator.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from roomlore.domain.ids import ConversationId, MemoryId, MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import MessageKind, ParticipantKind
from roomlore.domain.records import Sensitivity
from roomlore.domain.statements import Person, Spoken
from roomlore.store.changes import note
from roomlore.store.queries import Connection, Queries

QUERIES = Queries("extracting")


@dataclass(frozen=True, slots=True, kw_only=True)
class Undrawn:
    """A conversation that is to be gone through, and as what."""

    id: ConversationId
    room_id: RoomId
    sensitivity: Sensitivity
    #: Another one once anything in it has changed; None where nothing is left in it.
    state: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationKey:
    """A conversation's id."""

    id: ConversationId


@dataclass(frozen=True, slots=True, kw_only=True)
class Hushed:
    """A memory that is sensitive now, or no more."""

    id: MemoryId


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A conversation that nobody else changes."""

    id: ConversationId


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """How a conversation is now."""

    id: ConversationId
    state: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """The id of a message of a conversation."""

    id: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Something said in a conversation."""

    conversation_id: ConversationId
    message_id: MessageId
    author_id: ParticipantId
    author_name: str
    author_kind: ParticipantKind
    kind: MessageKind
    body: str
    sent_at: datetime
    #: What it answers, wherever that is.
    answers: MessageId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """Somebody who takes part in a room."""

    room_id: RoomId
    id: ParticipantId
    name: str
    kind: ParticipantKind
    names: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """How far rules have come in a room."""

    room_id: RoomId
    #: Messages of conversations that were gone through.
    done: int
    #: Conversations that are over.
    waiting: int
    #: Conversations that broke whoever went through them.
    set_aside: int
    #: Since when the oldest of those that wait has been over.
    oldest_at: datetime | None


async def undrawn(conn: Connection, org_id: OrgId, *, now: datetime, limit: int) -> list[Undrawn]:
    """Return the newest conversations that are over and that rules are to go through."""
    params = {"org_id": org_id, "now": now, "limit": limit}
    return await QUERIES.all(conn, "undrawn", Undrawn, params)


async def asked_for(conn: Connection, org_id: OrgId, ids: Collection[ConversationId]) -> list[Undrawn]:
    """Return these conversations as they are, over or not, gone through or not."""
    return await QUERIES.all(conn, "asked_for", Undrawn, {"org_id": org_id, "conversation_ids": list(ids)})


async def conversations_in(conn: Connection, org_id: OrgId, room_id: RoomId | None) -> list[ConversationId]:
    """Return the conversations of a room, or of every room, newest first."""
    rows = await QUERIES.all(
        conn, "conversations_in", ConversationKey, {"org_id": org_id, "room_id": room_id}
    )
    return [row.id for row in rows]


async def said(
    conn: Connection, org_id: OrgId, ids: Collection[ConversationId], *, shown: bool = False
) -> dict[ConversationId, list[Spoken]]:
    """Return what was said in these conversations, each in order.

    Args:
        conn: Reads for the operator.
        org_id: Whose.
        ids: Which conversations.
        shown: Leave out what spoken wishes cover: it is to be shown to a language model.
    """
    params = {"org_id": org_id, "conversation_ids": list(ids), "shown": shown}
    rows = await QUERIES.all(conn, "said", Said, params)
    there = {row.message_id: row.conversation_id for row in rows}
    found: dict[ConversationId, list[Spoken]] = {}
    for row in rows:
        answers = row.answers if row.answers and there.get(row.answers) == row.conversation_id else None
        found.setdefault(row.conversation_id, []).append(
            Spoken(
                message_id=row.message_id,
                author_id=row.author_id,
                author_name=row.author_name,
                author_kind=row.author_kind,
                kind=row.kind,
                body=row.body,
                sent_at=row.sent_at,
                answers=answers,
            )
        )
    return found


async def people(conn: Connection, org_id: OrgId, ids: Collection[RoomId]) -> dict[RoomId, list[Person]]:
    """Return who takes part in these rooms, by every name known of them."""
    found: dict[RoomId, list[Person]] = {}
    for row in await QUERIES.all(conn, "people", Present, {"org_id": org_id, "room_ids": list(ids)}):
        names = [name for name in row.names if name != row.name]
        found.setdefault(row.room_id, []).append(Person(id=row.id, name=row.name, names=names, kind=row.kind))
    return found


async def hold(
    conn: Connection, org_id: OrgId, ids: Collection[ConversationId]
) -> dict[ConversationId, str | None]:
    """Keep conversations as they are until the transaction ends, and return how that is; one that is gone is left out."""
    params = {"org_id": org_id, "conversation_ids": list(ids)}
    await QUERIES.all(conn, "hold", Held, params)
    return {row.id: row.state for row in await QUERIES.all(conn, "states", State, params)}


async def members(conn: Connection, org_id: OrgId, ids: Collection[ConversationId]) -> list[MessageId]:
    """Return the messages of conversations, also those in which nothing is left."""
    params = {"org_id": org_id, "conversation_ids": list(ids)}
    return [row.id for row in await QUERIES.all(conn, "members", Member, params)]


async def note_drawn(conn: Connection, org_id: OrgId, states: Mapping[ConversationId, str]) -> None:
    """Note as what rules have gone through conversations."""
    params = {"org_id": org_id, "id": list(states), "state": list(states.values())}
    await QUERIES.run(conn, "note_drawn", params)


async def note_read(conn: Connection, org_id: OrgId, states: Mapping[ConversationId, str]) -> None:
    """Note as what a language model has gone through conversations."""
    params = {"org_id": org_id, "id": list(states), "state": list(states.values())}
    await QUERIES.run(conn, "note_read", params)


async def set_aside(conn: Connection, org_id: OrgId, conversation_id: ConversationId, *, error: str) -> None:
    """Leave a conversation that broke whoever went through it until it changes, or until it is to be tried again."""
    params = {"org_id": org_id, "conversation_id": conversation_id, "error": error}
    await QUERIES.run(conn, "set_aside", params)


async def retry(conn: Connection, org_id: OrgId) -> int:
    """Let conversations be tried again that were set aside; return how many."""
    return await QUERIES.run(conn, "retry", {"org_id": org_id})


async def note_changes(conn: Connection, org_id: OrgId, ids: Collection[ConversationId]) -> None:
    """Let conversations be gone through again that have changed; what rests on them is as sensitive as they are now."""
    params = {"org_id": org_id, "conversation_ids": list(ids)}
    await QUERIES.run(conn, "note_changes", params)
    hushed = await QUERIES.all(conn, "hush", Hushed, params)
    unhushed = await QUERIES.all(conn, "unhush", Hushed, params)
    await note(conn, org_id, "memory.changed", [row.id for row in (*hushed, *unhushed)])


async def draw_anew(conn: Connection, org_id: OrgId, message_ids: Collection[MessageId]) -> None:
    """Let the conversations that messages are in be gone through again, and forget how they were."""
    await QUERIES.run(conn, "draw_anew", {"org_id": org_id, "message_ids": list(message_ids)})


async def draw_anew_resting(conn: Connection, org_id: OrgId, memory_ids: Collection[MemoryId]) -> None:
    """Let the conversations that memories rest on be gone through again, and forget how they were."""
    await QUERIES.run(conn, "draw_anew_resting", {"org_id": org_id, "memory_ids": list(memory_ids)})


async def coverage(conn: Connection, org_id: OrgId, *, now: datetime) -> dict[RoomId, Drawn]:
    """Return how far rules have come in each room."""
    rows = await QUERIES.all(conn, "coverage", Drawn, {"org_id": org_id, "now": now})
    return {row.room_id: row for row in rows}
