"""Calls of a language model that extracts memories: what it was shown and what it answered.

All of it runs for the operator, and only operators read it. If a message is deleted, every call that shows it is
deleted, too.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from roomlore.db.extraction_state import PendingConversation
from roomlore.db.llm_quota import CallStatus, call_status
from roomlore.db.queries import Connection, Queries, RowCount
from roomlore.domain.ids import ConversationId, MessageId, OrgId, RoomId

QUERIES = Queries("llm_calls")


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierAnswer:
    """An earlier answer to the same prompt."""

    id: UUID
    conversation_id: ConversationId
    answer: str
    sent_tokens: int | None
    answer_tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLlmCall:
    """A prompt for a language model about a conversation."""

    id: UUID
    room_id: RoomId
    conversation_id: ConversationId
    language_model: str
    digest: str
    instructions: str
    prompt: str
    asked_at: datetime
    #: The earlier answer to the same prompt, if there is one.
    answer: str | None = None
    answered_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmCall:
    """A call of a language model about a conversation: the prompt, the answer and the results."""

    id: UUID
    room_id: RoomId
    conversation_id: ConversationId
    language_model: str
    instructions: str
    prompt: str
    asked_at: datetime
    #: None until there is an answer.
    answered_at: datetime | None
    answer: str | None
    #: Why there was no answer.
    error: str | None
    #: Whether the answer was copied from an earlier call with the same prompt.
    is_repeated: bool
    #: None if the server does not report it.
    sent_tokens: int | None
    answer_tokens: int | None
    #: For each claim: `stated` as the model stated it, `is_kept`, and `reason` if it was rejected.
    results: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionBacklog(CallStatus):
    """How many conversations wait for a language model, and how many of its calls were made and failed."""

    waiting: int


@QUERIES.query
async def next_conversation(
    conn: Connection,
    org_id: OrgId,
    *,
    now: datetime,
    most_of_room: int,
    passed_over: Collection[ConversationId] = (),
) -> PendingConversation | None:
    """Return the newest conversation that ended and changed since it was read, in a room with calls left today."""
    ...


@QUERIES.query
async def requested(
    conn: Connection, org_id: OrgId, ids: Collection[ConversationId]
) -> list[PendingConversation]:
    """Return the given conversations that a language model may read, finished or not."""
    ...


@QUERIES.query
async def count_room_call(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, now: datetime, most: int
) -> int | None:
    """Count a call for a room. Return the calls of the room today, or None if the room had no call left."""
    ...


@QUERIES.query
async def earlier_answer(
    conn: Connection,
    org_id: OrgId,
    digest: str,
    *,
    conversation_id: ConversationId,
    message_ids: Collection[MessageId],
) -> EarlierAnswer | None:
    """Return an earlier answer to the same prompt, preferably for the same conversation.

    An answer for another conversation is used only if the memories in its prompt all come from `message_ids`.
    """
    ...


async def add(
    conn: Connection, org_id: OrgId, call: NewLlmCall, *, message_ids: Collection[MessageId]
) -> None:
    """Add a call and the messages that it shows."""
    await add_call(conn, org_id, call)
    await add_messages(conn, org_id, call.id, message_ids)


@QUERIES.query
async def add_call(conn: Connection, org_id: OrgId, call: NewLlmCall) -> None:
    """Add a call, with the earlier answer to the same prompt if there is one."""
    ...


@QUERIES.query
async def add_messages(
    conn: Connection, org_id: OrgId, call_id: UUID, message_ids: Collection[MessageId]
) -> None:
    """Record which messages a call shows."""
    ...


@QUERIES.query
async def record_answer(
    conn: Connection,
    org_id: OrgId,
    call_id: UUID,
    *,
    answered_at: datetime | None,
    answer: str | None = None,
    error: str | None = None,
    tokens: tuple[int | None, int | None] = (None, None),
) -> RowCount:
    """Store an answer or an error; return 0 if the call was deleted meanwhile."""
    ...


@QUERIES.query
async def record_results(conn: Connection, org_id: OrgId, results: Collection[tuple[UUID, str]]) -> None:
    """Store the validation results of calls, as JSON."""
    ...


async def drop_outdated(
    conn: Connection, org_id: OrgId, conversation_id: ConversationId, *, kept: Collection[UUID]
) -> None:
    """Delete the calls of a conversation, except the given calls."""
    await _drop(conn, org_id, await outdated_calls(conn, org_id, conversation_id, kept=kept))


async def drop_with_messages(conn: Connection, org_id: OrgId, message_ids: Collection[MessageId]) -> int:
    """Delete the calls that show one of these messages; return how many."""
    return await _drop(conn, org_id, await calls_with_messages(conn, org_id, message_ids))


async def drop_containing(conn: Connection, org_id: OrgId, strings: Iterable[str]) -> int:
    """Delete the calls that contain one of these strings, in any case; return how many."""
    return await _drop(conn, org_id, await calls_containing(conn, org_id, list(strings)))


async def _drop(conn: Connection, org_id: OrgId, ids: Collection[UUID]) -> int:
    if not ids:
        return 0
    await drop_messages(conn, org_id, ids)
    return await drop_calls(conn, org_id, ids)


@QUERIES.query
async def outdated_calls(
    conn: Connection, org_id: OrgId, conversation_id: ConversationId, *, kept: Collection[UUID]
) -> set[UUID]:
    """Return the calls of a conversation, except the given calls."""
    ...


@QUERIES.query
async def calls_with_messages(
    conn: Connection, org_id: OrgId, message_ids: Collection[MessageId]
) -> set[UUID]:
    """Return the calls that show one of these messages."""
    ...


@QUERIES.query
async def calls_containing(conn: Connection, org_id: OrgId, strings: Collection[str]) -> set[UUID]:
    """Return the calls that contain one of these strings, in any case."""
    ...


@QUERIES.query
async def drop_messages(conn: Connection, org_id: OrgId, ids: Collection[UUID]) -> None:
    """Delete the records of which messages these calls show."""
    ...


@QUERIES.query
async def drop_calls(conn: Connection, org_id: OrgId, ids: Collection[UUID]) -> RowCount:
    """Delete calls."""
    ...


@QUERIES.query
async def of_conversation(conn: Connection, org_id: OrgId, conversation_id: ConversationId) -> list[LlmCall]:
    """Return the calls of a conversation, oldest first."""
    ...


@QUERIES.query
async def newest(conn: Connection, org_id: OrgId, *, limit: int) -> list[LlmCall]:
    """Return the newest calls, newest first."""
    ...


async def backlog(conn: Connection, org_id: OrgId, *, now: datetime) -> ExtractionBacklog:
    """Return how many conversations of an org wait for a language model, and the calls and failures of the model."""
    status = await call_status(conn, org_id, "statements", now=now)
    waiting = await waiting_conversations(conn, org_id, now=now)
    return ExtractionBacklog(waiting=waiting, **asdict(status))


@QUERIES.query
async def waiting_conversations(conn: Connection, org_id: OrgId, *, now: datetime) -> int:
    """Return how many conversations wait for a language model."""
    ...
