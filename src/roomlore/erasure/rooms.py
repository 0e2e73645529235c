"""A room goes whole: all that was said in it, all that was made of it, its members and its name."""

from collections import Counter
from datetime import UTC, datetime

from roomlore.domain.ids import OrgId, RoomId
from roomlore.erasure.messages import RoomRange, delete_range
from roomlore.store import erasing, rooms
from roomlore.store.queries import Connection

#: After whatever is said.
_END = datetime(9999, 12, 31, tzinfo=UTC)


async def erase_room(conn: Connection, org_id: OrgId, room_id: RoomId, *, at: datetime) -> Counter[str]:
    """Remove a room and keep it out from now on; return how much of what went."""
    room = await rooms.room_state(conn, org_id, room_id)
    tally = await delete_range(conn, org_id, RoomRange(room_id=room_id, since=None, until=_END))
    asserted = await rooms.memories_asserted_in(conn, org_id, room_id)
    tally.update(await erasing.drop_memories(conn, org_id, asserted))
    tally.update(await rooms.drop(conn, org_id, room, at=at))
    del tally["wishes without words"]
    return tally
