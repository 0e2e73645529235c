"""What people, messages and memories have to do with each other, with the names and words that the viewer may read."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar
from uuid import UUID

from roomlore.db import memories, messages, projections
from roomlore.db.graph import DatabaseGraph, participant_names, with_other_accounts
from roomlore.db.queries import Connection
from roomlore.domain.errors import BackendUnavailable, BadInput, RoomloreError
from roomlore.domain.graph import (
    ConversationAuthor,
    ConversationPartner,
    Neighbour,
    RelatedMemory,
    RelatedTag,
    nearest_neighbours,
    sort_key,
)
from roomlore.domain.ids import ConversationId, MemoryId, MessageId, ParticipantId
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.ports import Graph
from roomlore.domain.projections import NodeLabel
from roomlore.domain.records import Memory, MemoryKind, Message, Viewer
from roomlore.operations.access import MAX_LISTED, Access, check_limit
from roomlore.operations.candidates import NEO4J, TIMEOUT_SECONDS, ProjectionClients
from roomlore.search import lookup
from roomlore.search.ranking import ProximityBoost
from roomlore.settings import Settings

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

    async def candidates(
        self, viewer: Viewer, find: ResolveSubject, asks: Sequence[RunGraphQuery[Any]], limit: int
    ) -> GraphCandidates:
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
        self,
        conn: Connection,
        find: ResolveSubject,
        ask: RunGraphQuery[Item],
        *,
        proposed: GraphCandidates,
        limit: int,
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
            accounts = await lookup.accounts_of_person(conn, viewer, who)
            return GraphSubject(participant_ids=[one.id for one in accounts])

        return find

    def conversation(self, word: str) -> ResolveSubject:
        """Return what finds a conversation."""

        async def find(conn: Connection) -> GraphSubject:
            return GraphSubject(conversation_id=await lookup.conversation(conn, self.access.org_id, word))

        return find

    def present(self, word: str) -> ResolveSubject:
        """Return what finds a conversation, and whoever is present in it by all their accounts."""

        async def find(conn: Connection) -> GraphSubject:
            org_id = self.access.org_id
            conversation_id = await lookup.conversation(conn, org_id, word)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphAnswer(Generic[Item]):
    """An answer of the graph."""

    found: Sequence[Item]
    #: Who found it; what is told of it is the database's in any case. Told to operators alone: to others it would tell
    #: that something waits which they may not read.
    answered_by: Literal["postgresql", "neo4j"] | None
    degraded: Sequence[GraphDegradation] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterpart:
    """Somebody as the viewer may call them, and how much passed between them and others."""

    participant_id: ParticipantId
    name: str
    kind: ParticipantKind
    #: How many replies, or messages.
    count: int
    #: When the last of them was sent.
    last: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NearbyNode:
    """A person, a memory or a tag near somebody."""

    id: UUID
    label: NodeLabel
    #: A name, a title or what is remembered, a tag.
    text: str
    #: From 0 to 1, which the nearest of its label has.
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoriesOfKind:
    """Memories of one kind, those first that have most to do with what was asked."""

    kind: MemoryKind
    memories: Sequence[Memory]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphQueries:
    """Questions to the graph of an org, each as far as its viewer may see."""

    access: Access
    settings: Settings
    projection_clients: ProjectionClients

    async def said_by_bots(self, viewer: Viewer, *, limit: int = 50) -> GraphAnswer[Message]:
        """Return what agents said, newest first."""
        return await self._message_answer(viewer, _no_subject, _messages_by_bots, limit)

    async def said_by(self, viewer: Viewer, who: str, *, limit: int = 50) -> GraphAnswer[Message]:
        """Return what somebody said, by whatever account the viewer may know of, newest first.

        Raises:
            NotFound: nobody is meant, or nobody the viewer may know of.
            BadInput: several are meant.
        """
        return await self._message_answer(viewer, self._source.person(viewer, who), _messages_by, limit)

    async def known_by_bots(self, viewer: Viewer, *, limit: int = 50) -> GraphAnswer[Memory]:
        """Return the memories that agents stated or that were seen through their eyes, newest first."""
        return await self._memory_answer(viewer, _no_subject, _memories_of_bots, limit)

    async def known_by(self, viewer: Viewer, who: str, *, limit: int = 50) -> GraphAnswer[Memory]:
        """Return the memories that somebody stated or that were seen through their eyes, newest first.

        Raises:
            NotFound: nobody is meant, or nobody the viewer may know of.
            BadInput: several are meant.
        """
        return await self._memory_answer(viewer, self._source.person(viewer, who), _memories_of, limit)

    async def known_about(self, viewer: Viewer, who: str, *, limit: int = 50) -> GraphAnswer[Memory]:
        """Return the memories about somebody, newest first.

        Raises:
            NotFound: nobody is meant, or nobody the viewer may know of.
            BadInput: several are meant.
        """
        return await self._memory_answer(viewer, self._source.person(viewer, who), _memories_about, limit)

    async def talked_to(self, viewer: Viewer, who: str, *, limit: int = 50) -> GraphAnswer[Counterpart]:
        """Return whom somebody answered or was answered by, as far as the viewer may read both, the most frequent first.

        Raises:
            NotFound: nobody is meant, or nobody the viewer may know of.
            BadInput: several are meant.
        """
        return await self._people(viewer, self._source.person(viewer, who), _talked_to, limit)

    async def present_in(
        self, viewer: Viewer, conversation: str, *, limit: int = 50
    ) -> GraphAnswer[Counterpart]:
        """Return who wrote in a conversation, the most talkative first.

        Raises:
            NotFound: there is no such conversation, or the viewer may not see all of it.
            BadInput: several are meant.
        """
        return await self._people(viewer, self._source.conversation(conversation), _present_in, limit)

    async def near(self, viewer: Viewer, who: str, *, limit: int = 20) -> GraphAnswer[NearbyNode]:
        """Return the people, memories and tags near somebody, nearest first.

        People by how often they talked, memories by whether they are about somebody or only involve them, tags by how
        many of these memories have them; of each label the nearest counts as 1.

        Raises:
            NotFound: nobody is meant, or nobody the viewer may know of.
            BadInput: several are meant.
        """
        check_limit(limit)
        find = self._source.person(viewer, who)
        proposed = await self._source.candidates(
            viewer, find, [_talked_to, _memories_near, _tags_near], limit
        )
        parts = proposed.parts or (None, None, None)
        async with self.access.reading(viewer, ACTION, apply_restrictions=True) as reading:
            conn, named = reading.conn, await find(reading.conn)
            talks, of_talks = await self._source.verify(
                conn, _talked_to, named, proposed=parts[0], limit=limit
            )
            weighed, of_weighed = await self._source.verify(
                conn, _memories_near, named, proposed=parts[1], limit=limit
            )
            tagged, of_tagged = await self._source.verify(
                conn, _tags_near, named, proposed=parts[2], limit=limit
            )
            found = nearest_neighbours(talks, weighed, tagged, limit=limit)
            texts = await self._texts(conn, named, found)
            # Tags have ids in the graph alone.
            reading.record_shown([*named.ids, *(one.id for one in found if one.label != "Tag")])
        is_copied = of_talks and of_weighed and of_tagged
        answer = GraphResult(subject=named, found=found, is_from_index=is_copied, degraded=proposed.degraded)
        return _to_answer(
            viewer,
            answer,
            [
                NearbyNode(id=one.id, label=one.label, text=texts[one.id], score=one.score)
                for one in found
                if one.id in texts
            ],
        )

    async def memories_for(
        self, viewer: Viewer, conversation: str, *, limit: int = 50
    ) -> GraphAnswer[MemoriesOfKind]:
        """Return the memories that bear on a conversation, by kind: they rest on it, or name some of those present.

        Raises:
            NotFound: there is no such conversation, or the viewer may not see all of it.
            BadInput: several are meant.
        """
        check_limit(limit)
        find = self._source.present(conversation)
        proposed = await self._source.candidates(viewer, find, [_memories_for], limit)
        async with self.access.reading(viewer, ACTION, apply_restrictions=True) as reading:
            answer = await self._source.answer(
                reading.conn, find, _memories_for, proposed=proposed, limit=limit
            )
            by_id = await self._memories(reading.conn, [one.memory_id for one in answer.found])
            reading.record_shown([*answer.subject.ids, *by_id])
        kinds: dict[MemoryKind, list[Memory]] = {}
        for one in answer.found:
            if one.memory_id in by_id:
                kinds.setdefault(one.kind, []).append(by_id[one.memory_id])
        return _to_answer(
            viewer, answer, [MemoriesOfKind(kind=kind, memories=some) for kind, some in kinds.items()]
        )

    async def _message_answer(
        self, viewer: Viewer, find: ResolveSubject, ask: RunGraphQuery[MessageId], limit: int
    ) -> GraphAnswer[Message]:
        check_limit(limit)
        proposed = await self._source.candidates(viewer, find, [ask], limit)
        async with self.access.reading(viewer, ACTION, apply_restrictions=True) as reading:
            answer = await self._source.answer(reading.conn, find, ask, proposed=proposed, limit=limit)
            said = await messages.messages_truncated(reading.conn, self.access.org_id, answer.found)
            by_id = {one.id: one for one in said}
            reading.record_shown([*answer.subject.ids, *by_id])
        return _to_answer(viewer, answer, [by_id[one] for one in answer.found if one in by_id])

    async def _memory_answer(
        self, viewer: Viewer, find: ResolveSubject, ask: RunGraphQuery[MemoryId], limit: int
    ) -> GraphAnswer[Memory]:
        check_limit(limit)
        proposed = await self._source.candidates(viewer, find, [ask], limit)
        async with self.access.reading(viewer, ACTION, apply_restrictions=True) as reading:
            answer = await self._source.answer(reading.conn, find, ask, proposed=proposed, limit=limit)
            by_id = await self._memories(reading.conn, answer.found)
            reading.record_shown([*answer.subject.ids, *by_id])
        return _to_answer(viewer, answer, [by_id[one] for one in answer.found if one in by_id])

    async def _people(
        self,
        viewer: Viewer,
        find: ResolveSubject,
        ask: RunGraphQuery[ConversationPartner] | RunGraphQuery[ConversationAuthor],
        limit: int,
    ) -> GraphAnswer[Counterpart]:
        check_limit(limit)
        proposed = await self._source.candidates(viewer, find, [ask], limit)
        async with self.access.reading(viewer, ACTION, apply_restrictions=True) as reading:
            answer = await self._source.answer(reading.conn, find, ask, proposed=proposed, limit=limit)
            ids = [one.participant_id for one in answer.found]
            names = await participant_names(reading.conn, self.access.org_id, ids)
            reading.record_shown([*answer.subject.ids, *names])
        shown = [
            Counterpart(
                participant_id=one.participant_id,
                name=names[one.participant_id].name,
                kind=names[one.participant_id].kind,
                count=one.count,
                last=one.last,
            )
            for one in answer.found
            if one.participant_id in names
        ]
        return _to_answer(viewer, answer, shown)

    async def _memories(self, conn: Connection, ids: Sequence[MemoryId]) -> dict[MemoryId, Memory]:
        return {one.id: one for one in await memories.memories_by_id(conn, self.access.org_id, ids)}

    async def _texts(
        self, conn: Connection, named: GraphSubject, found: Sequence[Neighbour]
    ) -> dict[UUID, str]:
        """Return what is shown of what is near."""
        org_id = self.access.org_id
        people = [ParticipantId(one.id) for one in found if one.label == "User"]
        held = await self._memories(conn, [MemoryId(one.id) for one in found if one.label == "Memory"])
        graph = DatabaseGraph(conn=conn, org_id=org_id)
        is_tagged = any(one.label == "Tag" for one in found)
        tags = await graph.tags(named.participant_ids) if is_tagged else {}
        return {
            **{key: one.name for key, one in (await participant_names(conn, org_id, people)).items()},
            **{key: one.title or one.content for key, one in held.items()},
            **tags,
        }

    @property
    def _source(self) -> GraphSource:
        return GraphSource(
            access=self.access, settings=self.settings, projection_clients=self.projection_clients
        )


async def _no_subject(_conn: Connection) -> GraphSubject:
    return GraphSubject()


def _to_answer(viewer: Viewer, answer: GraphResult[Any], shown: Sequence[Item]) -> GraphAnswer[Item]:
    answered_by = None if not viewer.is_operator else "neo4j" if answer.is_from_index else "postgresql"
    return GraphAnswer(found=shown, answered_by=answered_by, degraded=answer.degraded)


async def _messages_by_bots(graph: Graph, _: GraphSubject, limit: int) -> Sequence[MessageId]:
    return await graph.messages_by_agents(limit=limit)


async def _messages_by(graph: Graph, named: GraphSubject, limit: int) -> Sequence[MessageId]:
    return await graph.messages_by(named.participant_ids, limit=limit)


async def _memories_of_bots(graph: Graph, _: GraphSubject, limit: int) -> Sequence[MemoryId]:
    return await graph.memories_by_agents(limit=limit)


async def _memories_of(graph: Graph, named: GraphSubject, limit: int) -> Sequence[MemoryId]:
    return await graph.memories_by(named.participant_ids, limit=limit)


async def _memories_about(graph: Graph, named: GraphSubject, limit: int) -> Sequence[MemoryId]:
    return await graph.memories_about(named.participant_ids, limit=limit)


async def _talked_to(graph: Graph, named: GraphSubject, limit: int) -> Sequence[ConversationPartner]:
    return await graph.conversation_partners(named.participant_ids, limit=limit)


async def _memories_near(graph: Graph, named: GraphSubject, limit: int) -> Sequence[RelatedMemory]:
    return await graph.related_memories(named.participant_ids, limit=limit)


async def _tags_near(graph: Graph, named: GraphSubject, limit: int) -> Sequence[RelatedTag]:
    return await graph.related_tags(named.participant_ids, limit=limit)


async def _present_in(graph: Graph, named: GraphSubject, limit: int) -> Sequence[ConversationAuthor]:
    assert named.conversation_id is not None
    return await graph.conversation_authors(named.conversation_id, limit=limit)


async def _memories_for(graph: Graph, named: GraphSubject, limit: int) -> Sequence[RelatedMemory]:
    assert named.conversation_id is not None
    return await graph.conversation_memories(named.conversation_id, named.participant_ids, limit=limit)


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
        asking = GraphSource(
            access=self.access, settings=self.settings, projection_clients=self.projection_clients
        )
        return await asking.candidates(
            viewer, _OwnAccounts(viewer).find, [_people_talked_to, _memories], MAX_NEIGHBOURS
        )

    async def proximity(
        self, conn: Connection, viewer: Viewer, proposed: GraphCandidates
    ) -> ProximityBoost | None:
        """Return who and what is near a viewer, as far as they may see it; None of an operator."""
        if viewer.participant_id is None:
            return None
        asking = GraphSource(
            access=self.access, settings=self.settings, projection_clients=self.projection_clients
        )
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
