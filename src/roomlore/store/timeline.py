"""A room as its page shows it: a window of what was said, and what hangs on each message of it."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from uuid import UUID

from roomlore.domain.ids import ConversationId, MemoryId, MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import ParticipantKind, RoomKind, Visibility
from roomlore.domain.names import called_room
from roomlore.domain.records import MemoryKind, Message, Room, Viewer
from roomlore.store.conversations import Placement
from roomlore.store.queries import Connection, Queries

QUERIES = Queries("timeline")
LAST = UUID(int=2**128 - 1)
FIRST = UUID(int=0)
LARGEST = 2**63 - 1
#: Messages of a room that are gone through to tell who spoke in it.
LOOKED_AT = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
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
    def called(self) -> str:
        """What it is called among all rooms."""
        return called_room(self.workspace, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which messages of a room are wanted."""

    #: None: anybody's.
    author_ids: Sequence[ParticipantId] | None = None
    #: None: of whatever kind.
    author_kinds: Sequence[ParticipantKind] | None = None
    #: Only what a memory rests on.
    is_remembered: bool = False

    @property
    def is_everything(self) -> bool:
        """Whether nothing is left out."""
        return self.author_ids is None and self.author_kinds is None and not self.is_remembered


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A place in the order of a room, at a message or between two."""

    sent_at: datetime
    native_order: int
    message_id: UUID


#: After everything.
END = Position(sent_at=datetime.max.replace(tzinfo=UTC), native_order=LARGEST, message_id=LAST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoke:
    """How much an account said in a room, and when."""

    id: ParticipantId
    message_count: int
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What a participant is called, and whose account it is."""

    id: ParticipantId
    name: str
    kind: ParticipantKind
    person_id: UUID
    is_bridged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """An earlier text of a message."""

    message_id: MessageId
    written_at: datetime
    #: Its beginning.
    body: str
    is_cut: bool
    #: How many earlier texts there are of the message, told or not.
    held: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hearer:
    """Somebody to whom a whisper was said."""

    message_id: MessageId
    id: ParticipantId
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """What is attached to a message, as its platform names it; never its content."""

    message_id: MessageId
    name: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A stretch of the words of a message, and how long all of them are."""

    text: str
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A message that is wanted."""

    id: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """A memory that rests on a message."""

    message_id: MessageId
    id: MemoryId
    title: str
    content: str
    kind: MemoryKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Titled:
    """What a conversation is called, and when it was."""

    id: ConversationId
    label: str
    opened_at: datetime
    last_at: datetime


def at(message: Message) -> Position:
    """Return the place of a message."""
    return Position(sent_at=message.sent_at, native_order=message.native_order, message_id=message.id)


def just_before(when: datetime) -> Position:
    """Return the place before everything said at a time."""
    return Position(sent_at=when, native_order=-LARGEST, message_id=FIRST)


async def room(conn: Connection, org_id: OrgId, room_id: RoomId) -> Place | None:
    """Return a room; None where it is not visible."""
    return await QUERIES.first(conn, "room", Place, {"org_id": org_id, "room_id": room_id})


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of a place in a room: what stands just before it, newest first, or just after it, oldest first."""

    org_id: OrgId
    room_id: RoomId
    place: Position
    is_before: bool

    async def messages(self, conn: Connection, *, limit: int, most: int) -> list[Message]:
        """Return messages, of the words of each at most so many characters."""
        params = self._params(limit=limit, most=most)
        return await QUERIES.all(conn, self._name, Message, params)

    async def kept(self, conn: Connection, wanted: Wanted, *, limit: int) -> list[MessageId]:
        """Return which messages are wanted.

        Those that a memory rests on are looked for everywhere; others among the nearest `LOOKED_AT`.
        """
        name = f"{self._name}_{'remembered' if wanted.is_remembered else 'narrowed'}"
        params = self._params(limit=limit, looked_at=LOOKED_AT) | asdict(wanted)
        return [one.id for one in await QUERIES.all(conn, name, Kept, params)]

    async def reached(self, conn: Connection) -> MessageId | None:
        """Return the last of the nearest `LOOKED_AT` messages; None where there are fewer."""
        found = await QUERIES.first(conn, f"{self._name}_reached", Kept, self._params(looked_at=LOOKED_AT))
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


async def stretch(
    conn: Connection, org_id: OrgId, message_id: MessageId, *, start: int, most: int
) -> Stretch | None:
    """Return a stretch of the words of a message; None where it is not visible."""
    params = {"org_id": org_id, "message_id": message_id, "start": start, "most": most}
    return await QUERIES.first(conn, "stretch", Stretch, params)


async def attached(
    conn: Connection, org_id: OrgId, ids: Sequence[MessageId], *, limit: int
) -> list[Attached]:
    """Return what is attached to messages, of each the first few."""
    params = {"org_id": org_id, "message_ids": list(ids), "limit": limit}
    return await QUERIES.all(conn, "attached", Attached, params)


async def names(conn: Connection, org_id: OrgId, *, limit: int) -> list[Place]:
    """Return the visible rooms by name, without counts."""
    return await QUERIES.all(conn, "names", Place, {"org_id": org_id, "limit": limit})


async def rooms(conn: Connection, viewer: Viewer, *, named: str, skip: int, limit: int) -> list[Room]:
    """Return visible rooms with a part of a name, most recently active first, after so many others."""
    name = "rooms_for_operator" if viewer.is_operator else "rooms_for_viewer"
    params = {"org_id": viewer.org_id, "named": named, "skip": skip, "limit": limit}
    return await QUERIES.all(conn, name, Room, params)


async def spoke(conn: Connection, org_id: OrgId, room_id: RoomId) -> tuple[list[Spoke], bool]:
    """Return which accounts spoke in a room, in the order in which they first did; and whether that is all of it.

    Of a room that is too large to be gone through, its oldest and its newest messages tell.
    """
    params: dict[str, object] = {"org_id": org_id, "room_id": room_id, "limit": LOOKED_AT}
    first = await QUERIES.all(conn, "spoke", Spoke, params)
    if sum(one.message_count for one in first) < LOOKED_AT:
        return first, True
    last = {one.id: one for one in await QUERIES.all(conn, "spoke_last", Spoke, params)}
    known = [replace(one, last_at=last.pop(one.id, one).last_at) for one in first]
    return [*known, *last.values()], False


async def named(
    conn: Connection, org_id: OrgId, ids: Collection[ParticipantId]
) -> dict[ParticipantId, Named]:
    """Return what participants are called and whose accounts they are, as far as they are visible."""
    params = {"org_id": org_id, "participant_ids": list(ids)}
    return {one.id: one for one in await QUERIES.all(conn, "named", Named, params)}


async def versions(
    conn: Connection, org_id: OrgId, ids: Sequence[MessageId], *, limit: int, most: int
) -> list[Version]:
    """Return the newest earlier texts of messages, those of each oldest first, each at most so many characters."""
    params = {"org_id": org_id, "message_ids": list(ids), "limit": limit, "most": most}
    return await QUERIES.all(conn, "versions", Version, params)


async def hearers(conn: Connection, org_id: OrgId, ids: Sequence[MessageId]) -> list[Hearer]:
    """Return to whom whispers were said, as far as they are visible."""
    return await QUERIES.all(conn, "hearers", Hearer, {"org_id": org_id, "message_ids": list(ids)})


async def remembered(conn: Connection, org_id: OrgId, ids: Sequence[MessageId]) -> list[Remembered]:
    """Return the memories that stand, are visible and rest on messages, those of each newest first."""
    return await QUERIES.all(conn, "remembered", Remembered, {"org_id": org_id, "message_ids": list(ids)})


async def standing(
    conn: Connection, org_id: OrgId, ids: Sequence[MessageId]
) -> dict[MessageId, ConversationId]:
    """Return which conversations messages are in that may lie far apart, as far as these are visible."""
    rows = await QUERIES.all(conn, "standing", Placement, {"org_id": org_id, "message_ids": list(ids)})
    return {row.message_id: row.conversation_id for row in rows}


async def labels(
    conn: Connection, org_id: OrgId, ids: Collection[ConversationId]
) -> dict[ConversationId, Titled]:
    """Return what conversations are called, as far as they are visible."""
    params = {"org_id": org_id, "conversation_ids": list(ids)}
    return {one.id: one for one in await QUERIES.all(conn, "labels", Titled, params)} if ids else {}


async def conversations_around(
    conn: Connection, org_id: OrgId, room_id: RoomId, held: Titled, *, limit: int
) -> tuple[list[Titled], list[Titled]]:
    """Return the visible conversations of a room that ended just before one, and just after, the nearest first."""
    params: dict[str, object] = {"org_id": org_id, "room_id": room_id, "limit": limit}
    params |= {"last_at": held.last_at, "conversation_id": held.id}
    return (
        await QUERIES.all(conn, "earlier_conversations", Titled, params),
        await QUERIES.all(conn, "later_conversations", Titled, params),
    )
