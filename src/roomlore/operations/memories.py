"""Memories: asserting, correcting, archiving and reading them, each with its sources."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Literal, TypedDict, Unpack, get_args
from uuid import UUID

from roomlore.db import (
    conversations,
    directory,
    erasure_guard,
    memories,
    memory_writes,
    messages,
    people_pages,
)
from roomlore.db.memories import MemoryCursor, MemoryFilter
from roomlore.db.memory_writes import MemoryDraft
from roomlore.db.people_pages import MemoryOrigin, MemoryReader
from roomlore.db.queries import Connection
from roomlore.db.rooms import rooms_of_context
from roomlore.db.search import SearchFilter, newest_messages
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
from roomlore.operations.digest import (
    LONGEST_QUESTION,
    MOST_OPEN_QUESTIONS,
    Digest,
    default_start,
    people_of,
    sections_of,
)
from roomlore.operations.explicit_memories import Content, MemoryDetails
from roomlore.operations.registry import Limit, check_zone, operation
from roomlore.operations.search import SearchedText, check_question
from roomlore.search import lookup, memory_search
from roomlore.search.message_search import SearchQuery
from roomlore.search.records import MatchedMemory

STATUSES = get_args(MemoryStatus)


class MemoryOptions(TypedDict, total=False):
    """Filters for memories. They find a participant by every account that the viewer may see.

    Attributes:
        room: Only memories with a source in this room, or stored there.
        context: Only memories with a source in a room of this project or issue, or stored in such a room.
        about: Only memories about this participant.
        by: Only memories that this participant stated.
        seen_by: Only the own experience of this agent.
        kinds: Only memories of this kind.
        statuses: Only memories with this status; active by default.
        tags: Only memories with one of these tags.
        task: Only memories of this task.
        since: Only memories that became true at this time or later; it has a time zone.
        as_of: Only memories that were active at this time, whatever their status is now; it has a time zone.
    """

    room: str | None
    context: str | None
    about: str | None
    by: str | None
    seen_by: str | None
    kinds: Sequence[MemoryKind]
    #: Only active memories by default.
    statuses: Sequence[MemoryStatus]
    #: Memories with at least one of these tags.
    tags: Sequence[str]
    task: str | None
    #: Memories that became true at this time or later. The time has a time zone.
    since: datetime | None
    #: Memories that were active at this time, whatever their status is now. The time has a time zone.
    as_of: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Memories:
    """The memories of an org. You see a memory if you may read all of its sources.

    A memory is named by its id, or by the beginning or end of its id. Every method raises NotFound if the caller can
    see nothing with a given name or id. It raises BadInput if a name is ambiguous or an argument is invalid, and
    NotAllowed if the caller may not change the memory. A memory may be changed by operators, its author, its subjects,
    its observer, and whoever stored it.
    """

    access: Access

    @operation("POST", "/memories", replay="memory")
    async def remember(self, content: Content, **details: Unpack[MemoryDetails]) -> Memory:
        """Store a memory and return it. If an equal memory exists, add the sources to it and return it.

        The asserter need not be the author. If the sources contain the words and have only one author, this person is
        the author of the memory. Otherwise the asserter is the author, and the authors of the sources are involved. If
        an agent asserts a memory, it is also the observer of the memory. Secrets are removed.

        Without `audience`, a memory without sources is for the whole org if an operator asserts it. Otherwise it is for
        its asserter alone.

        Raises:
            BadInput: an argument is invalid, a source was removed, or the superseded memory has another audience or is
                not active.
        """
        reject_unknown_keywords("memories.remember", details, MemoryDetails)
        await self.access.check("remember", "remember")
        memory = await explicit_memories.resolve(self.access, content, details)

        async def work(conn: Connection) -> tuple[MemoryId, Sequence[UUID]]:
            memory_id = await explicit_memories.save(conn, self.access, memory)
            superseded = [] if memory.superseded is None else [memory.superseded.id]
            sources = [source.message_id for source in memory.draft.sources]
            return memory_id, [memory_id, *sources, *superseded]

        return await self._get(await self.access.change("remember", "remember", work))

    @operation("POST", "/memories/{memory}/correct", name="correct_memory", replay="memory")
    async def correct(self, memory: str, content: Content) -> Memory:
        """Supersede an active memory with corrected content and the same sources, and return the new one.

        Raises:
            BadInput: the content is empty or unchanged, or the memory is not active.
            NotAllowed: the caller may not change the memory, or somebody else asserted it for the whole org.
        """
        old, room_ids = await self._resolve_own(memory, "correct")
        caller = self.access.principal
        explicit_memories.check_audience(caller, old)
        if old.status == "archived":
            raise BadInput(f"memory {old.id}", "is put aside; restore it first")
        text = explicit_memories.clean("content", content, max_length=explicit_memories.LONGEST_CONTENT)
        draft = _correction(old, text, caller.participant_id)
        correction = explicit_memories.ExplicitMemory(draft=draft, room_ids=room_ids, superseded=old)

        async def work(conn: Connection) -> tuple[MemoryId, Sequence[UUID]]:
            memory_id = await explicit_memories.save(conn, self.access, correction)
            return memory_id, [memory_id, old.id]

        return await self._get(await self.access.change("correct", "correct memory", work))

    @operation("POST", "/memories/{memory}/archive", name="archive_memory", replay="memory")
    async def archive(self, memory: str) -> Memory:
        """Archive an active memory and return it. It is neither recalled nor extracted again from its sources.

        The sources of the memory stay; erase them separately. `restore` reverts this call.
        """
        found, _ = await self._resolve_own(memory, "forget")
        refusal = {"archived": "is put aside already", "deprecated": "was superseded; name what stands"}
        return await self._set_status(
            found,
            "forget memory",
            partial(memory_writes.archive, at=datetime.now(UTC)),
            refusal.get(found.status, "changed meanwhile; look at it again"),
        )

    @operation("POST", "/memories/{memory}/restore", name="restore_memory", replay="memory")
    async def restore(self, memory: str) -> Memory:
        """Make an archived or superseded memory active again and return it. Workers do not undo this.

        If another memory superseded it, that memory stays active, too.
        """
        found, _ = await self._resolve_own(memory, "restore")
        write = partial(memory_writes.restore, beside=found.superseded_by)
        return await self._set_status(found, "restore memory", write, "stands as it is")

    @operation("GET", "/memories", name="list_memories")
    async def all(
        self, viewer: Viewer, *, limit: Limit = 50, **options: Unpack[MemoryOptions]
    ) -> list[Memory]:
        """Return the newest memories that the viewer may see, newest first. Default: only active memories."""
        reject_unknown_keywords("memories.all", options, MemoryOptions)
        check_limit(limit)
        _check_options(options)
        async with self.access.reading(viewer, "list memories", apply_restrictions=True) as reading:
            filters = await _resolve_filter(reading.conn, self.access.org_id, options)
            found = await memories.newest(reading.conn, self.access.org_id, filters, limit=limit)
            reading.record_shown(memory.id for memory in found)
        return found

    @operation("GET", "/rooms/{room}/digest")
    async def digest(
        self, viewer: Viewer, room: str, *, since: datetime | None = None, limit: Limit = 200
    ) -> Digest:
        """Return the memories of a room from a time on, by kind and by person, and its open questions.

        A digest contains only active memories with a source in the room, and at most 20 questions. The viewer may see all
        of them.

        Args:
            viewer: Who asks.
            room: The name or id of the room.
            since: Only memories and questions from this time on; it has a time zone. Default: since the viewer's
                last message in the room, or the last seven days and today if there is none.
            limit: The maximum number of memories, the newest.
        """
        check_limit(limit)
        check_zone("since", since)
        async with self.access.reading(viewer, "digest", apply_restrictions=True) as reading:
            conn, org_id = reading.conn, self.access.org_id
            room_id = await lookup.room(conn, org_id, room)
            since = since or await messages.last_own_time(conn, org_id, room_id)
            since = since or default_start(datetime.now(UTC))
            wanted = MemoryFilter(room_ids=[room_id], since=since)
            found = await memories.newest(conn, org_id, wanted, limit=limit + 1)
            shown = found[:limit]
            questions = await _open_questions(conn, org_id, room_id, since)
            reading.record_shown([room_id, *(one.id for one in (*shown, *questions))])
            return Digest(
                room_id=room_id,
                room_name=(await directory.room_names(conn, org_id, [room_id]))[room_id].name,
                since=since,
                sections=sections_of(shown),
                people=people_of(shown),
                open_questions=questions,
                is_truncated=len(found) > limit,
            )

    @operation("POST", "/memories/search", name="search_memories", replay="read")
    async def search(
        self, viewer: Viewer, question: SearchedText, *, limit: Limit = 10
    ) -> list[MatchedMemory]:
        """Return the memories that match a question by their words, best first.

        Each is returned in its current version.
        """
        check_limit(limit)
        check_question(question)
        query = SearchQuery(text=question, vector=None)
        async with self.access.reading(viewer, "search memories", apply_restrictions=True) as reading:
            result = await memory_search.search_memories(
                reading.conn, self.access.org_id, query, similarities={}
            )
            found = list(result.matches[:limit])
            reading.record_shown(match.memory.id for match in found)
        return found

    @operation("GET", "/messages/{message}/memories", name="list_derived_memories")
    async def derived_from(
        self, viewer: Viewer, message: str, *, room: str | None = None, limit: Limit = 50
    ) -> list[Memory]:
        """Return the newest memories with this message as a source, in any status, newest first."""
        check_limit(limit)
        async with self.access.reading(viewer, "why", apply_restrictions=True) as reading:
            conn, org_id = reading.conn, self.access.org_id
            room_id = None if room is None else await lookup.room(conn, org_id, room)
            source = await lookup.message(conn, org_id, message, room_id=room_id)
            found = await memories.derived_from_message(conn, org_id, source.id, limit=limit)
            reading.record_shown([source.id, *(memory.id for memory in found)])
        return found

    @operation("GET", "/memories/{memory}", name="explain_memory")
    async def provenance(self, viewer: Viewer, memory: str) -> Provenance:
        """Return a memory with its sources: the quoted words, the conversations and the rooms."""
        async with self.access.reading(viewer, "why", apply_restrictions=True) as reading:
            conn, org_id = reading.conn, self.access.org_id
            found = await explicit_memories.find_memory(conn, self.access, memory)
            successor_ids = (await memories.successors(conn, org_id, [found.id])).get(found.id, [])
            later = {row.id: row for row in await memories.memories_by_id(conn, org_id, successor_ids)}
            earlier = await memories.predecessors(conn, org_id, found.id)
            asserter, room_name = await _asserted(conn, org_id, found)
            reading.record_shown([found.id, *found.source_ids, *later, *(row.id for row in earlier)])
            return Provenance(
                memory=found,
                sources=await _source_messages(conn, org_id, found),
                successors=[later[key] for key in successor_ids if key in later],
                predecessors=earlier,
                asserted_by_name=asserter,
                asserted_in_name=room_name,
            )

    async def _resolve_own(self, reference: str, action: str) -> tuple[Memory, frozenset[RoomId]]:
        """Return a memory that the caller may change, and the rooms of its sources."""
        await self.access.check("correct", action)
        async with self.access.resolving(action) as conn:
            memory = await explicit_memories.find_memory(conn, self.access, reference)
            await explicit_memories.check_involved(conn, self.access, memory)
            sources = await messages.messages_by_id(conn, self.access.org_id, memory.source_ids, most=0)
        return memory, frozenset(source.room_id for source in sources)

    async def _set_status(
        self, memory: Memory, action: str, write: explicit_memories.WriteStatus, refusal: str
    ) -> Memory:
        async def work(conn: Connection) -> tuple[MemoryId, Sequence[UUID]]:
            await erasure_guard.lock_shared(conn, self.access.org_id)
            await memory_writes.lock(conn, self.access.org_id)
            await explicit_memories.check_involved(conn, self.access, memory)
            if not await write(conn, self.access.org_id, memory.id):
                raise BadInput(f"memory {memory.id}", refusal)
            return memory.id, [memory.id]

        return await self._get(await self.access.change("correct", action, work))

    async def _get(self, memory_id: MemoryId) -> Memory:
        """Return a memory as the caller sees it."""
        async with self.access.db.read_transaction(self.access.principal) as conn:
            found = await memories.memories_by_id(conn, self.access.org_id, [memory_id])
        if not found:
            raise NotFound("memory", str(memory_id))
        return found[0]


def _correction(old: Memory, content: str, caller: ParticipantId | None) -> MemoryDraft:
    """Return the draft of a memory that supersedes `old` and has the same sources and audience."""
    roles: set[tuple[MemoryRole, ParticipantId]] = {
        ("involved" if person.role == "author" else person.role, person.id) for person in old.participants
    }
    roles |= set() if caller is None else {("author", caller)}
    return MemoryDraft(
        id=MemoryId(uuid7()),
        kind=old.kind,
        content=content,
        importance=old.importance,
        sensitivity=old.sensitivity,
        audience="org" if old.audience == "org" else "self",
        # A memory for its asserter alone stays for the asserter alone.
        asserted_by=old.asserted_by if old.audience == "self" else caller,
        asserted_in=old.asserted_in,
        recorded_at=max(datetime.now(UTC), old.recorded_at),
        valid_from=old.valid_from,
        # The sources do not contain the new words.
        sources=[MemorySource(message_id=source.message_id) for source in old.sources],
        roles=frozenset(roles),
        tags=frozenset(old.tags),
        metadata=old.metadata,
        task_id=old.task_id,
    )


async def _open_questions(conn: Connection, org_id: OrgId, room_id: RoomId, since: datetime) -> list[Message]:
    unanswered = SearchFilter(room_ids=[room_id], since=since, answered=False)
    ids = await newest_messages(conn, org_id, unanswered, limit=MOST_OPEN_QUESTIONS)
    return await messages.messages_by_id(conn, org_id, ids, most=LONGEST_QUESTION)


async def _resolve_filter(conn: Connection, org_id: OrgId, options: MemoryOptions) -> MemoryFilter:
    async def accounts(word: str | None) -> list[ParticipantId] | None:
        if word is None:
            return None
        return [account.id for account in await lookup.accounts(conn, org_id, word)]

    room, context = options.get("room"), options.get("context")
    room_ids = None if room is None else {await lookup.room(conn, org_id, room)}
    if context is not None:
        of_context = await rooms_of_context(conn, org_id, context)
        room_ids = of_context if room_ids is None else room_ids & of_context
    return MemoryFilter(
        room_ids=room_ids,
        subject_ids=await accounts(options.get("about")),
        author_ids=await accounts(options.get("by")),
        perspective_ids=await accounts(options.get("seen_by")),
        kinds=options.get("kinds"),
        statuses=options.get("statuses", ("active",)),
        tags=options.get("tags"),
        task_id=options.get("task"),
        since=options.get("since"),
        as_of=options.get("as_of"),
    )


async def _source_messages(conn: Connection, org_id: OrgId, memory: Memory) -> list[SourceMessage]:
    found = await messages.messages_truncated(conn, org_id, memory.source_ids)
    rooms = await directory.room_names(conn, org_id, {message.room_id for message in found})
    assigned = await conversations.assignments_of(conn, org_id, [message.id for message in found])
    by_id = await conversations.by_id(conn, org_id, set(assigned.values()))
    sources = {source.message_id: source for source in memory.sources}
    return [
        SourceMessage(
            message=message,
            room_name=rooms[message.room_id].name if message.room_id in rooms else None,
            conversation_id=assigned.get(message.id),
            conversation_label=by_id[assigned[message.id]].label if assigned.get(message.id) in by_id else "",
            quote=_quote(message, sources[message.id], memory),
        )
        for message in found
    ]


async def _asserted(conn: Connection, org_id: OrgId, memory: Memory) -> tuple[str | None, str | None]:
    """Return the names of the asserter and the room. A name is None if it is not set or not visible."""
    asserter = [] if memory.asserted_by is None else [memory.asserted_by]
    room = [] if memory.asserted_in is None else [memory.asserted_in]
    names = await memories.known_names(conn, org_id, asserter)
    rooms = await directory.room_names(conn, org_id, room)
    return next(iter(names.values()), None), next((found.name for found in rooms.values()), None)


def _quote(message: Message, source: MemorySource, memory: Memory) -> str | None:
    is_edited = message.edited_at is not None and message.edited_at > memory.recorded_at
    if is_edited or source.quote_start is None or source.quote_end is None:
        return None
    # The quote may begin after the place where the text is cut.
    body = message.body.removesuffix(TRUNCATION_MARK)
    return body[source.quote_start : source.quote_end] if source.quote_end <= len(body) else None


def _check_options(options: MemoryOptions) -> None:
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
    for what, words in (("tags", options.get("tags") or ()), ("task", (options.get("task") or "",))):
        if any("\0" in word for word in words):
            raise BadInput(what, "must not hold NUL")


Facet = Literal["kind", "status", "tag", "room", "about", "by"]
FACET_OF_ROLE: Mapping[MemoryRole, Facet] = {"subject": "about", "author": "by"}
#: The number of newest memories among which facets are counted. It is limited, because the visibility of each memory
#: must be checked.
COUNTED = 100
#: The times in cursors count from here.
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: The maximum number of readers that are named.
NAMED = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class FacetCount:
    """The number of memories that have a value in common."""

    facet: Facet
    #: The value to filter by.
    value: str
    name: str
    count: int


def _count_facets(
    found: Sequence[Memory], origins: Sequence[MemoryOrigin], persons: Mapping[ParticipantId, UUID]
) -> list[FacetCount]:
    """Count the facets of memories, the most frequent first in each facet.

    `persons` maps merged accounts to one key.
    """
    ids: dict[tuple[Facet, object], set[MemoryId]] = {}
    labels: dict[tuple[Facet, object], tuple[str, str]] = {}
    for facet, value, name, memory_id in _facet_values(found, origins):
        is_person = facet in FACET_OF_ROLE.values()
        key = (facet, persons.get(ParticipantId(UUID(value)), value) if is_person else value)
        ids.setdefault(key, set()).add(memory_id)
        labels.setdefault(key, (value, name))
    counts = [
        FacetCount(facet=key[0], value=labels[key][0], name=labels[key][1], count=len(memory_ids))
        for key, memory_ids in ids.items()
    ]
    return sorted(counts, key=lambda row: (row.facet, -row.count, row.name, row.value))


def _facet_values(
    found: Iterable[Memory], origins: Iterable[MemoryOrigin]
) -> Iterable[tuple[Facet, str, str, MemoryId]]:
    """Yield the facet, value, name and memory of every value."""
    for memory in found:
        yield "kind", memory.kind, memory.kind, memory.id
        yield "status", memory.status, memory.status, memory.id
        for tag in memory.tags:
            yield "tag", tag, tag, memory.id
        for person in memory.participants:
            if person.role in FACET_OF_ROLE:
                yield FACET_OF_ROLE[person.role], str(person.id), person.name, memory.id
    for origin in origins:
        if origin.room_name is not None:
            yield "room", str(origin.room_id), origin.room_name, origin.memory_id


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedMemory:
    """A memory with the visible rooms of its sources."""

    memory: Memory
    origins: Sequence[MemoryOrigin]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryListPage:
    """A page of memories, newest first, with facets."""

    memories: Sequence[ListedMemory]
    #: The cursor of the next page.
    next: str | None
    #: The facets of the newest `COUNTED` memories; empty on later pages.
    facets: Sequence[FacetCount]
    #: The number of memories counted; 0 on later pages.
    facet_sample: int
    #: Whether there are more memories than were counted.
    is_truncated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAudience:
    """The readers of a memory. Only readers that the viewer may know about are named."""

    origins: Sequence[MemoryOrigin]
    is_sensitive: bool
    #: Whether the memory is visible only to people who may see the memory that superseded it.
    is_superseded: bool
    #: Whether everybody in the org may read its sources.
    is_open: bool
    #: The readers that the viewer knows, or the asserter of a memory without sources. Empty if the memory is open.
    readers: Sequence[MemoryReader]
    #: Whether there are more readers than are named.
    has_more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePlace:
    """A message, and the name of its room if the viewer may see the room."""

    message: Message
    room_name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBrowser:
    """The memories of an org as the pages show them. The methods raise the errors of `Memories`."""

    access: Access

    async def list_page(
        self, viewer: Viewer, *, limit: int = 50, before: str | None = None, **options: Unpack[MemoryOptions]
    ) -> MemoryListPage:
        """Return the newest memories that the viewer may see, or the ones after the cursor `before`, with facets."""
        reject_unknown_keywords("shelf", options, MemoryOptions)
        check_limit(limit)
        _check_options(options)
        cursor = None if before is None else _parse_cursor(before)
        size = limit if cursor else max(limit, COUNTED)
        async with self.access.reading(viewer, "list memories", apply_restrictions=True) as reading:
            conn, org_id = reading.conn, self.access.org_id
            filters = replace(await _resolve_filter(conn, org_id, options), before=cursor)
            cursors = await memories.newest_cursors(conn, org_id, filters, limit=size + 1)
            found = await memories.memories_by_id(conn, org_id, [row.id for row in cursors[:size]])
            origins = await people_pages.memory_origins(conn, org_id, found)
            people = (
                set[ParticipantId]()
                if cursor
                else {person.id for memory in found for person in memory.participants}
            )
            persons = await people_pages.persons_of_accounts(conn, org_id, people) if people else {}
            reading.record_shown(memory.id for memory in found[:limit])
        return MemoryListPage(
            memories=[
                ListedMemory(memory=memory, origins=[row for row in origins if row.memory_id == memory.id])
                for memory in found[:limit]
            ],
            next=_to_cursor(cursors[limit - 1]) if len(cursors) > limit else None,
            facets=[] if cursor else _count_facets(found, origins, persons),
            facet_sample=0 if cursor else len(found),
            is_truncated=cursor is None and len(cursors) > size,
        )

    async def audience(self, viewer: Viewer, memory: str) -> MemoryAudience:
        """Return who may see a memory.

        The people who may read all sources of a memory may see the memory. Privacy requests are not considered.
        """
        async with self.access.reading(viewer, "why", apply_restrictions=True) as reading:
            conn, org_id = reading.conn, self.access.org_id
            found = await explicit_memories.find_memory(conn, self.access, memory)
            reading.record_shown([found.id, *found.source_ids])
            origins = await people_pages.memory_origins(conn, org_id, [found])
            is_sensitive = found.sensitivity == "sensitive"
            is_open = found.audience == "org" or (
                bool(origins) and not is_sensitive and all(origin.reach == "open" for origin in origins)
            )
            readers: list[MemoryReader] = []
            if found.sources and not is_open:
                readers = await people_pages.memory_readers(conn, org_id, found, limit=NAMED + 1)
            elif found.asserted_by is not None and not is_open:
                names = await memories.known_names(conn, org_id, [found.asserted_by])
                readers = [MemoryReader(id=key, name=name) for key, name in names.items()]
        return MemoryAudience(
            origins=origins,
            is_sensitive=is_sensitive,
            is_superseded=found.superseded_by is not None,
            is_open=is_open,
            readers=readers[:NAMED],
            has_more=len(readers) > NAMED,
        )

    async def message(self, viewer: Viewer, word: str) -> MessagePlace:
        """Return a message and the name of its room."""
        async with self.access.reading(viewer, "read message") as reading:
            found = await lookup.message(reading.conn, self.access.org_id, word, room_id=None)
            rooms = await directory.room_names(reading.conn, self.access.org_id, [found.room_id])
            reading.record_shown([found.id])
        return MessagePlace(message=found, room_name=next((room.name for room in rooms.values()), None))


def _to_cursor(last_shown: MemoryCursor) -> str:
    """Return a cursor that works even if the memory is gone."""
    return f"{(last_shown.valid_from - EPOCH) // timedelta(microseconds=1)}_{last_shown.id}"


def _parse_cursor(cursor: str) -> MemoryCursor:
    microseconds, _, memory = cursor.partition("_")
    try:
        at = EPOCH + timedelta(microseconds=int(microseconds))
        return MemoryCursor(id=MemoryId(UUID(memory)), valid_from=at)
    except (ValueError, OverflowError):
        raise BadInput("before", "names no page; begin again without it") from None
