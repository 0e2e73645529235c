"""One incoming message becomes one row, once.

A batch is one transaction: rooms and authors, messages, versions, audiences, reply edges, counts, and the
work that follows from them. Accepting the same records again, in any order and from any number of
writers, changes nothing.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import msgspec

from roomlore.domain.errors import BadInput
from roomlore.domain.ids import MessageId, OrgId, RoomId, uuid7
from roomlore.domain.incoming import IncomingMessage, Skipped
from roomlore.ingest import echoes, gone, people
from roomlore.ingest.resolve import Names, resolve
from roomlore.ingest.versions import (
    OTHER_MESSAGE,
    Change,
    Told,
    compare,
    contradiction,
    tell_apart,
)
from roomlore.store import changes as noted
from roomlore.store import (
    directory,
    erased,
    erasing,
    injections,
    messages,
    readings,
    stated,
    untangling,
    work,
)
from roomlore.store.messages import Audience, FirstName, NewMessage, NewVersion, StatedReply
from roomlore.store.queries import Connection
from roomlore.wishes import hearing
from roomlore.wishes.listening import NOTHING, Listened

#: Quick, and not strict: what is written is clean.
JSON = msgspec.json.Encoder()
#: Characters that one transaction takes: PostgreSQL refuses a statement of a gigabyte.
LARGEST_CHANGE = 200_000_000
#: What a message is known by: room and external id.
Key = tuple[RoomId, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """What became of a batch."""

    #: Ids of messages that were not there before, by (room, external id).
    added: Mapping[Key, MessageId]
    #: Ids of every message of the batch that was not left out, in its order.
    message_ids: Sequence[MessageId]
    room_ids: frozenset[RoomId]
    revised: int
    redacted: int
    unchanged: int
    skipped: Sequence[Skipped]


async def accept(
    conn: Connection,
    org_id: OrgId,
    batch: Sequence[IncomingMessage],
    *,
    received_at: datetime,
    listened: Listened = NOTHING,
) -> Accepted:
    """Store a batch of clean records and the work that follows from it; what was erased stays out.

    Args:
        conn: In a transaction.
        org_id: Whose.
        batch: What was said.
        received_at: When it came in.
        listened: Which of its texts are put like a request of privacy (see `wishes.listening`): what was not listened
            to before the transaction is listened to within it, while others wait for its rooms.

    Raises:
        BadInput: the batch is too large for one transaction.
    """
    # A statement of its own, so that the next one sees what an erasure has just done.
    await erased.keep_erasures_out(conn, org_id)
    staying = await gone.leave_out(conn, org_id, batch, now=received_at)
    accepted = await _accept(conn, org_id, staying.batch, received_at=received_at, listened=listened)
    return replace(accepted, skipped=[*staying.skipped, *accepted.skipped])


async def _accept(
    conn: Connection,
    org_id: OrgId,
    batch: Sequence[IncomingMessage],
    *,
    received_at: datetime,
    listened: Listened,
) -> Accepted:
    if not batch:
        return _accepted([], {}, [], [])
    names = await resolve(conn, org_id, batch)
    await directory.lock_rooms(conn, sorted({names.room(message) for message in batch}))
    keys = [(names.room(message), message.external_id) for message in batch]
    first: dict[Key, IncomingMessage] = {}
    for key, message in zip(keys, batch, strict=True):
        first.setdefault(key, message)
    await echoes.take_in(conn, org_id, first, names)
    added = await _add_messages(conn, org_id, first, names, received_at=received_at)
    fresh = {message_id: first[key] for key, message_id in added.items()}
    again = [
        (key, message)
        for key, message in zip(keys, batch, strict=True)
        if key not in added or message is not first[key]
    ]
    if added:
        # Before anything is compared: a version of a whisper is for the same people.
        await _add_what_hangs_on(conn, org_id, fresh, names)
    ids, changes, left_out = await _compare(conn, org_id, again, names)
    ids.update(added)
    versions = [(ids[key], message) for key, message in again if id(message) not in left_out]
    await _add_replies(conn, org_id, versions, names)
    await _change(conn, org_id, changes, redacted_at=received_at)
    await people.note(conn, org_id, batch, fresh, names=names)
    # After it is known who is in the room, or nobody would be in one that has just been opened.
    if added and await injections.ask_for_added(conn, org_id):
        await work.wake(conn, "inject")
    rooms = {room_id for room_id, _ in keys}
    said = _said_anew(fresh, changes)
    if said:
        await hearing.hear(conn, org_id, said, rooms=rooms, at=received_at, listened=listened)
    if any(change.redact for change in changes):
        await hearing.hear_again(conn, org_id, rooms)
    stored = [ids[key] for key, message in zip(keys, batch, strict=True) if id(message) not in left_out]
    return _accepted(keys, added, stored, changes)


async def _add_messages(
    conn: Connection,
    org_id: OrgId,
    first: Mapping[Key, IncomingMessage],
    names: Names,
    *,
    received_at: datetime,
) -> dict[Key, MessageId]:
    # Every writer inserts in the same order, so that none waits for another in a circle.
    keys = sorted(first, key=_in_order)
    # Ids tell in which order messages were told, whatever the ids of their rooms are.
    ids = {key: MessageId(uuid7()) for key in first}
    rows = [_row(ids[key], key, first[key], names=names, received_at=received_at) for key in keys]
    _check_size(text for row in rows for text in (row.body, row.raw, row.metadata))
    left_out = await messages.add_messages(conn, org_id, rows, received_at=received_at)
    return {key: row.id for key, row in zip(keys, rows, strict=True) if row.id not in left_out}


def _check_size(texts: Iterable[str | None]) -> None:
    size = sum(len(text) for text in texts if text)
    if size > LARGEST_CHANGE:
        raise BadInput("batch", f"{size:,} characters at once, at most {LARGEST_CHANGE:,}; send it in parts")


def _in_order(key: Key) -> tuple[str, str]:
    return (key[0].hex, key[1])


def _row(
    message_id: MessageId, key: Key, message: IncomingMessage, *, names: Names, received_at: datetime
) -> NewMessage:
    return NewMessage(
        id=message_id,
        room_id=key[0],
        external_id=key[1],
        kind=message.kind,
        author_id=names.author(message.platform, message.author),
        author_name=message.author.name,
        author_kind=names.kind(message.platform, message.author),
        body=message.body,
        sent_at=message.sent_at,
        precision=message.precision,
        native_order=message.order,
        edited_at=None if message.deleted else message.edited_at,
        redacted_at=received_at if message.deleted else None,
        synthetic_id=message.synthetic_id,
        mentions=_json(message.mentions),
        attachments=_json(message.attachments),
        reactions=_json(message.reactions),
        metadata=_json(message.metadata),
        raw=_json(message.raw),
        reply_to=message.reply_to or None,
        thread_root=message.thread_root or None,
        to_embed=is_embedded(message),
    )


def _json(value: Any) -> str | None:
    return JSON.encode(value).decode() if value else None


async def _add_what_hangs_on(
    conn: Connection, org_id: OrgId, fresh: Mapping[MessageId, IncomingMessage], names: Names
) -> None:
    """Add audiences, work and edges of messages just added; no later record widens an audience."""
    audiences = [
        Audience(message_id=message_id, participant_id=names.author(message.platform, author))
        for message_id, message in fresh.items()
        for author in message.audience
    ]
    if audiences:
        await messages.add_audiences(conn, org_id, audiences)
    await noted.note_added(conn, org_id)
    await work.enqueue_added(conn, org_id)
    if any(message.reply_to or message.thread_root for message in fresh.values()):
        await messages.add_replies_of_added(conn, org_id)
    if await messages.resolve_replies(conn, org_id):
        await untangling.touch_rooms_of(conn, org_id, fresh)
    moved = await stated.part_replies(conn, org_id) | await stated.join_replies(conn, org_id, set(fresh))
    await _untangle_again(conn, org_id, moved)
    if await untangling.touch_rooms_of_added(conn, org_id):
        await work.wake(conn, "untangle")


async def _add_replies(
    conn: Connection, org_id: OrgId, again: Sequence[tuple[MessageId, IncomingMessage]], names: Names
) -> None:
    """Add the edges that other versions of a message state; the first one to state an edge is believed."""
    replies = [reply for message_id, message in again for reply in _replies(message_id, message, names)]
    if replies:
        added = await messages.add_replies(conn, org_id, replies)
        await stated.join_replies(conn, org_id, added)
        await _untangle_again(conn, org_id, added)


def is_embedded(message: IncomingMessage) -> bool:
    """Return whether a message gets a vector: something said, neither a notice nor injected."""
    return message.kind in {"message", "whisper"} and bool(message.body.strip())


def _replies(message_id: MessageId, message: IncomingMessage, names: Names) -> Iterable[StatedReply]:
    if message.reply_to:
        yield StatedReply(
            room_id=names.room(message),
            child_id=message_id,
            parent_external_id=message.reply_to,
            method="explicit",
        )
    if message.thread_root:
        yield StatedReply(
            room_id=names.room(message),
            child_id=message_id,
            parent_external_id=message.thread_root,
            method="thread",
        )


async def _compare(
    conn: Connection, org_id: OrgId, again: Sequence[tuple[Key, IncomingMessage]], names: Names
) -> tuple[dict[Key, MessageId], list[Change], set[int]]:
    """Compare records that came again with what is stored; return ids, what differs, and which are left out.

    Those that are left out are told by what `id` says of them: two may be equal.
    """
    if not again:
        return {}, [], set()
    told: dict[Key, list[Told]] = defaultdict(list)
    for key, message in again:
        told[key].append(names.told(message))
    known = await messages.stored_versions(conn, org_id, sorted(told, key=_in_order))
    who = {one.author_id for ones in told.values() for one in ones}
    who.update(*(one.audience for ones in told.values() for one in ones))
    who.update(*((version.author_id, *version.audience) for version in known.values()))
    persons = await stated.persons(conn, org_id, who)
    changes: list[Change] = []
    left_out: set[int] = set()
    for key, ones in told.items():
        versions = tell_apart(known[key], ones, persons)
        change = compare(known[key], versions.own)
        skipped = [contradiction(message, OTHER_MESSAGE) for message in versions.left_out]
        changes.append(replace(change, skipped=[*change.skipped, *skipped]))
        left_out.update(map(id, versions.left_out))
    return {key: version.id for key, version in known.items()}, changes, left_out


async def _change(
    conn: Connection, org_id: OrgId, changes: Sequence[Change], *, redacted_at: datetime
) -> None:
    # First, so that no worker writes meanwhile what it made of the old versions.
    otherwise = [change.message_id for change in changes if _reads_otherwise(change)]
    await _untangle_again(conn, org_id, otherwise)
    if otherwise:
        await readings.drop_showing(conn, org_id, otherwise)
    redacted = [change.message_id for change in changes if change.redact]
    if redacted:
        await redact(conn, org_id, redacted, redacted_at=redacted_at)
    named = [(change.message_id, change.author_name) for change in changes if change.author_name is not None]
    if named:
        await messages.restore_author_names(
            conn, org_id, [FirstName(message_id=message_id, author_name=name) for message_id, name in named]
        )
        await work.embed_anew(conn, org_id, [message_id for message_id, _ in named])
    revisions = [revision for change in changes for revision in change.revisions]
    if revisions:
        await messages.add_revisions(conn, org_id, revisions)
    revised = [(change.message_id, change.current) for change in changes if change.current is not None]
    if revised:
        versions = [_version(*pair) for pair in revised]
        _check_size(text for version in versions for text in (version.body, version.raw, version.metadata))
        await messages.revise_messages(conn, org_id, versions)
        await _embed_again(conn, org_id, revised)
        # What is left of listening to what they said before.
        await work.forget(conn, org_id, "listen", [message_id for message_id, _ in revised])
    read_otherwise = {message_id for message_id, _ in (*named, *revised)} - set(redacted)
    await noted.note(conn, org_id, "message.revised", read_otherwise)


def _said_anew(fresh: Mapping[MessageId, IncomingMessage], changes: Sequence[Change]) -> dict[MessageId, str]:
    """Return what messages say that are new or have another text: in it requests may be heard."""
    bodies = {message_id: message.body for message_id, message in fresh.items()}
    return bodies | {
        change.message_id: change.current.body for change in changes if change.current is not None
    }


def _reads_otherwise(change: Change) -> bool:
    return change.redact or change.current is not None or change.author_name is not None


async def _untangle_again(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> None:
    if ids and await untangling.touch_rooms_of(conn, org_id, ids):
        await work.wake(conn, "untangle")


async def _embed_again(
    conn: Connection, org_id: OrgId, revised: Sequence[tuple[MessageId, IncomingMessage]]
) -> None:
    """Put new work in place of old, then drop the vectors.

    In this order: a worker that is just writing a vector holds the work's row, so that the drop comes after.
    """
    silent = [message_id for message_id, message in revised if not is_embedded(message)]
    if silent:
        await work.forget(conn, org_id, "embed", silent)
    to_embed = [message_id for message_id, message in revised if is_embedded(message)]
    if to_embed:
        await work.enqueue(conn, org_id, "embed", to_embed)
    await work.drop_embeddings(conn, org_id, [message_id for message_id, _ in revised])


def _version(message_id: MessageId, message: IncomingMessage) -> NewVersion:
    return NewVersion(
        message_id=message_id,
        body=message.body,
        written_at=message.edited_at or message.sent_at,
        attachments=_json(message.attachments),
        mentions=_json(message.mentions),
        reactions=_json(message.reactions),
        metadata=_json(message.metadata),
        raw=_json(message.raw),
    )


async def redact(conn: Connection, org_id: OrgId, ids: Sequence[MessageId], *, redacted_at: datetime) -> int:
    """Remove the content of messages and everything derived from it; return how many had any left."""
    await erasing.drop_derived(conn, org_id, ids)
    count = await messages.redact_messages(conn, org_id, ids, redacted_at=redacted_at)
    if count:
        await noted.note(conn, org_id, "message.redacted", ids)
    return count


def _accepted(
    keys: Sequence[Key],
    added: Mapping[Key, MessageId],
    stored: Sequence[MessageId],
    changes: Sequence[Change],
) -> Accepted:
    return Accepted(
        added=added,
        message_ids=stored,
        room_ids=frozenset(key[0] for key in keys),
        revised=sum(change.current is not None for change in changes),
        redacted=sum(change.redact for change in changes),
        unchanged=sum(change.nothing for change in changes),
        skipped=[skipped for change in changes for skipped in change.skipped],
    )
