"""Events: a stream of changes that a viewer may see, in commit order.

A waiting stream holds no connection. One connection per process listens for notifications, and every stream also polls.
The database checks the visibility of every event when it is delivered.
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

#: The audited action. There is one line for each stream, not for each event.
ACTION = "read events"
#: The polling interval without notifications. If a key is revoked, its streams end after at most this time.
POLL_SECONDS = 5.0
#: The first and the longest polling interval while a change waits for an open transaction that may come before it.
FIRST_POLL_SECONDS, MAX_POLL_SECONDS = 0.02, 1.0
#: The shortest time between two reads of a stream.
COALESCE_SECONDS = 0.15
#: The number of streams of a process that may read at the same time, so that connections are left for other reads.
READERS = 2
#: The limits of changes and of subjects in one read. A read exceeds a limit to include a transaction whole.
BATCH, MOST_SUBJECTS = 100, 10_000
#: A stream that resumes after an unknown event begins this much earlier, because older transactions may commit later.
OVERLAP = timedelta(minutes=1)
VERSION = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A change that the viewer may see."""

    id: UUID
    #: For example `message.added` or `memory.changed`.
    kind: ChangeKind
    #: None for memories without a source message.
    room: RoomId | None
    #: The ids of messages, memories or conversations, depending on the kind.
    subjects: Sequence[UUID]
    at: datetime


@dataclass(slots=True)
class Notifier:
    """Wakes the waiting streams of a process. It listens only while a stream waits."""

    read_slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(READERS))
    _subscribers: dict[OrgId, WeakSet[asyncio.Event]] = field(
        default_factory=dict[OrgId, "WeakSet[asyncio.Event]"]
    )
    _listener: asyncio.Task[None] | None = None

    def subscribe(self, db: Database, org_id: OrgId) -> asyncio.Event:
        """Return an event that is set on every change of an org, as long as the caller holds the event."""
        changed = asyncio.Event()
        self._subscribers.setdefault(org_id, WeakSet()).add(changed)
        if self._listener is None or self._listener.done():
            self._listener = asyncio.create_task(self._listen(db))
        return changed

    async def _listen(self, db: Database) -> None:
        while self._has_subscribers():
            try:
                with translate_connection_errors():
                    async with db.listening(outbox.CHANNEL) as notices:
                        # Changes may have been missed before the connection listened.
                        self._notify(list(self._subscribers))
                        while self._has_subscribers():
                            self._notify([OrgId(UUID(org_id)) for org_id in await notices(MAX_POLL_SECONDS)])
            except DatabaseUnavailable:
                # The streams poll meanwhile.
                await asyncio.sleep(MAX_POLL_SECONDS)

    def _notify(self, org_ids: Sequence[OrgId]) -> None:
        for org_id in org_ids:
            for changed in self._subscribers.get(org_id, ()):
                changed.set()

    def _has_subscribers(self) -> bool:
        self._subscribers = {org_id: waiting for org_id, waiting in self._subscribers.items() if waiting}
        return bool(self._subscribers)


class EventStream:
    """The events that a viewer may see. The stream has no end.

    Iterating raises KeyRefused once the caller's key is invalid, NotAllowed if the caller may not read as the viewer,
    NotFound if there is no such room, and BadInput if `after` is not the id of an event.
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
        self._access, self._notifier, self._viewer = access, notifier, viewer
        self._room, self._after = room, after
        self._room_id: RoomId | None = None
        self._cursor: Cursor | None = None
        #: The transaction where the stream resumes, and the last event of this transaction that was delivered.
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
        """Wait for the next event and return it."""
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
        """End the stream, even while a caller waits for its next event."""
        self._is_closed = True
        changed, self._changed = self._changed, None
        if changed is not None:
            changed.set()

    async def start(self) -> None:
        """Find the position where the stream begins. Raises the errors of the stream."""
        if self._cursor is not None:
            return
        after, org_id = None if self._after is None else _event_id(self._after), self._access.org_id
        # Subscribe first, so that no change after the cursor is missed.
        changed = self._notifier.subscribe(self._access.db, org_id)
        async with self._notifier.read_slots:
            cursor = await (self._current_cursor() if after is None else self._cursor_after(after))
        # Write the audit line afterwards, so that the line means that the stream has begun.
        async with self._access.reading(self._viewer, ACTION) as reading:
            if self._room is not None:
                self._room_id = await lookup.room(reading.conn, org_id, self._room)
                reading.record_shown([self._room_id])
        self._changed, self._cursor = changed, cursor

    async def _current_cursor(self) -> Cursor:
        async with self._access.db.read_transaction(Viewer.operator(self._access.org_id)) as conn:
            return await outbox.current_cursor(conn)

    async def _cursor_after(self, event_id: UUID) -> Cursor:
        """Return the cursor just after an event.

        If the viewer may not see the event or the event is gone, return a cursor well before it.
        """
        org_id = self._access.org_id
        async with self._access.db.read_transaction(Viewer.operator(org_id)) as conn:
            siblings = await outbox.siblings(conn, org_id, event_id)
        if await self._visible(siblings):
            # Read the whole transaction of the event again: its later events were perhaps not delivered.
            self._already_sent = (siblings[0].xid, event_id)
            return Cursor(xid=siblings[0].xid)
        since = lowest_id_at(min(id_time(event_id), datetime.now(UTC)) - OVERLAP)
        async with self._access.db.read_transaction(Viewer.operator(org_id)) as conn:
            return await outbox.cursor_since(conn, org_id, since)

    async def _wait(self) -> None:
        changed = self._changed
        assert changed is not None
        if self._poll_seconds:
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), self._poll_seconds)
                # Read the changes of many writers together.
                early = self._read_at + COALESCE_SECONDS - asyncio.get_running_loop().time()
                await asyncio.sleep(max(early, 0.0))
        changed.clear()

    async def _read(self) -> None:
        """Read the settled changes, and set the time of the next poll.

        A change is settled once no open transaction can come before it.
        """
        assert self._cursor is not None
        org_id = self._access.org_id
        self._read_at = asyncio.get_running_loop().time()
        async with self._notifier.read_slots:
            with translate_connection_errors():
                async with self._access.db.read_transaction(Viewer.operator(org_id)) as conn:
                    found = await outbox.read_after(
                        conn, org_id, self._cursor, room_id=self._room_id, limit=BATCH
                    )
                settled = _first_batch(list(takewhile(lambda change: change.is_settled, found)))
                visible = await self._visible(settled)
            # Check the key after the read, so that nothing is delivered that came after the key was revoked.
            await self._access.check_viewer(self._viewer, ACTION)
        if settled:
            last = settled[-1]
            self._cursor = replace(self._cursor, xid=last.xid, id=last.id)
            already_sent, self._already_sent = self._already_sent, None
            self._ready.extend(
                event
                for group in _coalesce(settled, already_sent=already_sent)
                for event in _events(group, visible)
            )
        self._poll_seconds = self._next_poll(found, settled)

    def _next_poll(self, found: Sequence[Change], settled: Sequence[Change]) -> float:
        if len(settled) == len(found) < BATCH:
            # Nothing is left, and new changes notify.
            return POLL_SECONDS
        if settled:
            return 0.0
        # The end of the open transaction does not notify.
        if self._poll_seconds > MAX_POLL_SECONDS:
            return FIRST_POLL_SECONDS
        return min(max(2 * self._poll_seconds, FIRST_POLL_SECONDS), MAX_POLL_SECONDS)

    async def _visible(self, changes: Sequence[Change]) -> set[UUID]:
        ids = {subject_id for change in changes for subject_id in change.subject_ids}
        if not ids:
            return set()
        async with self._access.db.read_transaction(self._viewer, apply_restrictions=True) as conn:
            return await outbox.visible_ids(conn, self._access.org_id, ids)


def _event_id(word: str) -> UUID:
    try:
        key = UUID(word)
    except ValueError:
        key = None
    if key is None or key.version != VERSION:
        raise BadInput("after", "must be the id of an event; leave it out to begin now")
    return key


def _first_batch(changes: list[Change]) -> list[Change]:
    """Return the first changes, up to the end of the transaction in which their subjects exceed `MOST_SUBJECTS`.

    If this limit is never exceeded, return all changes.
    """
    count = 0
    for index, change in enumerate(changes):
        if count > MOST_SUBJECTS and change.xid != changes[index - 1].xid:
            return changes[:index]
        count += len(change.subject_ids)
    return changes


def _coalesce(changes: Sequence[Change], *, already_sent: tuple[str, UUID] | None) -> list[list[Change]]:
    """Group changes by transaction, room and kind, ordered by the last change of each group.

    `already_sent` is a transaction and its last delivered event. Groups of this transaction up to this event are
    left out.
    """
    groups: dict[tuple[str, RoomId | None, ChangeKind], list[Change]] = {}
    for change in changes:
        # Insert the group again, so that the order is that of its last change.
        key = (change.xid, change.room_id, change.kind)
        groups[key] = [*groups.pop(key, []), change]
    if already_sent is None:
        return list(groups.values())
    xid, event_id = already_sent
    return [group for group in groups.values() if group[-1].xid != xid or group[-1].id > event_id]


def _events(group: Sequence[Change], visible: set[UUID]) -> list[Event]:
    """Return the events of a group of changes.

    The visible subjects are divided anew among the events, because the original division would reveal hidden subjects.
    """
    seen = sorted(key for change in group for key in change.subject_ids if key in visible)
    parts = [seen[start : start + outbox.MAX_CHANGES] for start in range(0, len(seen), outbox.MAX_CHANGES)]
    # The last part has the id of the last change.
    return [
        Event(id=change.id, kind=change.kind, room=change.room_id, subjects=part, at=change.noted_at)
        for change, part in zip(group[len(group) - len(parts) :], parts, strict=True)
    ]
