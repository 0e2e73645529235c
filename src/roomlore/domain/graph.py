"""The results of graph queries over people, messages and memories: ids and counts, no text."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from roomlore.domain.ids import MemoryId, ParticipantId
from roomlore.domain.projections import NodeLabel
from roomlore.domain.records import MemoryKind

#: The weight of a memory for its subject, and for somebody it only involves.
ABOUT_WEIGHT, INVOLVES_WEIGHT = 2, 1
#: The weight of a memory for a conversation: as its source, and for each shared tag.
SOURCE_WEIGHT, TAG_WEIGHT = 4, 1
_END = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedParticipant:
    """A participant related to another one or to a conversation."""

    participant_id: ParticipantId
    #: The number of replies between the two, or of messages in the conversation.
    count: int
    last: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedMemory:
    """A memory related to a participant or a conversation."""

    memory_id: MemoryId
    kind: MemoryKind
    #: The sum of the weights of all relations.
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedTag:
    """A tag of memories related to a participant."""

    tag_id: UUID
    #: The number of these memories.
    count: int


def sort_key(
    one: RelatedParticipant | RelatedMemory | RelatedTag,
) -> tuple[int, timedelta, int]:
    """Return the sort key: most first, then the latest."""
    match one:
        case RelatedParticipant():
            return -one.count, _END - one.last, one.participant_id.int
        case RelatedMemory():
            return -one.count, timedelta(), -one.memory_id.int
        case RelatedTag():
            return -one.count, timedelta(), one.tag_id.int


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A node near a participant: a User, a Memory or a Tag."""

    id: UUID
    label: NodeLabel
    #: Between 0 and 1; the nearest node of each label has 1.
    score: float


def nearest_neighbours(
    talks: Iterable[RelatedParticipant],
    memories: Iterable[RelatedMemory],
    tags: Iterable[RelatedTag],
    *,
    limit: int,
) -> list[Neighbour]:
    """Return the nearest nodes, nearest first; scores are relative to the nearest of each label."""
    found = [
        *_scored("User", [(one.participant_id, one.count) for one in talks]),
        *_scored("Memory", [(one.memory_id, one.count) for one in memories]),
        *_scored("Tag", [(one.tag_id, one.count) for one in tags]),
    ]
    return sorted(found, key=lambda one: (-one.score, one.label, one.id))[: max(limit, 0)]


def _scored(label: NodeLabel, counted: Sequence[tuple[UUID, int]]) -> list[Neighbour]:
    most = max((count for _, count in counted), default=1)
    return [Neighbour(id=key, label=label, score=count / most) for key, count in counted]
