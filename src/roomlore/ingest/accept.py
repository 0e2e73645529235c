"""Turns each incoming message into one row, once.

A batch is one transaction: rooms and authors, messages, versions, audiences, reply edges, counts, and the work that
follows from them. Accepting the same records again, in any order and from any number of writers, changes nothing.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import msgspec

from roomlore.db import (
    client_ids,
    directory,
    disentanglement,
    erasure,
    erasure_guard,
    injections,
    llm_calls,
    messages,
    work_queue,
)
from roomlore.db import outbox as noted
from roomlore.db.messages import Audience, NewMessage, NewVersion, OriginalAuthorName, StatedReply
from roomlore.db.queries import Connection
from roomlore.domain.errors import BadInput
from roomlore.domain.ids import MessageId, OrgId, RoomId, uuid7
from roomlore.domain.incoming import IncomingMessage, SkippedRecord
from roomlore.domain.records import ReplyMethod
from roomlore.ingest import erasure_filter, participants
from roomlore.ingest.resolve import ResolvedNames, resolve
from roomlore.ingest.versions import (
    OTHER_MESSAGE,
    AttributedMessage,
    MessageChange,
    compare,
    is_version,
    match_versions,
    skipped_conflict,
)
from roomlore.privacy import enforcement
from roomlore.privacy.screening import NOTHING_SCREENED, Screened


async def adopt_platform_ids(
    conn: Connection, org_id: OrgId, first: Mapping[tuple[RoomId, str], IncomingMessage], names: ResolvedNames
) -> None:
    """Adopt the platform's ids for messages that were sent through Roomlore.

    A message gets an id if `first` holds the platform's copy of the message under this id.
    """
    said = await client_ids.unmatched(conn, org_id, first)
    if not said:
        return
    told = {one.id: names.attributed(first[one.room_id, one.stated_id]) for one in said}
    who = {who for one in told.values() for who in (one.author_id, *one.audience)}
    who.update(*((one.author_id, *one.audience) for one in said))
    persons = await client_ids.persons_of_accounts(conn, org_id, who)
    same: dict[tuple[RoomId, str], MessageId] = {}
    for one in said:
        if is_version(one, told[one.id], persons):
            # Two accounts of one person may state the same client id for one message of the platform.
            same.setdefault((one.room_id, one.stated_id), one.id)
    if same:
        await client_ids.adopt_platform_ids(conn, org_id, list(same.values()))
        await noted.append(conn, org_id, "message.revised", list(same.values()))


#: A fast constructor without checks, because the input is already clean.
JSON = msgspec.json.Encoder()
#: The maximum number of characters per transaction, because PostgreSQL refuses a statement of one gigabyte.
MAX_CHANGE_BYTES = 200_000_000
#: Room and external id of a message.
Key = tuple[RoomId, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestResult:
    """The result of a batch."""

    #: Ids of new messages by (room, external id).
    added: Mapping[Key, MessageId]
    #: Ids of all accepted messages of the batch, in order.
    message_ids: Sequence[MessageId]
    room_ids: frozenset[RoomId]
    revised: int
    redacted: int
    unchanged: int
    skipped: Sequence[SkippedRecord]


async def accept(
    conn: Connection,
    org_id: OrgId,
    batch: Sequence[IncomingMessage],
    *,
    received_at: datetime,
    listened: Screened = NOTHING_SCREENED,
) -> IngestResult:
    """Store a batch of clean records and enqueue the follow-up work; reject erased content.

    `listened` contains earlier screening results. Texts without a result are screened inside the transaction, while
    other writers wait for its rooms. Raises BadInput if the batch is too large for one transaction.
    """
    # This is a separate statement, so that the next statement sees finished erasures.
    await erasure_guard.lock_shared(conn, org_id)
    staying, skipped = await erasure_filter.reject_erased(conn, org_id, batch, now=received_at)
    accepted = await _accept(conn, org_id, staying, received_at=received_at, listened=listened)
    return replace(accepted, skipped=[*skipped, *accepted.skipped])


async def _accept(
    conn: Connection,
    org_id: OrgId,
    batch: Sequence[IncomingMessage],
    *,
    received_at: datetime,
    listened: Screened,
) -> IngestResult:
    if not batch:
        return _result([], {}, [], [])
    names = await resolve(conn, org_id, batch)
    await directory.lock_rooms(conn, sorted({names.room(message) for message in batch}))
    keys = [(names.room(message), message.external_id) for message in batch]
    first: dict[Key, IncomingMessage] = {}
    for key, message in zip(keys, batch, strict=True):
        first.setdefault(key, message)
    await adopt_platform_ids(conn, org_id, first, names)
    added = await _add_messages(conn, org_id, first, names, received_at=received_at)
    fresh = {message_id: first[key] for key, message_id in added.items()}
    again = [
        (key, message)
        for key, message in zip(keys, batch, strict=True)
        if key not in added or message is not first[key]
    ]
    if added:
        # This comes before the comparison, because versions of a whisper need the whisper's audience.
        await _add_dependents(conn, org_id, fresh, names)
    ids, changes, left_out = await _compare(conn, org_id, again, names)
    ids.update(added)
    versions = [(ids[key], message) for key, message in again if id(message) not in left_out]
    await _add_replies(conn, org_id, versions, names)
    await _change(conn, org_id, changes, redacted_at=received_at)
    await participants.update_participants(conn, org_id, batch, fresh, names=names)
    # This comes after memberships are stored. Before that, a new room seems to have no members.
    if added and await injections.enqueue_added(conn, org_id):
        await work_queue.wake(conn, "inject")
    rooms = {room_id for room_id, _ in keys}
    new_texts = _new_texts(fresh, changes)
    if new_texts:
        await enforcement.apply(conn, org_id, new_texts, rooms=rooms, at=received_at, screened=listened)
    if any(change.is_redacted for change in changes):
        await enforcement.reapply(conn, org_id, rooms)
    stored = [ids[key] for key, message in zip(keys, batch, strict=True) if id(message) not in left_out]
    return _result(keys, added, stored, changes)


async def _add_messages(
    conn: Connection,
    org_id: OrgId,
    first: Mapping[Key, IncomingMessage],
    names: ResolvedNames,
    *,
    received_at: datetime,
) -> dict[Key, MessageId]:
    # All writers insert in the same order, which prevents deadlocks.
    keys = sorted(first, key=_message_order)
    # Ids follow the order of the messages, not the order of the room ids.
    ids = {key: MessageId(uuid7()) for key in first}
    rows = [_row(ids[key], key, first[key], names=names, received_at=received_at) for key in keys]
    _check_size(text for row in rows for text in (row.body, row.raw, row.metadata))
    left_out = await messages.add_messages(conn, org_id, rows, received_at=received_at)
    return {key: row.id for key, row in zip(keys, rows, strict=True) if row.id not in left_out}


def _check_size(texts: Iterable[str | None]) -> None:
    size = sum(len(text) for text in texts if text)
    if size > MAX_CHANGE_BYTES:
        raise BadInput(
            "batch", f"{size:,} characters at once, at most {MAX_CHANGE_BYTES:,}; send it in parts"
        )


def _message_order(key: Key) -> tuple[str, str]:
    return (key[0].hex, key[1])


def _row(
    message_id: MessageId, key: Key, message: IncomingMessage, *, names: ResolvedNames, received_at: datetime
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
        sequence=message.order,
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
        to_embed=needs_embedding(message),
    )


def _json(value: Any) -> str | None:
    return JSON.encode(value).decode() if value else None


async def _add_dependents(
    conn: Connection, org_id: OrgId, fresh: Mapping[MessageId, IncomingMessage], names: ResolvedNames
) -> None:
    """Add audiences, tasks and edges of new messages. A later record never widens an audience."""
    audiences = [
        Audience(message_id=message_id, participant_id=names.author(message.platform, author))
        for message_id, message in fresh.items()
        for author in message.audience
    ]
    if audiences:
        await messages.add_audiences(conn, org_id, audiences)
    await noted.append_added(conn, org_id)
    await work_queue.enqueue_added(conn, org_id)
    if any(message.reply_to or message.thread_root for message in fresh.values()):
        await messages.add_replies_of_added(conn, org_id)
    if await messages.resolve_replies(conn, org_id):
        await disentanglement.mark_messages_dirty(conn, org_id, fresh)
    moved = await client_ids.relink_replies(conn, org_id) | await client_ids.link_replies(
        conn, org_id, set(fresh)
    )
    await _mark_dirty(conn, org_id, moved)
    if await disentanglement.mark_added_dirty(conn, org_id):
        await work_queue.wake(conn, "disentangle")


async def _add_replies(
    conn: Connection, org_id: OrgId, again: Sequence[tuple[MessageId, IncomingMessage]], names: ResolvedNames
) -> None:
    """Add reply edges that later versions state. An edge that exists stays unchanged."""
    replies = [reply for message_id, message in again for reply in _replies(message_id, message, names)]
    if replies:
        added = await messages.add_replies(conn, org_id, replies)
        await client_ids.link_replies(conn, org_id, added)
        await _mark_dirty(conn, org_id, added)


def needs_embedding(message: IncomingMessage) -> bool:
    """Return whether a message gets a vector. System messages and injections get none."""
    return message.kind in {"message", "whisper"} and bool(message.body.strip())


def _replies(message_id: MessageId, message: IncomingMessage, names: ResolvedNames) -> Iterable[StatedReply]:
    stated: dict[ReplyMethod, str | None] = {"explicit": message.reply_to, "thread": message.thread_root}
    for method, parent in stated.items():
        if parent:
            yield StatedReply(
                room_id=names.room(message), child_id=message_id, parent_external_id=parent, method=method
            )


async def _compare(
    conn: Connection, org_id: OrgId, again: Sequence[tuple[Key, IncomingMessage]], names: ResolvedNames
) -> tuple[dict[Key, MessageId], list[MessageChange], set[int]]:
    """Compare later versions with the stored versions. Return ids, changes, and the Python `id` of skipped records."""
    if not again:
        return {}, [], set()
    again_by_key: dict[Key, list[AttributedMessage]] = defaultdict(list)
    for key, message in again:
        again_by_key[key].append(names.attributed(message))
    known = await messages.stored_versions(conn, org_id, sorted(again_by_key, key=_message_order))
    participant_ids = {
        each.author_id for versions_of_key in again_by_key.values() for each in versions_of_key
    }
    participant_ids.update(
        *(each.audience for versions_of_key in again_by_key.values() for each in versions_of_key)
    )
    participant_ids.update(*((version.author_id, *version.audience) for version in known.values()))
    persons = await client_ids.persons_of_accounts(conn, org_id, participant_ids)
    changes: list[MessageChange] = []
    left_out: set[int] = set()
    for key, versions_of_key in again_by_key.items():
        versions = match_versions(known[key], versions_of_key, persons)
        change = compare(known[key], versions.own)
        skipped = [skipped_conflict(message, OTHER_MESSAGE) for message in versions.left_out]
        changes.append(replace(change, skipped=[*change.skipped, *skipped]))
        left_out.update(map(id, versions.left_out))
    return {key: version.id for key, version in known.items()}, changes, left_out


async def _change(
    conn: Connection, org_id: OrgId, changes: Sequence[MessageChange], *, redacted_at: datetime
) -> None:
    # This comes first, so that no worker writes results for the old versions.
    changed = [change.message_id for change in changes if _has_new_text(change)]
    await _mark_dirty(conn, org_id, changed)
    if changed:
        await llm_calls.drop_with_messages(conn, org_id, changed)
    redacted = [change.message_id for change in changes if change.is_redacted]
    if redacted:
        await redact(conn, org_id, redacted, redacted_at=redacted_at)
    renamed = [
        (change.message_id, change.author_name) for change in changes if change.author_name is not None
    ]
    if renamed:
        await messages.restore_author_names(
            conn,
            org_id,
            [OriginalAuthorName(message_id=message_id, author_name=name) for message_id, name in renamed],
        )
        await work_queue.reembed(conn, org_id, [message_id for message_id, _ in renamed])
    revisions = [revision for change in changes for revision in change.revisions]
    if revisions:
        await messages.add_revisions(conn, org_id, revisions)
    revised = [(change.message_id, change.current) for change in changes if change.current is not None]
    if revised:
        versions = [_version(*pair) for pair in revised]
        _check_size(text for version in versions for text in (version.body, version.raw, version.metadata))
        await messages.revise_messages(conn, org_id, versions)
        await _enqueue_revised(conn, org_id, revised)
    visibly_changed = {message_id for message_id, _ in (*renamed, *revised)} - set(redacted)
    await noted.append(conn, org_id, "message.revised", visibly_changed)


def _new_texts(
    fresh: Mapping[MessageId, IncomingMessage], changes: Sequence[MessageChange]
) -> dict[MessageId, str]:
    """Return messages with a new text, which may state privacy requests."""
    bodies = {message_id: message.body for message_id, message in fresh.items()}
    return bodies | {
        change.message_id: change.current.body for change in changes if change.current is not None
    }


def _has_new_text(change: MessageChange) -> bool:
    return change.is_redacted or change.current is not None or change.author_name is not None


async def _mark_dirty(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> None:
    if ids and await disentanglement.mark_messages_dirty(conn, org_id, ids):
        await work_queue.wake(conn, "disentangle")


async def _enqueue_revised(
    conn: Connection, org_id: OrgId, revised: Sequence[tuple[MessageId, IncomingMessage]]
) -> None:
    # Tasks come first, then vectors: a worker that is writing a vector holds the row of its task.
    silent = [message_id for message_id, message in revised if not needs_embedding(message)]
    to_embed = [message_id for message_id, message in revised if needs_embedding(message)]
    for queue in ("embed", "read"):
        if silent:
            await work_queue.drop(conn, org_id, queue, silent)
        if to_embed:
            await work_queue.enqueue(conn, org_id, queue, to_embed)
    await work_queue.drop_embeddings(conn, org_id, [message_id for message_id, _ in revised])


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
    """Remove the content of messages and everything derived from it; return how many messages had content."""
    await erasure.drop_derived(conn, org_id, ids)
    count = await messages.redact_messages(conn, org_id, ids, redacted_at=redacted_at)
    if count:
        await noted.append(conn, org_id, "message.redacted", ids)
    return count


def _result(
    keys: Sequence[Key],
    added: Mapping[Key, MessageId],
    stored: Sequence[MessageId],
    changes: Sequence[MessageChange],
) -> IngestResult:
    return IngestResult(
        added=added,
        message_ids=stored,
        room_ids=frozenset(key[0] for key in keys),
        revised=sum(change.current is not None for change in changes),
        redacted=sum(change.is_redacted for change in changes),
        unchanged=sum(change.is_empty for change in changes),
        skipped=[skipped for change in changes for skipped in change.skipped],
    )
