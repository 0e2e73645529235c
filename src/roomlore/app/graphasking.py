"""How a question to the graph is answered: a copy in Neo4j proposes, where one is read, and the database decides.

Of what a copy proposes the database says what is there and the viewer's to see, and counts anew. Where too little is left
the database answers by itself, so that an answer is the one that it would give alone, but for what nodes do not hold:
injections, upon which a memory may rest.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar
from uuid import UUID

from roomlore.app.desk import MAX_LISTED, Access
from roomlore.app.proposing import TIMEOUT_SECONDS, NEO4J, ProjectionClients
from roomlore.config import Settings
from roomlore.domain.errors import BackendUnavailable, BadInput, RoomloreError
from roomlore.domain.graph import ConversationAuthor, RelatedTag, ConversationPartner, RelatedMemory, sort_key
from roomlore.domain.ids import ConversationId, ParticipantId
from roomlore.domain.ports import Graph
from roomlore.domain.records import Viewer
from roomlore.retrieval import meant
from roomlore.store import projections
from roomlore.store.graph import DatabaseGraph, with_other_accounts
from roomlore.store.queries import Connection

#: A copy is asked for more than is wanted: the database may not agree with some of it.
OVERFETCH_FACTOR, OVERFETCH_EXTRA = 2, 10
#: What cannot be asked, and the database answers for.
GraphDegradation = Literal["neo4j is unavailable"]
UNAVAILABLE: GraphDegradation = "neo4j is unavailable"
#: What the log calls every question.
ACTION = "ask graph"

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSubject:
    """What a question names."""

    participant_ids: Sequence[ParticipantId] = ()
    conversation_id: ConversationId | None = None

    @property
    def ids(self) -> list[UUID]:
        """Of all that is named."""
        return [*self.participant_ids, *([] if self.conversation_id is None else [self.conversation_id])]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphResult(Generic[Item]):
    """What the database answers."""

    subject: GraphSubject
    found: Sequence[Item]
    #: Whether a copy knew where that is.
    is_from_index: bool
    degraded: Sequence[GraphDegradation]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphCandidates:
    """What a copy proposes for each part of a question; None where none was asked."""

    parts: Sequence[Sequence[Any]] | None = None
    degraded: Sequence[GraphDegradation] = ()


ResolveSubject = Callable[[Connection], Awaitable[GraphSubject]]
RunGraphQuery = Callable[[Graph, GraphSubject, int], Awaitable[Sequence[Item]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSource:
    """Asks the graph of one org."""

    access: Access
    settings: Settings
    projection_clients: ProjectionClients

    # What a copy proposes: no connection is held while it is asked

    async def _readable_index(self) -> tuple[str | None, Sequence[GraphDegradation]]:
        """Return the copy that is read, and what cannot be; None where there is none, or something waits for it."""
        if self.settings.neo4j is None:
            return None, ()
        org_id = self.access.org_id
        async with self.access.db.read_transaction(Viewer.operator(org_id)) as conn:
            projected = await projections.all_projections(conn, org_id)
            held = next((one for one in projected if one.target == NEO4J and one.copy is not None), None)
            if held is None:
                return None, ()
            # What a copy lacks would be no part of an answer, and nobody would know.
            if await projections.has_pending(conn, org_id, held.target):
                return None, (() if held.failing_since is None else (UNAVAILABLE,))
        return held.copy, ()

    async def candidates(self, viewer: Viewer, find: ResolveSubject, asks: Sequence[RunGraphQuery[Any]], limit: int) -> GraphCandidates:
        """Return what a copy proposes, or why it does not."""
        copy, degraded = await self._readable_index()
        if copy is None:
            return GraphCandidates(degraded=degraded)
        await self.access.check_viewer(viewer, ACTION)
        try:
            async with self.access.db.read_transaction(viewer, apply_restrictions=True) as conn:
                named = await find(conn)
                sight = await projections.visibility_filter(conn)
        except RoomloreError:
            # Whoever asks is told when the question is answered, and the log has a line.
            return GraphCandidates()
        breaker, org_id = self.projection_clients.graph_breaker, self.access.org_id
        if not breaker.allow(org_id):
            return GraphCandidates(degraded=(UNAVAILABLE,))
        try:
            server = self.projection_clients.neo4j(self.settings)
            assert server is not None
            async with asyncio.timeout(TIMEOUT_SECONDS):
                graph = server.view_for(copy, sight)
                parts = [await ask(graph, named, _candidate_limit(limit)) for ask in asks]
        except (BackendUnavailable, BadInput, TimeoutError) as error:
            breaker.record_failure(org_id, error)
            return GraphCandidates(degraded=(UNAVAILABLE,))
        breaker.record_success(org_id)
        return GraphCandidates(parts=parts)

    # Through the eyes of the viewer: what may not be seen is not there

    async def answer(
        self, conn: Connection, find: ResolveSubject, ask: RunGraphQuery[Item], *, proposed: GraphCandidates, limit: int
    ) -> GraphResult[Item]:
        """Return the answer to a question of one part."""
        named = await find(conn)
        part = None if proposed.parts is None else proposed.parts[0]
        found, is_copied = await self.verify(conn, ask, named, proposed=part, limit=limit)
        return GraphResult(subject=named, found=found, is_from_index=is_copied, degraded=proposed.degraded)

    async def verify(
        self,
        conn: Connection,
        ask: RunGraphQuery[Item],
        named: GraphSubject,
        *,
        proposed: Sequence[Any] | None,
        limit: int,
    ) -> tuple[Sequence[Item], bool]:
        """Return what the database answers, and whether a copy knew where that is."""
        org_id = self.access.org_id
        if proposed is not None:
            among = [_node_id(one) for one in proposed]
            found = await ask(DatabaseGraph(conn=conn, org_id=org_id, among=among), named, limit)
            if len(proposed) < _candidate_limit(limit) or _is_complete(found, proposed, limit):
                return found, True
        return await ask(DatabaseGraph(conn=conn, org_id=org_id), named, limit), False

    # What a question names

    def person(self, viewer: Viewer, who: str) -> ResolveSubject:
        """Return what finds somebody by all accounts that the viewer may know of."""

        async def find(conn: Connection) -> GraphSubject:
            accounts = await meant.accounts_of_person(conn, viewer, who)
            return GraphSubject(participant_ids=[one.id for one in accounts])

        return find

    def conversation(self, word: str) -> ResolveSubject:
        """Return what finds a conversation."""

        async def find(conn: Connection) -> GraphSubject:
            return GraphSubject(conversation_id=await meant.conversation(conn, self.access.org_id, word))

        return find

    def present(self, word: str) -> ResolveSubject:
        """Return what finds a conversation, and whoever is present in it by all their accounts."""

        async def find(conn: Connection) -> GraphSubject:
            org_id = self.access.org_id
            conversation_id = await meant.conversation(conn, org_id, word)
            graph = DatabaseGraph(conn=conn, org_id=org_id)
            present = await graph.conversation_authors(conversation_id, limit=MAX_LISTED)
            accounts = await with_other_accounts(conn, org_id, [one.participant_id for one in present])
            return GraphSubject(participant_ids=accounts, conversation_id=conversation_id)

        return find


def _candidate_limit(limit: int) -> int:
    return limit * OVERFETCH_FACTOR + OVERFETCH_EXTRA


def _is_complete(found: Sequence[Any], candidates: Sequence[Any], limit: int) -> bool:
    """Return whether nothing that was not proposed can come before the last that is wanted.

    Of what it holds a copy counts nothing too little that the viewer may see: what it did not propose comes behind.
    """
    if len(found) < limit:
        return False
    return isinstance(found[-1], UUID) or sort_key(found[-1]) <= sort_key(candidates[-1])


def _node_id(one: UUID | ConversationPartner | ConversationAuthor | RelatedMemory | RelatedTag) -> UUID:
    match one:
        case ConversationPartner() | ConversationAuthor():
            return one.participant_id
        case RelatedMemory():
            return one.memory_id
        case RelatedTag():
            return one.tag_id
        case UUID():
            return one
