"""What people, messages and memories have to do with each other, with the names and words that the viewer may read."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar
from uuid import UUID

from roomlore.app.desk import Access, check_limit
from roomlore.app.graphasking import ACTION, GraphResult, RunGraphQuery, GraphSource, ResolveSubject, GraphDegradation, GraphSubject
from roomlore.app.proposing import ProjectionClients
from roomlore.config import Settings
from roomlore.domain.graph import Neighbour, ConversationAuthor, RelatedTag, ConversationPartner, RelatedMemory, nearest_neighbours
from roomlore.domain.ids import MemoryId, MessageId, ParticipantId
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.ports import Graph
from roomlore.domain.projected import NodeLabel
from roomlore.domain.records import Memory, MemoryKind, Message, Viewer
from roomlore.store import memories, messages
from roomlore.store.graph import DatabaseGraph, participant_names
from roomlore.store.queries import Connection

Item = TypeVar("Item")


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

    async def present_in(self, viewer: Viewer, conversation: str, *, limit: int = 50) -> GraphAnswer[Counterpart]:
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
        proposed = await self._source.candidates(viewer, find, [_talked_to, _memories_near, _tags_near], limit)
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

    async def memories_for(self, viewer: Viewer, conversation: str, *, limit: int = 50) -> GraphAnswer[MemoriesOfKind]:
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
        return _to_answer(viewer, answer, [MemoriesOfKind(kind=kind, memories=some) for kind, some in kinds.items()])

    async def _message_answer(self, viewer: Viewer, find: ResolveSubject, ask: RunGraphQuery[MessageId], limit: int) -> GraphAnswer[Message]:
        check_limit(limit)
        proposed = await self._source.candidates(viewer, find, [ask], limit)
        async with self.access.reading(viewer, ACTION, apply_restrictions=True) as reading:
            answer = await self._source.answer(reading.conn, find, ask, proposed=proposed, limit=limit)
            said = await messages.messages_truncated(reading.conn, self.access.org_id, answer.found)
            by_id = {one.id: one for one in said}
            reading.record_shown([*answer.subject.ids, *by_id])
        return _to_answer(viewer, answer, [by_id[one] for one in answer.found if one in by_id])

    async def _memory_answer(self, viewer: Viewer, find: ResolveSubject, ask: RunGraphQuery[MemoryId], limit: int) -> GraphAnswer[Memory]:
        check_limit(limit)
        proposed = await self._source.candidates(viewer, find, [ask], limit)
        async with self.access.reading(viewer, ACTION, apply_restrictions=True) as reading:
            answer = await self._source.answer(reading.conn, find, ask, proposed=proposed, limit=limit)
            by_id = await self._memories(reading.conn, answer.found)
            reading.record_shown([*answer.subject.ids, *by_id])
        return _to_answer(viewer, answer, [by_id[one] for one in answer.found if one in by_id])

    async def _people(
        self, viewer: Viewer, find: ResolveSubject, ask: RunGraphQuery[ConversationPartner] | RunGraphQuery[ConversationAuthor], limit: int
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

    async def _texts(self, conn: Connection, named: GraphSubject, found: Sequence[Neighbour]) -> dict[UUID, str]:
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
        return GraphSource(access=self.access, settings=self.settings, projection_clients=self.projection_clients)


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
