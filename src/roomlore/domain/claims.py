"""The input of an extractor (source texts, participants, existing memories) and its output (claims)."""

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
    #: The parent message in the same conversation, if known.
    answers: MessageId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedParticipant:
    """A participant of the room with all known names."""

    id: ParticipantId
    name: str
    #: First name, nickname, account name.
    names: Sequence[str] = ()
    kind: ParticipantKind = "human"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """A span of a message body, in characters, that supports a claim."""

    message_id: MessageId
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A statement in a conversation that is worth remembering."""

    kind: MemoryKind
    title: str
    #: The quoted words with the names of those who said them.
    content: str
    #: At least one quote. The first quote contains the claim. The other quotes contain the words that the claim answers
    #: or corrects, or the words by which somebody agrees.
    quotes: Sequence[Quote]
    #: The author of the first quote.
    author_id: ParticipantId
    #: The people that the claim is about; may be empty.
    subject_ids: frozenset[ParticipantId] = frozenset()
    #: Other authors of the quotes, such as who asked.
    involved_ids: frozenset[ParticipantId] = frozenset()
    #: Between 0 and 1.
    confidence: float
    #: 1..5. None means the default of the kind.
    importance: float | None = None
    #: An existing memory that the claim repeats (`repeats`) or supersedes (`replaces`).
    repeats: MemoryId | None = None
    replaces: MemoryId | None = None
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingMemory:
    """An active memory, as an extractor sees it."""

    id: MemoryId
    kind: MemoryKind
    content: str
    #: None if the memory is about nobody.
    subject_id: ParticipantId | None
    source_ids: Sequence[MessageId]
