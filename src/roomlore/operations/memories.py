"""Memories: what is durably known, each with the messages it rests on."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Literal, TypedDict, Unpack, get_args
from uuid import UUID

from roomlore.db import conversations, directory, erased, memories, memory_writes, messages, people_pages
from roomlore.db.memories import MemoryCursor, MemoryFilter
from roomlore.db.memory_writes import MemoryDraft
from roomlore.db.people_pages import MemoryOrigin, MemoryReader
from roomlore.db.queries import Connection
from roomlore.domain.errors import BadInput, NotFound
from roomlore.domain.ids import MemoryId, OrgId, ParticipantId, RoomId, uuid7
from roomlore.domain.paging import TRUNCATION_MARK
from roomlore.domain.phrases import reject_unknown_keywords
from roomlore.domain.records import (
    Memory,
    MemoryKind,
    MemoryRole,
    MemorySource,
    MemoryStatus,
    Message,
    Provenance,
    SourceMessage,
    Viewer,
)
from roomlore.operations import explicit_memories
from roomlore.operations.access import Access, check_limit
from roomlore.operations.explicit_memories import Content, MemoryDetails
from roomlore.operations.registry import Limit, operation
from roomlore.operations.search import SearchedText, check_question
from roomlore.search import lookup, memory_search
from roomlore.search.message_search import SearchQuery
from roomlore.search.records import MatchedMemory

STATUSES = get_args(MemoryStatus)


class MemoryOptions(TypedDict, total=False):
    """Which memories are meant; what is left out narrows nothing."""

    #: Resting on something said in this room, or asserted there.
    room: str | None
    #: About this participant, stated by this one, seen through the eyes of this one: by whatever account the viewer
    #: may know of.
    about: str | None
    by: str | None
    seen_by: str | None
    kinds: Sequence[MemoryKind]
    #: Only what stands, by default; all three for the whole history.
    statuses: Sequence[MemoryStatus]
    #: Having one of them at least.
    tags: Sequence[str]
    task: str | None
    #: True from then on, with a time zone.
    since: datetime | None
    #: What stood then, whatever its status is now; with a time zone.
    as_of: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Memories:
    """The memories of an org: asserted by those who may, seen by those who may read all they rest on."""

    access: Access

    @operation("POST", "/memories", replay="memory")
    async def remember(self, content: Content, **details: Unpack[MemoryDetails]) -> Memory:
        """Keep a statement of the caller's and return it; one that says the same of the same is returned instead.

        That one then rests on what both rest on. Whoever asserts a memory need not be who stated it. Where it repeats
        the words of what it rests on, and one participant said all of that, that one is its author. Otherwise whoever
        puts it so is its author, and those who said what it rests on are involved. An agent that asserts it is also
        its perspective. Secrets in it are taken out.

        What rests on no message is for the whole org where an operator asserts it, and otherwise for whoever does, unless
        `audience` says so; the memory says for whom it is.

        Raises:
            BadInput: the content or kind is none, several are meant, a source was removed, or the memory whose
                place it takes is for others or does not stand any more.
            NotFound: there is no such source, room, memory or participant, or the caller may not see it.
            NotAllowed: the caller's role does not let it remember, or not for all or in the name of another.
        """
        reject_unknown_keywords("memories.remember", details, MemoryDetails)
        await self.access.check("remember", "remember")
        asserted = await explicit_memories.resolve(self.access, content, details)

        async def work(conn: Connection) -> tuple[MemoryId, Sequence[UUID]]:
            kept = await explicit_memories.save(conn, self.access, asserted)
            old = [] if asserted.superseded is None else [asserted.superseded.id]
            return kept, [kept, *(source.message_id for source in asserted.draft.sources), *old]

        return await self._seen(await self.access.change("remember", "remember", work))

    @operation("POST", "/memories/{memory}/correct", name="correct_memory", replay="memory")
    async def correct(self, memory: str, content: Content) -> Memory:
        """Put what is right in the place of a memory, resting on the same, and return it; the old one stays as history.

        Args:
            memory: Its id, or the beginning of it; one that stands.
            content: What is right.

        Raises:
            BadInput: the content says the same or nothing, several are meant, or the memory does not stand.
            NotFound: there is no such memory, or the caller may not see it.
            NotAllowed: the memory has nothing to do with the caller, who is no operator, or another asserted it for
                the whole org.
        """
        old, room_ids = await self._resolve_own(memory, "correct")
        explicit_memories.check_audience(self.access.principal, old)
        if old.status == "archived":
            raise BadInput(f"memory {old.id}", "is put aside; restore it first")
        text = explicit_memories.clean("content", content, max_length=explicit_memories.LONGEST_CONTENT)
        caller = self.access.principal.participant_id
        roles: set[tuple[MemoryRole, ParticipantId]] = {
            ("involved" if person.role == "author" else person.role, person.id) for person in old.participants
        }
        roles |= set() if caller is None else {("author", caller)}
        draft = MemoryDraft(
            id=MemoryId(uuid7()),
            kind=old.kind,
            content=text,
            importance=old.importance,
            sensitivity=old.sensitivity,
            audience="org" if old.audience == "org" else "self",
            # One that is for whoever asserted it stays for them.
            asserted_by=old.asserted_by if old.audience == "self" else caller,
            asserted_in=old.asserted_in,
            recorded_at=max(datetime.now(UTC), old.recorded_at),
            valid_from=old.valid_from,
            # What the words say is put otherwise now.
            sources=[MemorySource(message_id=source.message_id) for source in old.sources],
            roles=frozenset(roles),
            tags=frozenset(old.tags),
            metadata=old.metadata,
            task_id=old.task_id,
            slot=old.slot,
        )
        asserted = explicit_memories.ExplicitMemory(draft=draft, room_ids=room_ids, superseded=old)

        async def work(conn: Connection) -> tuple[MemoryId, Sequence[UUID]]:
            kept = await explicit_memories.save(conn, self.access, asserted)
            return kept, [kept, old.id]

        return await self._seen(await self.access.change("correct", "correct memory", work))

    @operation("POST", "/memories/{memory}/forget", name="forget_memory", replay="memory")
    async def forget(self, memory: str) -> Memory:
        """Put a memory aside: nobody recalls it, and it is not drawn from its sources again; return it.

        What it rests on stays as it was said; erasing that is another matter. `restore` takes it back.

        Raises:
            BadInput: several are meant, or the memory does not stand.
            NotFound: there is no such memory, or the caller may not see it.
            NotAllowed: the memory has nothing to do with the caller, who is no operator.
        """
        held, _ = await self._resolve_own(memory, "forget")
        refusal = {"archived": "is put aside already", "deprecated": "was superseded; name what stands"}
        return await self._set_status(
            held,
            "forget memory",
            partial(memory_writes.archive, at=datetime.now(UTC)),
            refusal.get(held.status, "changed meanwhile; look at it again"),
        )

    @operation("POST", "/memories/{memory}/restore", name="restore_memory", replay="memory")
    async def restore(self, memory: str) -> Memory:
        """Let a memory stand again that was put aside, or whose place another took; both stand then. Return it.

        No worker takes that back.

        Raises:
            BadInput: several are meant, or the memory stands.
            NotFound: there is no such memory, or the caller may not see it.
            NotAllowed: the memory has nothing to do with the caller, who is no operator.
        """
        held, _ = await self._resolve_own(memory, "restore")
        write = partial(memory_writes.restore, beside=held.superseded_by)
        return await self._set_status(held, "restore memory", write, "stands as it is")

    @operation("GET", "/memories", name="list_memories")
    async def all(
        self, viewer: Viewer, *, limit: Limit = 50, **wanted: Unpack[MemoryOptions]
    ) -> list[Memory]:
        """Return the newest memories that the viewer may see, newest first; only those that stand by default.

        Args:
            viewer: For whom.
            limit: How many.
            wanted: Only these.

        Raises:
            BadInput: nothing is wanted, there is no such kind or status, or several are meant.
            NotFound: there is no such room or participant, or the viewer may not know of them.
        """
        reject_unknown_keywords("memories.all", wanted, MemoryOptions)
        check_limit(limit)
        check_options(wanted)
        async with self.access.reading(viewer, "list memories", apply_restrictions=True) as reading:
            facets = await resolve_filter(reading.conn, self.access.org_id, wanted)
            found = await memories.newest(reading.conn, self.access.org_id, facets, limit=limit)
            reading.record_shown(memory.id for memory in found)
        return found

    @operation("POST", "/memories/search", name="search_memories", replay="read")
    async def search(
        self, viewer: Viewer, question: SearchedText, *, limit: Limit = 10
    ) -> list[MatchedMemory]:
        """Return the memories that fit a question by their words, each as it stands now, best first.

        Raises:
            BadInput: there is no question, or nothing is wanted.
        """
        check_limit(limit)
        check_question(question)
        async with self.access.reading(viewer, "search memories", apply_restrictions=True) as reading:
            asked = SearchQuery(text=question, vector=None)
            found = (
                await memory_search.search_memories(reading.conn, self.access.org_id, asked, similarities={})
            ).matches[:limit]
            reading.record_shown(one.memory.id for one in found)
        return list(found)

    @operation("GET", "/messages/{message}/memories", name="list_memories_resting_on")
    async def resting_on(
        self, viewer: Viewer, message: str, *, room: str | None = None, limit: Limit = 50
    ) -> list[Memory]:
        """Return the newest memories that rest on a message, whatever became of them, newest first.

        Raises:
            BadInput: several messages are meant.
            NotFound: there is no such message, or the viewer may not read it.
        """
        check_limit(limit)
        async with self.access.reading(viewer, "why", apply_restrictions=True) as reading:
            conn, org_id = reading.conn, self.access.org_id
            room_id = None if room is None else await lookup.room(conn, org_id, room)
            said = await lookup.message(conn, org_id, message, room_id=room_id)
            found = await memories.derived_from_message(conn, org_id, said.id, limit=limit)
            reading.record_shown([said.id, *(memory.id for memory in found)])
        return found

    @operation("GET", "/memories/{memory}", name="explain_memory")
    async def why(self, viewer: Viewer, memory: str) -> Provenance:
        """Return a memory with the messages it rests on: their words that count, conversations and rooms.

        Args:
            viewer: For whom.
            memory: Its id, or the beginning of it.

        Raises:
            BadInput: several are meant.
            NotFound: there is no such memory, or the viewer may not see it.
        """
        async with self.access.reading(viewer, "why", apply_restrictions=True) as reading:
            conn, org_id = reading.conn, self.access.org_id
            found = await explicit_memories.find_memory(conn, self.access, memory)
            told = await _source_messages(conn, org_id, found)
            later, earlier = await _chain(conn, org_id, found)
            by, where = await _asserted(conn, org_id, found)
            reading.record_shown([found.id, *found.source_ids, *(one.id for one in (*later, *earlier))])
        return Provenance(
            memory=found,
            sources=told,
            successors=later,
            predecessors=earlier,
            asserted_by_name=by,
            asserted_in_name=where,
        )

    async def _resolve_own(self, reference: str, action: str) -> tuple[Memory, frozenset[RoomId]]:
        """Return the memory that is meant, which names the caller, and the rooms of its sources."""
        await self.access.check("correct", action)
        async with self.access.resolving(action) as conn:
            held = await explicit_memories.find_memory(conn, self.access, reference)
            await explicit_memories.check_involved(conn, self.access, held)
            said = await messages.messages_by_id(conn, self.access.org_id, held.source_ids, most=0)
        return held, frozenset(one.room_id for one in said)

    async def _set_status(
        self, memory: Memory, action: str, write: explicit_memories.WriteStatus, refusal: str
    ) -> Memory:
        async def work(conn: Connection) -> tuple[MemoryId, Sequence[UUID]]:
            await erased.lock_shared(conn, self.access.org_id)
            await memory_writes.lock(conn, self.access.org_id)
            await explicit_memories.check_involved(conn, self.access, memory)
            if not await write(conn, self.access.org_id, memory.id):
                raise BadInput(f"memory {memory.id}", refusal)
            return memory.id, [memory.id]

        return await self._seen(await self.access.change("correct", action, work))

    async def _seen(self, memory_id: MemoryId) -> Memory:
        """Return a memory as the caller sees it."""
        async with self.access.db.read_transaction(self.access.principal) as conn:
            found = await memories.memories_by_id(conn, self.access.org_id, [memory_id])
        if not found:
            raise NotFound("memory", str(memory_id))
        return found[0]


async def resolve_filter(conn: Connection, org_id: OrgId, options: MemoryOptions) -> MemoryFilter:
    """Return which memories are meant, by id where words mean rooms and participants.

    Raises:
        BadInput: several are meant.
        NotFound: there is no such room or participant, or the connection's viewer may not know of them.
    """
    for what, words in (("tags", options.get("tags") or ()), ("task", (options.get("task") or "",))):
        if any("\0" in word for word in words):
            raise BadInput(what, "holds a NUL, which nothing stored holds")
    room = options.get("room")
    return MemoryFilter(
        room_ids=None if room is None else [await lookup.room(conn, org_id, room)],
        subject_ids=await _accounts(conn, org_id, options.get("about")),
        author_ids=await _accounts(conn, org_id, options.get("by")),
        perspective_ids=await _accounts(conn, org_id, options.get("seen_by")),
        kinds=options.get("kinds"),
        statuses=options.get("statuses", ("active",)),
        tags=options.get("tags"),
        task_id=options.get("task"),
        since=options.get("since"),
        as_of=options.get("as_of"),
    )


async def _accounts(conn: Connection, org_id: OrgId, word: str | None) -> list[ParticipantId] | None:
    if word is None:
        return None
    participant_id = await lookup.participant(conn, org_id, word)
    return [account.id for account in await directory.accounts(conn, org_id, participant_id)]


async def _source_messages(conn: Connection, org_id: OrgId, memory: Memory) -> list[SourceMessage]:
    """Return what a memory rests on, with where it was said."""
    said = await messages.messages_truncated(conn, org_id, memory.source_ids)
    rooms = await directory.room_names(conn, org_id, {message.room_id for message in said})
    placed = await conversations.assignments_of(conn, org_id, [message.id for message in said])
    held = await conversations.by_id(conn, org_id, set(placed.values()))
    spans = {source.message_id: source for source in memory.sources}
    return [
        SourceMessage(
            message=message,
            room_name=rooms[message.room_id].name if message.room_id in rooms else None,
            conversation_id=placed.get(message.id),
            conversation_label=held[placed[message.id]].label if placed.get(message.id) in held else "",
            quote=_quote(message, spans[message.id], memory),
        )
        for message in said
    ]


async def _asserted(conn: Connection, org_id: OrgId, memory: Memory) -> tuple[str | None, str | None]:
    """Return what those are called who asserted a memory, and the room where they did, as far as they may be known."""
    by = [] if memory.asserted_by is None else [memory.asserted_by]
    where = [] if memory.asserted_in is None else [memory.asserted_in]
    names = await memories.known_names(conn, org_id, by)
    rooms = await directory.room_names(conn, org_id, where)
    return next(iter(names.values()), None), next((room.name for room in rooms.values()), None)


def _quote(message: Message, source: MemorySource, memory: Memory) -> str | None:
    is_edited = message.edited_at is not None and message.edited_at > memory.recorded_at
    if is_edited or source.quote_start is None or source.quote_end is None:
        return None
    # Of a text that is told by its beginning alone the words that count may lie behind that.
    held = message.body.removesuffix(TRUNCATION_MARK)
    return held[source.quote_start : source.quote_end] if source.quote_end <= len(held) else None


async def _chain(conn: Connection, org_id: OrgId, memory: Memory) -> tuple[list[Memory], list[Memory]]:
    """Return what took the place of a memory, nearest first, and what it took the place of, newest first."""
    ids = (await memories.successors(conn, org_id, [memory.id])).get(memory.id, [])
    by_id = {one.id: one for one in await memories.memories_by_id(conn, org_id, ids)}
    later = [by_id[key] for key in ids if key in by_id]
    return later, await memories.predecessors(conn, org_id, memory.id)


def check_options(options: MemoryOptions) -> None:
    """Do nothing if these may be meant.

    Raises:
        BadInput: there is no such kind or status, or a time has no time zone.
    """
    for what, words, known in (
        ("kind", options.get("kinds", ()), explicit_memories.KINDS),
        ("status", options.get("statuses", ()), STATUSES),
    ):
        for word in words:
            if word not in known:
                raise BadInput(f"{what} {word!r}", f"must be one of {', '.join(known)}")
    for what in ("since", "as_of"):
        moment = options.get(what)
        if moment is not None and moment.tzinfo is None:
            raise BadInput(what.replace("_", " "), "must have a time zone")


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
        memories: The memories.
        origins: Where what they rest on was said.
        persons: Whose accounts the participants are who are merged: these are one.
    """
    held: dict[tuple[Facet, object], set[MemoryId]] = {}
    called: dict[tuple[Facet, object], tuple[str, str]] = {}
    for facet, value, name, memory_id in (*_own_facets(memories), *_room_facets(origins)):
        key = (
            facet,
            persons.get(ParticipantId(UUID(value)), value) if facet in FACET_OF_ROLE.values() else value,
        )
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
            origins = await people_pages.memory_origins(conn, org_id, found)
            counted = found if is_first else []
            people = {who.id for memory in counted for who in memory.participants}
            persons = await people_pages.persons_of_accounts(conn, org_id, people) if people else {}
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
            held = await explicit_memories.find_memory(conn, self.access, memory)
            reading.record_shown([held.id, *held.source_ids])
            origins = await people_pages.memory_origins(conn, org_id, [held])
            is_sensitive = held.sensitivity == "sensitive"
            is_open = held.audience == "org" or (
                bool(origins) and not is_sensitive and all(one.reach == "open" for one in origins)
            )
            named: list[MemoryReader] = []
            if held.sources and not is_open:
                named = await people_pages.memory_readers(conn, org_id, held, limit=NAMED + 1)
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
            said = await lookup.message(reading.conn, self.access.org_id, word, room_id=None)
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
