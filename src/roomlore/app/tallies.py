"""What memories have in common: how many are of a kind, from a room, about or by somebody."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from roomlore.domain.ids import MemoryId, ParticipantId
from roomlore.domain.records import Memory, MemoryRole
from roomlore.store.browsing import MemoryOrigin

Facet = Literal["kind", "status", "tag", "room", "about", "by"]
#: A memory that is of a facet's value: the value, what it is called, and the memory.
FacetEntry = tuple[Facet, str, str, MemoryId]
FACET_OF_ROLE: Mapping[MemoryRole, Facet] = {"subject": "about", "author": "by"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FacetCount:
    """How many memories have something in common."""

    facet: Facet
    #: What is asked for to have only these.
    value: str
    name: str
    count: int


def count_facets(
    memories: Sequence[Memory], origins: Sequence[MemoryOrigin], persons: Mapping[ParticipantId, UUID]
) -> list[FacetCount]:
    """Return what memories have in common, of each facet the most frequent first.

    Args:
        found: The memories.
        origins: Where what they rest on was said.
        persons: Whose accounts the participants are who are merged: these are one.
    """
    held: dict[tuple[Facet, object], set[MemoryId]] = {}
    called: dict[tuple[Facet, object], tuple[str, str]] = {}
    for facet, value, name, memory_id in (*_own_facets(memories), *_room_facets(origins)):
        key = (facet, persons.get(ParticipantId(UUID(value)), value) if facet in FACET_OF_ROLE.values() else value)
        held.setdefault(key, set()).add(memory_id)
        called.setdefault(key, (value, name))
    tallies = [
        FacetCount(facet=key[0], value=called[key][0], name=called[key][1], count=len(ids))
        for key, ids in held.items()
    ]
    return sorted(tallies, key=lambda one: (one.facet, -one.count, one.name, one.value))


def _own_facets(found: Iterable[Memory]) -> Iterable[FacetEntry]:
    for one in found:
        yield "kind", one.kind, one.kind, one.id
        yield "status", one.status, one.status, one.id
        for tag in one.tags:
            yield "tag", tag, tag, one.id
        for who in one.participants:
            if who.role in FACET_OF_ROLE:
                yield FACET_OF_ROLE[who.role], str(who.id), who.name, one.id


def _room_facets(origins: Iterable[MemoryOrigin]) -> Iterable[FacetEntry]:
    for one in origins:
        if one.room_name is not None:
            yield "room", str(one.room_id), one.room_name, one.memory_id
