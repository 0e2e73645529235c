"""Messages go with everything that hangs on them: as holes, which keep their places, or altogether.

Large numbers go in portions, so that no statement carries more ids than it should.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from roomlore.domain.ids import OrgId, ParticipantId, RoomId
from roomlore.store import changes, erasing
from roomlore.store.erasing import MessageToErase
from roomlore.store.queries import Connection
from roomlore.wishes import hearing

#: How many messages one statement takes.
BATCH_SIZE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomRange:
    """A time in a room; without `since` from its beginning."""

    room_id: RoomId
    since: datetime | None
    until: datetime


async def erase_messages(
    conn: Connection, org_id: OrgId, doomed: Sequence[MessageToErase], *, at: datetime
) -> Counter[str]:
    """Leave holes in place of messages, and return how much of what went."""
    ids = [message.id for message in doomed]
    tally = Counter(await erasing.drop_derived(conn, org_id, ids))
    tally.update(await erasing.drop_message_details(conn, org_id, ids))
    tally.update(await erasing.remove_from_conversations(conn, org_id, ids))
    tally["messages"] += await erasing.make_tombstones(conn, org_id, ids, at=at)
    await changes.remove_messages(conn, org_id, ids)
    # A hole keeps its id, and is seen by those alone who saw the message: of a whisper by nobody.
    await changes.append(conn, org_id, "message.erased", ids)
    await _refresh_rooms(conn, org_id, doomed)
    return tally


async def erase_messages_by(
    conn: Connection, org_id: OrgId, authors: Sequence[ParticipantId], *, at: datetime
) -> Counter[str]:
    """Leave holes in place of everything that authors wrote, and return how much of what went."""
    tally = Counter[str]()
    while doomed := await erasing.messages_by(conn, org_id, authors, limit=BATCH_SIZE):
        tally.update(await erase_messages(conn, org_id, doomed, at=at))
    return tally


async def delete_range(
    conn: Connection,
    org_id: OrgId,
    room_range: RoomRange,
    *,
    at_most: int | None = None,
    leaves_tombstones: bool = False,
) -> Counter[str]:
    """Remove the messages of a stretch, place and all, and return how much of what went or was loosened.

    Args:
        conn: In the transaction of the erasure.
        org_id: Whose.
        stretch: Which messages.
        at_most: How many, the oldest; all of them by default.
        leaves_holes: Holes stay, where nothing else keeps out what was there.
    """
    tally = Counter[str]()
    while at_most is None or tally["messages"] < at_most:
        limit = BATCH_SIZE if at_most is None else min(BATCH_SIZE, at_most - tally["messages"])
        doomed = await erasing.messages_in_range(
            conn,
            org_id,
            room_range.room_id,
            since=room_range.since,
            until=room_range.until,
            limit=limit,
            with_tombstones=not leaves_tombstones,
        )
        if not doomed:
            break
        tally.update(await _delete_batch(conn, org_id, doomed, room_range))
    tally["memberships of the room"] = await erasing.memberships_in(conn, org_id, room_range.room_id)
    return tally


async def _delete_batch(
    conn: Connection, org_id: OrgId, doomed: Sequence[MessageToErase], stretch: RoomRange
) -> Counter[str]:
    ids = [message.id for message in doomed]
    tally = Counter(await erasing.drop_derived(conn, org_id, ids))
    tally.update(await erasing.drop_message_details(conn, org_id, ids))
    tally["waiting replies"] += await erasing.detach_replies(
        conn, org_id, ids, since=stretch.since, until=stretch.until
    )
    tally.update(await erasing.remove_from_conversations(conn, org_id, ids))
    await changes.remove_messages(conn, org_id, ids)
    tally.update(await erasing.drop_messages(conn, org_id, ids))
    await _refresh_rooms(conn, org_id, doomed)
    return tally


async def _refresh_rooms(conn: Connection, org_id: OrgId, gone: Sequence[MessageToErase]) -> None:
    rooms = {message.room_id for message in gone}
    await erasing.recount_activity(conn, org_id, rooms, {message.author_id for message in gone})
    await hearing.reapply(conn, org_id, rooms)
