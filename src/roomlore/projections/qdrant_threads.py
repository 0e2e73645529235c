"""Whole exchanges out of a copy in Qdrant, a page at a time.

The server pages by time, and knows no order among what was sent at the same time. So places are told apart by id
besides, and nothing that lies at a boundary is lost or comes twice. Needs the extra: only what has made
sure of it imports this.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from roomlore.domain.errors import BadInput
from roomlore.domain.ids import MessageId
from roomlore.domain.projections import QueryFilter, VisibilityFilter
from roomlore.projections.qdrant_connection import QdrantConnection, visible_filter
from roomlore.projections.qdrant_positions import QdrantPosition, ThreadMember, ThreadPage

#: Points that are asked for at once.
_PAGE = 1000
#: A stretch of messages is so many times as long as exchanges are wanted: few have more answers. But no shorter than
#: this, for one long exchange may have to be walked through.
_SPAN, _SHORTEST = 4, 100
_LAST_ID = UUID(int=2**128 - 1)
_EVERYWHERE = QueryFilter()


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadReader:
    """A way through what a viewer may read in a collection."""

    wire: QdrantConnection
    name: str
    sight: VisibilityFilter
    narrowing: QueryFilter

    async def next_members(self, place: QdrantPosition | None, *, size: int) -> list[ThreadMember]:
        """Return what is next behind a place: about so much, and nothing only where nothing is left."""
        stretch: list[ThreadMember] = []
        if place is not None and place.message_id != _LAST_ID:
            stretch = await self._sent_at(place.sent_at, since=UUID(int=place.message_id.int + 1), size=size)
        if len(stretch) == size:
            return stretch
        later = await self._members(behind=None if place is None else place.sent_at, limit=size, by_time=True)
        if len(later) == size:
            # The page may end amid messages of the same time, and in no order among them.
            last = max(member.position.sent_at for member in later)
            later = [member for member in later if member.position.sent_at < last]
            later += await self._sent_at(last, since=None, size=size)
        return stretch + sorted(later, key=_position_key)

    async def _sent_at(self, moment: datetime, *, since: UUID | None, size: int) -> list[ThreadMember]:
        return await self._members(at=moment, since=since, limit=size)

    async def first_positions(self, exchange_ids: Sequence[MessageId]) -> dict[MessageId, QdrantPosition]:
        """Return where each exchange begins, as far as it lies within the narrowing."""
        first: dict[MessageId, QdrantPosition] = {}
        for member in sorted(await self._all(exchange_ids, self.narrowing), key=_position_key):
            first.setdefault(member.exchange_id, member.position)
        return first

    async def whole_threads(self, exchange_ids: Sequence[MessageId]) -> list[list[MessageId]]:
        """Return the messages of each exchange in room order, of whatever lies within sight."""
        whole: dict[MessageId, list[MessageId]] = {one: [] for one in exchange_ids}
        for member in sorted(await self._all(exchange_ids, _EVERYWHERE), key=_room_order_key):
            whole[member.exchange_id].append(member.position.message_id)
        # What has gone meanwhile is no exchange any more.
        return [members for members in whole.values() if members]

    async def _all(self, exchange_ids: Sequence[MessageId], narrowing: QueryFilter) -> list[ThreadMember]:
        found: list[ThreadMember] = []
        while exchange_ids:
            since = UUID(int=found[-1].position.message_id.int + 1) if found else None
            page = await self._members(narrowing, exchange_ids=exchange_ids, since=since, limit=_PAGE)
            found += page
            if len(page) < _PAGE:
                break
        return found

    async def _members(
        self,
        narrowing: QueryFilter | None = None,
        *,
        limit: int,
        at: datetime | None = None,
        behind: datetime | None = None,
        exchange_ids: Sequence[MessageId] | None = None,
        since: UUID | None = None,
        by_time: bool = False,
    ) -> list[ThreadMember]:
        chosen = self.narrowing if narrowing is None else narrowing
        seen = visible_filter(self.sight, chosen, at=at, behind=behind, exchange_ids=exchange_ids)
        return await self.wire.members(self.name, seen, limit=limit, since=since, by_time=by_time)


async def thread_page(
    wire: QdrantConnection,
    name: str,
    *,
    sight: VisibilityFilter,
    narrowing: QueryFilter,
    after: QdrantPosition | None,
    limit: int,
) -> ThreadPage:
    """Return the exchanges of which something lies within the narrowing, earliest first.

    Raises:
        BackendUnavailable: the server fails.
        BadInput: the limit is below 1.
    """
    if limit < 1:
        raise BadInput("limit", "must be at least 1")
    walk = ThreadReader(wire=wire, name=name, sight=sight, narrowing=narrowing)
    begun: dict[MessageId, QdrantPosition] = {}
    first: dict[MessageId, QdrantPosition] = {}
    place, size = after, min(max(limit * _SPAN, _SHORTEST), _PAGE)
    while len(begun) < limit and (stretch := await walk.next_members(place, size=size)):
        met = dict.fromkeys(member.exchange_id for member in stretch)
        first |= await walk.first_positions([one for one in met if one not in first])
        # Others that are met here began on a page before.
        starting = [member for member in stretch if first.get(member.exchange_id) == member.position]
        begun |= {member.exchange_id: member.position for member in starting}
        place = stretch[-1].position
    shown = list(begun)[:limit]
    following = begun[shown[-1]] if len(shown) == limit else None
    return ThreadPage(threads=await walk.whole_threads(shown), after=following)


def _position_key(member: ThreadMember) -> tuple[datetime, MessageId]:
    return (member.position.sent_at, member.position.message_id)


def _room_order_key(member: ThreadMember) -> tuple[datetime, int, MessageId]:
    return (member.position.sent_at, member.native_order, member.position.message_id)
