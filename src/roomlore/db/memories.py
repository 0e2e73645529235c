"""Memories: kept with what they rest on, read as far as the viewer may see all of that."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

from roomlore.db.queries import Connection, Queries
from roomlore.domain import paging
from roomlore.domain.ids import MemoryId, MessageId, OrgId, ParticipantId, RoomId, ids_matching
from roomlore.domain.records import (
    AssertionAudience,
    Memory,
    MemoryKind,
    MemoryParticipant,
    MemoryRole,
    MemorySource,
    MemoryStatus,
    Sensitivity,
)

QUERIES = Queries("memories")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRef:
    """The id of a memory."""

    id: MemoryId


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCursor:
    """A memory, and since when it is true: its place among all, which it need not take any more."""

    id: MemoryId
    valid_from: datetime

    @property
    def position(self) -> tuple[datetime, MemoryId]:
        """The place among memories, comparable."""
        return (self.valid_from, self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRow:
    """A memory without those it names."""

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
    #: What it rests on, in the order in which it was said: messages, and from where to where of each.
    source_ids: Sequence[MessageId]
    quote_starts: Sequence[int | None]
    quote_ends: Sequence[int | None]
    #: Whom it names, as far as the viewer may know of them, and as what.
    participant_ids: Sequence[ParticipantId]
    roles: Sequence[MemoryRole]
    tags: Sequence[str]
    metadata: Mapping[str, Any]
    task_id: str | None
    slot: str | None
    is_outdated: bool
    superseded_by: MemoryId | None
    #: Bytes of it and of those before it.
    reach: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownName:
    """What the viewer may call a participant."""

    id: ParticipantId
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFilter:
    """Which memories are meant; what is None narrows nothing."""

    #: Rests on something said there, or was asserted there.
    room_ids: Collection[RoomId] | None = None
    #: About one of them, stated by one of them, seen through the eyes of one of them.
    subject_ids: Collection[ParticipantId] | None = None
    author_ids: Collection[ParticipantId] | None = None
    perspective_ids: Collection[ParticipantId] | None = None
    kinds: Collection[MemoryKind] | None = None
    #: Only what stands, by default.
    statuses: Collection[MemoryStatus] | None = ("active",)
    #: Has one of them at least.
    tags: Collection[str] | None = None
    task_id: str | None = None
    #: True from then on.
    since: datetime | None = None
    #: As what stood then, whatever its status is now.
    as_of: datetime | None = None
    #: Before this place.
    before: MemoryCursor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LexicalMatch:
    """A memory that shares words with a question."""

    memory_id: MemoryId
    #: Share of the question's words, by rarity, that the memory has; 0..1.
    coverage: float
    #: The shared words, rarest first, as stems.
    terms: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Successor:
    """What took the place of a memory."""

    memory_id: MemoryId
    id: MemoryId


async def lexical_matches(conn: Connection, question: str, *, wanted: int) -> list[LexicalMatch]:
    """Return the visible memories that share words with a question, those with the rarest first."""
    # A terminal hands over anything; PostgreSQL takes neither NUL nor half a surrogate pair.
    text = question.encode("utf-8", "replace").decode().replace("\0", " ")
    return await QUERIES.all(conn, "worded", LexicalMatch, {"question": text, "wanted": wanted})


async def successors(
    conn: Connection, org_id: OrgId, ids: Collection[MemoryId]
) -> dict[MemoryId, list[MemoryId]]:
    """Return the memories that took the place of these, nearest first; those that still stand are left out."""
    rows = await QUERIES.all(conn, "successors", Successor, {"org_id": org_id, "memory_ids": list(ids)})
    found: dict[MemoryId, list[MemoryId]] = {}
    for row in rows:
        found.setdefault(row.memory_id, []).append(row.id)
    return found


async def predecessors(conn: Connection, org_id: OrgId, memory_id: MemoryId) -> list[Memory]:
    """Return the visible memories of which one took the place, newest first."""
    params = {"org_id": org_id, "memory_id": memory_id}
    found = await QUERIES.all(conn, "predecessors", MemoryRef, params)
    return await _complete(conn, org_id, [key.id for key in found], most_bytes=paging.MAX_PAGE_BYTES)


async def memories_by_id(conn: Connection, org_id: OrgId, ids: Collection[MemoryId]) -> list[Memory]:
    """Return those of these memories that are visible, newest first."""
    return await _complete(conn, org_id, ids)


async def newest(conn: Connection, org_id: OrgId, facets: MemoryFilter, *, limit: int) -> list[Memory]:
    """Return the newest memories that are visible and meant, newest first, as many as one answer holds."""
    found = await newest_cursors(conn, org_id, facets, limit=limit)
    return await _complete(conn, org_id, [one.id for one in found], most_bytes=paging.MAX_PAGE_BYTES)


async def newest_cursors(
    conn: Connection, org_id: OrgId, facets: MemoryFilter, *, limit: int
) -> list[MemoryCursor]:
    """Return the places of the newest memories that are visible and meant, newest first."""
    params = {
        "org_id": org_id,
        "room_ids": _as_list(facets.room_ids),
        "subject_ids": _as_list(facets.subject_ids),
        "author_ids": _as_list(facets.author_ids),
        "perspective_ids": _as_list(facets.perspective_ids),
        "kinds": _as_list(facets.kinds),
        "statuses": None if facets.as_of is not None else _as_list(facets.statuses),
        "tags": _as_list(facets.tags),
        "task_id": facets.task_id,
        "since": facets.since,
        "as_of": facets.as_of,
        "before_at": None if facets.before is None else facets.before.valid_from,
        "before_id": None if facets.before is None else facets.before.id,
        "limit": limit,
    }
    return await QUERIES.all(conn, "newest", MemoryCursor, params)


async def derived_from_message(
    conn: Connection, org_id: OrgId, message_id: MessageId, *, limit: int
) -> list[Memory]:
    """Return the newest visible memories that rest on a message, newest first, whatever became of them."""
    params = {"org_id": org_id, "message_id": message_id, "limit": limit}
    found = await QUERIES.all(conn, "resting_on", MemoryRef, params)
    return await _complete(conn, org_id, [key.id for key in found], most_bytes=paging.MAX_PAGE_BYTES)


async def find(conn: Connection, org_id: OrgId, word: str) -> list[Memory]:
    """Return up to ten visible memories that an id, its beginning or its end means."""
    if (ids := ids_matching(word)) is None:
        return []
    params = {"org_id": org_id, **asdict(ids)}
    found = await QUERIES.all(conn, "find", MemoryRef, params)
    return await _complete(conn, org_id, [key.id for key in found])


async def known_names(
    conn: Connection, org_id: OrgId, ids: Collection[ParticipantId]
) -> dict[ParticipantId, str]:
    """Return what the viewer may call these participants, as far as they are known."""
    params = {"org_id": org_id, "participant_ids": list(ids)}
    rows = await QUERIES.all(conn, "known_names", KnownName, params)
    return {row.id: row.name for row in rows}


async def _complete(
    conn: Connection, org_id: OrgId, ids: Collection[MemoryId], *, most_bytes: int | None = None
) -> list[Memory]:
    params = {"org_id": org_id, "memory_ids": list(ids), "most_bytes": most_bytes}
    stated = await QUERIES.all(conn, "memories_by_id", MemoryRow, params)
    names = await known_names(conn, org_id, {one for row in stated for one in row.participant_ids})
    return [_memory(row, names) for row in stated]


def _memory(row: MemoryRow, names: Mapping[ParticipantId, str]) -> Memory:
    sources = [
        MemorySource(message_id=message_id, quote_start=start, quote_end=end)
        for message_id, start, end in zip(row.source_ids, row.quote_starts, row.quote_ends, strict=True)
    ]
    participants = sorted(
        MemoryParticipant(role=role, name=names[one], id=one)
        for one, role in zip(row.participant_ids, row.roles, strict=True)
        # Somebody known only from what a wish keeps away is not named.
        if one in names
    )
    kept = {field.name: getattr(row, field.name) for field in fields(Memory) if hasattr(row, field.name)}
    kept["audience"] = "sources" if sources else row.audience
    return Memory(**kept, sources=sources, participants=participants)


def _as_list(values: Collection[Any] | None) -> list[Any] | None:
    return None if values is None else list(values)


#: Of the newest memories that might be offered, so many are compared.
MAX_SCANNED = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCount:
    """How many memories are there."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTarget:
    """A memory that stands and says the like, or the contrary, in other words."""

    id: MemoryId
    slot: str | None
    #: Last.
    said_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptCandidate:
    """A memory of which a language model may be told."""

    id: MemoryId
    kind: MemoryKind
    content: str
    slot: str | None
    circle: str
    source_ids: Sequence[MessageId]


async def find_link_target(
    conn: Connection, org_id: OrgId, memory_id: MemoryId, *, circle: str
) -> LinkTarget | None:
    """Return a memory that may be offered still, if it is of the same for the same."""
    return await QUERIES.first(conn, "kin", LinkTarget, {"org_id": org_id, "id": memory_id, "circle": circle})


async def prompt_candidates(
    conn: Connection,
    org_id: OrgId,
    circles: Collection[str],
    *,
    of_nobody: str,
    besides: Collection[MessageId],
    text: str,
    limit: int,
) -> list[PromptCandidate]:
    """Return what was drawn and stands of these circles, what shares most words with a text first.

    Args:
        conn: Reads for the operator.
        org_id: Whose.
        circles: Of whom and for whom.
        of_nobody: The circle of what is about no person, which has to share a word.
        besides: Nothing that rests on these messages.
        text: Its words count.
        limit: How many.
    """
    params = {"org_id": org_id, "circles": list(circles), "of_nobody": of_nobody, "text": text}
    params |= {"message_ids": list(besides), "limit": limit, "looked_at": MAX_SCANNED}
    return await QUERIES.all(conn, "offered", PromptCandidate, params)


async def all_exist(conn: Connection, org_id: OrgId, ids: Collection[MemoryId]) -> bool:
    """Return whether all of these memories are there, standing or not: what one says never changes."""
    row = await QUERIES.first(conn, "there", MemoryCount, {"org_id": org_id, "memory_ids": list(ids)})
    return row is not None and row.count == len(ids)
