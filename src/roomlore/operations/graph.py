"""Graph questions: who said what, who talks to whom, which memories are related."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Literal, TypeVar, cast
from uuid import UUID

from roomlore.db import graph, memories, messages, projections
from roomlore.db.graph import DatabaseGraph, ParticipantCount
from roomlore.db.queries import Connection
from roomlore.domain.errors import BackendUnavailable, BadInput, RoomloreError
from roomlore.domain.ids import MemoryId, MessageId, ParticipantId
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.ports import Graph
from roomlore.domain.projections import NodeLabel, tag_id
from roomlore.domain.records import Memory, MemoryKind, Message, Viewer
from roomlore.operations.access import MAX_LISTED, Access, check_limit
from roomlore.operations.candidates import NEO4J, TIMEOUT_SECONDS, ProjectionClients
from roomlore.search import lookup
from roomlore.settings import Settings

#: The index is asked for more candidates than requested, because PostgreSQL may reject some.
OVERFETCH_FACTOR, OVERFETCH_EXTRA = 2, 10
GraphDegradation = Literal["neo4j is unavailable"]
UNAVAILABLE: GraphDegradation = "neo4j is unavailable"
#: The audited action of every graph question.
ACTION = "ask graph"

Item = TypeVar("Item", bound=Message | Memory)
Found = TypeVar("Found")
#: A question about accounts. It takes the graph, the accounts and the limit, and returns ids.
Question = Callable[[Graph, Sequence[ParticipantId], int], Awaitable[Sequence[UUID]]]
#: Takes ids of messages or memories, and returns the ones that the viewer may see.
Load = Callable[[Connection, Sequence[UUID]], Awaitable[Sequence[Item]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphAnswer(Generic[Found]):
    """The answer to a graph question."""

    items: Sequence[Found]
    #: The store that found the answer. PostgreSQL decides the content of the answer. For viewers other than operators
    #: this is None, because it would reveal that something they cannot read is waiting.
    answered_by: Literal["postgresql", "neo4j"] | None
    degraded: Sequence[GraphDegradation] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterpart:
    """A participant as the viewer knows them, with the number of their replies or messages."""

    participant_id: ParticipantId
    name: str
    kind: ParticipantKind
    count: int
    #: The time of the last reply or message.
    last: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NearbyNode:
    """A person, a memory or a tag related to a person."""

    id: UUID
    label: NodeLabel
    #: The name of the person, the title or content of the memory, or the tag.
    text: str
    #: Relative to the nearest node of the same label, which has the value 1.
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoriesOfKind:
    """Memories of one kind, the most related first."""

    kind: MemoryKind
    memories: Sequence[Memory]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphQueries:
    """The graph of an org. Every answer holds only what the viewer may see.

    PostgreSQL answers every question. If Neo4j is configured, it finds candidates for `messages_by_agents`, `said_by`
    and `memories_of_agents`. `who` is a name, an account or an id; it means all accounts of that person. Every method
    raises NotFound if the viewer sees nothing by that name, and BadInput if the name is ambiguous.
    """

    access: Access
    settings: Settings
    projection_clients: ProjectionClients

    async def messages_by_agents(self, viewer: Viewer, *, limit: int = 50) -> GraphAnswer[Message]:
        """Return the messages of agents, newest first."""

        async def ask(index: Graph, _: Sequence[ParticipantId], most: int) -> Sequence[UUID]:
            return await index.messages_by_agents(limit=most)

        return await self._ask(viewer, None, ask, self._messages, limit=limit)

    async def said_by(self, viewer: Viewer, who: str, *, limit: int = 50) -> GraphAnswer[Message]:
        """Return the messages of a person, newest first."""

        async def ask(index: Graph, accounts: Sequence[ParticipantId], most: int) -> Sequence[UUID]:
            return await index.messages_by(accounts, limit=most)

        return await self._ask(viewer, who, ask, self._messages, limit=limit)

    async def memories_of_agents(self, viewer: Viewer, *, limit: int = 50) -> GraphAnswer[Memory]:
        """Return the memories that agents stated or observed, newest first."""

        async def ask(index: Graph, _: Sequence[ParticipantId], most: int) -> Sequence[UUID]:
            return await index.memories_by_agents(limit=most)

        return await self._ask(viewer, None, ask, self._memories, limit=limit)

    async def known_by(self, viewer: Viewer, who: str, *, limit: int = 50) -> GraphAnswer[Memory]:
        """Return the memories that a person stated or observed, newest first."""
        return await self._memories_of(viewer, who, graph.memories_by, limit)

    async def memories_about(self, viewer: Viewer, who: str, *, limit: int = 50) -> GraphAnswer[Memory]:
        """Return the memories about a person, newest first."""
        return await self._memories_of(viewer, who, graph.memories_about, limit)

    async def conversation_partners(
        self, viewer: Viewer, who: str, *, limit: int = 50
    ) -> GraphAnswer[Counterpart]:
        """Return who replied to a person or got a reply from them, the most frequent first."""
        check_limit(limit)
        async with self.access.reading(viewer, ACTION, apply_restrictions=True) as reading:
            accounts = await _accounts(reading.conn, viewer, who)
            counts = await graph.conversation_partners(
                reading.conn, self.access.org_id, accounts, limit=limit
            )
            found = await self._counterparts(reading.conn, counts)
            reading.record_shown([*accounts, *(person.participant_id for person in found)])
        return _answer(viewer, found)

    async def participants_of(
        self, viewer: Viewer, conversation: str, *, limit: int = 50
    ) -> GraphAnswer[Counterpart]:
        """Return who wrote in a conversation, the most messages first."""
        check_limit(limit)
        async with self.access.reading(viewer, ACTION, apply_restrictions=True) as reading:
            conversation_id = await lookup.conversation(reading.conn, self.access.org_id, conversation)
            counts = await graph.conversation_authors(
                reading.conn, self.access.org_id, conversation_id, limit=limit
            )
            found = await self._counterparts(reading.conn, counts)
            reading.record_shown([conversation_id, *(person.participant_id for person in found)])
        return _answer(viewer, found)

    async def near(self, viewer: Viewer, who: str, *, limit: int = 20) -> GraphAnswer[NearbyNode]:
        """Return the people, memories and tags related to a person, nearest first.

        People count by replies. Memories count by whether they are about the person or only involve them. Tags count by
        the number of these memories that have the tag.
        """
        check_limit(limit)
        async with self.access.reading(viewer, ACTION, apply_restrictions=True) as reading:
            accounts = await _accounts(reading.conn, viewer, who)
            found = await self._nearest(reading.conn, accounts, limit)
            # Tags have an id only in the graph.
            reading.record_shown([*accounts, *(node.id for node in found if node.label != "Tag")])
        return _answer(viewer, found)

    async def memories_for(
        self, viewer: Viewer, conversation: str, *, limit: int = 50
    ) -> GraphAnswer[MemoriesOfKind]:
        """Return the memories related to a conversation, by kind.

        A memory is related if one of its sources is in the conversation, or if it names somebody who wrote in the
        conversation.
        """
        check_limit(limit)
        org_id = self.access.org_id
        async with self.access.reading(viewer, ACTION, apply_restrictions=True) as reading:
            conn = reading.conn
            conversation_id = await lookup.conversation(conn, org_id, conversation)
            authors = await graph.conversation_authors(conn, org_id, conversation_id, limit=MAX_LISTED)
            accounts = await graph.with_other_accounts(
                conn, org_id, [author.participant_id for author in authors]
            )
            related = await graph.conversation_memories(conn, org_id, conversation_id, accounts, limit=limit)
            found = await self._memories(conn, [memory.memory_id for memory in related])
            reading.record_shown([*accounts, conversation_id, *(memory.id for memory in found)])
        kinds: dict[MemoryKind, list[Memory]] = defaultdict(list)
        for memory in found:
            kinds[memory.kind].append(memory)
        return _answer(
            viewer, [MemoriesOfKind(kind=kind, memories=of_kind) for kind, of_kind in kinds.items()]
        )

    async def _memories_of(
        self,
        viewer: Viewer,
        who: str,
        ask: Callable[..., Awaitable[Sequence[MemoryId]]],
        limit: int,
    ) -> GraphAnswer[Memory]:
        check_limit(limit)
        async with self.access.reading(viewer, ACTION, apply_restrictions=True) as reading:
            accounts = await _accounts(reading.conn, viewer, who)
            ids = await ask(reading.conn, self.access.org_id, accounts, limit=limit)
            found = await self._memories(reading.conn, ids)
            reading.record_shown([*accounts, *(memory.id for memory in found)])
        return _answer(viewer, found)

    async def _ask(
        self, viewer: Viewer, who: str | None, ask: Question, load: Load[Item], *, limit: int
    ) -> GraphAnswer[Item]:
        """Ask Neo4j for candidates, and PostgreSQL for the candidates that the viewer may see."""
        check_limit(limit)
        candidates, degraded = await self._candidates(viewer, who, ask, limit)
        async with self.access.reading(viewer, ACTION, apply_restrictions=True) as reading:
            accounts = await _accounts(reading.conn, viewer, who)
            ids, is_from_index = await self._verify(reading.conn, ask, accounts, candidates, limit=limit)
            found = await load(reading.conn, ids)
            reading.record_shown([*accounts, *(item.id for item in found)])
        return _answer(viewer, found, is_from_index=is_from_index, degraded=degraded)

    async def _candidates(
        self, viewer: Viewer, who: str | None, ask: Question, limit: int
    ) -> tuple[Sequence[UUID] | None, Sequence[GraphDegradation]]:
        """Return the ids that Neo4j proposes, and what was unavailable. The ids are None if Neo4j gives no answer.

        No connection is held while waiting for Neo4j.
        """
        index, degraded = await self._readable_index()
        if index is None:
            return None, degraded
        await self.access.check_viewer(viewer, ACTION)
        try:
            async with self.access.db.read_transaction(viewer, apply_restrictions=True) as conn:
                accounts = await _accounts(conn, viewer, who)
                sight = await projections.visibility_filter(conn)
        except RoomloreError:
            # The read in PostgreSQL raises the same error and audits it.
            return None, ()
        breaker, org_id = self.projection_clients.graph_breaker, self.access.org_id
        if not breaker.allow(org_id):
            return None, (UNAVAILABLE,)
        try:
            server = self.projection_clients.neo4j(self.settings)
            assert server is not None
            async with asyncio.timeout(TIMEOUT_SECONDS):
                candidates = await ask(server.view_for(index, sight), accounts, _candidate_limit(limit))
        except (BackendUnavailable, BadInput, TimeoutError) as error:
            breaker.record_failure(org_id, error)
            return None, (UNAVAILABLE,)
        breaker.record_success(org_id)
        return candidates, ()

    async def _readable_index(self) -> tuple[str | None, Sequence[GraphDegradation]]:
        """Return the name of the current index; None if there is none, or while changes wait to be written to it."""
        if self.settings.neo4j is None:
            return None, ()
        org_id = self.access.org_id
        async with self.access.db.read_transaction(Viewer.operator(org_id)) as conn:
            projection = await projections.current_projection(conn, org_id, NEO4J)
            if projection is None:
                return None, ()
            # An index that lags would leave results out, and nobody would notice.
            if await projections.has_pending(conn, org_id, NEO4J):
                return None, (() if projection.failing_since is None else (UNAVAILABLE,))
        return projection.index_name, ()

    async def _verify(
        self,
        conn: Connection,
        ask: Question,
        accounts: Sequence[ParticipantId],
        candidates: Sequence[UUID] | None,
        *,
        limit: int,
    ) -> tuple[Sequence[UUID], bool]:
        """Return the ids that PostgreSQL finds, and whether the candidates were enough.

        If the candidates are not enough, PostgreSQL answers without them.
        """
        if candidates is not None:
            among = DatabaseGraph(conn=conn, org_id=self.access.org_id, among=candidates)
            found = await ask(among, accounts, limit)
            if len(candidates) < _candidate_limit(limit) or len(found) >= limit:
                return found, True
        return await ask(DatabaseGraph(conn=conn, org_id=self.access.org_id), accounts, limit), False

    async def _messages(self, conn: Connection, ids: Sequence[UUID]) -> list[Message]:
        found = await messages.messages_truncated(conn, self.access.org_id, cast(Sequence[MessageId], ids))
        by_id = {message.id: message for message in found}
        return [by_id[MessageId(key)] for key in ids if key in by_id]

    async def _memories(self, conn: Connection, ids: Sequence[UUID]) -> list[Memory]:
        found = await memories.memories_by_id(conn, self.access.org_id, cast(Sequence[MemoryId], ids))
        by_id = {memory.id: memory for memory in found}
        return [by_id[MemoryId(key)] for key in ids if key in by_id]

    async def _counterparts(self, conn: Connection, counts: Sequence[ParticipantCount]) -> list[Counterpart]:
        names = await graph.participant_names(
            conn, self.access.org_id, [row.participant_id for row in counts]
        )
        return [
            Counterpart(
                participant_id=row.participant_id,
                name=names[row.participant_id].name,
                kind=names[row.participant_id].kind,
                count=row.count,
                last=row.last,
            )
            for row in counts
            if row.participant_id in names
        ]

    async def _nearest(
        self, conn: Connection, accounts: Sequence[ParticipantId], limit: int
    ) -> list[NearbyNode]:
        org_id = self.access.org_id
        partners = await graph.conversation_partners(conn, org_id, accounts, limit=limit)
        related = await graph.related_memories(conn, org_id, accounts, limit=limit)
        tags = {tag_id(org_id, row.tag): row for row in await graph.related_tags(conn, org_id, accounts)}
        counts: dict[NodeLabel, dict[UUID, int]] = {
            "User": {row.participant_id: row.count for row in partners},
            "Memory": {row.memory_id: row.count for row in related},
            "Tag": {key: row.count for key, row in tags.items()},
        }
        scored: list[tuple[float, NodeLabel, UUID]] = [
            (-count / max(of_label.values()), label, key)
            for label, of_label in counts.items()
            for key, count in of_label.items()
        ]
        nearest = sorted(scored)[:limit]
        names = await graph.participant_names(
            conn, org_id, list(cast(dict[ParticipantId, int], counts["User"]))
        )
        texts: dict[UUID, str] = {key: name.name for key, name in names.items()}
        texts |= {
            memory.id: memory.title or memory.content
            for memory in await self._memories(conn, [key for _, label, key in nearest if label == "Memory"])
        }
        texts |= {key: row.tag for key, row in tags.items()}
        return [
            NearbyNode(id=key, label=label, text=texts[key], score=-score)
            for score, label, key in nearest
            if key in texts
        ]


def _candidate_limit(limit: int) -> int:
    return limit * OVERFETCH_FACTOR + OVERFETCH_EXTRA


async def _accounts(conn: Connection, viewer: Viewer, who: str | None) -> list[ParticipantId]:
    if who is None:
        return []
    return [account.id for account in await lookup.accounts_of_person(conn, viewer, who)]


def _answer(
    viewer: Viewer,
    found: Sequence[Found],
    *,
    is_from_index: bool = False,
    degraded: Sequence[GraphDegradation] = (),
) -> GraphAnswer[Found]:
    answered_by = None if not viewer.is_operator else "neo4j" if is_from_index else "postgresql"
    return GraphAnswer(items=found, answered_by=answered_by, degraded=degraded)
