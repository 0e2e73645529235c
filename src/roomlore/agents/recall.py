"""What an agent remembers for a conversation, kind by kind: for whoever asks, and for the block it reads."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from roomlore.context.memory_section import RankedMemory
from roomlore.db import agents, memories, messages
from roomlore.db.agents import ExperienceFilter
from roomlore.db.queries import Connection
from roomlore.domain.ids import OrgId, ParticipantId, RoomId
from roomlore.domain.records import Memory, MemoryKind

#: An observation is of use for so long.
RECENT = timedelta(days=30)


def for_conversation(
    kind: MemoryKind, *, topic: str | None, people: Collection[ParticipantId] | None, at: datetime
) -> ExperienceFilter:
    """Return what of one kind matters: interactions with those present, the rest about the topic.

    Args:
        kind: What an agent records of what it lives through.
        topic: What is talked about; nothing narrows nothing.
        people: Who is present; None: whoever it was.
        at: Of observations only those of the time before, the newest first.
    """
    if kind == "interaction":
        # Whatever they were about.
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
    """Return the memories that stand of what an agent saw and that are wanted, as far as the viewer may see them.

    Args:
        conn: Reads for the viewer.
        org_id: Whose.
        agent_ids: Every account of the agent.
        memory_filter: Which, and in which order.
        at: Tells how old they are.
        limit: How many.
    """
    found = await agents.weighted_memories(conn, agent_ids, memory_filter, at=at, limit=limit)
    read = await memories.memories_by_id(conn, org_id, [one.memory_id for one in found])
    by_id = {memory.id: memory for memory in read}
    return [
        RankedMemory(memory=by_id[one.memory_id], weight=one.weight, is_on_topic=one.fits)
        for one in found
        if one.memory_id in by_id
    ]


#: Share of a message's words, by rarity among the memories that have any of them, and how many words at least.
RELEVANCE_THRESHOLD, FEWEST_WORDS = 0.4, 2
#: What was said in the same room so short ago stands before everybody anyway.
RECENT_MESSAGES = timedelta(minutes=30)
_MAX_CANDIDATES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryMatch:
    """A memory that fits a message."""

    memory: Memory
    #: Share of the message's words that it has, by rarity; 0..1.
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
    """Return the memories that stand and fit a message, as far as the reader may see them, those that fit best first.

    What rests on nothing but what was just said in the same room is left out.

    Args:
        conn: Reads for the viewer.
        org_id: Whose.
        body: What the message says.
        room_id: Where.
        sent_at: When.
        threshold: How well they fit at least.
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
    """Return those of these memories that do not rest on what was said in a room since then alone."""
    sources = {source for memory in active for source in memory.source_ids}
    fresh = {
        said.id
        for said in await messages.messages_by_id(conn, org_id, list(sources))
        if said.room_id == room_id and said.sent_at >= since
    }
    return [memory for memory in active if not memory.source_ids or set(memory.source_ids) - fresh]
