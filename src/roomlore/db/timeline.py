"""The page of a room: a window of its messages, and what belongs to each of them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import UUID

from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import ConversationId, MemoryId, MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import ParticipantKind, RoomKind, Visibility
from roomlore.domain.records import MemoryKind, Message, Room, Viewer
from roomlore.domain.words import qualified_room_name

QUERIES = Queries("timeline")
MAX_ID = UUID(int=2**128 - 1)
MIN_ID = UUID(int=0)
MAX_ORDER = 2**63 - 1
#: The maximum number of messages of a room that are scanned for its authors.
MAX_SCANNED = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomHeader:
    """A room, without counts."""

    id: RoomId
    platform: str
    external_id: str
    #: The server, workspace or network; empty if there is none.
    workspace: str
    name: str
    kind: RoomKind
    visibility: Visibility
    topic: str

    @property
    def qualified_name(self) -> str:
        """Its name among all rooms."""
        return qualified_room_name(self.workspace, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineFilter:
    """A filter of the messages of a room."""

    #: None for all.
    author_ids: Sequence[ParticipantId] | None = None
    #: None for all.
    author_kinds: Sequence[ParticipantKind] | None = None
    #: Only messages that are sources of memories.
    is_remembered: bool = False

    @property
    def is_unfiltered(self) -> bool:
        """Whether it returns all messages."""
        return self.author_ids is None and self.author_kinds is None and not self.is_remembered


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A position in a room, at a message or between two messages."""

    sent_at: datetime
    sequence: int
    message_id: UUID


#: After every message.
END = Position(sent_at=datetime.max.replace(tzinfo=UTC), sequence=MAX_ORDER, message_id=MAX_ID)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakerCount:
    """How many messages an account sent in a room, and when."""

    id: ParticipantId
    message_count: int
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ParticipantName:
    """The name and the person of a participant."""

    id: ParticipantId
    name: str
    kind: ParticipantKind
    person_id: UUID
    is_bridged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierVersion:
    """An earlier text of a message."""

    message_id: MessageId
    written_at: datetime
    #: Truncated if `is_cut`.
    body: str
    is_truncated: bool
    #: How many earlier texts the message has, returned or not.
    held: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WhisperRecipient:
    """A recipient of a whisper."""

    message_id: MessageId
    id: ParticipantId
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachmentName:
    """The platform's name of an attachment; never its content."""

    message_id: MessageId
    name: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSpan:
    """A part of the text of a message, and the length of the whole."""

    text: str
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageMemory:
    """A memory from a message."""

    message_id: MessageId
    id: MemoryId
    title: str
    content: str
    kind: MemoryKind


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationTitle:
    """The title and times of a conversation."""

    id: ConversationId
    label: str
    opened_at: datetime
    last_at: datetime


def position_of(message: Message) -> Position:
    """Return the position of a message."""
    return Position(sent_at=message.sent_at, sequence=message.sequence, message_id=message.id)


def position_before(when: datetime) -> Position:
    """Return the position just before all messages sent at a time."""
    return Position(sent_at=when, sequence=-MAX_ORDER, message_id=MIN_ID)


@QUERIES.query
async def room(conn: Connection, org_id: OrgId, room_id: RoomId) -> RoomHeader | None:
    """Return a room; None if it is not visible."""
    ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineSide:
    """The messages of a room before a position, newest first, or after a position, oldest first."""

    org_id: OrgId
    room_id: RoomId
    place: Position
    is_before: bool

    async def messages(self, conn: Connection, *, limit: int, most: int) -> list[Message]:
        """Return the nearest messages, with up to `most` characters of each text."""
        query = messages_before if self.is_before else messages_after
        return await query(conn, self.org_id, self.room_id, self.place, limit=limit, most=most)

    async def matching_ids(self, conn: Connection, wanted: TimelineFilter, *, limit: int) -> list[MessageId]:
        """Return the nearest messages that match a filter.

        A filter by author looks only at the nearest `MAX_SCANNED` messages.
        """
        where = (self.org_id, self.room_id, self.place)
        if wanted.is_remembered:
            remembered = remembered_before if self.is_before else remembered_after
            return await remembered(conn, *where, wanted=wanted, limit=limit)
        matching = matching_before if self.is_before else matching_after
        return await matching(conn, *where, wanted=wanted, limit=limit, scanned=MAX_SCANNED)

    async def scan_end(self, conn: Connection) -> MessageId | None:
        """Return the farthest of the nearest `MAX_SCANNED` messages; None if there are fewer messages."""
        query = scan_end_before if self.is_before else scan_end_after
        return await query(conn, self.org_id, self.room_id, self.place, scanned=MAX_SCANNED)


@QUERIES.query
async def messages_before(
    conn: Connection, org_id: OrgId, room_id: RoomId, place: Position, *, limit: int, most: int
) -> list[Message]:
    """Return the messages just before a position, newest first, with up to `most` characters of each text."""
    ...


@QUERIES.query
async def matching_before(
    conn: Connection,
    org_id: OrgId,
    room_id: RoomId,
    place: Position,
    *,
    wanted: TimelineFilter,
    limit: int,
    scanned: int,
) -> list[MessageId]:
    """Return messages by some authors among those just before a position, newest first."""
    ...


@QUERIES.query
async def remembered_before(
    conn: Connection, org_id: OrgId, room_id: RoomId, place: Position, *, wanted: TimelineFilter, limit: int
) -> list[MessageId]:
    """Return the sources of active memories before a position, newest first."""
    ...


@QUERIES.query
async def scan_end_before(
    conn: Connection, org_id: OrgId, room_id: RoomId, place: Position, *, scanned: int
) -> MessageId | None:
    """Return the farthest of the scanned messages before a position; None if there are fewer messages."""
    ...


@QUERIES.query
async def messages_after(
    conn: Connection, org_id: OrgId, room_id: RoomId, place: Position, *, limit: int, most: int
) -> list[Message]:
    """Return the messages just after a position, oldest first, with up to `most` characters of each text."""
    ...


@QUERIES.query
async def matching_after(
    conn: Connection,
    org_id: OrgId,
    room_id: RoomId,
    place: Position,
    *,
    wanted: TimelineFilter,
    limit: int,
    scanned: int,
) -> list[MessageId]:
    """Return messages by some authors among those just after a position, oldest first."""
    ...


@QUERIES.query
async def remembered_after(
    conn: Connection, org_id: OrgId, room_id: RoomId, place: Position, *, wanted: TimelineFilter, limit: int
) -> list[MessageId]:
    """Return the sources of active memories after a position, oldest first."""
    ...


@QUERIES.query
async def scan_end_after(
    conn: Connection, org_id: OrgId, room_id: RoomId, place: Position, *, scanned: int
) -> MessageId | None:
    """Return the farthest of the scanned messages after a position; None if there are fewer messages."""
    ...


@QUERIES.query
async def of_conversation(
    conn: Connection,
    org_id: OrgId,
    conversation_id: ConversationId,
    place: Position,
    *,
    limit: int,
    most: int,
) -> list[Message]:
    """Return the messages of a conversation just before a position, newest first, with up to `most` characters each."""
    ...


@QUERIES.query
async def text_span(
    conn: Connection, org_id: OrgId, message_id: MessageId, *, start: int, most: int
) -> TextSpan | None:
    """Return a part of the text of a message; None if it is not visible."""
    ...


@QUERIES.query
async def attachment_names(
    conn: Connection, org_id: OrgId, ids: Sequence[MessageId], *, limit: int
) -> list[AttachmentName]:
    """Return the first attachments of each message."""
    ...


@QUERIES.query
async def room_headers(conn: Connection, org_id: OrgId, *, limit: int) -> list[RoomHeader]:
    """Return the visible rooms by name."""
    ...


async def rooms(
    conn: Connection, viewer: Viewer, *, named: str = "", skip: int = 0, limit: int | None = None
) -> list[Room]:
    """Return the visible rooms whose names contain `named`, or a page of these rooms, most recently active first."""
    query = rooms_for_operator if viewer.is_operator else rooms_for_viewer
    return await query(conn, viewer.org_id, named=named, skip=skip, limit=limit)


@QUERIES.query
async def rooms_for_operator(
    conn: Connection, org_id: OrgId, *, named: str, skip: int, limit: int | None
) -> list[Room]:
    """Return a page of the rooms of an org, with the counts of `room_activity`."""
    ...


@QUERIES.query
async def rooms_for_viewer(
    conn: Connection, org_id: OrgId, *, named: str, skip: int, limit: int | None
) -> list[Room]:
    """Return a page of the rooms that a viewer may see, counting only what they may read."""
    ...


async def speaker_counts(conn: Connection, org_id: OrgId, room_id: RoomId) -> tuple[list[SpeakerCount], bool]:
    """Return the accounts that wrote in a room, by their first message, and whether these are all.

    In a large room, only the authors of the oldest and the newest messages are counted.
    """
    first = await first_speakers(conn, org_id, room_id, limit=MAX_SCANNED)
    if sum(speaker.message_count for speaker in first) < MAX_SCANNED:
        return first, True
    newest = await last_speakers(conn, org_id, room_id, limit=MAX_SCANNED)
    last = {speaker.id: speaker for speaker in newest}
    known = [replace(speaker, last_at=last.pop(speaker.id, speaker).last_at) for speaker in first]
    return [*known, *last.values()], False


@QUERIES.query
async def first_speakers(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, limit: int
) -> list[SpeakerCount]:
    """Return the authors of the oldest visible messages of a room."""
    ...


@QUERIES.query
async def last_speakers(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, limit: int
) -> list[SpeakerCount]:
    """Return the authors of the newest visible messages of a room."""
    ...


@QUERIES.query
async def participant_names(
    conn: Connection, org_id: OrgId, ids: Collection[ParticipantId]
) -> dict[ParticipantId, ParticipantName]:
    """Return the names and persons of the given participants that are visible."""
    ...


@QUERIES.query
async def versions(
    conn: Connection, org_id: OrgId, ids: Sequence[MessageId], *, limit: int, most: int
) -> list[EarlierVersion]:
    """Return the newest earlier texts of each message, oldest first, with up to `most` characters of each text."""
    ...


@QUERIES.query
async def whisper_recipients(
    conn: Connection, org_id: OrgId, ids: Sequence[MessageId]
) -> list[WhisperRecipient]:
    """Return the visible recipients of whispers; the author of a whisper is not one of them."""
    ...


@QUERIES.query
async def message_memories(conn: Connection, org_id: OrgId, ids: Sequence[MessageId]) -> list[MessageMemory]:
    """Return the active visible memories from each message, newest first."""
    ...


@QUERIES.query
async def assignments(
    conn: Connection, org_id: OrgId, ids: Sequence[MessageId]
) -> dict[MessageId, ConversationId]:
    """Return the visible conversations of messages. The messages may be far apart."""
    ...


@QUERIES.query
async def conversation_titles(
    conn: Connection, org_id: OrgId, ids: Collection[ConversationId]
) -> dict[ConversationId, ConversationTitle]:
    """Return the titles of the given conversations that are visible."""
    ...


async def conversations_around(
    conn: Connection, org_id: OrgId, room_id: RoomId, conversation: ConversationTitle, *, limit: int
) -> tuple[list[ConversationTitle], list[ConversationTitle]]:
    """Return the visible conversations of a room that ended before a conversation, and after it, each nearest first."""
    return (
        await earlier_conversations(conn, org_id, room_id, conversation, limit=limit),
        await later_conversations(conn, org_id, room_id, conversation, limit=limit),
    )


@QUERIES.query
async def earlier_conversations(
    conn: Connection, org_id: OrgId, room_id: RoomId, conversation: ConversationTitle, *, limit: int
) -> list[ConversationTitle]:
    """Return the conversations that ended before this one, newest first."""
    ...


@QUERIES.query
async def later_conversations(
    conn: Connection, org_id: OrgId, room_id: RoomId, conversation: ConversationTitle, *, limit: int
) -> list[ConversationTitle]:
    """Return the conversations that ended after this one, oldest first."""
    ...
