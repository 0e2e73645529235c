"""Rooms and conversations as the pages show them: messages with everything attached to them.

A page shows nothing that the viewer may not read, and no sign of it. So hidden messages do not shorten a window.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from time import monotonic
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
    ParticipantName,
    Position,
    RoomHeader,
    SpeakerCount,
    TimelineFilter,
    TimelineSide,
    WhisperRecipient,
)
from roomlore.domain.errors import BadInput, NotFound
from roomlore.domain.ids import MessageId, OrgId, ParticipantId, RoomId, uuid7
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.records import AssignedMessage, Conversation, Message, Viewer
from roomlore.operations.access import Access
from roomlore.search import lookup
from roomlore.search.records import Thread
from roomlore.search.threads import newest_thread_previews

#: The maximum number of messages in one window.
MAX_LINES = 200
#: The maximum number of characters of a message in a window, of a parent, of an earlier version, and of a message in
#: a thread.
MAX_SCANNED, MAX_ANSWERED_LENGTH, MAX_VERSION_LENGTH, MAX_THREAD_MESSAGE_LENGTH = 4_000, 200, 400, 1_000
#: The maximum number of characters on one page of a single message.
MAX_PART_LENGTH = 50_000
#: The maximum number of earlier versions and attachments of a message.
MOST_VERSIONS, MOST_ATTACHED = 20, 10
#: The number of conversations shown before a conversation, and after it.
NEIGHBOURS = 10
#: The maximum number of speakers that are named, beside the authors of the messages shown.
MOST_VOICES = 200
#: The time for which the speakers of a room are cached, and the number of rooms in this cache.
CACHE_SECONDS, MOST_KEPT = 10.0, 200

Attached = TypeVar("Attached", AttachmentName, WhisperRecipient, EarlierVersion, MessageMemory)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRequest:
    """The part of a room to show: its newest messages, or the messages at one position."""

    #: Show the messages around, just before or just after this message.
    around: str | None = None
    before: str | None = None
    after: str | None = None
    #: Show messages from this day on, in UTC.
    day: date | None = None
    #: Only messages of this person, by any of their accounts.
    author: str | None = None
    #: Only authors of these kinds.
    kinds: Sequence[ParticipantKind] | None = None
    #: Only messages that are sources of active memories.
    is_remembered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """A person who spoke in a room, by any of their accounts."""

    #: The account that spoke first.
    id: ParticipantId
    #: The rank of the person by their first message, counted from 0.
    place: int
    accounts: Sequence[ParticipantId]
    name: str
    kind: ParticipantKind
    is_bridged: bool
    #: None in very large rooms.
    message_count: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineLine:
    """A message with everything attached to it that the viewer may see."""

    #: The message with its parent and conversation. The text may be cut.
    placed: AssignedMessage
    is_truncated: bool
    attached: Sequence[AttachmentName]
    #: The parent. Its text may be cut.
    answered: Message | None
    conversation: ConversationTitle | None
    #: The newest earlier versions, oldest first.
    versions: Sequence[EarlierVersion]
    #: The known recipients of a whisper.
    recipients: Sequence[WhisperRecipient]
    memories: Sequence[MessageMemory]
    #: Whether a bridge wrote the message for its author.
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
    #: The message in the middle, if one was requested.
    target: MessageId | None
    #: The messages from which to continue before and after the window; None if there are no more messages.
    earlier: MessageId | None
    later: MessageId | None
    #: In order of their first message. In large rooms: the people with the most messages, and the authors of the lines.
    speakers: Sequence[Speaker]
    first_at: datetime | None
    last_at: datetime | None
    #: The window may lack events after this id.
    as_of: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationView:
    """A conversation with its messages and its neighbours."""

    conversation: Conversation
    #: None if the viewer may not see the room. This can happen with whispers.
    room: RoomHeader | None
    #: The newest messages, oldest first.
    lines: Sequence[TimelineLine]
    #: The message before which to continue.
    next: MessageId | None
    speakers: Sequence[Speaker]
    #: Conversations of the room that ended before it and after it, the nearest first.
    earlier: Sequence[ConversationTitle]
    later: Sequence[ConversationTitle]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomThreads:
    """The threads of a room."""

    room: RoomHeader
    #: Newest first, by their roots.
    threads: Sequence[Thread]
    #: Messages whose text is cut.
    cut: frozenset[MessageId]
    recipients: Mapping[MessageId, Sequence[WhisperRecipient]]
    speakers: Sequence[Speaker]
    as_of: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class FullMessage:
    """One part of the full text of a message."""

    room: RoomHeader
    #: The message. Its text is this part.
    message: Message
    attached: Sequence[AttachmentName]
    #: The number of the part, counted from 1, and the number of all parts.
    part: int
    parts: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Rooms and conversations, message by message.

    Every method raises NotFound if the viewer sees nothing by a name. It raises BadInput if a name is ambiguous or more
    messages are requested than a window holds.
    """

    access: Access

    async def window(
        self, viewer: Viewer, room: str, part: WindowRequest, *, limit: int = 50
    ) -> TimelineWindow:
        """Return a part of a room.

        If a day is requested and nothing was written from this day on, return the end of the room.
        """
        _check(limit)
        if sum(place is not None for place in (part.around, part.before, part.after, part.day)) > 1:
            raise BadInput("at", "name one place: at, before, after or day")
        as_of = uuid7()
        async with self.access.reading(viewer, "read room", generic_plan=True) as reading:
            conn, org_id = reading.conn, self.access.org_id
            room_id = await lookup.room(conn, org_id, room)
            filters = await _resolve_filter(conn, viewer, part)
            reader = _WindowReader(conn=conn, org_id=org_id, room_id=room_id, filters=filters, limit=limit)
            window = await reader.window(part)
            speakers = await _load_speakers(conn, viewer, room_id, window.messages)
            assigned = await _assigned(
                conn, org_id, room_id, window.messages, are_adjacent=filters.is_unfiltered
            )
            lines = await _with_details(conn, org_id, assigned, speakers)
            reading.record_shown([room_id, *_shown(lines)])
            header = await _room(conn, org_id, room_id)
        return TimelineWindow(
            room=header,
            lines=lines,
            target=window.target,
            earlier=window.earlier,
            later=window.later,
            speakers=speakers.speakers(),
            first_at=min((author.first_at for author in speakers.authors), default=None),
            last_at=max((author.last_at for author in speakers.authors), default=None),
            as_of=as_of,
        )

    async def lines(
        self, viewer: Viewer, room: str, ids: Sequence[MessageId]
    ) -> tuple[RoomId, list[TimelineLine], list[Speaker]]:
        """Return the given messages of a room that the viewer may read, in room order, and the speakers."""
        if len(ids) > MAX_LINES:
            raise BadInput("ids", f"at most {MAX_LINES}")
        async with self.access.reading(viewer, "read room") as reading:
            conn, org_id = reading.conn, self.access.org_id
            room_id = await lookup.room(conn, org_id, room)
            found = await messages.messages_by_id(conn, org_id, ids, most=MAX_SCANNED + 1)
            of_room = [message for message in found if message.room_id == room_id]
            speakers = await _load_speakers(conn, viewer, room_id, of_room, use_cache=True)
            assigned = await _assigned(conn, org_id, room_id, of_room, are_adjacent=False)
            lines = await _with_details(conn, org_id, assigned, speakers)
            reading.record_shown([room_id, *_shown(lines)])
        return room_id, lines, speakers.speakers()

    async def threads(
        self, viewer: Viewer, room: str, *, limit: int, before: str | None = None
    ) -> RoomThreads:
        """Return the newest threads of a room, or the threads whose root is before a message."""
        _check(limit)
        as_of = uuid7()
        async with self.access.reading(viewer, "read room", generic_plan=True) as reading:
            conn, org_id = reading.conn, self.access.org_id
            room_id = await lookup.room(conn, org_id, room)
            position = await lookup.position(conn, org_id, before, room_id=room_id)
            threads = await newest_thread_previews(
                conn, org_id, room_id, limit=limit, before=position, most=MAX_THREAD_MESSAGE_LENGTH + 1
            )
            shown = [message for thread in threads for message in thread.messages]
            speakers = await _load_speakers(conn, viewer, room_id, shown)
            whispers = [message.id for message in shown if message.kind == "whisper"]
            recipients = await store.whisper_recipients(conn, org_id, whispers) if whispers else []
            reading.record_shown([room_id, *(message.id for message in shown)])
            header = await _room(conn, org_id, room_id)
        cut = MAX_THREAD_MESSAGE_LENGTH
        return RoomThreads(
            room=header,
            threads=[
                replace(thread, messages=[_truncated(message, cut) for message in thread.messages])
                for thread in threads
            ],
            cut=frozenset(message.id for message in shown if len(message.body) > cut),
            recipients=_by_message(recipients),
            speakers=speakers.speakers(),
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
        apply_restrictions: bool = False,
    ) -> FullMessage:
        """Return a part of the full text of a message. With `apply_restrictions`, privacy requests are applied."""
        async with self.access.reading(viewer, "read room", apply_restrictions=apply_restrictions) as reading:
            conn, org_id = reading.conn, self.access.org_id
            room_id = await lookup.room(conn, org_id, room)
            found = await lookup.message(conn, org_id, message, room_id=room_id)
            span = await store.text_span(conn, org_id, found.id, start=(part - 1) * stretch, most=stretch)
            parts = 0 if span is None else max(1, -(-span.length // stretch))
            if span is None or part > parts:
                raise NotFound("part", str(part))
            attached = await store.attachment_names(conn, org_id, [found.id], limit=MOST_ATTACHED)
            reading.record_shown([room_id, found.id])
            header = await _room(conn, org_id, room_id)
        return FullMessage(
            room=header,
            message=replace(found, body=span.text),
            attached=attached,
            part=part,
            parts=parts,
            length=span.length,
        )

    async def conversation(
        self, viewer: Viewer, word: str, *, limit: int = 100, before: str | None = None
    ) -> ConversationView:
        """Return a conversation and its neighbours, with its newest messages or the messages before a given message."""
        _check(limit)
        async with self.access.reading(viewer, "read conversation") as reading:
            conn, org_id = reading.conn, self.access.org_id
            key = await lookup.conversation(conn, org_id, word)
            conversation = (await conversations.by_id(conn, org_id, [key])).get(key)
            if conversation is None:
                raise NotFound("conversation", word)
            room_id, position = conversation.room_id, END
            if before is not None:
                position = store.position_of(await lookup.message(conn, org_id, before, room_id=room_id))
            newest = await store.of_conversation(
                conn, org_id, key, position, limit=limit + 1, most=MAX_SCANNED + 1
            )
            shown = newest[:limit][::-1]
            speakers = await _load_speakers(conn, viewer, room_id, shown)
            assigned = await conversations.with_assignments(
                conn, org_id, shown, dict.fromkeys((message.id for message in shown), key)
            )
            lines = await _with_details(conn, org_id, assigned, speakers)
            room = await store.room(conn, org_id, room_id)
            title = ConversationTitle(
                id=key,
                label=conversation.label,
                opened_at=conversation.opened_at,
                last_at=conversation.last_at,
            )
            around = await store.conversations_around(conn, org_id, room_id, title, limit=NEIGHBOURS)
            reading.record_shown([key, *_shown(lines), *(other.id for side in around for other in side)])
        return ConversationView(
            conversation=conversation,
            room=room,
            lines=lines,
            next=shown[0].id if len(newest) > limit else None,
            speakers=speakers.speakers(),
            earlier=around[0],
            later=around[1],
        )


async def _room(conn: Connection, org_id: OrgId, room_id: RoomId) -> RoomHeader:
    header = await store.room(conn, org_id, room_id)
    assert header is not None, "the same viewer has just resolved it"
    return header


async def _assigned(
    conn: Connection, org_id: OrgId, room_id: RoomId, shown: Sequence[Message], *, are_adjacent: bool
) -> list[AssignedMessage]:
    """Return messages with their parents and conversations."""
    # Between messages that are not adjacent, there may be very many conversations.
    assigned = (
        await conversations.room_assignments(conn, org_id, room_id, shown)
        if are_adjacent
        else await store.assignments(conn, org_id, [message.id for message in shown])
    )
    return await conversations.with_assignments(conn, org_id, shown, assigned)


async def _with_details(
    conn: Connection, org_id: OrgId, assigned: Sequence[AssignedMessage], speakers: "_RoomSpeakers"
) -> list[TimelineLine]:
    """Return messages with everything attached to them."""
    shown = [item.message for item in assigned]
    ids = [message.id for message in shown]
    parent_ids = {item.answers.parent_id for item in assigned if item.answers is not None}
    found = await messages.messages_by_id(conn, org_id, list(parent_ids), most=MAX_ANSWERED_LENGTH)
    parents = {message.id: message for message in found}
    conversation_ids = {item.conversation_id for item in assigned if item.conversation_id}
    titles = await store.conversation_titles(conn, org_id, conversation_ids)
    whispers = [message.id for message in shown if message.kind == "whisper"]
    edited = [message.id for message in shown if message.edited_at is not None]
    recipients = _by_message(await store.whisper_recipients(conn, org_id, whispers) if whispers else [])
    versions = _by_message(
        await store.versions(conn, org_id, edited, limit=MOST_VERSIONS, most=MAX_VERSION_LENGTH)
        if edited
        else []
    )
    attached = _by_message(await store.attachment_names(conn, org_id, ids, limit=MOST_ATTACHED))
    # Only memories whose own page the viewer may open are included. Restricted memories have no page.
    async with with_restrictions(conn):
        memories = _by_message(await store.message_memories(conn, org_id, ids))
    return [
        TimelineLine(
            placed=replace(item, message=_truncated(item.message, MAX_SCANNED)),
            is_truncated=len(item.message.body) > MAX_SCANNED,
            attached=attached.get(item.message.id, ()),
            answered=None if item.answers is None else parents.get(item.answers.parent_id),
            conversation=None if item.conversation_id is None else titles.get(item.conversation_id),
            versions=versions.get(item.message.id, ()),
            recipients=recipients.get(item.message.id, ()),
            memories=memories.get(item.message.id, ()),
            is_bridged=speakers.is_bridged(item.message.author_id),
        )
        for item in assigned
    ]


def _shown(lines: Sequence[TimelineLine]) -> Iterator[UUID]:
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


def _by_message(rows: Sequence[Attached]) -> dict[MessageId, list[Attached]]:
    by_message: defaultdict[MessageId, list[Attached]] = defaultdict(list)
    for row in rows:
        by_message[row.message_id].append(row)
    return dict(by_message)


async def _resolve_filter(conn: Connection, viewer: Viewer, request: WindowRequest) -> TimelineFilter:
    author_ids = None
    if request.author is not None:
        author_ids = [key.id for key in await lookup.accounts_of_person(conn, viewer, request.author)]
    return TimelineFilter(
        author_ids=author_ids,
        author_kinds=None if request.kinds is None else list(request.kinds),
        is_remembered=request.is_remembered,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """The messages of a part of a room, oldest first, and where to continue."""

    messages: Sequence[Message]
    earlier: MessageId | None
    later: MessageId | None
    target: MessageId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _WindowReader:
    """Reads a part of a room."""

    conn: Connection
    org_id: OrgId
    room_id: RoomId
    filters: TimelineFilter
    limit: int

    async def window(self, request: WindowRequest) -> _Window:
        word = request.around or request.before or request.after
        if word is not None:
            middle = await lookup.message(self.conn, self.org_id, word, room_id=self.room_id)
            return await self._at(middle, request)
        if request.day and (found := await self._from_day(request.day)):
            return found
        shown, earlier = await self._earlier(END, self.limit)
        return _Window(messages=shown, earlier=earlier, later=None)

    async def _at(self, middle: Message, request: WindowRequest) -> _Window:
        position = store.position_of(middle)
        if request.around is not None:
            above, earlier = await self._earlier(position, self.limit // 2)
            below, later = await self._later(position, self.limit // 2)
            return _Window(messages=[*above, middle, *below], earlier=earlier, later=later, target=middle.id)
        if request.after is not None:
            shown, later = await self._later(position, self.limit)
            return _Window(messages=shown, earlier=(shown[0] if shown else middle).id, later=later)
        shown, earlier = await self._earlier(position, self.limit)
        return _Window(messages=shown, earlier=earlier, later=(shown[-1] if shown else middle).id)

    async def _from_day(self, day: date) -> _Window | None:
        morning = store.position_before(datetime.combine(day, time(), UTC))
        shown, later = await self._later(morning, self.limit)
        above, earlier = await self._earlier(morning, 1)
        if not shown and later is None:
            return None
        if above:
            earlier = shown[0].id if shown else None
        return _Window(messages=shown, earlier=earlier, later=later)

    async def _earlier(self, position: Position, most: int) -> tuple[list[Message], MessageId | None]:
        """Return the messages before a position, oldest first, and where to continue."""
        found, onward = await self._side(position, most, is_before=True)
        return found[::-1], onward

    async def _later(self, position: Position, most: int) -> tuple[list[Message], MessageId | None]:
        return await self._side(position, most, is_before=False)

    async def _side(
        self, position: Position, most: int, *, is_before: bool
    ) -> tuple[list[Message], MessageId | None]:
        """Return the messages on one side of a position, the nearest first, and where to continue."""
        side = TimelineSide(org_id=self.org_id, room_id=self.room_id, place=position, is_before=is_before)
        if self.filters.is_unfiltered:
            found = await side.messages(self.conn, limit=most + 1, most=MAX_SCANNED + 1)
            return found[:most], found[most - 1].id if len(found) > most else None
        if self.filters.is_remembered:
            # A memory counts only if its own page would show it. That page respects restrictions.
            async with with_restrictions(self.conn):
                ids = await side.matching_ids(self.conn, self.filters, limit=most + 1)
        else:
            ids = await side.matching_ids(self.conn, self.filters, limit=most + 1)
        loaded = await messages.messages_by_id(self.conn, self.org_id, ids[:most], most=MAX_SCANNED + 1)
        by_id = {message.id: message for message in loaded}
        shown = [by_id[key] for key in ids[:most] if key in by_id]
        if len(ids) > most:
            return shown, ids[most - 1]
        return shown, None if self.filters.is_remembered else await side.scan_end(self.conn)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RoomSpeakers:
    """The authors of a room by account, in order of their first message, and the names that the viewer may see."""

    authors: Sequence[SpeakerCount]
    #: Whether the counts include all messages of the authors.
    is_complete: bool
    names: Mapping[ParticipantId, ParticipantName]

    def is_bridged(self, author_id: ParticipantId) -> bool:
        return author_id in self.names and self.names[author_id].is_bridged

    def speakers(self) -> list[Speaker]:
        """Return each person once."""
        persons: dict[UUID, list[SpeakerCount]] = {}
        for author in self.authors:
            key = self.names[author.id].person_id if author.id in self.names else author.id
            persons.setdefault(key, []).append(author)
        return [
            self._speaker(place, accounts)
            for place, accounts in enumerate(persons.values())
            if all(account.id in self.names for account in accounts)
        ]

    def _speaker(self, place: int, accounts: Sequence[SpeakerCount]) -> Speaker:
        names = [self.names[account.id] for account in accounts]
        newest = self.names[max(accounts, key=lambda account: account.last_at).id]
        kinds = {name.kind for name in names}
        return Speaker(
            id=accounts[0].id,
            place=place,
            accounts=[account.id for account in accounts],
            name=newest.name,
            kind=newest.kind if len(kinds) == 1 else "human" if "human" in kinds else "system",
            is_bridged=any(name.is_bridged for name in names),
            message_count=sum(account.message_count for account in accounts) if self.is_complete else None,
        )


#: A cache of the authors of rooms for each viewer, with the time of reading. Counting a large room is slow.
_AUTHORS: OrderedDict[
    tuple[OrgId, ParticipantId | None, RoomId], tuple[float, Sequence[SpeakerCount], bool]
] = OrderedDict()


async def _load_speakers(
    conn: Connection,
    viewer: Viewer,
    room_id: RoomId,
    shown: Collection[Message],
    *,
    use_cache: bool = False,
) -> _RoomSpeakers:
    """Return the speakers of a room.

    With `use_cache`, the counts may be some seconds old, but the names are current.
    """
    author_ids = {message.author_id for message in shown}
    key = (viewer.org_id, viewer.participant_id, room_id)
    read_at, authors, is_complete = _AUTHORS.get(key, (0.0, (), False))
    is_fresh = use_cache and key in _AUTHORS and monotonic() - read_at < CACHE_SECONDS
    if not is_fresh or not author_ids <= {author.id for author in authors}:
        authors, is_complete = await store.speaker_counts(conn, viewer.org_id, room_id)
        _AUTHORS[key] = monotonic(), authors, is_complete
        _AUTHORS.move_to_end(key)
        if len(_AUTHORS) > MOST_KEPT:
            _AUTHORS.popitem(last=False)
    top = sorted(authors, key=lambda author: -author.message_count)[:MOST_VOICES]
    ids = {author.id for author in top} | author_ids
    names = await store.participant_names(conn, viewer.org_id, ids)
    return _RoomSpeakers(authors=authors, is_complete=is_complete, names=names)
