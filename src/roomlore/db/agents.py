"""Agents: whom they met, what they remember, which of their answers are to be remembered."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import ConversationId, MemoryId, MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.records import MemoryKind, Message, Sensitivity

QUERIES = Queries("agents")
#: So many people of a conversation are looked at.
MAX_PARTICIPANTS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class InteractionStats:
    """Somebody whom an agent has met: all that passed between them, and what of it still weighs."""

    id: ParticipantId
    name: str
    kind: ParticipantKind
    #: In which both took part.
    conversations: int
    #: Of theirs.
    messages: int
    #: How often the agent answered them, and they the agent.
    answered: int
    answers: int
    #: How often some other human agreed with them, or set them right.
    confirmed: int
    corrected: int
    last_met_at: datetime
    conversations_now: float
    #: Answers either way.
    exchanges_now: float
    confirmed_now: float
    corrected_now: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperienceFilter:
    """What is looked for among an agent's memories; None in any field means all."""

    kinds: Collection[MemoryKind] | None = None
    #: Any of these.
    tags: Collection[str] | None = None
    task_id: str | None = None
    #: Only such as name any of these.
    people: Collection[ParticipantId] | None = None
    #: Only such as share a word with it, or are weightier than a learning usually is.
    topic: str | None = None
    #: Only such as belong to a task, or to none.
    is_of_task: bool | None = None
    #: Only such as are true since then at the earliest.
    since: datetime | None = None
    #: The newest first; otherwise what is about the topic, and of that the weightiest.
    is_newest_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedMemory:
    """A memory of an agent's, and how much it weighs: its importance, less the older it is."""

    memory_id: MemoryId
    weight: float
    #: Whether it shares a word with the topic; all do where there is none.
    fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryState:
    """Whether memories that were read are as they were."""

    all_stand: bool
    #: Another number once a memory of the agent's has come or gone.
    mark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageScene:
    """Who reads, what a message's conversation is about, and who takes part in it."""

    #: Whether the viewer is an agent, and every account of the viewer.
    is_agent: bool
    own_ids: Sequence[ParticipantId]
    topic: str
    people: Sequence[ParticipantId]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderAccounts:
    """Who reads."""

    #: Whether it is an agent, and every account of it.
    is_agent: bool
    own_ids: Sequence[ParticipantId]


@dataclass(frozen=True, slots=True, kw_only=True)
class NearbyMessage:
    """A message of a room, and whom it calls by what the platform says."""

    id: MessageId
    author_id: ParticipantId
    author_name: str
    author_kind: ParticipantKind
    body: str
    #: What it answers by the platform's own word, where the viewer may see it.
    answers: MessageId | None
    calls: Sequence[ParticipantId]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomParticipant:
    """Somebody who is in a room, by a name that the viewer may know."""

    id: ParticipantId
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReply:
    """What an agent answered, and to what."""

    reply_id: MessageId
    room_id: RoomId
    agent_id: ParticipantId
    agent_name: str
    reply: str
    sent_at: datetime
    #: Of either.
    edited_at: datetime | None
    trigger_id: MessageId
    other_id: ParticipantId
    other_name: str
    other_kind: ParticipantKind
    trigger: str
    #: Whether the two had met before.
    has_met: bool
    #: Whether it was said to the agent.
    is_addressed: bool
    sensitivity: Sensitivity


async def refresh_interactions(conn: Connection, org_id: OrgId, ids: Collection[ConversationId]) -> None:
    """Write down anew who met which agent in these conversations, in one step; the same again changes nothing."""
    await QUERIES.run(conn, "meet", {"org_id": org_id, "conversation_ids": list(ids)})


async def interactions(
    conn: Connection,
    org_id: OrgId,
    agent_ids: Collection[ParticipantId],
    *,
    people: Collection[ParticipantId] | None = None,
    at: datetime,
    half_life: timedelta,
) -> list[InteractionStats]:
    """Return whom an agent has met, or those of some people whom it has, in no order.

    Args:
        conn: Reads for the viewer.
        org_id: Whose.
        agent_ids: Every account of the agent.
        people: Only these; None: all.
        at: Tells how long ago everything was.
        half_life: After so long what passed weighs half.
    """
    params = {
        "org_id": org_id,
        "agent_ids": list(agent_ids),
        "participant_ids": None if people is None else list(people),
        "at": at,
        "half_life": half_life,
    }
    return await QUERIES.all(conn, "met", InteractionStats, params)


async def weighted_memories(
    conn: Connection,
    agent_ids: Collection[ParticipantId],
    wanted: ExperienceFilter,
    *,
    at: datetime,
    limit: int,
) -> list[WeightedMemory]:
    """Return which memories of an agent stand and are wanted, as far as the viewer may see them, in their order."""
    params = {
        "agent_ids": list(agent_ids),
        "kinds": None if wanted.kinds is None else list(wanted.kinds),
        "tags": None if wanted.tags is None else list(wanted.tags),
        "task_id": wanted.task_id,
        "people": None if wanted.people is None else list(wanted.people),
        "topic": wanted.topic,
        "is_of_task": wanted.is_of_task,
        "is_newest_first": wanted.is_newest_first,
        "since": wanted.since,
        "at": at,
        "wanted": limit,
    }
    return await QUERIES.all(conn, "experiences", WeightedMemory, params)


async def memory_state(
    conn: Connection, org_id: OrgId, agent_ids: Collection[ParticipantId], ids: Collection[MemoryId]
) -> MemoryState:
    """Return whether memories all stand, as they were and for the viewer to see, and a mark of all the agent has."""
    params = {"org_id": org_id, "agent_ids": list(agent_ids), "memory_ids": list(ids)}
    row = await QUERIES.first(conn, "known_still", MemoryState, params)
    assert row is not None
    return row


async def message_scene(conn: Connection, org_id: OrgId, message_id: MessageId) -> MessageScene:
    """Return what a message's conversation is about and who takes part, as far as the viewer may follow it."""
    params = {"org_id": org_id, "message_id": message_id, "limit": MAX_PARTICIPANTS}
    row = await QUERIES.first(conn, "scene", MessageScene, params)
    assert row is not None
    return row


async def reader_accounts(conn: Connection) -> ReaderAccounts:
    """Return who reads."""
    row = await QUERIES.first(conn, "reader", ReaderAccounts, {})
    assert row is not None
    return row


async def nearby_messages(
    conn: Connection, org_id: OrgId, message: Message, *, before: int, after: int
) -> list[NearbyMessage]:
    """Return what was said in a room up to a message and after it, as far as the viewer may read it, the newest first.

    Args:
        conn: Reads for the viewer.
        org_id: Whose.
        message: The message; among what is returned, where the viewer may read it.
        before: So many of those up to it.
        after: So many of those after it.
    """
    params = {
        "org_id": org_id,
        "room_id": message.room_id,
        "message_id": message.id,
        "sent_at": message.sent_at,
        "native_order": message.native_order,
        "before": before,
        "after": after,
    }
    return await QUERIES.all(conn, "said_around", NearbyMessage, params)


async def participant_names(conn: Connection, org_id: OrgId, room_id: RoomId) -> list[RoomParticipant]:
    """Return who is in a room, by names that the viewer may know, and the viewer under all of its own."""
    params = {"org_id": org_id, "room_id": room_id, "limit": MAX_PARTICIPANTS}
    return await QUERIES.all(conn, "names_in", RoomParticipant, params)


async def enqueue_reply(
    conn: Connection, org_id: OrgId, *, reply_id: MessageId, trigger_id: MessageId
) -> bool:
    """Ask for an answer to be remembered, if it is worth it; return whether that had not been asked for already."""
    params = {"org_id": org_id, "reply_id": reply_id, "trigger_id": trigger_id}
    return await QUERIES.run(conn, "note_answer", params) > 0


async def agent_replies(
    conn: Connection, org_id: OrgId, reply_ids: Collection[MessageId]
) -> list[AgentReply]:
    """Return what agents answered, of what is to be remembered, and to what, as far as both are still there."""
    return await QUERIES.all(conn, "exchanged", AgentReply, {"org_id": org_id, "reply_ids": list(reply_ids)})
