"""History: the newest exchanges of a room, each as a whole."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from roomlore.domain.ids import MessageId, OrgId, RoomId
from roomlore.domain.records import Message
from roomlore.retrieval.exchanges import Outline, exchanges, shown
from roomlore.retrieval.records import Exchange
from roomlore.store import messages, search
from roomlore.store.queries import Connection
from roomlore.store.search import Opening, Position

#: Messages of an exchange whose texts are told in full, however long; of more, so many characters of each.
IN_FULL, SHORTENED_TO = 200, 500


async def newest_exchanges(
    conn: Connection,
    org_id: OrgId,
    room_id: RoomId,
    *,
    limit: int,
    before: Position | None,
) -> list[Exchange]:
    """Return the newest exchanges of a room that open before a place, newest first by their openings.

    Each is whole. Of one with very many messages each text is shortened, and says so.
    """
    outlines = await _newest(conn, org_id, room_id, limit=limit, before=before)
    whole = [one for one in outlines if len(one.member_ids) <= IN_FULL]
    long = [one for one in outlines if len(one.member_ids) > IN_FULL]
    full = await told(conn, org_id, whole, [one.member_ids for one in whole])
    begun = await told(conn, org_id, long, [one.member_ids for one in long], most=SHORTENED_TO + 1)
    by_opening = {one.opening.id: one for one in (*full, *map(_shortened, begun))}
    return [by_opening[one.opening_id] for one in outlines]


async def newest_begun(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, limit: int, before: Position | None, most: int
) -> list[Exchange]:
    """Return the newest exchanges of a room for a page: with so many characters of each text at most.

    Of a very large one its opening and its newest messages are told, and how many are left out.
    """
    outlines = await _newest(conn, org_id, room_id, limit=limit, before=before)
    kept = [shown(one, one.member_ids[::-1]) for one in outlines]
    return await told(conn, org_id, outlines, kept, most=most)


async def _newest(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, limit: int, before: Position | None
) -> list[Outline]:
    outlines: list[Outline] = []
    while len(outlines) < limit:
        wanted = limit - len(outlines)
        openings = await search.openings(conn, org_id, room_id, before=before, limit=wanted)
        outlines += await _opened(conn, org_id, openings)
        if len(openings) < wanted:
            break
        before = openings[-1].position
    return outlines


def _shortened(one: Exchange) -> Exchange:
    return replace(one, messages=[_begun(said) for said in one.messages], shortened_to=SHORTENED_TO)


def _begun(said: Message) -> Message:
    if len(said.body) <= SHORTENED_TO:
        return said
    return replace(said, body=f"{said.body[:SHORTENED_TO].rstrip()} [… cut]")


async def _opened(conn: Connection, org_id: OrgId, openings: Sequence[Opening]) -> list[Outline]:
    """Return what these messages open, in their order; one of a round that opens nothing is left out."""
    members = await search.exchange_members(conn, org_id, [opening.message_id for opening in openings])
    opened = {outline.opening_id: outline for outline in exchanges(members)}
    return [opened[opening.message_id] for opening in openings if opening.message_id in opened]


async def told(
    conn: Connection,
    org_id: OrgId,
    outlines: Sequence[Outline],
    kept: Sequence[Collection[MessageId]],
    *,
    most: int | None = None,
) -> list[Exchange]:
    """Return exchanges with what was said in them.

    Args:
        conn: Reads for the viewer.
        org_id: The viewer's org.
        outlines: Which exchanges, in the order in which they come back.
        kept: For each the members that are told; how many of the others there are is told, too.
        most: Characters of each message; None is all.
    """
    wanted = [member_id for members in kept for member_id in members]
    by_id = {
        message.id: message for message in await messages.messages_by_id(conn, org_id, wanted, most=most)
    }
    return [
        Exchange(
            messages=[by_id[member_id] for member_id in outline.member_ids if member_id in members],
            replies=[edge for edge in outline.replies if edge.child_id in members],
            omitted=len(outline.member_ids) - len(members),
        )
        for outline, members in zip(outlines, kept, strict=True)
    ]
