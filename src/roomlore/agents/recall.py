"""What an agent remembers for a conversation, kind by kind: for whoever asks, and for the block it reads."""

from collections.abc import Collection
from datetime import datetime, timedelta

from roomlore.context.memoryblock import RankedMemory
from roomlore.domain.ids import OrgId, ParticipantId
from roomlore.domain.records import MemoryKind
from roomlore.store import agents, memories
from roomlore.store.agents import ExperienceFilter
from roomlore.store.queries import Connection

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
        wanted: Which, and in which order.
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
