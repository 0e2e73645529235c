"""What has changed, noted in the transaction of the change and read in the order of transactions.

A reader has a place, (xid, id), and reads what comes after it. Nothing is read that a transaction still running may
come before, so that no reader passes by what is committed later. What is noted are ids: who may see which of them is
asked when they are told.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args
from uuid import UUID

from roomlore.db import projections
from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import ConversationId, MemoryId, MessageId, OrgId, RoomId

QUERIES = Queries("outbox")

#: Named as what happened to what.
ChangeKind = Literal[
    "message.added",
    "message.revised",
    "message.redacted",
    "message.erased",
    "memory.kept",
    "memory.changed",
    "conversation.changed",
]
CHANGE_KINDS: tuple[ChangeKind, ...] = get_args(ChangeKind)
#: Rung with the org's id.
CHANNEL = "roomlore_changes"
#: What one change is about at most; more is noted as several.
MAX_CHANGES = 1_000
#: Before and after every id.
MIN_ID, MAX_ID = UUID(int=0), UUID(int=2**128 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What was over at a moment: the snapshot, and the first transaction that was not."""

    seen: str
    xid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstTransaction:
    """The first transaction that noted anything in a time, or may still do so."""

    xid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Something that changed in one transaction and room."""

    id: UUID
    #: Which transaction; a number too large for some.
    xid: str
    #: None: of a memory that rests on nothing that was said.
    room_id: RoomId | None
    kind: ChangeKind
    subject_ids: Sequence[UUID]
    noted_at: datetime
    #: Whether nothing can come before it any more.
    is_settled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """How far somebody has read."""

    xid: str = "0"
    id: UUID = MIN_ID
    #: What was over then is not read, either; None: what there is is read.
    seen: str | None = None
    #: What was noted before this id was made is not read, either.
    since: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleSubject:
    """A message, memory or conversation that is seen."""

    id: UUID


async def append_added(conn: Connection, org_id: OrgId) -> None:
    """Note the messages just added, and ask for their copies."""
    await projections.enqueue_added(conn, org_id)
    await QUERIES.run(conn, "note_added", {"org_id": org_id, "most": MAX_CHANGES})


async def append(
    conn: Connection, org_id: OrgId, kind: ChangeKind, ids: Collection[MessageId | MemoryId | ConversationId]
) -> None:
    """Note what happened to messages, memories or conversations, as the kind says; those that are gone are left out.

    Copies of them are asked for, too.
    """
    if not ids:
        return
    if kind.startswith("message."):
        await projections.enqueue_replies(conn, org_id, ids)
    else:
        await projections.enqueue_nodes(conn, org_id, ids)
    about = {"what": kind.partition(".")[0], "kind": kind, "ids": list(ids), "most": MAX_CHANGES}
    params: dict[str, object] = {"org_id": org_id, **about}
    await QUERIES.run(conn, "note", params)


async def current_cursor(conn: Connection) -> Cursor:
    """Return the place after which stands whatever is not over yet."""
    now = await QUERIES.first(conn, "now", Snapshot, {})
    assert now is not None
    return Cursor(xid=str(int(now.xid) - 1), id=MAX_ID, seen=now.seen)


async def cursor_since(conn: Connection, org_id: OrgId, change_id: UUID) -> Cursor:
    """Return the place after which stands whatever was noted since an id was made, or will be."""
    first = await QUERIES.first(conn, "first_since", FirstTransaction, {"org_id": org_id, "id": change_id})
    assert first is not None
    return Cursor(xid=str(int(first.xid) - 1), id=MAX_ID, since=change_id)


async def siblings(conn: Connection, org_id: OrgId, change_id: UUID) -> list[Change]:
    """Return a change by its id, with those that were noted with it of the same kind and room, in order.

    Empty where there is none, or something may still come before it.
    """
    return await QUERIES.all(conn, "beside", Change, {"org_id": org_id, "id": change_id})


async def read_after(
    conn: Connection, org_id: OrgId, cursor: Cursor, *, room_id: RoomId | None = None, limit: int
) -> list[Change]:
    """Return changes after a place, in order, and whether each is settled; for the operator alone.

    As many as `limit`, and then to the end of the transaction: what one changed is told as a whole.
    """
    params = {"org_id": org_id, "room_id": room_id, "limit": limit}
    params |= {"xid": cursor.xid, "id": cursor.id, "seen": cursor.seen, "since": cursor.since}
    return await QUERIES.all(conn, "after", Change, params)


async def visible_ids(conn: Connection, org_id: OrgId, ids: Collection[UUID]) -> set[UUID]:
    """Return which of these messages, memories and conversations the viewer of the connection may see."""
    params = {"org_id": org_id, "ids": list(ids)}
    return {row.id for row in await QUERIES.all(conn, "visible", VisibleSubject, params)}


async def remove_messages(conn: Connection, org_id: OrgId, ids: Sequence[MessageId]) -> None:
    """Name no more in any change messages that are going, nor conversations that went with them; their copies go, too.

    Before their rows go: their rooms tell where to look.
    """
    await projections.enqueue(conn, org_id, ids)
    params: dict[str, object] = {"org_id": org_id, "ids": list(ids), "message_ids": list(ids)}
    params["kinds"] = _kinds("message")
    await QUERIES.run(conn, "forget", params)
    emptied = await QUERIES.all(conn, "gone_conversations", VisibleSubject, params)
    if emptied:
        params |= {"ids": [row.id for row in emptied], "kinds": _kinds("conversation")}
        await QUERIES.run(conn, "forget", params)


async def remove_memories(conn: Connection, org_id: OrgId, ids: Sequence[MemoryId]) -> None:
    """Name no more in any change memories that are going; their copies go, too."""
    await projections.enqueue_nodes(conn, org_id, ids)
    params = {"org_id": org_id, "ids": list(ids), "message_ids": None, "kinds": _kinds("memory")}
    await QUERIES.run(conn, "forget", params)


def _kinds(*what: str) -> list[ChangeKind]:
    return [kind for kind in CHANGE_KINDS if kind.partition(".")[0] in what]


async def drop_before(conn: Connection, org_id: OrgId, change_id: UUID) -> int:
    """Drop what was noted before an id was made, and return how many changes that were."""
    return await QUERIES.run(conn, "drop_before", {"org_id": org_id, "id": change_id})
