"""Finds who replies to whom in each room, and assigns messages to conversations, as they arrive.

The task of a room holds its dirty time range. It is processed in chunks: read in one transaction, disentangled
without a connection, written in another one. A result depends on the WINDOW messages before it and the LOOKAHEAD - 1
messages after it. So processing begins LOOKAHEAD - 1 messages before the dirty range, and continues after it until the
results of a whole window of messages are the same as before: later results cannot change then.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial

from threadpoolctl import ThreadpoolController

from roomlore.conversations import reply_model
from roomlore.conversations.answer_probabilities import answer_probabilities
from roomlore.conversations.conversation_model import LOOKAHEAD
from roomlore.conversations.disentangler import (
    WHISPER_SILENCE,
    AssignedParent,
    Assignment,
    NewMessage,
    PastMessage,
    conversation_id_for,
    disentangle,
)
from roomlore.conversations.erased_names import without_erased_names
from roomlore.conversations.message_text import label_of
from roomlore.conversations.window import WINDOW, ConversationMessage
from roomlore.db import conversations, disentanglement, erasure_guard, work_queue
from roomlore.db.disentanglement import (
    ConversationAssignment,
    ConversationText,
    Description,
    DirtyRange,
    LeasedRange,
    NewConversation,
    RoomMessage,
)
from roomlore.db.queries import Connection
from roomlore.db.work_queue import QueueName, Task
from roomlore.domain.ids import ConversationId, MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.records import (
    ANSWER_CONFIDENCE,
    Reply,
    Viewer,
)
from roomlore.jobs.runner import QueueWorker
from roomlore.jobs.scheduler import orgs
from roomlore.models.message_model import bundled_model
from roomlore.text.recognisers import asks_for_confidentiality

#: Messages per chunk; large enough that reading the window before it costs little.
CHUNK_SIZE = 1_000
#: The maximum number of messages from which a label is made.
LABELLED = 200
NEVER = datetime.max.replace(tzinfo=UTC)
TICK = timedelta(microseconds=1)
#: The threads of the BLAS library.
THREADS = ThreadpoolController()


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomChunk:
    """A chunk of a room, with its context."""

    #: The last 2 * WINDOW open messages before `messages`, or all if there are fewer, and recent whispers.
    past: Sequence[RoomMessage]
    #: The messages to process. The first LOOKAHEAD - 1 open ones lie before the dirty range.
    messages: Sequence[RoomMessage]
    #: The next LOOKAHEAD - 1 open messages; empty if the chunk reaches the end of the room.
    following: Sequence[RoomMessage]
    #: The stated parents of these messages that are not among the messages themselves.
    distant: Mapping[MessageId, AssignedParent]
    has_more: bool
    #: When memberships in the room ended, in order, if only members may read it.
    borders: Sequence[datetime] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkResult:
    """The result of a chunk."""

    results: Sequence[tuple[RoomMessage, Assignment]]
    #: The rest of the dirty range; None if no other result can change.
    remaining: DirtyRange | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DisentanglementWorker(QueueWorker):
    """Processes rooms with a dirty range."""

    queue: QueueName = "disentangle"
    batch: int = 4
    chunk_size: int = CHUNK_SIZE

    async def begin(self, only_org: OrgId | None) -> None:
        """Enqueue rooms with unassigned messages.

        First refresh the planner's statistics. With empty statistics, PostgreSQL would scan all messages of the org
        for each reply edge.
        """
        await self.tidy()
        for org_id in await orgs(self.db, only_org):
            await self.db.change(org_id, partial(disentanglement.mark_unassigned_dirty, org_id=org_id))

    async def do(self, org_id: OrgId, tasks: Sequence[Task]) -> int:
        """Process a chunk of each of these rooms; the rest of a room is due again at once."""
        # Sorted, because the order of the tasks might reveal whispers through the order of events.
        room_ids = sorted(RoomId(task.subject_id) for task in tasks)
        return sum([await self._process_room(org_id, room_id) for room_id in room_ids])

    async def tidy(self) -> None:
        """Refresh the planner's statistics."""
        async with self.db.system_connection() as conn:
            await work_queue.refresh_statistics(conn)

    async def _process_room(self, org_id: OrgId, room_id: RoomId) -> int:
        lease = await self.db.change(
            org_id, partial(disentanglement.lease_range, org_id=org_id, room_id=room_id)
        )
        if lease is None:
            return 0
        async with self.db.read_transaction(Viewer.operator(org_id)) as conn:
            chunk = await _load_chunk(conn, org_id, room_id, since=lease.since, limit=self.chunk_size)
        result = await asyncio.to_thread(_on_one_core, chunk, until=lease.until)
        write = partial(_write, org_id=org_id, room_id=room_id, lease=lease, result=result)
        await self.db.change(org_id, write)
        return len(result.results)


async def _load_chunk(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, since: datetime, limit: int
) -> RoomChunk:
    earlier = await disentanglement.messages_before(
        conn,
        org_id,
        room_id,
        since=since,
        limit=2 * WINDOW + LOOKAHEAD - 1,
        whispered_since=since - WHISPER_SILENCE,
    )
    begin = _first_to_repeat(earlier)
    messages = await disentanglement.messages_from(conn, org_id, room_id, since=since, limit=limit)
    has_more = len(messages) >= limit
    following = (
        await disentanglement.messages_after(
            conn, org_id, room_id, after=messages[-1].sent_at, limit=LOOKAHEAD - 1
        )
        if has_more
        else []
    )
    read = (*earlier, *messages, *following)
    distant = {one.stated_parent for one in read if one.stated_parent is not None} - {one.id for one in read}
    assigned = await disentanglement.assignments_of(conn, org_id, distant) if distant else []
    return RoomChunk(
        past=earlier[:begin],
        messages=[*earlier[begin:], *messages],
        following=following,
        distant={
            parent_id: AssignedParent(conversation_id=conversation_id, sent_at=sent_at)
            for parent_id, conversation_id, sent_at in assigned
        },
        has_more=has_more,
        borders=await disentanglement.membership_ends(conn, org_id, room_id),
    )


def _first_to_repeat(earlier: Sequence[RoomMessage]) -> int:
    """Return the index of the first message that has to be processed again.

    From this message on, results may depend on the messages that follow `earlier`.
    """
    open_places = [place for place, one in enumerate(earlier) if one.recipients is None]
    return open_places[1 - LOOKAHEAD] if len(open_places) >= LOOKAHEAD - 1 else 0


def _on_one_core(chunk: RoomChunk, *, until: datetime) -> ChunkResult:
    """Process a chunk on one core: on all cores, small matrix products would wait for each other."""
    with THREADS.limit(limits=1, user_api="blas"):  # pyright: ignore[reportUnknownMemberType]  untyped library
        return disentangle_chunk(chunk, until=until)


def disentangle_chunk(chunk: RoomChunk, *, until: datetime) -> ChunkResult:
    """Return the replies and conversations of a chunk, and the rest of the dirty range.

    `chunk` holds all messages of its last timestamp; `until` is the end of the dirty range.
    """
    results: list[tuple[RoomMessage, Assignment]] = []
    unchanged_count = 0
    assignments = disentangle(
        _past_messages(chunk.past),
        [_new_message(one) for one in chunk.messages],
        [_new_message(one) for one in chunk.following],
        distant=chunk.distant,
        borders=chunk.borders,
    )
    assignments = _with_answers([*chunk.past, *chunk.messages], assignments)
    for message, assignment in zip(chunk.messages, assignments, strict=True):
        results.append((message, assignment))
        if message.kind == "whisper" and is_changed(message, assignment):
            # Participants of a whisper may pause for that long.
            until = max(until, message.sent_at + WHISPER_SILENCE)
        unchanged_count = (
            0 if message.sent_at <= until or is_changed(message, assignment) else unchanged_count + 1
        )
        if unchanged_count == WINDOW:
            return ChunkResult(results=results, remaining=None)
    if not chunk.has_more:
        return ChunkResult(results=results, remaining=None)
    last = chunk.messages[-1].sent_at
    return ChunkResult(
        results=results, remaining=DirtyRange(since=last + TICK, until=max(until, last + TICK))
    )


def _with_answers(read: Sequence[RoomMessage], assignments: Sequence[Assignment]) -> list[Assignment]:
    """Return assignments with the probability that each message answers its inferred parent."""
    by_id = {one.id: one for one in read}
    answering: dict[MessageId, tuple[str, str]] = {}
    for now in assignments:
        reply, said = _stored_reply(now), by_id[now.message_id]
        asking = None if reply is None else by_id.get(reply.parent_id)
        if asking is not None and asking.author_id != said.author_id and now.confidence >= ANSWER_CONFIDENCE:
            answering[said.id] = (asking.body, said.body)
    read_pairs = answer_probabilities(bundled_model(), list(answering.values())) if answering else []
    found = dict(zip(answering, read_pairs, strict=True))
    return [replace(now, answer_probability=found.get(now.message_id)) for now in assignments]


def is_changed(before: RoomMessage, now: Assignment) -> bool:
    """Return whether the parent or the conversation of a message changed."""
    stored = (before.conversation_id, before.linked_offset)
    return stored != (now.conversation_id, now.linked_offset) or _found(before) != _stored_reply(now)


def _past_messages(earlier: Sequence[RoomMessage]) -> list[PastMessage]:
    """Return the last WINDOW open messages and all whispers of `earlier`, with their linked parents.

    The open messages before this window are needed only to look up linked parents.
    """
    open_ids = [one.id for one in earlier if one.recipients is None]
    found: list[PastMessage] = []
    place = 0
    for one in earlier:
        parent = one.stated_parent
        if one.recipients is None:
            if parent is None and one.linked_offset is not None and one.linked_offset <= place:
                parent = open_ids[place - one.linked_offset]
            place += 1
        if one.recipients is not None or place > len(open_ids) - WINDOW:
            found.append(
                PastMessage(
                    message=_to_conversation_message(one),
                    audience=_whisper_audience(one),
                    linked_parent_id=parent,
                    # A message without an assignment is processed again later, so it gets a provisional one here.
                    conversation_id=one.conversation_id or conversation_id_for(one.id),
                )
            )
    return found


def _new_message(one: RoomMessage) -> NewMessage:
    return NewMessage(
        message=_to_conversation_message(one),
        audience=_whisper_audience(one),
        pinned_id=one.conversation_id if one.is_manual else None,
    )


def _to_conversation_message(message: RoomMessage) -> ConversationMessage:
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


def _whisper_audience(message: RoomMessage) -> frozenset[ParticipantId] | None:
    """Return the readers of a whisper; None if everybody in the room reads it."""
    return None if message.recipients is None else frozenset(message.recipients)


async def _write(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, lease: LeasedRange, result: ChunkResult
) -> None:
    """Write the results that are still valid, and the rest of the dirty range."""
    await erasure_guard.lock_shared(conn, org_id)
    fresh = await disentanglement.lock_range(conn, org_id, room_id)
    if fresh is None or fresh.lease_id != lease.lease_id:
        # Another worker has leased the room since, and its lease includes the changes.
        return
    true_before = fresh.changed_since or NEVER
    results = [(one, found) for one, found in result.results if one.sent_at < true_before]
    await _write_results(conn, org_id, room_id, results)
    await work_queue.reconcile_vectors(conn, org_id, room_id, [one.id for one, _ in results])
    left = result.remaining
    if len(results) < len(result.results):
        # Newer changes are processed first, then the rest of this range.
        until = max(result.results[-1][0].sent_at, left.until if left else true_before)
        left = DirtyRange(since=true_before, until=until)
    if left is None and fresh.changed_since is None:
        await disentanglement.finish_room(conn, org_id, room_id)
    else:
        await disentanglement.return_range(conn, org_id, room_id, left)
        await work_queue.wake(conn, "disentangle")


async def _write_results(
    conn: Connection, org_id: OrgId, room_id: RoomId, assignments: Sequence[tuple[RoomMessage, Assignment]]
) -> None:
    unlinked = [one.id for one, now in assignments if _found(one) is not None and _stored_reply(now) is None]
    found = [
        edge for one, now in assignments if (edge := _stored_reply(now)) is not None and edge != _found(one)
    ]
    await disentanglement.put_inferred_replies(conn, org_id, unlinked=unlinked, found=found)
    opened = [
        _to_new_conversation(one, now, room_id) for one, now in assignments if now.split_reason is not None
    ]
    if opened:
        await disentanglement.add_conversations(conn, org_id, opened)
    moved = [(one, now) for one, now in assignments if one.conversation_id != now.conversation_id]
    placed = [
        ConversationAssignment(
            message_id=one.id,
            conversation_id=now.conversation_id,
            idle_timeout=now.idle_timeout,
            linked_offset=now.linked_offset,
        )
        for one, now in assignments
        if (one.conversation_id, one.idle_timeout, one.linked_offset)
        != (now.conversation_id, now.idle_timeout, now.linked_offset)
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
    public, whispered = _changed(moved)
    await disentanglement.refresh(
        conn, org_id, touched, changed=public | (changed - whispered), whispered=whispered - public
    )
    words = await disentanglement.conversation_texts(conn, org_id, touched, limit=LABELLED)
    words = await without_erased_names(conn, org_id, words)
    await disentanglement.describe(conn, org_id, await asyncio.to_thread(describe, words, assignments))


def _changed(
    moved: Sequence[tuple[RoomMessage, Assignment]],
) -> tuple[set[ConversationId], set[ConversationId]]:
    """Return the conversations whose normal messages changed, and those whose whispers changed."""
    public, whispered = set[ConversationId](), set[ConversationId]()
    for message, assignment in moved:
        ids = whispered if message.kind == "whisper" else public
        ids.update(
            {assignment.conversation_id, *([message.conversation_id] if message.conversation_id else ())}
        )
    return public, whispered


async def _preserve_manual_changes(
    conn: Connection, org_id: OrgId, moved: Sequence[tuple[RoomMessage, Assignment]]
) -> None:
    """Keep manual settings when messages move: the sensitivity always, the label if all messages moved."""
    sources: dict[ConversationId, set[ConversationId]] = {}
    for one, now in moved:
        if one.conversation_id is not None:
            sources.setdefault(now.conversation_id, set()).add(one.conversation_id)
    for conversation_id, others in sources.items():
        await conversations.inherit_sensitivity(conn, org_id, conversation_id, others=others)
        await conversations.inherit_label(conn, org_id, conversation_id, others=others)


def _to_new_conversation(one: RoomMessage, now: Assignment, room_id: RoomId) -> NewConversation:
    assert now.split_reason is not None
    return NewConversation(
        id=now.conversation_id,
        room_id=room_id,
        split_reason=now.split_reason,
        opened_at=one.sent_at,
        idle_timeout=now.idle_timeout,
    )


def describe(
    texts: Sequence[ConversationText], results: Sequence[tuple[RoomMessage, Assignment]]
) -> list[Description]:
    """Return labels and sensitivities of conversations."""
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


def _found(one: RoomMessage) -> Reply | None:
    if one.found_parent is None or one.found_method is None or one.found_confidence is None:
        return None
    return Reply(
        child_id=one.id,
        parent_id=one.found_parent,
        method=one.found_method,
        confidence=one.found_confidence,
        answer_probability=one.found_answer_probability,
    )


def _stored_reply(now: Assignment) -> Reply | None:
    if now.parent_id is None or now.method not in {"mention", "inferred"}:
        return None
    probability = now.answer_probability
    return Reply(
        child_id=now.message_id,
        parent_id=now.parent_id,
        method=now.method,
        confidence=round(now.confidence, 4),
        answer_probability=None if probability is None else round(probability, 4),
    )
