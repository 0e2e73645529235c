"""The graph of people, messages and memories as the database knows it: what its viewer may see, decided by its policies."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from roomlore.db import memories
from roomlore.db.memories import MemoryCursor, MemoryFilter
from roomlore.db.queries import Connection, Queries
from roomlore.domain.graph import (
    ABOUT_WEIGHT,
    INVOLVES_WEIGHT,
    SOURCE_WEIGHT,
    TAG_WEIGHT,
    ConversationAuthor,
    ConversationPartner,
    RelatedMemory,
    RelatedTag,
)
from roomlore.domain.ids import ConversationId, MemoryId, MessageId, OrgId, ParticipantId
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.projections import tag_id
from roomlore.domain.records import MemoryRole

QUERIES = Queries("graph")
_WEIGHTS = {
    "about": ABOUT_WEIGHT,
    "involves": INVOLVES_WEIGHT,
    "rests_on": SOURCE_WEIGHT,
    "tagged": TAG_WEIGHT,
}
_AUTHOR_ROLES: Sequence[MemoryRole] = ("author", "perspective")
_SUBJECT_ROLES: Sequence[MemoryRole] = ("subject",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParticipantRef:
    """The id of a participant."""

    id: ParticipantId


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRef:
    """The id of a message."""

    id: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRef:
    """The id of a memory."""

    id: MemoryId


@dataclass(frozen=True, slots=True, kw_only=True)
class TagCount:
    """How many memories have a tag."""

    tag: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRow:
    """A message that a memory rests on."""

    message_id: MessageId
    memory_id: MemoryId


@dataclass(frozen=True, slots=True, kw_only=True)
class ParticipantName:
    """What the viewer may call a participant."""

    id: ParticipantId
    name: str
    kind: ParticipantKind


async def participant_names(
    conn: Connection, org_id: OrgId, participant_ids: Sequence[ParticipantId]
) -> dict[ParticipantId, ParticipantName]:
    """Return what the viewer may call these participants, as far as they are known."""
    params = {"org_id": org_id, "participant_ids": list(participant_ids)}
    return {row.id: row for row in await QUERIES.all(conn, "called", ParticipantName, params)}


async def with_other_accounts(
    conn: Connection, org_id: OrgId, participant_ids: Sequence[ParticipantId]
) -> list[ParticipantId]:
    """Return these participants with every other account of theirs that the viewer may know of."""
    params = {"org_id": org_id, "participant_ids": list(participant_ids)}
    return [row.id for row in await QUERIES.all(conn, "persons", ParticipantRef, params)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseGraph:
    """A `Graph`, for the viewer of its connection, which has to recall."""

    conn: Connection
    org_id: OrgId
    #: Only these can be answers: messages, memories, participants, tags; None: whatever is.
    among: Sequence[UUID] | None = None

    async def messages_by_agents(self, *, limit: int) -> list[MessageId]:
        """Return what agents said, newest first."""
        return await self.messages_by(await self._agent_ids(), limit=limit)

    async def messages_by(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[MessageId]:
        """Return what somebody said, newest first."""
        name = "said_by" if self.among is None else "said_among"
        rows = await QUERIES.all(self.conn, name, MessageRef, self._params(participant_ids, limit))
        return [row.id for row in rows]

    async def memories_by_agents(self, *, limit: int) -> list[MemoryId]:
        """Return the memories that agents stated or that were seen through their eyes, newest first."""
        return await self.memories_by(await self._agent_ids(), limit=limit)

    async def memories_by(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[MemoryId]:
        """Return the memories that somebody stated or that were seen through their eyes, newest first."""
        if self.among is not None:
            return await self._memories_with_role(participant_ids, _AUTHOR_ROLES, limit)
        found: dict[MemoryId, MemoryCursor] = {}
        for facets in (
            MemoryFilter(author_ids=participant_ids),
            MemoryFilter(perspective_ids=participant_ids),
        ):
            places = await memories.newest_cursors(self.conn, self.org_id, facets, limit=limit)
            found |= {one.id: one for one in places}
        newest = sorted(found.values(), key=lambda one: one.position, reverse=True)
        return [one.id for one in newest[:limit]]

    async def memories_about(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[MemoryId]:
        """Return the memories about somebody, newest first."""
        if self.among is not None:
            return await self._memories_with_role(participant_ids, _SUBJECT_ROLES, limit)
        facets = MemoryFilter(subject_ids=participant_ids)
        found = await memories.newest_cursors(self.conn, self.org_id, facets, limit=limit)
        return [one.id for one in found]

    async def conversation_partners(
        self, participant_ids: Sequence[ParticipantId], *, limit: int
    ) -> list[ConversationPartner]:
        """Return whom somebody answered or was answered by, the most frequent first."""
        return await QUERIES.all(
            self.conn, "talks", ConversationPartner, self._params(participant_ids, limit)
        )

    async def related_memories(
        self, participant_ids: Sequence[ParticipantId], *, limit: int
    ) -> list[RelatedMemory]:
        """Return the memories that are about somebody or involve them, the weightiest first."""
        return await QUERIES.all(
            self.conn, "memories_near", RelatedMemory, self._params(participant_ids, limit)
        )

    async def related_tags(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[RelatedTag]:
        """Return the tags of memories that are about somebody or involve them, the most frequent first."""
        found = await self._tag_counts(participant_ids)
        counted = [RelatedTag(tag_id=key, count=marking.count) for key, marking in found.items()]
        return sorted(counted, key=lambda one: (-one.count, one.tag_id))[: max(limit, 0)]

    async def sources_of(self, memory_ids: Sequence[MemoryId]) -> dict[MessageId, list[MemoryId]]:
        """Return the messages that these memories rest on, each with those that do."""
        params = {"org_id": self.org_id, "memory_ids": list(memory_ids)}
        found: dict[MessageId, list[MemoryId]] = {}
        for row in await QUERIES.all(self.conn, "rests_on", SourceRow, params):
            found.setdefault(row.message_id, []).append(row.memory_id)
        return found

    async def tags(self, participant_ids: Sequence[ParticipantId]) -> dict[UUID, str]:
        """Return what the tags near somebody are called, by their ids."""
        return {key: marking.tag for key, marking in (await self._tag_counts(participant_ids)).items()}

    async def conversation_authors(
        self, conversation_id: ConversationId, *, limit: int
    ) -> list[ConversationAuthor]:
        """Return who wrote in a conversation that the viewer may follow, the most talkative first."""
        params = self._params((), limit) | {"conversation_id": conversation_id}
        return await QUERIES.all(self.conn, "present_in", ConversationAuthor, params)

    async def conversation_memories(
        self, conversation_id: ConversationId, participant_ids: Sequence[ParticipantId], *, limit: int
    ) -> list[RelatedMemory]:
        """Return the memories that rest on a conversation, or name some of those present, the weightiest first."""
        params = self._params(participant_ids, limit) | {"conversation_id": conversation_id}
        return await QUERIES.all(self.conn, "memories_for", RelatedMemory, params)

    async def _agent_ids(self) -> list[ParticipantId]:
        return [
            row.id for row in await QUERIES.all(self.conn, "bots", ParticipantRef, {"org_id": self.org_id})
        ]

    async def _memories_with_role(
        self, participant_ids: Sequence[ParticipantId], roles: Sequence[MemoryRole], limit: int
    ) -> list[MemoryId]:
        params = self._params(participant_ids, limit) | {"roles": list(roles)}
        return [row.id for row in await QUERIES.all(self.conn, "known_among", MemoryRef, params)]

    async def _tag_counts(self, participant_ids: Sequence[ParticipantId]) -> dict[UUID, TagCount]:
        rows = await QUERIES.all(self.conn, "tags_near", TagCount, self._params(participant_ids, 0))
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
