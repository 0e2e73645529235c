"""Memory blocks for whoever answers: read from the store, and kept for a while.

A block that is kept is shown again only if every memory in it still stands, as it was and for the viewer to see, and
the agent has got none and lost none since. All of that is asked of the database each time, so that several processes
agree, and nothing has to be told that something was erased, superseded, withheld or left behind with a room. What an
agent may see again appears when the block's time is over, at the latest.
"""

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from roomlore.context.memoryblock import SECTIONS, Focus, MemoryBlock, Recollection, Section, compose
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

    viewer: Viewer
    #: Every account of the agent that reads.
    agent_ids: frozenset[ParticipantId]
    room_id: RoomId
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
    occasion: Occasion
    block: MemoryBlock
    #: Of the agent's memories when the block was made.
    mark: int
    made_at: datetime


@dataclass(slots=True)
class Blocks:
    """The blocks that a process keeps: one for each agent and room, that of the last topic."""

    _kept: OrderedDict[tuple[Viewer, RoomId], _Kept] = field(
        default_factory=OrderedDict[tuple[Viewer, RoomId], _Kept]
    )
    _asked: int = 0
    _hits: int = 0

    @property
    def hits(self) -> Hits:
        """How often a block could be shown again."""
        return Hits(asked=self._asked, hits=self._hits)

    async def block(self, conn: Connection, occasion: Occasion, *, budget: int, now: datetime) -> MemoryBlock:
        """Return what the agent remembers that may matter, from before where that still holds.

        Args:
            conn: Reads for the agent.
            occasion: What it is for.
            budget: Tokens.
            now: Tells how old memories are, and kept blocks.
        """
        key = (occasion.viewer, occasion.room_id)
        kept = self._kept.pop(key, None)
        self._asked += 1
        ids = [] if kept is None else list(kept.block.citations.values())
        still = await agents.known_still(conn, occasion.viewer.org_id, occasion.agent_ids, ids)
        if (
            kept is not None
            and (kept.occasion, kept.block.budget, kept.mark) == (occasion, budget, still.mark)
            and now - kept.made_at < KEPT_FOR
            and still.all_stand
        ):
            self._hits += 1
        else:
            block = await read_block(conn, occasion, budget=budget, now=now)
            kept = _Kept(occasion=occasion, block=block, mark=still.mark, made_at=now)
        self._kept[key] = kept
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return kept.block


async def read_block(conn: Connection, occasion: Occasion, *, budget: int, now: datetime) -> MemoryBlock:
    """Return what the agent remembers that may matter, as it stands now."""
    org_id, agent_ids = occasion.viewer.org_id, occasion.agent_ids
    found = [one for section in SECTIONS for one in await _section(conn, occasion, section, now=now)]
    names = await memories.known_names(conn, org_id, agent_ids)
    agent_id = occasion.viewer.participant_id
    assert agent_id is not None
    return compose(
        found,
        agent_id=agent_id,
        name=names.get(agent_id, ""),
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
    if not scene.is_agent:
        return None
    own = frozenset(scene.own_ids)
    return Occasion(
        viewer=viewer,
        agent_ids=own,
        room_id=room_id,
        topic=scene.topic,
        present=frozenset(scene.people) - own,
    )


async def _section(
    conn: Connection, occasion: Occasion, section: Section, *, now: datetime
) -> list[Recollection]:
    _, kind, _ = SECTIONS[section]
    topic: str | None = occasion.topic or None
    people: Collection[ParticipantId] | None = None
    if section == "interactions":
        # With those present, whatever they were about.
        topic, people = None, occasion.present
    wanted = Wanted(kinds=[kind], topic=topic, people=people, is_newest_first=section == "observations")
    return await _read(conn, occasion.viewer.org_id, occasion.agent_ids, wanted, section=section, now=now)


async def _read(
    conn: Connection,
    org_id: OrgId,
    agent_ids: Collection[ParticipantId],
    wanted: Wanted,
    *,
    section: Section,
    now: datetime,
) -> list[Recollection]:
    found = await agents.experiences(conn, agent_ids, wanted, at=now, limit=LOOKED_AT)
    read = await memories.memories_by_id(conn, org_id, [one.memory_id for one in found])
    by_id = {memory.id: memory for memory in read}
    return [
        Recollection(memory=by_id[one.memory_id], section=section, weight=one.weight)
        for one in found
        if one.memory_id in by_id
    ]


async def _focus(conn: Connection, occasion: Occasion, *, now: datetime) -> Focus | None:
    """Return the task that the agent was last at, or else what is talked about."""
    wanted = Wanted(is_of_task=True, is_newest_first=True)
    last = await agents.experiences(conn, occasion.agent_ids, wanted, at=now, limit=1)
    read = await memories.memories_by_id(conn, occasion.viewer.org_id, [one.memory_id for one in last])
    for memory in read:
        if memory.is_outdated:
            continue
        named = f"task {memory.task_id}"
        return Focus(text=f"{named}: {memory.title}" if memory.title else named, memory_id=memory.id)
    return Focus(text=occasion.topic) if occasion.topic else None
