"""Memories looked through page by page, and for whom each is: what pages for people show besides `Memories`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Unpack
from uuid import UUID

from roomlore.app import asserting
from roomlore.app.desk import Access, check_limit
from roomlore.app.memories import MemoryOptions, check_options, resolve_filter
from roomlore.app.tallies import FacetCount, count_facets
from roomlore.domain.errors import BadInput
from roomlore.domain.ids import MemoryId
from roomlore.domain.keywords import reject_unknown_keywords
from roomlore.domain.records import Memory, Message, Viewer
from roomlore.retrieval import meant
from roomlore.store import browsing, directory, memories
from roomlore.store.browsing import MemoryOrigin, MemoryReader
from roomlore.store.memories import MemoryCursor

#: So many of the newest memories are counted by what they have in common: of each it is asked whether it may be seen.
COUNTED = 100
#: From which the names of pages count.
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: So many are named of those who may read what a memory rests on.
NAMED = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedMemory:
    """A memory, and where what it rests on was said, as far as the viewer may see."""

    memory: Memory
    origins: Sequence[MemoryOrigin]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryListPage:
    """Memories, newest first, and what they have in common with others that are meant."""

    memories: Sequence[ListedMemory]
    #: Names the page after this one; None where there is none.
    next: str | None
    #: Of the newest `COUNTED` that are meant; none on further pages.
    tallies: Sequence[FacetCount]
    #: How many were counted; none on further pages.
    counted: int
    #: Whether there are more than were counted.
    is_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAudience:
    """For whom a memory is, and why; nothing but what its viewer may know."""

    #: Where it was said, and for whom.
    origins: Sequence[MemoryOrigin]
    is_sensitive: bool
    #: Whether only whoever may see what took its place sees it.
    is_superseded: bool
    #: Whether everybody in the org may read all that it rests on.
    is_open: bool
    #: Those who may, as far as the viewer may know them, or who asserted what rests on nothing; empty where everybody may.
    readers: Sequence[MemoryReader]
    #: Whether there are more than are named.
    has_more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePlace:
    """A message, and what its room is called; None where the viewer may not see the room."""

    message: Message
    room_name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBrowser:
    """The memories of an org, as people look through them."""

    access: Access

    async def list_page(
        self, viewer: Viewer, *, limit: int = 50, before: str | None = None, **wanted: Unpack[MemoryOptions]
    ) -> MemoryListPage:
        """Return the newest memories that the viewer may see, and what those that are meant have in common.

        Args:
            viewer: For whom.
            limit: How many.
            before: What a page before called its `next`.
            wanted: Only these.

        Raises:
            BadInput: nothing is wanted, there is no such kind or status, several are meant, or no page was called so.
            NotFound: there is no such room or participant, or the viewer may not know of them.
        """
        reject_unknown_keywords("shelf", wanted, MemoryOptions)
        check_limit(limit)
        check_options(wanted)
        place = None if before is None else _parse_cursor(before)
        async with self.access.reading(viewer, "list memories", apply_restrictions=True) as reading:
            conn, org_id = reading.conn, self.access.org_id
            facets = await resolve_filter(conn, org_id, wanted)
            facets = replace(facets, before=place)
            is_first = before is None
            wanted_ids = max(limit, COUNTED) if is_first else limit
            places = await memories.newest_cursors(conn, org_id, facets, limit=wanted_ids + 1)
            found = await memories.memories_by_id(conn, org_id, [one.id for one in places[:wanted_ids]])
            origins = await browsing.memory_origins(conn, org_id, found)
            counted = found if is_first else []
            people = {who.id for memory in counted for who in memory.participants}
            persons = await browsing.persons_of_accounts(conn, org_id, people) if people else {}
            reading.record_shown(memory.id for memory in found[:limit])
        return MemoryListPage(
            memories=[
                ListedMemory(memory=one, origins=[place for place in origins if place.memory_id == one.id])
                for one in found[:limit]
            ],
            next=_to_cursor(places[limit - 1]) if len(places) > limit else None,
            tallies=count_facets(counted, origins, persons) if is_first else [],
            counted=len(counted),
            is_cut=is_first and len(places) > wanted_ids,
        )

    async def audience(self, viewer: Viewer, memory: str) -> MemoryAudience:
        """Return for whom a memory is, as far as that viewer may know.

        What spoken wishes keep from somebody is not told: who may read what a memory rests on is.

        Raises:
            BadInput: several are meant.
            NotFound: there is no such memory, or the viewer may not see it.
        """
        async with self.access.reading(viewer, "why", apply_restrictions=True) as reading:
            conn, org_id = reading.conn, self.access.org_id
            held = await asserting.find_memory(conn, self.access, memory)
            reading.record_shown([held.id, *held.source_ids])
            origins = await browsing.memory_origins(conn, org_id, [held])
            is_sensitive = held.sensitivity == "sensitive"
            is_open = held.audience == "org" or (
                bool(origins) and not is_sensitive and all(one.reach == "open" for one in origins)
            )
            named: list[MemoryReader] = []
            if held.sources and not is_open:
                named = await browsing.memory_readers(conn, org_id, held, limit=NAMED + 1)
            elif held.asserted_by is not None and not is_open:
                known = await memories.known_names(conn, org_id, [held.asserted_by])
                named = [MemoryReader(id=key, name=name) for key, name in known.items()]
        return MemoryAudience(
            origins=origins,
            is_sensitive=is_sensitive,
            is_superseded=held.superseded_by is not None,
            is_open=is_open,
            readers=named[:NAMED],
            has_more=len(named) > NAMED,
        )

    async def message(self, viewer: Viewer, word: str) -> MessagePlace:
        """Return a message, and its room's name.

        Raises:
            BadInput: several are meant.
            NotFound: there is no such message, or the viewer may not read it.
        """
        async with self.access.reading(viewer, "read message") as reading:
            said = await meant.message(reading.conn, self.access.org_id, word, room_id=None)
            rooms = await directory.room_names(reading.conn, self.access.org_id, [said.room_id])
            reading.record_shown([said.id])
        return MessagePlace(message=said, room_name=next((room.name for room in rooms.values()), None))


def _to_cursor(last_shown: MemoryCursor) -> str:
    """Return what the page after a memory is called: the memory may be gone when it is asked for."""
    return f"{(last_shown.valid_from - EPOCH) // timedelta(microseconds=1)}_{last_shown.id}"


def _parse_cursor(cursor: str) -> MemoryCursor:
    microseconds, _, memory = cursor.partition("_")
    try:
        at = EPOCH + timedelta(microseconds=int(microseconds))
        return MemoryCursor(id=MemoryId(UUID(memory)), valid_from=at)
    except (ValueError, OverflowError):
        raise BadInput("before", "names no page; begin again without it") from None
