"""Message sources: the store, and lists of messages from an export, a live room or a test."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from roomlore.conversations.disentangler import NewMessage, disentangle
from roomlore.conversations.window import ConversationMessage
from roomlore.db import messages as store
from roomlore.db.queries import Connection
from roomlore.domain.ids import MessageId, OrgId, RoomId
from roomlore.domain.records import Message, Reply


class ListSource:
    """A `MessageSource` over messages and reply edges in memory. The viewer may see all of them.

    The messages may be in any order. If a message is given twice, a redacted copy is used; without a redacted copy, the
    latest edit is used. `Message.reply_to` is a stated edge, so it need not be among `replies`. If an edge is given
    twice, the edge with the higher confidence is used.
    """

    def __init__(self, messages: Iterable[Message], replies: Iterable[Reply] = ()) -> None:
        self._by_id: dict[MessageId, Message] = {}
        for message in messages:
            known = self._by_id.get(message.id)
            if known is None or _recency(message) > _recency(known):
                self._by_id[message.id] = message
        self._rooms: defaultdict[RoomId, list[Message]] = defaultdict(list)
        self._order: dict[MessageId, int] = {}
        for rank, message in enumerate(sorted(self._by_id.values(), key=lambda m: m.position)):
            self._rooms[message.room_id].append(message)
            self._order[message.id] = rank
        self._edges: defaultdict[MessageId, list[Reply]] = defaultdict(list)
        for edge in self._all_edges(replies):
            self._edges[edge.child_id].append(edge)
            if edge.parent_id != edge.child_id:
                self._edges[edge.parent_id].append(edge)

    @classmethod
    def disentangled(cls, messages: Iterable[Message], replies: Iterable[Reply] = ()) -> "ListSource":
        """Return a source with these messages and replies, and with inferred replies as in stored rooms.

        Only ordinary messages get inferred replies, because a list does not state who received a whisper. The inference
        takes a few milliseconds per message.
        """
        stated = list(replies)
        source = cls(messages, stated)
        roots = {edge.child_id: edge.parent_id for edge in stated if edge.method == "thread"}
        answered = {edge.child_id: edge.parent_id for edge in stated if edge.method == "explicit"}
        found: list[Reply] = []
        for room in source._rooms.values():
            said = [
                ConversationMessage(
                    id=message.id,
                    author_id=message.author_id,
                    author_name=message.author_name,
                    sent_at=message.sent_at,
                    body=message.body,
                    reply_to=message.reply_to or answered.get(message.id),
                    thread_root=roots.get(message.id),
                )
                for message in room
                if message.kind == "message" and not message.redacted_at and not message.erased_at
            ]
            found += [
                Reply(
                    child_id=one.message_id,
                    parent_id=one.parent_id,
                    method=one.method,
                    confidence=one.confidence,
                )
                for one in disentangle([], [NewMessage(message=each) for each in said])
                if one.parent_id is not None and one.method in {"mention", "inferred"}
            ]
        return cls(source._by_id.values(), [*stated, *found])

    async def before(self, message: Message, limit: int) -> list[Message]:
        """Return the messages of the same room just before this one, newest first."""
        room = self._rooms.get(message.room_id, [])
        end = bisect_left(room, message.position, key=lambda m: m.position)
        return room[max(0, end - limit) : end][::-1]

    async def after(self, message: Message, limit: int) -> list[Message]:
        """Return the messages of the same room just after this one, oldest first."""
        room = self._rooms.get(message.room_id, [])
        start = bisect_right(room, message.position, key=lambda m: m.position)
        return room[start : start + limit]

    async def messages(self, ids: Sequence[MessageId]) -> list[Message]:
        """Return the messages that exist, each once."""
        return [self._by_id[key] for key in dict.fromkeys(ids) if key in self._by_id]

    async def replies(self, ids: Sequence[MessageId], limit: int) -> list[Reply]:
        """Return reply edges with one of the ids at either end.

        The most confident edges come first, then the newest.
        """
        found = {(edge.child_id, edge.parent_id): edge for key in ids for edge in self._edges.get(key, ())}
        newest_first = sorted(found.values(), key=self._sort_key, reverse=True)
        return sorted(newest_first, key=lambda edge: -edge.confidence)[:limit]

    def _all_edges(self, replies: Iterable[Reply]) -> Iterable[Reply]:
        edges: dict[tuple[MessageId, MessageId], Reply] = {}
        for message in self._by_id.values():
            if message.reply_to is not None:
                edge = Reply(
                    child_id=message.id, parent_id=message.reply_to, method="explicit", confidence=1.0
                )
                edges[message.id, message.reply_to] = edge
        for edge in replies:
            known = edges.get((edge.child_id, edge.parent_id))
            if known is None or edge.confidence > known.confidence:
                edges[edge.child_id, edge.parent_id] = edge
        return edges.values()

    def _sort_key(self, edge: Reply) -> tuple[int, int, MessageId, MessageId]:
        child, parent = edge.child_id, edge.parent_id
        return (self._order.get(child, -1), self._order.get(parent, -1), child, parent)


def _recency(message: Message) -> tuple[bool, datetime, datetime, int, str, str]:
    edited = message.edited_at or message.sent_at
    return (
        message.redacted_at is not None,
        edited,
        message.sent_at,
        message.sequence,
        message.body,
        str(message.reply_to),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSource:
    """A `MessageSource` over the store, as the connection's viewer sees it, within one transaction."""

    conn: Connection
    org_id: OrgId

    async def before(self, message: Message, limit: int) -> list[Message]:
        """Return the messages of the same room just before this one, newest first."""
        found = await store.messages_before(
            self.conn, self.org_id, message.room_id, message.position, limit=limit
        )
        return list(found.items)

    async def after(self, message: Message, limit: int) -> list[Message]:
        """Return the messages of the same room just after this one, oldest first."""
        page = await store.messages_after(
            self.conn, self.org_id, message.room_id, message.position, limit=limit
        )
        return list(page.items)

    async def messages(self, ids: Sequence[MessageId]) -> list[Message]:
        """Return the messages that the viewer may see."""
        return await store.messages_truncated(self.conn, self.org_id, ids)

    async def replies(self, ids: Sequence[MessageId], limit: int) -> list[Reply]:
        """Return reply edges with one of the ids at either end, the most confident first."""
        return await store.replies_around(self.conn, self.org_id, ids, limit=limit)
