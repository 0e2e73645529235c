"""The outbox: changes are appended in their transaction and read in the order of transactions.

A reader has a cursor, (xid, id), and reads the changes after it. A change is read only when no running transaction can
append another change before it, so readers miss nothing. Changes hold ids; visibility is checked when they are
delivered.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from roomlore.db import projections
from roomlore.db.queries import Connection, Queries, RowCount
from roomlore.domain.ids import ConversationId, MemoryId, MessageId, OrgId, RoomId

QUERIES = Queries("outbox")

ChangeKind = Literal[
    "message.added",
    "message.revised",
    "message.redacted",
    "message.erased",
    "memory.added",
    "memory.changed",
    "conversation.changed",
]
#: The channel of notifications; their payload is the id of the org.
CHANNEL = "roomlore_changes"
#: The maximum number of subjects in one change. A change with more subjects is split into several.
MAX_CHANGES = 1_000
#: An id that is smaller than every other id.
MIN_ID = UUID(int=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of one kind in one transaction and room."""

    id: UUID
    #: The id of the transaction, as text: it is too large for a JavaScript number.
    xid: str
    #: None if a memory has no sources.
    room_id: RoomId | None
    kind: ChangeKind
    subject_ids: Sequence[UUID]
    noted_at: datetime
    #: Whether no transaction can append another change before this one.
    is_settled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """How far a reader has read."""

    xid: str = "0"
    id: UUID = MIN_ID
    #: A snapshot. Transactions that had ended at its time are skipped.
    seen: str | None = None
    #: Changes before this id are skipped.
    since: UUID | None = None


async def append_added(conn: Connection, org_id: OrgId) -> None:
    """Append the added messages, and enqueue them for projections."""
    await projections.enqueue_added(conn, org_id)
    await append_added_messages(conn, org_id, most=MAX_CHANGES)


@QUERIES.query
async def append_added_messages(conn: Connection, org_id: OrgId, *, most: int) -> None:
    """Append the added messages and notify readers when the transaction commits."""
    ...


async def append(
    conn: Connection, org_id: OrgId, kind: ChangeKind, ids: Collection[MessageId | MemoryId | ConversationId]
) -> None:
    """Append a change of messages, memories or conversations to the outbox, and enqueue them for projections."""
    if not ids:
        return
    enqueue = projections.enqueue_replies if kind.startswith("message.") else projections.enqueue_nodes
    await enqueue(conn, org_id, ids)
    await append_changes(conn, org_id, kind, ids, most=MAX_CHANGES)


@QUERIES.query
async def append_changes(
    conn: Connection,
    org_id: OrgId,
    kind: ChangeKind,
    ids: Collection[MessageId | MemoryId | ConversationId],
    *,
    most: int,
) -> None:
    """Append a change of subjects that exist, and notify readers when the transaction commits."""
    ...


@QUERIES.query
async def current_cursor(conn: Connection) -> Cursor:
    """Return a cursor after the changes of all transactions that have ended."""
    ...


@QUERIES.query
async def cursor_since(conn: Connection, org_id: OrgId, change_id: UUID) -> Cursor:
    """Return a cursor before all changes that were appended since an id was created.

    Changes that running transactions may still append also come after the cursor.
    """
    ...


@QUERIES.query
async def siblings(conn: Connection, org_id: OrgId, change_id: UUID) -> list[Change]:
    """Return a settled change and the other changes of its transaction that have the same kind and room, in order."""
    ...


@QUERIES.query
async def read_after(
    conn: Connection, org_id: OrgId, cursor: Cursor, *, room_id: RoomId | None = None, limit: int
) -> list[Change]:
    """Return up to `limit` changes after a cursor, in order. For the operator.

    The result may be longer than `limit`, because the changes of one transaction are never split.
    """
    ...


@QUERIES.query
async def visible_ids(conn: Connection, org_id: OrgId, ids: Collection[UUID]) -> set[UUID]:
    """Return the given messages, memories and conversations that the viewer may see."""
    ...


async def remove_messages(conn: Connection, org_id: OrgId, ids: Sequence[MessageId]) -> None:
    """Remove messages, and the conversations deleted with them, from changes and projections.

    Call this before the rows are deleted, because the rows name the rooms.
    """
    await projections.enqueue(conn, org_id, ids)
    await remove_ids(conn, org_id, ids, what="message", message_ids=ids)
    if emptied := await gone_conversations(conn, org_id, ids):
        await remove_ids(conn, org_id, emptied, what="conversation", message_ids=ids)


async def remove_memories(conn: Connection, org_id: OrgId, ids: Sequence[MemoryId]) -> None:
    """Remove memories from changes and projections."""
    await projections.enqueue_nodes(conn, org_id, ids)
    await remove_ids(conn, org_id, ids, what="memory", message_ids=None)


@QUERIES.query
async def remove_ids(
    conn: Connection,
    org_id: OrgId,
    ids: Collection[UUID],
    *,
    what: Literal["message", "memory", "conversation"],
    message_ids: Sequence[MessageId] | None,
) -> None:
    """Remove ids from the changes of one kind of subject, in all rooms or in the rooms of the given messages."""
    ...


@QUERIES.query
async def gone_conversations(
    conn: Connection, org_id: OrgId, message_ids: Sequence[MessageId]
) -> set[ConversationId]:
    """Return the deleted conversations that are named in changes in the rooms of messages."""
    ...


@QUERIES.query
async def drop_before(conn: Connection, org_id: OrgId, change_id: UUID) -> RowCount:
    """Delete the changes before an id; return how many."""
    ...
