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
from roomlore.context.memoryblock import SECTIONS, Focus, MemoryBlock, Recollection, compose
from roomlore.domain.ids import MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.records import Viewer
from roomlore.store import agents, memories
from roomlore.store.agents import Wanted
from roomlore.store.queries import Connection

#: So long a block may be shown again.
KEPT_FOR = timedelta(minutes=5)
#: Of all agents and rooms together.
MOST_KEPT = 1_000
#: Memories looked at for a section, of which it shows some.
LOOKED_AT = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
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
class Hits:
    """How often a block could be shown again, since the process began."""

    asked: int
    hits: int

    @property
    def rate(self) -> float | None:
        """The share of hits; None before the first question."""
        return self.hits / self.asked if self.asked else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    block: MemoryBlock
    #: Of the agent's memories when the block was made.
    mark: int
    made_at: datetime


@dataclass(slots=True)
class Blocks:
    """The blocks that a process keeps: one for each agent, room, place, topic and company, and each budget."""

    #: The oldest first.
    _kept: dict[tuple[Occasion, int], _Kept] = field(default_factory=dict[tuple[Occasion, int], _Kept])
    _asked: Counter[OrgId] = field(default_factory=Counter[OrgId])
    _hits: Counter[OrgId] = field(default_factory=Counter[OrgId])

    def hits(self, org_id: OrgId) -> Hits:
        """Return how often a block of an org could be shown again; of others nothing is told."""
        return Hits(asked=self._asked[org_id], hits=self._hits[org_id])

    async def block(self, conn: Connection, occasion: Occasion, *, budget: int, now: datetime) -> MemoryBlock:
        """Return what the agent remembers that may matter, from before where that still holds.

        Args:
            conn: Reads for the agent.
            occasion: What it is for.
            budget: Tokens.
            now: Tells how old memories are, and kept blocks.
        """
        self._asked[occasion.org_id] += 1
        self._throw_away(now)
        kept = self._kept.get((occasion, budget))
        ids = [] if kept is None else list(kept.block.citations.values())
        still = await agents.known_still(conn, occasion.org_id, occasion.agent_ids, ids)
        if kept is not None and kept.mark == still.mark and still.all_stand:
            self._hits[occasion.org_id] += 1
            return kept.block
        self._kept.pop((occasion, budget), None)
        block = await read_block(conn, occasion, budget=budget, now=now)
        self._kept[occasion, budget] = _Kept(block=block, mark=still.mark, made_at=now)
        return block

    def _throw_away(self, now: datetime) -> None:
        """Forget the blocks whose time is over, and the oldest where there are too many."""
        while self._kept:
            oldest = next(iter(self._kept))
            if now - self._kept[oldest].made_at < KEPT_FOR and len(self._kept) < MOST_KEPT:
                break
            del self._kept[oldest]


async def read_block(conn: Connection, occasion: Occasion, *, budget: int, now: datetime) -> MemoryBlock:
    """Return what the agent remembers that may matter, as it stands now."""
    org_id, agent_ids = occasion.org_id, occasion.agent_ids
    found: list[Recollection] = []
    for _, kind, _ in SECTIONS.values():
        wanted = for_conversation(kind, topic=occasion.topic or None, people=occasion.present, at=now)
        found += await recall(conn, org_id, agent_ids, wanted, at=now, limit=LOOKED_AT)
    names = await memories.known_names(conn, org_id, agent_ids)
    return compose(
        found,
        agent_id=occasion.agent_id,
        name=names.get(occasion.agent_id, ""),
        focus=await _focus(conn, occasion, now=now),
        budget=budget,
    )


async def occasion_of(
    conn: Connection, viewer: Viewer, room_id: RoomId, trigger_id: MessageId
) -> Occasion | None:
    """Return what a message is about and who is present, as far as the viewer may follow its conversation.

    None for those who are no agents: they have no memories of their own.
    """
    scene = await agents.scene(conn, viewer.org_id, trigger_id)
    if viewer.participant_id is None or not scene.is_agent:
        return None
    own = frozenset(scene.own_ids)
    return Occasion(
        org_id=viewer.org_id,
        agent_id=viewer.participant_id,
        agent_ids=own,
        room_id=room_id,
        place=viewer.place,
        topic=scene.topic,
        present=frozenset(scene.people) - own,
    )


async def _focus(conn: Connection, occasion: Occasion, *, now: datetime) -> Focus | None:
    """Return the task that the agent was last at, or else what is talked about."""
    wanted = Wanted(is_of_task=True, is_newest_first=True)
    for last in await recall(conn, occasion.org_id, occasion.agent_ids, wanted, at=now, limit=1):
        memory = last.memory
        if not memory.is_outdated:
            named = f"task {memory.task_id}"
            return Focus(text=f"{named}: {memory.title}" if memory.title else named, memory_id=memory.id)
    return Focus(text=occasion.topic) if occasion.topic else None
