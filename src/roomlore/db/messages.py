"""Messages, their versions, audiences and reply edges."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from roomlore.db import projections
from roomlore.db.queries import ROW_FACTORIES, Connection, Queries, columns
from roomlore.domain.ids import MessageId, OrgId, ParticipantId, RoomId, prefix_range
from roomlore.domain.incoming import MessageKind, ParticipantKind, RoomKind, TimestampPrecision, Visibility
from roomlore.domain.paging import TRUNCATED_LENGTH, BoundedPage, truncated
from roomlore.domain.records import Mention, Message, Reaction, Reply, ReplyMethod

QUERIES = Queries("messages")


class NewMessage(NamedTuple):
    """A message to add, in the order of the columns; structured fields are JSON texts.

    A tuple, because messages are many: it is made several times faster than a dataclass, and sent as it is.
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
    native_order: int
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
class ExistingMessage:
    """The id that a message would have got, had it not been there already."""

    id: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVersion:
    """The current text of a stored message and when it was written, and the earlier ones."""

    id: MessageId
    room_id: RoomId
    external_id: str
    kind: MessageKind
    author_id: ParticipantId
    author_name: str
    body: str
    written_at: datetime
    redacted_at: datetime | None
    #: Whether it was said through us with an id that its speaker stated.
    is_said: bool
    #: Whom a whisper is addressed to.
    audience: Sequence[ParticipantId]
    earlier_at: Sequence[datetime]
    earlier: Sequence[str]
    #: The text that the foreign record of the current version holds, if it holds one.
    source_text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformMessage:
    """A message with what its platform told of it, its room and its author."""

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
    #: As called now; only the operator may know it.
    author_name: str
    author_kind: ParticipantKind
    body: str
    sent_at: datetime
    precision: TimestampPrecision
    native_order: int
    edited_at: datetime | None
    redacted_at: datetime | None
    synthetic_id: bool
    mentions: Sequence[str] | None
    attachments: Sequence[Mapping[str, Any]] | None
    reactions: Sequence[Mapping[str, Any]] | None
    metadata: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformRecipient:
    """Somebody to whom a whisper is addressed, as the platform of its room knows them."""

    account_id: str
    persona: str
    bridged: bool
    name: str
    kind: ParticipantKind


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginalAuthorName:
    """How the author of a stored message was called when it was said."""

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
    """One participant who may read a whisper."""

    message_id: MessageId
    participant_id: ParticipantId


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedReply:
    """An edge as the platform states it."""

    room_id: RoomId
    child_id: MessageId
    parent_external_id: str
    method: ReplyMethod


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomMessage:
    """A message and the room it is in."""

    room_id: RoomId
    message_id: MessageId


def _message(
    *, mentions: Sequence[Mapping[str, Any]], reactions: Sequence[Mapping[str, Any]], **columns: Any
) -> Message:
    """Return a message out of a row, in which what it was told with is JSON."""
    return Message(
        **columns, mentions=_mention_records(mentions), reactions=[_reaction_record(one) for one in reactions]
    )


def _mention_records(found: Sequence[Mapping[str, Any]]) -> list[Mention]:
    return [
        Mention(
            external_id=one["external_id"],
            name=one["name"],
            participant_id=ParticipantId(UUID(one["participant_id"])) if one["participant_id"] else None,
            room_id=RoomId(UUID(one["room_id"])) if one["room_id"] else None,
        )
        for one in found
    ]


def _reaction_record(found: Mapping[str, Any]) -> Reaction:
    count = found["count"]
    is_told = isinstance(count, int) and not isinstance(count, bool) and count >= 0
    return Reaction(
        emoji=found["emoji"], count=count if is_told else found["named"], by=_mention_records(found["by"])
    )


ROW_FACTORIES[Message] = _message


async def make_staging(conn: Connection) -> None:
    """Make the session's own table through which new messages come in."""
    await QUERIES.run(conn, "make_staging", {})


async def add_messages(
    conn: Connection, org_id: OrgId, rows: Sequence[NewMessage], *, received_at: datetime
) -> frozenset[MessageId]:
    """Add messages and return the ids of those left out, because they were there already.

    Until the transaction ends, the functions that work on what was added find it in the session's table.
    """
    params = {"org_id": org_id, "received_at": received_at}
    await QUERIES.copy(conn, "stage_messages", rows)
    if await QUERIES.run(conn, "add_messages", params) == len(rows):
        return frozenset()
    return frozenset(
        row.id for row in await QUERIES.all(conn, "leave_known_messages", ExistingMessage, params)
    )


async def stored_versions(
    conn: Connection, org_id: OrgId, keys: Sequence[tuple[RoomId, str]]
) -> dict[tuple[RoomId, str], StoredVersion]:
    """Return the current text of the stored ones of these (room, external id) pairs."""
    params = {"org_id": org_id, "room_id": [key[0] for key in keys], "external_id": [key[1] for key in keys]}
    rows = await QUERIES.all(conn, "stored_versions", StoredVersion, params)
    return {(row.room_id, row.external_id): row for row in rows}


async def revise_messages(conn: Connection, org_id: OrgId, versions: Sequence[NewVersion]) -> None:
    """Put newer texts in place of the current ones."""
    await QUERIES.run(conn, "revise_messages", {"org_id": org_id, **columns(NewVersion, versions)})


async def add_revisions(conn: Connection, org_id: OrgId, revisions: Sequence[Revision]) -> int:
    """Keep earlier texts and return how many were new."""
    return await QUERIES.run(conn, "add_revisions", {"org_id": org_id, **columns(Revision, revisions)})


async def restore_author_names(conn: Connection, org_id: OrgId, names: Sequence[OriginalAuthorName]) -> None:
    """Put back how authors were called when they said it, where a later version had come first."""
    await QUERIES.run(conn, "restore_author_names", {"org_id": org_id, **columns(OriginalAuthorName, names)})


async def redact_messages(
    conn: Connection, org_id: OrgId, ids: Sequence[MessageId], *, redacted_at: datetime
) -> int:
    """Remove the content and earlier texts of messages; return how many had any left."""
    await drop_revisions(conn, org_id, ids)
    params = {"org_id": org_id, "message_ids": list(ids), "redacted_at": redacted_at}
    return await QUERIES.run(conn, "redact_messages", params)


async def drop_revisions(conn: Connection, org_id: OrgId, ids: Sequence[MessageId]) -> int:
    """Remove the earlier texts of messages; return how many."""
    return await QUERIES.run(conn, "drop_revisions", {"org_id": org_id, "message_ids": list(ids)})


async def add_audiences(conn: Connection, org_id: OrgId, audiences: Sequence[Audience]) -> None:
    """Say who may read these whispers besides their authors."""
    await QUERIES.run(conn, "add_audiences", {"org_id": org_id, **columns(Audience, audiences)})


async def add_replies_of_added(conn: Connection, org_id: OrgId) -> None:
    """Add the edges that the messages just added state; parents that have not arrived are kept by external id."""
    await QUERIES.run(conn, "add_replies_of_added", {"org_id": org_id})


async def resolve_replies(conn: Connection, org_id: OrgId) -> int:
    """Join waiting edges to the messages just added; return how many."""
    resolved = await QUERIES.run(conn, "resolve_replies", {"org_id": org_id})
    if resolved:
        await projections.enqueue_replies_to_added(conn, org_id)
    return resolved


async def add_replies(conn: Connection, org_id: OrgId, replies: Sequence[StatedReply]) -> set[MessageId]:
    """Add the platform's own edges, parents that have not arrived by external id; return which messages got one."""
    params = {"org_id": org_id, **columns(StatedReply, replies)}
    got_one = {row.message_id for row in await QUERIES.all(conn, "add_replies", RoomMessage, params)}
    await projections.enqueue_replies(conn, org_id, got_one)
    return got_one


async def newest_of_rooms(
    conn: Connection, org_id: OrgId, room_ids: Sequence[RoomId]
) -> dict[RoomId, MessageId]:
    """Return the newest message of each of these rooms."""
    params = {"org_id": org_id, "room_ids": list(room_ids)}
    rows = await QUERIES.all(conn, "newest_of_rooms", RoomMessage, params)
    return {row.room_id: row.message_id for row in rows}


async def messages_by_id(
    conn: Connection, org_id: OrgId, ids: Sequence[MessageId], *, most: int | None = None
) -> list[Message]:
    """Return these messages as far as they are visible, in room order; with so many characters of each, or all."""
    params = {"org_id": org_id, "message_ids": list(ids), "most": most}
    return await QUERIES.all(conn, "messages_by_id", Message, params)


async def messages_on_page(conn: Connection, org_id: OrgId, ids: Sequence[MessageId]) -> BoundedPage[Message]:
    """Return the first of these messages, as many as one answer holds, in this order; one that is not visible is not there."""
    return await QUERIES.page(conn, "messages_within", Message, {"org_id": org_id, "message_ids": list(ids)})


async def messages_truncated(conn: Connection, org_id: OrgId, ids: Sequence[MessageId]) -> list[Message]:
    """Return all of these messages that are visible, in room order; of those that one answer does not hold the beginnings.

    Args:
        conn: Reads for the viewer.
        org_id: The viewer's org.
        ids: Those whose words matter most come first.
    """
    whole = await messages_on_page(conn, org_id, ids)
    held = {message.id for message in whole.items}
    rest = [key for key in ids if key not in held] if whole.is_cut else []
    others = await messages_by_id(conn, org_id, rest, most=TRUNCATED_LENGTH + 1) if rest else []
    shortened = [replace(message, body=truncated(message.body)) for message in others]
    return sorted([*whole.items, *shortened], key=lambda message: message.position)


async def messages_before(
    conn: Connection,
    org_id: OrgId,
    room_id: RoomId,
    place: tuple[datetime, int, MessageId],
    *,
    limit: int,
) -> BoundedPage[Message]:
    """Return the messages of a room just before a place, newest first, as many as one answer holds."""
    return await QUERIES.page(
        conn, "messages_before", Message, _page_params(org_id, room_id, place, limit=limit)
    )


async def messages_after(
    conn: Connection, org_id: OrgId, message: Message, *, limit: int
) -> BoundedPage[Message]:
    """Return the messages of the same room just after this one, oldest first, as many as one answer holds."""
    return await QUERIES.page(
        conn, "messages_after", Message, _page_params(org_id, message.room_id, message.position, limit=limit)
    )


async def replies_around(
    conn: Connection, org_id: OrgId, ids: Sequence[MessageId], *, limit: int
) -> list[Reply]:
    """Return resolved edges with one of the messages at either end, most confident first."""
    params = {"org_id": org_id, "message_ids": list(ids), "limit": limit}
    return await QUERIES.all(conn, "replies_around", Reply, params)


async def find_messages(
    conn: Connection, org_id: OrgId, word: str, *, room_id: RoomId | None
) -> list[Message]:
    """Return up to ten visible messages meant by a word: an external id, or else an id or its beginning.

    An id that the viewer stated of its own message means that one, where no message is the platform's by that id.
    """
    params = {"org_id": org_id, "room_id": room_id, "word": word}
    name = "messages_known_as" if room_id is None else "messages_of_room_known_as"
    known = await QUERIES.all(conn, name, Message, params)
    known = known or await QUERIES.all(conn, "own_messages_stated_as", Message, params)
    ids = prefix_range(word)
    if ids is None:
        return known
    low, high = ids
    ours = await QUERIES.all(conn, "messages_beginning_with", Message, params | {"low": low, "high": high})
    return [*known, *(message for message in ours if message not in known)]


async def platform_message(conn: Connection, org_id: OrgId, message_id: MessageId) -> PlatformMessage | None:
    """Return a message with what its platform told of it; None where it is gone or nobody's."""
    params = {"org_id": org_id, "message_id": message_id}
    return await QUERIES.first(conn, "message_as_told", PlatformMessage, params)


async def platform_recipients(
    conn: Connection, org_id: OrgId, message_id: MessageId
) -> list[PlatformRecipient]:
    """Return to whom a whisper is addressed, as its platform knows them."""
    params = {"org_id": org_id, "message_id": message_id}
    return await QUERIES.all(conn, "audience_as_told", PlatformRecipient, params)


def _page_params(
    org_id: OrgId, room_id: RoomId, place: tuple[datetime, int, MessageId], *, limit: int
) -> dict[str, object]:
    sent_at, native_order, message_id = place
    facts: dict[str, object] = {"org_id": org_id, "room_id": room_id, "limit": limit}
    return facts | {"sent_at": sent_at, "native_order": native_order, "message_id": message_id}
