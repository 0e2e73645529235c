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

from roomlore.domain.ids import ConversationId, MessageId, OrgId, RoomId
from roomlore.domain.records import ReplyMethod, Viewer
from roomlore.store import conversations, erased, untangling, work
from roomlore.store.db import Database
from roomlore.store.queries import Connection
from roomlore.store.untangling import (
    Description,
    FoundReply,
    Heard,
    NewConversation,
    Placement,
    Stretch,
    Taken,
    Words,
)
from roomlore.store.work import Stage, Task
from roomlore.untangling import replymodel
from roomlore.untangling.conversations import WHISPERED_SILENCE, Hearers, Untangler
from roomlore.untangling.labels import asks_for_discretion, label
from roomlore.untangling.linker import WINDOW
from roomlore.untangling.records import Said, Untangled
from roomlore.untangling.unnamed import without_erased

#: Messages gone through at once: many enough that reading the window before them costs little.
PORTION = 1_000
#: So many messages of a conversation make its label.
LABELLED = 200
#: Later than everything.
NEVER = datetime.max.replace(tzinfo=UTC)
TICK = timedelta(microseconds=1)
#: Those of the library that multiplies matrices.
THREADS = ThreadpoolController()


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """A part of a room to go through, and what is needed for it."""

    earlier: Sequence[Heard]
    messages: Sequence[Heard]
    #: Where messages stand that are answered from afar.
    standing: Mapping[MessageId, ConversationId]
    #: Whether something comes after it.
    goes_on: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Through:
    """What came of a portion."""

    results: Sequence[tuple[Heard, Untangled]]
    #: From where on there is more to do; None where nothing can have changed.
    left: Stretch | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UntangleWorker:
    """Goes through rooms in which something has changed."""

    db: Database
    #: Rooms taken at once.
    batch: int = 4
    portion: int = PORTION
    stage: Stage = "untangle"

    async def begin(self, only_org: OrgId | None) -> None:
        """Ask for rooms to be gone through where something stands in no conversation and nobody asked.

        First the planner learns what has come in: as long as it believes the tables to be empty, each edge that is
        written has its ends looked for among all messages of the org.
        """
        await self.tidy()
        async with self.db.outside_orgs() as conn:
            org_ids = await work.org_ids(conn) if only_org is None else [only_org]
        for org_id in org_ids:
            await self.db.change(org_id, partial(untangling.touch_unplaced, org_id=org_id))

    async def do(self, org_id: OrgId, tasks: Sequence[Task]) -> int:
        """Go through a portion of each of these rooms and return how many messages that were.

        What is left of a room is due again at once.
        """
        # Not as they were asked for: that the one came first may be because of a whisper, and events tell the order.
        room_ids = sorted(RoomId(task.subject_id) for task in tasks)
        return sum([await self._go_through(org_id, room_id) for room_id in room_ids])

    async def tidy(self) -> None:
        """Tell the planner what has changed."""
        async with self.db.outside_orgs() as conn:
            await work.refresh_statistics(conn)

    async def _go_through(self, org_id: OrgId, room_id: RoomId) -> int:
        stretch = await self.db.change(
            org_id, partial(untangling.take_stretch, org_id=org_id, room_id=room_id)
        )
        if stretch is None:
            return 0
        async with self.db.reading(Viewer.operator(org_id)) as conn:
            portion = await _read(conn, org_id, room_id, since=stretch.since, limit=self.portion)
        through = await asyncio.to_thread(_on_one_core, portion, until=stretch.until)
        write = partial(_write, org_id=org_id, room_id=room_id, taken=stretch, through=through)
        await self.db.change(org_id, write)
        return len(through.results)


async def _read(conn: Connection, org_id: OrgId, room_id: RoomId, *, since: datetime, limit: int) -> Portion:
    earlier = await untangling.heard_before(
        conn, org_id, room_id, since=since, limit=WINDOW, whispered_since=since - WHISPERED_SILENCE
    )
    messages = await untangling.heard_from(conn, org_id, room_id, since=since, limit=limit)
    near = {one.id for one in (*earlier, *messages)}
    afar = {one.stated_parent for one in messages if one.stated_parent is not None} - near
    standing = await untangling.placements_of(conn, org_id, afar) if afar else {}
    return Portion(earlier=earlier, messages=messages, standing=standing, goes_on=len(messages) >= limit)


def _on_one_core(portion: Portion, *, until: datetime) -> Through:
    """Go through a portion without spreading each small product over all cores, which then wait for each other."""
    with THREADS.limit(limits=1, user_api="blas"):  # pyright: ignore[reportUnknownMemberType]  untyped library
        return go_through(portion, until=until)


def go_through(portion: Portion, *, until: datetime) -> Through:
    """Return what a portion's messages answer and where they stand, and what is left to do behind it.

    Args:
        portion: In the order of the room, with all that was said at one time.
        until: The last time at which something has changed.
    """
    untangler = Untangler()
    for message_id, conversation_id in portion.standing.items():
        untangler.stands(message_id, conversation_id)
    for one in portion.earlier:
        untangler.remember(
            said(one),
            hearers(one),
            parent_id=one.stated_parent or one.found_parent,
            conversation_id=one.conversation_id,
            by_hand=one.by_hand,
        )
    results: list[tuple[Heard, Untangled]] = []
    as_it_was = 0
    for one in portion.messages:
        placed_by_hand = one.conversation_id if one.by_hand else None
        found = untangler.go_on(said(one), hearers(one), placed_by_hand=placed_by_hand)
        results.append((one, found))
        if one.kind == "whisper" and differs(one, found):
            # Those who whisper to each other may be few and far between.
            until = max(until, one.sent_at + WHISPERED_SILENCE)
        as_it_was = 0 if one.sent_at <= until or differs(one, found) else as_it_was + 1
        if as_it_was == WINDOW:
            return Through(results=results, left=None)
    if not portion.goes_on:
        return Through(results=results, left=None)
    last = portion.messages[-1].sent_at
    return Through(results=results, left=Stretch(since=last + TICK, until=max(until, last + TICK)))


def differs(before: Heard, now: Untangled) -> bool:
    """Return whether a message answers something else now, or stands elsewhere."""
    return before.conversation_id != now.conversation_id or _found(before) != _edge(now)


def said(one: Heard) -> Said:
    """Return a message as untangling reads it."""
    return Said(
        id=one.id,
        author_id=one.author_id,
        author_name=one.author_name,
        sent_at=one.sent_at,
        body=one.body,
        reply_to=one.stated_parent if one.stated_method == "explicit" else None,
        thread_root=one.stated_parent if one.stated_method == "thread" else None,
        mentions=frozenset(one.mentioned),
    )


def hearers(one: Heard) -> Hearers:
    """Return who hears a whisper; None for what everybody in the room hears."""
    return None if one.hearers is None else frozenset(one.hearers)


async def _write(conn: Connection, org_id: OrgId, room_id: RoomId, *, taken: Taken, through: Through) -> None:
    """Write what is still true of a portion, and what is left to do."""
    await erased.keep_erasures_out(conn, org_id)
    fresh = await untangling.lock_stretch(conn, org_id, room_id)
    if fresh is None or fresh.taking != taken.taking:
        # Somebody else has taken the room since, with what had changed: it is theirs.
        return
    true_before = fresh.changed_since or NEVER
    results = [(one, found) for one, found in through.results if one.sent_at < true_before]
    await _write_results(conn, org_id, room_id, results)
    await work.settle_vectors(conn, org_id, room_id, [one.id for one, _ in results])
    left = through.left
    if len(results) < len(through.results):
        # What has changed since comes first; what was left behind it comes with it.
        until = max(through.results[-1][0].sent_at, left.until if left else true_before)
        left = Stretch(since=true_before, until=until)
    if left is None and fresh.changed_since is None:
        await untangling.finish_room(conn, org_id, room_id)
    else:
        await untangling.put_back(conn, org_id, room_id, left)
        await work.wake(conn, "untangle")


async def _write_results(
    conn: Connection, org_id: OrgId, room_id: RoomId, results: Sequence[tuple[Heard, Untangled]]
) -> None:
    unlinked = [one.id for one, now in results if _found(one) is not None and _edge(now) is None]
    found = [
        FoundReply(child_id=one.id, parent_id=edge[0], method=edge[1], confidence=edge[2])
        for one, now in results
        if (edge := _edge(now)) is not None and edge != _found(one)
    ]
    await untangling.put_found(conn, org_id, unlinked=unlinked, found=found)
    opened = [_opened(one, now, room_id) for one, now in results if now.boundary is not None]
    if opened:
        await untangling.add_conversations(conn, org_id, opened)
    moved = [(one, now) for one, now in results if one.conversation_id != now.conversation_id]
    placed = [
        Placement(message_id=one.id, conversation_id=now.conversation_id, quiet_after=now.quiet_after)
        for one, now in results
        if (one.conversation_id, one.quiet_after) != (now.conversation_id, now.quiet_after)
    ]
    touched = {now.conversation_id for _, now in results}
    changed = {one.conversation_id for one, _ in moved if one.conversation_id is not None}
    if placed:
        await untangling.place(conn, org_id, placed)
    if changed:
        again = [one.id for one, _ in moved if one.conversation_id is not None]
        changed |= await untangling.follow(conn, org_id, again)
        await _keep_what_persons_said(conn, org_id, moved)
        await conversations.unname(conn, org_id, changed)
    touched |= changed
    aloud, whispered = _changed(moved)
    await untangling.refresh(
        conn, org_id, touched, changed=aloud | (changed - whispered), whispered=whispered - aloud
    )
    words = await untangling.words_of(conn, org_id, touched, limit=LABELLED)
    words = await without_erased(conn, org_id, words)
    await untangling.describe(conn, org_id, await asyncio.to_thread(describe, words, results))


def _changed(moved: Sequence[tuple[Heard, Untangled]]) -> tuple[set[ConversationId], set[ConversationId]]:
    """Return the conversations that got or lost something said aloud, and those that got or lost whispers."""
    aloud, whispered = set[ConversationId](), set[ConversationId]()
    for one, now in moved:
        ids = whispered if one.kind == "whisper" else aloud
        ids.update({now.conversation_id, *([one.conversation_id] if one.conversation_id else ())})
    return aloud, whispered


async def _keep_what_persons_said(
    conn: Connection, org_id: OrgId, moved: Sequence[tuple[Heard, Untangled]]
) -> None:
    """Let what a person said of a conversation go where its messages went: its mark, and its name if all went."""
    sources: dict[ConversationId, set[ConversationId]] = {}
    for one, now in moved:
        if one.conversation_id is not None:
            sources.setdefault(now.conversation_id, set()).add(one.conversation_id)
    for conversation_id, others in sources.items():
        await conversations.mark_like(conn, org_id, conversation_id, others=others)
        await conversations.take_name(conn, org_id, conversation_id, others=others)


def _opened(one: Heard, now: Untangled, room_id: RoomId) -> NewConversation:
    assert now.boundary is not None
    return NewConversation(
        id=now.conversation_id,
        room_id=room_id,
        boundary=now.boundary,
        opened_at=one.sent_at,
        quiet_after=now.quiet_after,
    )


def describe(words: Sequence[Words], results: Sequence[tuple[Heard, Untangled]]) -> list[Description]:
    """Return what conversations are about, from how they begin, and how sensitive they are."""
    rarity = replymodel.load().lexicon.rarity
    said_now: dict[ConversationId, list[str]] = {}
    for one, now in results:
        said_now.setdefault(now.conversation_id, []).append(one.body)
    return [
        Description(
            id=each.id,
            label=label(each.told or (), rarity=rarity, names=each.names),
            sensitivity="sensitive"
            if asks_for_discretion([*each.bodies, *said_now.get(each.id, ())])
            else "normal",
            goes_on=len(each.bodies) >= LABELLED,
        )
        for each in words
    ]


def _found(one: Heard) -> tuple[MessageId, ReplyMethod, float] | None:
    if one.found_parent is None or one.found_method is None or one.found_confidence is None:
        return None
    return (one.found_parent, one.found_method, one.found_confidence)


def _edge(now: Untangled) -> tuple[MessageId, ReplyMethod, float] | None:
    """Return what was found, as it is stored; what the platform states is no find."""
    linked = now.linked
    if linked.parent_id is None or linked.method not in {"mention", "inferred"}:
        return None
    return (linked.parent_id, linked.method, round(linked.confidence, 4))
