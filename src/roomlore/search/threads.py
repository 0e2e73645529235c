"""Exchanges as trees: which messages belong together, who answers whom, and what is shown of a large one.

Every message stands under at most one other, so exchanges never overlap. Platforms can state rounds (two
messages that answer each other); the earliest message of a round opens. Pure arithmetic on ids and places:
what may be seen was decided where the members came from.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, takewhile

from roomlore.db import messages, search
from roomlore.db.positions import Position
from roomlore.db.queries import Connection
from roomlore.db.search import RootMessage, ThreadMessage
from roomlore.domain import paging
from roomlore.domain.ids import MessageId, OrgId, RoomId
from roomlore.domain.paging import TRUNCATED_LENGTH, BoundedPage, truncated
from roomlore.domain.records import Message, Reply
from roomlore.search.records import Thread

#: The most messages of one exchange that are shown; fewer, down to `LEAST`, where many exchanges are.
MAX_MEMBERS, MIN_MEMBERS = 200, 50
#: So many messages of all exchanges together are shown whole.
MAX_MEMBERS_TOGETHER = 10_000
#: So many answers to each find go before anything else that surrounds it.
FIRST_ANSWERS = 3

Parents = dict[MessageId, MessageId]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadOutline:
    """An exchange by ids: an opening message and everything below it."""

    root_id: MessageId
    #: In room order, the opening among them.
    member_ids: Sequence[MessageId]
    #: For each member but the opening the edge to what it stands under.
    replies: Sequence[Reply]


def build_threads(members: Iterable[ThreadMessage], *, last: Position | None = None) -> list[ThreadOutline]:
    """Return the exchanges that the members make, each member in exactly one.

    Args:
        members: Each once; an edge to a message that is not among them counts for nothing.
        last: Leave out members that stand after this place, and the edges to them.
    """
    kept = {member.member_id: member for member in members if last is None or member.position <= last}
    parents = {
        key: member.parent_id
        for key, member in kept.items()
        if member.parent_id is not None and member.parent_id in kept
    }
    opening_of = _roots(kept, parents)
    grouped: dict[MessageId, list[ThreadMessage]] = defaultdict(list)
    for member in sorted(kept.values(), key=lambda member: member.position):
        grouped[opening_of[member.member_id]].append(member)
    return [
        ThreadOutline(
            root_id=opening,
            member_ids=[member.member_id for member in group],
            replies=list(_edges(group, parents)),
        )
        for opening, group in grouped.items()
    ]


def max_shown(limit: int) -> int:
    """Return how many messages of each are shown where up to `limit` exchanges are."""
    return max(MIN_MEMBERS, min(MAX_MEMBERS, MAX_MEMBERS_TOGETHER // limit))


def visible_members(
    outline: ThreadOutline, found: Sequence[MessageId], *, bound: int = MAX_MEMBERS
) -> set[MessageId]:
    """Return the members that are shown: all of them, or of a large exchange what surrounds the finds.

    The bound always holds. First the opening; then, best find first, each with its first answers; then further answers.
    None is shown without all that it stands under, but for the best find where that is more than the bound.

    Args:
        outline: Which one.
        found: Its members that matched, best first.
        bound: How many at most.
    """
    if len(outline.member_ids) <= bound:
        return set(outline.member_ids)
    parents = {edge.child_id: edge.parent_id for edge in outline.replies}
    answers = answers_lookup(outline.replies)
    wanted = chain(
        chain.from_iterable([key, *answers(key)[:FIRST_ANSWERS]] for key in found),
        chain.from_iterable(answers(key) for key in found),
    )
    kept = {outline.root_id}
    way = list(takewhile(lambda one: one not in kept, _path_from(found[0], parents)))
    if len(way) >= bound:
        # Of a way that is too long what is nearest, and room for the first answers.
        way = way[: max(1, bound - 1 - len(answers(found[0])[:FIRST_ANSWERS]))]
    kept.update(way[: bound - 1])
    for key in wanted:
        missing = list(takewhile(lambda one: one not in kept, _path_from(key, parents)))
        if len(kept) + len(missing) <= bound:
            kept.update(missing)
    return kept


def answers_lookup(replies: Sequence[Reply]) -> Callable[[MessageId], list[MessageId]]:
    """Return the call that gives the answers to a message, in the order of the edges.

    In a thread everything stands under its root, whatever it answers: what follows a message there may
    answer it, where nothing is stated to.
    """
    below: dict[MessageId, list[MessageId]] = defaultdict(list)
    thread: dict[MessageId, list[MessageId]] = defaultdict(list)
    place: dict[MessageId, tuple[MessageId, int]] = {}
    for edge in replies:
        below[edge.parent_id].append(edge.child_id)
        if edge.method == "thread":
            place[edge.child_id] = (edge.parent_id, len(thread[edge.parent_id]))
            thread[edge.parent_id].append(edge.child_id)

    def answers(key: MessageId) -> list[MessageId]:
        if key in below or key not in place:
            return below.get(key, [])
        root, number = place[key]
        return thread[root][number + 1 :]

    return answers


def _edges(group: Sequence[ThreadMessage], parents: Parents) -> Iterator[Reply]:
    for member in group:
        parent_id = parents.get(member.member_id)
        if parent_id is not None and member.method is not None:
            yield Reply(
                child_id=member.member_id,
                parent_id=parent_id,
                method=member.method,
                confidence=1.0 if member.confidence is None else member.confidence,
            )


def _roots(members: dict[MessageId, ThreadMessage], parents: Parents) -> dict[MessageId, MessageId]:
    """Return the opening above each member, and cut the edges that go up from the openings of rounds."""
    opening_of: dict[MessageId, MessageId] = {}
    for start in members:
        walked: dict[MessageId, None] = {}
        key = start
        while key not in opening_of and key not in walked:
            walked[key] = None
            if key not in parents:
                opening_of[key] = key
            else:
                key = parents[key]
        if key in opening_of:
            opening = opening_of[key]
        else:
            around = list(walked)
            opening = min(around[around.index(key) :], key=lambda member_id: members[member_id].position)
            del parents[opening]
        opening_of |= dict.fromkeys(walked, opening)
    return opening_of


def _path_from(key: MessageId, parents: Parents) -> Iterator[MessageId]:
    yield key
    while key in parents:
        key = parents[key]
        yield key


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
        listed.append(
            _build_thread(one, texts, shortened_to=None if texts is found else _max_characters(one))
        )
        reached += sum(len(texts[key].body.encode()) for key in one.member_ids)
        if reached >= paging.MAX_PAGE_BYTES:
            break
    return BoundedPage(items=listed, is_cut=len(listed) < len(outlines))


def _max_characters(one: ThreadOutline) -> int:
    """Return to how many characters each text is shortened."""
    return min(TRUNCATED_LENGTH, paging.MAX_PAGE_BYTES // len(one.member_ids))


async def _shortened_messages(
    conn: Connection, org_id: OrgId, one: ThreadOutline
) -> dict[MessageId, Message]:
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


async def _outlines_of(
    conn: Connection, org_id: OrgId, openings: Sequence[RootMessage]
) -> list[ThreadOutline]:
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
    return [
        _build_thread(outline, by_id, kept=members) for outline, members in zip(outlines, kept, strict=True)
    ]


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
