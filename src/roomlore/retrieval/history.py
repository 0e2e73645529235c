"""History: the newest exchanges of a room, each as a whole."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from roomlore.domain import listing
from roomlore.domain.ids import MessageId, OrgId, RoomId
from roomlore.domain.listing import TRUNCATED_LENGTH, BoundedPage, truncated
from roomlore.domain.records import Message
from roomlore.retrieval.exchanges import ThreadOutline, build_threads, visible_members
from roomlore.retrieval.records import Thread
from roomlore.store import messages, search
from roomlore.store.places import Position
from roomlore.store.queries import Connection
from roomlore.store.search import RootMessage

#: Messages of an exchange whose texts are told in full; of more the beginning of each.
MAX_FULL_MESSAGES = 200


async def newest_threads(
    conn: Connection,
    org_id: OrgId,
    room_id: RoomId,
    *,
    limit: int,
    before: Position,
) -> BoundedPage[Thread]:
    """Return the newest exchanges of a room that open before a place, newest first by their openings.

    Each is whole, and there are as many as one answer holds. Of one with very many messages, or one that no answer holds,
    each text is shortened, and says so.
    """
    outlines = await _newest_outlines(conn, org_id, room_id, limit=limit, before=before)
    wanted = [key for one in outlines if len(one.member_ids) <= MAX_FULL_MESSAGES for key in one.member_ids]
    found = {one.id: one for one in (await messages.messages_on_page(conn, org_id, wanted)).items}
    listed: list[Thread] = []
    reached = 0
    for one in outlines:
        if found.keys() >= set(one.member_ids):
            texts = found
        elif len(one.member_ids) > MAX_FULL_MESSAGES or not listed:
            texts = await _shortened_messages(conn, org_id, one)
        else:
            break
        listed.append(_build_thread(one, texts, shortened_to=None if texts is found else _max_characters(one)))
        reached += sum(len(texts[key].body.encode()) for key in one.member_ids)
        if reached >= listing.MAX_PAGE_BYTES:
            break
    return BoundedPage(items=listed, is_cut=len(listed) < len(outlines))


def _max_characters(one: ThreadOutline) -> int:
    """Return to how many characters each text is shortened."""
    return min(TRUNCATED_LENGTH, listing.MAX_PAGE_BYTES // len(one.member_ids))


async def _shortened_messages(conn: Connection, org_id: OrgId, one: ThreadOutline) -> dict[MessageId, Message]:
    most = _max_characters(one)
    said = await messages.messages_by_id(conn, org_id, one.member_ids, most=most + 1)
    return {message.id: replace(message, body=truncated(message.body, most)) for message in said}


async def newest_thread_previews(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, limit: int, before: Position, most: int
) -> list[Thread]:
    """Return the newest exchanges of a room for a page: with so many characters of each text at most.

    Of a very large one its opening and its newest messages are told, and how many are left out.
    """
    outlines = await _newest_outlines(conn, org_id, room_id, limit=limit, before=before)
    kept = [visible_members(one, one.member_ids[::-1]) for one in outlines]
    return await load_threads(conn, org_id, outlines, kept, most=most)


async def _newest_outlines(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, limit: int, before: Position
) -> list[ThreadOutline]:
    outlines: list[ThreadOutline] = []
    while len(outlines) < limit:
        wanted = limit - len(outlines)
        openings = await search.root_messages(conn, org_id, room_id, before=before, limit=wanted)
        outlines += await _outlines_of(conn, org_id, openings)
        if len(openings) < wanted:
            break
        before = openings[-1].position
    return outlines


async def _outlines_of(conn: Connection, org_id: OrgId, openings: Sequence[RootMessage]) -> list[ThreadOutline]:
    """Return what these messages open, in their order; one of a round that opens nothing is left out."""
    members = await search.thread_messages(conn, org_id, [opening.message_id for opening in openings])
    opened = {outline.root_id: outline for outline in build_threads(members)}
    return [opened[opening.message_id] for opening in openings if opening.message_id in opened]


async def load_threads(
    conn: Connection,
    org_id: OrgId,
    outlines: Sequence[ThreadOutline],
    kept: Sequence[Collection[MessageId]],
    *,
    most: int | None = None,
) -> list[Thread]:
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
        await messages.messages_truncated(conn, org_id, wanted)
        if most is None
        else await messages.messages_by_id(conn, org_id, wanted, most=most)
    )
    by_id = {message.id: message for message in said}
    return [_build_thread(outline, by_id, kept=members) for outline, members in zip(outlines, kept, strict=True)]


def _build_thread(
    outline: ThreadOutline,
    by_id: Mapping[MessageId, Message],
    *,
    kept: Collection[MessageId] | None = None,
    shortened_to: int | None = None,
) -> Thread:
    members = outline.member_ids if kept is None else kept
    return Thread(
        messages=[by_id[key] for key in outline.member_ids if key in members],
        replies=[edge for edge in outline.replies if edge.child_id in members],
        omitted=len(outline.member_ids) - len(members),
        shortened_to=shortened_to,
    )
