"""What is remembered anew: whether it is there already, what it rests on, what it takes the place of.

All of it runs for the operator, who sees every memory; whoever calls decides for whom it is.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from roomlore.db import memory_vectors, work_queue
from roomlore.db.outbox import append
from roomlore.db.queries import Connection, Queries, columns
from roomlore.domain.ids import MemoryId, MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.records import AssertionAudience, MemoryKind, MemoryRole, MemorySource, Sensitivity

QUERIES = Queries("memory_writes")
#: What a memory has of its draft as it is.
_MEMORY_COLUMNS = (
    *("id", "title", "content", "importance", "sensitivity", "audience", "asserted_by", "asserted_in"),
    *("recorded_at", "valid_from", "task_id"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDraft:
    """A statement that is to be remembered; importance is 1..5, confidence 0..1."""

    id: MemoryId
    kind: MemoryKind
    title: str = ""
    content: str
    importance: float
    confidence: float = 1.0
    sensitivity: Sensitivity = "normal"
    is_hushed: bool = False  # sensitive only because a conversation that it rests on is
    #: For whom it is where it rests on no message.
    audience: AssertionAudience = "self"
    asserted_by: ParticipantId | None = None
    asserted_in: RoomId | None = None
    recorded_at: datetime
    #: Since when it is true.
    valid_from: datetime
    sources: Sequence[MemorySource] = ()
    roles: frozenset[tuple[MemoryRole, ParticipantId]] = frozenset()
    tags: frozenset[str] = frozenset()
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    task_id: str | None = None
    slot: str | None = None
    #: What drew it from its sources; None where somebody asserts it.
    extractor: str | None = None
    #: What is remembered already and says the same in other words, or is so no longer because of this.
    repeats: MemoryId | None = None
    replaces: MemoryId | None = None

    def people(self, role: MemoryRole) -> set[ParticipantId]:
        """Return those whom it names in a role."""
        return {who for named, who in self.roles if named == role}


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingSource:
    """The id of a message without words, or of nothing."""

    id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAudience:
    """Whom a source of a memory is for."""

    room_id: RoomId
    #: Of what was for some only, as a whisper: those; None for what the whole room heard.
    hearers: Sequence[ParticipantId] | None
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ParticipantRef:
    """A participant, and the person whose account it is."""

    id: ParticipantId
    person_id: UUID
    is_agent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchingMemory:
    """A memory that says the same."""

    id: MemoryId
    valid_from: datetime
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagRow:
    """Whether something is so."""

    is_so: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopedMemory:
    """A memory, and what decides of whom and for whom it is."""

    id: MemoryId
    sensitivity: Sensitivity
    audience: AssertionAudience
    asserted_by: ParticipantId | None
    circle: str
    slot: str | None
    source_ids: Sequence[MessageId]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleRow:
    """Somebody whom a memory names."""

    participant_id: ParticipantId
    role: MemoryRole


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeValue:
    """What something was said to be."""

    id: MemoryId
    digest: str
    #: Last; of what was said at the same time, in which order, and from which letter on.
    said_at: datetime
    native_order: int
    quote_start: int
    recorded_at: datetime
    superseded_by: MemoryId | None
    #: How well whoever says it knows: 3 of themselves, 2 of others, 1 an agent.
    standing: int

    @property
    def position(self) -> tuple[datetime, int, datetime, int, MemoryId]:
        """Its place in the order of what was said; a correction comes after what it corrects."""
        return (self.said_at, self.native_order, self.recorded_at, self.quote_start, self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class SupersessionOverride:
    """A memory stands beside what has this digest."""

    memory_id: MemoryId
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DetachedMemory:
    """A memory that lost a source."""

    memory_id: MemoryId


@dataclass(frozen=True, slots=True, kw_only=True)
class DedupKey:
    """Among what a statement stands: of whom and for whom it is, and what it says."""

    circle: str
    digest: str
    draft: MemoryDraft = field(repr=False)

    @property
    def params(self) -> dict[str, object]:
        """What tells it apart, for queries."""
        first = self.draft.sources[0] if self.draft.sources else None
        return {
            "circle": self.circle,
            "digest": self.digest,
            "kind": self.draft.kind,
            "drawn_by": self.draft.extractor,
            "slot": self.draft.slot,
            "message_id": first and first.message_id,
            "quote_start": first and first.quote_start,
            "quote_end": first and first.quote_end,
        }


async def lock(conn: Connection, org_id: OrgId) -> None:
    """Wait until nobody else changes which memories the org has; held until the transaction ends."""
    await QUERIES.run(conn, "lock", {"org_id": org_id})


async def has_valid_sources(conn: Connection, org_id: OrgId, draft: MemoryDraft) -> bool:
    """Return whether all that a statement rests on is there with its words, and everybody it names."""
    params = {
        "org_id": org_id,
        "message_ids": [source.message_id for source in draft.sources],
        "participant_ids": [who for _, who in draft.roles],
    }
    return not await QUERIES.all(conn, "missing", MissingSource, params)


async def source_audiences(
    conn: Connection, org_id: OrgId, ids: Collection[MessageId]
) -> list[SourceAudience]:
    """Return whom messages are for."""
    return await QUERIES.all(conn, "heard", SourceAudience, {"org_id": org_id, "message_ids": list(ids)})


async def participants_by_id(
    conn: Connection, org_id: OrgId, ids: Collection[ParticipantId]
) -> dict[ParticipantId, ParticipantRef]:
    """Return whose accounts participants are, and which are agents."""
    params = {"org_id": org_id, "participant_ids": list(ids)}
    return {row.id: row for row in await QUERIES.all(conn, "people", ParticipantRef, params)}


async def is_sensitive(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> bool:
    """Return whether one of these messages is in a conversation that is only for those who were there."""
    row = await QUERIES.first(conn, "hushed", FlagRow, {"org_id": org_id, "message_ids": list(ids)})
    return row is not None and row.is_so


async def find_inactive_match(conn: Connection, org_id: OrgId, place: DedupKey) -> MatchingMemory | None:
    """Return the memory that a statement's very words made before: put aside or superseded, or drawn by something else."""
    return await QUERIES.first(conn, "settled", MatchingMemory, {"org_id": org_id, **place.params})


async def find_active_match(conn: Connection, org_id: OrgId, place: DedupKey) -> MatchingMemory | None:
    """Return the memory that stands and says the same of the same for the same."""
    return await QUERIES.first(conn, "same", MatchingMemory, {"org_id": org_id, **place.params})


async def has_same_audience(conn: Connection, org_id: OrgId, memory_id: MemoryId, draft: MemoryDraft) -> bool:
    """Return whether the same people could hear what a memory and a statement rest on."""
    params = {
        "org_id": org_id,
        "id": memory_id,
        "message_ids": [source.message_id for source in draft.sources],
        "sensitivity": draft.sensitivity,
    }
    row = await QUERIES.first(conn, "heard_alike", FlagRow, params)
    return row is not None and row.is_so


async def add(conn: Connection, org_id: OrgId, place: DedupKey, *, confidence: float) -> None:
    """Add a memory, what it rests on, whom it names and its tags, and ask for its vector."""
    draft = place.draft
    stated = {name: getattr(draft, name) for name in _MEMORY_COLUMNS}
    params = {
        "org_id": org_id,
        **stated,
        "confidence": confidence,
        "metadata": json.dumps(dict(draft.metadata)),
        "is_hushed": draft.is_hushed,
    }
    await QUERIES.run(conn, "add", {**place.params, **params})
    await add_sources(conn, org_id, draft.id, draft)
    await add_roles(conn, org_id, draft.id, draft.roles)
    await QUERIES.run(conn, "add_tags", {"org_id": org_id, "id": draft.id, "tags": sorted(draft.tags)})
    await work_queue.enqueue(conn, org_id, "embed", [draft.id])


async def add_sources(conn: Connection, org_id: OrgId, memory_id: MemoryId, draft: MemoryDraft) -> int:
    """Let a memory also rest on what a statement rests on; return on how much more."""
    rests_on = columns(MemorySource, draft.sources)
    params = {"org_id": org_id, "id": memory_id, "drawn_by": draft.extractor, **rests_on}
    return await QUERIES.run(conn, "add_sources", params)


async def add_roles(
    conn: Connection,
    org_id: OrgId,
    memory_id: MemoryId,
    roles: Collection[tuple[MemoryRole, ParticipantId]],
) -> int:
    """Say whom a memory names, and in which role; return how many more that are."""
    params = {
        "org_id": org_id,
        "id": memory_id,
        "participant_ids": [who for _, who in roles],
        "roles": [role for role, _ in roles],
    }
    return await QUERIES.run(conn, "add_participants", params)


async def roles(
    conn: Connection, org_id: OrgId, memory_id: MemoryId
) -> set[tuple[MemoryRole, ParticipantId]]:
    """Return whom a memory names, and in which role."""
    rows = await QUERIES.all(conn, "named", RoleRow, {"org_id": org_id, "id": memory_id})
    return {(row.role, row.participant_id) for row in rows}


async def demote_authors(conn: Connection, org_id: OrgId, memory_id: MemoryId) -> None:
    """Let those who stated a memory be involved only."""
    await QUERIES.run(conn, "involve", {"org_id": org_id, "id": memory_id})


async def reinforce(
    conn: Connection, org_id: OrgId, memory_id: MemoryId, draft: MemoryDraft, *, confidence: float
) -> None:
    """Note that a memory was stated once more."""
    stated = {name: getattr(draft, name) for name in ("importance", "valid_from", "recorded_at", "task_id")}
    params = {"org_id": org_id, "id": memory_id, "confidence": confidence, **stated}
    await QUERIES.run(conn, "strengthen", params)
    await QUERIES.run(conn, "add_tags", {"org_id": org_id, "id": memory_id, "tags": sorted(draft.tags)})


async def add_metadata(
    conn: Connection, org_id: OrgId, memory_id: MemoryId, metadata: Mapping[str, Any]
) -> bool:
    """Keep with a memory what else it was given with; return whether that is more than before."""
    params = {"org_id": org_id, "id": memory_id, "metadata": json.dumps(dict(metadata))}
    return bool(await QUERIES.run(conn, "enrich", params))


async def attribute_values(
    conn: Connection, org_id: OrgId, *, circle: str, slot: str
) -> list[AttributeValue]:
    """Return what a slot of a circle was said to be, without what a person put in another's place."""
    return await QUERIES.all(
        conn, "values", AttributeValue, {"org_id": org_id, "circle": circle, "slot": slot}
    )


async def supersession_overrides(
    conn: Connection, org_id: OrgId, ids: Iterable[MemoryId]
) -> set[tuple[MemoryId, str]]:
    """Return which memories stand beside what, because a person said so."""
    rows = await QUERIES.all(
        conn, "partings", SupersessionOverride, {"org_id": org_id, "memory_ids": list(ids)}
    )
    return {(row.memory_id, row.digest) for row in rows}


async def set_successors(
    conn: Connection, org_id: OrgId, successors: Mapping[MemoryId, MemoryId | None]
) -> None:
    """Say what took the place of memories; None: they stand."""
    params = {"org_id": org_id, "id": list(successors), "superseded_by": list(successors.values())}
    await QUERIES.run(conn, "succeed", params)
    await append(conn, org_id, "memory.changed", successors)


async def supersede(conn: Connection, org_id: OrgId, old_id: MemoryId, *, by: MemoryId) -> bool:
    """Put a memory in the place of another, and return whether that one still stood."""
    await append(conn, org_id, "memory.changed", [old_id])
    return await QUERIES.run(conn, "supersede", {"org_id": org_id, "old_id": old_id, "id": by}) > 0


async def archive(conn: Connection, org_id: OrgId, memory_id: MemoryId, *, at: datetime) -> bool:
    """Put a memory aside, without its vector, and return whether it stood."""
    await append(conn, org_id, "memory.changed", [memory_id])
    if not await QUERIES.run(conn, "archive", {"org_id": org_id, "id": memory_id, "at": at}):
        return False
    await memory_vectors.drop_vectors(conn, org_id, [memory_id])
    return True


async def restore(conn: Connection, org_id: OrgId, memory_id: MemoryId, *, beside: MemoryId | None) -> bool:
    """Let a memory stand again, beside what took its place; return whether it had not stood."""
    if beside is not None:
        await QUERIES.run(conn, "part", {"org_id": org_id, "id": memory_id, "later_id": beside})
    await append(conn, org_id, "memory.changed", [memory_id])
    if not await QUERIES.run(conn, "restore", {"org_id": org_id, "id": memory_id}):
        return False
    await work_queue.enqueue(conn, org_id, "embed", [memory_id])
    return True


async def detach_sources(
    conn: Connection,
    org_id: OrgId,
    message_ids: Collection[MessageId],
    *,
    extractor: str,
    kept: Collection[tuple[MemoryId, MessageId]],
) -> list[MemoryId]:
    """Take from messages what was drawn from them and is not any more; return memories that rest on nothing then."""
    params = {
        "org_id": org_id,
        "message_ids": list(message_ids),
        "drawn_by": extractor,
        "kept_ids": [memory_id for memory_id, _ in kept],
        "kept_message_ids": [message_id for _, message_id in kept],
    }
    ids = [row.memory_id for row in await QUERIES.all(conn, "loosen", DetachedMemory, params)]
    await append(conn, org_id, "memory.changed", ids)
    params = {"org_id": org_id, "memory_ids": ids}
    return [row.memory_id for row in await QUERIES.all(conn, "baseless", DetachedMemory, params)]


async def anonymise(conn: Connection, org_id: OrgId, ids: Collection[ParticipantId]) -> int:
    """Keep what participants asserted as nobody's, and return how many memories that are."""
    rows = await QUERIES.all(conn, "disown", DetachedMemory, {"org_id": org_id, "participant_ids": list(ids)})
    await append(conn, org_id, "memory.changed", [row.memory_id for row in rows])
    return len(rows)


async def memories_naming(
    conn: Connection, org_id: OrgId, ids: Collection[ParticipantId]
) -> list[ScopedMemory]:
    """Return the memories that are about participants or were seen by them."""
    return await QUERIES.all(conn, "naming", ScopedMemory, {"org_id": org_id, "participant_ids": list(ids)})


async def update_dedup_scopes(conn: Connection, org_id: OrgId, circles: Mapping[MemoryId, str]) -> None:
    """Say anew of whom and for whom memories are; what took their place unasked keeps to its own circle."""
    await QUERIES.run(conn, "recircle", {"org_id": org_id, "id": [*circles], "circle": [*circles.values()]})
    await QUERIES.run(conn, "unlink", {"org_id": org_id, "memory_ids": list(circles)})


async def link_duplicates(conn: Connection, org_id: OrgId, circles: Collection[str]) -> None:
    """Let the newest stand of what says the same within each of these circles."""
    rows = await QUERIES.all(conn, "link_same", DetachedMemory, {"org_id": org_id, "circles": list(circles)})
    await append(conn, org_id, "memory.changed", [row.memory_id for row in rows])
