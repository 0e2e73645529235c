"""Drawing from conversations what is stated in them: which are to be gone through, what is said, how far that has come.

All of it runs for the operator.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from roomlore.db.outbox import append
from roomlore.db.queries import Connection, Queries
from roomlore.domain.claims import NamedParticipant, SourceText
from roomlore.domain.ids import ConversationId, MemoryId, MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import MessageKind, ParticipantKind
from roomlore.domain.records import Sensitivity

QUERIES = Queries("extraction_state")


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingConversation:
    """A conversation that is to be gone through, and as what."""

    id: ConversationId
    room_id: RoomId
    sensitivity: Sensitivity
    #: Another one once anything in it has changed; None where nothing is left in it.
    state: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRef:
    """A conversation's id."""

    id: ConversationId


@dataclass(frozen=True, slots=True, kw_only=True)
class SensitivityChange:
    """A memory that is sensitive now, or no more."""

    id: MemoryId


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedConversation:
    """A conversation that nobody else changes."""

    id: ConversationId


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationState:
    """How a conversation is now."""

    id: ConversationId
    state: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRef:
    """The id of a message of a conversation."""

    id: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageText:
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
class RoomParticipant:
    """Somebody who takes part in a room."""

    room_id: RoomId
    id: ParticipantId
    name: str
    kind: ParticipantKind
    names: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionProgress:
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


async def pending(conn: Connection, org_id: OrgId, *, now: datetime, limit: int) -> list[PendingConversation]:
    """Return the newest conversations that are over and that rules are to go through."""
    params = {"org_id": org_id, "now": now, "limit": limit}
    return await QUERIES.all(conn, "undrawn", PendingConversation, params)


async def requested(
    conn: Connection, org_id: OrgId, ids: Collection[ConversationId]
) -> list[PendingConversation]:
    """Return these conversations as they are, over or not, gone through or not."""
    return await QUERIES.all(
        conn, "asked_for", PendingConversation, {"org_id": org_id, "conversation_ids": list(ids)}
    )


async def conversations_in(conn: Connection, org_id: OrgId, room_id: RoomId | None) -> list[ConversationId]:
    """Return the conversations of a room, or of every room, newest first."""
    rows = await QUERIES.all(
        conn, "conversations_in", ConversationRef, {"org_id": org_id, "room_id": room_id}
    )
    return [row.id for row in rows]


async def message_texts(
    conn: Connection, org_id: OrgId, ids: Collection[ConversationId], *, shown: bool = False
) -> dict[ConversationId, list[SourceText]]:
    """Return what was said in these conversations, each in order.

    Args:
        conn: Reads for the operator.
        org_id: Whose.
        ids: Which conversations.
        shown: Leave out what spoken wishes cover: it is to be shown to a language model.
    """
    params = {"org_id": org_id, "conversation_ids": list(ids), "shown": shown}
    rows = await QUERIES.all(conn, "said", MessageText, params)
    there = {row.message_id: row.conversation_id for row in rows}
    found: dict[ConversationId, list[SourceText]] = {}
    for row in rows:
        answers = row.answers if row.answers and there.get(row.answers) == row.conversation_id else None
        found.setdefault(row.conversation_id, []).append(
            SourceText(
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


async def room_participants(
    conn: Connection, org_id: OrgId, ids: Collection[RoomId]
) -> dict[RoomId, list[NamedParticipant]]:
    """Return who takes part in these rooms, by every name known of them."""
    found: dict[RoomId, list[NamedParticipant]] = {}
    for row in await QUERIES.all(conn, "people", RoomParticipant, {"org_id": org_id, "room_ids": list(ids)}):
        names = [name for name in row.names if name != row.name]
        found.setdefault(row.room_id, []).append(
            NamedParticipant(id=row.id, name=row.name, names=names, kind=row.kind)
        )
    return found


async def lock(
    conn: Connection, org_id: OrgId, ids: Collection[ConversationId]
) -> dict[ConversationId, str | None]:
    """Keep conversations as they are until the transaction ends, and return how that is; one that is gone is left out."""
    params = {"org_id": org_id, "conversation_ids": list(ids)}
    await QUERIES.all(conn, "hold", LockedConversation, params)
    return {row.id: row.state for row in await QUERIES.all(conn, "states", ConversationState, params)}


async def message_ids(conn: Connection, org_id: OrgId, ids: Collection[ConversationId]) -> list[MessageId]:
    """Return the messages of conversations, also those in which nothing is left."""
    params = {"org_id": org_id, "conversation_ids": list(ids)}
    return [row.id for row in await QUERIES.all(conn, "members", MessageRef, params)]


async def record_extracted(conn: Connection, org_id: OrgId, states: Mapping[ConversationId, str]) -> None:
    """Note as what rules have gone through conversations."""
    params = {"org_id": org_id, "id": list(states), "state": list(states.values())}
    await QUERIES.run(conn, "note_drawn", params)


async def record_read_by_llm(conn: Connection, org_id: OrgId, states: Mapping[ConversationId, str]) -> None:
    """Note as what a language model has gone through conversations."""
    params = {"org_id": org_id, "id": list(states), "state": list(states.values())}
    await QUERIES.run(conn, "note_read", params)


async def dead_letter(
    conn: Connection, org_id: OrgId, conversation_id: ConversationId, *, error: str
) -> None:
    """Leave a conversation that broke whoever went through it until it changes, or until it is to be tried again."""
    params = {"org_id": org_id, "conversation_id": conversation_id, "error": error}
    await QUERIES.run(conn, "set_aside", params)


async def retry(conn: Connection, org_id: OrgId) -> int:
    """Let conversations be tried again that were set aside; return how many."""
    return await QUERIES.run(conn, "retry", {"org_id": org_id})


async def mark_changed(conn: Connection, org_id: OrgId, ids: Collection[ConversationId]) -> None:
    """Let conversations be gone through again that have changed; what rests on them is as sensitive as they are now."""
    params = {"org_id": org_id, "conversation_ids": list(ids)}
    await QUERIES.run(conn, "note_changes", params)
    hushed = await QUERIES.all(conn, "hush", SensitivityChange, params)
    unhushed = await QUERIES.all(conn, "unhush", SensitivityChange, params)
    await append(conn, org_id, "memory.changed", [row.id for row in (*hushed, *unhushed)])


async def reextract(conn: Connection, org_id: OrgId, message_ids: Collection[MessageId]) -> None:
    """Let the conversations that messages are in be gone through again, and forget how they were."""
    await QUERIES.run(conn, "draw_anew", {"org_id": org_id, "message_ids": list(message_ids)})


async def reextract_sources(conn: Connection, org_id: OrgId, memory_ids: Collection[MemoryId]) -> None:
    """Let the conversations that memories rest on be gone through again, and forget how they were."""
    await QUERIES.run(conn, "draw_anew_resting", {"org_id": org_id, "memory_ids": list(memory_ids)})


async def coverage(conn: Connection, org_id: OrgId, *, now: datetime) -> dict[RoomId, ExtractionProgress]:
    """Return how far rules have come in each room."""
    rows = await QUERIES.all(conn, "coverage", ExtractionProgress, {"org_id": org_id, "now": now})
    return {row.room_id: row for row in rows}
