"""What reads return: frozen records, times aware and in UTC."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from roomlore.domain.ids import MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import MessageKind, ParticipantKind, Precision, RoomKind, Visibility

ReplyMethod = Literal["explicit", "thread", "mention", "inferred"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """For whom a read is made: one participant, or the operator, who sees everything in the org."""

    org_id: OrgId
    #: None is the operator.
    participant_id: ParticipantId | None

    @property
    def is_operator(self) -> bool:
        """Whether this viewer sees everything in the org."""
        return self.participant_id is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """A room as its viewer sees it: counts and times cover only what the viewer may read."""

    id: RoomId
    platform: str
    external_id: str
    name: str
    kind: RoomKind
    visibility: Visibility
    topic: str
    message_count: int
    last_activity_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Participant:
    """A human, agent or system that takes part; counts cover only what the viewer may read."""

    id: ParticipantId
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
    precision: Precision
    #: Tells apart messages with the same time; (sent_at, native_order, id) is the order inside a room.
    native_order: int
    edited_at: datetime | None
    redacted_at: datetime | None
    #: The message this one answers by the platform's own word, where the viewer may see it.
    reply_to: MessageId | None

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
