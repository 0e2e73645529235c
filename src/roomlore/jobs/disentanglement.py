"""Finds who answers whom in each room, and puts what was said into conversations, as it arrives.

The work of a room says from when to when something has changed there. It is gone through in portions, each read
in one transaction, untangled without a connection, and written in another; a message's result depends on what
was said before it alone, so what has changed in the meantime makes only what comes later worth doing again. Behind
the changes it goes on until as many messages as the window holds came out as they were: nothing after them can
come out otherwise.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from threadpoolctl import ThreadpoolController

from roomlore.conversations import reply_model
from roomlore.conversations.disentangler import WHISPER_SILENCE, Disentangler, WhisperAudience
from roomlore.conversations.erased_names import without_erased_names
from roomlore.conversations.labels import asks_for_confidentiality, label_of
from roomlore.conversations.linker import WINDOW
from roomlore.conversations.records import Assignment, ConversationMessage
from roomlore.db import conversations, disentanglement, erased, work_queue
from roomlore.db.database import Database
from roomlore.db.disentanglement import (
    ConversationAssignment,
    ConversationText,
    Description,
    DirtyRange,
    InferredReply,
    LeasedRange,
    NewConversation,
    RoomMessage,
)
from roomlore.db.queries import Connection
from roomlore.db.work_queue import QueueName, Task
from roomlore.domain.ids import ConversationId, MessageId, OrgId, RoomId
from roomlore.domain.records import ReplyMethod, Viewer

#: Messages gone through at once: many enough that reading the window before them costs little.
CHUNK_SIZE = 1_000
#: So many messages of a conversation make its label.
LABELLED = 200
#: Later than everything.
NEVER = datetime.max.replace(tzinfo=UTC)
TICK = timedelta(microseconds=1)
#: Those of the library that multiplies matrices.
THREADS = ThreadpoolController()


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomChunk:
    """A part of a room to go through, and what is needed for it."""

    context: Sequence[RoomMessage]
    messages: Sequence[RoomMessage]
    #: Where messages stand that are answered from afar.
    conversations: Mapping[MessageId, ConversationId]
    #: Whether something comes after it.
    has_more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkResult:
    """What came of a portion."""

    results: Sequence[tuple[RoomMessage, Assignment]]
    #: From where on there is more to do; None where nothing can have changed.
    remaining: DirtyRange | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DisentanglementWorker:
    """Goes through rooms in which something has changed."""

    db: Database
    #: Rooms taken at once.
    batch: int = 4
    chunk_size: int = CHUNK_SIZE
    queue: QueueName = "untangle"

    async def begin(self, only_org: OrgId | None) -> None:
        """Ask for rooms to be gone through where something stands in no conversation and nobody asked.

        First the planner learns what has come in: as long as it believes the tables to be empty, each edge that is
        written has its ends looked for among all messages of the org.
        """
        await self.tidy()
        async with self.db.system_connection() as conn:
            org_ids = await work_queue.org_ids(conn) if only_org is None else [only_org]
        for org_id in org_ids:
            await self.db.change(org_id, partial(disentanglement.mark_unassigned_dirty, org_id=org_id))

    async def do(self, org_id: OrgId, tasks: Sequence[Task]) -> int:
        """Go through a portion of each of these rooms and return how many messages that were.

        What is left of a room is due again at once.
        """
        # Not as they were asked for: that the one came first may be because of a whisper, and events tell the order.
        room_ids = sorted(RoomId(task.subject_id) for task in tasks)
        return sum([await self._process_room(org_id, room_id) for room_id in room_ids])

    async def tidy(self) -> None:
        """Tell the planner what has changed."""
        async with self.db.system_connection() as conn:
            await work_queue.refresh_statistics(conn)

    async def _process_room(self, org_id: OrgId, room_id: RoomId) -> int:
        stretch = await self.db.change(
            org_id, partial(disentanglement.lease_range, org_id=org_id, room_id=room_id)
        )
        if stretch is None:
            return 0
        async with self.db.read_transaction(Viewer.operator(org_id)) as conn:
            portion = await _load_chunk(conn, org_id, room_id, since=stretch.since, limit=self.chunk_size)
        through = await asyncio.to_thread(_on_one_core, portion, until=stretch.until)
        write = partial(_write, org_id=org_id, room_id=room_id, lease=stretch, result=through)
        await self.db.change(org_id, write)
        return len(through.results)


async def _load_chunk(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, since: datetime, limit: int
) -> RoomChunk:
    earlier = await disentanglement.messages_before(
        conn, org_id, room_id, since=since, limit=WINDOW, whispered_since=since - WHISPER_SILENCE
    )
    messages = await disentanglement.messages_from(conn, org_id, room_id, since=since, limit=limit)
    near = {one.id for one in (*earlier, *messages)}
    afar = {one.stated_parent for one in messages if one.stated_parent is not None} - near
    standing = await disentanglement.assignments_of(conn, org_id, afar) if afar else {}
    return RoomChunk(
        context=earlier, messages=messages, conversations=standing, has_more=len(messages) >= limit
    )


def _on_one_core(chunk: RoomChunk, *, until: datetime) -> ChunkResult:
    """Go through a portion without spreading each small product over all cores, which then wait for each other."""
    with THREADS.limit(limits=1, user_api="blas"):  # pyright: ignore[reportUnknownMemberType]  untyped library
        return disentangle_chunk(chunk, until=until)


def disentangle_chunk(chunk: RoomChunk, *, until: datetime) -> ChunkResult:
    """Return what a portion's messages answer and where they stand, and what is left to do behind it.

    Args:
        chunk: In the order of the room, with all that was said at one time.
        until: The last time at which something has changed.
    """
    untangler = Disentangler()
    for message_id, conversation_id in chunk.conversations.items():
        untangler.set_conversation(message_id, conversation_id)
    for one in chunk.context:
        untangler.remember(
            to_said(one),
            hearers_of(one),
            parent_id=one.stated_parent or one.found_parent,
            conversation_id=one.conversation_id,
            by_hand=one.by_hand,
        )
    results: list[tuple[RoomMessage, Assignment]] = []
    as_it_was = 0
    for one in chunk.messages:
        placed_by_hand = one.conversation_id if one.by_hand else None
        found = untangler.assign(to_said(one), hearers_of(one), pinned_id=placed_by_hand)
        results.append((one, found))
        if one.kind == "whisper" and is_changed(one, found):
            # Those who whisper to each other may be few and far between.
            until = max(until, one.sent_at + WHISPER_SILENCE)
        as_it_was = 0 if one.sent_at <= until or is_changed(one, found) else as_it_was + 1
        if as_it_was == WINDOW:
            return ChunkResult(results=results, remaining=None)
    if not chunk.has_more:
        return ChunkResult(results=results, remaining=None)
    last = chunk.messages[-1].sent_at
    return ChunkResult(
        results=results, remaining=DirtyRange(since=last + TICK, until=max(until, last + TICK))
    )


def is_changed(before: RoomMessage, now: Assignment) -> bool:
    """Return whether a message answers something else now, or stands elsewhere."""
    return before.conversation_id != now.conversation_id or _found(before) != _stored_reply(now)


def to_said(message: RoomMessage) -> ConversationMessage:
    """Return a message as untangling reads it."""
    return ConversationMessage(
        id=message.id,
        author_id=message.author_id,
        author_name=message.author_name,
        sent_at=message.sent_at,
        body=message.body,
        reply_to=message.stated_parent if message.stated_method == "explicit" else None,
        thread_root=message.stated_parent if message.stated_method == "thread" else None,
        mentions=frozenset(message.mentioned),
    )


def hearers_of(message: RoomMessage) -> WhisperAudience:
    """Return who hears a whisper; None for what everybody in the room hears."""
    return None if message.hearers is None else frozenset(message.hearers)


async def _write(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, lease: LeasedRange, result: ChunkResult
) -> None:
    """Write what is still true of a portion, and what is left to do."""
    await erased.lock_shared(conn, org_id)
    fresh = await disentanglement.lock_range(conn, org_id, room_id)
    if fresh is None or fresh.taking != lease.taking:
        # Somebody else has taken the room since, with what had changed: it is theirs.
        return
    true_before = fresh.changed_since or NEVER
    results = [(one, found) for one, found in result.results if one.sent_at < true_before]
    await _write_results(conn, org_id, room_id, results)
    await work_queue.reconcile_vectors(conn, org_id, room_id, [one.id for one, _ in results])
    left = result.remaining
    if len(results) < len(result.results):
        # What has changed since comes first; what was left behind it comes with it.
        until = max(result.results[-1][0].sent_at, left.until if left else true_before)
        left = DirtyRange(since=true_before, until=until)
    if left is None and fresh.changed_since is None:
        await disentanglement.finish_room(conn, org_id, room_id)
    else:
        await disentanglement.return_range(conn, org_id, room_id, left)
        await work_queue.wake(conn, "untangle")


async def _write_results(
    conn: Connection, org_id: OrgId, room_id: RoomId, assignments: Sequence[tuple[RoomMessage, Assignment]]
) -> None:
    unlinked = [one.id for one, now in assignments if _found(one) is not None and _stored_reply(now) is None]
    found = [
        InferredReply(child_id=one.id, parent_id=edge[0], method=edge[1], confidence=edge[2])
        for one, now in assignments
        if (edge := _stored_reply(now)) is not None and edge != _found(one)
    ]
    await disentanglement.put_inferred_replies(conn, org_id, unlinked=unlinked, found=found)
    opened = [_to_new_conversation(one, now, room_id) for one, now in assignments if now.boundary is not None]
    if opened:
        await disentanglement.add_conversations(conn, org_id, opened)
    moved = [(one, now) for one, now in assignments if one.conversation_id != now.conversation_id]
    placed = [
        ConversationAssignment(
            message_id=one.id, conversation_id=now.conversation_id, quiet_after=now.idle_timeout
        )
        for one, now in assignments
        if (one.conversation_id, one.quiet_after) != (now.conversation_id, now.idle_timeout)
    ]
    touched = {now.conversation_id for _, now in assignments}
    changed = {one.conversation_id for one, _ in moved if one.conversation_id is not None}
    if placed:
        await disentanglement.assign(conn, org_id, placed)
    if changed:
        again = [one.id for one, _ in moved if one.conversation_id is not None]
        changed |= await disentanglement.assign_replies(conn, org_id, again)
        await _preserve_manual_changes(conn, org_id, moved)
        await conversations.clear_labels(conn, org_id, changed)
    touched |= changed
    aloud, whispered = _changed(moved)
    await disentanglement.refresh(
        conn, org_id, touched, changed=aloud | (changed - whispered), whispered=whispered - aloud
    )
    words = await disentanglement.conversation_texts(conn, org_id, touched, limit=LABELLED)
    words = await without_erased_names(conn, org_id, words)
    await disentanglement.describe(conn, org_id, await asyncio.to_thread(describe, words, assignments))


def _changed(
    moved: Sequence[tuple[RoomMessage, Assignment]],
) -> tuple[set[ConversationId], set[ConversationId]]:
    """Return the conversations that got or lost something said aloud, and those that got or lost whispers."""
    aloud, whispered = set[ConversationId](), set[ConversationId]()
    for one, now in moved:
        ids = whispered if one.kind == "whisper" else aloud
        ids.update({now.conversation_id, *([one.conversation_id] if one.conversation_id else ())})
    return aloud, whispered


async def _preserve_manual_changes(
    conn: Connection, org_id: OrgId, moved: Sequence[tuple[RoomMessage, Assignment]]
) -> None:
    """Let what a person said of a conversation go where its messages went: its mark, and its name if all went."""
    sources: dict[ConversationId, set[ConversationId]] = {}
    for one, now in moved:
        if one.conversation_id is not None:
            sources.setdefault(now.conversation_id, set()).add(one.conversation_id)
    for conversation_id, others in sources.items():
        await conversations.inherit_sensitivity(conn, org_id, conversation_id, others=others)
        await conversations.inherit_label(conn, org_id, conversation_id, others=others)


def _to_new_conversation(one: RoomMessage, now: Assignment, room_id: RoomId) -> NewConversation:
    assert now.boundary is not None
    return NewConversation(
        id=now.conversation_id,
        room_id=room_id,
        boundary=now.boundary,
        opened_at=one.sent_at,
        quiet_after=now.idle_timeout,
    )


def describe(
    texts: Sequence[ConversationText], results: Sequence[tuple[RoomMessage, Assignment]]
) -> list[Description]:
    """Return what conversations are about, from how they begin, and how sensitive they are."""
    rarity = reply_model.load().lexicon.rarity
    said_now: dict[ConversationId, list[str]] = {}
    for one, now in results:
        said_now.setdefault(now.conversation_id, []).append(one.body)
    return [
        Description(
            id=each.id,
            label=label_of(each.told or (), rarity=rarity, names=each.names),
            sensitivity="sensitive"
            if asks_for_confidentiality([*each.bodies, *said_now.get(each.id, ())])
            else "normal",
            goes_on=len(each.bodies) >= LABELLED,
        )
        for each in texts
    ]


def _found(one: RoomMessage) -> tuple[MessageId, ReplyMethod, float] | None:
    if one.found_parent is None or one.found_method is None or one.found_confidence is None:
        return None
    return (one.found_parent, one.found_method, one.found_confidence)


def _stored_reply(now: Assignment) -> tuple[MessageId, ReplyMethod, float] | None:
    """Return what was found, as it is stored; what the platform states is no find."""
    linked = now.link
    if linked.parent_id is None or linked.method not in {"mention", "inferred"}:
        return None
    return (linked.parent_id, linked.method, round(linked.confidence, 4))
