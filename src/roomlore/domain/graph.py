"""What a graph of people, messages and memories answers: ids, and numbers of them, and no text."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from roomlore.domain.ids import MemoryId, ParticipantId
from roomlore.domain.projections import NodeLabel
from roomlore.domain.records import MemoryKind

#: What a memory weighs for somebody it is about, and for somebody it only involves.
ABOUT_WEIGHT, INVOLVES_WEIGHT = 2, 1
#: What it weighs for a conversation that it rests on something of, and that it shares a tag with.
SOURCE_WEIGHT, TAG_WEIGHT = 4, 1
_END = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationPartner:
    """Whom a participant talked to: answered, or was answered by."""

    participant_id: ParticipantId
    #: How many replies lie between the two.
    count: int
    #: When the last of them was sent.
    last: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationAuthor:
    """Somebody who wrote in a conversation."""

    participant_id: ParticipantId
    #: How many messages.
    count: int
    #: When the last of them was sent.
    last: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedMemory:
    """A memory that has to do with somebody, or with a conversation."""

    memory_id: MemoryId
    kind: MemoryKind
    #: How much it has to do with them: the sum of what each tie weighs.
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedTag:
    """A tag of the memories that have to do with somebody."""

    tag_id: UUID
    #: How many of these memories have it.
    count: int


def sort_key(
    one: ConversationPartner | ConversationAuthor | RelatedMemory | RelatedTag,
) -> tuple[int, timedelta, int]:
    """Return what these are ordered by: the least comes first."""
    match one:
        case ConversationPartner() | ConversationAuthor():
            return -one.count, _END - one.last, one.participant_id.int
        case RelatedMemory():
            return -one.count, timedelta(), -one.memory_id.int
        case RelatedTag():
            return -one.count, timedelta(), one.tag_id.int


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """What is near a participant: a User, a Memory or a Tag."""

    id: UUID
    label: NodeLabel
    #: From 0 to 1, which the nearest one of its label has.
    score: float


def nearest_neighbours(
    talks: Iterable[ConversationPartner],
    memories: Iterable[RelatedMemory],
    tags: Iterable[RelatedTag],
    *,
    limit: int,
) -> list[Neighbour]:
    """Return the nearest of people, memories and tags, nearest first; each label is measured by its own nearest."""
    found = [
        *_scored("User", [(one.participant_id, one.count) for one in talks]),
        *_scored("Memory", [(one.memory_id, one.count) for one in memories]),
        *_scored("Tag", [(one.tag_id, one.count) for one in tags]),
    ]
    return sorted(found, key=lambda one: (-one.score, one.label, one.id))[: max(limit, 0)]


def _scored(label: NodeLabel, counted: Sequence[tuple[UUID, int]]) -> list[Neighbour]:
    most = max((count for _, count in counted), default=1)
    return [Neighbour(id=key, label=label, score=count / most) for key, count in counted]
