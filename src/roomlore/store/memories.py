"""Memories: kept with what they rest on, read as far as the viewer may see all of that."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from roomlore.domain.ids import MemoryId, MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.records import Memory, MemoryKind, MemoryParticipant, MemoryRole, Sensitivity
from roomlore.store.queries import Connection, Queries

QUERIES = Queries("memories")
ID_BEGINNING = re.compile("[0-9a-f]{4,32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryKey:
    """The id of a memory."""

    id: MemoryId


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """The id of a message without words, or of nothing."""

    id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class SameMemory:
    """A memory that says the same, what it rests on and whom it is about."""

    id: MemoryId
    recorded_at: datetime
    source_ids: Sequence[MessageId]
    subject_ids: Sequence[ParticipantId]
    is_outdated: bool
    superseded_by: MemoryId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """A memory without those it names."""

    id: MemoryId
    kind: MemoryKind
    content: str
    sensitivity: Sensitivity
    asserted_by: ParticipantId | None
    recorded_at: datetime
    source_ids: Sequence[MessageId]
    is_outdated: bool
    superseded_by: MemoryId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Somebody whom a memory names."""

    memory_id: MemoryId
    participant_id: ParticipantId
    role: MemoryRole


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownName:
    """What the viewer may call a participant."""

    id: ParticipantId
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A source of a memory, and whom it is for."""

    message_id: MessageId
    room_id: RoomId
    #: And not for some only, as a whisper is.
    is_for_room: bool
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Worded:
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


async def lock_content(conn: Connection, org_id: OrgId, content: str) -> None:
    """Wait until no other writer adds a memory of this content; held until the transaction ends."""
    await QUERIES.run(conn, "lock_content", {"org_id": org_id, "content": content})


async def is_grounded(conn: Connection, org_id: OrgId, memory: Memory) -> bool:
    """Return whether all that a memory rests on is there with its words, and everybody it names."""
    params = {
        "org_id": org_id,
        "message_ids": list(memory.source_ids),
        "participant_ids": [person.id for person in memory.participants],
    }
    return not await QUERIES.all(conn, "missing", Missing, params)


async def same(conn: Connection, org_id: OrgId, memory: Memory) -> SameMemory | None:
    """Return the memory, if there is one, that says the same of the same by the same participant."""
    params = {
        "org_id": org_id,
        "content": memory.content,
        "kind": memory.kind,
        "sensitivity": memory.sensitivity,
        "asserted_by": memory.asserted_by,
    }
    found = await QUERIES.all(conn, "same", SameMemory, params)
    sources, subjects = set(memory.source_ids), set(memory.subject_ids)
    return next(
        (one for one in found if set(one.source_ids) == sources and set(one.subject_ids) == subjects), None
    )


async def add(conn: Connection, org_id: OrgId, memory: Memory) -> None:
    """Add a memory, what it rests on and whom it names."""
    params = {
        "org_id": org_id,
        "id": memory.id,
        "kind": memory.kind,
        "content": memory.content,
        "sensitivity": memory.sensitivity,
        "asserted_by": memory.asserted_by,
        "recorded_at": memory.recorded_at,
        "source_ids": list(memory.source_ids),
        "participant_ids": [person.id for person in memory.participants],
        "roles": [person.role for person in memory.participants],
    }
    for name in ("add", "add_sources", "add_participants"):
        await QUERIES.run(conn, name, params)


async def lock_superseding(conn: Connection, org_id: OrgId) -> None:
    """Wait until nobody else changes which memories of the org take whose place; held until the transaction ends."""
    await QUERIES.run(conn, "lock_superseding", {"org_id": org_id})


async def supersede(conn: Connection, org_id: OrgId, old_id: MemoryId, *, by: MemoryId) -> bool:
    """Put a memory in the place of another, and return whether that one still stood."""
    return await QUERIES.run(conn, "supersede", {"org_id": org_id, "old_id": old_id, "id": by}) > 0


async def audience(conn: Connection, org_id: OrgId, memory_id: MemoryId) -> list[Heard]:
    """Return what decides who may see a memory: its sources, and whom each is for."""
    return await QUERIES.all(conn, "audience", Heard, {"org_id": org_id, "memory_id": memory_id})


async def worded(conn: Connection, question: str, *, wanted: int) -> list[Worded]:
    """Return the visible memories that share words with a question, those with the rarest first."""
    # A terminal hands over anything; PostgreSQL takes neither NUL nor half a surrogate pair.
    text = question.encode("utf-8", "replace").decode().replace("\0", " ")
    return await QUERIES.all(conn, "worded", Worded, {"question": text, "wanted": wanted})


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
    return await _whole(conn, org_id, await QUERIES.all(conn, "predecessors", MemoryKey, params))


async def memories_by_id(conn: Connection, org_id: OrgId, ids: Collection[MemoryId]) -> list[Memory]:
    """Return those of these memories that are visible, newest first."""
    return await _whole(conn, org_id, [MemoryKey(id=memory_id) for memory_id in ids])


async def newest(
    conn: Connection, org_id: OrgId, *, subject_ids: Collection[ParticipantId] | None, limit: int
) -> list[Memory]:
    """Return the newest memories that are visible, or those about some participants, newest first."""
    params = {
        "org_id": org_id,
        "subject_ids": None if subject_ids is None else list(subject_ids),
        "limit": limit,
    }
    return await _whole(conn, org_id, await QUERIES.all(conn, "newest", MemoryKey, params))


async def find(conn: Connection, org_id: OrgId, word: str) -> list[Memory]:
    """Return up to ten visible memories that an id or its beginning means."""
    digits = word.replace("-", "").lower()
    if not ID_BEGINNING.fullmatch(digits):
        return []
    params = {"org_id": org_id, "digits": digits}
    return await _whole(conn, org_id, await QUERIES.all(conn, "find", MemoryKey, params))


async def known_names(
    conn: Connection, org_id: OrgId, ids: Collection[ParticipantId]
) -> dict[ParticipantId, str]:
    """Return what the viewer may call these participants, as far as they are known."""
    params = {"org_id": org_id, "participant_ids": list(ids)}
    rows = await QUERIES.all(conn, "known_names", KnownName, params)
    return {row.id: row.name for row in rows}


async def _whole(conn: Connection, org_id: OrgId, keys: Sequence[MemoryKey]) -> list[Memory]:
    params = {"org_id": org_id, "memory_ids": [key.id for key in keys]}
    stated = await QUERIES.all(conn, "memories_by_id", Stated, params)
    named = await QUERIES.all(conn, "participants", Named, params)
    names = await known_names(conn, org_id, {row.participant_id for row in named})
    participants: dict[MemoryId, list[MemoryParticipant]] = {}
    for row in named:
        person = MemoryParticipant(role=row.role, name=names[row.participant_id], id=row.participant_id)
        participants.setdefault(row.memory_id, []).append(person)
    return [_memory(row, sorted(participants.get(row.id, ()))) for row in stated]


def _memory(row: Stated, participants: Sequence[MemoryParticipant]) -> Memory:
    return Memory(
        id=row.id,
        kind=row.kind,
        content=row.content,
        sensitivity=row.sensitivity,
        asserted_by=row.asserted_by,
        recorded_at=row.recorded_at,
        source_ids=row.source_ids,
        participants=participants,
        is_outdated=row.is_outdated,
        superseded_by=row.superseded_by,
    )
