"""What a language model is shown of conversations to find what is stated in them, and what it says.

All of it runs for the operator, and what is kept of it is for operators. It is gone with any message that it shows.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from roomlore.db.extraction_state import PendingConversation
from roomlore.db.llm_quota import CallStatus, call_status, quota_day
from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import ConversationId, MessageId, OrgId, RoomId

QUERIES = Queries("llm_calls")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCount:
    """How often a room was asked about today."""

    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmCallRef:
    """The id of a reading."""

    id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierAnswer:
    """What was answered to the very same before."""

    id: UUID
    conversation_id: ConversationId
    answer: str
    sent_tokens: int | None
    answer_tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLlmCall:
    """What a language model is to be shown of a conversation."""

    id: UUID
    room_id: RoomId
    conversation_id: ConversationId
    language_model: str
    digest: str
    instructions: str
    material: str
    asked_at: datetime
    #: Where it was asked before: what was answered then.
    answer: str | None = None
    answered_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmCall:
    """What a language model was shown of a conversation, what it said, and what became of it."""

    id: UUID
    room_id: RoomId
    conversation_id: ConversationId
    language_model: str
    instructions: str
    material: str
    asked_at: datetime
    #: None while nothing came back.
    answered_at: datetime | None
    answer: str | None
    #: Why nothing came back.
    error: str | None
    #: Whether it had been asked before, so that the earlier answer was taken.
    is_repeated: bool
    #: Where the server says.
    sent_tokens: int | None
    answer_tokens: int | None
    #: Of each statement `stated`, as it came, `is_kept`, and the `reason` where it was refused.
    verdicts: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingCount:
    """How many conversations wait."""

    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionBacklog(CallStatus):
    """How many conversations wait to be shown to a language model, and how it answered."""

    waiting: int


async def next_conversation(
    conn: Connection,
    org_id: OrgId,
    *,
    now: datetime,
    most_of_room: int,
    passed_over: Collection[ConversationId] = (),
) -> PendingConversation | None:
    """Return the newest conversation to be shown, none of those passed over; None where there is none.

    Args:
        conn: Reads for the operator.
        org_id: Whose.
        now: Tells which are over, and the day.
        most_of_room: How many calls a room has each day.
        passed_over: Conversations that others come before.
    """
    params = {
        "org_id": org_id,
        "now": now,
        "day": quota_day(now),
        "most": most_of_room,
        "passed_over": list(passed_over),
    }
    return await QUERIES.first(conn, "unread", PendingConversation, params)


async def requested(
    conn: Connection, org_id: OrgId, ids: Collection[ConversationId]
) -> list[PendingConversation]:
    """Return those of these conversations that may be shown, over or not."""
    params = {"org_id": org_id, "conversation_ids": list(ids)}
    return await QUERIES.all(conn, "asked_for", PendingConversation, params)


async def count_room_call(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, now: datetime, most: int
) -> bool:
    """Count a call of a room and return whether its day had one left."""
    params = {"org_id": org_id, "room_id": room_id, "day": quota_day(now), "most": most}
    return most > 0 and await QUERIES.first(conn, "count_of_room", CallCount, params) is not None


async def earlier_answer(
    conn: Connection,
    org_id: OrgId,
    digest: str,
    *,
    conversation_id: ConversationId,
    message_ids: Collection[MessageId],
) -> EarlierAnswer | None:
    """Return what was answered to the very same before, of the same conversation if it was of that.

    Of another only if that was shown with nothing remembered but what rests on these messages: an answer may hold the
    words of all that was shown, and goes with every message that they are from.

    Args:
        conn: Reads for the operator.
        org_id: Whose.
        digest: Of what was said.
        conversation_id: Of this one first.
        message_ids: Whatever is to be shown now.
    """
    params = {"org_id": org_id, "digest": digest, "conversation_id": conversation_id}
    params |= {"message_ids": list(message_ids)}
    return await QUERIES.first(conn, "earlier", EarlierAnswer, params)


async def add(
    conn: Connection, org_id: OrgId, reading: NewLlmCall, *, message_ids: Collection[MessageId]
) -> None:
    """Keep what a language model is to be shown, and which messages that are."""
    params = {"org_id": org_id, **asdict(reading)}
    await QUERIES.run(conn, "add", params)
    params = {"org_id": org_id, "id": reading.id, "message_ids": list(message_ids)}
    await QUERIES.run(conn, "add_messages", params)


async def record_answer(
    conn: Connection,
    org_id: OrgId,
    reading_id: UUID,
    *,
    answered_at: datetime | None,
    answer: str | None = None,
    error: str | None = None,
    tokens: tuple[int | None, int | None] = (None, None),
) -> bool:
    """Keep what came back and return whether what was shown is still there."""
    params = {"org_id": org_id, "id": reading_id, "answered_at": answered_at, "answer": answer}
    params |= {"error": error, "sent_tokens": tokens[0], "answer_tokens": tokens[1]}
    return await QUERIES.run(conn, "note_answer", params) > 0


async def record_results(conn: Connection, org_id: OrgId, verdicts: Mapping[UUID, str]) -> None:
    """Keep what became of what was stated, as JSON, for each reading."""
    params = {"org_id": org_id, "id": list(verdicts), "verdicts": list(verdicts.values())}
    await QUERIES.run(conn, "note_verdicts", params)


async def drop_outdated(
    conn: Connection, org_id: OrgId, conversation_id: ConversationId, *, kept: Collection[UUID]
) -> None:
    """Remove the readings of a conversation but some."""
    params = {"org_id": org_id, "conversation_id": conversation_id, "kept_ids": list(kept)}
    await _drop(conn, org_id, await QUERIES.all(conn, "outdated", LlmCallRef, params))


async def drop_with_messages(conn: Connection, org_id: OrgId, message_ids: Collection[MessageId]) -> int:
    """Remove the readings that show one of these messages; return how many."""
    params = {"org_id": org_id, "message_ids": list(message_ids)}
    return await _drop(conn, org_id, await QUERIES.all(conn, "showing", LlmCallRef, params))


async def drop_containing(conn: Connection, org_id: OrgId, strings: Iterable[str]) -> int:
    """Remove the readings in which one of these strings occurs; return how many."""
    params = {"org_id": org_id, "strings": list(strings)}
    return await _drop(conn, org_id, await QUERIES.all(conn, "saying", LlmCallRef, params))


async def _drop(conn: Connection, org_id: OrgId, found: Sequence[LlmCallRef]) -> int:
    if not found:
        return 0
    params = {"org_id": org_id, "ids": [one.id for one in found]}
    await QUERIES.run(conn, "drop_messages", params)
    return await QUERIES.run(conn, "drop", params)


async def of_conversation(conn: Connection, org_id: OrgId, conversation_id: ConversationId) -> list[LlmCall]:
    """Return the readings of a conversation, in order."""
    params = {"org_id": org_id, "conversation_id": conversation_id}
    return await QUERIES.all(conn, "of_conversation", LlmCall, params)


async def newest(conn: Connection, org_id: OrgId, *, limit: int) -> list[LlmCall]:
    """Return the newest readings, newest first."""
    return await QUERIES.all(conn, "newest", LlmCall, {"org_id": org_id, "limit": limit})


async def backlog(conn: Connection, org_id: OrgId, *, now: datetime) -> ExtractionBacklog:
    """Return how many conversations of an org wait to be shown to a language model, and how it answered."""
    row = await QUERIES.first(conn, "waiting", WaitingCount, {"org_id": org_id, "now": now})
    assert row is not None
    return ExtractionBacklog(
        waiting=row.waiting, **asdict(await call_status(conn, org_id, "statements", now=now))
    )
