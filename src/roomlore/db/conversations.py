"""Conversations, for people: listed and read as far as the viewer may see them, and changed by hand.

What changes them runs for the operator, whoever asked for it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from roomlore.db import projections
from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import ConversationId, MessageId, OrgId, ParticipantId, RoomId, ids_matching
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
)

QUERIES = Queries("conversations")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRef:
    """A conversation's id."""

    id: ConversationId


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRef:
    """A message's id."""

    id: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class SensitivityRights:
    """What decides who may say how sensitive a conversation is."""

    has_spoken: bool
    is_operators: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRow:
    """A conversation without those who take part in it."""

    id: ConversationId
    room_id: RoomId
    label: str
    is_named: bool
    label_by: LabelSource
    sensitivity: Sensitivity
    is_marked: bool
    boundary: SplitReason | None
    opened_at: datetime
    last_at: datetime
    closed_at: datetime | None
    quiet_after: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakerCount:
    """How much somebody said in a conversation."""

    conversation_id: ConversationId
    id: ParticipantId
    name: str
    kind: ParticipantKind
    message_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationAssignment:
    """The conversation that a message is in."""

    message_id: MessageId
    conversation_id: ConversationId


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageState:
    """Who hears a message, and where it stands."""

    id: MessageId
    kind: MessageKind
    is_erased: bool
    #: Of a whisper, its author among them; None for what everybody in the room hears.
    hearers: Sequence[ParticipantId] | None
    conversation_id: ConversationId | None


async def newest(
    conn: Connection, org_id: OrgId, room_id: RoomId | None, *, limit: int
) -> list[Conversation]:
    """Return the newest conversations that are visible, of a room or of all, newest first."""
    params = {"org_id": org_id, "room_id": room_id, "limit": limit}
    return await _with_speakers(
        conn,
        org_id,
        await QUERIES.all(conn, "newest_of_room" if room_id else "newest", ConversationRow, params),
    )


async def find(conn: Connection, org_id: OrgId, word: str) -> list[ConversationId]:
    """Return up to ten visible conversations that an id, its beginning or its end means."""
    ids = ids_matching(word)
    if ids is None:
        return []
    params = {"org_id": org_id, **asdict(ids)}
    return [row.id for row in await QUERIES.all(conn, "named", ConversationRef, params)]


async def by_id(
    conn: Connection, org_id: OrgId, ids: Collection[ConversationId]
) -> dict[ConversationId, Conversation]:
    """Return these conversations as far as they are visible."""
    params = {"org_id": org_id, "conversation_ids": list(ids)}
    held = await QUERIES.all(conn, "by_id", ConversationRow, params)
    return {one.id: one for one in await _with_speakers(conn, org_id, held)}


async def _with_speakers(
    conn: Connection, org_id: OrgId, held: Sequence[ConversationRow]
) -> list[Conversation]:
    params = {"org_id": org_id, "conversation_ids": [one.id for one in held]}
    talkers: dict[ConversationId, list[ConversationParticipant]] = {one.id: [] for one in held}
    for spoke in await QUERIES.all(conn, "talkers", SpeakerCount, params) if held else ():
        talkers[spoke.conversation_id].append(
            ConversationParticipant(
                id=spoke.id, name=spoke.name, kind=spoke.kind, message_count=spoke.message_count
            )
        )
    return [_conversation(one, talkers[one.id]) for one in held]


def _conversation(held: ConversationRow, talkers: Sequence[ConversationParticipant]) -> Conversation:
    return Conversation(
        id=held.id,
        room_id=held.room_id,
        label=held.label,
        is_named=held.is_named,
        label_by=held.label_by,
        sensitivity=held.sensitivity,
        boundary=held.boundary,
        opened_at=held.opened_at,
        last_at=held.last_at,
        quiet_after=held.quiet_after,
        closed_at=held.closed_at,
        message_count=sum(talker.message_count for talker in talkers),
        talkers=talkers,
    )


async def message_ids(conn: Connection, org_id: OrgId, ids: Iterable[ConversationId]) -> set[MessageId]:
    """Return the messages of conversations, as far as these are visible."""
    params = {"org_id": org_id, "conversation_ids": list(ids)}
    return {row.id for row in await QUERIES.all(conn, "members", MessageRef, params)}


async def messages_before(
    conn: Connection,
    org_id: OrgId,
    conversation_id: ConversationId,
    place: tuple[datetime, int, MessageId],
    *,
    limit: int,
) -> BoundedPage[Message]:
    """Return the messages of a conversation just before a place, newest first, as many as one answer holds."""
    sent_at, native_order, message_id = place
    params = {"org_id": org_id, "conversation_id": conversation_id, "limit": limit}
    params |= {"sent_at": sent_at, "native_order": native_order, "message_id": message_id}
    return await QUERIES.page(conn, "said", Message, params)


async def assignments_of(
    conn: Connection, org_id: OrgId, ids: Sequence[MessageId]
) -> dict[MessageId, ConversationId]:
    """Return which conversations messages are in, as far as these are visible."""
    params = {"org_id": org_id, "message_ids": list(ids)}
    rows = await QUERIES.all(conn, "conversations_of", ConversationAssignment, params)
    return {row.message_id: row.conversation_id for row in rows}


async def with_assignments(
    conn: Connection, org_id: OrgId, said: Sequence[Message], standing: Mapping[MessageId, ConversationId]
) -> list[AssignedMessage]:
    """Return messages with what they answer, as far as that is visible, and where they stand."""
    params = {"org_id": org_id, "message_ids": [message.id for message in said]}
    answers = {edge.child_id: edge for edge in await QUERIES.all(conn, "answered", Reply, params)}
    return [
        AssignedMessage(message=one, answers=answers.get(one.id), conversation_id=standing.get(one.id))
        for one in said
    ]


async def room_assignments(
    conn: Connection, org_id: OrgId, room_id: RoomId, said: Sequence[Message]
) -> dict[MessageId, ConversationId]:
    """Return which conversations messages of one room are in, as far as these are visible."""
    if not said:
        return {}
    times = [message.sent_at for message in said]
    params = {
        "org_id": org_id,
        "room_id": room_id,
        "since": min(times),
        "until": max(times),
        "message_ids": [message.id for message in said],
    }
    rows = await QUERIES.all(conn, "standing_in_room", ConversationAssignment, params)
    return {row.message_id: row.conversation_id for row in rows}


# What follows is the operator's


async def message_states(
    conn: Connection, org_id: OrgId, ids: Iterable[MessageId]
) -> dict[MessageId, MessageState]:
    """Return who hears messages and where they stand."""
    params = {"org_id": org_id, "message_ids": list(ids)}
    return {row.id: row for row in await QUERIES.all(conn, "standing", MessageState, params)}


async def roots(conn: Connection, org_id: OrgId, conversation_id: ConversationId) -> list[MessageId]:
    """Return the messages of a conversation that answer nothing in it."""
    params = {"org_id": org_id, "conversation_id": conversation_id}
    return [row.id for row in await QUERIES.all(conn, "roots", MessageRef, params)]


async def open_manually(
    conn: Connection,
    org_id: OrgId,
    conversation_id: ConversationId,
    room_id: RoomId,
    *,
    label: str,
    out_of: Collection[ConversationId],
) -> None:
    """Add a conversation that a person makes out of others; without a label it is not named."""
    params = {"org_id": org_id, "id": conversation_id, "room_id": room_id, "label": label}
    await QUERIES.run(conn, "open", params | {"conversation_ids": list(out_of)})
    await projections.enqueue_nodes(conn, org_id, [conversation_id])


async def pin(conn: Connection, org_id: OrgId, ids: Sequence[MessageId], *, to: ConversationId) -> None:
    """Put messages that stand somewhere into a conversation by hand."""
    params = {"org_id": org_id, "message_ids": list(ids), "conversation_id": to}
    await QUERIES.run(conn, "pin", params)
    await projections.enqueue(conn, org_id, ids)


async def move_all(conn: Connection, org_id: OrgId, other: ConversationId, *, to: ConversationId) -> None:
    """Put all that is in one conversation into another."""
    await QUERIES.run(conn, "hand_over", {"org_id": org_id, "other_id": other, "conversation_id": to})
    await projections.enqueue_conversations(conn, org_id, [to])


async def rename(conn: Connection, org_id: OrgId, conversation_id: ConversationId, *, label: str) -> None:
    """Say what a conversation is called; an empty label takes its name away."""
    params = {"org_id": org_id, "conversation_id": conversation_id, "label": label}
    await QUERIES.run(conn, "rename", params)


async def set_sensitivity(
    conn: Connection,
    org_id: OrgId,
    conversation_id: ConversationId,
    *,
    sensitivity: Sensitivity,
    by_operator: bool,
) -> None:
    """Say how sensitive a conversation is; those who had spoken in it keep seeing it."""
    params = {
        "org_id": org_id,
        "conversation_id": conversation_id,
        "sensitivity": sensitivity,
        "by_operator": by_operator,
    }
    await QUERIES.run(conn, "mark", params)


async def sensitivity_rights(
    conn: Connection, org_id: OrgId, conversation_id: ConversationId, accounts: Collection[ParticipantId]
) -> SensitivityRights | None:
    """Return what decides whether these accounts may say how sensitive a conversation is."""
    params = {"org_id": org_id, "conversation_id": conversation_id, "participant_ids": list(accounts)}
    return await QUERIES.first(conn, "marking", SensitivityRights, params)


async def close(conn: Connection, org_id: OrgId, conversation_id: ConversationId) -> None:
    """Say that a conversation is over with what was said so far."""
    await QUERIES.run(conn, "close", {"org_id": org_id, "conversation_id": conversation_id})


async def inherit_sensitivity(
    conn: Connection,
    org_id: OrgId,
    conversation_id: ConversationId,
    *,
    others: Collection[ConversationId],
) -> None:
    """Mark a conversation as sensitive if a person marked one of others so, out of which it got messages."""
    params = {"org_id": org_id, "conversation_id": conversation_id, "other_ids": list(others)}
    await QUERIES.run(conn, "mark_like", params)


async def inherit_label(
    conn: Connection,
    org_id: OrgId,
    conversation_id: ConversationId,
    *,
    others: Collection[ConversationId],
) -> None:
    """Call a conversation as a person called one of others, if that has gone into it as a whole."""
    params = {"org_id": org_id, "conversation_id": conversation_id, "other_ids": list(others)}
    await QUERIES.run(conn, "take_name", params)


async def clear_labels(conn: Connection, org_id: OrgId, ids: Collection[ConversationId]) -> None:
    """Take away the names of conversations that lost messages and are now perhaps seen by more."""
    await QUERIES.run(conn, "unname", {"org_id": org_id, "conversation_ids": list(ids)})
