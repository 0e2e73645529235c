"""Agents: interaction statistics, their memories, and the replies that become memories."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from roomlore.db.queries import Connection, Queries, RowCount
from roomlore.domain.ids import ConversationId, MemoryId, MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.records import MemoryKind, Message, Sensitivity

QUERIES = Queries("agents")
#: The maximum number of participants of a conversation or room that are read.
MAX_PARTICIPANTS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class InteractionStats:
    """A participant whom an agent has met or was stated to trust, with counts of their exchanges.

    The counts named `..._now` decrease with age.
    """

    id: ParticipantId
    name: str
    kind: ParticipantKind
    #: Conversations in which both took part.
    conversations: int
    #: Messages of the participant.
    messages: int
    #: `answered`: how often the agent replied to the participant. `answers`: how often the participant replied to the
    #: agent.
    answered: int
    answers: int
    #: How often another human agreed with the participant, and how often another human corrected the participant.
    confirmed: int
    corrected: int
    #: None: the trust was stated, but the two have not met.
    last_met_at: datetime | None
    conversations_now: float
    #: Answers in both directions.
    exchanges_now: float
    confirmed_now: float
    corrected_now: float
    #: The trust in any account of the person that was stated last; None if none was stated.
    stated_trust: float | None = None
    stated_at: datetime | None = None
    #: An account of the agent; None for an operator.
    stated_by: ParticipantId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperienceFilter:
    """A filter of an agent's memories; None in a field means all."""

    kinds: Collection[MemoryKind] | None = None
    #: Memories with any of these tags.
    tags: Collection[str] | None = None
    task_id: str | None = None
    #: Memories that name any of these participants.
    people: Collection[ParticipantId] | None = None
    #: Memories that share a word with the topic, or weigh more than a learning does by default.
    topic: str | None = None
    #: Whether memories belong to a task.
    is_of_task: bool | None = None
    #: Memories that became true then or later.
    since: datetime | None = None
    #: Whether the newest memories come first. Otherwise memories on the topic come before all other memories, and
    #: heavier memories before lighter memories.
    is_newest_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedMemory:
    """A memory of an agent and its weight: its importance, reduced with age."""

    memory_id: MemoryId
    weight: float
    #: Whether the memory shares a word with the topic; True if there is no topic.
    is_on_topic: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryState:
    """Whether memories that were read before are unchanged."""

    all_stand: bool
    #: Changes when the agent gains or loses a memory.
    mark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderAccounts:
    """Whether the viewer is an agent, and every account of the viewer."""

    is_agent: bool
    own_ids: Sequence[ParticipantId]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageScene(ReaderAccounts):
    """The viewer, the topic of a message's conversation, and its participants."""

    topic: str
    people: Sequence[ParticipantId]


@dataclass(frozen=True, slots=True, kw_only=True)
class NearbyMessage:
    """A message of a room, and the participants it addresses according to the platform."""

    id: MessageId
    author_id: ParticipantId
    author_name: str
    author_kind: ParticipantKind
    sent_at: datetime
    body: str
    #: The message that this message answers according to the platform; None if the viewer may not see it.
    answers: MessageId | None
    calls: Sequence[ParticipantId]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomParticipant:
    """A participant of a room, by a name that the viewer may know."""

    id: ParticipantId
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReply:
    """A reply of an agent, and the message that it answers."""

    reply_id: MessageId
    room_id: RoomId
    agent_id: ParticipantId
    agent_name: str
    reply: str
    sent_at: datetime
    #: When either message was last edited.
    edited_at: datetime | None
    trigger_id: MessageId
    other_id: ParticipantId
    other_name: str
    other_kind: ParticipantKind
    trigger: str
    #: Whether the two had met before.
    has_met: bool
    #: Whether the message was addressed to the agent.
    is_addressed: bool
    sensitivity: Sensitivity


@QUERIES.query
async def refresh_interactions(
    conn: Connection, org_id: OrgId, conversation_ids: Collection[ConversationId]
) -> None:
    """Recount the interactions of agents and participants in conversations."""
    ...


@QUERIES.query
async def interactions(
    conn: Connection,
    org_id: OrgId,
    agent_ids: Collection[ParticipantId],
    *,
    people: Collection[ParticipantId] | None = None,
    at: datetime,
    half_life: timedelta,
) -> list[InteractionStats]:
    """Return the visible interactions of an agent, by all its accounts, with everybody or only with `people`.

    The result also has everybody in whom trust was stated.
    """
    ...


@QUERIES.query
async def state_trust(
    conn: Connection,
    org_id: OrgId,
    *,
    agent_id: ParticipantId,
    participant_id: ParticipantId,
    agent_ids: Collection[ParticipantId],
    participant_ids: Collection[ParticipantId],
    trust: float,
    at: datetime,
    by: ParticipantId | None,
) -> RowCount:
    """Store how far an agent trusts a person. It replaces what was stated for any of their accounts.

    Return 0 if an account is gone.
    """
    ...


@QUERIES.query
async def withdraw_trust(
    conn: Connection,
    org_id: OrgId,
    agent_ids: Collection[ParticipantId],
    participant_ids: Collection[ParticipantId],
) -> RowCount:
    """Remove the stated trust of an agent in a person."""
    ...


@QUERIES.query
async def import_trust(
    conn: Connection,
    org_id: OrgId,
    stated: Sequence[tuple[ParticipantId, ParticipantId, float, datetime]],
) -> RowCount:
    """Store how far agents trust participants, and since when. Trust that is stated already stays."""
    ...


@QUERIES.query
async def weighted_memories(
    conn: Connection,
    agent_ids: Collection[ParticipantId],
    wanted: ExperienceFilter,
    *,
    at: datetime,
    limit: int,
) -> list[WeightedMemory]:
    """Return the visible active memories of an agent that match the filter, in the order that the filter asks for."""
    ...


@QUERIES.query
async def memory_state(
    conn: Connection, org_id: OrgId, agent_ids: Collection[ParticipantId], memory_ids: Collection[MemoryId]
) -> MemoryState:
    """Return whether these memories are all active, unchanged and visible, and a mark of all memories of the agent."""
    ...


@QUERIES.query
async def message_scene(
    conn: Connection, org_id: OrgId, message_id: MessageId, *, limit: int = MAX_PARTICIPANTS
) -> MessageScene:
    """Return the topic and participants of a message's conversation.

    If the viewer may not see it, return only the author.
    """
    ...


@QUERIES.query
async def reader_accounts(conn: Connection) -> ReaderAccounts:
    """Return the accounts of the viewer, and whether the viewer is an agent."""
    ...


@QUERIES.query
async def nearby_messages(
    conn: Connection, org_id: OrgId, message: Message, *, before: int, after: int
) -> list[NearbyMessage]:
    """Return the visible messages of a room around a message, newest first.

    The result has up to `before` messages that end with the message, and up to `after` messages that follow it.

    A message addresses the participants that it mentions. It also addresses the author of the message that it answers,
    the audience of a whisper, and the members of a direct room. Inferred replies and mentions are ignored.
    """
    ...


@QUERIES.query
async def participant_names(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, limit: int = MAX_PARTICIPANTS
) -> list[RoomParticipant]:
    """Return the participants of a room by names that the viewer may know, the viewer's own accounts first."""
    ...


@QUERIES.query
async def enqueue_reply(
    conn: Connection, org_id: OrgId, *, reply_id: MessageId, trigger_id: MessageId
) -> RowCount:
    """Enqueue a reply of an agent, which may become a memory. Return 0 if the reply was enqueued already."""
    ...


@QUERIES.query
async def agent_replies(
    conn: Connection, org_id: OrgId, reply_ids: Collection[MessageId]
) -> list[AgentReply]:
    """Return the given replies that are enqueued, with the messages that they answer.

    Omit a reply if either message is gone.
    """
    ...
