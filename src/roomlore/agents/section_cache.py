"""Memory blocks for whoever answers: read from the store, and kept for a while.

A block that is kept is shown again only if every memory in it still stands, as it was and for the viewer to see, and
the agent has got none and lost none since. All of that is asked of the database each time, so that several processes
agree, and nothing has to be told that something was erased, superseded, withheld or left behind with a room. What an
agent may see again appears when the block's time is over, at the latest; then the block is thrown away as well.
"""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from roomlore.agents.recall import for_conversation, recall
from roomlore.context.memory_section import MEMORY_GROUPS, Focus, MemorySection, RankedMemory, compose
from roomlore.db import agents, memories
from roomlore.db.agents import ExperienceFilter
from roomlore.db.queries import Connection
from roomlore.domain.ids import MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.records import Viewer

#: So long a block may be shown again.
CACHE_DURATION = timedelta(minutes=5)
#: Of all agents and rooms together.
MAX_CACHED = 1_000
#: Memories looked at for a section, of which it shows some.
MAX_TASK_MEMORIES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionKey:
    """What a block is for: who answers, where, what it is about and who is present."""

    org_id: OrgId
    #: The account as which the agent reads, and every other that is its own.
    agent_id: ParticipantId
    agent_ids: frozenset[ParticipantId]
    room_id: RoomId
    #: Where the answer is posted, as of the viewer; None: nowhere.
    place: RoomId | MessageId | None
    topic: str
    #: Others than the agent.
    present: frozenset[ParticipantId]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStatistics:
    """How often a block could be shown again, since the process began."""

    asked: int
    hits: int

    @property
    def rate(self) -> float | None:
        """The share of hits; None before the first question."""
        return self.hits / self.asked if self.asked else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedSection:
    section: MemorySection
    #: Of the agent's memories when the block was made.
    version: int
    made_at: datetime


@dataclass(slots=True)
class SectionCache:
    """The blocks that a process keeps: one for each agent, room, place, topic and company, and each budget."""

    #: The oldest first.
    _entries: dict[tuple[SectionKey, int], _CachedSection] = field(
        default_factory=dict[tuple[SectionKey, int], _CachedSection]
    )
    _lookups: Counter[OrgId] = field(default_factory=Counter[OrgId])
    _hits: Counter[OrgId] = field(default_factory=Counter[OrgId])

    def hits(self, org_id: OrgId) -> CacheStatistics:
        """Return how often a block of an org could be shown again; of others nothing is told."""
        return CacheStatistics(asked=self._lookups[org_id], hits=self._hits[org_id])

    async def section(
        self, conn: Connection, key: SectionKey, *, budget: int, now: datetime
    ) -> MemorySection:
        """Return what the agent remembers that may matter, from before where that still holds.

        Args:
            conn: Reads for the agent.
            key: What it is for.
            budget: Tokens.
            now: Tells how old memories are, and kept blocks.
        """
        self._lookups[key.org_id] += 1
        self._evict(now)
        kept = self._entries.get((key, budget))
        ids = [] if kept is None else list(kept.section.citations.values())
        still = await agents.memory_state(conn, key.org_id, key.agent_ids, ids)
        if kept is not None and kept.version == still.mark and still.all_stand:
            self._hits[key.org_id] += 1
            return kept.section
        self._entries.pop((key, budget), None)
        block = await build_section(conn, key, budget=budget, now=now)
        self._entries[key, budget] = _CachedSection(section=block, version=still.mark, made_at=now)
        return block

    def _evict(self, now: datetime) -> None:
        """Forget the blocks whose time is over, and the oldest where there are too many."""
        while self._entries:
            oldest = next(iter(self._entries))
            if now - self._entries[oldest].made_at < CACHE_DURATION and len(self._entries) < MAX_CACHED:
                break
            del self._entries[oldest]


async def build_section(conn: Connection, key: SectionKey, *, budget: int, now: datetime) -> MemorySection:
    """Return what the agent remembers that may matter, as it stands now."""
    org_id, agent_ids = key.org_id, key.agent_ids
    found: list[RankedMemory] = []
    for _, kind, _ in MEMORY_GROUPS.values():
        wanted = for_conversation(kind, topic=key.topic or None, people=key.present, at=now)
        found += await recall(conn, org_id, agent_ids, wanted, at=now, limit=MAX_TASK_MEMORIES)
    names = await memories.known_names(conn, org_id, agent_ids)
    return compose(
        found,
        agent_id=key.agent_id,
        name=names.get(key.agent_id, ""),
        focus=await _focus(conn, key, now=now),
        budget=budget,
    )


async def section_key_of(
    conn: Connection, viewer: Viewer, room_id: RoomId, trigger_id: MessageId
) -> SectionKey | None:
    """Return what a message is about and who is present, as far as the viewer may follow its conversation.

    None for those who are no agents: they have no memories of their own.
    """
    scene = await agents.message_scene(conn, viewer.org_id, trigger_id)
    if viewer.participant_id is None or not scene.is_agent:
        return None
    own = frozenset(scene.own_ids)
    return SectionKey(
        org_id=viewer.org_id,
        agent_id=viewer.participant_id,
        agent_ids=own,
        room_id=room_id,
        place=viewer.place,
        topic=scene.topic,
        present=frozenset(scene.people) - own,
    )


async def _focus(conn: Connection, key: SectionKey, *, now: datetime) -> Focus | None:
    """Return the task that the agent was last at, or else what is talked about."""
    wanted = ExperienceFilter(is_of_task=True, is_newest_first=True)
    for last in await recall(conn, key.org_id, key.agent_ids, wanted, at=now, limit=1):
        memory = last.memory
        if not memory.is_outdated:
            named = f"task {memory.task_id}"
            return Focus(text=f"{named}: {memory.title}" if memory.title else named, memory_id=memory.id)
    return Focus(text=key.topic) if key.topic else None
