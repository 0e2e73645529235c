"""Statements that erase: what goes with messages, and what goes with a person.

Each says how many rows of what it changed, for the receipt. Messages come as portions of ids.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
from roomlore.db.erased import AccountName
from roomlore.db.memory_vectors import drop_vectors
from roomlore.db.outbox import append, remove_memories
from roomlore.db.projections import enqueue, enqueue_naming, enqueue_replies
from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import ConversationId, MemoryId, MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import MessageKind

QUERIES = Queries("erasure")

#: How much of what.
Counts = Mapping[str, int]
#: What of a person goes in one statement, in an order that the references between tables allow.
PERSON_STATEMENTS = (
    ("audiences", "drop_addressed"),
    ("memberships", "drop_memberships"),
    ("activity", "drop_activity_of"),
    ("merges", "drop_merges"),
    ("keys", "drop_keys"),
    ("encounters", "drop_encounters_of"),
    ("memory links", "drop_involved"),
    ("speakers", "drop_spoken"),
    ("identities", "drop_identities"),
    ("participants", "drop_participants"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageToErase:
    """A message that is to be erased."""

    id: MessageId
    room_id: RoomId
    author_id: ParticipantId


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRef:
    """A message that may stand in a conversation, or may name somebody."""

    id: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRef:
    """A memory's id."""

    id: MemoryId


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryText:
    """What a memory says, and whether it involves those who go."""

    id: MemoryId
    content: str
    is_involved: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRef:
    """A conversation's id."""

    id: ConversationId


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationLabel:
    """What a conversation is called."""

    id: ConversationId
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCount:
    """A number of rows."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRow:
    """An account on a platform."""

    platform: str
    account_id: str
    persona: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NameRow:
    """What somebody was called."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageContents:
    """Everything in a message, its earlier texts included, that may name somebody else."""

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
    """Return the oldest messages that were sent in a room in a time, holes among them or not."""
    params = {"org_id": org_id, "room_id": room_id, "since": since, "until": until, "limit": limit}
    params |= {"with_holes": with_tombstones}
    return await QUERIES.all(conn, "messages_in_range", MessageToErase, params)


async def messages_by(
    conn: Connection, org_id: OrgId, participant_ids: Sequence[ParticipantId], *, limit: int
) -> list[MessageToErase]:
    """Return some messages that participants wrote."""
    params = {"org_id": org_id, "participant_ids": list(participant_ids), "limit": limit}
    return await QUERIES.all(conn, "messages_by", MessageToErase, params)


async def drop_derived(conn: Connection, org_id: OrgId, ids: Sequence[MessageId]) -> Counts:
    """Remove what was derived from messages, but not which conversations they are in.

    Work, vectors, memories, the edges found at either end, and the labels of their conversations. What remains
    around them is gone through again.
    """
    # Work first: whoever is just writing what was derived holds the work's row, so that the drop comes after.
    params = {"org_id": org_id, "message_ids": list(ids)}
    await enqueue_replies(conn, org_id, ids)
    spoken = [row.id for row in await QUERIES.all(conn, "spoken", MessageRef, params)]
    losing = await conversations_of(conn, org_id, ids)
    if await disentanglement.mark_messages_dirty(
        conn, org_id, [*spoken, *await _beside(conn, org_id, losing, ids)]
    ):
        await work_queue.wake(conn, "untangle")
    await extraction_state.reextract(conn, org_id, ids)
    shown = await llm_calls.drop_with_messages(conn, org_id, ids)
    waiting = await QUERIES.run(conn, "drop_work", params)
    vectors = await work_queue.drop_embeddings(conn, org_id, ids)
    resting = await QUERIES.all(conn, "memories_resting_on", MemoryRef, params)
    injected = await injections.revoke_triggered_by(conn, org_id, ids)
    remembered = await drop_memories(conn, org_id, [memory.id for memory in resting])
    found = await QUERIES.run(conn, "drop_found", params)
    voiced, buried = await privacy_requests.drop_with_messages(conn, org_id, ids)
    params = {"org_id": org_id, "conversation_ids": losing}
    labels = await QUERIES.run(conn, "empty_labels", params)
    # What passed between those who spoke there is counted anew once the rest is gone through again.
    encounters = await QUERIES.run(conn, "drop_encounters", params)
    return {
        "work": waiting,
        "embeddings": vectors,
        **remembered,
        "readings": shown,
        "replies": found,
        "labels": labels,
        "encounters": encounters,
        "injections": injected,
        "wishes": voiced,
        "wishes without words": buried,
    }


async def drop_message_details(conn: Connection, org_id: OrgId, ids: Sequence[MessageId]) -> Counts:
    """Remove what belongs to messages beside their rows: earlier texts and whom they are addressed to."""
    revisions = await messages.drop_revisions(conn, org_id, ids)
    audiences = await QUERIES.run(conn, "drop_audiences", {"org_id": org_id, "message_ids": list(ids)})
    return {"revisions": revisions, "audiences": audiences}


async def make_tombstones(conn: Connection, org_id: OrgId, ids: Sequence[MessageId], *, at: datetime) -> int:
    """Leave nothing of messages but their places; return how many had been more."""
    params = {"org_id": org_id, "message_ids": list(ids), "at": at}
    await QUERIES.run(conn, "add_nobody", params)
    return await QUERIES.run(conn, "make_holes", params)


async def detach_replies(
    conn: Connection, org_id: OrgId, ids: Sequence[MessageId], *, since: datetime | None, until: datetime
) -> int:
    """Let replies from outside a range wait for their parents, which go; return how many."""
    params = {"org_id": org_id, "message_ids": list(ids), "since": since, "until": until}
    return await QUERIES.run(conn, "part_replies", params)


async def drop_messages(conn: Connection, org_id: OrgId, ids: Sequence[MessageId]) -> Counts:
    """Remove messages, place and all, and the edges at either end."""
    params = {"org_id": org_id, "message_ids": list(ids)}
    return await _run_all(conn, (("replies", "drop_replies"), ("messages", "drop_messages")), params)


async def conversations_of(conn: Connection, org_id: OrgId, ids: Sequence[MessageId]) -> list[ConversationId]:
    """Return the conversations that messages are in."""
    params = {"org_id": org_id, "message_ids": list(ids)}
    return [row.id for row in await QUERIES.all(conn, "conversations_of", ConversationRef, params)]


async def remove_from_conversations(conn: Connection, org_id: OrgId, ids: Sequence[MessageId]) -> Counts:
    """Take messages out of their conversations; one in which nothing is left goes."""
    params = {"org_id": org_id, "message_ids": list(ids)}
    left = await conversations_of(conn, org_id, ids)
    aloud = {row.id for row in await QUERIES.all(conn, "losing_aloud", ConversationRef, params)}
    placements = await QUERIES.run(conn, "drop_placements", params)
    gone = await QUERIES.run(conn, "drop_empty_conversations", {"org_id": org_id, "conversation_ids": left})
    await disentanglement.refresh(conn, org_id, left, changed=aloud, whispered=set(left) - aloud)
    return {"placements": placements, "conversations": gone}


async def clear_labels(conn: Connection, org_id: OrgId, ids: Sequence[ConversationId]) -> int:
    """Remove what conversations are called, and have them gone through again; return how many had a label."""
    if await disentanglement.mark_messages_dirty(conn, org_id, await _beside(conn, org_id, ids, [])):
        await work_queue.wake(conn, "untangle")
    await append(conn, org_id, "conversation.changed", ids)
    return await QUERIES.run(conn, "empty_labels", {"org_id": org_id, "conversation_ids": list(ids)})


async def _beside(
    conn: Connection, org_id: OrgId, losing: Sequence[ConversationId], ids: Sequence[MessageId]
) -> list[MessageId]:
    params = {"org_id": org_id, "conversation_ids": list(losing), "message_ids": list(ids)}
    return [row.id for row in await QUERIES.all(conn, "beside", MessageRef, params)]


async def drop_memories(conn: Connection, org_id: OrgId, ids: Sequence[MemoryId]) -> Counts:
    """Remove memories and all that belongs to them; return how many, and how many vectors.

    What one of them took the place of is superseded by what took its own, or stands again where nothing did.
    """
    if not ids:
        return {}
    params = {"org_id": org_id, "memory_ids": list(ids)}
    # Before what they rest on goes: others may have said the same, and say it still.
    await extraction_state.reextract_sources(conn, org_id, ids)
    await memory_writes.lock(conn, org_id)
    await injections.revoke(conn, org_id, ids)
    await remove_memories(conn, org_id, ids)
    handed = await QUERIES.all(conn, "hand_over_superseded", MemoryRef, params)
    await append(conn, org_id, "memory.changed", [memory.id for memory in handed])
    vectors = await drop_vectors(conn, org_id, ids)
    for part in ("memory_sources", "memory_tags", "memory_participants", "partings"):
        await QUERIES.run(conn, f"drop_{part}", params)
    return {"memory embeddings": vectors, "memories": await QUERIES.run(conn, "drop_memories", params)}


async def recount_activity(
    conn: Connection, org_id: OrgId, rooms: Iterable[RoomId], authors: Iterable[ParticipantId]
) -> None:
    """Count anew how much authors wrote in rooms."""
    params = {"org_id": org_id, "room_ids": list(rooms), "participant_ids": list(authors)}
    await QUERIES.run(conn, "drop_activity", params)
    await QUERIES.run(conn, "count_activity", params)


async def memberships_in(conn: Connection, org_id: OrgId, room_id: RoomId) -> int:
    """Return how many memberships a room has."""
    row = await QUERIES.first(conn, "memberships_in", RowCount, {"org_id": org_id, "room_id": room_id})
    assert row is not None
    return row.count


async def accounts_of(
    conn: Connection, org_id: OrgId, participant_ids: Sequence[ParticipantId]
) -> list[AccountName]:
    """Return the accounts of participants."""
    params = {"org_id": org_id, "participant_ids": list(participant_ids)}
    rows = await QUERIES.all(conn, "accounts_of", AccountRow, params)
    return [(row.platform, row.account_id, row.persona) for row in rows]


async def names_of(
    conn: Connection, org_id: OrgId, participant_ids: Sequence[ParticipantId]
) -> frozenset[str]:
    """Return everything that participants were ever called."""
    params = {"org_id": org_id, "participant_ids": list(participant_ids)}
    return frozenset(row.name for row in await QUERIES.all(conn, "names_of", NameRow, params)) - {""}


async def drop_person(conn: Connection, org_id: OrgId, participant_ids: Sequence[ParticipantId]) -> Counts:
    """Remove participants who wrote nothing, and whatever else is theirs.

    What was whispered to them is gone through again: fewer hear it now, perhaps the same as something else.
    """
    params = {"org_id": org_id, "participant_ids": list(participant_ids)}
    heard = [row.id for row in await QUERIES.all(conn, "addressed", MessageRef, params)]
    if await disentanglement.mark_messages_dirty(conn, org_id, heard):
        await work_queue.wake(conn, "untangle")
    await enqueue(conn, org_id, heard)
    await enqueue_naming(conn, org_id, participant_ids)
    await privacy_requests.remove_participants(conn, org_id, participant_ids)
    return await _run_all(conn, PERSON_STATEMENTS, params)


async def memories_of(
    conn: Connection, org_id: OrgId, participant_ids: Sequence[ParticipantId]
) -> list[MemoryId]:
    """Return the memories that participants asserted or wrote, that are about them, or seen by them."""
    params = {"org_id": org_id, "participant_ids": list(participant_ids)}
    return [row.id for row in await QUERIES.all(conn, "memories_of", MemoryRef, params)]


async def memories_containing(
    conn: Connection, org_id: OrgId, strings: Iterable[str], *, participant_ids: Sequence[ParticipantId]
) -> list[MemoryText]:
    """Return the memories in which one of these strings occurs, and whether they involve participants."""
    params = {"org_id": org_id, "strings": list(strings), "participant_ids": list(participant_ids)}
    return await QUERIES.all(conn, "memories_saying", MemoryText, params)


async def labels_containing(
    conn: Connection, org_id: OrgId, strings: Iterable[str]
) -> list[ConversationLabel]:
    """Return the conversations whose label has one of these strings in it."""
    return await QUERIES.all(
        conn, "labels_saying", ConversationLabel, {"org_id": org_id, "strings": list(strings)}
    )


async def messages_containing(
    conn: Connection, org_id: OrgId, platform: str, *, strings: Sequence[str]
) -> list[MessageId]:
    """Return the messages of a platform in which one of these strings occurs."""
    params = {
        "org_id": org_id,
        "platform": platform,
        "strings": list(strings),
        # As JSON writes them between quotes.
        "json_strings": [_json(string)[1:-1] for string in strings],
    }
    return [row.id for row in await QUERIES.all(conn, "messages_saying", MessageRef, params)]


async def message_contents(
    conn: Connection, org_id: OrgId, ids: Sequence[MessageId]
) -> list[MessageContents]:
    """Return everything in these messages that may name somebody else."""
    return await QUERIES.all(
        conn, "said_by_others", MessageContents, {"org_id": org_id, "message_ids": list(ids)}
    )


async def rewrite_messages(conn: Connection, org_id: OrgId, said: Sequence[MessageContents]) -> None:
    """Put scrubbed contents in place of those that named somebody."""
    fields = ("mentions", "attachments", "reactions", "metadata", "raw")
    params: dict[str, object] = {"org_id": org_id, "id": [one.id for one in said]}
    params["body"] = [one.body for one in said]
    for field in fields:
        values = [getattr(one, field) for one in said]
        params[field] = [None if value is None else _json(value) for value in values]
    await QUERIES.run(conn, "rewrite_messages", params)
    earlier = [
        (one.id, written_at, body)
        for one in said
        for written_at, body in zip(one.earlier_at, one.earlier, strict=True)
    ]
    params = {"org_id": org_id, "message_id": [row[0] for row in earlier]}
    params |= {"written_at": [row[1] for row in earlier], "body": [row[2] for row in earlier]}
    await QUERIES.run(conn, "rewrite_revisions", params)


async def _run_all(
    conn: Connection, statements: Iterable[tuple[str, str]], params: Mapping[str, Any]
) -> Counts:
    """Run statements one after the other, and return how many rows of what they changed."""
    counts = Counter[str]()
    for what, name in statements:
        counts[what] += await QUERIES.run(conn, name, params)
    return counts


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
