"""Memory extraction: conversations that are due, their messages and participants, and the progress.

All of it runs for the operator.
"""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime

from roomlore.db.outbox import append
from roomlore.db.queries import Connection, Queries, RowCount
from roomlore.domain.claims import NamedParticipant, SourceText
from roomlore.domain.ids import ConversationId, MemoryId, MessageId, OrgId, RoomId
from roomlore.domain.records import Sensitivity

QUERIES = Queries("extraction_state")


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingConversation:
    """A conversation to extract memories from."""

    id: ConversationId
    room_id: RoomId
    sensitivity: Sensitivity
    #: Changes whenever anything in the conversation changes; None if the conversation is empty.
    state: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationMessage(SourceText):
    """A message of a conversation."""

    conversation_id: ConversationId


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomParticipant(NamedParticipant):
    """A participant of a room."""

    room_id: RoomId


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionProgress:
    """How far extraction has progressed in a room."""

    room_id: RoomId
    #: Messages of conversations from which memories were extracted.
    done: int
    #: Conversations that have ended and wait for extraction.
    waiting: int
    #: Conversations whose extraction failed.
    dead_lettered: int
    #: When the oldest waiting conversation ended.
    oldest_at: datetime | None


@QUERIES.query
async def pending(conn: Connection, org_id: OrgId, *, now: datetime, limit: int) -> list[PendingConversation]:
    """Return the newest conversations that have ended and that have changed since they were last read."""
    ...


@QUERIES.query
async def requested(
    conn: Connection, org_id: OrgId, ids: Collection[ConversationId]
) -> list[PendingConversation]:
    """Return these conversations, even if they have not ended or if memories were extracted from them before."""
    ...


@QUERIES.query
async def conversations_in(conn: Connection, org_id: OrgId, room_id: RoomId | None) -> list[ConversationId]:
    """Return the conversations of a room, or of every room, newest first."""
    ...


async def message_texts(
    conn: Connection, org_id: OrgId, ids: Collection[ConversationId], *, shown: bool = False
) -> dict[ConversationId, list[SourceText]]:
    """Return the messages of conversations in order.

    Args:
        conn: Reads for the operator.
        org_id: The org.
        ids: The conversations.
        shown: Leave out what privacy requests hide, because a language model sees the result.
    """
    rows = await _message_texts(conn, org_id, ids, shown=shown)
    conversation_of = {row.message_id: row.conversation_id for row in rows}
    found = defaultdict[ConversationId, list[SourceText]](list)
    for row in rows:
        is_outside = row.answers and conversation_of.get(row.answers) != row.conversation_id
        found[row.conversation_id].append(replace(row, answers=None) if is_outside else row)
    return dict(found)


@QUERIES.query
async def _message_texts(
    conn: Connection, org_id: OrgId, ids: Collection[ConversationId], *, shown: bool
) -> list[ConversationMessage]: ...


async def room_participants(
    conn: Connection, org_id: OrgId, room_ids: Collection[RoomId]
) -> dict[RoomId, list[NamedParticipant]]:
    """Return the participants of rooms with all their names."""
    found = defaultdict[RoomId, list[NamedParticipant]](list)
    for row in await _room_participants(conn, org_id, room_ids):
        found[row.room_id].append(row)
    return dict(found)


@QUERIES.query
async def _room_participants(
    conn: Connection, org_id: OrgId, room_ids: Collection[RoomId]
) -> list[RoomParticipant]: ...


async def lock(
    conn: Connection, org_id: OrgId, conversation_ids: Collection[ConversationId]
) -> dict[ConversationId, str | None]:
    """Keep conversations from changing until the transaction ends.

    Return the states of the conversations that still exist.
    """
    await _lock(conn, org_id, conversation_ids)
    return await _states(conn, org_id, conversation_ids)


@QUERIES.query
async def _lock(conn: Connection, org_id: OrgId, conversation_ids: Collection[ConversationId]) -> None: ...


@QUERIES.query
async def _states(
    conn: Connection, org_id: OrgId, conversation_ids: Collection[ConversationId]
) -> dict[ConversationId, str | None]: ...


@QUERIES.query
async def message_ids(
    conn: Connection, org_id: OrgId, conversation_ids: Collection[ConversationId]
) -> list[MessageId]:
    """Return the messages of conversations, including tombstones."""
    ...


@QUERIES.query
async def record_extracted(
    conn: Connection, org_id: OrgId, states: Collection[tuple[ConversationId, str]]
) -> None:
    """Record the states in which conversations were read."""
    ...


@QUERIES.query
async def record_read_by_llm(
    conn: Connection, org_id: OrgId, states: Collection[tuple[ConversationId, str]]
) -> None:
    """Record the states in which a language model read conversations."""
    ...


@QUERIES.query
async def dead_letter(
    conn: Connection, org_id: OrgId, conversation_id: ConversationId, *, error: str
) -> None:
    """Set aside a conversation whose extraction failed, until the conversation changes or is retried."""
    ...


@QUERIES.query
async def retry(conn: Connection, org_id: OrgId) -> RowCount:
    """Make conversations due again whose extraction failed."""
    ...


async def mark_changed(conn: Connection, org_id: OrgId, ids: Collection[ConversationId]) -> None:
    """Make changed conversations due again, and give the memories derived from them their current sensitivity."""
    await _mark_changed(conn, org_id, ids)
    await append(conn, org_id, "memory.changed", await _update_sensitivity(conn, org_id, ids))


@QUERIES.query
async def _mark_changed(
    conn: Connection, org_id: OrgId, conversation_ids: Collection[ConversationId]
) -> None: ...


@QUERIES.query
async def _update_sensitivity(
    conn: Connection, org_id: OrgId, conversation_ids: Collection[ConversationId]
) -> list[MemoryId]: ...


@QUERIES.query
async def reextract(conn: Connection, org_id: OrgId, message_ids: Collection[MessageId]) -> None:
    """Make the conversations of messages due again and clear their states."""
    ...


@QUERIES.query
async def reextract_sources(conn: Connection, org_id: OrgId, memory_ids: Collection[MemoryId]) -> None:
    """Make the source conversations of memories due again and clear their states."""
    ...


@QUERIES.query
async def coverage(conn: Connection, org_id: OrgId, *, now: datetime) -> dict[RoomId, ExtractionProgress]:
    """Return how far extraction has progressed in each room."""
    ...
