"""What reads return: frozen records, times aware and in UTC."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from roomlore.domain.ids import ConversationId, KeyId, MemoryId, MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import MessageKind, ParticipantKind, RoomKind, TimestampPrecision, Visibility
from roomlore.domain.words import qualified_room_name


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomMember:
    """A presence of somebody in a room."""

    participant_id: ParticipantId
    name: str
    kind: ParticipantKind
    #: None: since before the records begin.
    joined_at: datetime | None
    #: None: still there.
    left_at: datetime | None
    #: The platform lists it, they wrote there, or an operator said so.
    known_by: Literal["platform", "wrote", "operator"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """Somebody, or a room, that a message names, as the viewer may call them."""

    #: The account or room as its platform knows it.
    external_id: str
    name: str
    #: One of the two.
    participant_id: ParticipantId | None = None
    room_id: RoomId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    """A reaction to a message."""

    emoji: str
    #: How many reacted so.
    count: int
    #: Those of them whom the viewer may know, where the platform says who they are.
    by: Sequence[Mention] = ()


Role = Literal["operator", "agent", "member"]
#: `speak`: say something in rooms, and edit it; `remember`: assert memories; `correct`: say what is wrong with memories of oneself, and put such aside; `arrange`: say what belongs to which conversation, as far as the viewer may see
#: these; `erase own`: what the viewer wrote, and the viewer; `administer`: all else.
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
#: How long nobody speaks in a conversation until it is over, where the pace of its room is not to be told.
DEFAULT_IDLE_TIMEOUT = timedelta(minutes=30)
#: Where a label is from: the words of the conversation, a language model, or a person.
LabelSource = Literal["words", "language model", "person"]
#: Why a conversation is one of its own: nothing had been said before, nobody had spoken for long, others were
#: speaking of something else, or a person said so.
SplitReason = Literal["first", "silence", "topic", "person"]
#: `sensitive`: for those who were members of the rooms of its sources when they were said.
Sensitivity = Literal["normal", "sensitive"]
#: It stands, another took its place, or a person put it aside.
MemoryStatus = Literal["active", "deprecated", "archived"]
#: Of a memory that rests on no message: the whole org, or whoever asserted it alone.
AssertionAudience = Literal["org", "self"]
#: For whom a memory is; `sources`: for those who may read all the messages that it rests on.
MemoryAudience = Literal["org", "self", "sources"]
#: Who stated it, whom it is about, who else said what it rests on, and through whose eyes it was seen.
MemoryRole = Literal["author", "subject", "involved", "perspective"]
#: Where what was read may be posted: in the room, or to those who hear the whisper that is answered. `nowhere`: it was read
#: for the viewer's own eyes, and may hold what others may not read.
Postable = Literal["room", "whisper", "nowhere"]
#: `refused`: there was no such thing, or it was not for the viewer; the two are not told apart.
AuditOutcome = Literal["done", "refused"]

#: Marks a field that no surface shows.
HIDDEN_FIELD = {"shown": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """For whom a read is made: one participant, or the operator, who sees everything in the org."""

    org_id: OrgId
    #: None is the operator.
    participant_id: ParticipantId | None
    #: Other accounts of the same person, as known when the viewer was named.
    accounts: frozenset[ParticipantId] = field(default=frozenset(), compare=False)
    #: What the viewer may change; an operator may everything.
    role: Role = field(default="member", compare=False)
    #: The key the viewer came with; None without one.
    key_id: KeyId | None = field(default=None, compare=False)
    #: Where what is read is to be posted: a room, or a whisper, which is answered to those who hear it. Then nothing is
    #: read that not everybody there could read. None: it is for the viewer's own eyes.
    place: RoomId | MessageId | None = None

    @classmethod
    def operator(cls, org_id: OrgId, *, key_id: KeyId | None = None) -> "Viewer":
        """Return the operator of an org."""
        return cls(org_id=org_id, participant_id=None, role="operator", key_id=key_id)

    @property
    def is_operator(self) -> bool:
        """Whether this viewer sees everything in the org."""
        return self.participant_id is None and self.place is None

    def posting(self, place: RoomId | MessageId) -> "Viewer":
        """Return this viewer as one who reads for what is to be posted at a place."""
        return replace(self, place=place)

    def is_own(self, participant_id: ParticipantId | None) -> bool:
        """Whether a participant is the viewer, by whatever account."""
        return participant_id is not None and (
            participant_id == self.participant_id or participant_id in self.accounts
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """A room as its viewer sees it: counts and times cover only what the viewer may read."""

    id: RoomId
    platform: str
    external_id: str
    #: The server, workspace or network it belongs to; empty where there is none.
    workspace: str
    name: str
    kind: RoomKind
    visibility: Visibility
    topic: str
    message_count: int
    last_activity_at: datetime | None
    #: How long it keeps what is said; None is forever.
    keep_for: timedelta | None
    #: From when on it does; until then it keeps more, and this can be taken back. None where it does so already.
    retention_starts_at: datetime | None

    @property
    def qualified_name(self) -> str:
        """What it is called among all rooms."""
        return qualified_room_name(self.workspace, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Participant:
    """A human, agent or system that takes part; counts cover only what the viewer may read.

    Participants who are accounts of one person are one, as far as the viewer may know them.
    """

    #: The first of the accounts.
    id: ParticipantId
    #: Every account that the viewer may know to be this person's; one where nobody was merged.
    accounts: Sequence[ParticipantId]
    #: The newest.
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
    """How a platform names a participant, and as whom the viewer knows it."""

    platform: str
    account_id: str
    #: Who a shared webhook or bridge account speaks as; empty for an ordinary account.
    persona: str
    #: True where a bridge speaks for somebody of another platform.
    bridged: bool
    participant_id: ParticipantId
    name: str
    kind: ParticipantKind
    #: Whether the viewer may know of another account of the same person.
    is_merged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One thing said once, by its true author."""

    id: MessageId
    room_id: RoomId
    external_id: str
    kind: MessageKind
    author_id: ParticipantId
    #: As displayed when it was said.
    author_name: str
    author_kind: ParticipantKind
    #: Empty once redacted.
    body: str
    sent_at: datetime
    precision: TimestampPrecision
    #: Tells apart messages with the same time; (sent_at, native_order, id) is the order inside a room. It is shown to
    #: nobody: a number of lines counts those that are hidden, too.
    native_order: int = field(default=0, repr=False, compare=False, metadata=HIDDEN_FIELD)
    edited_at: datetime | None
    redacted_at: datetime | None
    #: Set where nothing is left but the place: neither words nor author.
    erased_at: datetime | None = None
    #: The message this one answers by the platform's own word, where the viewer may see it.
    reply_to: MessageId | None
    #: Whom and which rooms it names, as far as the viewer may know them.
    mentions: Sequence[Mention] = field(default=(), hash=False)
    reactions: Sequence[Reaction] = field(default=(), hash=False)
    #: Whatever else it came with; what its platform itself says of it, `platform`, is there for operators alone.
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)

    @property
    def position(self) -> tuple[datetime, int, MessageId]:
        """The place in the room, comparable."""
        return (self.sent_at, self.native_order, self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An edge from a message to the one it answers."""

    child_id: MessageId
    parent_id: MessageId
    method: ReplyMethod
    #: 1.0 for what the platform itself says.
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationParticipant:
    """Somebody who takes part in a conversation."""

    id: ParticipantId
    #: As displayed when they last spoke in it.
    name: str
    kind: ParticipantKind
    message_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """Messages of one topic in one room, all of which its viewer may read."""

    id: ConversationId
    room_id: RoomId
    #: What it is about, in a few words; empty where nothing says it.
    label: str
    #: Whether a person called it so.
    is_named: bool
    label_by: LabelSource
    sensitivity: Sensitivity
    #: None for those who came to a closed room later: it rests on what was said before.
    boundary: SplitReason | None
    opened_at: datetime
    last_at: datetime
    #: It is open until nobody has spoken in it for so long, by the pace of its room; None like `boundary`.
    quiet_after: timedelta | None
    message_count: int
    #: Most talkative first.
    talkers: Sequence[ConversationParticipant]
    #: A person said that it was over with what was said until then.
    closed_at: datetime | None = None

    def is_open_at(self, now: datetime) -> bool:
        """Whether somebody may still go on with it."""
        if self.closed_at is not None and self.closed_at >= self.last_at:
            return False
        return now < self.last_at + (self.quiet_after or DEFAULT_IDLE_TIMEOUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedMessage:
    """A message with what it answers and the conversation it is in, as far as its viewer may see them."""

    message: Message
    #: The one edge that counts: what the platform says before what was found.
    answers: Reply | None
    conversation_id: ConversationId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """What is kept of a key: all but the key itself."""

    id: KeyId
    #: What it is for.
    name: str
    role: Role
    #: With whose eyes its holder reads; None for operators.
    participant_id: ParticipantId | None
    #: What this participant is called now; None for operators.
    participant_name: str | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLine:
    """Who read or changed what, and when; never what was said, asked or answered."""

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
    """Somebody whom a memory names, as the viewer may call them."""

    role: MemoryRole
    name: str
    id: ParticipantId


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySource:
    """A message that a memory rests on, and which words of it: characters of its body, all of it where None."""

    message_id: MessageId
    quote_start: int | None = None
    quote_end: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A durable statement and what it rests on, all of which its viewer may read."""

    id: MemoryId
    kind: MemoryKind
    #: In a few words; empty where the content is short enough.
    title: str
    content: str
    #: 1..5.
    importance: float
    #: How likely it is so, 0..1.
    confidence: float
    sensitivity: Sensitivity
    status: MemoryStatus
    #: What drew it from its sources, "rules" or the name of a language model; None where it was asserted.
    extractor: str | None
    audience: MemoryAudience = "sources"
    #: None where it was not asserted by a participant, or by one of whom the viewer may not know.
    asserted_by: ParticipantId | None
    #: None where no room was named, or one that the viewer may not see.
    asserted_in: RoomId | None
    recorded_at: datetime
    #: Since when it is true, as far as known: as stated, or when the first of its sources was said.
    valid_from: datetime
    #: In the order in which they were said, as far as rooms and clocks agree; empty where it is an assertion alone.
    sources: Sequence[MemorySource]
    #: Only those of whom the viewer may know.
    participants: Sequence[MemoryParticipant]
    tags: Sequence[str]
    #: Whatever else it was given with.
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    #: The work it belongs to, by whatever name that goes elsewhere.
    task_id: str | None
    #: Of what it is the one value, as "home": a later one of the same subject takes its place.
    slot: str | None
    #: Whether a source says something else since the memory was recorded.
    is_outdated: bool
    #: What took its place; None while it stands.
    superseded_by: MemoryId | None

    @property
    def source_ids(self) -> Sequence[MessageId]:
        """The messages it rests on, in the order in which they were said."""
        return [source.message_id for source in self.sources]

    @property
    def subject_ids(self) -> frozenset[ParticipantId]:
        """Whom it is about."""
        return frozenset(person.id for person in self.participants if person.role == "subject")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceMessage:
    """A message that a memory rests on, and what its room is called."""

    message: Message
    #: None where the viewer may read the message but not see the room, as with a whisper from elsewhere.
    room_name: str | None
    #: The conversation it is in; None where there is none, or none that the viewer may see whole.
    conversation_id: ConversationId | None = None
    conversation_label: str = ""
    #: The words of it that count; None: all of them, or it was edited since.
    quote: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """A memory with all that it rests on, in the order in which it was said."""

    memory: Memory
    sources: Sequence[SourceMessage]
    #: What took its place, and the place of that, up to what stands now; empty where the memory itself does.
    successors: Sequence[Memory] = ()
    #: Memories of which it took the place, and they of others, newest first.
    predecessors: Sequence[Memory] = ()
    #: What those are called who asserted it, and the room where they did; None where neither is named or to be known.
    asserted_by_name: str | None = None
    asserted_in_name: str | None = None
