"""A room as its page shows it: a window of what was said, and what hangs on each message of it."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from uuid import UUID

from roomlore.db.conversations import ConversationAssignment
from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import ConversationId, MemoryId, MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import ParticipantKind, RoomKind, Visibility
from roomlore.domain.records import MemoryKind, Message, Room, Viewer
from roomlore.domain.words import qualified_room_name

QUERIES = Queries("timeline")
MAX_ID = UUID(int=2**128 - 1)
MIN_ID = UUID(int=0)
MAX_ORDER = 2**63 - 1
#: Messages of a room that are gone through to tell who spoke in it.
MAX_SCANNED = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomHeader:
    """A room, without counts."""

    id: RoomId
    platform: str
    external_id: str
    #: The server, workspace or network it belongs to; empty where there is none.
    workspace: str
    name: str
    kind: RoomKind
    visibility: Visibility
    topic: str

    @property
    def qualified_name(self) -> str:
        """What it is called among all rooms."""
        return qualified_room_name(self.workspace, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineFilter:
    """Which messages of a room are wanted."""

    #: None: anybody's.
    author_ids: Sequence[ParticipantId] | None = None
    #: None: of whatever kind.
    author_kinds: Sequence[ParticipantKind] | None = None
    #: Only what a memory rests on.
    is_remembered: bool = False

    @property
    def is_unfiltered(self) -> bool:
        """Whether nothing is left out."""
        return self.author_ids is None and self.author_kinds is None and not self.is_remembered


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A place in the order of a room, at a message or between two."""

    sent_at: datetime
    native_order: int
    message_id: UUID


#: After everything.
END = Position(sent_at=datetime.max.replace(tzinfo=UTC), native_order=MAX_ORDER, message_id=MAX_ID)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakerCount:
    """How much an account said in a room, and when."""

    id: ParticipantId
    message_count: int
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ParticipantName:
    """What a participant is called, and whose account it is."""

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
    #: Its beginning.
    body: str
    is_cut: bool
    #: How many earlier texts there are of the message, told or not.
    held: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WhisperRecipient:
    """Somebody to whom a whisper was said."""

    message_id: MessageId
    id: ParticipantId
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachmentName:
    """What is attached to a message, as its platform names it; never its content."""

    message_id: MessageId
    name: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSpan:
    """A stretch of the words of a message, and how long all of them are."""

    text: str
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchingMessage:
    """A message that is wanted."""

    id: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageMemory:
    """A memory that rests on a message."""

    message_id: MessageId
    id: MemoryId
    title: str
    content: str
    kind: MemoryKind


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationTitle:
    """What a conversation is called, and when it was."""

    id: ConversationId
    label: str
    opened_at: datetime
    last_at: datetime


def position_of(message: Message) -> Position:
    """Return the place of a message."""
    return Position(sent_at=message.sent_at, native_order=message.native_order, message_id=message.id)


def position_before(when: datetime) -> Position:
    """Return the place before everything said at a time."""
    return Position(sent_at=when, native_order=-MAX_ORDER, message_id=MIN_ID)


async def room(conn: Connection, org_id: OrgId, room_id: RoomId) -> RoomHeader | None:
    """Return a room; None where it is not visible."""
    return await QUERIES.first(conn, "room", RoomHeader, {"org_id": org_id, "room_id": room_id})


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineSide:
    """One side of a place in a room: what stands just before it, newest first, or just after it, oldest first."""

    org_id: OrgId
    room_id: RoomId
    place: Position
    is_before: bool

    async def messages(self, conn: Connection, *, limit: int, most: int) -> list[Message]:
        """Return messages, of the words of each at most so many characters."""
        params = self._params(limit=limit, most=most)
        return await QUERIES.all(conn, self._name, Message, params)

    async def matching_ids(self, conn: Connection, wanted: TimelineFilter, *, limit: int) -> list[MessageId]:
        """Return which messages are wanted.

        Those that a memory rests on are looked for everywhere; others among the nearest `LOOKED_AT`.
        """
        name = f"{self._name}_{'remembered' if wanted.is_remembered else 'narrowed'}"
        params = self._params(limit=limit, looked_at=MAX_SCANNED) | asdict(wanted)
        return [one.id for one in await QUERIES.all(conn, name, MatchingMessage, params)]

    async def scan_end(self, conn: Connection) -> MessageId | None:
        """Return the last of the nearest `LOOKED_AT` messages; None where there are fewer."""
        found = await QUERIES.first(
            conn, f"{self._name}_reached", MatchingMessage, self._params(looked_at=MAX_SCANNED)
        )
        return None if found is None else found.id

    @property
    def _name(self) -> str:
        return "before" if self.is_before else "after"

    def _params(self, **rest: object) -> dict[str, object]:
        return {"org_id": self.org_id, "room_id": self.room_id} | asdict(self.place) | rest


async def of_conversation(
    conn: Connection,
    org_id: OrgId,
    conversation_id: ConversationId,
    place: Position,
    *,
    limit: int,
    most: int,
) -> list[Message]:
    """Return messages of a conversation just before a place, newest first; of each at most so many characters."""
    params: dict[str, object] = {"org_id": org_id, "conversation_id": conversation_id, "limit": limit}
    return await QUERIES.all(conn, "of_conversation", Message, params | asdict(place) | {"most": most})


async def text_span(
    conn: Connection, org_id: OrgId, message_id: MessageId, *, start: int, most: int
) -> TextSpan | None:
    """Return a stretch of the words of a message; None where it is not visible."""
    params = {"org_id": org_id, "message_id": message_id, "start": start, "most": most}
    return await QUERIES.first(conn, "stretch", TextSpan, params)


async def attachment_names(
    conn: Connection, org_id: OrgId, ids: Sequence[MessageId], *, limit: int
) -> list[AttachmentName]:
    """Return what is attached to messages, of each the first few."""
    params = {"org_id": org_id, "message_ids": list(ids), "limit": limit}
    return await QUERIES.all(conn, "attached", AttachmentName, params)


async def room_headers(conn: Connection, org_id: OrgId, *, limit: int) -> list[RoomHeader]:
    """Return the visible rooms by name, without counts."""
    return await QUERIES.all(conn, "names", RoomHeader, {"org_id": org_id, "limit": limit})


async def rooms(conn: Connection, viewer: Viewer, *, named: str, skip: int, limit: int) -> list[Room]:
    """Return visible rooms with a part of a name, most recently active first, after so many others."""
    name = "rooms_for_operator" if viewer.is_operator else "rooms_for_viewer"
    params = {"org_id": viewer.org_id, "named": named, "skip": skip, "limit": limit}
    return await QUERIES.all(conn, name, Room, params)


async def speaker_counts(conn: Connection, org_id: OrgId, room_id: RoomId) -> tuple[list[SpeakerCount], bool]:
    """Return which accounts spoke in a room, in the order in which they first did; and whether that is all of it.

    Of a room that is too large to be gone through, its oldest and its newest messages tell.
    """
    params: dict[str, object] = {"org_id": org_id, "room_id": room_id, "limit": MAX_SCANNED}
    first = await QUERIES.all(conn, "spoke", SpeakerCount, params)
    if sum(one.message_count for one in first) < MAX_SCANNED:
        return first, True
    last = {one.id: one for one in await QUERIES.all(conn, "spoke_last", SpeakerCount, params)}
    known = [replace(one, last_at=last.pop(one.id, one).last_at) for one in first]
    return [*known, *last.values()], False


async def participant_names(
    conn: Connection, org_id: OrgId, ids: Collection[ParticipantId]
) -> dict[ParticipantId, ParticipantName]:
    """Return what participants are called and whose accounts they are, as far as they are visible."""
    params = {"org_id": org_id, "participant_ids": list(ids)}
    return {one.id: one for one in await QUERIES.all(conn, "named", ParticipantName, params)}


async def versions(
    conn: Connection, org_id: OrgId, ids: Sequence[MessageId], *, limit: int, most: int
) -> list[EarlierVersion]:
    """Return the newest earlier texts of messages, those of each oldest first, each at most so many characters."""
    params = {"org_id": org_id, "message_ids": list(ids), "limit": limit, "most": most}
    return await QUERIES.all(conn, "versions", EarlierVersion, params)


async def whisper_recipients(
    conn: Connection, org_id: OrgId, ids: Sequence[MessageId]
) -> list[WhisperRecipient]:
    """Return to whom whispers were said, as far as they are visible."""
    return await QUERIES.all(conn, "hearers", WhisperRecipient, {"org_id": org_id, "message_ids": list(ids)})


async def message_memories(conn: Connection, org_id: OrgId, ids: Sequence[MessageId]) -> list[MessageMemory]:
    """Return the memories that stand, are visible and rest on messages, those of each newest first."""
    return await QUERIES.all(conn, "remembered", MessageMemory, {"org_id": org_id, "message_ids": list(ids)})


async def assignments(
    conn: Connection, org_id: OrgId, ids: Sequence[MessageId]
) -> dict[MessageId, ConversationId]:
    """Return which conversations messages are in that may lie far apart, as far as these are visible."""
    rows = await QUERIES.all(
        conn, "standing", ConversationAssignment, {"org_id": org_id, "message_ids": list(ids)}
    )
    return {row.message_id: row.conversation_id for row in rows}


async def conversation_titles(
    conn: Connection, org_id: OrgId, ids: Collection[ConversationId]
) -> dict[ConversationId, ConversationTitle]:
    """Return what conversations are called, as far as they are visible."""
    params = {"org_id": org_id, "conversation_ids": list(ids)}
    return (
        {one.id: one for one in await QUERIES.all(conn, "labels", ConversationTitle, params)} if ids else {}
    )


async def conversations_around(
    conn: Connection, org_id: OrgId, room_id: RoomId, held: ConversationTitle, *, limit: int
) -> tuple[list[ConversationTitle], list[ConversationTitle]]:
    """Return the visible conversations of a room that ended just before one, and just after, the nearest first."""
    params: dict[str, object] = {"org_id": org_id, "room_id": room_id, "limit": limit}
    params |= {"last_at": held.last_at, "conversation_id": held.id}
    return (
        await QUERIES.all(conn, "earlier_conversations", ConversationTitle, params),
        await QUERIES.all(conn, "later_conversations", ConversationTitle, params),
    )
