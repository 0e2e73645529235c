"""What has changed, told to a viewer as it happens: each change once it is certain that none comes before it.

Nobody holds a connection while waiting. One of its own listens for all who wait in a process, and what it may miss is
found by looking now and then. Who may see what is asked of the database for every event, as it is told.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from uuid import UUID
from weakref import WeakSet

from roomlore.db import outbox
from roomlore.db.database import Database
from roomlore.db.outbox import Change, ChangeKind, Cursor
from roomlore.db.work_queue import translate_connection_errors
from roomlore.domain.errors import BadInput, DatabaseUnavailable
from roomlore.domain.ids import OrgId, RoomId, id_time, lowest_id_at
from roomlore.domain.records import Viewer
from roomlore.operations.access import Access
from roomlore.search import lookup

#: What the log calls it: a line when a stream begins, none for each event.
ACTION = "read events"
#: Streams look by themselves so often, should nobody wake them; a key that was revoked ends its streams by then.
POLL_SECONDS = 5.0
#: A change that a slower transaction may still come before is looked for again after this, then twice that, and so on.
FIRST_POLL_SECONDS, MAX_POLL_SECONDS = 0.02, 1.0
#: However often it is rung, a stream reads anew no sooner than this after it has read.
COALESCE_SECONDS = 0.15
#: So many streams of a process read at a time, so that they leave connections to everybody else.
READERS = 2
#: Of changes in one read, and of what they are about; then to the end of the transaction.
BATCH, MOST_SUBJECTS = 100, 10_000
#: Whoever goes on from an event that is not there goes on from this long before it: a transaction that was slower than
#: its own is not passed by.
OVERLAP = timedelta(minutes=1)
VERSION = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that has changed, as far as the viewer may see it."""

    id: UUID
    #: What happened to what: `message.added`, `memory.changed`, and so on.
    kind: ChangeKind
    #: None where it is about memories that rest on nothing that was said.
    room: RoomId | None
    #: Messages, memories or conversations, by kind.
    subjects: Sequence[UUID]
    at: datetime


@dataclass(slots=True)
class Notifier:
    """Wakes whoever waits for changes; as long as anybody does, one connection of the process listens."""

    #: Who reads now.
    read_slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(READERS))
    _subscribers: dict[OrgId, WeakSet[asyncio.Event]] = field(
        default_factory=dict[OrgId, "WeakSet[asyncio.Event]"]
    )
    _listener: asyncio.Task[None] | None = None

    def subscribe(self, db: Database, org_id: OrgId) -> asyncio.Event:
        """Return what is set whenever something changes in an org, for as long as the caller holds it."""
        rung = asyncio.Event()
        self._subscribers.setdefault(org_id, WeakSet()).add(rung)
        if self._listener is None or self._listener.done():
            self._listener = asyncio.create_task(self._listen(db))
        return rung

    async def _listen(self, db: Database) -> None:
        while self._has_subscribers():
            try:
                with translate_connection_errors():
                    async with db.listening(outbox.CHANNEL) as notices:
                        # What was noted while nobody listened.
                        self._notify(list(self._subscribers))
                        while self._has_subscribers():
                            self._notify([OrgId(UUID(org_id)) for org_id in await notices(MAX_POLL_SECONDS)])
            except DatabaseUnavailable:
                # Whoever waits looks by themselves meanwhile.
                await asyncio.sleep(MAX_POLL_SECONDS)

    def _notify(self, org_ids: Sequence[OrgId]) -> None:
        for org_id in org_ids:
            for rung in self._subscribers.get(org_id, ()):
                rung.set()

    def _has_subscribers(self) -> bool:
        self._subscribers = {org_id: rung for org_id, rung in self._subscribers.items() if rung}
        return bool(self._subscribers)


class EventStream:
    """The events that a viewer may see, from a place on, without end.

    Iterating raises KeyRefused once the caller's key is no longer valid, NotAllowed where the caller may not read as the
    viewer, NotFound where there is no such room, BadInput where the place is none.
    """

    def __init__(
        self,
        access: Access,
        notifier: Notifier,
        *,
        viewer: Viewer,
        room: str | None = None,
        after: str | None = None,
    ) -> None:
        self._desk, self._notifier, self._viewer = access, notifier, viewer
        self._room, self._after = room, after
        self._room_id: RoomId | None = None
        self._cursor: Cursor | None = None
        #: The transaction in which the stream goes on, and up to which id it was told before.
        self._already_sent: tuple[str, UUID] | None = None
        self._changed: asyncio.Event | None = None
        self._ready: deque[Event] = deque()
        self._poll_seconds = 0.0
        self._read_at = -POLL_SECONDS
        self._is_closed = False

    def __aiter__(self) -> "EventStream":
        """Return the stream itself."""
        return self

    async def __anext__(self) -> Event:
        """Return the next event, waiting for it however long it takes."""
        if not self._is_closed:
            await self.start()
        while not (self._ready or self._is_closed):
            await self._wait()
            if not self._is_closed:
                await self._read()
        if self._is_closed:
            raise StopAsyncIteration
        return self._ready.popleft()

    async def aclose(self) -> None:
        """End the stream: nobody listens for it any more, and whoever waits for its next event is told that it is over."""
        self._is_closed = True
        rung, self._changed = self._changed, None
        if rung is not None:
            rung.set()

    async def start(self) -> None:
        """Find where the stream begins, once; what is wrong with it is raised here."""
        if self._cursor is not None:
            return
        wanted = None if self._after is None else _event_id(self._after)
        org_id = self._desk.org_id
        # Before the place is looked up: what is noted from then on rings.
        rung = self._notifier.subscribe(self._desk.db, org_id)
        async with self._notifier.read_slots:
            place = await (self._current_cursor() if wanted is None else self._cursor_after(wanted))
        # After it: where the log has the line, the stream has begun.
        async with self._desk.reading(self._viewer, ACTION) as reading:
            if self._room is not None:
                self._room_id = await lookup.room(reading.conn, org_id, self._room)
                reading.record_shown([self._room_id])
        self._changed, self._cursor = rung, place

    async def _current_cursor(self) -> Cursor:
        async with self._desk.db.read_transaction(Viewer.operator(self._desk.org_id)) as conn:
            return await outbox.current_cursor(conn)

    async def _cursor_after(self, wanted: UUID) -> Cursor:
        """Return the place just after an event, or one before it where the viewer sees none of it, or there is none."""
        async with self._desk.db.read_transaction(Viewer.operator(self._desk.org_id)) as conn:
            found = await outbox.siblings(conn, self._desk.org_id, wanted)
        told = await self._visible(found)
        if told:
            # All of its transaction is read again: of what was noted with it only a part may have been told.
            self._already_sent = (found[0].xid, wanted)
            return Cursor(xid=found[0].xid)
        since = lowest_id_at(min(id_time(wanted), datetime.now(UTC)) - OVERLAP)
        async with self._desk.db.read_transaction(Viewer.operator(self._desk.org_id)) as conn:
            return await outbox.cursor_since(conn, self._desk.org_id, since)

    async def _wait(self) -> None:
        """Wait until there may be something to read."""
        rung = self._changed
        assert rung is not None
        if self._poll_seconds:
            with suppress(TimeoutError):
                await asyncio.wait_for(rung.wait(), self._poll_seconds)
                # What many write at once is read together.
                early = self._read_at + COALESCE_SECONDS - asyncio.get_running_loop().time()
                await asyncio.sleep(max(early, 0.0))
        rung.clear()

    async def _read(self) -> None:
        """Read what comes next, as far as it is settled, and say how long to wait before the next read."""
        assert self._cursor is not None
        self._read_at = asyncio.get_running_loop().time()
        async with self._notifier.read_slots:
            await self._desk.check_viewer(self._viewer, ACTION)
            with translate_connection_errors():
                async with self._desk.db.read_transaction(Viewer.operator(self._desk.org_id)) as conn:
                    found = await outbox.read_after(
                        conn, self._desk.org_id, self._cursor, room_id=self._room_id, limit=BATCH
                    )
                settled = _first_batch(list(takewhile(lambda change: change.is_settled, found)))
                visible = await self._visible(settled)
        if settled:
            last = settled[-1]
            self._cursor = replace(self._cursor, xid=last.xid, id=last.id)
            told, self._already_sent = self._already_sent, None
            self._ready.extend(
                event for group in _coalesce(settled, after=told) for event in _events(group, visible)
            )
        self._poll_seconds = self._next_poll(found, settled)

    def _next_poll(self, found: Sequence[Change], settled: Sequence[Change]) -> float:
        if len(settled) == len(found) < BATCH:
            # All that there was: what comes rings.
            return POLL_SECONDS
        if settled:
            return 0.0
        # Nobody tells when the transaction ends that this waits for.
        return (
            FIRST_POLL_SECONDS
            if self._poll_seconds > MAX_POLL_SECONDS
            else min(max(2 * self._poll_seconds, FIRST_POLL_SECONDS), MAX_POLL_SECONDS)
        )

    async def _visible(self, found: Sequence[Change]) -> set[UUID]:
        ids = {subject_id for change in found for subject_id in change.subject_ids}
        if not ids:
            return set()
        # As the viewer, and without what wishes keep from them.
        async with self._desk.db.read_transaction(self._viewer, apply_restrictions=True) as conn:
            return await outbox.visible_ids(conn, self._desk.org_id, ids)


def _event_id(word: str) -> UUID:
    try:
        found = UUID(word)
    except ValueError:
        found = None
    if found is None or found.version != VERSION:
        raise BadInput("after", "must be the id of an event; leave it out to begin now")
    return found


def _first_batch(found: list[Change]) -> list[Change]:
    """Return the first of these that are not about too much together, to the end of a transaction; one at least."""
    count = 0
    for place, change in enumerate(found):
        if count > MOST_SUBJECTS and change.xid != found[place - 1].xid:
            return found[:place]
        count += len(change.subject_ids)
    return found


def _coalesce(found: Sequence[Change], *, after: tuple[str, UUID] | None) -> list[list[Change]]:
    """Return changes with those of the same transaction, room and kind, each group where its last stands.

    Of one transaction those that stand after an id: the rest was told.
    """
    groups: dict[tuple[str, RoomId | None, ChangeKind], list[Change]] = {}
    for change in found:
        # Put in anew: in the order of the last of each.
        key = (change.xid, change.room_id, change.kind)
        group = groups.pop(key, [])
        group.append(change)
        groups[key] = group
    xid, told = after or (None, None)
    return [group for group in groups.values() if group[-1].xid != xid or told is None or group[-1].id > told]


def _events(group: Sequence[Change], visible: set[UUID]) -> list[Event]:
    """Return what is told of a group, divided by what is seen: how it was noted would tell how much is not."""
    seen = sorted(one for change in group for one in change.subject_ids if one in visible)
    parts = [seen[start : start + outbox.MAX_CHANGES] for start in range(0, len(seen), outbox.MAX_CHANGES)]
    # The last part has the id of the whole.
    with_ids = zip(group[len(group) - len(parts) :], parts, strict=True)
    return [
        Event(id=change.id, kind=change.kind, room=change.room_id, subjects=part, at=change.noted_at)
        for change, part in with_ids
    ]
