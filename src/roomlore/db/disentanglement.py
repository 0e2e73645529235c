"""Untangling: rooms to go through, what is read of them, and the edges, conversations and placements found."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from roomlore.db import agents, extraction_state, outbox, projections
from roomlore.db.queries import Connection, Queries, columns
from roomlore.domain.ids import ConversationId, MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.records import ReplyMethod, Sensitivity, SplitReason

QUERIES = Queries("disentanglement")


@dataclass(frozen=True, slots=True, kw_only=True)
class DirtyRange:
    """A time in a room in which something has changed, its ends among it."""

    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedRange(DirtyRange):
    """A stretch that somebody goes through, until somebody else takes it."""

    taking: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeState:
    """Which taking of a room is the last, and from when on something has changed there since; None if nothing has."""

    changed_since: datetime | None
    taking: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRef:
    """A message's id."""

    id: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomMessage:
    """A message as untangling reads it, with what was found before."""

    id: MessageId
    kind: Literal["message", "whisper"]
    author_id: ParticipantId
    author_name: str
    body: str
    sent_at: datetime
    native_order: int
    #: Who hears a whisper, its author among them; None for what everybody in the room hears.
    hearers: Sequence[ParticipantId] | None
    #: The one edge stated by the platform that counts.
    stated_parent: MessageId | None
    stated_method: ReplyMethod | None
    found_parent: MessageId | None
    found_method: ReplyMethod | None
    found_confidence: float | None
    conversation_id: ConversationId | None
    by_hand: bool
    quiet_after: timedelta | None
    mentioned: Sequence[ParticipantId]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationAssignment:
    """The conversation that a message is in."""

    message_id: MessageId
    conversation_id: ConversationId
    #: How long nobody may speak after it until the conversation is over, if it is the last of it.
    quiet_after: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InferredReply:
    """What a message answers, as found."""

    child_id: MessageId
    parent_id: MessageId
    method: ReplyMethod
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NewConversation:
    """A conversation that a message opens."""

    id: ConversationId
    room_id: RoomId
    boundary: SplitReason
    opened_at: datetime
    quiet_after: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationText:
    """How a conversation begins: what was said in it, in order."""

    id: ConversationId
    bodies: Sequence[str]
    #: Those that may be told in a label: no spoken wish covers them. None where there are none.
    told: Sequence[str] | None
    #: Of their authors, each once.
    names: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What a conversation is about, and how sensitive it is."""

    id: ConversationId
    label: str
    sensitivity: Sensitivity
    #: Whether more was said than was looked at: then it stays sensitive if it was.
    goes_on: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedConversation:
    """A conversation that lost messages or got some, or is called or marked otherwise."""

    conversation_id: ConversationId


async def mark_dirty(
    conn: Connection, org_id: OrgId, stretches: Mapping[RoomId, tuple[datetime, datetime]]
) -> None:
    """Ask for rooms to be gone through again, each from one time to another.

    Until the transaction ends no worker writes what it found in these rooms: what it read is old by then.
    """
    params = {
        "org_id": org_id,
        "room_ids": list(stretches),
        "since": [since for since, _ in stretches.values()],
        "until": [until for _, until in stretches.values()],
    }
    await QUERIES.run(conn, "touch_rooms", params)


async def mark_added_dirty(conn: Connection, org_id: OrgId) -> bool:
    """Ask for the rooms of the messages just added to be gone through; return whether there are any."""
    return await QUERIES.run(conn, "touch_rooms_of_added", {"org_id": org_id}) > 0


async def mark_messages_dirty(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> bool:
    """Ask for rooms to be gone through where messages stand or are answered; return whether there are any."""
    params = {"org_id": org_id, "message_ids": list(ids)}
    return await QUERIES.run(conn, "touch_rooms_of", params) > 0


async def mark_unassigned_dirty(conn: Connection, org_id: OrgId) -> bool:
    """Ask for rooms to be gone through where messages stand in no conversation; return whether there are any."""
    return await QUERIES.run(conn, "touch_unplaced", {"org_id": org_id}) > 0


async def lease_range(conn: Connection, org_id: OrgId, room_id: RoomId) -> LeasedRange | None:
    """Return what is to be gone through in a room; None where somebody else has done it."""
    return await QUERIES.first(conn, "take_stretch", LeasedRange, {"org_id": org_id, "room_id": room_id})


async def lock_range(conn: Connection, org_id: OrgId, room_id: RoomId) -> RangeState | None:
    """Hold the work of a room and return what has become of it; None where it is gone."""
    return await QUERIES.first(conn, "lock_stretch", RangeState, {"org_id": org_id, "room_id": room_id})


async def return_range(conn: Connection, org_id: OrgId, room_id: RoomId, left: DirtyRange | None) -> None:
    """Leave what is still to be gone through of a room that was taken, beside what has changed since."""
    params = {
        "org_id": org_id,
        "room_id": room_id,
        "since": left.since if left else None,
        "until": left.until if left else None,
    }
    await QUERIES.run(conn, "put_back", params)


async def finish_room(conn: Connection, org_id: OrgId, room_id: RoomId) -> None:
    """Forget the work of a room: everything was gone through, and nothing has changed since."""
    await QUERIES.run(conn, "finish_room", {"org_id": org_id, "room_id": room_id})


async def messages_from(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, since: datetime, limit: int
) -> list[RoomMessage]:
    """Return what was said in a room from a time on, in its order; more than `limit` only at one time."""
    params = {"org_id": org_id, "room_id": room_id, "since": since, "limit": limit}
    return await _room_messages(conn, org_id, await QUERIES.all(conn, "said_from", MessageRef, params))


async def messages_before(
    conn: Connection,
    org_id: OrgId,
    room_id: RoomId,
    *,
    since: datetime,
    limit: int,
    whispered_since: datetime,
) -> list[RoomMessage]:
    """Return the last `limit` messages of a room before a time and the whispers between two, in its order."""
    params = {
        "org_id": org_id,
        "room_id": room_id,
        "since": since,
        "limit": limit,
        "whispered_since": whispered_since,
    }
    return await _room_messages(conn, org_id, await QUERIES.all(conn, "said_before", MessageRef, params))


async def _room_messages(conn: Connection, org_id: OrgId, keys: Sequence[MessageRef]) -> list[RoomMessage]:
    if not keys:
        return []
    params = {"org_id": org_id, "message_ids": [key.id for key in keys]}
    return await QUERIES.all(conn, "heard", RoomMessage, params)


async def assignments_of(
    conn: Connection, org_id: OrgId, ids: Collection[MessageId]
) -> dict[MessageId, ConversationId]:
    """Return in which conversations these messages are."""
    params = {"org_id": org_id, "message_ids": list(ids)}
    rows = await QUERIES.all(conn, "placements_of", ConversationAssignment, params)
    return {row.message_id: row.conversation_id for row in rows}


async def put_inferred_replies(
    conn: Connection, org_id: OrgId, *, unlinked: Sequence[MessageId], found: Sequence[InferredReply]
) -> None:
    """Remove the found edges of some messages and write those of others in place of older ones."""
    if unlinked:
        await QUERIES.run(conn, "drop_found", {"org_id": org_id, "message_ids": list(unlinked)})
    if found:
        await QUERIES.run(conn, "add_found", {"org_id": org_id, **columns(InferredReply, found)})
    await projections.enqueue_replies(conn, org_id, [*unlinked, *(one.child_id for one in found)])


async def add_conversations(conn: Connection, org_id: OrgId, opened: Sequence[NewConversation]) -> None:
    """Add conversations, or say anew why they are some of their own."""
    await QUERIES.run(conn, "add_conversations", {"org_id": org_id, **columns(NewConversation, opened)})
    await projections.enqueue_nodes(conn, org_id, [one.id for one in opened])


async def assign(conn: Connection, org_id: OrgId, placed: Sequence[ConversationAssignment]) -> None:
    """Put messages into conversations; what a person placed stays."""
    await QUERIES.run(conn, "place", {"org_id": org_id, **columns(ConversationAssignment, placed)})
    await projections.enqueue(conn, org_id, [one.message_id for one in placed])


async def assign_replies(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> set[ConversationId]:
    """Place what answers these messages where they stand, as far as no person placed it.

    Returns:
        The conversations that lost messages or got some.
    """
    params = {"org_id": org_id, "message_ids": list(ids)}
    moved = {row.conversation_id for row in await QUERIES.all(conn, "follow", ChangedConversation, params)}
    await projections.enqueue_conversations(conn, org_id, moved)
    return moved


async def refresh(
    conn: Connection,
    org_id: OrgId,
    ids: Collection[ConversationId],
    *,
    changed: Collection[ConversationId],
    whispered: Collection[ConversationId] = (),
) -> None:
    """Bring the times of conversations up to date, and who met whom in them; remove those in which nothing is left.

    Args:
        conn: Writes for the operator.
        org_id: Whose.
        ids: Which conversations.
        changed: Those of them that got or lost something, or that a person changed: these are told of.
        whispered: Those that got or lost whispers only. Where no whisper is left, who sees the conversation never saw
            them, and is told nothing.
    """
    params = {"org_id": org_id, "conversation_ids": sorted(ids)}
    await QUERIES.run(conn, "drop_empty", params)
    await projections.enqueue_nodes(conn, org_id, ids)
    await QUERIES.run(conn, "refresh", params)
    await agents.refresh_interactions(conn, org_id, sorted(ids))
    params = {"org_id": org_id, "conversation_ids": sorted(whispered)}
    heard = await QUERIES.all(conn, "with_whispers", ChangedConversation, params) if whispered else []
    told = {*changed, *(row.conversation_id for row in heard)}
    await outbox.append(conn, org_id, "conversation.changed", told)


async def conversation_texts(
    conn: Connection, org_id: OrgId, ids: Collection[UUID], *, limit: int
) -> list[ConversationText]:
    """Return how conversations begin, in words: their first `limit` messages."""
    params = {"org_id": org_id, "conversation_ids": list(ids), "limit": limit}
    return await QUERIES.all(conn, "words_of", ConversationText, params)


async def describe(conn: Connection, org_id: OrgId, told: Sequence[Description]) -> None:
    """Say what conversations are about and how sensitive they are, unless a person did.

    What was drawn from those that have changed is drawn anew; of those that are called or marked otherwise now is told.
    """
    renamed = await QUERIES.all(
        conn, "describe", ChangedConversation, {"org_id": org_id, **columns(Description, told)}
    )
    await outbox.append(conn, org_id, "conversation.changed", [row.conversation_id for row in renamed])
    await extraction_state.mark_changed(conn, org_id, [one.id for one in told])
