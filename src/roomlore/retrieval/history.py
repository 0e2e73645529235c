"""History: the newest exchanges of a room, each as a whole."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from roomlore.domain import listing
from roomlore.domain.ids import MessageId, OrgId, RoomId
from roomlore.domain.listing import BEGINNING, Listed, begun
from roomlore.domain.records import Message
from roomlore.retrieval.exchanges import Outline, exchanges, shown
from roomlore.retrieval.records import Exchange
from roomlore.store import messages, search
from roomlore.store.places import Position
from roomlore.store.queries import Connection
from roomlore.store.search import Opening

#: Messages of an exchange whose texts are told in full; of more the beginning of each.
IN_FULL = 200


async def newest_exchanges(
    conn: Connection,
    org_id: OrgId,
    room_id: RoomId,
    *,
    limit: int,
    before: Position,
) -> Listed[Exchange]:
    """Return the newest exchanges of a room that open before a place, newest first by their openings.

    Each is whole, and there are as many as one answer holds. Of one with very many messages, or one that no answer holds,
    each text is shortened, and says so.
    """
    outlines = await _newest(conn, org_id, room_id, limit=limit, before=before)
    wanted = [key for one in outlines if len(one.member_ids) <= IN_FULL for key in one.member_ids]
    found = {one.id: one for one in (await messages.messages_within(conn, org_id, wanted)).items}
    listed: list[Exchange] = []
    reached = 0
    for one in outlines:
        if found.keys() >= set(one.member_ids):
            texts = found
        elif len(one.member_ids) > IN_FULL or not listed:
            texts = await _begun(conn, org_id, one)
        else:
            break
        listed.append(_exchange(one, texts, shortened_to=None if texts is found else _most_of(one)))
        reached += sum(len(texts[key].body.encode()) for key in one.member_ids)
        if reached >= listing.MOST_BYTES:
            break
    return Listed(items=listed, is_cut=len(listed) < len(outlines))


def _most_of(one: Outline) -> int:
    """Return to how many characters each text is shortened."""
    return min(BEGINNING, listing.MOST_BYTES // len(one.member_ids))


async def _begun(conn: Connection, org_id: OrgId, one: Outline) -> dict[MessageId, Message]:
    most = _most_of(one)
    said = await messages.messages_by_id(conn, org_id, one.member_ids, most=most + 1)
    return {message.id: replace(message, body=begun(message.body, most)) for message in said}


async def newest_begun(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, limit: int, before: Position, most: int
) -> list[Exchange]:
    """Return the newest exchanges of a room for a page: with so many characters of each text at most.

    Of a very large one its opening and its newest messages are told, and how many are left out.
    """
    outlines = await _newest(conn, org_id, room_id, limit=limit, before=before)
    kept = [shown(one, one.member_ids[::-1]) for one in outlines]
    return await told(conn, org_id, outlines, kept, most=most)


async def _newest(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, limit: int, before: Position
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
        most: Characters of each message; None is all, as far as one answer holds them.
    """
    wanted = [member_id for members in kept for member_id in members]
    said = (
        await messages.messages_told(conn, org_id, wanted)
        if most is None
        else await messages.messages_by_id(conn, org_id, wanted, most=most)
    )
    by_id = {message.id: message for message in said}
    return [_exchange(outline, by_id, kept=members) for outline, members in zip(outlines, kept, strict=True)]


def _exchange(
    outline: Outline,
    by_id: Mapping[MessageId, Message],
    *,
    kept: Collection[MessageId] | None = None,
    shortened_to: int | None = None,
) -> Exchange:
    members = outline.member_ids if kept is None else kept
    return Exchange(
        messages=[by_id[key] for key in outline.member_ids if key in members],
        replies=[edge for edge in outline.replies if edge.child_id in members],
        omitted=len(outline.member_ids) - len(members),
        shortened_to=shortened_to,
    )
