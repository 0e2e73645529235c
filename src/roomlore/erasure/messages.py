"""Messages go with everything that hangs on them: as holes, which keep their places, or altogether.

Large numbers go in portions, so that no statement carries more ids than it should.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from roomlore.domain.ids import OrgId, ParticipantId, RoomId
from roomlore.store import changes, erasing
from roomlore.store.erasing import DoomedMessage
from roomlore.store.queries import Connection
from roomlore.wishes import hearing

#: How many messages one statement takes.
PORTION = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A time in a room; without `since` from its beginning."""

    room_id: RoomId
    since: datetime | None
    until: datetime


async def make_holes(
    conn: Connection, org_id: OrgId, doomed: Sequence[DoomedMessage], *, at: datetime
) -> Counter[str]:
    """Leave holes in place of messages, and return how much of what went."""
    ids = [message.id for message in doomed]
    tally = Counter(await erasing.drop_derived(conn, org_id, ids))
    tally.update(await erasing.drop_said(conn, org_id, ids))
    tally.update(await erasing.take_out(conn, org_id, ids))
    tally["messages"] += await erasing.make_holes(conn, org_id, ids, at=at)
    await changes.forget_messages(conn, org_id, ids)
    # A hole keeps its id, and is seen by those alone who saw the message: of a whisper by nobody.
    await changes.note(conn, org_id, "message.erased", ids)
    await _recount(conn, org_id, doomed)
    return tally


async def make_holes_of(
    conn: Connection, org_id: OrgId, authors: Sequence[ParticipantId], *, at: datetime
) -> Counter[str]:
    """Leave holes in place of everything that authors wrote, and return how much of what went."""
    tally = Counter[str]()
    while doomed := await erasing.messages_by(conn, org_id, authors, limit=PORTION):
        tally.update(await make_holes(conn, org_id, doomed, at=at))
    return tally


async def drop(
    conn: Connection,
    org_id: OrgId,
    stretch: Stretch,
    *,
    at_most: int | None = None,
    leaves_holes: bool = False,
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
        limit = PORTION if at_most is None else min(PORTION, at_most - tally["messages"])
        doomed = await erasing.messages_in_range(
            conn,
            org_id,
            stretch.room_id,
            since=stretch.since,
            until=stretch.until,
            limit=limit,
            with_holes=not leaves_holes,
        )
        if not doomed:
            break
        tally.update(await _drop_portion(conn, org_id, doomed, stretch))
    tally["memberships of the room"] = await erasing.memberships_in(conn, org_id, stretch.room_id)
    return tally


async def _drop_portion(
    conn: Connection, org_id: OrgId, doomed: Sequence[DoomedMessage], stretch: Stretch
) -> Counter[str]:
    ids = [message.id for message in doomed]
    tally = Counter(await erasing.drop_derived(conn, org_id, ids))
    tally.update(await erasing.drop_said(conn, org_id, ids))
    tally["waiting replies"] += await erasing.part_replies(
        conn, org_id, ids, since=stretch.since, until=stretch.until
    )
    tally.update(await erasing.take_out(conn, org_id, ids))
    await changes.forget_messages(conn, org_id, ids)
    tally.update(await erasing.drop_messages(conn, org_id, ids))
    await _recount(conn, org_id, doomed)
    return tally


async def _recount(conn: Connection, org_id: OrgId, gone: Sequence[DoomedMessage]) -> None:
    rooms = {message.room_id for message in gone}
    await erasing.recount(conn, org_id, rooms, {message.author_id for message in gone})
    await hearing.hear_again(conn, org_id, rooms)
