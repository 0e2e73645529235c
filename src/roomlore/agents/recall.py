"""Finds the memories of an agent that matter for a conversation or a message."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from roomlore.context.memory_section import RankedMemory
from roomlore.db import agents, memories, messages
from roomlore.db.agents import ExperienceFilter
from roomlore.db.queries import Connection
from roomlore.domain.ids import OrgId, ParticipantId, RoomId
from roomlore.domain.records import Memory, MemoryKind

#: Observations that are older than this are left out.
RECENT = timedelta(days=30)


def for_conversation(
    kind: MemoryKind, *, topic: str | None, people: Collection[ParticipantId] | None, at: datetime
) -> ExperienceFilter:
    """Return the filter of one kind of memory for a conversation.

    Interactions are filtered by the people present, observations by age and topic, and all other kinds by topic. If
    `topic` or `people` is None, there is no filter by it.
    """
    if kind == "interaction":
        return ExperienceFilter(kinds=[kind], people=people)
    if kind == "observation":
        return ExperienceFilter(kinds=[kind], topic=topic, since=at - RECENT, is_newest_first=True)
    return ExperienceFilter(kinds=[kind], topic=topic)


async def recall(
    conn: Connection,
    org_id: OrgId,
    agent_ids: Collection[ParticipantId],
    memory_filter: ExperienceFilter,
    *,
    at: datetime,
    limit: int,
) -> list[RankedMemory]:
    """Return the active experiences of all accounts of an agent that the viewer may see, with their weights.

    The weight of a memory depends on its age at the time `at`.
    """
    found = await agents.weighted_memories(conn, agent_ids, memory_filter, at=at, limit=limit)
    read = await memories.memories_by_id(conn, org_id, [one.memory_id for one in found])
    by_id = {memory.id: memory for memory in read}
    return [
        RankedMemory(memory=by_id[one.memory_id], weight=one.weight, is_on_topic=one.is_on_topic)
        for one in found
        if one.memory_id in by_id
    ]


#: The minimum relevance of a memory, and the minimum number of words that it must share with the message.
RELEVANCE_THRESHOLD, FEWEST_WORDS = 0.4, 2
#: If all sources of a memory are messages of the room that are younger than this, the memory is left out, because
#: readers of the room know these messages anyway.
RECENT_MESSAGES = timedelta(minutes=30)
_MAX_CANDIDATES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryMatch:
    """A memory that is relevant to a message."""

    memory: Memory
    #: The share of the message's words that the memory has, 0..1. Rare words count more.
    relevance: float


async def matching_memories(
    conn: Connection,
    org_id: OrgId,
    body: str,
    *,
    room_id: RoomId,
    sent_at: datetime,
    threshold: float = RELEVANCE_THRESHOLD,
) -> list[MemoryMatch]:
    """Return the active memories relevant to a message that the viewer may see, best first.

    A memory whose only sources are recent messages of the same room is left out.
    """
    worded = await memories.lexical_matches(conn, body, wanted=_MAX_CANDIDATES)
    fits = {
        one.memory_id: one.coverage
        for one in worded
        if one.coverage >= threshold and len(one.terms) >= FEWEST_WORDS
    }
    found = await memories.memories_by_id(conn, org_id, list(fits))
    standing = [memory for memory in found if memory.status == "active" and not memory.is_outdated]
    known = await _known_before(conn, org_id, standing, room_id=room_id, since=sent_at - RECENT_MESSAGES)
    best_first = sorted(known, key=lambda memory: (-fits[memory.id], -memory.importance, memory.id))
    return [MemoryMatch(memory=memory, relevance=fits[memory.id]) for memory in best_first]


async def _known_before(
    conn: Connection, org_id: OrgId, active: Sequence[Memory], *, room_id: RoomId, since: datetime
) -> list[Memory]:
    """Return the memories that have a source other than messages of this room since the time `since`."""
    sources = {source for memory in active for source in memory.source_ids}
    fresh = {
        said.id
        for said in await messages.messages_by_id(conn, org_id, list(sources))
        if said.room_id == room_id and said.sent_at >= since
    }
    return [memory for memory in active if not memory.source_ids or set(memory.source_ids) - fresh]
