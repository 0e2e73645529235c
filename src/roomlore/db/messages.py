"""Messages, their versions, audiences and replies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from roomlore.db import projections
from roomlore.db.queries import ROW_FACTORIES, Connection, Queries, RowCount
from roomlore.domain.ids import MessageId, OrgId, ParticipantId, RoomId, prefix_range
from roomlore.domain.incoming import (
    IncomingAuthor,
    MessageKind,
    ParticipantKind,
    RoomKind,
    TimestampPrecision,
    Visibility,
)
from roomlore.domain.paging import TRUNCATED_LENGTH, BoundedPage, truncated
from roomlore.domain.records import Mention, Message, Reaction, Reply, ReplyMethod

QUERIES = Queries("messages")
#: A position in a room: (sent_at, sequence, id), comparable.
Position = tuple[datetime, int, MessageId]
#: The order among messages sent at the same time, if only the id is known.
UNKNOWN = 2**63 - 1
#: After every message.
AFTER_ALL: Position = (datetime.max.replace(tzinfo=UTC), 2**63 - 1, MessageId(UUID(int=2**128 - 1)))


class NewMessage(NamedTuple):
    """A message to add, in the order of the columns; structured fields are JSON texts.

    A tuple is made several times faster than a dataclass.
    """

    id: MessageId
    room_id: RoomId
    external_id: str
    kind: MessageKind
    author_id: ParticipantId
    author_name: str
    author_kind: ParticipantKind
    body: str
    sent_at: datetime
    precision: TimestampPrecision
    sequence: int
    edited_at: datetime | None
    redacted_at: datetime | None
    synthetic_id: bool
    mentions: str | None
    attachments: str | None
    reactions: str | None
    metadata: str | None
    raw: str | None
    reply_to: str | None
    thread_root: str | None
    #: Whether it gets a vector.
    to_embed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVersion:
    """The current text of a stored message and its earlier texts."""

    id: MessageId
    room_id: RoomId
    external_id: str
    kind: MessageKind
    author_id: ParticipantId
    author_name: str
    body: str
    written_at: datetime
    redacted_at: datetime | None
    #: Whether the author sent the message through Roomlore with a client id.
    is_said: bool
    audience: Sequence[ParticipantId]
    earlier_at: Sequence[datetime]
    earlier: Sequence[str]
    #: The text of the current version in the platform's record; None if the record has no text.
    source_text: str | None = None
    #: The time of the first version.
    sent_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformMessage:
    """A message as its platform sent it, with its room and its author."""

    id: MessageId
    platform: str
    room_external_id: str
    room_name: str
    room_kind: RoomKind
    visibility: Visibility
    topic: str
    external_id: str
    kind: MessageKind
    account_id: str
    persona: str
    bridged: bool
    #: The current name, which only the operator may know.
    author_name: str
    author_kind: ParticipantKind
    body: str
    sent_at: datetime
    precision: TimestampPrecision
    sequence: int
    edited_at: datetime | None
    redacted_at: datetime | None
    synthetic_id: bool
    mentions: Sequence[str] | None
    attachments: Sequence[Mapping[str, Any]] | None
    reactions: Sequence[Mapping[str, Any]] | None
    metadata: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginalAuthorName:
    """The name that an author had when a message was sent."""

    message_id: MessageId
    author_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVersion:
    """A newer text of a stored message."""

    message_id: MessageId
    body: str
    written_at: datetime
    attachments: str | None
    mentions: str | None
    reactions: str | None
    metadata: str | None
    raw: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """An earlier text of a message."""

    message_id: MessageId
    written_at: datetime
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Audience:
    """A participant who may read a whisper."""

    message_id: MessageId
    participant_id: ParticipantId


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedReply:
    """A reply as the platform states it."""

    room_id: RoomId
    child_id: MessageId
    parent_external_id: str
    method: ReplyMethod


def _message(
    *, mentions: Sequence[Mapping[str, Any]], reactions: Sequence[Mapping[str, Any]], **columns: Any
) -> Message:
    return Message(
        **columns, mentions=_mention_records(mentions), reactions=[_reaction_record(row) for row in reactions]
    )


def _mention_records(rows: Sequence[Mapping[str, Any]]) -> list[Mention]:
    return [
        Mention(
            external_id=row["external_id"],
            name=row["name"],
            participant_id=ParticipantId(UUID(row["participant_id"])) if row["participant_id"] else None,
            room_id=RoomId(UUID(row["room_id"])) if row["room_id"] else None,
        )
        for row in rows
    ]


def _reaction_record(row: Mapping[str, Any]) -> Reaction:
    count = row["count"]
    is_count = isinstance(count, int) and not isinstance(count, bool) and count >= 0
    return Reaction(
        emoji=row["emoji"], count=count if is_count else row["named"], by=_mention_records(row["by"])
    )


ROW_FACTORIES[Message] = _message


@QUERIES.query
async def make_staging(conn: Connection) -> None:
    """Create the temporary table for new messages."""
    ...


async def add_messages(
    conn: Connection, org_id: OrgId, rows: Sequence[NewMessage], *, received_at: datetime
) -> set[MessageId]:
    """Add messages; return the ids of messages that exist already.

    The added messages stay in the temporary table until the transaction ends.
    """
    await QUERIES.copy(conn, "stage_messages", rows)
    if await add_staged(conn, org_id, received_at=received_at) == len(rows):
        return set()
    return await drop_known(conn, org_id)


@QUERIES.query
async def add_staged(conn: Connection, org_id: OrgId, *, received_at: datetime) -> RowCount:
    """Add the messages of the temporary table. Messages that exist stay as they are."""
    ...


@QUERIES.query
async def drop_known(conn: Connection, org_id: OrgId) -> set[MessageId]:
    """Remove the messages that existed already from the temporary table; return their ids."""
    ...


async def stored_versions(
    conn: Connection, org_id: OrgId, keys: Sequence[tuple[RoomId, str]]
) -> dict[tuple[RoomId, str], StoredVersion]:
    """Return the stored texts of messages by their rooms and external ids."""
    rows = await stored_version_rows(conn, org_id, keys)
    return {(row.room_id, row.external_id): row for row in rows}


@QUERIES.query
async def stored_version_rows(
    conn: Connection, org_id: OrgId, keys: Sequence[tuple[RoomId, str]]
) -> list[StoredVersion]:
    """Return the stored texts of messages."""
    ...


@QUERIES.query
async def revise_messages(conn: Connection, org_id: OrgId, versions: Sequence[NewVersion]) -> None:
    """Replace the current texts of messages by newer texts."""
    ...


@QUERIES.query
async def add_revisions(conn: Connection, org_id: OrgId, revisions: Sequence[Revision]) -> RowCount:
    """Store earlier texts; return how many were new."""
    ...


@QUERIES.query
async def restore_author_names(conn: Connection, org_id: OrgId, names: Sequence[OriginalAuthorName]) -> None:
    """Restore the original author names of messages whose later version arrived first."""
    ...


async def redact_messages(
    conn: Connection, org_id: OrgId, ids: Sequence[MessageId], *, redacted_at: datetime
) -> int:
    """Delete the content and earlier texts of messages; return how many of them had not been redacted before."""
    await drop_revisions(conn, org_id, ids)
    return await redact(conn, org_id, ids, redacted_at=redacted_at)


@QUERIES.query
async def redact(
    conn: Connection, org_id: OrgId, ids: Sequence[MessageId], *, redacted_at: datetime
) -> RowCount:
    """Delete the content of messages; their rows stay."""
    ...


@QUERIES.query
async def mark_questions(
    conn: Connection, org_id: OrgId, ids: Sequence[MessageId], *, asking: Sequence[MessageId]
) -> None:
    """Store for each of these messages whether it asks something."""
    ...


@QUERIES.query
async def drop_revisions(conn: Connection, org_id: OrgId, ids: Sequence[MessageId]) -> RowCount:
    """Delete the earlier texts of messages; return how many."""
    ...


@QUERIES.query
async def add_audiences(conn: Connection, org_id: OrgId, audiences: Sequence[Audience]) -> None:
    """Add participants who may read whispers."""
    ...


@QUERIES.query
async def add_replies_of_added(conn: Connection, org_id: OrgId) -> None:
    """Add the replies among the added messages. If a parent has not arrived, its external id is stored."""
    ...


async def resolve_replies(conn: Connection, org_id: OrgId) -> int:
    """Connect waiting replies to the added messages; return how many."""
    resolved = await join_replies(conn, org_id)
    if resolved:
        await projections.enqueue_replies_to_added(conn, org_id)
    return resolved


@QUERIES.query
async def join_replies(conn: Connection, org_id: OrgId) -> RowCount:
    """Set the parents of replies to messages that have just arrived."""
    ...


async def add_replies(conn: Connection, org_id: OrgId, replies: Sequence[StatedReply]) -> set[MessageId]:
    """Add the replies that the platform states; return the messages that are new replies."""
    children = await add_stated_replies(conn, org_id, replies)
    await projections.enqueue_replies(conn, org_id, children)
    return children


@QUERIES.query
async def add_stated_replies(
    conn: Connection, org_id: OrgId, replies: Sequence[StatedReply]
) -> set[MessageId]:
    """Add the replies that the platform states. If a parent has not arrived, its external id is stored."""
    ...


@QUERIES.query
async def newest_of_rooms(
    conn: Connection, org_id: OrgId, room_ids: Sequence[RoomId]
) -> dict[RoomId, MessageId]:
    """Return the newest message of each of these rooms."""
    ...


@QUERIES.query
async def messages_by_id(
    conn: Connection, org_id: OrgId, ids: Sequence[MessageId], *, most: int | None = None
) -> list[Message]:
    """Return the given messages that are visible, in room order, with up to `most` characters of each text."""
    ...


@QUERIES.query
async def messages_on_page(conn: Connection, org_id: OrgId, ids: Sequence[MessageId]) -> BoundedPage[Message]:
    """Return the given messages that are visible, in this order, up to the size of one response."""
    ...


async def messages_truncated(conn: Connection, org_id: OrgId, ids: Sequence[MessageId]) -> list[Message]:
    """Return the given messages that are visible, in room order.

    The first messages have their whole texts, up to the size of one response. The texts of all further messages are
    truncated.
    """
    page = await messages_on_page(conn, org_id, ids)
    complete = {message.id for message in page.items}
    rest = [key for key in ids if key not in complete] if page.is_truncated else []
    others = await messages_by_id(conn, org_id, rest, most=TRUNCATED_LENGTH + 1) if rest else []
    shortened = [replace(message, body=truncated(message.body)) for message in others]
    return sorted([*page.items, *shortened], key=lambda message: message.position)


@QUERIES.query
async def messages_before(
    conn: Connection, org_id: OrgId, room_id: RoomId, place: Position, *, limit: int
) -> BoundedPage[Message]:
    """Return the messages of a room just before a position, newest first, up to the size of one response."""
    ...


@QUERIES.query
async def messages_after(
    conn: Connection, org_id: OrgId, room_id: RoomId, place: Position, *, limit: int
) -> BoundedPage[Message]:
    """Return the messages of a room just after a position, oldest first, up to the size of one response."""
    ...


@QUERIES.query
async def replies_around(
    conn: Connection, org_id: OrgId, ids: Sequence[MessageId], *, limit: int
) -> list[Reply]:
    """Return the replies from and to these messages, most confident first."""
    ...


async def find_messages(
    conn: Connection, org_id: OrgId, word: str, *, room_id: RoomId | None
) -> list[Message]:
    """Return up to ten visible messages by an external id; if there is none, by an id or its beginning.

    A client id of the viewer matches only if the platform has no message with the same id.
    """
    if room_id is None:
        known = await messages_known_as(conn, org_id, word)
    else:
        known = await messages_of_room_known_as(conn, org_id, room_id, word)
    known = known or await own_messages_stated_as(conn, org_id, word, room_id=room_id)
    ids = prefix_range(word)
    if ids is None:
        return known
    matches = await messages_beginning_with(conn, org_id, ids, room_id=room_id)
    return [*known, *(message for message in matches if message not in known)]


@QUERIES.query
async def messages_known_as(conn: Connection, org_id: OrgId, word: str) -> list[Message]:
    """Return messages of any room with this external id."""
    ...


@QUERIES.query
async def messages_of_room_known_as(
    conn: Connection, org_id: OrgId, room_id: RoomId, word: str
) -> list[Message]:
    """Return the message of a room with this external id."""
    ...


@QUERIES.query
async def last_own_time(conn: Connection, org_id: OrgId, room_id: RoomId) -> datetime | None:
    """Return the time of the viewer's last message in a room."""
    ...


@QUERIES.query
async def own_messages_stated_as(
    conn: Connection, org_id: OrgId, word: str, *, room_id: RoomId | None
) -> list[Message]:
    """Return the messages that the viewer sent with this client id."""
    ...


@QUERIES.query
async def messages_beginning_with(
    conn: Connection, org_id: OrgId, ids: tuple[UUID, UUID], *, room_id: RoomId | None
) -> list[Message]:
    """Return messages whose ids are in these ranges."""
    ...


@QUERIES.query
async def platform_message(conn: Connection, org_id: OrgId, message_id: MessageId) -> PlatformMessage | None:
    """Return a message as its platform sent it; None if it was erased."""
    ...


@QUERIES.query
async def platform_recipients(conn: Connection, org_id: OrgId, message_id: MessageId) -> list[IncomingAuthor]:
    """Return the recipients of a whisper, as its platform knows them."""
    ...


def query_text(question: str) -> str:
    """Return a question as the database can store it: without NUL and half surrogate pairs."""
    return question.encode("utf-8", "replace").decode().replace("\0", " ")
