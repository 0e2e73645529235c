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
    #: None: since before the records begin.
    joined_at: datetime | None
    #: None: still a member.
    left_at: datetime | None
    #: The platform lists them, they wrote there, or an operator added them.
    known_by: Literal["platform", "wrote", "operator"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipPeriod:
    """A membership of a viewer in a room."""

    room_id: RoomId
    #: Inclusive; None: since before the records begin.
    joined_at: datetime | None
    #: Exclusive; None: still a member.
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
    #: Exactly one of the two is set.
    participant_id: ParticipantId | None = None
    room_id: RoomId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    """A reaction to a message."""

    emoji: str
    count: int
    #: Those who reacted and whom the viewer may know, if the platform names them.
    by: Sequence[Mention] = ()


Role = Literal["operator", "agent", "member"]
#: `speak`: post and edit messages. `remember`: assert memories. `correct`: correct or archive memories about
#: oneself. `arrange`: assign messages to conversations, as far as visible. `erase own`: own messages and the
#: own account. `administer`: everything else.
Right = Literal["speak", "remember", "correct", "arrange", "erase own", "administer"]

RIGHTS: Mapping[Role, frozenset[Right]] = {
    "operator": frozenset({"speak", "remember", "correct", "arrange", "erase own", "administer"}),
    "agent": frozenset({"speak", "remember", "correct", "erase own"}),
    "member": frozenset({"correct", "arrange", "erase own"}),
}


ReplyMethod = Literal["explicit", "thread", "mention", "inferred"]
MemoryKind = Literal[
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
#: Why a conversation was split off: no message before it, a long pause, a new topic, or a person did it.
SplitReason = Literal["first", "idle", "topic", "person"]
#: `sensitive`: only for those who were members when its sources were sent.
Sensitivity = Literal["normal", "sensitive"]
#: Active, superseded by another one, or archived by a person.
MemoryStatus = Literal["active", "deprecated", "archived"]
#: Who may see a memory without sources: the whole org, or only its asserter.
AssertionAudience = Literal["org", "self"]
#: `sources`: everybody who may see all its source messages.
MemoryAudience = Literal["org", "self", "sources"]
#: Who stated it, whom it is about, who else supports it, and who observed it.
MemoryRole = Literal["author", "subject", "involved", "perspective"]
#: Where content may be posted: in the room, or to the audience of the whisper. `nowhere`: it was read for the
#: viewer alone.
Postable = Literal["room", "whisper", "nowhere"]
#: `refused`: not found or not visible; both are logged alike.
AuditOutcome = Literal["done", "refused"]

#: Marks a field that no surface shows.
HIDDEN_FIELD = {"shown": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """The reader of a request: one participant, or the operator, who sees everything in the org."""

    org_id: OrgId
    #: None is the operator.
    participant_id: ParticipantId | None
    #: The other accounts of the same person at the time of the request.
    accounts: frozenset[ParticipantId] = field(default=frozenset(), compare=False)
    #: What the viewer may change.
    role: Role = field(default="member", compare=False)
    #: The key of the request; None without one.
    key_id: KeyId | None = field(default=None, compare=False)
    #: Where the result will be posted: a room, or a whisper that is answered. Then only content that
    #: everybody there may see is read. None: only the viewer reads it.
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
        """Return this viewer, reading for a post at a destination."""
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
    message_count: int
    last_activity_at: datetime | None
    #: The retention period; None is forever.
    retention_period: timedelta | None
    #: When a shorter retention takes effect; it can be revoked until then. None if it is in effect.
    retention_starts_at: datetime | None

    @property
    def qualified_name(self) -> str:
        """The name with its workspace."""
        return qualified_room_name(self.workspace, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Participant:
    """A human, agent or system; counts cover only visible messages.

    Merged accounts are one participant, as far as the viewer may know them.
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
    """A platform account, and the participant it belongs to."""

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
    #: Empty once redacted.
    body: str
    sent_at: datetime
    precision: TimestampPrecision
    #: Orders messages with equal times; (sent_at, sequence, id) is the order in a room. Never shown: line
    #: numbers would reveal hidden messages.
    sequence: int = field(default=0, repr=False, compare=False, metadata=HIDDEN_FIELD)
    edited_at: datetime | None
    redacted_at: datetime | None
    #: Set on a tombstone, which has neither body nor author.
    erased_at: datetime | None = None
    #: The message it replies to by the platform's own data, if visible.
    reply_to: MessageId | None
    #: The mentioned participants and rooms that the viewer may know.
    mentions: Sequence[Mention] = field(default=(), hash=False)
    reactions: Sequence[Reaction] = field(default=(), hash=False)
    #: Other facts; `platform` holds the platform's own and is for operators only.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationParticipant:
    """A participant of a conversation."""

    id: ParticipantId
    #: The display name when they last wrote in it.
    name: str
    kind: ParticipantKind
    message_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """Messages of one topic in one room; the viewer may read all of them."""

    id: ConversationId
    room_id: RoomId
    #: The topic in a few words; may be empty.
    label: str
    #: Whether a person set the label.
    is_named: bool
    label_source: LabelSource
    sensitivity: Sensitivity
    #: None for viewers who joined a closed room later: the value depends on messages before they joined.
    split_reason: SplitReason | None
    opened_at: datetime
    last_at: datetime
    #: The idle timeout, by the pace of the room; None for the same viewers as `split_reason`.
    idle_timeout: timedelta | None
    message_count: int
    #: Most active first.
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
    """A message with its parent and its conversation, as far as visible."""

    message: Message
    #: The effective reply edge: the platform's if there is one, else an inferred one.
    answers: Reply | None
    conversation_id: ConversationId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key without its secret."""

    id: KeyId
    #: Its purpose.
    name: str
    role: Role
    #: The participant whose view its holder has; None for operators.
    participant_id: ParticipantId | None
    #: The current name of this participant.
    participant_name: str | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLine:
    """An audit line: who read or changed what, and when. It holds no content."""

    id: UUID
    at: datetime
    #: None: without a key.
    key_id: KeyId | None
    #: None: the operator.
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
    """A source message of a memory, and the quoted span in characters; None: the whole body."""

    message_id: MessageId
    quote_start: int | None = None
    quote_end: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A durable statement with its sources; the viewer may read all of them."""

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
    #: "rules" or the name of a language model; None if a person asserted it.
    extractor: str | None
    audience: MemoryAudience = "sources"
    #: None if nobody asserted it, or the viewer may not know them.
    asserted_by: ParticipantId | None
    #: None if no room was named, or it is not visible.
    asserted_in: RoomId | None
    recorded_at: datetime
    #: Since when it is true: as stated, or the time of its first source.
    valid_from: datetime
    #: In the order of time; empty for an assertion without sources.
    sources: Sequence[MemorySource]
    #: Only those whom the viewer may know.
    participants: Sequence[MemoryParticipant]
    tags: Sequence[str]
    #: Other facts that came with it.
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    #: The id of the task that it belongs to, from another system.
    task_id: str | None
    #: The single-valued attribute it states, such as "home"; a later value for the same subject supersedes
    #: it.
    attribute: str | None
    #: Whether a source was edited after the memory was recorded.
    is_outdated: bool
    #: None while it is active.
    superseded_by: MemoryId | None

    @property
    def source_ids(self) -> Sequence[MessageId]:
        """The ids of its sources, in the order of time."""
        return [source.message_id for source in self.sources]

    @property
    def subject_ids(self) -> frozenset[ParticipantId]:
        """The participants it is about."""
        return frozenset(person.id for person in self.participants if person.role == "subject")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceMessage:
    """A source message of a memory, with the name of its room."""

    message: Message
    #: None if the message is visible but its room is not, such as a whisper from elsewhere.
    room_name: str | None
    #: None if there is none, or it is not wholly visible.
    conversation_id: ConversationId | None = None
    conversation_label: str = ""
    #: The supporting words; None: all of them, or the message was edited since.
    quote: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """A memory with its sources, in the order of time."""

    memory: Memory
    sources: Sequence[SourceMessage]
    #: The chain of memories that superseded it, up to the active one.
    successors: Sequence[Memory] = ()
    #: The memories that it superseded, directly or indirectly, newest first.
    predecessors: Sequence[Memory] = ()
    #: The names of its asserter and of the room; None if not set or not visible.
    asserted_by_name: str | None = None
    asserted_in_name: str | None = None


def field_values(record: Any) -> dict[str, Any]:
    """Return the fields of a record by name, as a shallow copy."""
    return {each.name: getattr(record, each.name) for each in fields(record)}


def convert(kind: type[Record], record: object, **changed: Any) -> Record:
    """Return a record made from the fields that another one shares with it, and from those that are named."""
    shared = {one.name for one in fields(kind)} - set(changed)  # type: ignore[arg-type]
    return kind(**{name: getattr(record, name) for name in shared if hasattr(record, name)}, **changed)
