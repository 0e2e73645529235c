"""Statements that erase messages and persons, with everything that belongs to them.

They return the number of rows by kind, for the receipt. Messages come in chunks of ids.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from roomlore.db import (
    disentanglement,
    extraction_state,
    injections,
    llm_calls,
    memory_writes,
    messages,
    privacy_requests,
    work_queue,
)
from roomlore.db.erasure_guard import AccountName
from roomlore.db.memory_vectors import drop_vectors
from roomlore.db.outbox import append, remove_memories
from roomlore.db.projections import enqueue, enqueue_naming, enqueue_replies
from roomlore.db.queries import Connection, Queries, RowCount
from roomlore.domain.ids import ConversationId, MemoryId, MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import MessageKind, RoomKind

QUERIES = Queries("erasure")

#: Numbers of rows by kind.
Counts = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageToErase:
    """A message to erase."""

    id: MessageId
    room_id: RoomId
    author_id: ParticipantId


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryText:
    """The text of a memory, and whether it involves the erased participants."""

    id: MemoryId
    content: str
    is_involved: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationLabel:
    """The label of a conversation."""

    id: ConversationId
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTag:
    """A tag of a memory."""

    id: MemoryId
    tag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomText:
    """The name and topic of a room."""

    id: RoomId
    kind: RoomKind
    name: str
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageContents:
    """Everything in a message and its earlier texts that may name another person."""

    id: MessageId
    kind: MessageKind
    author_name: str
    body: str
    mentions: Any
    attachments: Any
    reactions: Any
    metadata: Any
    raw: Any
    earlier_at: Sequence[datetime]
    earlier: Sequence[str]


@QUERIES.query
async def messages_in_range(
    conn: Connection,
    org_id: OrgId,
    room_id: RoomId,
    *,
    since: datetime | None,
    until: datetime,
    limit: int,
    with_tombstones: bool,
) -> list[MessageToErase]:
    """Return the oldest messages of a time range in a room, with or without tombstones."""
    ...


@QUERIES.query
async def messages_by(
    conn: Connection, org_id: OrgId, participant_ids: Collection[ParticipantId], *, limit: int
) -> list[MessageToErase]:
    """Return some messages of participants."""
    ...


async def drop_derived(conn: Connection, org_id: OrgId, ids: Sequence[MessageId]) -> Counts:
    """Remove everything derived from messages, except their assignment to conversations.

    This covers work, vectors, memories, inferred replies from and to the messages, and the labels of their
    conversations. The messages around them are disentangled again.
    """
    await enqueue_replies(conn, org_id, ids)
    assigned = await _assigned_ids(conn, org_id, ids)
    losing = list(await conversations_of(conn, org_id, ids))
    await _disentangle_again(conn, org_id, [*assigned, *await _nearest_remaining(conn, org_id, losing, ids)])
    await extraction_state.reextract(conn, org_id, ids)
    calls = await llm_calls.drop_with_messages(conn, org_id, ids)
    # The work goes first: a worker that writes derived rows holds the row of its work, so this statement waits for the
    # worker.
    work = await _drop_work(conn, org_id, ids)
    vectors = await work_queue.drop_embeddings(conn, org_id, ids)
    derived = await _memories_from(conn, org_id, ids)
    injected = await injections.revoke_triggered_by(conn, org_id, ids)
    dropped = await drop_memories(conn, org_id, derived)
    replies = await _drop_inferred(conn, org_id, ids)
    stated, buried = await privacy_requests.drop_with_messages(conn, org_id, ids)
    labels = await _empty_labels(conn, org_id, losing)
    # Interactions are recounted when the remaining messages are disentangled again.
    interactions = await _drop_interactions(conn, org_id, losing)
    return {
        "work": work,
        "embeddings": vectors,
        **dropped,
        "language model calls": calls,
        "replies": replies,
        "labels": labels,
        "interactions": interactions,
        "injections": injected,
        "privacy requests": stated,
        "tombstones of privacy requests": buried,
    }


async def _disentangle_again(conn: Connection, org_id: OrgId, ids: Sequence[MessageId]) -> None:
    if await disentanglement.mark_messages_dirty(conn, org_id, ids):
        await work_queue.wake(conn, "disentangle")


@QUERIES.query
async def _assigned_ids(
    conn: Connection, org_id: OrgId, message_ids: Collection[MessageId]
) -> list[MessageId]: ...


@QUERIES.query
async def conversations_of(
    conn: Connection, org_id: OrgId, message_ids: Collection[MessageId]
) -> dict[ConversationId, bool]:
    """Map each conversation of these messages to whether at least one of these messages in it is not a whisper."""
    ...


@QUERIES.query
async def _nearest_remaining(
    conn: Connection,
    org_id: OrgId,
    conversation_ids: Collection[ConversationId],
    message_ids: Collection[MessageId],
) -> list[MessageId]: ...


@QUERIES.query
async def _drop_work(conn: Connection, org_id: OrgId, message_ids: Collection[MessageId]) -> RowCount: ...


@QUERIES.query
async def _memories_from(
    conn: Connection, org_id: OrgId, message_ids: Collection[MessageId]
) -> list[MemoryId]: ...


@QUERIES.query
async def _drop_inferred(conn: Connection, org_id: OrgId, message_ids: Collection[MessageId]) -> RowCount: ...


@QUERIES.query
async def _empty_labels(
    conn: Connection, org_id: OrgId, conversation_ids: Collection[ConversationId]
) -> RowCount: ...


@QUERIES.query
async def _drop_interactions(
    conn: Connection, org_id: OrgId, conversation_ids: Collection[ConversationId]
) -> RowCount: ...


async def drop_message_details(conn: Connection, org_id: OrgId, ids: Sequence[MessageId]) -> Counts:
    """Remove the earlier texts and the audiences of messages."""
    revisions = await messages.drop_revisions(conn, org_id, ids)
    return {"revisions": revisions, "audiences": await _drop_audiences(conn, org_id, ids)}


@QUERIES.query
async def _drop_audiences(
    conn: Connection, org_id: OrgId, message_ids: Collection[MessageId]
) -> RowCount: ...


@QUERIES.query
async def make_tombstones(
    conn: Connection, org_id: OrgId, message_ids: Collection[MessageId], *, at: datetime
) -> RowCount:
    """Turn messages into tombstones; return how many were not tombstones before."""
    ...


@QUERIES.query
async def detach_replies(
    conn: Connection,
    org_id: OrgId,
    message_ids: Collection[MessageId],
    *,
    since: datetime | None,
    until: datetime,
) -> RowCount:
    """Make replies from outside a range wait for their parents, which will be deleted; return how many replies."""
    ...


@QUERIES.query
async def drop_messages(
    conn: Connection, org_id: OrgId, message_ids: Collection[MessageId]
) -> dict[str, int]:
    """Remove messages without a tombstone, and the replies to and from them; return the counts."""
    ...


async def remove_from_conversations(conn: Connection, org_id: OrgId, ids: Sequence[MessageId]) -> Counts:
    """Remove messages from their conversations. Remove conversations that have no message left."""
    left = await conversations_of(conn, org_id, ids)
    aloud = {key for key, is_aloud in left.items() if is_aloud}
    conversation_messages = await _drop_assignments(conn, org_id, ids)
    gone = await disentanglement.drop_empty(conn, org_id, left)
    await disentanglement.refresh(conn, org_id, left, changed=aloud, whispered=set(left) - aloud)
    return {"conversation messages": conversation_messages, "conversations": gone}


@QUERIES.query
async def _drop_assignments(
    conn: Connection, org_id: OrgId, message_ids: Collection[MessageId]
) -> RowCount: ...


async def clear_labels(conn: Connection, org_id: OrgId, ids: Sequence[ConversationId]) -> int:
    """Remove the labels of conversations and have them disentangled again; return how many had a label."""
    await _disentangle_again(conn, org_id, await _nearest_remaining(conn, org_id, ids, []))
    await append(conn, org_id, "conversation.changed", ids)
    return await _empty_labels(conn, org_id, ids)


async def drop_memories(conn: Connection, org_id: OrgId, ids: Sequence[MemoryId]) -> Counts:
    """Remove memories and everything that belongs to them; return how many memories, and how many vectors.

    If a removed memory superseded another memory, the successor of the removed memory now supersedes that memory. If
    there is no successor, that memory becomes active again.
    """
    if not ids:
        return {}
    # This must happen while the sources are known, because other messages may state the same.
    await extraction_state.reextract_sources(conn, org_id, ids)
    await memory_writes.lock(conn, org_id)
    await injections.revoke(conn, org_id, ids)
    await remove_memories(conn, org_id, ids)
    await append(conn, org_id, "memory.changed", await _hand_over_superseded(conn, org_id, ids))
    vectors = await drop_vectors(conn, org_id, ids)
    return {"memory embeddings": vectors, "memories": await _drop_memories(conn, org_id, ids)}


@QUERIES.query
async def _hand_over_superseded(
    conn: Connection, org_id: OrgId, memory_ids: Collection[MemoryId]
) -> list[MemoryId]: ...


@QUERIES.query
async def _drop_memories(conn: Connection, org_id: OrgId, memory_ids: Collection[MemoryId]) -> RowCount: ...


async def recount_activity(
    conn: Connection, org_id: OrgId, rooms: Collection[RoomId], authors: Collection[ParticipantId]
) -> None:
    """Count the messages of authors in rooms again."""
    await _drop_activity(conn, org_id, rooms, authors)
    await _count_activity(conn, org_id, rooms, authors)


@QUERIES.query
async def _drop_activity(
    conn: Connection,
    org_id: OrgId,
    room_ids: Collection[RoomId],
    participant_ids: Collection[ParticipantId],
) -> None: ...


@QUERIES.query
async def _count_activity(
    conn: Connection,
    org_id: OrgId,
    room_ids: Collection[RoomId],
    participant_ids: Collection[ParticipantId],
) -> None: ...


@QUERIES.query
async def memberships_in(conn: Connection, org_id: OrgId, room_id: RoomId) -> int:
    """Return the number of memberships of a room."""
    ...


@QUERIES.query
async def accounts_of(
    conn: Connection, org_id: OrgId, participant_ids: Collection[ParticipantId]
) -> list[AccountName]:
    """Return the accounts of participants."""
    ...


@QUERIES.query
async def names_of(
    conn: Connection, org_id: OrgId, participant_ids: Collection[ParticipantId]
) -> frozenset[str]:
    """Return all current and former names of participants."""
    ...


async def drop_person(conn: Connection, org_id: OrgId, participant_ids: Sequence[ParticipantId]) -> Counts:
    """Remove participants who have no messages, and everything else that belongs to them.

    Whispers to the participants are disentangled again, because their audience gets smaller and may then equal the
    audience of other whispers. Messages after the ends of the participants' memberships are also disentangled again,
    because these ends no longer end conversations.
    """
    whispers = await _whispers_to(conn, org_id, participant_ids)
    await _disentangle_again(conn, org_id, whispers)
    ends = await _ends_of(conn, org_id, participant_ids)
    if ends and await disentanglement.mark_ended_dirty(conn, org_id, ends):
        await work_queue.wake(conn, "disentangle")
    await enqueue(conn, org_id, whispers)
    await enqueue_naming(conn, org_id, participant_ids)
    await privacy_requests.remove_participants(conn, org_id, participant_ids)
    return await _drop_person(conn, org_id, participant_ids)


@QUERIES.query
async def _whispers_to(
    conn: Connection, org_id: OrgId, participant_ids: Collection[ParticipantId]
) -> list[MessageId]: ...


@QUERIES.query
async def _ends_of(
    conn: Connection, org_id: OrgId, participant_ids: Collection[ParticipantId]
) -> list[tuple[RoomId, datetime]]: ...


@QUERIES.query
async def _drop_person(
    conn: Connection, org_id: OrgId, participant_ids: Collection[ParticipantId]
) -> dict[str, int]: ...


@QUERIES.query
async def memories_of(
    conn: Connection, org_id: OrgId, participant_ids: Collection[ParticipantId]
) -> list[MemoryId]:
    """Return the memories that participants asserted, wrote, experienced or are the subject of."""
    ...


@QUERIES.query
async def memories_containing(
    conn: Connection,
    org_id: OrgId,
    strings: Collection[str],
    *,
    participant_ids: Collection[ParticipantId],
) -> list[MemoryText]:
    """Return the memories that contain one of these strings, in any case.

    Each says whether it involves a participant.
    """
    ...


@QUERIES.query
async def labels_containing(
    conn: Connection, org_id: OrgId, strings: Collection[str]
) -> list[ConversationLabel]:
    """Return the conversations whose label contains one of these strings, in any case."""
    ...


@QUERIES.query
async def tags_containing(conn: Connection, org_id: OrgId, strings: Collection[str]) -> list[MemoryTag]:
    """Return the tags of memories that contain one of these strings, in any case."""
    ...


@QUERIES.query
async def drop_tags(conn: Connection, org_id: OrgId, tags: Sequence[MemoryTag]) -> RowCount:
    """Remove tags from memories."""
    ...


@QUERIES.query
async def rooms_containing(
    conn: Connection, org_id: OrgId, platform: str, strings: Collection[str]
) -> list[RoomText]:
    """Return the rooms of a platform whose name or topic contains one of these strings, in any case."""
    ...


@QUERIES.query
async def rename_rooms(conn: Connection, org_id: OrgId, rooms: Sequence[RoomText]) -> RowCount:
    """Change the names and topics of rooms."""
    ...


@QUERIES.query
async def keys_containing(conn: Connection, org_id: OrgId, strings: Collection[str]) -> list[str]:
    """Return the names of API keys that contain one of these strings, in any case."""
    ...


@QUERIES.query
async def messages_containing(
    conn: Connection, org_id: OrgId, platform: str, *, strings: Sequence[str]
) -> list[MessageId]:
    """Return the messages of a platform with one of these strings in a text or a structured field, in any case."""
    ...


@QUERIES.query
async def message_contents(
    conn: Connection, org_id: OrgId, message_ids: Collection[MessageId]
) -> list[MessageContents]:
    """Return everything in messages that may name another person."""
    ...


async def rewrite_messages(conn: Connection, org_id: OrgId, contents: Sequence[MessageContents]) -> None:
    """Store redacted contents of messages and their earlier texts."""
    rows = [
        (
            one.id,
            one.body,
            _json(one.mentions),
            _json(one.attachments),
            _json(one.reactions),
            _json(one.metadata),
            _json(one.raw),
        )
        for one in contents
    ]
    await _put_contents(conn, org_id, rows)
    await _put_revisions(
        conn,
        org_id,
        [(one.id, *earlier) for one in contents for earlier in zip(one.earlier_at, one.earlier, strict=True)],
    )


@QUERIES.query
async def _put_contents(
    conn: Connection,
    org_id: OrgId,
    contents: Sequence[tuple[MessageId, str, str | None, str | None, str | None, str | None, str | None]],
) -> None: ...


@QUERIES.query
async def _put_revisions(
    conn: Connection, org_id: OrgId, revisions: Sequence[tuple[MessageId, datetime, str]]
) -> None: ...


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)
