"""What is known of a message: memories that fit it, as far as whoever reads may see them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from roomlore.domain.ids import OrgId, RoomId
from roomlore.domain.records import Memory
from roomlore.store import memories, messages
from roomlore.store.queries import Connection

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
    conn: Connection, org_id: OrgId, body: str, *, room_id: RoomId, sent_at: datetime, threshold: float = RELEVANCE_THRESHOLD
) -> list[MemoryMatch]:
    """Return the memories that stand and fit a message, as far as the reader may see them, those that fit best first.

    What rests on nothing but what was just said in the same room is left out.

    Args:
        conn: Reads for the viewer.
        org_id: Whose.
        body: What the message says.
        room_id: Where.
        sent_at: When.
        bar: How well they fit at least.
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
