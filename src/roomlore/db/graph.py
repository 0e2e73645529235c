"""Graph questions in PostgreSQL: its policies decide what the viewer of the connection may see."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from roomlore.db import memories
from roomlore.db.memories import MemoryCursor, MemoryFilter
from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import ConversationId, MemoryId, MessageId, OrgId, ParticipantId
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.records import MemoryKind

QUERIES = Queries("graph")
#: The weight of a memory about a person, and of one that only involves them.
ABOUT_WEIGHT, INVOLVES_WEIGHT = 2, 1
#: The weight of a memory extracted from a conversation, and of a tag shared with such a memory.
SOURCE_WEIGHT, TAG_WEIGHT = 4, 1


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
class ParticipantCount:
    """A participant, the number of their messages or replies, and the time of the last one."""

    participant_id: ParticipantId
    count: int
    last: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedMemory:
    """A memory related to a person or a conversation, with the sum of the weights of its relations."""

    memory_id: MemoryId
    kind: MemoryKind
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TagCount:
    """A tag and the number of memories that have it."""

    tag: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ParticipantName:
    """A participant's name and kind, as the viewer knows them."""

    id: ParticipantId
    name: str
    kind: ParticipantKind


async def participant_names(
    conn: Connection, org_id: OrgId, participant_ids: Sequence[ParticipantId]
) -> dict[ParticipantId, ParticipantName]:
    """Return the names and kinds of the participants that the viewer knows."""
    params = {"org_id": org_id, "participant_ids": list(participant_ids)}
    return {row.id: row for row in await QUERIES.all(conn, "called", ParticipantName, params)}


async def with_other_accounts(
    conn: Connection, org_id: OrgId, participant_ids: Sequence[ParticipantId]
) -> list[ParticipantId]:
    """Return these participants and their other accounts that the viewer knows."""
    params = {"org_id": org_id, "participant_ids": list(participant_ids)}
    return [row.id for row in await QUERIES.all(conn, "persons", ParticipantRef, params)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseGraph:
    """Answers graph questions for the viewer of a connection that applies restrictions."""

    conn: Connection
    org_id: OrgId
    #: Limits `messages_by` and `memories_by` to these messages or memories.
    among: Sequence[UUID] | None = None

    async def messages_by_agents(self, *, limit: int) -> list[MessageId]:
        """Return the messages of agents, newest first."""
        return await self.messages_by(await self._agent_ids(), limit=limit)

    async def messages_by(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[MessageId]:
        """Return the messages of these accounts, newest first."""
        name = "said_by" if self.among is None else "said_among"
        params = self._params(participant_ids, limit) | {"among": self.among and list(self.among)}
        return [row.id for row in await QUERIES.all(self.conn, name, MessageRef, params)]

    async def memories_by_agents(self, *, limit: int) -> list[MemoryId]:
        """Return the memories that agents stated or observed, newest first."""
        return await self.memories_by(await self._agent_ids(), limit=limit)

    async def memories_by(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[MemoryId]:
        """Return the memories that these accounts stated or observed, newest first."""
        if self.among is not None:
            params = self._params(participant_ids, limit) | {
                "among": list(self.among),
                "roles": ["author", "perspective"],
            }
            return [row.id for row in await QUERIES.all(self.conn, "known_among", MemoryRef, params)]
        found: dict[MemoryId, MemoryCursor] = {}
        for facets in (
            MemoryFilter(author_ids=participant_ids),
            MemoryFilter(perspective_ids=participant_ids),
        ):
            cursors = await memories.newest_cursors(self.conn, self.org_id, facets, limit=limit)
            found |= {cursor.id: cursor for cursor in cursors}
        newest = sorted(found.values(), key=lambda cursor: cursor.position, reverse=True)
        return [cursor.id for cursor in newest[:limit]]

    async def memories_about(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[MemoryId]:
        """Return the memories about these accounts, newest first."""
        facets = MemoryFilter(subject_ids=participant_ids)
        found = await memories.newest_cursors(self.conn, self.org_id, facets, limit=limit)
        return [cursor.id for cursor in found]

    async def conversation_partners(
        self, participant_ids: Sequence[ParticipantId], *, limit: int
    ) -> list[ParticipantCount]:
        """Return who replied to these accounts or got a reply from them, the most frequent first."""
        return await QUERIES.all(self.conn, "talks", ParticipantCount, self._params(participant_ids, limit))

    async def related_memories(
        self, participant_ids: Sequence[ParticipantId], *, limit: int
    ) -> list[RelatedMemory]:
        """Return the memories that are about these accounts or involve them, the heaviest first."""
        params = self._params(participant_ids, limit)
        return await QUERIES.all(self.conn, "memories_near", RelatedMemory, params)

    async def related_tags(self, participant_ids: Sequence[ParticipantId]) -> list[TagCount]:
        """Return the tags of the memories that are about these accounts or involve them."""
        return await QUERIES.all(self.conn, "tags_near", TagCount, self._params(participant_ids, 0))

    async def conversation_authors(
        self, conversation_id: ConversationId, *, limit: int
    ) -> list[ParticipantCount]:
        """Return who wrote in a conversation, most messages first; empty unless the viewer sees all its messages."""
        params = self._params((), limit) | {"conversation_id": conversation_id}
        return await QUERIES.all(self.conn, "participants_of", ParticipantCount, params)

    async def conversation_memories(
        self, conversation_id: ConversationId, participant_ids: Sequence[ParticipantId], *, limit: int
    ) -> list[RelatedMemory]:
        """Return the memories extracted from a conversation or naming its participants, the heaviest first."""
        params = self._params(participant_ids, limit) | {"conversation_id": conversation_id}
        return await QUERIES.all(self.conn, "memories_for", RelatedMemory, params)

    async def _agent_ids(self) -> list[ParticipantId]:
        rows = await QUERIES.all(self.conn, "bots", ParticipantRef, {"org_id": self.org_id})
        return [row.id for row in rows]

    def _params(self, participant_ids: Sequence[ParticipantId], limit: int) -> dict[str, object]:
        return {
            "org_id": self.org_id,
            "participant_ids": list(dict.fromkeys(participant_ids)),
            "limit": max(limit, 0),
            "about": ABOUT_WEIGHT,
            "involves": INVOLVES_WEIGHT,
            "rests_on": SOURCE_WEIGHT,
            "tagged": TAG_WEIGHT,
        }
