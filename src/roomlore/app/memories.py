"""Memories: what is durably known, each with the messages it rests on."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TypedDict, Unpack, get_args
from uuid import UUID

from roomlore.app import asserting
from roomlore.app.asserting import Content, MemoryDetails
from roomlore.app.desk import Access, check_limit
from roomlore.app.finding import SearchedText, check_question
from roomlore.app.operation import Limit, operation
from roomlore.domain.errors import BadInput, NotFound
from roomlore.domain.ids import MemoryId, OrgId, ParticipantId, RoomId, uuid7
from roomlore.domain.keywords import reject_unknown_keywords
from roomlore.domain.listing import TRUNCATION_MARK
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
from roomlore.retrieval import meant, recall
from roomlore.retrieval.records import MatchedMemory
from roomlore.retrieval.search import SearchQuery
from roomlore.store import conversations, directory, erased, keeping, memories, messages
from roomlore.store.keeping import MemoryDraft
from roomlore.store.memories import MemoryFilter
from roomlore.store.queries import Connection

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
        asserted = await asserting.resolve(self.access, content, details)

        async def work(conn: Connection) -> tuple[MemoryId, Sequence[UUID]]:
            kept = await asserting.save(conn, self.access, asserted)
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
        asserting.check_audience(self.access.principal, old)
        if old.status == "archived":
            raise BadInput(f"memory {old.id}", "is put aside; restore it first")
        text = asserting.clean("content", content, max_length=asserting.LONGEST_CONTENT)
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
        asserted = asserting.ExplicitMemory(draft=draft, room_ids=room_ids, superseded=old)

        async def work(conn: Connection) -> tuple[MemoryId, Sequence[UUID]]:
            kept = await asserting.save(conn, self.access, asserted)
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
            partial(keeping.archive, at=datetime.now(UTC)),
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
        write = partial(keeping.restore, beside=held.superseded_by)
        return await self._set_status(held, "restore memory", write, "stands as it is")

    @operation("GET", "/memories", name="list_memories")
    async def all(self, viewer: Viewer, *, limit: Limit = 50, **wanted: Unpack[MemoryOptions]) -> list[Memory]:
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
    async def search(self, viewer: Viewer, question: SearchedText, *, limit: Limit = 10) -> list[MatchedMemory]:
        """Return the memories that fit a question by their words, each as it stands now, best first.

        Raises:
            BadInput: there is no question, or nothing is wanted.
        """
        check_limit(limit)
        check_question(question)
        async with self.access.reading(viewer, "search memories", apply_restrictions=True) as reading:
            asked = SearchQuery(text=question, vector=None)
            found = (await recall.search_memories(reading.conn, self.access.org_id, asked, similarities={})).matches[:limit]
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
            room_id = None if room is None else await meant.room(conn, org_id, room)
            said = await meant.message(conn, org_id, message, room_id=room_id)
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
            found = await asserting.find_memory(conn, self.access, memory)
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
            held = await asserting.find_memory(conn, self.access, reference)
            await asserting.check_involved(conn, self.access, held)
            said = await messages.messages_by_id(conn, self.access.org_id, held.source_ids, most=0)
        return held, frozenset(one.room_id for one in said)

    async def _set_status(self, memory: Memory, action: str, write: asserting.WriteStatus, refusal: str) -> Memory:
        async def work(conn: Connection) -> tuple[MemoryId, Sequence[UUID]]:
            await erased.lock_shared(conn, self.access.org_id)
            await keeping.lock(conn, self.access.org_id)
            await asserting.check_involved(conn, self.access, memory)
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
        room_ids=None if room is None else [await meant.room(conn, org_id, room)],
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
    participant_id = await meant.participant(conn, org_id, word)
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
        ("kind", options.get("kinds", ()), asserting.KINDS),
        ("status", options.get("statuses", ()), STATUSES),
    ):
        for word in words:
            if word not in known:
                raise BadInput(f"{what} {word!r}", f"must be one of {', '.join(known)}")
    for what in ("since", "as_of"):
        moment = options.get(what)
        if moment is not None and moment.tzinfo is None:
            raise BadInput(what.replace("_", " "), "must have a time zone")
