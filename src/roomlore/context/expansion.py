"""Walks from a trigger message through its room, and states for each message why it was reached.

Two things connect messages: replies of any age, and closeness in time, because people talk within minutes of each
other. In a busy room, replies lead through the trigger's own conversation, and time leads to everything around it. So
the walk first follows only replies from the trigger. Then it alternates: one level of replies, then the next neighbour
in time on each open side. It ends when the limit is reached or nothing is added. A side is closed when a pause is
longer than the gap. No message after the trigger is ever included.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby, pairwise
from statistics import median
from typing import Literal

from roomlore.context.limits import DEFAULT_LIMITS, ExpansionLimits
from roomlore.domain.ids import MessageId
from roomlore.domain.ports import MessageSource
from roomlore.domain.records import Message, Reply

Direction = Literal["before", "after"]
#: `conversation`: connected to the trigger by replies alone. `room`: all other messages.
ContextPart = Literal["conversation", "room"]
SelectionRule = Literal["trigger", "recent", "reply", "temporal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """A message, and how the walk reached it."""

    message: Message
    part: ContextPart
    rule: SelectionRule
    #: The message from which this message was reached; None only for the trigger.
    reached_from: MessageId | None
    #: The reply between the two messages, in either direction; None if the message was not reached by a reply.
    reply: Reply | None = None
    #: The step of the walk that added the message; 0 for the trigger and the most recent messages.
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected(Reached):
    """A message that the walk reached."""

    #: The number of edges on the path from the trigger.
    hops: int

    @property
    def is_reply_parent(self) -> bool:
        """Whether the message is the one that `reached_from` answers."""
        return self.reply is not None and self.reply.child_id == self.reached_from

    @property
    def is_stated(self) -> bool:
        """Whether the message was reached over a reply that the platform states."""
        return self.reply is not None and self.reply.method in {"explicit", "thread"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBoundary:
    """A direction in which the walk stopped at a long pause."""

    message_id: MessageId
    direction: Direction
    gap: timedelta
    #: The first message beyond the pause. It is not included.
    beyond: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """The result of a walk, in the order of the room."""

    trigger_id: MessageId
    selected: tuple[Selected, ...]
    #: Messages that were reached but left out because of the limit.
    over_limit: tuple[Selected, ...]
    boundaries: tuple[TimeBoundary, ...]
    #: The number of steps of the walk.
    steps: int


DIRECTIONS: tuple[Direction, ...] = ("before", "after")
#: A silence is long if it is this many times the room's median pause, within the bounds that follow.
SILENCE_FACTOR = 30
SHORTEST_SILENCE = timedelta(minutes=30)
LONGEST_SILENCE = timedelta(hours=12)

_METHODS = ("explicit", "thread", "mention", "inferred")


class Neighbourhood:
    """The part of the trigger's room that a walk has fetched, up to the trigger."""

    def __init__(self, source: MessageSource, trigger: Message, limits: ExpansionLimits) -> None:
        self._source = source
        self._trigger = trigger
        self._limits = limits
        self._messages: dict[MessageId, Message] = {trigger.id: trigger}
        self._useless: set[MessageId] = set()
        #: The next message in each direction; None at the end of the room, and after the trigger.
        self._neighbours: dict[tuple[MessageId, Direction], MessageId | None] = {(trigger.id, "after"): None}
        self._edges: dict[MessageId, dict[MessageId, Reply]] = {}
        #: Messages whose edges have been fetched.
        self._known_ids: set[MessageId] = set()
        self._silence = SHORTEST_SILENCE

    def __getitem__(self, key: MessageId) -> Message:
        """Return a fetched message."""
        return self._messages[key]

    async def fetch_near(self) -> list[Message]:
        """Fetch the messages just before the trigger, newest first, and the messages that replies connect to them.

        A source may return fewer than requested, so it is asked again until there are `min_recent` messages.
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
        """Return whether the edges of a message have been fetched."""
        return key in self._known_ids

    async def replies_of(self, ids: Iterable[MessageId]) -> dict[MessageId, list[tuple[Message, Reply]]]:
        """Return for each message its neighbours by reply, each with the reply, in a fixed order.

        Replies with too little confidence are left out. If there are several replies between two messages, the most
        certain reply is returned.
        """
        keys = sorted(set(ids))
        if unknown := [key for key in keys if key not in self._known_ids]:
            await self._fetch_replies(unknown, self._limits.max_replies)
            self._known_ids.update(unknown)
        self._add_explicit_replies(keys)
        await self._fetch_ends(keys)
        return {
            key: [
                (self._messages[other], edge)
                for other, edge in sorted(self._edges.get(key, {}).items())
                if other in self._messages and self._is_sure(edge)
            ]
            for key in keys
        }

    async def neighbour(self, message: Message, direction: Direction) -> Message | None:
        """Return the next message in a direction; None if there is none."""
        if (message.id, direction) not in self._neighbours:
            await self._page(message, direction, self._limits.page)
        key = self._neighbours[message.id, direction]
        return None if key is None else self._messages[key]

    async def _fetch_replies(self, ids: Sequence[MessageId], limit: int) -> int:
        wanted = set(ids)
        edges = (await self._source.replies(sorted(wanted), limit))[:limit]
        for edge in edges:
            if not wanted.isdisjoint((edge.child_id, edge.parent_id)):
                self._add_reply(edge)
        return len(edges)

    def _add_explicit_replies(self, ids: Iterable[MessageId]) -> None:
        for key in ids:
            if (parent := self._messages[key].reply_to) is not None:
                self._add_reply(Reply(child_id=key, parent_id=parent, method="explicit", confidence=1.0))

    def _add_reply(self, edge: Reply) -> None:
        """Add an edge if it has enough confidence.

        If there are several edges between two messages, keep the most certain edge.
        """
        child, parent = edge.child_id, edge.parent_id
        if child == parent or edge.confidence < self._limits.min_confidence:
            return
        known = self._edges.get(child, {}).get(parent)
        if known is None or _by_confidence(edge) < _by_confidence(known):
            self._edges.setdefault(child, {})[parent] = edge
            self._edges.setdefault(parent, {})[child] = edge

    def _is_sure(self, edge: Reply) -> bool:
        """Return whether an edge has the confidence that is required for the time between its messages."""
        apart = abs(self._messages[edge.child_id].sent_at - self._messages[edge.parent_id].sent_at)
        return apart <= self._silence or edge.confidence >= self._limits.min_confidence_across_silence

    async def _fetch_ends(self, keys: Iterable[MessageId]) -> None:
        """Fetch the messages at the other ends of these messages' edges.

        If one of them is missing, the missing ends of all known edges are fetched in the same call.
        """
        if all(
            other in self._messages or other in self._useless
            for key in keys
            for other in self._edges.get(key, ())
        ):
            return
        wanted = sorted(self._edges.keys() - self._messages.keys() - self._useless)
        for message in await self._source.messages(wanted):
            if message.id in self._edges and self._is_eligible(message):
                self._messages[message.id] = message
        self._useless.update(key for key in wanted if key not in self._messages)

    async def _page(self, anchor: Message, direction: Direction, limit: int) -> list[Message]:
        """Fetch up to `limit` messages before or after the anchor, nearest first, and record their order."""
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
        for first, second in pairwise(chain):
            self._neighbours[first.id, direction] = second.id
            self._neighbours[second.id, opposite] = first.id

    def _is_eligible(self, message: Message) -> bool:
        """Return whether a message is in the trigger's room and before the trigger."""
        return message.room_id == self._trigger.room_id and message.position < self._trigger.position


def _by_confidence(edge: Reply) -> tuple[float, int, MessageId, MessageId]:
    return (-edge.confidence, _METHODS.index(edge.method), edge.child_id, edge.parent_id)


def _silence(newest_first: Sequence[Message]) -> timedelta:
    """Return the shortest pause that counts as a long silence in this room."""
    pauses = [(later.sent_at - earlier.sent_at).total_seconds() for later, earlier in pairwise(newest_first)]
    median_pause = timedelta(seconds=median(pauses) if pauses else 0.0)
    return min(max(SILENCE_FACTOR * median_pause, SHORTEST_SILENCE), LONGEST_SILENCE)


def _unique_messages(messages: Iterable[Message], *, newest_first: bool) -> list[Message]:
    by_id = {message.id: message for message in messages}
    return sorted(by_id.values(), key=lambda m: m.position, reverse=newest_first)


async def expand(
    source: MessageSource, trigger: Message, *, limits: ExpansionLimits = DEFAULT_LIMITS
) -> Expansion:
    """Return the messages that belong to the trigger, in the order of the room, each with its reason.

    The `min_recent` most recent messages are always included. The other places first go to the trigger's conversation,
    in this order: the stated parents on the path up from the trigger, then messages near in time, then messages further
    away. Within each of these groups, messages with fewer hops from the trigger come first, then newer messages. The
    rest of the room gets the remaining places.

    The result depends on the messages in the source, not on the order of its rows. With R = min_recent, N = max(near,
    R), M = max_messages, P = page and E = max_replies, one walk makes at most

        max(1, R)  (near)  +  1  (the edges there)  +  2·M  (edges and messages, for each level of the conversation)
        +  2·M  (the same for each step around it)  +  2·M  (sides)

    source calls. They return at most D = E + 2·near + 2·M·E edges, a message for the other end of each, the stated
    parents of the N + 1 first messages and of 2·M others, and N + 2·M·P neighbours: together 2·D + 2·N + 2·M + 1 +
    2·M·P rows, however large the room is.
    """
    walker = _Expander(source, trigger, limits)
    await walker.start()
    while walker.remaining > 0:
        added = await walker.follow_replies()
        if walker.remaining > 0:
            added += await walker.follow_time()
        if not added:
            break
    return walker.result()


class _Expander:
    """The state of one walk: the selected messages, and the messages from which it still has to continue."""

    def __init__(self, source: MessageSource, trigger: Message, limits: ExpansionLimits) -> None:
        self._neighbourhood = Neighbourhood(source, trigger, limits)
        self._trigger = trigger
        self._limits = limits
        self._selected: dict[MessageId, Selected] = {}
        self._over_limit: dict[MessageId, Selected] = {}
        #: Messages of the conversation that are not near in time. They are selected after all messages that are near.
        self._waiting: dict[MessageId, Selected] = {}
        self._boundaries: list[TimeBoundary] = []
        self._unfollowed: list[Selected] = []
        self._unscanned: list[Selected] = []
        self._step = 0

    @property
    def remaining(self) -> int:
        """How many more messages may be selected."""
        return self._limits.max_messages - len(self._selected)

    async def start(self) -> None:
        """Select the trigger, its conversation, and the most recent messages."""
        recent = (await self._neighbourhood.fetch_near())[: self._limits.min_recent]
        own = Selected(
            message=self._trigger, part="conversation", rule="trigger", reached_from=None, step=0, hops=0
        )
        await self._take_conversation(own, kept={message.id for message in recent})
        for message in recent:
            if message.id not in self._selected:
                via = self._trigger.id
                item = Selected(message=message, part="room", rule="recent", reached_from=via, step=0, hops=1)
                self._admit(item)
                self._unfollowed.append(item)

    async def _take_conversation(self, trigger: Selected, kept: set[MessageId]) -> None:
        """Select the messages that replies alone connect to the trigger, level by level.

        The places of the `kept` messages are reserved. Messages far away in time wait until all near messages are
        selected. When no place is free, the walk still follows the edges that it has fetched, to find which `kept`
        messages belong to the conversation.
        """
        self._admit(trigger)
        places = self.remaining - len(kept)
        level, answered = [trigger], {trigger.message.id}
        while level or (self._waiting and places > 0):
            if not level:
                found, self._waiting = _nearest_first(self._waiting.values()), {}
            else:
                self._step += 1
                found = _nearest_first(await self._reply_neighbours(level, "conversation"))
                answered.update(
                    item.message.id
                    for item in found
                    if item.is_reply_parent and item.reached_from in answered
                )
                found.sort(key=lambda item: item.message.id not in answered)
                found = self._postponed(found, answered)
            level = list[Selected]()
            for item in found:
                key = item.message.id
                if key in kept or places > 0:
                    places -= key not in kept
                    self._admit(item)
                    level.append(item)
                    continue
                self._over_limit[key] = item
                if self._neighbourhood.is_known(key):
                    level.append(item)
        self._over_limit |= self._waiting
        self._waiting = {}

    def _postponed(self, found: list[Selected], answered: set[MessageId]) -> list[Selected]:
        """Return the messages to select now: near messages, and stated parents on the path up from the trigger."""
        now: list[Selected] = []
        for item in found:
            key = item.message.id
            if self._neighbourhood.is_known(key) or (key in answered and item.is_stated):
                now.append(item)
            else:
                self._waiting[key] = item
        return now

    async def follow_replies(self) -> int:
        """Select the messages that are one reply away from the newly selected messages; return how many were added."""
        self._step += 1
        origins, self._unfollowed = self._unfollowed, []
        return self._take(await self._reply_neighbours(origins, "room"))

    async def follow_time(self) -> int:
        """Select the next message on each open side of the newly selected messages, or close the side.

        Return how many were added. Messages nearest to the trigger come first. Nothing is fetched once there are enough
        messages.
        """
        self._step += 1
        origins, self._unscanned = _nearest_first(self._unscanned), []
        found: dict[MessageId, Selected] = {}
        for _, group in groupby(origins, key=lambda item: item.hops):
            if len(found) >= self.remaining:
                break
            for origin in group:
                for item in await self._time_neighbours(origin):
                    found.setdefault(item.message.id, item)
        return self._take(found.values())

    def result(self) -> Expansion:
        """Return the result, in the order of the room."""
        boundaries = [one for one in self._boundaries if one.beyond not in self._selected]
        return Expansion(
            trigger_id=self._trigger.id,
            selected=tuple(chronological(self._selected.values())),
            over_limit=tuple(chronological(self._over_limit.values())),
            boundaries=tuple(
                sorted(boundaries, key=lambda b: (self._neighbourhood[b.message_id].position, b.direction))
            ),
            steps=self._step,
        )

    def _admit(self, item: Selected) -> None:
        self._selected[item.message.id] = item
        self._unscanned.append(item)

    async def _reply_neighbours(self, origins: Iterable[Selected], part: ContextPart) -> list[Selected]:
        """Return the new messages that are one reply away from these messages, each over the shortest path."""
        ordered = _nearest_first(origins)
        ties = await self._neighbourhood.replies_of(origin.message.id for origin in ordered)
        found: dict[MessageId, Selected] = {}
        for origin in ordered:
            for message, reply in ties[origin.message.id]:
                if not self._is_reached(message.id):
                    item = self._item(message, origin, part=part, rule="reply", reply=reply)
                    found.setdefault(message.id, item)
        return list(found.values())

    def _is_reached(self, key: MessageId) -> bool:
        return key in self._selected or key in self._over_limit or key in self._waiting

    async def _time_neighbours(self, origin: Selected) -> list[Selected]:
        """Return the new messages directly before and after a message. Close each side that has a long pause."""
        found: list[Selected] = []
        for direction in DIRECTIONS:
            neighbour = await self._neighbourhood.neighbour(origin.message, direction)
            if neighbour is None or neighbour.id in self._selected:
                continue
            gap = abs(neighbour.sent_at - origin.message.sent_at)
            if gap <= self._limits.gap:
                found.append(self._item(neighbour, origin, part="room", rule="temporal"))
                continue
            self._boundaries.append(
                TimeBoundary(message_id=origin.message.id, direction=direction, gap=gap, beyond=neighbour.id)
            )
        return found

    def _item(
        self,
        message: Message,
        origin: Selected,
        *,
        part: ContextPart,
        rule: SelectionRule,
        reply: Reply | None = None,
    ) -> Selected:
        return Selected(
            message=message,
            part=part,
            rule=rule,
            reached_from=origin.message.id,
            reply=reply,
            step=self._step,
            hops=origin.hops + 1,
        )

    def _take(self, found: Iterable[Selected]) -> int:
        """Select candidates while places are free; return how many were selected.

        The candidates nearest to the trigger come first, then the newest.
        """
        ranked, space = _nearest_first(found), self.remaining
        for item in ranked[:space]:
            self._admit(item)
            self._unfollowed.append(item)
        self._over_limit |= {item.message.id: item for item in ranked[space:]}
        return min(space, len(ranked))


def chronological(items: Iterable[Selected]) -> list[Selected]:
    """Return the items in the order of the room."""
    return sorted(items, key=lambda item: item.message.position)


def _nearest_first(items: Iterable[Selected]) -> list[Selected]:
    """Return the items with fewer hops first. Among items with equal hops, return the newest first."""
    newest_first = chronological(items)[::-1]
    return sorted(newest_first, key=lambda item: item.hops)
