"""The walk from a trigger message through the room: what belongs to it, and why.

Two things tie messages together: somebody answered somebody, however long ago, and people talk within
minutes of each other. Recency alone loses the first, replies alone lose the second, so the walk takes
turns: a level of reply edges, then a neighbour in time on each open side, until the limit is reached or
nothing is added. A pause longer than the gap seals that side. Nothing later than the trigger ever enters.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Literal

from roomlore.domain.errors import BadInput
from roomlore.domain.ids import MessageId
from roomlore.domain.ports import MessageSource
from roomlore.domain.records import Message

Rule = Literal["trigger", "recent", "reply", "temporal"]
Direction = Literal["before", "after"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkLimits:
    """How far a walk may go and how much it may fetch."""

    #: So many messages just before the trigger are in, whatever the pauses between them.
    min_recent: int = 10
    #: So many messages are in at most, the trigger among them.
    max_messages: int = 30
    #: A longer pause between two neighbours ends the walk in that direction.
    gap: timedelta = timedelta(minutes=30)
    #: Reply edges less certain than this are not followed.
    min_confidence: float = 0.5
    #: Messages fetched per call while looking at neighbours in time.
    page: int = 10
    #: Reply edges fetched per step. The explicit parent of a message needs no edge and is never cut.
    max_replies: int = 64

    def __post_init__(self) -> None:
        if self.min_recent < 0:
            raise BadInput("min_recent", "must not be negative")
        if self.max_messages <= self.min_recent:
            raise BadInput("max_messages", "must be greater than min_recent: the trigger counts too")
        if self.gap < timedelta(0):
            raise BadInput("gap", "must not be negative")
        if self.page < 1 or self.max_replies < 1:
            raise BadInput("page and max_replies", "must be at least 1")

    @property
    def max_calls(self) -> int:
        """The most source calls that one walk can make."""
        return self.min_recent + 1 + 4 * self.max_messages

    @property
    def max_rows(self) -> int:
        """The most rows, messages and reply edges together, that one walk can receive."""
        per_message = 2 * self.max_replies + 1 + 2 * self.page
        return self.min_recent + self.max_messages * per_message


DEFAULT_LIMITS = WalkLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """A message that the walk reached, and why."""

    message: Message
    rule: Rule
    #: The message it was reached from; None for the trigger alone.
    via: MessageId | None
    #: The turn of the walk that added it; the trigger and the most recent messages are turn 0.
    step: int
    #: Edges between it and the trigger along the way it was reached.
    hops: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A direction in which the walk stopped because nobody spoke for too long."""

    message_id: MessageId
    direction: Direction
    gap: timedelta
    #: The message on the far side of the pause, which is not in.
    beyond: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """What a walk found, in the order of the room."""

    trigger_id: MessageId
    selected: tuple[Selected, ...]
    #: Reached by the last step and left out because the limit was met.
    over_limit: tuple[Selected, ...]
    sealed: tuple[Sealed, ...]
    #: Turns taken, the start not counted.
    steps: int


async def walk(source: MessageSource, trigger: Message, *, limits: WalkLimits = DEFAULT_LIMITS) -> Walk:
    """Return the messages that belong to the trigger, in the order of the room, each with its reason.

    The result depends on what the source holds and not on the order in which it hands rows out. With
    R = min_recent, M = max_messages, P = page and E = max_replies, one walk makes at most

        R + 1  (recent)  +  2·M  (one edge and one message call per reply step)  +  2·M  (sides)

    source calls, and receives at most R + M·(2·E + 1) + 2·M·P rows: each message is expanded once, each
    of its two sides is looked at once, and a step that expands nothing asks nothing.
    """
    walker = _Walker(source, trigger, limits)
    await walker.start()
    while walker.space > 0:
        added = await walker.follow_replies()
        if walker.space > 0:
            added += await walker.look_around()
        if not added:
            break
    return walker.result()


class _Walker:
    """The state of one walk: what is in, what was seen, and which ends are still loose."""

    def __init__(self, source: MessageSource, trigger: Message, limits: WalkLimits) -> None:
        self._source = source
        self._trigger = trigger
        self._limits = limits
        self._selected: dict[MessageId, Selected] = {}
        self._over_limit: list[Selected] = []
        self._sealed: list[Sealed] = []
        self._seen: dict[MessageId, Message] = {trigger.id: trigger}
        self._useless: set[MessageId] = set()
        #: Who stands next to whom; None where the room, or the time up to the trigger, ends.
        self._next: dict[tuple[MessageId, Direction], MessageId | None] = {(trigger.id, "after"): None}
        self._unfollowed: list[Selected] = []
        self._unlooked: list[Selected] = []
        self._step = 0

    @property
    def space(self) -> int:
        """How many messages may still come in."""
        return self._limits.max_messages - len(self._selected)

    async def start(self) -> None:
        """Take in the trigger and the most recent messages before it, whatever the pauses."""
        self._admit(Selected(message=self._trigger, rule="trigger", via=None, step=0, hops=0))
        oldest, missing = self._trigger, self._limits.min_recent
        while missing > 0:
            page = await self._page(oldest, "before", missing)
            if not page:
                break
            for message in page:
                self._admit(Selected(message=message, rule="recent", via=self._trigger.id, step=0, hops=1))
            oldest, missing = page[-1], missing - len(page)

    async def follow_replies(self) -> int:
        """Take in whatever is one reply away from the newcomers; return how many came in."""
        self._step += 1
        origins = {origin.message.id: origin for origin in self._unfollowed}
        self._unfollowed = []
        pairs = await self._reply_pairs(origins)
        await self._fetch({other for other, _ in pairs})
        return self._take(
            self._reached(self._seen[other], "reply", origins[origin])
            for other, origin in pairs
            if other in self._seen
        )

    async def look_around(self) -> int:
        """Take in the next message on each side of the newcomers, or seal it; return how many came in."""
        self._step += 1
        origins = sorted(self._unlooked, key=lambda s: s.message.position)
        self._unlooked = []
        found: list[Selected] = []
        for origin in origins:
            for direction in ("before", "after"):
                neighbour = await self._neighbour(origin.message, direction)
                if neighbour is None or neighbour.id in self._selected:
                    continue
                gap = abs(neighbour.sent_at - origin.message.sent_at)
                if gap <= self._limits.gap:
                    found.append(self._reached(neighbour, "temporal", origin))
                    continue
                seal = Sealed(message_id=origin.message.id, direction=direction, gap=gap, beyond=neighbour.id)
                self._sealed.append(seal)
        return self._take(found)

    def result(self) -> Walk:
        """Return what was found, in the order of the room."""
        sealed = [seal for seal in self._sealed if seal.beyond not in self._selected]
        return Walk(
            trigger_id=self._trigger.id,
            selected=tuple(_chronological(self._selected.values())),
            over_limit=tuple(_chronological(self._over_limit)),
            sealed=tuple(sorted(sealed, key=lambda s: (self._seen[s.message_id].position, s.direction))),
            steps=self._step,
        )

    def _reached(self, message: Message, rule: Rule, origin: Selected) -> Selected:
        return Selected(
            message=message, rule=rule, via=origin.message.id, step=self._step, hops=origin.hops + 1
        )

    def _admit(self, item: Selected) -> None:
        self._selected[item.message.id] = item
        self._unfollowed.append(item)
        self._unlooked.append(item)

    def _take(self, found: Iterable[Selected]) -> int:
        """Admit the candidates nearest to the trigger, then the newest, as long as there is space."""
        best: dict[MessageId, Selected] = {}
        for item in found:
            key = item.message.id
            if key not in self._selected and (key not in best or self._nearer(item, best[key])):
                best[key] = item
        newest_first = sorted(best.values(), key=lambda s: s.message.position, reverse=True)
        ranked = sorted(newest_first, key=lambda s: s.hops)
        space = self.space
        for item in ranked[:space]:
            self._admit(item)
        self._over_limit += ranked[space:]
        return min(space, len(ranked))

    def _nearer(self, one: Selected, other: Selected) -> bool:
        """Say whether the first way to the same message is the better one to tell."""
        if one.hops != other.hops or one.via is None or other.via is None:
            return one.hops < other.hops
        return self._seen[one.via].position > self._seen[other.via].position

    async def _reply_pairs(self, origins: dict[MessageId, Selected]) -> set[tuple[MessageId, MessageId]]:
        """Return (the other end, the newcomer) for each reply edge that may be followed."""
        limit = self._limits.max_replies
        ids = sorted(origins)
        edges = (await self._source.replies(ids, limit))[:limit]
        ends = {(e.child_id, e.parent_id) for e in edges if e.confidence >= self._limits.min_confidence}
        for key, origin in origins.items():
            if origin.message.reply_to is not None:
                ends.add((key, origin.message.reply_to))
        pairs = {(parent, child) for child, parent in ends if child in origins}
        pairs |= {(child, parent) for child, parent in ends if parent in origins}
        return {(other, origin) for other, origin in pairs if other not in self._selected}

    async def _fetch(self, ids: set[MessageId]) -> None:
        """See those of the ids that exist and may enter; remember the others as useless."""
        wanted = sorted(key for key in ids if key not in self._seen and key not in self._useless)
        if not wanted:
            return
        asked = set(wanted)
        for message in await self._source.messages(wanted):
            if message.id in asked and self._may_enter(message):
                self._seen[message.id] = message
        self._useless |= asked - self._seen.keys()

    async def _neighbour(self, message: Message, direction: Direction) -> Message | None:
        if (message.id, direction) not in self._next:
            await self._page(message, direction, self._limits.page)
        key = self._next[message.id, direction]
        return None if key is None else self._seen[key]

    async def _page(self, anchor: Message, direction: Direction, limit: int) -> list[Message]:
        """Return up to `limit` messages going away from the anchor, and learn who stands next to whom."""
        if direction == "before":
            rows = await self._source.before(anchor, limit)
            near = [m for m in rows if self._may_enter(m) and m.position < anchor.position]
        else:
            rows = await self._source.after(anchor, limit)
            near = [m for m in rows if self._may_enter(m) and m.position > anchor.position]
        page = _distinct(near, newest_first=direction == "before")[:limit]
        self._learn([anchor, *page], direction)
        at_trigger = direction == "after" and any(m.position >= self._trigger.position for m in rows)
        if not page or at_trigger:
            self._next[(page[-1] if page else anchor).id, direction] = None
        return page

    def _learn(self, chain: Sequence[Message], direction: Direction) -> None:
        opposite: Direction = "after" if direction == "before" else "before"
        for message in chain:
            self._seen.setdefault(message.id, message)
        for one, other in pairwise(chain):
            self._next[one.id, direction] = other.id
            self._next[other.id, opposite] = one.id

    def _may_enter(self, message: Message) -> bool:
        """Say whether a message is of the trigger's room and was there before the trigger."""
        return message.room_id == self._trigger.room_id and message.position < self._trigger.position


def _chronological(items: Iterable[Selected]) -> list[Selected]:
    return sorted(items, key=lambda s: s.message.position)


def _distinct(messages: Iterable[Message], *, newest_first: bool) -> list[Message]:
    by_id = {message.id: message for message in messages}
    return sorted(by_id.values(), key=lambda m: m.position, reverse=newest_first)
