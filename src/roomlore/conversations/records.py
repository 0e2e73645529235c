"""What untangling reads of a message, and what it finds."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from roomlore.domain.ids import ConversationId, MessageId, ParticipantId
from roomlore.domain.records import ReplyMethod, SplitReason


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationMessage:
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
class ReplyLink:
    """What a message answers."""

    id: MessageId
    #: None where it starts a conversation.
    parent_id: MessageId | None
    #: How that is known; None where it starts a conversation.
    method: ReplyMethod | None
    #: How likely the parent, or that there is none, is right: from 0 to 1.
    confidence: float
    #: Whom it addresses by name.
    addressed_ids: frozenset[ParticipantId] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What a message answers, and the conversation it is in."""

    link: ReplyLink
    conversation_id: ConversationId
    #: Why it opens that conversation; None where it does not.
    boundary: SplitReason | None
    #: How long nobody may speak after it until the conversation counts as over.
    idle_timeout: timedelta
