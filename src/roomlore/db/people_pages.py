"""What people and memories are looked through by, as far as the viewer may see: who they are, where these are from."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import MemoryId, OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.records import Account, Memory, Viewer

QUERIES = Queries("people_pages")

#: For whom something was said: everybody in the org, a room's members, some by name, or agents.
OriginAudience = Literal["open", "members", "whisper", "injected"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountPerson:
    """Whose account a participant is."""

    id: ParticipantId
    person_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOrigin:
    """Where some of what a memory rests on was said, and for whom."""

    memory_id: MemoryId
    room_id: RoomId
    #: None where the viewer may not see the room, as with a whisper from elsewhere.
    room_name: str | None
    reach: OriginAudience
    message_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReader:
    """Somebody who may read all that a memory rests on; the first of their accounts that the viewer may know."""

    id: ParticipantId
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonRow:
    """Somebody who takes part, as `Participant` has it, and how many there are who are meant."""

    id: ParticipantId
    accounts: Sequence[ParticipantId]
    name: str
    kind: ParticipantKind
    message_count: int
    first_seen_at: datetime | None
    last_seen_at: datetime | None
    found: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRef:
    """The id of an account of somebody."""

    id: ParticipantId


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleFilter:
    """Which people are meant; what is empty narrows nothing."""

    #: A part of their names or accounts, whatever its case.
    named: str = ""
    kind: str = ""
    #: None: anybody's accounts.
    participant_ids: Sequence[ParticipantId] | None = None


async def list_people(
    conn: Connection, viewer: Viewer, sought: PeopleFilter, *, skip: int, limit: int
) -> list[PersonRow]:
    """Return visible people, most talkative first, after so many others in whole pages; else the last page."""
    name = "people_for_operator" if viewer.is_operator else "people_for_viewer"
    params = {
        "org_id": viewer.org_id,
        "named": sought.named,
        "kind": sought.kind,
        "skip": skip,
        "limit": limit,
    }
    ids = None if sought.participant_ids is None else list(sought.participant_ids)
    return await QUERIES.all(conn, name, PersonRow, params | {"participant_ids": ids})


async def accounts_of_person(
    conn: Connection, org_id: OrgId, participant_id: ParticipantId
) -> list[ParticipantId]:
    """Return the accounts of the same person as a participant, itself included, as far as they are visible."""
    params = {"org_id": org_id, "participant_id": participant_id}
    return [one.id for one in await QUERIES.all(conn, "same_person", AccountRef, params)]


async def accounts_of(conn: Connection, org_id: OrgId, ids: Collection[ParticipantId]) -> list[Account]:
    """Return the accounts that these participants are, as far as they are visible."""
    params = {"org_id": org_id, "participant_ids": list(ids)}
    return await QUERIES.all(conn, "accounts_of", Account, params)


async def persons_of_accounts(
    conn: Connection, org_id: OrgId, ids: Collection[ParticipantId]
) -> dict[ParticipantId, UUID]:
    """Return whose accounts these participants are, as far as that may be known; the others are left out."""
    params = {"org_id": org_id, "participant_ids": list(ids)}
    return {row.id: row.person_id for row in await QUERIES.all(conn, "persons", AccountPerson, params)}


async def memory_origins(conn: Connection, org_id: OrgId, held: Sequence[Memory]) -> list[MemoryOrigin]:
    """Return where what these memories rest on was said."""
    rests = [(memory.id, message_id) for memory in held for message_id in memory.source_ids]
    params = {
        "org_id": org_id,
        "memory_id": [memory_id for memory_id, _ in rests],
        "message_id": [message_id for _, message_id in rests],
    }
    return await QUERIES.all(conn, "origins", MemoryOrigin, params)


async def memory_readers(
    conn: Connection, org_id: OrgId, memory: Memory, *, limit: int
) -> list[MemoryReader]:
    """Return the first whom the viewer may know of those who may read all that a memory rests on, by name."""
    params = {
        "org_id": org_id,
        "message_ids": list(memory.source_ids),
        "is_sensitive": memory.sensitivity == "sensitive",
        "limit": limit,
    }
    found = await QUERIES.all(conn, "readers", MemoryReader, params)
    return sorted(found, key=lambda one: (one.name.casefold(), one.id))
