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
from roomlore.store.db import recalling
from roomlore.store.queries import Connection
from roomlore.store.timeline import Position, Side, Wanted

#: Characters of a message that are shown among others; the rest has a page of its own.
LONGEST = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Which part of a room is wanted: by default its newest messages; else what is around one place."""

    #: Around this message.
    at: str | None = None
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
class Found:
    """What a part of a room is: its messages, oldest first, and from where there may be others on either side."""

    said: Sequence[Message]
    #: The messages before and after which to look on; None where there is nothing.
    earlier: MessageId | None
    later: MessageId | None
    sought: MessageId | None = None


async def wanted_of(conn: Connection, viewer: Viewer, part: Part) -> Wanted:
    """Return what narrows a part, as the viewer may know of it.

    Raises:
        NotFound: the author is nobody, or nobody the viewer may know of.
        BadInput: several are meant.
    """
    accounts = None if part.author is None else await meant.person(conn, viewer, part.author)
    return Wanted(
        author_ids=None if accounts is None else [account.id for account in accounts],
        author_kinds=None if part.kinds is None else list(part.kinds),
        is_remembered=part.is_remembered,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Looking:
    """Looks for a part of a room."""

    conn: Connection
    org_id: OrgId
    room_id: RoomId
    wanted: Wanted
    limit: int

    async def part(self, part: Part) -> Found:
        """Return a part; from the newest messages where nothing was said at its day or after it.

        Raises:
            NotFound: there is no such message in the room, or the viewer may not see it.
        """
        word = part.at or part.before or part.after
        if word is not None:
            middle = await meant.message(self.conn, self.org_id, word, room_id=self.room_id)
            return await self._beside(middle, part)
        return (await self._since(part.day) if part.day else None) or await self._newest()

    async def _beside(self, middle: Message, part: Part) -> Found:
        place = store.at(middle)
        if part.at is not None:
            above, earlier = await self._earlier(place, self.limit // 2)
            below, later = await self._later(place, self.limit // 2)
            return Found(said=[*above, middle, *below], earlier=earlier, later=later, sought=middle.id)
        if part.after is not None:
            said, later = await self._later(place, self.limit)
            return Found(said=said, earlier=_first(said) or middle.id, later=later)
        said, earlier = await self._earlier(place, self.limit)
        return Found(said=said, earlier=earlier, later=_last(said) or middle.id)

    async def _since(self, day: date) -> Found | None:
        morning = store.just_before(datetime.combine(day, time(), UTC))
        said, later = await self._later(morning, self.limit)
        above, earlier = await self._earlier(morning, 1)
        if not said and later is None:
            return None
        return Found(said=said, earlier=_first(said) if above else earlier, later=later)

    async def _newest(self) -> Found:
        said, earlier = await self._earlier(store.END, self.limit)
        return Found(said=said, earlier=earlier, later=None)

    async def _earlier(self, place: Position, most: int) -> tuple[list[Message], MessageId | None]:
        """Return what is wanted before a place, oldest first, and before which message to look on."""
        side = Side(org_id=self.org_id, room_id=self.room_id, place=place, is_before=True)
        found, onward = await self._on(side, most)
        return found[::-1], onward

    async def _later(self, place: Position, most: int) -> tuple[list[Message], MessageId | None]:
        side = Side(org_id=self.org_id, room_id=self.room_id, place=place, is_before=False)
        return await self._on(side, most)

    async def _on(self, side: Side, most: int) -> tuple[list[Message], MessageId | None]:
        """Return what is wanted on a side of a place, the nearest first, and from where to look on."""
        if self.wanted.is_everything:
            found = await side.messages(self.conn, limit=most + 1, most=LONGEST + 1)
            return found[:most], found[most - 1].id if len(found) > most else None
        ids = await self._kept(side, most + 1)
        said = await messages.messages_by_id(self.conn, self.org_id, ids[:most], most=LONGEST + 1)
        by_id = {one.id: one for one in said}
        kept = [by_id[one] for one in ids[:most] if one in by_id]
        if len(ids) > most:
            return kept, ids[most - 1]
        return kept, None if self.wanted.is_remembered else await side.reached(self.conn)

    async def _kept(self, side: Side, most: int) -> list[MessageId]:
        if not self.wanted.is_remembered:
            return await side.kept(self.conn, self.wanted, limit=most)
        # What is remembered counts where its page would show it, which is not where a wish keeps it away.
        async with recalling(self.conn):
            return await side.kept(self.conn, self.wanted, limit=most)


def _first(said: Sequence[Message]) -> MessageId | None:
    return said[0].id if said else None


def _last(said: Sequence[Message]) -> MessageId | None:
    return said[-1].id if said else None
