"""Memories as the viewer may read them: a viewer reads a memory if they may read all its sources."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from roomlore.db.messages import query_text
from roomlore.db.queries import Connection, Queries
from roomlore.domain import paging
from roomlore.domain.ids import IdRanges, MemoryId, MessageId, OrgId, ParticipantId, RoomId, ids_matching
from roomlore.domain.records import (
    AssertionAudience,
    Memory,
    MemoryKind,
    MemoryParticipant,
    MemoryRole,
    MemorySource,
    MemoryStatus,
    Sensitivity,
    convert,
)

QUERIES = Queries("memories")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCursor:
    """A memory and the time since when it is true. Memories are ordered by both."""

    id: MemoryId
    valid_from: datetime

    @property
    def position(self) -> tuple[datetime, MemoryId]:
        """The key by which memories are ordered."""
        return (self.valid_from, self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRow:
    """A memory without the names of its participants."""

    id: MemoryId
    kind: MemoryKind
    title: str
    content: str
    importance: float
    confidence: float
    sensitivity: Sensitivity
    status: MemoryStatus
    extractor: str | None
    audience: AssertionAudience
    asserted_by: ParticipantId | None
    asserted_in: RoomId | None
    recorded_at: datetime
    valid_from: datetime
    #: The source messages in order, and the start and end of the quoted part of each.
    source_ids: Sequence[MessageId]
    quote_starts: Sequence[int | None]
    quote_ends: Sequence[int | None]
    #: The participants that the viewer may know of, and their roles.
    participant_ids: Sequence[ParticipantId]
    roles: Sequence[MemoryRole]
    tags: Sequence[str]
    metadata: Mapping[str, Any]
    task_id: str | None
    is_outdated: bool
    superseded_by: MemoryId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFilter:
    """A filter of memories; None in a field means all."""

    #: Memories with a source in one of these rooms, or asserted in one of them.
    room_ids: Collection[RoomId] | None = None
    #: Memories that are about one of these people, stated by one of them, or observed by one of them.
    subject_ids: Collection[ParticipantId] | None = None
    author_ids: Collection[ParticipantId] | None = None
    perspective_ids: Collection[ParticipantId] | None = None
    kinds: Collection[MemoryKind] | None = None
    statuses: Collection[MemoryStatus] | None = ("active",)
    #: Memories with at least one of these tags.
    tags: Collection[str] | None = None
    task_id: str | None = None
    #: Memories that are true since this time or later.
    since: datetime | None = None
    #: Memories that were active at this time, whatever their status is now.
    as_of: datetime | None = None
    #: Memories before this position.
    before: MemoryCursor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LexicalMatch:
    """A memory that shares words with a question."""

    memory_id: MemoryId
    #: Share of the question's words in the memory, weighted by rarity; 0..1.
    coverage: float
    #: The shared words as stems, rarest first.
    terms: Sequence[str]


async def lexical_matches(conn: Connection, question: str, *, wanted: int) -> list[LexicalMatch]:
    """Return the visible memories that share words with a question, those with the rarest words first."""
    return await matching_question(conn, query_text(question), wanted=wanted)


@QUERIES.query
async def matching_question(conn: Connection, question: str, *, wanted: int) -> list[LexicalMatch]:
    """Return the visible memories that share words with a question. `query_text` must have prepared the question."""
    ...


@QUERIES.query
async def successors(
    conn: Connection, org_id: OrgId, ids: Collection[MemoryId]
) -> dict[MemoryId, list[MemoryId]]:
    """Return the memories that superseded each of the given memories, directly or indirectly, nearest first."""
    ...


async def predecessors(conn: Connection, org_id: OrgId, memory_id: MemoryId) -> list[Memory]:
    """Return the visible memories that this memory superseded, directly or indirectly, newest first."""
    return await _page(conn, org_id, await predecessor_ids(conn, org_id, memory_id))


@QUERIES.query
async def predecessor_ids(conn: Connection, org_id: OrgId, memory_id: MemoryId) -> set[MemoryId]:
    """Return the ids of the memories that a memory superseded."""
    ...


async def memories_by_id(conn: Connection, org_id: OrgId, ids: Collection[MemoryId]) -> list[Memory]:
    """Return the given memories that are visible, newest first."""
    return await _complete(conn, org_id, ids, most_bytes=None)


@QUERIES.query
async def existing_ids(conn: Connection, org_id: OrgId, ids: Collection[MemoryId]) -> set[MemoryId]:
    """Return those of the given memories that exist. For the operator."""
    ...


async def newest(conn: Connection, org_id: OrgId, facets: MemoryFilter, *, limit: int) -> list[Memory]:
    """Return the newest visible memories that match a filter, newest first, up to the size of one response."""
    cursors = await newest_cursors(conn, org_id, facets, limit=limit)
    return await _page(conn, org_id, {cursor.id for cursor in cursors})


async def newest_cursors(
    conn: Connection, org_id: OrgId, facets: MemoryFilter, *, limit: int
) -> list[MemoryCursor]:
    """Return the positions of the newest visible memories that match a filter, newest first."""
    position = (None, None) if facets.before is None else facets.before.position
    return await newest_matching(conn, org_id, facets, position=position, limit=limit)


@QUERIES.query
async def newest_matching(
    conn: Connection,
    org_id: OrgId,
    facets: MemoryFilter,
    *,
    position: tuple[datetime | None, MemoryId | None],
    limit: int,
) -> list[MemoryCursor]:
    """Return the positions of the newest visible memories before a position that match a filter."""
    ...


async def derived_from_message(
    conn: Connection, org_id: OrgId, message_id: MessageId, *, limit: int
) -> list[Memory]:
    """Return the newest visible memories from a message, active or not, newest first."""
    return await _page(conn, org_id, await ids_from_message(conn, org_id, message_id, limit=limit))


@QUERIES.query
async def ids_from_message(
    conn: Connection, org_id: OrgId, message_id: MessageId, *, limit: int
) -> set[MemoryId]:
    """Return the ids of the newest memories from a message."""
    ...


async def find(conn: Connection, org_id: OrgId, word: str) -> list[Memory]:
    """Return up to ten visible memories whose ids begin or end with a word."""
    ids = ids_matching(word)
    return await memories_by_id(conn, org_id, await ids_in_ranges(conn, org_id, ids)) if ids else []


@QUERIES.query
async def ids_in_ranges(conn: Connection, org_id: OrgId, ids: IdRanges) -> set[MemoryId]:
    """Return the ids of up to ten memories that are in these ranges."""
    ...


@QUERIES.query
async def known_names(
    conn: Connection, org_id: OrgId, ids: Collection[ParticipantId]
) -> dict[ParticipantId, str]:
    """Return the names of the given participants that the viewer may know of."""
    ...


@QUERIES.query
async def memory_rows(
    conn: Connection, org_id: OrgId, memory_ids: Collection[MemoryId], *, most_bytes: int | None
) -> list[MemoryRow]:
    """Return the given memories that are visible, newest first, until they reach a size."""
    ...


async def _page(conn: Connection, org_id: OrgId, ids: Collection[MemoryId]) -> list[Memory]:
    return await _complete(conn, org_id, ids, most_bytes=paging.MAX_PAGE_BYTES)


async def _complete(
    conn: Connection, org_id: OrgId, ids: Collection[MemoryId], *, most_bytes: int | None
) -> list[Memory]:
    rows = await memory_rows(conn, org_id, ids, most_bytes=most_bytes)
    names = await known_names(conn, org_id, {person for row in rows for person in row.participant_ids})
    return [_memory(row, names) for row in rows]


def _memory(row: MemoryRow, names: Mapping[ParticipantId, str]) -> Memory:
    sources = [
        MemorySource(message_id=message_id, quote_start=start, quote_end=end)
        for message_id, start, end in zip(row.source_ids, row.quote_starts, row.quote_ends, strict=True)
    ]
    participants = sorted(
        MemoryParticipant(role=role, name=names[person], id=person)
        for person, role in zip(row.participant_ids, row.roles, strict=True)
        # A participant known only from restricted messages is not named.
        if person in names
    )
    audience = "sources" if sources else row.audience
    return convert(Memory, row, audience=audience, sources=sources, participants=participants)


#: The number of newest memories that are compared with a text.
MAX_SCANNED = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTarget:
    """An active memory that a claim repeats or contradicts in other words."""

    id: MemoryId
    #: When its last source was sent.
    said_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptCandidate:
    """A memory that a prompt may show."""

    id: MemoryId
    kind: MemoryKind
    content: str
    dedup_scope: str
    source_ids: Sequence[MessageId]


@QUERIES.query
async def find_link_target(
    conn: Connection, org_id: OrgId, memory_id: MemoryId, *, dedup_scope: str
) -> LinkTarget | None:
    """Return a memory if a prompt may still show it and it has this dedup scope."""
    ...


@QUERIES.query
async def prompt_candidates(
    conn: Connection,
    org_id: OrgId,
    circles: Collection[str],
    *,
    of_nobody: str,
    besides: Collection[MessageId],
    text: str,
    limit: int,
    scanned: int = MAX_SCANNED,
) -> list[PromptCandidate]:
    """Return active extracted memories of these dedup scopes. Those that share more words with the text come first.

    Memories from the messages `besides` are left out. Memories of the scope `of_nobody` are returned only if they share
    a word with the text.
    """
    ...


@QUERIES.query
async def all_exist(conn: Connection, org_id: OrgId, ids: Collection[MemoryId]) -> bool:
    """Return whether all of these memories exist, active or not."""
    ...
