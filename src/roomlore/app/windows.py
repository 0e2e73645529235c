"""Windows: which messages of a room are shown, around a place or from one on, and whether there are others."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time

from roomlore.domain.ids import MessageId, OrgId, RoomId
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.records import Message, Viewer
from roomlore.retrieval import meant
from roomlore.store import messages
from roomlore.store import timeline as store
from roomlore.store.db import with_restrictions
from roomlore.store.queries import Connection
from roomlore.store.timeline import Position, TimelineSide, TimelineFilter

#: Characters of a message that are shown among others; the rest has a page of its own.
MAX_SCANNED = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRequest:
    """Which part of a room is wanted: by default its newest messages; else what is around one place."""

    #: Around this message.
    around: str | None = None
    #: Just before, or just after, this message.
    before: str | None = None
    after: str | None = None
    #: From this day on, in UTC.
    day: date | None = None
    #: Only of this person, by whatever account.
    author: str | None = None
    #: Only of authors of these kinds.
    kinds: Sequence[ParticipantKind] | None = None
    #: Only what a memory rests on that stands.
    is_remembered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageWindow:
    """What a part of a room is: its messages, oldest first, and from where there may be others on either side."""

    said: Sequence[Message]
    #: The messages before and after which to look on; None where there is nothing.
    earlier: MessageId | None
    later: MessageId | None
    sought: MessageId | None = None


async def resolve_window_filter(conn: Connection, viewer: Viewer, request: WindowRequest) -> TimelineFilter:
    """Return what narrows a part, as the viewer may know of it.

    Raises:
        NotFound: the author is nobody, or nobody the viewer may know of.
        BadInput: several are meant.
    """
    accounts = None if request.author is None else await meant.accounts_of_person(conn, viewer, request.author)
    return TimelineFilter(
        author_ids=None if accounts is None else [account.id for account in accounts],
        author_kinds=None if request.kinds is None else list(request.kinds),
        is_remembered=request.is_remembered,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowReader:
    """Looks for a part of a room."""

    conn: Connection
    org_id: OrgId
    room_id: RoomId
    wanted: TimelineFilter
    limit: int

    async def window(self, request: WindowRequest) -> MessageWindow:
        """Return a part; from the newest messages where nothing was said at its day or after it.

        Raises:
            NotFound: there is no such message in the room, or the viewer may not see it.
        """
        word = request.around or request.before or request.after
        if word is not None:
            middle = await meant.message(self.conn, self.org_id, word, room_id=self.room_id)
            return await self._around(middle, request)
        return (await self._from_day(request.day) if request.day else None) or await self._newest()

    async def _around(self, middle: Message, part: WindowRequest) -> MessageWindow:
        place = store.position_of(middle)
        if part.around is not None:
            above, earlier = await self._earlier(place, self.limit // 2)
            below, later = await self._later(place, self.limit // 2)
            return MessageWindow(said=[*above, middle, *below], earlier=earlier, later=later, sought=middle.id)
        if part.after is not None:
            said, later = await self._later(place, self.limit)
            return MessageWindow(said=said, earlier=_first(said) or middle.id, later=later)
        said, earlier = await self._earlier(place, self.limit)
        return MessageWindow(said=said, earlier=earlier, later=_last(said) or middle.id)

    async def _from_day(self, day: date) -> MessageWindow | None:
        morning = store.position_before(datetime.combine(day, time(), UTC))
        said, later = await self._later(morning, self.limit)
        above, earlier = await self._earlier(morning, 1)
        if not said and later is None:
            return None
        return MessageWindow(said=said, earlier=_first(said) if above else earlier, later=later)

    async def _newest(self) -> MessageWindow:
        said, earlier = await self._earlier(store.END, self.limit)
        return MessageWindow(said=said, earlier=earlier, later=None)

    async def _earlier(self, place: Position, most: int) -> tuple[list[Message], MessageId | None]:
        """Return what is wanted before a place, oldest first, and before which message to look on."""
        side = TimelineSide(org_id=self.org_id, room_id=self.room_id, place=place, is_before=True)
        found, onward = await self._on(side, most)
        return found[::-1], onward

    async def _later(self, place: Position, most: int) -> tuple[list[Message], MessageId | None]:
        side = TimelineSide(org_id=self.org_id, room_id=self.room_id, place=place, is_before=False)
        return await self._on(side, most)

    async def _on(self, side: TimelineSide, most: int) -> tuple[list[Message], MessageId | None]:
        """Return what is wanted on a side of a place, the nearest first, and from where to look on."""
        if self.wanted.is_unfiltered:
            found = await side.messages(self.conn, limit=most + 1, most=MAX_SCANNED + 1)
            return found[:most], found[most - 1].id if len(found) > most else None
        ids = await self._matching_ids(side, most + 1)
        said = await messages.messages_by_id(self.conn, self.org_id, ids[:most], most=MAX_SCANNED + 1)
        by_id = {one.id: one for one in said}
        kept = [by_id[one] for one in ids[:most] if one in by_id]
        if len(ids) > most:
            return kept, ids[most - 1]
        return kept, None if self.wanted.is_remembered else await side.scan_end(self.conn)

    async def _matching_ids(self, side: TimelineSide, most: int) -> list[MessageId]:
        if not self.wanted.is_remembered:
            return await side.matching_ids(self.conn, self.wanted, limit=most)
        # What is remembered counts where its page would show it, which is not where a wish keeps it away.
        async with with_restrictions(self.conn):
            return await side.matching_ids(self.conn, self.wanted, limit=most)


def _first(said: Sequence[Message]) -> MessageId | None:
    return said[0].id if said else None


def _last(said: Sequence[Message]) -> MessageId | None:
    return said[-1].id if said else None
