"""Graph questions in PostgreSQL: its policies decide what the viewer of the connection may see."""

from collections.abc import Collection, Sequence
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


@QUERIES.query
async def participant_names(
    conn: Connection, org_id: OrgId, participant_ids: Collection[ParticipantId]
) -> dict[ParticipantId, ParticipantName]:
    """Return the names and kinds of the participants that the viewer knows."""
    ...


@QUERIES.query
async def with_other_accounts(
    conn: Connection, org_id: OrgId, participant_ids: Collection[ParticipantId]
) -> list[ParticipantId]:
    """Return these participants and their other accounts that the viewer knows."""
    ...


@QUERIES.query
async def conversation_partners(
    conn: Connection, org_id: OrgId, participant_ids: Collection[ParticipantId], *, limit: int
) -> list[ParticipantCount]:
    """Return who replied to these accounts or got a reply from them, the most frequent first."""
    ...


@QUERIES.query
async def related_memories(
    conn: Connection, org_id: OrgId, participant_ids: Collection[ParticipantId], *, limit: int
) -> list[RelatedMemory]:
    """Return the memories that are about these accounts or involve them, the heaviest first."""
    ...


@QUERIES.query
async def related_tags(
    conn: Connection, org_id: OrgId, participant_ids: Collection[ParticipantId]
) -> list[TagCount]:
    """Return the tags of the memories that are about these accounts or involve them."""
    ...


@QUERIES.query
async def conversation_authors(
    conn: Connection, org_id: OrgId, conversation_id: ConversationId, *, limit: int
) -> list[ParticipantCount]:
    """Return who wrote in a conversation, the most messages first. Empty if the viewer does not see all of it."""
    ...


@QUERIES.query
async def conversation_memories(
    conn: Connection,
    org_id: OrgId,
    conversation_id: ConversationId,
    participant_ids: Collection[ParticipantId],
    *,
    limit: int,
) -> list[RelatedMemory]:
    """Return the memories that were extracted from a conversation or name its participants, the heaviest first."""
    ...


async def memories_about(
    conn: Connection, org_id: OrgId, participant_ids: Sequence[ParticipantId], *, limit: int
) -> list[MemoryId]:
    """Return the memories about these accounts, newest first."""
    facets = MemoryFilter(subject_ids=participant_ids)
    return [cursor.id for cursor in await memories.newest_cursors(conn, org_id, facets, limit=limit)]


async def memories_by(
    conn: Connection, org_id: OrgId, participant_ids: Sequence[ParticipantId], *, limit: int
) -> list[MemoryId]:
    """Return the memories that these accounts stated or observed, newest first."""
    found: dict[MemoryId, MemoryCursor] = {}
    for facets in (MemoryFilter(author_ids=participant_ids), MemoryFilter(perspective_ids=participant_ids)):
        cursors = await memories.newest_cursors(conn, org_id, facets, limit=limit)
        found |= {cursor.id: cursor for cursor in cursors}
    newest = sorted(found.values(), key=lambda cursor: cursor.position, reverse=True)
    return [cursor.id for cursor in newest[:limit]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseGraph:
    """Answers graph questions for the viewer of a connection that applies restrictions."""

    conn: Connection
    org_id: OrgId
    #: Limits the answers to these messages or memories.
    among: Sequence[UUID] | None = None

    async def messages_by_agents(self, *, limit: int) -> list[MessageId]:
        """Return the messages of agents, newest first."""
        return await self.messages_by(await _agent_ids(self.conn, self.org_id), limit=limit)

    async def messages_by(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[MessageId]:
        """Return the messages of these accounts, newest first."""
        if self.among is None:
            return await _messages_by(self.conn, self.org_id, participant_ids, limit=limit)
        return await _messages_among(self.conn, self.org_id, self.among, participant_ids, limit=limit)

    async def memories_by_agents(self, *, limit: int) -> list[MemoryId]:
        """Return the memories that agents stated or observed, newest first."""
        agent_ids = await _agent_ids(self.conn, self.org_id)
        if self.among is None:
            return await memories_by(self.conn, self.org_id, agent_ids, limit=limit)
        return await _memories_among(self.conn, self.org_id, self.among, agent_ids, limit=limit)


@QUERIES.query
async def _agent_ids(conn: Connection, org_id: OrgId) -> list[ParticipantId]: ...


@QUERIES.query
async def _messages_by(
    conn: Connection, org_id: OrgId, participant_ids: Collection[ParticipantId], *, limit: int
) -> list[MessageId]: ...


@QUERIES.query
async def _messages_among(
    conn: Connection,
    org_id: OrgId,
    among: Collection[UUID],
    participant_ids: Collection[ParticipantId],
    *,
    limit: int,
) -> list[MessageId]: ...


@QUERIES.query
async def _memories_among(
    conn: Connection,
    org_id: OrgId,
    among: Collection[UUID],
    participant_ids: Collection[ParticipantId],
    *,
    limit: int,
) -> list[MemoryId]: ...
