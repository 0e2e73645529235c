"""Builds threads as trees of messages and replies, and selects the messages to show of a large thread.

Every message has at most one parent, so threads never overlap. Platforms can state cycles (two messages that answer
each other); the earliest message of a cycle is then the root. All messages here were read for the viewer, who may see
them.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, takewhile

from roomlore.db import messages, search
from roomlore.db.messages import Position
from roomlore.db.queries import Connection
from roomlore.db.search import ThreadMessage
from roomlore.domain import paging
from roomlore.domain.ids import MessageId, OrgId, RoomId
from roomlore.domain.paging import TRUNCATED_LENGTH, BoundedPage, truncated
from roomlore.domain.records import Message, Reply
from roomlore.search.records import Thread

#: The maximum number of messages shown of one thread. If many threads are shown, the limit for each thread is lower,
#: but at least `MIN_MEMBERS`.
MAX_MEMBERS, MIN_MEMBERS = 200, 50
#: About how many messages are shown of all threads together.
MAX_MEMBERS_TOGETHER = 10_000
#: The number of answers to a match that are shown before all other context.
FIRST_ANSWERS = 3
#: A thread with more messages than this has its texts shortened in a room's history.
MAX_FULL_MESSAGES = 200

Parents = dict[MessageId, MessageId]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadOutline:
    """A thread by ids: a root message and everything below it."""

    root_id: MessageId
    #: The ids of the messages of the thread, including the root, in the order of the room.
    member_ids: Sequence[MessageId]
    #: The edge from each message except the root to its parent.
    replies: Sequence[Reply]


def build_threads(members: Iterable[ThreadMessage], *, last: Position | None = None) -> list[ThreadOutline]:
    """Return the threads of these messages.

    Edges to other messages, and messages after the position `last`, are ignored.
    """
    kept = {member.member_id: member for member in members if last is None or member.position <= last}
    parents = {
        key: member.parent_id
        for key, member in kept.items()
        if member.parent_id is not None and member.parent_id in kept
    }
    root_of = _roots(kept, parents)
    grouped: dict[MessageId, list[ThreadMessage]] = defaultdict(list)
    for member in sorted(kept.values(), key=lambda member: member.position):
        grouped[root_of[member.member_id]].append(member)
    return [
        ThreadOutline(
            root_id=root_id,
            member_ids=[member.member_id for member in group],
            replies=list(_edges(group, parents)),
        )
        for root_id, group in grouped.items()
    ]


def max_shown(limit: int) -> int:
    """Return the maximum number of messages to show of each thread, if up to `limit` threads are shown."""
    return max(MIN_MEMBERS, min(MAX_MEMBERS, MAX_MEMBERS_TOGETHER // limit))


def visible_members(
    outline: ThreadOutline, matches: Sequence[MessageId], *, bound: int = MAX_MEMBERS
) -> set[MessageId]:
    """Return the messages of a thread to show: all of them, or at most `bound` around the matches (best first).

    The root is taken first, then each match with its first answers, then further answers. A message is shown only
    together with its ancestors, unless the ancestors of the best match alone exceed the bound.
    """
    if len(outline.member_ids) <= bound:
        return set(outline.member_ids)
    parents = {edge.child_id: edge.parent_id for edge in outline.replies}
    answers = answers_lookup(outline.replies)
    shown = {outline.root_id}

    def missing_path(key: MessageId) -> list[MessageId]:
        return list(takewhile(lambda ancestor: ancestor not in shown, _path_from(key, parents)))

    path = missing_path(matches[0])
    if len(path) >= bound:
        # Show the part of the path that is nearest to the match. Leave space for the first answers.
        path = path[: max(1, bound - 1 - len(answers(matches[0])[:FIRST_ANSWERS]))]
    shown.update(path[: bound - 1])
    wanted = chain(
        chain.from_iterable([key, *answers(key)[:FIRST_ANSWERS]] for key in matches),
        chain.from_iterable(answers(key) for key in matches),
    )
    for key in wanted:
        path = missing_path(key)
        if len(shown) + len(path) <= bound:
            shown.update(path)
    return shown


def answers_lookup(replies: Sequence[Reply]) -> Callable[[MessageId], list[MessageId]]:
    """Return a function that maps a message to its answers, in the order of the edges.

    In a thread of a platform, all messages have the same parent. So if no answer to a message is stated, every later
    message of its platform thread counts as a possible answer.
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
                answer_probability=member.answer_probability,
            )


def _roots(members: dict[MessageId, ThreadMessage], parents: Parents) -> dict[MessageId, MessageId]:
    """Return the root above each message.

    If the root is in a cycle, remove the edge from the root to its parent from `parents`.
    """
    root_of: dict[MessageId, MessageId] = {}
    for start in members:
        walked: dict[MessageId, None] = {}
        key = start
        while key not in root_of and key not in walked:
            walked[key] = None
            if key not in parents:
                root_of[key] = key
            else:
                key = parents[key]
        if key in root_of:
            root = root_of[key]
        else:
            path = list(walked)
            root = min(path[path.index(key) :], key=lambda member_id: members[member_id].position)
            del parents[root]
        root_of |= dict.fromkeys(walked, root)
    return root_of


def _path_from(key: MessageId, parents: Parents) -> Iterator[MessageId]:
    yield key
    while key in parents:
        key = parents[key]
        yield key


# The history of a room


async def newest_threads(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, limit: int, before: Position
) -> BoundedPage[Thread]:
    """Return the newest threads of a room whose roots are before a position, newest root first.

    As many threads are returned as fit a page. The texts of a thread are shortened if it has very many messages or does
    not fit on a page.
    """
    outlines = await _newest_outlines(conn, org_id, room_id, limit=limit, before=before)
    wanted = [
        key
        for outline in outlines
        if len(outline.member_ids) <= MAX_FULL_MESSAGES
        for key in outline.member_ids
    ]
    page = await messages.messages_on_page(conn, org_id, wanted)
    complete = {message.id: message for message in page.items}
    threads: list[Thread] = []
    size = 0
    for outline in outlines:
        texts, max_length = complete, None
        if not complete.keys() >= set(outline.member_ids):
            if threads and len(outline.member_ids) <= MAX_FULL_MESSAGES:
                break
            max_length = min(TRUNCATED_LENGTH, paging.MAX_PAGE_BYTES // len(outline.member_ids))
            texts = await _truncated_messages(conn, org_id, outline, max_length)
        threads.append(_build_thread(outline, texts, outline.member_ids, shortened_to=max_length))
        size += sum(len(texts[key].body.encode()) for key in outline.member_ids)
        if size >= paging.MAX_PAGE_BYTES:
            break
    return BoundedPage(items=threads, is_truncated=len(threads) < len(outlines))


async def _truncated_messages(
    conn: Connection, org_id: OrgId, outline: ThreadOutline, max_length: int
) -> dict[MessageId, Message]:
    found = await messages.messages_by_id(conn, org_id, outline.member_ids, most=max_length + 1)
    return {message.id: replace(message, body=truncated(message.body, max_length)) for message in found}


async def newest_thread_previews(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, limit: int, before: Position, most: int
) -> list[Thread]:
    """Return the newest threads of a room for a page, with at most `most` characters of each text.

    Of a very large thread, only the root and the newest messages are returned, with the number of messages that are
    left out.
    """
    outlines = await _newest_outlines(conn, org_id, room_id, limit=limit, before=before)
    shown = [visible_members(outline, outline.member_ids[::-1]) for outline in outlines]
    return await load_threads(conn, org_id, outlines, shown, most=most)


async def _newest_outlines(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, limit: int, before: Position
) -> list[ThreadOutline]:
    outlines: list[ThreadOutline] = []
    while len(outlines) < limit:
        wanted = limit - len(outlines)
        roots = await search.root_messages(conn, org_id, room_id, before=before, limit=wanted)
        members = await search.thread_messages(conn, org_id, [root.message_id for root in roots])
        by_root = {outline.root_id: outline for outline in build_threads(members)}
        # A message of a cycle may look like a root without being one.
        outlines += [by_root[root.message_id] for root in roots if root.message_id in by_root]
        if len(roots) < wanted:
            break
        before = roots[-1].position
    return outlines


async def load_threads(
    conn: Connection,
    org_id: OrgId,
    outlines: Sequence[ThreadOutline],
    shown: Sequence[Collection[MessageId]],
    *,
    most: int | None = None,
) -> list[Thread]:
    """Return threads with the messages to show.

    Texts are cut to `most` characters. If `most` is None, texts are cut so that they fit on a page.
    """
    wanted = [member_id for members in shown for member_id in members]
    found = (
        await messages.messages_truncated(conn, org_id, wanted)
        if most is None
        else await messages.messages_by_id(conn, org_id, wanted, most=most)
    )
    by_id = {message.id: message for message in found}
    return [_build_thread(outline, by_id, members) for outline, members in zip(outlines, shown, strict=True)]


def _build_thread(
    outline: ThreadOutline,
    by_id: Mapping[MessageId, Message],
    shown: Collection[MessageId],
    *,
    shortened_to: int | None = None,
) -> Thread:
    return Thread(
        messages=[by_id[key] for key in outline.member_ids if key in shown],
        replies=[edge for edge in outline.replies if edge.child_id in shown],
        omitted=len(outline.member_ids) - len(shown),
        shortened_to=shortened_to,
    )
