"""What people, messages and memories have to do with each other, with the names and words that the viewer may read."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar
from uuid import UUID

from roomlore.app.desk import Desk, check_limit
from roomlore.app.graphasking import ACTION, Answered, Ask, Asking, Find, GraphDegradation, Named
from roomlore.app.proposing import Servers
from roomlore.config import Settings
from roomlore.domain.graph import Near, Present, Tagged, Talk, Weighed, nearest
from roomlore.domain.ids import MemoryId, MessageId, ParticipantId
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.ports import Graph
from roomlore.domain.projected import Label
from roomlore.domain.records import Memory, MemoryKind, Message, Viewer
from roomlore.store import memories, messages
from roomlore.store.graph import DatabaseGraph, called
from roomlore.store.queries import Connection

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Told(Generic[Item]):
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
class Nearby:
    """A person, a memory or a tag near somebody."""

    id: UUID
    label: Label
    #: A name, a title or what is remembered, a tag.
    text: str
    #: From 0 to 1, which the nearest of its label has.
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OfKind:
    """Memories of one kind, those first that have most to do with what was asked."""

    kind: MemoryKind
    memories: Sequence[Memory]


@dataclass(frozen=True, slots=True, kw_only=True)
class Graphing:
    """Questions to the graph of an org, each as far as its viewer may see."""

    desk: Desk
    settings: Settings
    servers: Servers

    async def said_by_bots(self, viewer: Viewer, *, limit: int = 50) -> Told[Message]:
        """Return what agents said, newest first."""
        return await self._said(viewer, _nobody, _bots_said, limit)

    async def said_by(self, viewer: Viewer, who: str, *, limit: int = 50) -> Told[Message]:
        """Return what somebody said, by whatever account the viewer may know of, newest first.

        Raises:
            NotFound: nobody is meant, or nobody the viewer may know of.
            BadInput: several are meant.
        """
        return await self._said(viewer, self._asking.person(viewer, who), _said_by, limit)

    async def known_by_bots(self, viewer: Viewer, *, limit: int = 50) -> Told[Memory]:
        """Return the memories that agents stated or that were seen through their eyes, newest first."""
        return await self._known(viewer, _nobody, _bots_know, limit)

    async def known_by(self, viewer: Viewer, who: str, *, limit: int = 50) -> Told[Memory]:
        """Return the memories that somebody stated or that were seen through their eyes, newest first.

        Raises:
            NotFound: nobody is meant, or nobody the viewer may know of.
            BadInput: several are meant.
        """
        return await self._known(viewer, self._asking.person(viewer, who), _known_by, limit)

    async def known_about(self, viewer: Viewer, who: str, *, limit: int = 50) -> Told[Memory]:
        """Return the memories about somebody, newest first.

        Raises:
            NotFound: nobody is meant, or nobody the viewer may know of.
            BadInput: several are meant.
        """
        return await self._known(viewer, self._asking.person(viewer, who), _known_about, limit)

    async def talked_to(self, viewer: Viewer, who: str, *, limit: int = 50) -> Told[Counterpart]:
        """Return whom somebody answered or was answered by, as far as the viewer may read both, the most frequent first.

        Raises:
            NotFound: nobody is meant, or nobody the viewer may know of.
            BadInput: several are meant.
        """
        return await self._people(viewer, self._asking.person(viewer, who), _talked_to, limit)

    async def present_in(self, viewer: Viewer, conversation: str, *, limit: int = 50) -> Told[Counterpart]:
        """Return who wrote in a conversation, the most talkative first.

        Raises:
            NotFound: there is no such conversation, or the viewer may not see all of it.
            BadInput: several are meant.
        """
        return await self._people(viewer, self._asking.conversation(conversation), _present_in, limit)

    async def near(self, viewer: Viewer, who: str, *, limit: int = 20) -> Told[Nearby]:
        """Return the people, memories and tags near somebody, nearest first.

        People by how often they talked, memories by whether they are about somebody or only involve them, tags by how
        many of these memories have them; of each label the nearest counts as 1.

        Raises:
            NotFound: nobody is meant, or nobody the viewer may know of.
            BadInput: several are meant.
        """
        check_limit(limit)
        find = self._asking.person(viewer, who)
        proposed = await self._asking.proposed(viewer, find, [_talked_to, _memories_near, _tags_near], limit)
        parts = proposed.parts or (None, None, None)
        async with self.desk.reading(viewer, ACTION, recalls=True) as reading:
            conn, named = reading.conn, await find(reading.conn)
            talks, of_talks = await self._asking.decided(
                conn, _talked_to, named, proposed=parts[0], limit=limit
            )
            weighed, of_weighed = await self._asking.decided(
                conn, _memories_near, named, proposed=parts[1], limit=limit
            )
            tagged, of_tagged = await self._asking.decided(
                conn, _tags_near, named, proposed=parts[2], limit=limit
            )
            found = nearest(talks, weighed, tagged, limit=limit)
            texts = await self._texts(conn, named, found)
            # Tags have ids in the graph alone.
            reading.shows([*named.ids, *(one.id for one in found if one.label != "Tag")])
        is_copied = of_talks and of_weighed and of_tagged
        answer = Answered(named=named, found=found, is_copied=is_copied, degraded=proposed.degraded)
        return _told(
            viewer,
            answer,
            [
                Nearby(id=one.id, label=one.label, text=texts[one.id], score=one.score)
                for one in found
                if one.id in texts
            ],
        )

    async def memories_for(self, viewer: Viewer, conversation: str, *, limit: int = 50) -> Told[OfKind]:
        """Return the memories that bear on a conversation, by kind: they rest on it, or name some of those present.

        Raises:
            NotFound: there is no such conversation, or the viewer may not see all of it.
            BadInput: several are meant.
        """
        check_limit(limit)
        find = self._asking.present(conversation)
        proposed = await self._asking.proposed(viewer, find, [_memories_for], limit)
        async with self.desk.reading(viewer, ACTION, recalls=True) as reading:
            answer = await self._asking.answered(
                reading.conn, find, _memories_for, proposed=proposed, limit=limit
            )
            by_id = await self._memories(reading.conn, [one.memory_id for one in answer.found])
            reading.shows([*answer.named.ids, *by_id])
        kinds: dict[MemoryKind, list[Memory]] = {}
        for one in answer.found:
            if one.memory_id in by_id:
                kinds.setdefault(one.kind, []).append(by_id[one.memory_id])
        return _told(viewer, answer, [OfKind(kind=kind, memories=some) for kind, some in kinds.items()])

    async def _said(self, viewer: Viewer, find: Find, ask: Ask[MessageId], limit: int) -> Told[Message]:
        check_limit(limit)
        proposed = await self._asking.proposed(viewer, find, [ask], limit)
        async with self.desk.reading(viewer, ACTION, recalls=True) as reading:
            answer = await self._asking.answered(reading.conn, find, ask, proposed=proposed, limit=limit)
            said = await messages.messages_told(reading.conn, self.desk.org_id, answer.found)
            by_id = {one.id: one for one in said}
            reading.shows([*answer.named.ids, *by_id])
        return _told(viewer, answer, [by_id[one] for one in answer.found if one in by_id])

    async def _known(self, viewer: Viewer, find: Find, ask: Ask[MemoryId], limit: int) -> Told[Memory]:
        check_limit(limit)
        proposed = await self._asking.proposed(viewer, find, [ask], limit)
        async with self.desk.reading(viewer, ACTION, recalls=True) as reading:
            answer = await self._asking.answered(reading.conn, find, ask, proposed=proposed, limit=limit)
            by_id = await self._memories(reading.conn, answer.found)
            reading.shows([*answer.named.ids, *by_id])
        return _told(viewer, answer, [by_id[one] for one in answer.found if one in by_id])

    async def _people(
        self, viewer: Viewer, find: Find, ask: Ask[Talk] | Ask[Present], limit: int
    ) -> Told[Counterpart]:
        check_limit(limit)
        proposed = await self._asking.proposed(viewer, find, [ask], limit)
        async with self.desk.reading(viewer, ACTION, recalls=True) as reading:
            answer = await self._asking.answered(reading.conn, find, ask, proposed=proposed, limit=limit)
            ids = [one.participant_id for one in answer.found]
            names = await called(reading.conn, self.desk.org_id, ids)
            reading.shows([*answer.named.ids, *names])
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
        return _told(viewer, answer, shown)

    async def _memories(self, conn: Connection, ids: Sequence[MemoryId]) -> dict[MemoryId, Memory]:
        return {one.id: one for one in await memories.memories_by_id(conn, self.desk.org_id, ids)}

    async def _texts(self, conn: Connection, named: Named, found: Sequence[Near]) -> dict[UUID, str]:
        """Return what is shown of what is near."""
        org_id = self.desk.org_id
        people = [ParticipantId(one.id) for one in found if one.label == "User"]
        held = await self._memories(conn, [MemoryId(one.id) for one in found if one.label == "Memory"])
        graph = DatabaseGraph(conn=conn, org_id=org_id)
        is_tagged = any(one.label == "Tag" for one in found)
        tags = await graph.tags(named.participant_ids) if is_tagged else {}
        return {
            **{key: one.name for key, one in (await called(conn, org_id, people)).items()},
            **{key: one.title or one.content for key, one in held.items()},
            **tags,
        }

    @property
    def _asking(self) -> Asking:
        return Asking(desk=self.desk, settings=self.settings, servers=self.servers)


async def _nobody(_conn: Connection) -> Named:
    return Named()


def _told(viewer: Viewer, answer: Answered[Any], shown: Sequence[Item]) -> Told[Item]:
    answered_by = None if not viewer.is_operator else "neo4j" if answer.is_copied else "postgresql"
    return Told(found=shown, answered_by=answered_by, degraded=answer.degraded)


async def _bots_said(graph: Graph, _: Named, limit: int) -> Sequence[MessageId]:
    return await graph.said_by_bots(limit=limit)


async def _said_by(graph: Graph, named: Named, limit: int) -> Sequence[MessageId]:
    return await graph.said_by(named.participant_ids, limit=limit)


async def _bots_know(graph: Graph, _: Named, limit: int) -> Sequence[MemoryId]:
    return await graph.known_by_bots(limit=limit)


async def _known_by(graph: Graph, named: Named, limit: int) -> Sequence[MemoryId]:
    return await graph.known_by(named.participant_ids, limit=limit)


async def _known_about(graph: Graph, named: Named, limit: int) -> Sequence[MemoryId]:
    return await graph.known_about(named.participant_ids, limit=limit)


async def _talked_to(graph: Graph, named: Named, limit: int) -> Sequence[Talk]:
    return await graph.talked_to(named.participant_ids, limit=limit)


async def _memories_near(graph: Graph, named: Named, limit: int) -> Sequence[Weighed]:
    return await graph.memories_near(named.participant_ids, limit=limit)


async def _tags_near(graph: Graph, named: Named, limit: int) -> Sequence[Tagged]:
    return await graph.tags_near(named.participant_ids, limit=limit)


async def _present_in(graph: Graph, named: Named, limit: int) -> Sequence[Present]:
    assert named.conversation_id is not None
    return await graph.present_in(named.conversation_id, limit=limit)


async def _memories_for(graph: Graph, named: Named, limit: int) -> Sequence[Weighed]:
    assert named.conversation_id is not None
    return await graph.memories_for(named.conversation_id, named.participant_ids, limit=limit)
