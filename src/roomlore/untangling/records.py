"""What untangling reads of a message, and what it finds."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from roomlore.domain.ids import ConversationId, MessageId, ParticipantId
from roomlore.domain.records import Boundary, ReplyMethod


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A message as far as untangling reads it."""

    id: MessageId
    author_id: ParticipantId
    author_name: str
    #: Aware; may be no finer than a minute.
    sent_at: datetime
    body: str
    #: The message that the platform says it answers.
    reply_to: MessageId | None = None
    #: The root of the platform's thread it stands in.
    thread_root: MessageId | None = None
    #: Whom the platform says it mentions.
    mentions: frozenset[ParticipantId] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked:
    """What a message answers."""

    id: MessageId
    #: None where it starts a conversation.
    parent_id: MessageId | None
    #: How that is known; None where it starts a conversation.
    method: ReplyMethod | None
    #: How likely the parent, or that there is none, is right: from 0 to 1.
    confidence: float
    #: Whom it addresses by name.
    addressed: frozenset[ParticipantId] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Untangled:
    """What a message answers, and the conversation it is in."""

    linked: Linked
    conversation_id: ConversationId
    #: Why it opens that conversation; None where it does not.
    boundary: Boundary | None
    #: How long nobody may speak after it until the conversation counts as over.
    quiet_after: timedelta
