"""Whole exchanges out of a copy in Qdrant, a page at a time.

The server pages by time, and knows no order among what was sent at the same time. So places are told apart by id
besides, and nothing that lies at a boundary is lost or comes twice. Needs the extra: only what has made
sure of it imports this.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from roomlore.backends.qdrantfilter import within
from roomlore.backends.qdrantplaces import ExchangePage, Member, Place
from roomlore.backends.qdrantwire import Wire
from roomlore.domain.errors import BadInput
from roomlore.domain.ids import MessageId
from roomlore.domain.projected import Narrowing, Sight

#: Points that are asked for at once.
_PAGE = 1000
#: A stretch of messages is so many times as long as exchanges are wanted: few have more answers. But no shorter than
#: this, for one long exchange may have to be walked through.
_SPAN, _SHORTEST = 4, 100
_LAST_ID = UUID(int=2**128 - 1)
_EVERYWHERE = Narrowing()


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """A way through what a viewer may read in a collection."""

    wire: Wire
    name: str
    sight: Sight
    narrowing: Narrowing

    async def stretch(self, place: Place | None, *, size: int) -> list[Member]:
        """Return what is next behind a place: about so much, and nothing only where nothing is left."""
        stretch: list[Member] = []
        if place is not None and place.id != _LAST_ID:
            stretch = await self._sent_at(place.sent_at, since=UUID(int=place.id.int + 1), size=size)
        if len(stretch) == size:
            return stretch
        later = await self._members(behind=None if place is None else place.sent_at, limit=size, by_time=True)
        if len(later) == size:
            # The page may end amid messages of the same time, and in no order among them.
            last = max(member.place.sent_at for member in later)
            later = [member for member in later if member.place.sent_at < last]
            later += await self._sent_at(last, since=None, size=size)
        return stretch + sorted(later, key=_by_place)

    async def _sent_at(self, moment: datetime, *, since: UUID | None, size: int) -> list[Member]:
        return await self._members(at=moment, since=since, limit=size)

    async def first_places(self, exchange_ids: Sequence[MessageId]) -> dict[MessageId, Place]:
        """Return where each exchange begins, as far as it lies within the narrowing."""
        first: dict[MessageId, Place] = {}
        for member in sorted(await self._all(exchange_ids, self.narrowing), key=_by_place):
            first.setdefault(member.exchange_id, member.place)
        return first

    async def whole(self, exchange_ids: Sequence[MessageId]) -> list[list[MessageId]]:
        """Return the messages of each exchange in room order, of whatever lies within sight."""
        whole: dict[MessageId, list[MessageId]] = {one: [] for one in exchange_ids}
        for member in sorted(await self._all(exchange_ids, _EVERYWHERE), key=_by_room_order):
            whole[member.exchange_id].append(member.place.id)
        # What has gone meanwhile is no exchange any more.
        return [members for members in whole.values() if members]

    async def _all(self, exchange_ids: Sequence[MessageId], narrowing: Narrowing) -> list[Member]:
        found: list[Member] = []
        while exchange_ids:
            since = UUID(int=found[-1].place.id.int + 1) if found else None
            page = await self._members(narrowing, exchange_ids=exchange_ids, since=since, limit=_PAGE)
            found += page
            if len(page) < _PAGE:
                break
        return found

    async def _members(
        self,
        narrowing: Narrowing | None = None,
        *,
        limit: int,
        at: datetime | None = None,
        behind: datetime | None = None,
        exchange_ids: Sequence[MessageId] | None = None,
        since: UUID | None = None,
        by_time: bool = False,
    ) -> list[Member]:
        chosen = self.narrowing if narrowing is None else narrowing
        seen = within(self.sight, chosen, at=at, behind=behind, exchange_ids=exchange_ids)
        return await self.wire.members(self.name, seen, limit=limit, since=since, by_time=by_time)


async def page(
    wire: Wire, name: str, *, sight: Sight, narrowing: Narrowing, after: Place | None, limit: int
) -> ExchangePage:
    """Return the exchanges of which something lies within the narrowing, earliest first.

    Raises:
        BackendUnavailable: the server fails.
        BadInput: the limit is below 1.
    """
    if limit < 1:
        raise BadInput("limit", "must be at least 1")
    walk = Walk(wire=wire, name=name, sight=sight, narrowing=narrowing)
    begun: dict[MessageId, Place] = {}
    first: dict[MessageId, Place] = {}
    place, size = after, min(max(limit * _SPAN, _SHORTEST), _PAGE)
    while len(begun) < limit and (stretch := await walk.stretch(place, size=size)):
        met = dict.fromkeys(member.exchange_id for member in stretch)
        first |= await walk.first_places([one for one in met if one not in first])
        # Others that are met here began on a page before.
        starting = [member for member in stretch if first.get(member.exchange_id) == member.place]
        begun |= {member.exchange_id: member.place for member in starting}
        place = stretch[-1].place
    shown = list(begun)[:limit]
    following = begun[shown[-1]] if len(shown) == limit else None
    return ExchangePage(exchanges=await walk.whole(shown), after=following)


def _by_place(member: Member) -> tuple[datetime, MessageId]:
    return (member.place.sent_at, member.place.id)


def _by_room_order(member: Member) -> tuple[datetime, int, MessageId]:
    return (member.place.sent_at, member.native_order, member.place.id)
