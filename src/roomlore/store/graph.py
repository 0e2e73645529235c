"""The graph of people, messages and memories as the database knows it: what its viewer may see, decided by its policies."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from roomlore.domain.graph import ABOUT, INVOLVES, RESTS_ON, TAGGED, Present, Tagged, Talk, Weighed
from roomlore.domain.ids import ConversationId, MemoryId, MessageId, OrgId, ParticipantId
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.projected import tag_id
from roomlore.domain.records import MemoryRole
from roomlore.store import memories
from roomlore.store.memories import Facets, MemoryPlace
from roomlore.store.queries import Connection, Queries

QUERIES = Queries("graph")
_WEIGHTS = {"about": ABOUT, "involves": INVOLVES, "rests_on": RESTS_ON, "tagged": TAGGED}
_STATED: Sequence[MemoryRole] = ("author", "perspective")
_ABOUT: Sequence[MemoryRole] = ("subject",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """The id of a participant."""

    id: ParticipantId


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The id of a message."""

    id: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The id of a memory."""

    id: MemoryId


@dataclass(frozen=True, slots=True, kw_only=True)
class Marking:
    """How many memories have a tag."""

    tag: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """A message that a memory rests on."""

    message_id: MessageId
    memory_id: MemoryId


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """What the viewer may call a participant."""

    id: ParticipantId
    name: str
    kind: ParticipantKind


async def called(
    conn: Connection, org_id: OrgId, participant_ids: Sequence[ParticipantId]
) -> dict[ParticipantId, Called]:
    """Return what the viewer may call these participants, as far as they are known."""
    params = {"org_id": org_id, "participant_ids": list(participant_ids)}
    return {row.id: row for row in await QUERIES.all(conn, "called", Called, params)}


async def persons(
    conn: Connection, org_id: OrgId, participant_ids: Sequence[ParticipantId]
) -> list[ParticipantId]:
    """Return these participants with every other account of theirs that the viewer may know of."""
    params = {"org_id": org_id, "participant_ids": list(participant_ids)}
    return [row.id for row in await QUERIES.all(conn, "persons", Who, params)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseGraph:
    """A `Graph`, for the viewer of its connection, which has to recall."""

    conn: Connection
    org_id: OrgId
    #: Only these can be answers: messages, memories, participants, tags; None: whatever is.
    among: Sequence[UUID] | None = None

    async def said_by_bots(self, *, limit: int) -> list[MessageId]:
        """Return what agents said, newest first."""
        return await self.said_by(await self._bots(), limit=limit)

    async def said_by(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[MessageId]:
        """Return what somebody said, newest first."""
        name = "said_by" if self.among is None else "said_among"
        rows = await QUERIES.all(self.conn, name, Said, self._params(participant_ids, limit))
        return [row.id for row in rows]

    async def known_by_bots(self, *, limit: int) -> list[MemoryId]:
        """Return the memories that agents stated or that were seen through their eyes, newest first."""
        return await self.known_by(await self._bots(), limit=limit)

    async def known_by(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[MemoryId]:
        """Return the memories that somebody stated or that were seen through their eyes, newest first."""
        if self.among is not None:
            return await self._known_among(participant_ids, _STATED, limit)
        found: dict[MemoryId, MemoryPlace] = {}
        for facets in (Facets(author_ids=participant_ids), Facets(perspective_ids=participant_ids)):
            places = await memories.newest_places(self.conn, self.org_id, facets, limit=limit)
            found |= {one.id: one for one in places}
        newest = sorted(found.values(), key=lambda one: one.position, reverse=True)
        return [one.id for one in newest[:limit]]

    async def known_about(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[MemoryId]:
        """Return the memories about somebody, newest first."""
        if self.among is not None:
            return await self._known_among(participant_ids, _ABOUT, limit)
        facets = Facets(subject_ids=participant_ids)
        found = await memories.newest_places(self.conn, self.org_id, facets, limit=limit)
        return [one.id for one in found]

    async def talked_to(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[Talk]:
        """Return whom somebody answered or was answered by, the most frequent first."""
        return await QUERIES.all(self.conn, "talks", Talk, self._params(participant_ids, limit))

    async def memories_near(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[Weighed]:
        """Return the memories that are about somebody or involve them, the weightiest first."""
        return await QUERIES.all(self.conn, "memories_near", Weighed, self._params(participant_ids, limit))

    async def tags_near(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[Tagged]:
        """Return the tags of memories that are about somebody or involve them, the most frequent first."""
        found = await self._marked(participant_ids)
        counted = [Tagged(tag_id=key, count=marking.count) for key, marking in found.items()]
        return sorted(counted, key=lambda one: (-one.count, one.tag_id))[: max(limit, 0)]

    async def rests_on(self, memory_ids: Sequence[MemoryId]) -> dict[MessageId, list[MemoryId]]:
        """Return the messages that these memories rest on, each with those that do."""
        params = {"org_id": self.org_id, "memory_ids": list(memory_ids)}
        found: dict[MessageId, list[MemoryId]] = {}
        for row in await QUERIES.all(self.conn, "rests_on", Ground, params):
            found.setdefault(row.message_id, []).append(row.memory_id)
        return found

    async def tags(self, participant_ids: Sequence[ParticipantId]) -> dict[UUID, str]:
        """Return what the tags near somebody are called, by their ids."""
        return {key: marking.tag for key, marking in (await self._marked(participant_ids)).items()}

    async def present_in(self, conversation_id: ConversationId, *, limit: int) -> list[Present]:
        """Return who wrote in a conversation that the viewer may follow, the most talkative first."""
        params = self._params((), limit) | {"conversation_id": conversation_id}
        return await QUERIES.all(self.conn, "present_in", Present, params)

    async def memories_for(
        self, conversation_id: ConversationId, participant_ids: Sequence[ParticipantId], *, limit: int
    ) -> list[Weighed]:
        """Return the memories that rest on a conversation, or name some of those present, the weightiest first."""
        params = self._params(participant_ids, limit) | {"conversation_id": conversation_id}
        return await QUERIES.all(self.conn, "memories_for", Weighed, params)

    async def _bots(self) -> list[ParticipantId]:
        return [row.id for row in await QUERIES.all(self.conn, "bots", Who, {"org_id": self.org_id})]

    async def _known_among(
        self, participant_ids: Sequence[ParticipantId], roles: Sequence[MemoryRole], limit: int
    ) -> list[MemoryId]:
        params = self._params(participant_ids, limit) | {"roles": list(roles)}
        return [row.id for row in await QUERIES.all(self.conn, "known_among", Known, params)]

    async def _marked(self, participant_ids: Sequence[ParticipantId]) -> dict[UUID, Marking]:
        rows = await QUERIES.all(self.conn, "tags_near", Marking, self._params(participant_ids, 0))
        found = {tag_id(self.org_id, row.tag): row for row in rows}
        return {key: row for key, row in found.items() if self.among is None or key in self.among}

    def _params(self, participant_ids: Sequence[ParticipantId], limit: int) -> dict[str, object]:
        return {
            "org_id": self.org_id,
            "participant_ids": list(dict.fromkeys(participant_ids)),
            "among": None if self.among is None else list(self.among),
            "limit": max(limit, 0),
            **_WEIGHTS,
        }
