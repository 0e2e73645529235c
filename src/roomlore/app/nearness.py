"""Who and what is near whoever asks, as the graph says, for ordering what a search finds."""

from collections.abc import Sequence
from dataclasses import dataclass

from roomlore.app.desk import Desk
from roomlore.app.graphasking import Asking, Named, Proposed
from roomlore.app.proposing import Servers
from roomlore.config import Settings
from roomlore.domain.graph import Talk, Weighed
from roomlore.domain.ids import ParticipantId
from roomlore.domain.ports import Graph
from roomlore.domain.records import Viewer
from roomlore.retrieval.nearby import Nearness
from roomlore.store.graph import DatabaseGraph
from roomlore.store.queries import Connection

#: So many people and memories count as near.
NEAREST = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Acquaintance:
    """Asks the graph of one org about viewers; of operators, who are nobody, nothing is near."""

    desk: Desk
    settings: Settings
    servers: Servers

    async def proposed(self, viewer: Viewer) -> Proposed:
        """Return what a copy of the graph proposes, where one is read; no connection is held meanwhile."""
        if viewer.participant_id is None:
            return Proposed()
        asking = Asking(desk=self.desk, settings=self.settings, servers=self.servers)
        return await asking.proposed(viewer, _Themselves(viewer).find, [_talks, _memories], NEAREST)

    async def nearness(self, conn: Connection, viewer: Viewer, proposed: Proposed) -> Nearness | None:
        """Return who and what is near a viewer, as far as they may see it; None of an operator."""
        if viewer.participant_id is None:
            return None
        asking = Asking(desk=self.desk, settings=self.settings, servers=self.servers)
        named = await _Themselves(viewer).find(conn)
        talks, memories = proposed.parts or (None, None)
        talked, _ = await asking.decided(conn, _talks, named, proposed=talks, limit=NEAREST)
        weighed, _ = await asking.decided(conn, _memories, named, proposed=memories, limit=NEAREST)
        graph = DatabaseGraph(conn=conn, org_id=self.desk.org_id)
        rests = await graph.rests_on([one.memory_id for one in weighed])
        most = max((one.count for one in talked), default=1)
        heaviest = max((one.count for one in weighed), default=1)
        weights = {one.memory_id: one.count / heaviest for one in weighed}
        return Nearness(
            own_ids=frozenset(named.participant_ids),
            people={one.participant_id: one.count / most for one in talked},
            topics={
                message_id: max(weights[memory_id] for memory_id in memory_ids)
                for message_id, memory_ids in rests.items()
            },
        )


@dataclass(frozen=True, slots=True)
class _Themselves:
    """A viewer as what a question names."""

    viewer: Viewer

    async def find(self, _: Connection) -> Named:
        """Return every account of the viewer."""
        viewer = self.viewer
        own: list[ParticipantId] = [] if viewer.participant_id is None else [viewer.participant_id]
        return Named(participant_ids=sorted({*own, *viewer.accounts}))


async def _talks(graph: Graph, named: Named, limit: int) -> Sequence[Talk]:
    return await graph.talked_to(named.participant_ids, limit=limit)


async def _memories(graph: Graph, named: Named, limit: int) -> Sequence[Weighed]:
    return await graph.memories_near(named.participant_ids, limit=limit)
