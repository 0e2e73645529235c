"""Builds digests: a room's memories of a period, by kind and by person, and its open questions."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from roomlore.domain.ids import ParticipantId, RoomId
from roomlore.domain.records import Memory, MemoryKind, Message
from roomlore.memories.kinds import DEFAULT_IMPORTANCE

#: How many days before today a digest begins for somebody who never wrote in the room.
DEFAULT_DAYS = 7
#: The kinds that are about people. They are listed by person.
PERSONAL_KINDS: frozenset[MemoryKind] = frozenset({"preference", "fact"})
#: The maximum number of open questions, and of characters of each.
MOST_OPEN_QUESTIONS, LONGEST_QUESTION = 20, 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestSection:
    """The memories of one kind, newest first."""

    kind: MemoryKind
    memories: Sequence[Memory]


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonDigest:
    """What the room learned about one person, newest first."""

    id: ParticipantId
    name: str
    memories: Sequence[Memory]


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """What a room learned within a time, as far as the viewer may see it."""

    room_id: RoomId
    room_name: str
    since: datetime
    #: The most important kind first. Memories about people are only in `people`.
    sections: Sequence[DigestSection]
    #: The person about whom the room learned most comes first.
    people: Sequence[PersonDigest]
    #: The newest questions without a visible answer, oldest first. A question is listed once a worker has read it.
    open_questions: Sequence[Message]
    #: Whether there are more memories than the limit. The oldest ones are left out.
    is_truncated: bool


def default_start(now: datetime) -> datetime:
    """Return where a digest begins for somebody who never wrote in the room."""
    return now.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=DEFAULT_DAYS)


def sections_of(memories: Sequence[Memory]) -> list[DigestSection]:
    """Return the memories that are about no person, by kind, the most important kind first."""
    by_kind: dict[MemoryKind, list[Memory]] = defaultdict(list)
    for memory in memories:
        if not is_personal(memory):
            by_kind[memory.kind].append(memory)
    kinds = sorted(by_kind, key=lambda kind: (-DEFAULT_IMPORTANCE[kind], kind))
    return [DigestSection(kind=kind, memories=by_kind[kind]) for kind in kinds]


def people_of(memories: Sequence[Memory]) -> list[PersonDigest]:
    """Return the memories about each person. A memory about several people is listed with each."""
    found: dict[ParticipantId, list[Memory]] = defaultdict(list)
    names: dict[ParticipantId, str] = {}
    for memory in memories:
        if is_personal(memory):
            for person in memory.participants:
                if person.role == "subject":
                    found[person.id].append(memory)
                    names[person.id] = person.name
    order = sorted(found, key=lambda key: (-len(found[key]), names[key], key))
    return [PersonDigest(id=key, name=names[key], memories=found[key]) for key in order]


def is_personal(memory: Memory) -> bool:
    """Return whether a memory is about a person."""
    return memory.kind in PERSONAL_KINDS and bool(memory.subject_ids)
