"""The rooms a viewer may see, page by page, or by name alone."""

from collections.abc import Sequence
from dataclasses import dataclass

from roomlore.app.desk import Access
from roomlore.domain.errors import NotFound
from roomlore.domain.ids import RoomId
from roomlore.domain.records import Room, Viewer
from roomlore.domain.retention import RetentionPolicy
from roomlore.retrieval import meant
from roomlore.store import erased
from roomlore.store import timeline as store
from roomlore.store.timeline import RoomHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomDirectory:
    """Reads rooms."""

    access: Access

    async def page(
        self, viewer: Viewer, *, named: str = "", skip: int = 0, limit: int = 100
    ) -> tuple[list[Room], bool]:
        """Return rooms with a part of a name, most recently active first, and whether there are others after them."""
        async with self.access.reading(viewer, "list rooms") as reading:
            found = await store.rooms(reading.conn, viewer, named=named, skip=skip, limit=limit + 1)
            reading.record_shown(room.id for room in found[:limit])
        return found[:limit], len(found) > limit

    async def one(self, viewer: Viewer, room: str) -> RoomHeader:
        """Return a room.

        Raises:
            NotFound: there is no such room, or the viewer may not see it.
            BadInput: several are meant.
        """
        async with self.access.reading(viewer, "read room") as reading:
            room_id = await meant.room(reading.conn, self.access.org_id, room)
            reading.record_shown([room_id])
            found = await store.room(reading.conn, self.access.org_id, room_id)
        if found is None:
            raise NotFound("room", room)
        return found

    async def retention(self, viewer: Viewer, room_id: RoomId) -> RetentionPolicy:
        """Return how long a room keeps what was said.

        Raises:
            NotFound: there is no such room, or the viewer may not see it.
        """
        async with self.access.reading(viewer, "read room") as reading:
            reading.record_shown([room_id])
            return await erased.retention_of(reading.conn, self.access.org_id, room_id)

    async def names(self, viewer: Viewer, *, limit: int) -> Sequence[RoomHeader]:
        """Return rooms by name, without going through what was said in them."""
        async with self.access.reading(viewer, "list rooms") as reading:
            found = await store.room_headers(reading.conn, self.access.org_id, limit=limit)
            reading.record_shown(room.id for room in found)
        return found
