"""Adding and changing memories: duplicates, sources, supersession.

All of it runs for the operator, who sees every memory. The caller decides who may read a memory.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from roomlore.db import memory_vectors, work_queue
from roomlore.db.outbox import append
from roomlore.db.queries import Connection, Queries, RowCount
from roomlore.domain.ids import MemoryId, MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.records import (
    AssertionAudience,
    MemoryKind,
    MemoryRole,
    MemorySource,
    Sensitivity,
    convert,
)

QUERIES = Queries("memory_writes")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDraft:
    """A claim to remember. Its importance is 1..5, its confidence 0..1."""

    id: MemoryId
    kind: MemoryKind
    title: str = ""
    content: str
    importance: float
    confidence: float = 1.0
    sensitivity: Sensitivity = "normal"
    is_conversation_sensitive: bool = False  # sensitive only because the conversation of a source is
    #: Who may read it if it has no source.
    audience: AssertionAudience = "self"
    asserted_by: ParticipantId | None = None
    asserted_in: RoomId | None = None
    recorded_at: datetime
    #: The time since when the claim is true.
    valid_from: datetime
    sources: Sequence[MemorySource] = ()
    roles: frozenset[tuple[MemoryRole, ParticipantId]] = frozenset()
    tags: frozenset[str] = frozenset()
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    task_id: str | None = None
    #: What extracted the memory from its sources; None if a person asserts it.
    extractor: str | None = None
    #: The existing memory that this memory repeats in other words, or contradicts.
    repeats: MemoryId | None = None
    replaces: MemoryId | None = None

    @property
    def source_ids(self) -> Sequence[MessageId]:
        """The messages that the memory comes from."""
        return [source.message_id for source in self.sources]

    def people(self, role: MemoryRole) -> set[ParticipantId]:
        """Return the participants with a role."""
        return {person for named, person in self.roles if named == role}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAudience:
    """The readers of a source of a memory."""

    room_id: RoomId
    #: The audience of a whisper; None for the whole room.
    recipients: Sequence[ParticipantId] | None
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ParticipantRef:
    """A participant, and the person to whom this account belongs."""

    id: ParticipantId
    person_id: UUID
    is_agent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchingMemory:
    """A memory that says the same as a claim."""

    id: MemoryId
    valid_from: datetime
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopedMemory:
    """A memory, and the facts that decide its dedup scope."""

    id: MemoryId
    sensitivity: Sensitivity
    audience: AssertionAudience
    asserted_by: ParticipantId | None
    dedup_scope: str
    source_ids: Sequence[MessageId]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStatement:
    """The words of a memory, with their authors and their time."""

    id: MemoryId
    #: The quoted words, in the order of their messages.
    words: str
    author_ids: Sequence[ParticipantId]
    #: When and where its last source states it.
    said_at: datetime
    sequence: int
    quote_start: int
    #: How reliable the author is: 3 for a person about themselves, 2 for a person about others, 1 for an agent.
    standing: int

    @property
    def position(self) -> tuple[datetime, int, int, MemoryId]:
        """The position in the order of statements."""
        return (self.said_at, self.sequence, self.quote_start, self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class DedupKey:
    """The key of duplicates: the dedup scope of a claim and the digest of its text."""

    dedup_scope: str
    digest: str
    draft: MemoryDraft = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsourcedMemory:
    """A memory to add that rests on no message."""

    id: MemoryId
    kind: MemoryKind
    title: str
    content: str
    importance: float
    confidence: float
    sensitivity: Sensitivity
    audience: AssertionAudience
    asserted_by: ParticipantId | None
    recorded_at: datetime
    valid_from: datetime
    task_id: str | None
    dedup_scope: str
    digest: str
    #: JSON.
    metadata_text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleOf:
    """A role of a participant in a memory."""

    memory_id: MemoryId
    participant_id: ParticipantId
    role: MemoryRole


@dataclass(frozen=True, slots=True, kw_only=True)
class TagOf:
    """A tag of a memory."""

    memory_id: MemoryId
    tag: str


@QUERIES.query
async def lock(conn: Connection, org_id: OrgId) -> None:
    """Lock the memories of the org against other writers until the transaction ends."""
    ...


@QUERIES.query
async def has_valid_sources(
    conn: Connection,
    org_id: OrgId,
    message_ids: Collection[MessageId],
    *,
    participant_ids: Collection[ParticipantId],
) -> bool:
    """Return whether all of these messages have a text, and all of these participants exist."""
    ...


@QUERIES.query
async def source_audiences(
    conn: Connection, org_id: OrgId, ids: Collection[MessageId]
) -> list[SourceAudience]:
    """Return who may read messages."""
    ...


@QUERIES.query
async def participants_by_id(
    conn: Connection, org_id: OrgId, ids: Collection[ParticipantId]
) -> dict[ParticipantId, ParticipantRef]:
    """Return the participants with these ids: the person of each, and whether it is an agent."""
    ...


@QUERIES.query
async def is_sensitive(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> bool:
    """Return whether one of these messages is in a sensitive conversation."""
    ...


async def find_inactive_match(conn: Connection, org_id: OrgId, place: DedupKey) -> MatchingMemory | None:
    """Return the inactive memory with the text of a claim, or a memory that another extractor made from the same words.

    Return None if there is no such memory, or if the claim has no source.
    """
    draft = place.draft
    if not draft.sources:
        return None
    return await inactive_match(
        conn, org_id, place, source=draft.sources[0], kind=draft.kind, extractor=draft.extractor
    )


@QUERIES.query
async def inactive_match(
    conn: Connection,
    org_id: OrgId,
    place: DedupKey,
    *,
    source: MemorySource,
    kind: MemoryKind,
    extractor: str | None,
) -> MatchingMemory | None:
    """Return a memory from the first source of a claim.

    It is the inactive memory with the text of the claim, or a memory of another extractor.
    """
    ...


@QUERIES.query
async def find_active_match(conn: Connection, org_id: OrgId, place: DedupKey) -> MatchingMemory | None:
    """Return the active memory with the same text in the same dedup scope."""
    ...


@QUERIES.query
async def has_same_audience(
    conn: Connection,
    org_id: OrgId,
    memory_id: MemoryId,
    message_ids: Collection[MessageId],
    *,
    sensitivity: Sensitivity,
) -> bool:
    """Return whether the sources of a memory and these messages have the same audiences."""
    ...


async def add(conn: Connection, org_id: OrgId, place: DedupKey, *, confidence: float) -> None:
    """Add a memory with its sources, participants and tags, and enqueue its vector."""
    draft = place.draft
    await add_memory(conn, org_id, place, draft, confidence=confidence)
    await add_sources(conn, org_id, draft.id, draft.sources, extractor=draft.extractor)
    await add_roles(conn, org_id, draft.id, draft.roles)
    await add_tags(conn, org_id, draft.id, draft.tags)
    await work_queue.enqueue(conn, org_id, "embed", [draft.id])


async def add_many(
    conn: Connection, org_id: OrgId, places: Sequence[DedupKey], *, confidences: Mapping[MemoryId, float]
) -> None:
    """Add memories without sources, with their participants and tags, and enqueue their vectors."""
    drafts = [place.draft for place in places]
    rows = [
        convert(
            UnsourcedMemory,
            place.draft,
            dedup_scope=place.dedup_scope,
            digest=place.digest,
            confidence=confidences[place.draft.id],
            metadata_text=json.dumps(place.draft.metadata),
        )
        for place in places
    ]
    roles = [
        RoleOf(memory_id=draft.id, participant_id=who, role=role)
        for draft in drafts
        for role, who in draft.roles
    ]
    tags = [TagOf(memory_id=draft.id, tag=tag) for draft in drafts for tag in draft.tags]
    await add_rows(conn, org_id, rows)
    await add_roles_of(conn, org_id, roles)
    await add_tags_of(conn, org_id, tags)
    await work_queue.enqueue(conn, org_id, "embed", [draft.id for draft in drafts])


@QUERIES.query
async def add_rows(conn: Connection, org_id: OrgId, memories: Sequence[UnsourcedMemory]) -> None:
    """Add the rows of memories."""
    ...


@QUERIES.query
async def add_roles_of(conn: Connection, org_id: OrgId, roles: Sequence[RoleOf]) -> None:
    """Add roles of participants to memories."""
    ...


@QUERIES.query
async def add_tags_of(conn: Connection, org_id: OrgId, tags: Sequence[TagOf]) -> None:
    """Add tags to memories."""
    ...


@QUERIES.query
async def add_memory(
    conn: Connection, org_id: OrgId, place: DedupKey, memory: MemoryDraft, *, confidence: float
) -> None:
    """Add the row of a memory."""
    ...


@QUERIES.query
async def add_sources(
    conn: Connection,
    org_id: OrgId,
    memory_id: MemoryId,
    sources: Collection[MemorySource],
    *,
    extractor: str | None,
) -> RowCount:
    """Add sources to a memory; return how many of them are new."""
    ...


@QUERIES.query
async def add_roles(
    conn: Connection, org_id: OrgId, memory_id: MemoryId, roles: Collection[tuple[MemoryRole, ParticipantId]]
) -> RowCount:
    """Add roles of participants to a memory; return how many of them are new."""
    ...


@QUERIES.query
async def add_tags(conn: Connection, org_id: OrgId, memory_id: MemoryId, tags: Collection[str]) -> None:
    """Add tags to a memory."""
    ...


@QUERIES.query
async def roles(
    conn: Connection, org_id: OrgId, memory_id: MemoryId
) -> set[tuple[MemoryRole, ParticipantId]]:
    """Return the participants of a memory and their roles."""
    ...


@QUERIES.query
async def demote_authors(conn: Connection, org_id: OrgId, memory_id: MemoryId) -> None:
    """Change the role of the authors of a memory to involved."""
    ...


async def reinforce(
    conn: Connection, org_id: OrgId, memory_id: MemoryId, draft: MemoryDraft, *, confidence: float
) -> None:
    """Record that a memory was stated again."""
    await reinforce_memory(conn, org_id, memory_id, draft, confidence=confidence)
    await add_tags(conn, org_id, memory_id, draft.tags)


@QUERIES.query
async def reinforce_memory(
    conn: Connection, org_id: OrgId, memory_id: MemoryId, draft: MemoryDraft, *, confidence: float
) -> None:
    """Update confidence, importance and times of a memory."""
    ...


@QUERIES.query
async def add_metadata(
    conn: Connection, org_id: OrgId, memory_id: MemoryId, metadata: Mapping[str, Any]
) -> RowCount:
    """Add metadata that a memory does not have yet; return whether anything was added."""
    ...


@QUERIES.query
async def near_memories(
    conn: Connection, org_id: OrgId, ids: Collection[MemoryId], *, most: int
) -> list[tuple[MemoryId, MemoryId]]:
    """Return pairs of a given memory and another memory of the same dedup scope, up to `most` pairs for each memory.

    For each given memory, the memories that share the most words with it come first.
    """
    ...


@QUERIES.query
async def statements(
    conn: Connection, org_id: OrgId, ids: Collection[MemoryId]
) -> dict[MemoryId, MemoryStatement]:
    """Return what memories state."""
    ...


async def supersede_in_scope(conn: Connection, org_id: OrgId, old_id: MemoryId, *, by: MemoryId) -> None:
    """Supersede a memory by another memory of the same dedup scope.

    Nothing changes if a person archived one of the two memories or keeps both. If the memory has a successor already,
    the successor is replaced only if it is later than the other memory and no person chose it.
    """
    if await supersede_scoped(conn, org_id, old_id, by=by):
        await append(conn, org_id, "memory.changed", [old_id])


@QUERIES.query
async def supersede_scoped(conn: Connection, org_id: OrgId, old_id: MemoryId, *, by: MemoryId) -> RowCount:
    """Supersede a memory, or give it an earlier successor; return whether it changed."""
    ...


@QUERIES.query
async def supersession_overrides(
    conn: Connection, org_id: OrgId, ids: Collection[MemoryId]
) -> set[tuple[MemoryId, str]]:
    """Return the pairs of memories that somebody keeps beside each other, so that neither supersedes the other.

    Each pair is the id of one memory and the digest of the other memory's text.
    """
    ...


async def supersede(conn: Connection, org_id: OrgId, old_id: MemoryId, *, by: MemoryId) -> bool:
    """Supersede a memory by another; return whether it was active."""
    await append(conn, org_id, "memory.changed", [old_id])
    return await supersede_active(conn, org_id, old_id, by=by) > 0


@QUERIES.query
async def supersede_active(conn: Connection, org_id: OrgId, old_id: MemoryId, *, by: MemoryId) -> RowCount:
    """Supersede a memory if it is active."""
    ...


async def archive(conn: Connection, org_id: OrgId, memory_id: MemoryId, *, at: datetime) -> bool:
    """Archive a memory and delete its vector; return whether it was active."""
    await append(conn, org_id, "memory.changed", [memory_id])
    if not await archive_active(conn, org_id, memory_id, at=at):
        return False
    await memory_vectors.drop_vectors(conn, org_id, [memory_id])
    return True


@QUERIES.query
async def archive_active(conn: Connection, org_id: OrgId, memory_id: MemoryId, *, at: datetime) -> RowCount:
    """Archive a memory if it is active."""
    ...


async def restore(conn: Connection, org_id: OrgId, memory_id: MemoryId, *, beside: MemoryId | None) -> bool:
    """Make a memory active again, beside its successor if it had one. Return whether it was inactive."""
    if beside is not None:
        await add_override(conn, org_id, memory_id, beside=beside)
    await append(conn, org_id, "memory.changed", [memory_id])
    if not await restore_inactive(conn, org_id, memory_id):
        return False
    await work_queue.enqueue(conn, org_id, "embed", [memory_id])
    return True


@QUERIES.query
async def add_override(conn: Connection, org_id: OrgId, memory_id: MemoryId, *, beside: MemoryId) -> None:
    """Record that a person keeps a memory beside another memory and beside all successors of the other memory."""
    ...


@QUERIES.query
async def restore_inactive(conn: Connection, org_id: OrgId, memory_id: MemoryId) -> RowCount:
    """Make a memory active if it is not."""
    ...


async def detach_sources(
    conn: Connection,
    org_id: OrgId,
    message_ids: Collection[MessageId],
    *,
    extractor: str,
    kept: Collection[tuple[MemoryId, MessageId]],
) -> list[MemoryId]:
    """Remove the sources that an extractor no longer finds in messages; return the memories without any source left."""
    ids = await remove_sources(conn, org_id, message_ids, extractor=extractor, kept=kept)
    await append(conn, org_id, "memory.changed", ids)
    return await orphans(conn, org_id, ids)


@QUERIES.query
async def remove_sources(
    conn: Connection,
    org_id: OrgId,
    message_ids: Collection[MessageId],
    *,
    extractor: str,
    kept: Collection[tuple[MemoryId, MessageId]],
) -> set[MemoryId]:
    """Remove the sources that an extractor recorded in these messages; return the memories that lost a source.

    The sources in `kept` stay.
    """
    ...


@QUERIES.query
async def orphans(conn: Connection, org_id: OrgId, ids: Collection[MemoryId]) -> list[MemoryId]:
    """Return the given memories that have no source."""
    ...


async def anonymise(conn: Connection, org_id: OrgId, ids: Collection[ParticipantId]) -> int:
    """Remove participants as the asserters of memories; return how many memories changed."""
    changed = await remove_asserter(conn, org_id, ids)
    await append(conn, org_id, "memory.changed", changed)
    return len(changed)


@QUERIES.query
async def remove_asserter(conn: Connection, org_id: OrgId, ids: Collection[ParticipantId]) -> set[MemoryId]:
    """Remove participants as asserters; return the changed memories."""
    ...


@QUERIES.query
async def memories_naming(
    conn: Connection, org_id: OrgId, ids: Collection[ParticipantId]
) -> list[ScopedMemory]:
    """Return the memories that are about the given participants or that these participants observed."""
    ...


async def update_dedup_scopes(conn: Connection, org_id: OrgId, circles: Mapping[MemoryId, str]) -> None:
    """Change the dedup scopes of memories. A supersession across scopes ends, unless a person set it."""
    await set_scopes(conn, org_id, circles.items())
    await restore_in_scopes(conn, org_id, circles)


@QUERIES.query
async def set_scopes(conn: Connection, org_id: OrgId, circles: Collection[tuple[MemoryId, str]]) -> None:
    """Set the dedup scopes of memories."""
    ...


@QUERIES.query
async def restore_in_scopes(conn: Connection, org_id: OrgId, ids: Collection[MemoryId]) -> None:
    """Make the given memories active again if their successor has another dedup scope."""
    ...


async def link_duplicates(conn: Connection, org_id: OrgId, circles: Collection[str]) -> None:
    """In each of these dedup scopes, keep only the newest of equal memories active."""
    await append(conn, org_id, "memory.changed", await supersede_duplicates(conn, org_id, circles))


@QUERIES.query
async def supersede_duplicates(conn: Connection, org_id: OrgId, circles: Collection[str]) -> set[MemoryId]:
    """Supersede all but the newest of equal active memories; return the superseded ones."""
    ...
