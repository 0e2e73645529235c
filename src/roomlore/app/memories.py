"""Memories: what is durably known, each with the messages it rests on."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import get_args
from uuid import UUID

from roomlore.app.desk import Desk, check_limit
from roomlore.domain.errors import BadInput, NotFound
from roomlore.domain.ids import MemoryId, OrgId, ParticipantId, RoomId, uuid7
from roomlore.domain.records import (
    Memory,
    MemoryKind,
    MemoryParticipant,
    MemoryRole,
    Message,
    Provenance,
    SourceMessage,
    Viewer,
)
from roomlore.ingest.clean import storable
from roomlore.ingest.secrets import strip
from roomlore.retrieval import meant
from roomlore.store import directory, erased, memories, messages
from roomlore.store.queries import Connection

#: A memory is a statement; what is longer is a document.
LONGEST_CONTENT = 10_000
#: Of sources, and of participants it is about: whoever may see a memory is found out by looking at each.
MOST_NAMED = 100
KINDS = get_args(MemoryKind)
#: What somebody said themselves; a notice of the platform or injected context is nobody's statement.
SAID = frozenset({"message", "whisper"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Memories:
    """The memories of an org: asserted by those who may, seen by those who may read all they rest on."""

    desk: Desk

    async def remember(
        self,
        content: str,
        *,
        kind: MemoryKind = "fact",
        sources: Sequence[str] = (),
        room: str | None = None,
        about: Sequence[str] = (),
        sensitive: bool = False,
        supersedes: str | None = None,
    ) -> Memory:
        """Keep a statement of the caller's and return it; the same one again is returned as it was kept.

        Whoever asserts a memory need not be who stated it. Where it repeats the words of what it rests on, and
        one participant said all of that, that one is its author. Otherwise whoever puts it so is its author,
        and those who said what it rests on are involved. An agent that asserts it is also its perspective.

        Args:
            content: What is to be known; secrets in it are taken out.
            kind: What kind of statement it is.
            sources: Ids or external ids of the messages it rests on, each of which the caller may read.
                Without any, the memory is for whoever asserts it alone.
            room: Where the sources are looked for; everywhere by default.
            about: Whom it is about, by name, account or id.
            sensitive: Whether it is only for those who were members of the rooms when the sources were said.
            supersedes: A memory of which it takes the place, by id or the beginning of it. It must be for the
                same people: rest on what was said in the same rooms, and be as sensitive.

        Raises:
            BadInput: the content or kind is none, several are meant, a source was removed, or the memory whose
                place it takes is for others or does not stand any more.
            NotFound: there is no such source, room or participant, or the caller may not see it.
            NotAllowed: the caller's role does not let it remember.
        """
        await self.desk.check("remember", "remember")
        _check(kind, sources, about)
        memory = Memory(
            id=MemoryId(uuid7()),
            kind=kind,
            content=_clean(content),
            sensitivity="sensitive" if sensitive else "normal",
            asserted_by=self.desk.caller.participant_id,
            recorded_at=datetime.now(UTC),
            source_ids=(),
            participants=(),
            is_outdated=False,
        )
        grounded, room_ids = await self._look_up(memory, sources, room=room, about=about)
        old = None if supersedes is None else await self._standing(supersedes)

        async def work(conn: Connection) -> tuple[Memory, Sequence[UUID]]:
            kept = await self._keep(conn, grounded, room_ids)
            if old is None:
                return kept, [kept.id, *kept.source_ids]
            await self._supersede(conn, old, by=kept)
            return kept, [kept.id, *kept.source_ids, old.id]

        return await self.desk.change("remember", "remember", work)

    async def _look_up(
        self, memory: Memory, sources: Sequence[str], *, room: str | None, about: Sequence[str]
    ) -> tuple[Memory, set[RoomId]]:
        """Return the memory with the sources and participants that the caller means, and the sources' rooms."""
        caller, org_id = self.desk.caller, self.desk.org_id
        async with self.desk.looking("remember") as conn:
            room_id = None if room is None else await meant.room(conn, org_id, room)
            found = [await meant.message(conn, org_id, word, room_id=room_id) for word in sources]
            removed = [word for word, message in zip(sources, found, strict=True) if message.redacted_at]
            if removed:
                raise BadInput(f"message {removed[0]!r}", "was removed")
            subjects = {await meant.participant(conn, org_id, word) for word in about}
            roles = _roles(caller, memory.content, found, subjects)
            named = {who for _, who in roles}
            names = await memories.known_names(conn, org_id, named)
            for who in named - names.keys():
                # The caller itself, erased since it was let in.
                raise NotFound("participant", str(who))
            unique = sorted(set(found), key=lambda said: said.position)
        # A platform's clock may be ahead of ours, and the memory knows the text of the newest edit.
        edits = [said.edited_at for said in unique if said.edited_at is not None]
        grounded = replace(
            memory,
            recorded_at=max([memory.recorded_at, *edits]),
            source_ids=[said.id for said in unique],
            participants=sorted(MemoryParticipant(role=role, name=names[who], id=who) for role, who in roles),
        )
        return grounded, {said.room_id for said in unique}

    async def _keep(self, conn: Connection, memory: Memory, room_ids: set[RoomId]) -> Memory:
        """Add the memory unless there is the same one, and return the one that is there then.

        Whoever removes a source, by erasure or because its platform says so, waits or has been waited for.
        """
        org_id = self.desk.org_id
        await erased.keep_erasures_out(conn, org_id)
        await directory.lock_rooms(conn, room_ids)
        await memories.lock_content(conn, org_id, memory.content)
        if not await memories.is_grounded(conn, org_id, memory):
            raise BadInput("memory", "what it rests on or names was removed meanwhile")
        same = await memories.same(conn, org_id, memory)
        if same is not None:
            return replace(
                memory,
                id=same.id,
                recorded_at=same.recorded_at,
                is_outdated=same.is_outdated,
                superseded_by=same.superseded_by,
            )
        await memories.add(conn, org_id, memory)
        return memory

    async def _standing(self, word: str) -> Memory:
        """Return the memory that the caller means and may see."""
        async with self.desk.looking("remember") as conn:
            return await _meant(conn, self.desk.org_id, word)

    async def _supersede(self, conn: Connection, old: Memory, *, by: Memory) -> None:
        """Put a memory in the place of another that is for the same people."""
        org_id = self.desk.org_id
        if by.id == old.id:
            raise BadInput(f"memory {old.id}", "says the same; what supersedes it must say something else")
        # Whoever else was superseding either of them is done then, and both are read as they are now.
        await memories.lock_superseding(conn, org_id)
        now = {one.id: one for one in await memories.memories_by_id(conn, org_id, {old.id, by.id})}
        if now.keys() != {old.id, by.id}:
            raise BadInput(f"memory {old.id}", "was removed meanwhile")
        old, by = now[old.id], now[by.id]
        if old.superseded_by == by.id:
            return
        if by.superseded_by is not None:
            raise BadInput(f"memory {by.id}", "says the same and was superseded; rest this on newer messages")
        heard, heard_before = [await memories.audience(conn, org_id, one.id) for one in (by, old)]
        if not is_for_the_same(by, heard, old, heard_before):
            raise BadInput(
                f"memory {old.id}", "is for others; what supersedes it must rest on the same rooms as it does"
            )
        if not await memories.supersede(conn, org_id, old.id, by=by.id):
            raise BadInput(f"memory {old.id}", "does not stand any more; supersede what took its place")

    async def all(self, viewer: Viewer, *, about: str | None = None, limit: int = 50) -> list[Memory]:
        """Return the newest memories that the viewer may see, newest first.

        Args:
            viewer: For whom.
            about: Only those about this participant, by whatever account the viewer may know of.
            limit: How many.

        Raises:
            BadInput: nothing is wanted, or several participants are meant.
            NotFound: there is no such participant, or the viewer may not know of them.
        """
        check_limit(limit)
        async with self.desk.reading(viewer, "list memories") as reading:
            subject_ids = None if about is None else await self._accounts(reading.conn, about)
            found = await memories.newest(
                reading.conn, self.desk.org_id, subject_ids=subject_ids, limit=limit
            )
            reading.shows(memory.id for memory in found)
        return found

    async def _accounts(self, conn: Connection, word: str) -> list[ParticipantId]:
        participant_id = await meant.participant(conn, self.desk.org_id, word)
        return [account.id for account in await directory.accounts(conn, self.desk.org_id, participant_id)]

    async def why(self, viewer: Viewer, memory: str) -> Provenance:
        """Return a memory with the messages it rests on.

        Args:
            viewer: For whom.
            memory: Its id, or the beginning of it.

        Raises:
            BadInput: several are meant.
            NotFound: there is no such memory, or the viewer may not see it.
        """
        async with self.desk.reading(viewer, "why") as reading:
            conn, org_id = reading.conn, self.desk.org_id
            found = await _meant(conn, org_id, memory)
            sources = await messages.messages_by_id(conn, org_id, found.source_ids)
            rooms = await directory.room_names(conn, org_id, {source.room_id for source in sources})
            later, earlier = await _chain(conn, org_id, found)
            reading.shows([found.id, *found.source_ids, *(one.id for one in (*later, *earlier))])
        names = {room_id: room.name for room_id, room in rooms.items()}
        told = [SourceMessage(message=said, room_name=names.get(said.room_id)) for said in sources]
        return Provenance(memory=found, sources=told, successors=later, predecessors=earlier)


async def _meant(conn: Connection, org_id: OrgId, word: str) -> Memory:
    found = await memories.find(conn, org_id, word)
    if not found:
        raise NotFound("memory", word)
    if len(found) > 1:
        choices = ", ".join(str(one.id) for one in found)
        raise BadInput(f"memory {word!r}", f"several are meant, name one by id: {choices}")
    return found[0]


async def _chain(conn: Connection, org_id: OrgId, memory: Memory) -> tuple[list[Memory], list[Memory]]:
    """Return what took the place of a memory, nearest first, and what it took the place of, newest first."""
    ids = (await memories.successors(conn, org_id, [memory.id])).get(memory.id, [])
    by_id = {one.id: one for one in await memories.memories_by_id(conn, org_id, ids)}
    later = [by_id[key] for key in ids if key in by_id]
    return later, await memories.predecessors(conn, org_id, memory.id)


def is_for_the_same(
    one: Memory, heard: Sequence[memories.Heard], other: Memory, heard_before: Sequence[memories.Heard]
) -> bool:
    """Return whether two memories are for the same people, whoever they are: neither shows more than the other.

    Both rest on what was said in the same rooms, where all open ones are one unless they are sensitive; whispers
    and the like are each for their own. What rests on nothing is for whoever asserted it.
    """
    if one.sensitivity != other.sensitivity:
        return False
    if not (heard and heard_before):
        return not heard and not heard_before and one.asserted_by == other.asserted_by
    is_sensitive = one.sensitivity == "sensitive"
    return _rooms_of(heard, is_sensitive=is_sensitive) == _rooms_of(heard_before, is_sensitive=is_sensitive)


def _rooms_of(heard: Sequence[memories.Heard], *, is_sensitive: bool) -> set[UUID]:
    """Return what tells audiences apart: closed rooms, and messages for some only."""
    return {
        source.room_id if source.is_for_room else source.message_id
        for source in heard
        if not (source.is_for_room and source.is_open and not is_sensitive)
    }


def _roles(
    caller: Viewer, content: str, sources: Sequence[Message], subjects: set[ParticipantId]
) -> set[tuple[MemoryRole, ParticipantId]]:
    asserter: set[ParticipantId] = set() if caller.participant_id is None else {caller.participant_id}
    speakers = {message.author_id for message in sources if message.kind in SAID}
    # Who puts it in other words states it; who said it so did.
    is_quoted = any(_plain(content) in _plain(message.body) for message in sources)
    is_one_voice = len(speakers) == 1 and is_quoted
    named: dict[MemoryRole, set[ParticipantId]] = {
        "author": speakers if is_one_voice else asserter,
        "involved": set() if is_one_voice else speakers,
        "subject": subjects,
        "perspective": asserter if caller.role == "agent" else set(),
    }
    return {(role, who) for role, people in named.items() for who in people}


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(".!?")


def _clean(content: str) -> str:
    if len(content) > LONGEST_CONTENT:
        raise BadInput("content", f"longer than {LONGEST_CONTENT} characters")
    text, _ = strip(storable(content).strip())
    if not text:
        raise BadInput("content", "must not be empty")
    return text


def _check(kind: str, sources: Sequence[str], about: Sequence[str]) -> None:
    if kind not in KINDS:
        raise BadInput(f"kind {kind!r}", f"must be one of {', '.join(KINDS)}")
    for what, words in (("sources", sources), ("about", about)):
        if len(words) > MOST_NAMED:
            raise BadInput(what, f"more than {MOST_NAMED}")
