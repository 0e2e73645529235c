"""The graph of people, messages and memories in the database: queries about what its viewer may see.

Memories are the active ones.
"""

from collections.abc import Collection, Sequence
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
_AUTHOR_ROLES: Sequence[MemoryRole] = ("author", "perspective")
_SUBJECT_ROLES: Sequence[MemoryRole] = ("subject",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParticipantName:
    """The name of a participant that the viewer may know."""

    id: ParticipantId
    name: str
    kind: ParticipantKind


@QUERIES.query
async def participant_names(
    conn: Connection, org_id: OrgId, participant_ids: Collection[ParticipantId]
) -> dict[ParticipantId, ParticipantName]:
    """Return the names of participants, as far as the viewer may know them."""
    ...


@QUERIES.query
async def with_other_accounts(
    conn: Connection, org_id: OrgId, participant_ids: Collection[ParticipantId]
) -> list[ParticipantId]:
    """Return these participants with all other accounts of theirs that the viewer may know."""
    ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseGraph:
    """A `Graph` for the viewer of its connection, which has to apply restrictions."""

    conn: Connection
    org_id: OrgId
    #: The messages, memories, participants and tags that results may contain; None for all.
    among: Sequence[UUID] | None = None

    async def messages_by_agents(self, *, limit: int) -> list[MessageId]:
        """Return the messages of agents, newest first."""
        return await self.messages_by(await _agent_ids(self.conn, self.org_id), limit=limit)

    async def messages_by(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[MessageId]:
        """Return the messages of participants, newest first."""
        ids = list(dict.fromkeys(participant_ids))
        if self.among is None:
            return await _said_by(self.conn, self.org_id, ids, limit=limit)
        return await _said_among(self.conn, self.org_id, ids, among=self.among, limit=limit)

    async def memories_by_agents(self, *, limit: int) -> list[MemoryId]:
        """Return the memories that agents stated or experienced, newest first."""
        return await self.memories_by(await _agent_ids(self.conn, self.org_id), limit=limit)

    async def memories_by(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[MemoryId]:
        """Return the memories that participants stated or experienced, newest first."""
        if self.among is not None:
            roles, among = _AUTHOR_ROLES, self.among
            return await _memories_among(
                self.conn, self.org_id, participant_ids, among=among, roles=roles, limit=limit
            )
        found: dict[MemoryId, MemoryCursor] = {}
        for facets in (
            MemoryFilter(author_ids=participant_ids),
            MemoryFilter(perspective_ids=participant_ids),
        ):
            cursors = await memories.newest_cursors(self.conn, self.org_id, facets, limit=limit)
            found |= {one.id: one for one in cursors}
        newest = sorted(found.values(), key=lambda one: one.position, reverse=True)
        return [one.id for one in newest[:limit]]

    async def memories_about(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[MemoryId]:
        """Return the memories about participants, newest first."""
        if self.among is not None:
            roles, among = _SUBJECT_ROLES, self.among
            return await _memories_among(
                self.conn, self.org_id, participant_ids, among=among, roles=roles, limit=limit
            )
        facets = MemoryFilter(subject_ids=participant_ids)
        found = await memories.newest_cursors(self.conn, self.org_id, facets, limit=limit)
        return [one.id for one in found]

    async def conversation_partners(
        self, participant_ids: Sequence[ParticipantId], *, limit: int
    ) -> list[ConversationPartner]:
        """Return the participants whom others answered or were answered by, the most frequent first."""
        return await _talks(self.conn, self.org_id, participant_ids, among=self.among, limit=limit)

    async def related_memories(
        self, participant_ids: Sequence[ParticipantId], *, limit: int
    ) -> list[RelatedMemory]:
        """Return the memories that are about participants or involve them, by weight."""
        return await _memories_near(self.conn, self.org_id, participant_ids, among=self.among, limit=limit)

    async def related_tags(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[RelatedTag]:
        """Return the tags of memories that are about participants or involve them, the most frequent first."""
        counts = [
            RelatedTag(tag_id=key, count=count)
            for key, (_, count) in (await self._tag_counts(participant_ids)).items()
        ]
        return sorted(counts, key=lambda one: (-one.count, one.tag_id))[:limit]

    async def tags(self, participant_ids: Sequence[ParticipantId]) -> dict[UUID, str]:
        """Return the tags near participants by their ids."""
        return {key: tag for key, (tag, _) in (await self._tag_counts(participant_ids)).items()}

    async def conversation_authors(
        self, conversation_id: ConversationId, *, limit: int
    ) -> list[ConversationAuthor]:
        """Return the authors of a conversation that the viewer may follow, the most talkative first."""
        return await _authors_in(self.conn, self.org_id, conversation_id, among=self.among, limit=limit)

    async def conversation_memories(
        self, conversation_id: ConversationId, participant_ids: Sequence[ParticipantId], *, limit: int
    ) -> list[RelatedMemory]:
        """Return the memories derived from a conversation or that name one of these participants, by weight."""
        return await _memories_for(
            self.conn, self.org_id, conversation_id, participant_ids, among=self.among, limit=limit
        )

    async def _tag_counts(self, participant_ids: Sequence[ParticipantId]) -> dict[UUID, tuple[str, int]]:
        counts = await _tags_near(self.conn, self.org_id, participant_ids)
        found = {tag_id(self.org_id, tag): (tag, count) for tag, count in counts.items()}
        return {key: one for key, one in found.items() if self.among is None or key in self.among}


@QUERIES.query
async def _agent_ids(conn: Connection, org_id: OrgId) -> list[ParticipantId]: ...


@QUERIES.query
async def _said_by(
    conn: Connection, org_id: OrgId, participant_ids: Collection[ParticipantId], *, limit: int
) -> list[MessageId]: ...


@QUERIES.query
async def _said_among(
    conn: Connection,
    org_id: OrgId,
    participant_ids: Collection[ParticipantId],
    *,
    among: Collection[UUID],
    limit: int,
) -> list[MessageId]: ...


@QUERIES.query
async def _memories_among(
    conn: Connection,
    org_id: OrgId,
    participant_ids: Collection[ParticipantId],
    *,
    among: Collection[UUID],
    roles: Collection[MemoryRole],
    limit: int,
) -> list[MemoryId]: ...


@QUERIES.query
async def _talks(
    conn: Connection,
    org_id: OrgId,
    participant_ids: Collection[ParticipantId],
    *,
    among: Collection[UUID] | None,
    limit: int,
) -> list[ConversationPartner]: ...


@QUERIES.query
async def _memories_near(
    conn: Connection,
    org_id: OrgId,
    participant_ids: Collection[ParticipantId],
    *,
    among: Collection[UUID] | None,
    limit: int,
    about: int = ABOUT_WEIGHT,
    involves: int = INVOLVES_WEIGHT,
) -> list[RelatedMemory]: ...


@QUERIES.query
async def _tags_near(
    conn: Connection, org_id: OrgId, participant_ids: Collection[ParticipantId]
) -> dict[str, int]: ...


@QUERIES.query
async def sources(
    conn: Connection, org_id: OrgId, memory_ids: Collection[MemoryId]
) -> dict[MessageId, list[MemoryId]]:
    """Return the source messages of memories, each with its memories."""
    ...


@QUERIES.query
async def _authors_in(
    conn: Connection,
    org_id: OrgId,
    conversation_id: ConversationId,
    *,
    among: Collection[UUID] | None,
    limit: int,
) -> list[ConversationAuthor]: ...


@QUERIES.query
async def _memories_for(
    conn: Connection,
    org_id: OrgId,
    conversation_id: ConversationId,
    participant_ids: Collection[ParticipantId],
    *,
    among: Collection[UUID] | None,
    limit: int,
    about: int = ABOUT_WEIGHT,
    involves: int = INVOLVES_WEIGHT,
    rests_on: int = SOURCE_WEIGHT,
    tagged: int = TAG_WEIGHT,
) -> list[RelatedMemory]: ...
