"""Rooms and conversations as their pages show them: what was said, each message with all that hangs on it.

Nothing is here that the viewer may not read, nor any sign of it: a window is as long as if it had never been said.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from typing import TypeVar
from uuid import UUID

from roomlore.db import conversations, messages
from roomlore.db import timeline as store
from roomlore.db.database import with_restrictions
from roomlore.db.queries import Connection
from roomlore.db.timeline import (
    END,
    AttachmentName,
    ConversationTitle,
    EarlierVersion,
    MessageMemory,
    Position,
    RoomHeader,
    TimelineFilter,
    TimelineSide,
    WhisperRecipient,
)
from roomlore.domain.errors import BadInput, NotFound
from roomlore.domain.ids import ConversationId, MessageId, OrgId, RoomId, uuid7
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.records import AssignedMessage, Conversation, Message, Viewer
from roomlore.operations.access import Access
from roomlore.operations.speakers import RoomSpeakers, Speaker, cached_speakers, load_speakers
from roomlore.search import lookup
from roomlore.search.records import Thread
from roomlore.search.threads import newest_thread_previews

#: Characters of a message that are shown among others; the rest has a page of its own.
MAX_SCANNED = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRequest:
    """Which part of a room is wanted: by default its newest messages; else what is around one place."""

    #: Around this message.
    around: str | None = None
    #: Just before, or just after, this message.
    before: str | None = None
    after: str | None = None
    #: From this day on, in UTC.
    day: date | None = None
    #: Only of this person, by whatever account.
    author: str | None = None
    #: Only of authors of these kinds.
    kinds: Sequence[ParticipantKind] | None = None
    #: Only what a memory rests on that stands.
    is_remembered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageWindow:
    """What a part of a room is: its messages, oldest first, and from where there may be others on either side."""

    said: Sequence[Message]
    #: The messages before and after which to look on; None where there is nothing.
    earlier: MessageId | None
    later: MessageId | None
    sought: MessageId | None = None


async def resolve_window_filter(conn: Connection, viewer: Viewer, request: WindowRequest) -> TimelineFilter:
    """Return what narrows a part, as the viewer may know of it.

    Raises:
        NotFound: the author is nobody, or nobody the viewer may know of.
        BadInput: several are meant.
    """
    accounts = (
        None if request.author is None else await lookup.accounts_of_person(conn, viewer, request.author)
    )
    return TimelineFilter(
        author_ids=None if accounts is None else [account.id for account in accounts],
        author_kinds=None if request.kinds is None else list(request.kinds),
        is_remembered=request.is_remembered,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowReader:
    """Looks for a part of a room."""

    conn: Connection
    org_id: OrgId
    room_id: RoomId
    wanted: TimelineFilter
    limit: int

    async def window(self, request: WindowRequest) -> MessageWindow:
        """Return a part; from the newest messages where nothing was said at its day or after it.

        Raises:
            NotFound: there is no such message in the room, or the viewer may not see it.
        """
        word = request.around or request.before or request.after
        if word is not None:
            middle = await lookup.message(self.conn, self.org_id, word, room_id=self.room_id)
            return await self._around(middle, request)
        return (await self._from_day(request.day) if request.day else None) or await self._newest()

    async def _around(self, middle: Message, part: WindowRequest) -> MessageWindow:
        place = store.position_of(middle)
        if part.around is not None:
            above, earlier = await self._earlier(place, self.limit // 2)
            below, later = await self._later(place, self.limit // 2)
            return MessageWindow(
                said=[*above, middle, *below], earlier=earlier, later=later, sought=middle.id
            )
        if part.after is not None:
            said, later = await self._later(place, self.limit)
            return MessageWindow(said=said, earlier=_first(said) or middle.id, later=later)
        said, earlier = await self._earlier(place, self.limit)
        return MessageWindow(said=said, earlier=earlier, later=_last(said) or middle.id)

    async def _from_day(self, day: date) -> MessageWindow | None:
        morning = store.position_before(datetime.combine(day, time(), UTC))
        said, later = await self._later(morning, self.limit)
        above, earlier = await self._earlier(morning, 1)
        if not said and later is None:
            return None
        return MessageWindow(said=said, earlier=_first(said) if above else earlier, later=later)

    async def _newest(self) -> MessageWindow:
        said, earlier = await self._earlier(store.END, self.limit)
        return MessageWindow(said=said, earlier=earlier, later=None)

    async def _earlier(self, place: Position, most: int) -> tuple[list[Message], MessageId | None]:
        """Return what is wanted before a place, oldest first, and before which message to look on."""
        side = TimelineSide(org_id=self.org_id, room_id=self.room_id, place=place, is_before=True)
        found, onward = await self._on(side, most)
        return found[::-1], onward

    async def _later(self, place: Position, most: int) -> tuple[list[Message], MessageId | None]:
        side = TimelineSide(org_id=self.org_id, room_id=self.room_id, place=place, is_before=False)
        return await self._on(side, most)

    async def _on(self, side: TimelineSide, most: int) -> tuple[list[Message], MessageId | None]:
        """Return what is wanted on a side of a place, the nearest first, and from where to look on."""
        if self.wanted.is_unfiltered:
            found = await side.messages(self.conn, limit=most + 1, most=MAX_SCANNED + 1)
            return found[:most], found[most - 1].id if len(found) > most else None
        ids = await self._matching_ids(side, most + 1)
        said = await messages.messages_by_id(self.conn, self.org_id, ids[:most], most=MAX_SCANNED + 1)
        by_id = {one.id: one for one in said}
        kept = [by_id[one] for one in ids[:most] if one in by_id]
        if len(ids) > most:
            return kept, ids[most - 1]
        return kept, None if self.wanted.is_remembered else await side.scan_end(self.conn)

    async def _matching_ids(self, side: TimelineSide, most: int) -> list[MessageId]:
        if not self.wanted.is_remembered:
            return await side.matching_ids(self.conn, self.wanted, limit=most)
        # What is remembered counts where its page would show it, which is not where a wish keeps it away.
        async with with_restrictions(self.conn):
            return await side.matching_ids(self.conn, self.wanted, limit=most)


def _first(said: Sequence[Message]) -> MessageId | None:
    return said[0].id if said else None


def _last(said: Sequence[Message]) -> MessageId | None:
    return said[-1].id if said else None


Hanging = TypeVar("Hanging", AttachmentName, WhisperRecipient, EarlierVersion, MessageMemory)

#: Messages of one window.
MAX_LINES = 200
#: Characters that are shown of what a message answers, and of what it said before it was edited.
MAX_ANSWERED_LENGTH, MAX_VERSION_LENGTH = 200, 400
#: Earlier texts of a message, the newest; and what is attached to it.
MOST_VERSIONS, MOST_ATTACHED = 20, 10
#: Characters of a message of an exchange, of which there are many on a page.
MAX_THREAD_MESSAGE_LENGTH = 1_000
#: Characters of a message that has a page for itself, on one page.
MAX_PART_LENGTH = 50_000
#: Conversations before one, and after it.
NEIGHBOURS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineLine:
    """A message with all that hangs on it and that the viewer may see."""

    #: Of its words the beginning, where they are many.
    placed: AssignedMessage
    is_cut: bool
    attached: Sequence[AttachmentName]
    #: What it answers, by its beginning.
    answered: Message | None
    conversation: ConversationTitle | None
    #: The newest of what it said before it was edited, oldest first.
    versions: Sequence[EarlierVersion]
    #: To whom it was whispered, as far as known; empty where it was no whisper.
    hearers: Sequence[WhisperRecipient]
    memories: Sequence[MessageMemory]
    #: Whether a bridge spoke for its author.
    is_bridged: bool

    @property
    def message(self) -> Message:
        """The message."""
        return self.placed.message


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineWindow:
    """A part of a room."""

    room: RoomHeader
    #: Oldest first.
    lines: Sequence[TimelineLine]
    #: The message around which it is, if it is around one.
    sought: MessageId | None
    #: The messages before and after which to look on; None where there is nothing.
    earlier: MessageId | None
    later: MessageId | None
    #: In the order in which they first spoke; of very many the most talkative, and those of these lines.
    voices: Sequence[Speaker]
    first_at: datetime | None
    last_at: datetime | None
    #: Events from here on may tell of what is not in it yet.
    as_of: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationView:
    """A conversation with what was said in it and what was said beside it."""

    conversation: Conversation
    #: None where the viewer may read what was said but not see the room, as with whispers.
    room: RoomHeader | None
    #: The newest of what is asked for, oldest first.
    lines: Sequence[TimelineLine]
    #: The message before which more was said in it.
    onward: MessageId | None
    voices: Sequence[Speaker]
    #: Conversations of the room that ended just before, and just after, the nearest first.
    earlier: Sequence[ConversationTitle]
    later: Sequence[ConversationTitle]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomThreads:
    """A room by its exchanges."""

    room: RoomHeader
    #: Newest first, by their openings.
    exchanges: Sequence[Thread]
    #: Those of their messages of whose words only the beginning is told.
    cut: frozenset[MessageId]
    hearers: Mapping[MessageId, Sequence[WhisperRecipient]]
    voices: Sequence[Speaker]
    as_of: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class FullMessage:
    """One message, with a stretch of its words."""

    room: RoomHeader
    #: Its words are this stretch.
    message: Message
    attached: Sequence[AttachmentName]
    #: Which stretch it is, from 1, and of how many.
    part: int
    parts: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Rooms and conversations, message by message, as far as viewers may read them."""

    access: Access

    async def window(
        self, viewer: Viewer, room: str, part: WindowRequest, *, limit: int = 50
    ) -> TimelineWindow:
        """Return a part of a room; from its newest messages where nothing was said at the day or after it.

        Args:
            viewer: For whom.
            room: Name, id or external id.
            part: Which part.
            limit: How many messages.

        Raises:
            BadInput: several places or rooms are meant, or more is wanted than one window holds.
            NotFound: there is no such room, message or person, or the viewer may not see it.
        """
        _check(limit)
        if sum(place is not None for place in (part.around, part.before, part.after, part.day)) > 1:
            raise BadInput("at", "name one place: at, before, after or day")
        as_of = uuid7()
        async with self.access.reading(viewer, "read room", generic_plan=True) as reading:
            conn, org_id = reading.conn, self.access.org_id
            room_id = await lookup.room(conn, org_id, room)
            wanted = await resolve_window_filter(conn, viewer, part)
            looking = WindowReader(conn=conn, org_id=org_id, room_id=room_id, wanted=wanted, limit=limit)
            found = await looking.window(part)
            spoken = await load_speakers(conn, viewer, room_id, found.said)
            placed = await _placed(conn, org_id, room_id, found.said, are_adjacent=wanted.is_unfiltered)
            lines = await _with_details(conn, org_id, placed, spoken)
            reading.record_shown([room_id, *_shown(lines)])
            place = await _room(conn, org_id, room_id)
        return TimelineWindow(
            room=place,
            lines=lines,
            sought=found.sought,
            earlier=found.earlier,
            later=found.later,
            voices=spoken.speakers(),
            first_at=min((one.first_at for one in spoken.authors), default=None),
            last_at=max((one.last_at for one in spoken.authors), default=None),
            as_of=as_of,
        )

    async def lines(
        self, viewer: Viewer, room: str, ids: Sequence[MessageId]
    ) -> tuple[RoomId, list[TimelineLine], list[Speaker]]:
        """Return a room, those of these messages of it that the viewer may read, in its order, and who spoke in it.

        Raises:
            BadInput: more is wanted than one window holds.
            NotFound: there is no such room, or the viewer may not see it.
        """
        if len(ids) > MAX_LINES:
            raise BadInput("ids", f"at most {MAX_LINES}")
        async with self.access.reading(viewer, "read room") as reading:
            conn, org_id = reading.conn, self.access.org_id
            room_id = await lookup.room(conn, org_id, room)
            found = await messages.messages_by_id(conn, org_id, ids, most=MAX_SCANNED + 1)
            said = [message for message in found if message.room_id == room_id]
            spoken = await cached_speakers(conn, viewer, room_id, said)
            placed = await _placed(conn, org_id, room_id, said, are_adjacent=False)
            lines = await _with_details(conn, org_id, placed, spoken)
            reading.record_shown([room_id, *_shown(lines)])
        return room_id, lines, spoken.speakers()

    async def threads(
        self, viewer: Viewer, room: str, *, limit: int, before: str | None = None
    ) -> RoomThreads:
        """Return the newest exchanges of a room, or those that open before a message, with who is in them.

        Raises:
            BadInput: more is wanted than one window holds.
            NotFound: there is no such room or message, or the viewer may not see it.
        """
        _check(limit)
        as_of = uuid7()
        async with self.access.reading(viewer, "read room", generic_plan=True) as reading:
            conn, org_id = reading.conn, self.access.org_id
            room_id = await lookup.room(conn, org_id, room)
            place = await lookup.position(conn, org_id, before, room_id=room_id)
            found = await newest_thread_previews(
                conn, org_id, room_id, limit=limit, before=place, most=MAX_THREAD_MESSAGE_LENGTH + 1
            )
            said = [message for one in found for message in one.messages]
            spoken = await load_speakers(conn, viewer, room_id, said)
            whispers = [message.id for message in said if message.kind == "whisper"]
            hearers = await store.whisper_recipients(conn, org_id, whispers) if whispers else []
            reading.record_shown([room_id, *(message.id for message in said)])
            held = await _room(conn, org_id, room_id)
        return RoomThreads(
            room=held,
            exchanges=[
                replace(
                    one, messages=[_truncated(message, MAX_THREAD_MESSAGE_LENGTH) for message in one.messages]
                )
                for one in found
            ],
            cut=frozenset(message.id for message in said if len(message.body) > MAX_THREAD_MESSAGE_LENGTH),
            hearers=_by_message(hearers),
            voices=spoken.speakers(),
            as_of=as_of,
        )

    async def full_message(
        self,
        viewer: Viewer,
        room: str,
        message: str,
        *,
        part: int = 1,
        stretch: int = MAX_PART_LENGTH,
        recalls: bool = False,
    ) -> FullMessage:
        """Return a message of a room with all its words, of very many a stretch; `recalls`: unless a wish keeps it away.

        Raises:
            NotFound: there is no such room, message or part of it, or the viewer may not see it.
        """
        async with self.access.reading(viewer, "read room", apply_restrictions=recalls) as reading:
            conn, org_id = reading.conn, self.access.org_id
            room_id = await lookup.room(conn, org_id, room)
            found = await lookup.message(conn, org_id, message, room_id=room_id)
            held = await store.text_span(conn, org_id, found.id, start=(part - 1) * stretch, most=stretch)
            parts = 0 if held is None else max(1, -(-held.length // stretch))
            if held is None or part > parts:
                raise NotFound("part", str(part))
            attached = await store.attachment_names(conn, org_id, [found.id], limit=MOST_ATTACHED)
            reading.record_shown([room_id, found.id])
            place = await _room(conn, org_id, room_id)
        return FullMessage(
            room=place,
            message=replace(found, body=held.text),
            attached=attached,
            part=part,
            parts=parts,
            length=held.length,
        )

    async def conversation(
        self, viewer: Viewer, word: str, *, limit: int = 100, before: str | None = None
    ) -> ConversationView:
        """Return a conversation with the newest of what was said in it, or before a message, and its neighbours.

        Raises:
            BadInput: nothing or too much is wanted, or several are meant.
            NotFound: there is no such conversation, or the viewer may not see all of it.
        """
        _check(limit)
        async with self.access.reading(viewer, "read conversation") as reading:
            conn, org_id = reading.conn, self.access.org_id
            found = await lookup.conversation(conn, org_id, word)
            held = (await conversations.by_id(conn, org_id, [found])).get(found)
            if held is None:
                raise NotFound("conversation", word)
            place = END
            if before is not None:
                place = store.position_of(await lookup.message(conn, org_id, before, room_id=held.room_id))
            newest = await store.of_conversation(
                conn, org_id, found, place, limit=limit + 1, most=MAX_SCANNED + 1
            )
            said = newest[:limit][::-1]
            standing = dict.fromkeys((one.id for one in said), found)
            spoken = await load_speakers(conn, viewer, held.room_id, said)
            placed = await conversations.with_assignments(conn, org_id, said, standing)
            lines = await _with_details(conn, org_id, placed, spoken)
            room = await store.room(conn, org_id, held.room_id)
            around = await store.conversations_around(
                conn, org_id, held.room_id, _titled(held), limit=NEIGHBOURS
            )
            reading.record_shown([found, *_shown(lines), *(one.id for side in around for one in side)])
        return ConversationView(
            conversation=held,
            room=room,
            lines=lines,
            onward=said[0].id if len(newest) > limit else None,
            voices=spoken.speakers(),
            earlier=around[0],
            later=around[1],
        )


def _titled(held: Conversation) -> ConversationTitle:
    return ConversationTitle(id=held.id, label=held.label, opened_at=held.opened_at, last_at=held.last_at)


async def _room(conn: Connection, org_id: OrgId, room_id: RoomId) -> RoomHeader:
    place = await store.room(conn, org_id, room_id)
    assert place is not None, "it was found by the same viewer"
    return place


async def _placed(
    conn: Connection, org_id: OrgId, room_id: RoomId, said: Sequence[Message], *, are_adjacent: bool
) -> list[AssignedMessage]:
    """Return messages of a room with what they answer and where they stand."""
    # Between others there may be very many conversations, of which none is asked for.
    standing = (
        await conversations.room_assignments(conn, org_id, room_id, said)
        if are_adjacent
        else await store.assignments(conn, org_id, [one.id for one in said])
    )
    return await conversations.with_assignments(conn, org_id, said, standing)


async def _with_details(
    conn: Connection, org_id: OrgId, said: Sequence[AssignedMessage], speakers: RoomSpeakers
) -> list[TimelineLine]:
    """Return messages with all that hangs on them."""
    ids = [one.message.id for one in said]
    parents = {one.answers.parent_id for one in said if one.answers is not None}
    found = await messages.messages_by_id(conn, org_id, list(parents), most=MAX_ANSWERED_LENGTH)
    answered = {one.id: one for one in found}
    titles = await store.conversation_titles(
        conn, org_id, {one.conversation_id for one in said if one.conversation_id}
    )
    whispers = [one.message.id for one in said if one.message.kind == "whisper"]
    edited = [one.message.id for one in said if one.message.edited_at is not None]
    hearers = _by_message(await store.whisper_recipients(conn, org_id, whispers) if whispers else [])
    versions = _by_message(
        await store.versions(conn, org_id, edited, limit=MOST_VERSIONS, most=MAX_VERSION_LENGTH)
        if edited
        else []
    )
    attached = _by_message(await store.attachment_names(conn, org_id, ids, limit=MOST_ATTACHED))
    # Those alone whose pages there are: what a wish keeps away has none.
    async with with_restrictions(conn):
        memories = _by_message(await store.message_memories(conn, org_id, ids))
    return [
        TimelineLine(
            placed=replace(one, message=_truncated(one.message, MAX_SCANNED)),
            is_cut=len(one.message.body) > MAX_SCANNED,
            attached=attached.get(one.message.id, ()),
            answered=None if one.answers is None else answered.get(one.answers.parent_id),
            conversation=_title_of(titles, one.conversation_id),
            versions=versions.get(one.message.id, ()),
            hearers=hearers.get(one.message.id, ()),
            memories=memories.get(one.message.id, ()),
            is_bridged=speakers.is_bridged(one.message.author_id),
        )
        for one in said
    ]


def _shown(lines: Sequence[TimelineLine]) -> Iterator[UUID]:
    """Yield what lines show: messages, what they answer, and what is remembered of them."""
    for line in lines:
        yield line.message.id
        if line.answered is not None:
            yield line.answered.id
        yield from (memory.id for memory in line.memories)


def _truncated(message: Message, most: int) -> Message:
    return message if len(message.body) <= most else replace(message, body=message.body[:most])


def _check(limit: int) -> None:
    if not 1 <= limit <= MAX_LINES:
        raise BadInput("limit", f"must be at least 1 and at most {MAX_LINES}")


def _title_of(
    titles: Mapping[ConversationId, ConversationTitle], conversation_id: ConversationId | None
) -> ConversationTitle | None:
    return None if conversation_id is None else titles.get(conversation_id)


def _by_message(rows: Sequence[Hanging]) -> dict[MessageId, list[Hanging]]:
    held: dict[MessageId, list[Hanging]] = {}
    for row in rows:
        held.setdefault(row.message_id, []).append(row)
    return held
