"""What one walk has fetched of a room: messages, who stands next to whom, and who answers whom.

Nothing is asked of the source twice. Most questions are about what was said shortly before the trigger, so that is
fetched at the start, with the replies around it, and mostly nothing more is needed.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from itertools import pairwise
from statistics import median

from roomlore.context.limits import ExpansionLimits
from roomlore.context.walked import Direction
from roomlore.domain.ids import MessageId
from roomlore.domain.ports import MessageSource
from roomlore.domain.records import Message, Reply

DIRECTIONS: tuple[Direction, ...] = ("before", "after")
#: A silence is long by the room's own pace: so many times the usual pause, within these bounds.
SILENCE_FACTOR = 30
SHORTEST_SILENCE = timedelta(minutes=30)
LONGEST_SILENCE = timedelta(hours=12)

_METHODS = ("explicit", "thread", "mention", "inferred")


class Neighbourhood:
    """A room as far as one walk has seen it: nothing of another room, and nothing later than the trigger."""

    def __init__(self, source: MessageSource, trigger: Message, limits: ExpansionLimits) -> None:
        self._source = source
        self._trigger = trigger
        self._limits = limits
        self._messages: dict[MessageId, Message] = {trigger.id: trigger}
        self._useless: set[MessageId] = set()
        #: Who stands next to whom; None where the room, or the time up to the trigger, ends.
        self._neighbours: dict[tuple[MessageId, Direction], MessageId | None] = {(trigger.id, "after"): None}
        self._edges: dict[MessageId, dict[MessageId, Reply]] = {}
        #: Messages whose edges need not be asked for any more.
        self._known_ids: set[MessageId] = set()
        self._silence = SHORTEST_SILENCE

    def __getitem__(self, key: MessageId) -> Message:
        """Return a message that was seen."""
        return self._messages[key]

    async def fetch_near(self) -> list[Message]:
        """Return what was said just before the trigger, newest first, and learn the replies around it.

        A source may hand out fewer than asked for: it is asked again until those are there that must be in.
        """
        limits = self._limits
        near: list[Message] = []
        wanted = max(limits.near, limits.min_recent)
        while wanted > len(near):
            page = await self._page(near[-1] if near else self._trigger, "before", wanted - len(near))
            near += page
            if not page or len(near) >= limits.min_recent:
                break
        ids = [self._trigger.id, *(message.id for message in near)]
        self._add_explicit_replies(ids)
        self._silence = _silence([self._trigger, *near])
        if await self._fetch_replies(ids, limits.near_replies) < limits.near_replies:
            self._known_ids.update(ids)
        return near

    def is_known(self, key: MessageId) -> bool:
        """Return whether the replies to and by a message are known without a call."""
        return key in self._known_ids

    async def replies_of(self, ids: Iterable[MessageId]) -> dict[MessageId, list[tuple[Message, Reply]]]:
        """Return for each of these messages those that a reply ties to it, with that reply, in a fixed order.

        Replies not certain enough are left out, and of several between two messages all but the most certain.
        """
        asked = sorted(set(ids))
        if unknown := [key for key in asked if key not in self._known_ids]:
            await self._fetch_replies(unknown, self._limits.max_replies)
            self._known_ids.update(unknown)
        self._add_explicit_replies(asked)
        await self._fetch_ends(asked)
        return {
            key: [
                (self._messages[other], edge)
                for other, edge in sorted(self._edges.get(key, {}).items())
                if other in self._messages and self._is_sure(edge)
            ]
            for key in asked
        }

    async def neighbour(self, message: Message, direction: Direction) -> Message | None:
        """Return who stands next to a message, None where nobody does."""
        if (message.id, direction) not in self._neighbours:
            await self._page(message, direction, self._limits.page)
        key = self._neighbours[message.id, direction]
        return None if key is None else self._messages[key]

    async def _fetch_replies(self, ids: Sequence[MessageId], limit: int) -> int:
        asked = set(ids)
        edges = (await self._source.replies(sorted(asked), limit))[:limit]
        for edge in edges:
            if not asked.isdisjoint((edge.child_id, edge.parent_id)):
                self._add_reply(edge)
        return len(edges)

    def _add_explicit_replies(self, ids: Iterable[MessageId]) -> None:
        for key in ids:
            if (parent := self._messages[key].reply_to) is not None:
                self._add_reply(Reply(child_id=key, parent_id=parent, method="explicit", confidence=1.0))

    def _add_reply(self, edge: Reply) -> None:
        """Keep an edge that may be followed; of several between two messages the most certain one."""
        child, parent = edge.child_id, edge.parent_id
        if child == parent or edge.confidence < self._limits.min_confidence:
            return
        known = self._edges.get(child, {}).get(parent)
        if known is None or _by_confidence(edge) < _by_confidence(known):
            self._edges.setdefault(child, {})[parent] = edge
            self._edges.setdefault(parent, {})[child] = edge

    def _is_sure(self, edge: Reply) -> bool:
        """Say whether an edge between messages that were seen is sure enough for the time between them."""
        apart = abs(self._messages[edge.child_id].sent_at - self._messages[edge.parent_id].sent_at)
        return apart <= self._silence or edge.confidence >= self._limits.min_confidence_across_silence

    async def _fetch_ends(self, asked: Iterable[MessageId]) -> None:
        """See the other ends of these messages' edges, and with them at once what else is known by its edge alone."""
        if all(
            other in self._messages or other in self._useless
            for key in asked
            for other in self._edges.get(key, ())
        ):
            return
        wanted = sorted(self._edges.keys() - self._messages.keys() - self._useless)
        for message in await self._source.messages(wanted):
            if message.id in self._edges and self._is_eligible(message):
                self._messages[message.id] = message
        self._useless.update(key for key in wanted if key not in self._messages)

    async def _page(self, anchor: Message, direction: Direction, limit: int) -> list[Message]:
        """Return up to `limit` messages going away from the anchor, and learn who stands next to whom."""
        if direction == "before":
            rows = await self._source.before(anchor, limit)
            near = [m for m in rows if self._is_eligible(m) and m.position < anchor.position]
        else:
            rows = await self._source.after(anchor, limit)
            near = [m for m in rows if self._is_eligible(m) and m.position > anchor.position]
        page = _unique_messages(near, newest_first=direction == "before")[:limit]
        self._add_order([anchor, *page], direction)
        at_trigger = direction == "after" and any(m.position >= self._trigger.position for m in rows)
        if not page or at_trigger:
            self._neighbours[(page[-1] if page else anchor).id, direction] = None
        return page

    def _add_order(self, chain: Sequence[Message], direction: Direction) -> None:
        opposite: Direction = "after" if direction == "before" else "before"
        for message in chain:
            self._messages.setdefault(message.id, message)
        for one, other in pairwise(chain):
            self._neighbours[one.id, direction] = other.id
            self._neighbours[other.id, opposite] = one.id

    def _is_eligible(self, message: Message) -> bool:
        """Say whether a message is of the trigger's room and was there before the trigger."""
        return message.room_id == self._trigger.room_id and message.position < self._trigger.position


def _by_confidence(edge: Reply) -> tuple[float, int, MessageId, MessageId]:
    return (-edge.confidence, _METHODS.index(edge.method), edge.child_id, edge.parent_id)


def _silence(newest_first: Sequence[Message]) -> timedelta:
    """Return how long a silence is a long one, by the usual pause between messages."""
    pauses = [(later.sent_at - earlier.sent_at).total_seconds() for later, earlier in pairwise(newest_first)]
    usual = timedelta(seconds=median(pauses) if pauses else 0.0)
    return min(max(SILENCE_FACTOR * usual, SHORTEST_SILENCE), LONGEST_SILENCE)


def _unique_messages(messages: Iterable[Message], *, newest_first: bool) -> list[Message]:
    by_id = {message.id: message for message in messages}
    return sorted(by_id.values(), key=lambda m: m.position, reverse=newest_first)
