"""What an extractor is given of a conversation, and what it finds stated there."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from roomlore.domain.ids import MemoryId, MessageId, ParticipantId
from roomlore.domain.incoming import MessageKind, ParticipantKind
from roomlore.domain.records import MemoryKind


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceText:
    """A message of a conversation, as an extractor reads it."""

    message_id: MessageId
    author_id: ParticipantId
    author_name: str
    author_kind: ParticipantKind
    kind: MessageKind
    body: str
    sent_at: datetime
    #: The message of the same conversation that it answers, where that is known.
    answers: MessageId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedParticipant:
    """Somebody who may be spoken of: whoever takes part in the room, by every name known of them."""

    id: ParticipantId
    name: str
    #: First name, nickname, account: what else they are called.
    names: Sequence[str] = ()
    kind: ParticipantKind = "human"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """A span of a message's body, in characters, that a statement rests on."""

    message_id: MessageId
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Something stated in a conversation that is worth keeping."""

    kind: MemoryKind
    #: In a few words.
    title: str
    #: One sentence that can be read alone: it names whom it is about.
    content: str
    #: At least one; the first is what states it, the others are what it agrees with or what agrees.
    quotes: Sequence[Quote]
    #: Who stated it: the author of the first quote.
    author_id: ParticipantId
    #: Whom it is about; empty where it is about no person.
    subject_ids: frozenset[ParticipantId] = frozenset()
    #: Who else said what it rests on, as those who agreed to a decision.
    involved_ids: frozenset[ParticipantId] = frozenset()
    #: How likely it was meant so, 0..1.
    confidence: float
    #: 1..5; None: what its kind has by default.
    importance: float | None = None
    #: Of what it is the one value, as "home" or "editor", where only one can be true of a subject at a time; a later one
    #: of the same subject takes its place.
    slot: str | None = None
    #: What is remembered already and says the same in other words, or is so no longer because of this.
    repeats: MemoryId | None = None
    replaces: MemoryId | None = None
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingMemory:
    """A memory that stands, as an extractor is told of it."""

    id: MemoryId
    kind: MemoryKind
    content: str
    slot: str | None
    #: Whom it is about; None: nobody.
    subject_id: ParticipantId | None
    #: What it rests on.
    source_ids: Sequence[MessageId]
