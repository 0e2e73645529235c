"""Conversations for people: listed and read as far as the viewer may see them, and changed manually.

Changes run for the operator.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from roomlore.db import projections
from roomlore.db.messages import Position
from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import (
    ConversationId,
    IdRanges,
    MessageId,
    OrgId,
    ParticipantId,
    RoomId,
    ids_matching,
)
from roomlore.domain.incoming import MessageKind, ParticipantKind
from roomlore.domain.paging import BoundedPage
from roomlore.domain.records import (
    AssignedMessage,
    Conversation,
    ConversationParticipant,
    LabelSource,
    Message,
    Reply,
    Sensitivity,
    SplitReason,
    field_values,
)

QUERIES = Queries("conversations")


@dataclass(frozen=True, slots=True, kw_only=True)
class SensitivityRights:
    """The facts that decide who may change the sensitivity of a conversation."""

    has_spoken: bool
    is_operators: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRow:
    """A conversation without its participants."""

    id: ConversationId
    room_id: RoomId
    label: str
    is_named: bool
    label_source: LabelSource
    sensitivity: Sensitivity
    split_reason: SplitReason | None
    opened_at: datetime
    last_at: datetime
    closed_at: datetime | None
    idle_timeout: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakerCount:
    """How many messages a participant wrote in a conversation."""

    conversation_id: ConversationId
    id: ParticipantId
    name: str
    kind: ParticipantKind
    message_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageState:
    """The audience of a message and its conversation."""

    id: MessageId
    kind: MessageKind
    is_erased: bool
    #: The audience of a whisper, including its author; None if everybody in the room may read the message.
    recipients: Sequence[ParticipantId] | None
    conversation_id: ConversationId | None


async def newest(
    conn: Connection, org_id: OrgId, room_id: RoomId | None, *, limit: int
) -> list[Conversation]:
    """Return the newest visible conversations of a room or of all rooms, newest first."""
    rows = (
        await _newest(conn, org_id, limit=limit)
        if room_id is None
        else await _newest_of_room(conn, org_id, room_id, limit=limit)
    )
    return await _with_speakers(conn, org_id, rows)


@QUERIES.query
async def _newest(conn: Connection, org_id: OrgId, *, limit: int) -> list[ConversationRow]: ...


@QUERIES.query
async def _newest_of_room(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, limit: int
) -> list[ConversationRow]: ...


async def find(conn: Connection, org_id: OrgId, word: str) -> list[ConversationId]:
    """Return up to ten visible conversations whose ids begin or end with a word."""
    ids = ids_matching(word)
    return await _find(conn, org_id, ids) if ids else []


@QUERIES.query
async def _find(conn: Connection, org_id: OrgId, ids: IdRanges) -> list[ConversationId]: ...


async def by_id(
    conn: Connection, org_id: OrgId, ids: Collection[ConversationId]
) -> dict[ConversationId, Conversation]:
    """Return these conversations as far as they are visible."""
    rows = await _by_id(conn, org_id, ids)
    return {one.id: one for one in await _with_speakers(conn, org_id, rows)}


@QUERIES.query
async def _by_id(
    conn: Connection, org_id: OrgId, conversation_ids: Collection[ConversationId]
) -> list[ConversationRow]: ...


async def _with_speakers(
    conn: Connection, org_id: OrgId, rows: Sequence[ConversationRow]
) -> list[Conversation]:
    found = {row.id: list[ConversationParticipant]() for row in rows}
    for one in await _speakers(conn, org_id, found) if rows else ():
        found[one.conversation_id].append(
            ConversationParticipant(id=one.id, name=one.name, kind=one.kind, message_count=one.message_count)
        )
    return [
        Conversation(
            **field_values(row),
            message_count=sum(one.message_count for one in found[row.id]),
            participants=found[row.id],
        )
        for row in rows
    ]


@QUERIES.query
async def _speakers(
    conn: Connection, org_id: OrgId, conversation_ids: Collection[ConversationId]
) -> list[SpeakerCount]: ...


@QUERIES.query
async def message_ids(
    conn: Connection, org_id: OrgId, conversation_ids: Collection[ConversationId]
) -> set[MessageId]:
    """Return the visible messages of these conversations."""
    ...


@QUERIES.query
async def messages_before(
    conn: Connection, org_id: OrgId, conversation_id: ConversationId, before: Position, *, limit: int
) -> BoundedPage[Message]:
    """Return the messages of a conversation just before a position, newest first, up to the size of one response."""
    ...


@QUERIES.query
async def assignments_of(
    conn: Connection, org_id: OrgId, message_ids: Collection[MessageId]
) -> dict[MessageId, ConversationId]:
    """Return the conversations of messages, as far as these are visible."""
    ...


async def with_assignments(
    conn: Connection,
    org_id: OrgId,
    messages: Sequence[Message],
    assignments: Mapping[MessageId, ConversationId],
) -> list[AssignedMessage]:
    """Return messages with their conversations and parents, as far as these are visible."""
    answers = await _replies(conn, org_id, [one.id for one in messages])
    return [
        AssignedMessage(message=one, answers=answers.get(one.id), conversation_id=assignments.get(one.id))
        for one in messages
    ]


@QUERIES.query
async def _replies(
    conn: Connection, org_id: OrgId, message_ids: Collection[MessageId]
) -> dict[MessageId, Reply]: ...


async def room_assignments(
    conn: Connection, org_id: OrgId, room_id: RoomId, messages: Sequence[Message]
) -> dict[MessageId, ConversationId]:
    """Return the conversations of messages of one room, as far as these are visible."""
    if not messages:
        return {}
    times, ids = [one.sent_at for one in messages], [one.id for one in messages]
    return await _room_assignments(conn, org_id, room_id, ids, since=min(times), until=max(times))


@QUERIES.query
async def _room_assignments(
    conn: Connection,
    org_id: OrgId,
    room_id: RoomId,
    message_ids: Collection[MessageId],
    *,
    since: datetime,
    until: datetime,
) -> dict[MessageId, ConversationId]: ...


# The rest runs for the operator.


@QUERIES.query
async def message_states(
    conn: Connection, org_id: OrgId, message_ids: Collection[MessageId]
) -> dict[MessageId, MessageState]:
    """Return the audiences and conversations of messages."""
    ...


async def open_manually(
    conn: Connection,
    org_id: OrgId,
    conversation_id: ConversationId,
    room_id: RoomId,
    *,
    label: str,
    out_of: Collection[ConversationId],
) -> None:
    """Add a conversation that a person splits off others; an empty label leaves it unnamed."""
    await _open_manually(conn, org_id, conversation_id, room_id, label=label, out_of=out_of)
    await projections.enqueue_nodes(conn, org_id, [conversation_id])


@QUERIES.query
async def _open_manually(
    conn: Connection,
    org_id: OrgId,
    conversation_id: ConversationId,
    room_id: RoomId,
    *,
    label: str,
    out_of: Collection[ConversationId],
) -> None: ...


async def pin(conn: Connection, org_id: OrgId, ids: Sequence[MessageId], *, to: ConversationId) -> None:
    """Assign messages to a conversation manually."""
    await _pin(conn, org_id, ids, to=to)
    await projections.enqueue(conn, org_id, ids)


@QUERIES.query
async def _pin(
    conn: Connection, org_id: OrgId, message_ids: Collection[MessageId], *, to: ConversationId
) -> None: ...


async def pin_all(
    conn: Connection, org_id: OrgId, conversation_ids: Sequence[ConversationId], *, to: ConversationId
) -> None:
    """Assign all messages of conversations to one of them manually."""
    await _pin_all(conn, org_id, conversation_ids, to=to)
    await projections.enqueue_conversations(conn, org_id, [to])


@QUERIES.query
async def _pin_all(
    conn: Connection, org_id: OrgId, conversation_ids: Collection[ConversationId], *, to: ConversationId
) -> None: ...


@QUERIES.query
async def rename(conn: Connection, org_id: OrgId, conversation_id: ConversationId, *, label: str) -> None:
    """Name a conversation; an empty label removes its name."""
    ...


@QUERIES.query
async def set_sensitivity(
    conn: Connection,
    org_id: OrgId,
    conversation_id: ConversationId,
    *,
    sensitivity: Sensitivity,
    by_operator: bool,
) -> None:
    """Set the sensitivity of a conversation. The participants who wrote in it before still see it."""
    ...


@QUERIES.query
async def sensitivity_rights(
    conn: Connection,
    org_id: OrgId,
    conversation_id: ConversationId,
    participant_ids: Collection[ParticipantId],
) -> SensitivityRights | None:
    """Return the facts that decide whether these accounts may change the sensitivity of a conversation."""
    ...


@QUERIES.query
async def close(conn: Connection, org_id: OrgId, conversation_id: ConversationId) -> None:
    """Close a conversation at its last message. A later message opens it again."""
    ...


@QUERIES.query
async def inherit_sensitivity(
    conn: Connection, org_id: OrgId, conversation_id: ConversationId, *, others: Collection[ConversationId]
) -> None:
    """Make a conversation sensitive if it received messages from a conversation that a person marked as sensitive.

    Participants of the marked conversation who also wrote in this conversation can still see it.
    """
    ...


@QUERIES.query
async def inherit_label(
    conn: Connection, org_id: OrgId, conversation_id: ConversationId, *, others: Collection[ConversationId]
) -> None:
    """Give a conversation the name that a person gave to another conversation, if it has absorbed that conversation."""
    ...


@QUERIES.query
async def clear_labels(conn: Connection, org_id: OrgId, conversation_ids: Collection[ConversationId]) -> None:
    """Remove the names that people gave to conversations, except to normal conversations of open rooms.

    A name may reveal messages that are no longer in the conversation. In an open room, everybody may see them.
    """
    ...
