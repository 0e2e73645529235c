"""Who and what is near whoever asks, as the graph says, for ordering what a search finds."""

from collections.abc import Sequence
from dataclasses import dataclass

from roomlore.app.desk import Access
from roomlore.app.graphasking import GraphSource, GraphSubject, GraphCandidates
from roomlore.app.proposing import ProjectionClients
from roomlore.config import Settings
from roomlore.domain.graph import ConversationPartner, RelatedMemory
from roomlore.domain.ids import ParticipantId
from roomlore.domain.ports import Graph
from roomlore.domain.records import Viewer
from roomlore.retrieval.nearby import ProximityBoost
from roomlore.store.graph import DatabaseGraph
from roomlore.store.queries import Connection

#: So many people and memories count as near.
MAX_NEIGHBOURS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphProximity:
    """Asks the graph of one org about viewers; of operators, who are nobody, nothing is near."""

    access: Access
    settings: Settings
    projection_clients: ProjectionClients

    async def candidates(self, viewer: Viewer) -> GraphCandidates:
        """Return what a copy of the graph proposes, where one is read; no connection is held meanwhile."""
        if viewer.participant_id is None:
            return GraphCandidates()
        asking = GraphSource(access=self.access, settings=self.settings, projection_clients=self.projection_clients)
        return await asking.candidates(viewer, _OwnAccounts(viewer).find, [_people_talked_to, _memories], MAX_NEIGHBOURS)

    async def proximity(self, conn: Connection, viewer: Viewer, proposed: GraphCandidates) -> ProximityBoost | None:
        """Return who and what is near a viewer, as far as they may see it; None of an operator."""
        if viewer.participant_id is None:
            return None
        asking = GraphSource(access=self.access, settings=self.settings, projection_clients=self.projection_clients)
        named = await _OwnAccounts(viewer).find(conn)
        talks, memories = proposed.parts or (None, None)
        talked, _ = await asking.verify(conn, _people_talked_to, named, proposed=talks, limit=MAX_NEIGHBOURS)
        weighed, _ = await asking.verify(conn, _memories, named, proposed=memories, limit=MAX_NEIGHBOURS)
        graph = DatabaseGraph(conn=conn, org_id=self.access.org_id)
        rests = await graph.sources_of([one.memory_id for one in weighed])
        most = max((one.count for one in talked), default=1)
        heaviest = max((one.count for one in weighed), default=1)
        weights = {one.memory_id: one.count / heaviest for one in weighed}
        return ProximityBoost(
            own_account_ids=frozenset(named.participant_ids),
            person_weights={one.participant_id: one.count / most for one in talked},
            message_weights={
                message_id: max(weights[memory_id] for memory_id in memory_ids)
                for message_id, memory_ids in rests.items()
            },
        )


@dataclass(frozen=True, slots=True)
class _OwnAccounts:
    """A viewer as what a question names."""

    viewer: Viewer

    async def find(self, _: Connection) -> GraphSubject:
        """Return every account of the viewer."""
        viewer = self.viewer
        own: list[ParticipantId] = [] if viewer.participant_id is None else [viewer.participant_id]
        return GraphSubject(participant_ids=sorted({*own, *viewer.accounts}))


async def _people_talked_to(graph: Graph, named: GraphSubject, limit: int) -> Sequence[ConversationPartner]:
    return await graph.conversation_partners(named.participant_ids, limit=limit)


async def _memories(graph: Graph, named: GraphSubject, limit: int) -> Sequence[RelatedMemory]:
    return await graph.related_memories(named.participant_ids, limit=limit)
