"""People, and the origins of memories. Everything here returns only what the viewer may see."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import MemoryId, MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.records import (
    Account,
    Memory,
    Participant,
    Viewer,
)

QUERIES = Queries("people_pages")

#: Who may read a source: everybody in the org, a room's members, the recipients, or agents.
OriginAudience = Literal["open", "members", "whisper", "injected"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOrigin:
    """A room with sources of a memory, and who may read them."""

    memory_id: MemoryId
    room_id: RoomId
    #: None if the viewer may not see the room.
    room_name: str | None
    reach: OriginAudience
    message_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReader:
    """A person who may read all sources of a memory, named by the first account that the viewer may know."""

    id: ParticipantId
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonRow(Participant):
    """A person, and how many people match the filter."""

    found: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleFilter:
    """A filter of people; an empty field means all."""

    #: A part of their names or accounts, in any case.
    named: str = ""
    kind: str = ""
    #: None for all.
    participant_ids: Sequence[ParticipantId] | None = None
    #: People who wrote in this room; only their messages in this room are counted. None means all people.
    room_id: RoomId | None = None


async def list_people(
    conn: Connection, viewer: Viewer, sought: PeopleFilter, *, skip: int = 0, limit: int | None = None
) -> list[PersonRow]:
    """Return visible people, or a page of them, most messages first. If `skip` is too large, return the last page."""
    query = people_for_operator if viewer.is_operator else people_for_viewer
    return await query(conn, viewer.org_id, sought, skip=skip, limit=limit)


@QUERIES.query
async def people_for_operator(
    conn: Connection, org_id: OrgId, sought: PeopleFilter, *, skip: int, limit: int | None
) -> list[PersonRow]:
    """Return a page of the people of an org."""
    ...


@QUERIES.query
async def people_for_viewer(
    conn: Connection, org_id: OrgId, sought: PeopleFilter, *, skip: int, limit: int | None
) -> list[PersonRow]:
    """Return a page of the people that a viewer may know of."""
    ...


@QUERIES.query
async def accounts_of_person(
    conn: Connection, org_id: OrgId, participant_id: ParticipantId
) -> list[ParticipantId]:
    """Return the visible accounts of the participant's person, including the participant."""
    ...


@QUERIES.query
async def accounts_of(conn: Connection, org_id: OrgId, ids: Collection[ParticipantId]) -> list[Account]:
    """Return the platform accounts of the given participants that are visible."""
    ...


@QUERIES.query
async def persons_of_accounts(
    conn: Connection, org_id: OrgId, ids: Collection[ParticipantId]
) -> dict[ParticipantId, UUID]:
    """Return the persons of the given accounts, if the accounts were merged and the viewer may know this."""
    ...


async def memory_origins(conn: Connection, org_id: OrgId, memories: Sequence[Memory]) -> list[MemoryOrigin]:
    """Return the rooms with sources of these memories, and who may read these sources."""
    sources = [(memory.id, message_id) for memory in memories for message_id in memory.source_ids]
    return await source_origins(conn, org_id, sources)


@QUERIES.query
async def source_origins(
    conn: Connection, org_id: OrgId, sources: Collection[tuple[MemoryId, MessageId]]
) -> list[MemoryOrigin]:
    """Return the rooms with visible sources of memories, and who may read those sources."""
    ...


async def memory_readers(
    conn: Connection, org_id: OrgId, memory: Memory, *, limit: int
) -> list[MemoryReader]:
    """Return the first `limit` people, by name, whom the viewer may know and who may read all sources of a memory."""
    is_sensitive = memory.sensitivity == "sensitive"
    readers = await readers_of_messages(
        conn, org_id, memory.source_ids, is_sensitive=is_sensitive, limit=limit
    )
    return sorted(readers, key=lambda reader: (reader.name.casefold(), reader.id))


@QUERIES.query
async def readers_of_messages(
    conn: Connection, org_id: OrgId, message_ids: Sequence[MessageId], *, is_sensitive: bool, limit: int
) -> list[MemoryReader]:
    """Return the first `limit` people, by name, whom the viewer may know and who may read all of these messages."""
    ...
