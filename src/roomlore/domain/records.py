"""The records that reads return: frozen, with times in UTC."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any, Literal, TypeVar
from uuid import UUID

from roomlore.domain.ids import ConversationId, KeyId, MemoryId, MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import MessageKind, ParticipantKind, RoomKind, TimestampPrecision, Visibility
from roomlore.domain.words import qualified_room_name

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomMember:
    """One period of a participant in a room."""

    participant_id: ParticipantId
    name: str
    kind: ParticipantKind
    #: None: the member was present before the records begin.
    joined_at: datetime | None
    #: None: the participant is still a member.
    left_at: datetime | None
    #: How the membership is known: the platform lists it, the participant wrote in the room, or an operator added it.
    known_by: Literal["platform", "wrote", "operator"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipPeriod:
    """A membership of a viewer in a room."""

    room_id: RoomId
    #: Inclusive. None: since before the records begin.
    joined_at: datetime | None
    #: Exclusive. None: the viewer is still a member.
    left_at: datetime | None

    def covers(self, moment: datetime) -> bool:
        """Return whether the moment lies in the period."""
        has_joined = self.joined_at is None or self.joined_at <= moment
        return has_joined and (self.left_at is None or moment < self.left_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """A participant or room that a message mentions, named as the viewer may know it."""

    #: The id on its platform.
    external_id: str
    name: str
    #: Exactly one of the two fields is set.
    participant_id: ParticipantId | None = None
    room_id: RoomId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    """A reaction to a message."""

    emoji: str
    count: int
    #: The participants who reacted, if the platform names them and the viewer may know them.
    by: Sequence[Mention] = ()


Role = Literal["operator", "agent", "member"]
#: `speak`: post and edit messages. `remember`: assert memories. `correct`: correct or archive memories about oneself.
#: `arrange`: assign visible messages to conversations. `erase own`: erase the own messages and the own account.
#: `administer`: everything else.
Right = Literal["speak", "remember", "correct", "arrange", "erase own", "administer"]

RIGHTS: Mapping[Role, frozenset[Right]] = {
    "operator": frozenset({"speak", "remember", "correct", "arrange", "erase own", "administer"}),
    "agent": frozenset({"speak", "remember", "correct", "erase own"}),
    "member": frozenset({"correct", "arrange", "erase own"}),
}


ReplyMethod = Literal["explicit", "thread", "mention", "inferred"]
#: An inferred reply belongs to the exchange of a question if it has at least this confidence, and at least this
#: probability of being an answer (docs/decisions/which-replies-form-a-thread.md).
ANSWER_CONFIDENCE, LOWEST_ANSWER = 0.6, 0.1
MemoryKind = Literal[
    "decision",
    "announcement",
    "answer",
    "promise",
    "resource",
    "technical_decision",
    "process_decision",
    "preference",
    "fact",
    "lesson",
    "pattern",
    "anti_pattern",
    "correction",
    "process_outcome",
    "context",
    "observation",
    "interaction",
    "learning",
    "insight",
]
#: The idle timeout of a conversation if the pace of its room is unknown.
DEFAULT_IDLE_TIMEOUT = timedelta(minutes=30)
LabelSource = Literal["words", "language model", "person"]
#: Why a conversation begins where it does: there is no message before it, a long pause, a new topic, or a person split
#: it off.
SplitReason = Literal["first", "idle", "topic", "person"]
#: `sensitive`: only for people who were members when the sources were sent.
Sensitivity = Literal["normal", "sensitive"]
#: Active, superseded by another memory, or archived by a person.
MemoryStatus = Literal["active", "deprecated", "archived"]
#: Who may see a memory without sources: the whole org, or only its asserter.
AssertionAudience = Literal["org", "self"]
#: `sources`: everybody who may see all source messages.
MemoryAudience = Literal["org", "self", "sources"]
#: Who stated the memory, whom it is about, who else supports it, and who observed it.
MemoryRole = Literal["author", "subject", "involved", "perspective"]
#: Where content may be posted: in the room, or to the audience of the whisper. `nowhere`: it was read for the viewer
#: alone.
Postable = Literal["room", "whisper", "nowhere"]
#: `refused`: not found or not visible. Both are logged in the same way.
AuditOutcome = Literal["done", "refused"]

#: Marks a field that no surface shows.
HIDDEN_FIELD = {"shown": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """The reader of a request: one participant, or the operator, who sees everything in the org."""

    org_id: OrgId
    #: None means the operator.
    participant_id: ParticipantId | None
    #: The other accounts of the same person at the time of the request.
    accounts: frozenset[ParticipantId] = field(default=frozenset(), compare=False)
    #: What the viewer may change.
    role: Role = field(default="member", compare=False)
    #: The key of the request; None without a key.
    key_id: KeyId | None = field(default=None, compare=False)
    #: Where the result will be posted: a room, or a whisper that is answered. The read then returns only content that
    #: everybody there may see. None: only the viewer reads the result.
    destination: RoomId | MessageId | None = None

    @classmethod
    def operator(cls, org_id: OrgId, *, key_id: KeyId | None = None) -> "Viewer":
        """Return the operator of an org."""
        return cls(org_id=org_id, participant_id=None, role="operator", key_id=key_id)

    @property
    def is_operator(self) -> bool:
        """Whether this viewer sees everything in the org."""
        return self.participant_id is None and self.destination is None

    def posting(self, destination: RoomId | MessageId) -> "Viewer":
        """Return this viewer, bound to a destination where the result will be posted."""
        return replace(self, destination=destination)

    def is_own(self, participant_id: ParticipantId | None) -> bool:
        """Return whether a participant is an account of the viewer."""
        return participant_id is not None and (
            participant_id == self.participant_id or participant_id in self.accounts
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """A room as its viewer sees it: counts and times cover only visible messages."""

    id: RoomId
    platform: str
    external_id: str
    #: The server, workspace or network of the room; may be empty.
    workspace: str
    name: str
    kind: RoomKind
    visibility: Visibility
    topic: str
    #: The project or issue of the room: an id from another system. Several rooms may have the same.
    context_id: str | None
    message_count: int
    last_activity_at: datetime | None
    #: The retention period. None means forever.
    retention_period: timedelta | None
    #: When a shorter retention takes effect. Until then, it can be revoked. None if it is in effect.
    retention_starts_at: datetime | None

    @property
    def qualified_name(self) -> str:
        """The name with its workspace."""
        return qualified_room_name(self.workspace, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Participant:
    """A human, agent or system. The counts cover only visible messages.

    Merged accounts that the viewer may know are one participant.
    """

    #: The first of the accounts.
    id: ParticipantId
    #: All accounts of the person that the viewer may know.
    accounts: Sequence[ParticipantId]
    #: The newest name.
    name: str
    kind: ParticipantKind
    message_count: int
    first_seen_at: datetime | None
    last_seen_at: datetime | None

    @property
    def is_bot(self) -> bool:
        """Whether this participant is an agent."""
        return self.kind == "agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A platform account, and the participant that it belongs to."""

    platform: str
    account_id: str
    #: The speaker behind a shared webhook or bridge account; empty for an ordinary account.
    persona: str
    #: True if a bridge relays a person from another platform.
    bridged: bool
    participant_id: ParticipantId
    name: str
    kind: ParticipantKind
    #: Whether the viewer may know another account of the same person.
    is_merged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message with its true author."""

    id: MessageId
    room_id: RoomId
    external_id: str
    kind: MessageKind
    author_id: ParticipantId
    #: The display name at the time of the message.
    author_name: str
    author_kind: ParticipantKind
    #: Empty if the message was redacted.
    body: str
    sent_at: datetime
    precision: TimestampPrecision
    #: Orders messages with equal times. The order in a room is (sent_at, sequence, id). Never shown, because line
    #: numbers would reveal hidden messages.
    sequence: int = field(default=0, repr=False, compare=False, metadata=HIDDEN_FIELD)
    edited_at: datetime | None
    redacted_at: datetime | None
    #: Set on a tombstone. A tombstone has neither body nor author.
    erased_at: datetime | None = None
    #: The message that it replies to by the platform's own data; None if this message is not visible.
    reply_to: MessageId | None
    #: The mentioned participants and rooms that the viewer may know.
    mentions: Sequence[Mention] = field(default=(), hash=False)
    reactions: Sequence[Reaction] = field(default=(), hash=False)
    #: Other facts. `platform` has the platform's own facts and is for operators only.
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)

    @property
    def position(self) -> tuple[datetime, int, MessageId]:
        """The sort key of the message in its room."""
        return (self.sent_at, self.sequence, self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A reply edge."""

    child_id: MessageId
    parent_id: MessageId
    method: ReplyMethod
    #: 1.0 if the platform states it.
    confidence: float
    #: The probability that the child answers the parent; None if the platform states the reply, the reply is less
    #: confident than ANSWER_CONFIDENCE, or the parent is no question of somebody else.
    answer_probability: float | None = None

    @property
    def is_answer(self) -> bool:
        """Whether an inferred reply belongs to the exchange of its parent.

        The view `thread_edges` has the same rule.
        """
        return self.confidence >= ANSWER_CONFIDENCE and (self.answer_probability or 0.0) >= LOWEST_ANSWER


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationParticipant:
    """A participant of a conversation."""

    id: ParticipantId
    #: The display name when they last wrote in the conversation.
    name: str
    kind: ParticipantKind
    message_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """Messages of one topic in one room. The viewer may read all of them."""

    id: ConversationId
    room_id: RoomId
    #: The topic in a few words; may be empty.
    label: str
    #: Whether a person set the label.
    is_named: bool
    label_source: LabelSource
    sensitivity: Sensitivity
    #: None for viewers who joined a closed room later, because the value depends on messages before they joined.
    split_reason: SplitReason | None
    opened_at: datetime
    last_at: datetime
    #: The idle timeout, by the pace of the room. None for the viewers for whom `split_reason` is None.
    idle_timeout: timedelta | None
    message_count: int
    #: The most active participant comes first.
    participants: Sequence[ConversationParticipant]
    #: When a person closed it. A later message opens it again.
    closed_at: datetime | None = None

    def is_open_at(self, now: datetime) -> bool:
        """Return whether new messages may still join the conversation."""
        if self.closed_at is not None and self.closed_at >= self.last_at:
            return False
        return now < self.last_at + (self.idle_timeout or DEFAULT_IDLE_TIMEOUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedMessage:
    """A message with its parent and its conversation, if they are visible."""

    message: Message
    #: The effective reply edge: the platform's edge if there is one, otherwise an inferred edge.
    answers: Reply | None
    conversation_id: ConversationId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key without its secret."""

    id: KeyId
    #: Its purpose.
    name: str
    role: Role
    #: The participant whose view the holder of the key has; None for operators.
    participant_id: ParticipantId | None
    #: The current name of this participant.
    participant_name: str | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLine:
    """An audit line: who read or changed what, and when. It contains no content."""

    id: UUID
    at: datetime
    #: None: the request had no key.
    key_id: KeyId | None
    #: None means the operator.
    viewer_id: ParticipantId | None
    #: "search", "redact", "erase person", …
    action: str
    outcome: AuditOutcome
    #: Ids of the rooms, messages, participants and memories that were shown or changed.
    subject_ids: Sequence[UUID]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class MemoryParticipant:
    """A participant that a memory names, as the viewer may know them."""

    role: MemoryRole
    name: str
    id: ParticipantId


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySource:
    """A source message of a memory, and the quoted span in characters. Without a span, the whole body is quoted."""

    message_id: MessageId
    quote_start: int | None = None
    quote_end: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A durable statement with its sources. The viewer may read all of them."""

    id: MemoryId
    kind: MemoryKind
    #: May be empty if the content is short.
    title: str
    content: str
    #: 1..5.
    importance: float
    #: Between 0 and 1.
    confidence: float
    sensitivity: Sensitivity
    status: MemoryStatus
    #: The name of the extractor: "message model" or that of a language model; None if a person asserted it.
    extractor: str | None
    audience: MemoryAudience = "sources"
    #: None if nobody asserted it, or if the viewer may not know the asserter.
    asserted_by: ParticipantId | None
    #: None if no room was named, or if the room is not visible.
    asserted_in: RoomId | None
    recorded_at: datetime
    #: Since when the memory is true: as stated, or the time of its first source.
    valid_from: datetime
    #: In the order of time. Empty if the memory was asserted without sources.
    sources: Sequence[MemorySource]
    #: Only participants whom the viewer may know.
    participants: Sequence[MemoryParticipant]
    tags: Sequence[str]
    #: Other facts that came with the memory.
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    #: The id of the task that the memory belongs to. It comes from another system.
    task_id: str | None
    #: Whether a source was edited after the memory was recorded.
    is_outdated: bool
    #: None while the memory is active.
    superseded_by: MemoryId | None

    @property
    def source_ids(self) -> Sequence[MessageId]:
        """The ids of its sources, in the order of time."""
        return [source.message_id for source in self.sources]

    @property
    def subject_ids(self) -> frozenset[ParticipantId]:
        """The participants that the memory is about."""
        return frozenset(person.id for person in self.participants if person.role == "subject")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceMessage:
    """A source message of a memory, with the name of its room."""

    message: Message
    #: None if the message is visible but its room is not. This is possible for a whisper from another room.
    room_name: str | None
    #: None if there is none, or if it is not wholly visible.
    conversation_id: ConversationId | None = None
    conversation_label: str = ""
    #: The supporting words. None: all words of the message, or the message was edited since.
    quote: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """A memory with its sources, in the order of time."""

    memory: Memory
    sources: Sequence[SourceMessage]
    #: The chain of memories that superseded it, up to the active memory.
    successors: Sequence[Memory] = ()
    #: The memories that it superseded, directly or indirectly, newest first.
    predecessors: Sequence[Memory] = ()
    #: The names of the asserter and of the room; None if not set or not visible.
    asserted_by_name: str | None = None
    asserted_in_name: str | None = None


def field_values(record: Any) -> dict[str, Any]:
    """Return the fields of a record by name, as a shallow copy."""
    return {each.name: getattr(record, each.name) for each in fields(record)}


def convert(kind: type[Record], record: object, **changed: Any) -> Record:
    """Return a record of type `kind`.

    Its values come from the fields of the same name in `record`; the keyword arguments override them.
    """
    shared = {one.name for one in fields(kind)} - set(changed)  # type: ignore[arg-type]
    return kind(**{name: getattr(record, name) for name in shared if hasattr(record, name)}, **changed)
