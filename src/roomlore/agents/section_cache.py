"""Caches the memory section of an agent's prompt for some minutes.

A cached section is used only if all its memories are still active, unchanged and visible, and if the agent's set of
memories is the same. The database is asked each time. So several processes agree, and nothing needs to be invalidated.
If a memory becomes visible to the agent again, it appears in the section when the cached section expires, or earlier.
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

#: The lifetime of a cached section.
CACHE_DURATION = timedelta(minutes=5)
#: The maximum number of sections in the cache, for all agents and rooms together.
MAX_CACHED = 1_000
#: The maximum number of memories of each kind that are read for a section.
MAX_TASK_MEMORIES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionKey:
    """The cache key of a memory section: the agent, the room, the topic and the people present."""

    org_id: OrgId
    #: The agent's account for which the section is read, and all accounts of the agent.
    agent_id: ParticipantId
    agent_ids: frozenset[ParticipantId]
    room_id: RoomId
    #: Where the answer will be posted; None if it will not be posted.
    destination: RoomId | MessageId | None
    topic: str
    #: The participants of the conversation, without the agent.
    present: frozenset[ParticipantId]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStatistics:
    """Lookups and hits since the process began."""

    asked: int
    hits: int

    @property
    def rate(self) -> float | None:
        """The share of lookups that were hits, 0..1; None before the first lookup."""
        return self.hits / self.asked if self.asked else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedSection:
    section: MemorySection
    #: The version of the agent's memories.
    version: int
    made_at: datetime


@dataclass(slots=True)
class SectionCache:
    """The sections that this process caches, by key and token budget."""

    #: The cached sections, oldest first.
    _entries: dict[tuple[SectionKey, int], _CachedSection] = field(
        default_factory=dict[tuple[SectionKey, int], _CachedSection]
    )
    _lookups: Counter[OrgId] = field(default_factory=Counter[OrgId])
    _hits: Counter[OrgId] = field(default_factory=Counter[OrgId])

    def hits(self, org_id: OrgId) -> CacheStatistics:
        """Return the statistics of one org."""
        return CacheStatistics(asked=self._lookups[org_id], hits=self._hits[org_id])

    async def section(
        self, conn: Connection, key: SectionKey, *, budget: int, now: datetime
    ) -> MemorySection:
        """Return the memory section of the connection's viewer.

        It comes from the cache if the cached section is still valid.
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
        """Drop expired sections. If there are too many sections, drop the oldest."""
        while self._entries:
            oldest = next(iter(self._entries))
            if now - self._entries[oldest].made_at < CACHE_DURATION and len(self._entries) < MAX_CACHED:
                break
            del self._entries[oldest]


async def build_section(conn: Connection, key: SectionKey, *, budget: int, now: datetime) -> MemorySection:
    """Return a new memory section, with the weights of memories at the time `now`."""
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
    """Return the section key for answering a message; None if the viewer is no agent.

    The key is built from the message's conversation as the viewer sees it.
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
        destination=viewer.destination,
        topic=scene.topic,
        present=frozenset(scene.people) - own,
    )


async def _focus(conn: Connection, key: SectionKey, *, now: datetime) -> Focus | None:
    """Return the focus of an agent; None if there is none.

    The focus is the task of the agent's newest memory with a task, unless a source of this memory was edited.
    Otherwise, it is the topic.
    """
    wanted = ExperienceFilter(is_of_task=True, is_newest_first=True)
    for last in await recall(conn, key.org_id, key.agent_ids, wanted, at=now, limit=1):
        memory = last.memory
        if not memory.is_outdated:
            named = f"task {memory.task_id}"
            return Focus(text=f"{named}: {memory.title}" if memory.title else named, memory_id=memory.id)
    return Focus(text=key.topic) if key.topic else None
