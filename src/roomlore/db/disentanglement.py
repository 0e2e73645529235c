"""Disentanglement: dirty ranges of rooms, the messages read for it, and the replies and conversations it finds."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from roomlore.db import agents, extraction_state, outbox, projections, work_queue
from roomlore.db.queries import Connection, Queries, RowCount
from roomlore.domain.ids import ConversationId, MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.records import Reply, ReplyMethod, Sensitivity, SplitReason

QUERIES = Queries("disentanglement")


@dataclass(frozen=True, slots=True, kw_only=True)
class DirtyRange:
    """A time range of a room in which something changed, including both ends."""

    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedRange(DirtyRange):
    """A range leased by one worker; a later lease by another worker replaces it."""

    lease_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeState:
    """The last lease of a room, and the time of the earliest change since then; None if there was none."""

    changed_since: datetime | None
    lease_id: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomMessage:
    """A message as disentanglement reads it, with the earlier results."""

    id: MessageId
    kind: Literal["message", "whisper"]
    author_id: ParticipantId
    author_name: str
    body: str
    sent_at: datetime
    sequence: int
    #: The audience of a whisper, including its author; None if everybody in the room may read the message.
    recipients: Sequence[ParticipantId] | None
    #: The message that this one replies to, according to the platform.
    stated_parent: MessageId | None
    stated_method: ReplyMethod | None
    found_parent: MessageId | None
    found_method: ReplyMethod | None
    found_confidence: float | None
    found_answer_probability: float | None
    conversation_id: ConversationId | None
    is_manual: bool
    idle_timeout: timedelta | None
    #: The parent that the reply model chose, as the number of open messages back.
    linked_offset: int | None
    mentioned: Sequence[ParticipantId]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationAssignment:
    """The conversation of a message."""

    message_id: MessageId
    conversation_id: ConversationId
    #: The silence that ends the conversation if this is its last message.
    idle_timeout: timedelta | None
    #: The parent that the reply model chose, as the number of open messages back.
    linked_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewConversation:
    """A conversation that a message opens."""

    id: ConversationId
    room_id: RoomId
    split_reason: SplitReason
    opened_at: datetime
    idle_timeout: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationText:
    """The first messages of a conversation, in order."""

    id: ConversationId
    bodies: Sequence[str]
    #: The texts that a label may use, because no privacy request covers them; None if there are none.
    told: Sequence[str] | None
    #: The names of their authors, each once.
    names: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The label and sensitivity of a conversation."""

    id: ConversationId
    label: str
    sensitivity: Sensitivity
    #: Whether it has more messages than were read: then a sensitive conversation stays sensitive.
    goes_on: bool


@QUERIES.query
async def mark_dirty(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, since: datetime, until: datetime
) -> None:
    """Mark a range of a room as dirty.

    Until the transaction ends, no worker can write results for the room, because the results would be outdated.
    """
    ...


@QUERIES.query
async def mark_added_dirty(conn: Connection, org_id: OrgId) -> RowCount:
    """Mark the ranges of the messages just added as dirty; return the number of rooms."""
    ...


@QUERIES.query
async def mark_messages_dirty(
    conn: Connection, org_id: OrgId, message_ids: Collection[MessageId]
) -> RowCount:
    """Mark the ranges of messages and their replies as dirty; return the number of rooms."""
    ...


@QUERIES.query
async def mark_unassigned_dirty(conn: Connection, org_id: OrgId) -> RowCount:
    """Mark the ranges of messages without a conversation as dirty; return the number of rooms."""
    ...


async def end_conversations(
    conn: Connection, org_id: OrgId, ends: Collection[tuple[RoomId, datetime]]
) -> None:
    """End the conversations of closed rooms at the times when memberships ended.

    `ends` are rooms with these times. Messages that a person moved across such a time are assigned again.
    """
    if ends and await mark_ended_dirty(conn, org_id, ends):
        await unpin_after_ends(conn, org_id, ends)
        await work_queue.wake(conn, "disentangle")


@QUERIES.query
async def mark_ended_dirty(
    conn: Connection, org_id: OrgId, ends: Collection[tuple[RoomId, datetime]]
) -> RowCount:
    """Mark closed rooms as dirty from the first end of a membership on; return the number of rooms.

    `ends` are rooms with the times when memberships ended.
    """
    ...


@QUERIES.query
async def unpin_after_ends(
    conn: Connection, org_id: OrgId, ends: Collection[tuple[RoomId, datetime]]
) -> RowCount:
    """Make manual assignments across the ends of memberships automatic; return the number of messages.

    `ends` are rooms with the times when memberships ended. A message is affected if it was sent after such a time and
    its conversation began before that time.
    """
    ...


@QUERIES.query
async def membership_ends(conn: Connection, org_id: OrgId, room_id: RoomId) -> list[datetime]:
    """Return the times when memberships in a room ended, in order; empty if everybody may read the room."""
    ...


@QUERIES.query
async def cross_ends(conn: Connection, org_id: OrgId, conversation_ids: Collection[ConversationId]) -> bool:
    """Return whether a membership in a closed room ended during one of these conversations.

    Conversations with whispers do not count.
    """
    ...


@QUERIES.query
async def lease_range(conn: Connection, org_id: OrgId, room_id: RoomId) -> LeasedRange | None:
    """Lease the dirty range of a room, joined with an unfinished range of the previous lease; None if there is none."""
    ...


@QUERIES.query
async def lock_range(conn: Connection, org_id: OrgId, room_id: RoomId) -> RangeState | None:
    """Lock the work of a room and return its state; None if the room has no work."""
    ...


@QUERIES.query
async def return_range(conn: Connection, org_id: OrgId, room_id: RoomId, left: DirtyRange | None) -> None:
    """Return the part of a leased range that is still dirty."""
    ...


@QUERIES.query
async def finish_room(conn: Connection, org_id: OrgId, room_id: RoomId) -> None:
    """Delete the work of a room that has no dirty range."""
    ...


async def messages_from(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, since: datetime, limit: int
) -> list[RoomMessage]:
    """Return the first messages of a room from a time on, in order.

    There are more than `limit` only if the last ones were sent at the same time.
    """
    ids = await _ids_from(conn, org_id, room_id, since=since, limit=limit)
    return await _room_messages(conn, org_id, ids) if ids else []


@QUERIES.query
async def _ids_from(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, since: datetime, limit: int
) -> list[MessageId]: ...


async def messages_before(
    conn: Connection,
    org_id: OrgId,
    room_id: RoomId,
    *,
    since: datetime,
    limit: int,
    whispered_since: datetime,
) -> list[RoomMessage]:
    """Return what came before `since`, in order: the last `limit` messages, and whispers from `whispered_since` on."""
    ids = await _ids_before(conn, org_id, room_id, since=since, limit=limit, whispered_since=whispered_since)
    return await _room_messages(conn, org_id, ids) if ids else []


@QUERIES.query
async def _ids_before(
    conn: Connection,
    org_id: OrgId,
    room_id: RoomId,
    *,
    since: datetime,
    limit: int,
    whispered_since: datetime,
) -> list[MessageId]: ...


async def messages_after(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, after: datetime, limit: int
) -> list[RoomMessage]:
    """Return the first messages to the whole room after a time, in order."""
    ids = await _ids_after(conn, org_id, room_id, after=after, limit=limit)
    return await _room_messages(conn, org_id, ids) if ids else []


@QUERIES.query
async def _ids_after(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, after: datetime, limit: int
) -> list[MessageId]: ...


@QUERIES.query
async def _room_messages(
    conn: Connection, org_id: OrgId, message_ids: Collection[MessageId]
) -> list[RoomMessage]: ...


@QUERIES.query
async def assignments_of(
    conn: Connection, org_id: OrgId, message_ids: Collection[MessageId]
) -> list[tuple[MessageId, ConversationId, datetime]]:
    """Return messages with their conversations and times."""
    ...


async def put_inferred_replies(
    conn: Connection, org_id: OrgId, *, unlinked: Sequence[MessageId], found: Sequence[Reply]
) -> None:
    """Remove the inferred reply of each unlinked message, and add or replace the inferred replies that were found."""
    if unlinked:
        await _drop_inferred(conn, org_id, unlinked)
    if found:
        await _add_inferred(conn, org_id, found)
    await projections.enqueue_replies(conn, org_id, [*unlinked, *(one.child_id for one in found)])


@QUERIES.query
async def _drop_inferred(conn: Connection, org_id: OrgId, message_ids: Collection[MessageId]) -> None: ...


@QUERIES.query
async def _add_inferred(conn: Connection, org_id: OrgId, found: Sequence[Reply]) -> None: ...


async def add_conversations(conn: Connection, org_id: OrgId, opened: Sequence[NewConversation]) -> None:
    """Add conversations, or update why existing ones were split off."""
    await _add_conversations(conn, org_id, opened)
    await projections.enqueue_nodes(conn, org_id, [one.id for one in opened])


@QUERIES.query
async def _add_conversations(conn: Connection, org_id: OrgId, opened: Sequence[NewConversation]) -> None: ...


async def assign(conn: Connection, org_id: OrgId, assigned: Sequence[ConversationAssignment]) -> None:
    """Assign messages to conversations; manual assignments stay."""
    await _assign(conn, org_id, assigned)
    await projections.enqueue(conn, org_id, [one.message_id for one in assigned])


@QUERIES.query
async def _assign(conn: Connection, org_id: OrgId, assigned: Sequence[ConversationAssignment]) -> None: ...


async def assign_replies(
    conn: Connection, org_id: OrgId, ids: Collection[MessageId], *, out_of: Collection[ConversationId] = ()
) -> set[ConversationId]:
    """Assign all replies below messages to the conversations of the messages; return the changed conversations.

    Args:
        conn: Writes for the operator.
        org_id: The org.
        ids: The messages, which have moved already.
        out_of: The conversations out of which a person moved the messages; empty if no person moved them. If a person
            moved them, the assignments of the replies become manual. Manual assignments to other conversations stay.
    """
    moved = await _assign_replies(conn, org_id, ids, out_of=out_of)
    await projections.enqueue_conversations(conn, org_id, moved)
    return moved


@QUERIES.query
async def _assign_replies(
    conn: Connection, org_id: OrgId, message_ids: Collection[MessageId], *, out_of: Collection[ConversationId]
) -> set[ConversationId]: ...


async def refresh(
    conn: Connection,
    org_id: OrgId,
    ids: Collection[ConversationId],
    *,
    changed: Collection[ConversationId],
    whispered: Collection[ConversationId] = (),
) -> None:
    """Update the times and interactions of conversations; remove empty ones.

    Args:
        conn: Writes for the operator.
        org_id: The org.
        ids: The conversations.
        changed: Conversations that gained or lost messages, or that a person changed. An event reports them.
        whispered: Conversations that gained or lost only whispers. An event reports such a conversation only if it
            still has a whisper, because its other readers never saw the whispers.
    """
    await drop_empty(conn, org_id, ids)
    await projections.enqueue_nodes(conn, org_id, ids)
    await _update_times(conn, org_id, ids)
    await agents.refresh_interactions(conn, org_id, ids)
    heard = await _with_whispers(conn, org_id, whispered) if whispered else set[ConversationId]()
    await outbox.append(conn, org_id, "conversation.changed", {*changed, *heard})


@QUERIES.query
async def drop_empty(
    conn: Connection, org_id: OrgId, conversation_ids: Collection[ConversationId]
) -> RowCount:
    """Remove the given conversations that have no message left."""
    ...


@QUERIES.query
async def _update_times(
    conn: Connection, org_id: OrgId, conversation_ids: Collection[ConversationId]
) -> None: ...


@QUERIES.query
async def _with_whispers(
    conn: Connection, org_id: OrgId, conversation_ids: Collection[ConversationId]
) -> set[ConversationId]: ...


@QUERIES.query
async def conversation_texts(
    conn: Connection, org_id: OrgId, conversation_ids: Collection[ConversationId], *, limit: int
) -> list[ConversationText]:
    """Return the first `limit` messages of conversations."""
    ...


async def describe(conn: Connection, org_id: OrgId, described: Sequence[Description]) -> None:
    """Set labels and sensitivity of conversations, if no person set them; make changed ones due for extraction."""
    changed = await _describe(conn, org_id, described)
    await outbox.append(conn, org_id, "conversation.changed", changed)
    await extraction_state.mark_changed(conn, org_id, [one.id for one in described])


@QUERIES.query
async def _describe(
    conn: Connection, org_id: OrgId, described: Sequence[Description]
) -> list[ConversationId]: ...
