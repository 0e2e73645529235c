"""Makes exchanges whole: whoever is shown an answer is shown what it answers, and everything else said to that.

A walk ends somewhere, mostly in the middle of exchanges. What ties their messages together is what ties them everywhere
(the view `exchange_edges`): what the platform says is answered, then its threads, then a question answered by name. Guesses
do not count. An exchange ends with the trigger: what was said later is not part of it yet.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from roomlore.context.expansion import Expansion, Selected
from roomlore.context.limits import ExpansionLimits
from roomlore.domain.ids import MessageId
from roomlore.domain.ports import MessageSource
from roomlore.domain.records import Message, Reply

#: Which of several edges of a message counts.
_METHODS = ("explicit", "thread", "mention")
#: From this confidence on somebody who was called by name was meant.
_MIN_CONFIDENCE = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextThread:
    """An exchange, or a message that belongs to none, in the order of the room."""

    members: tuple[Selected, ...]
    #: False where it has more members than a context may have: then not all of them are here.
    is_complete: bool
    #: What each member stands under, where that is here.
    parents: dict[MessageId, MessageId]


async def complete_threads(
    source: MessageSource, expansion: Expansion, trigger: Message, *, limits: ExpansionLimits
) -> list[ContextThread]:
    """Return the exchanges of everything that a walk selected, each with what the walk did not reach of it.

    It makes at most 2·M source calls, M being `limits.max_messages`: with each that brings anything an exchange grows,
    and none is followed that has more members than M.
    """
    gathered = _ThreadCollector(source, expansion, trigger, limits)
    while gathered.frontier:
        await gathered.expand()
    return gathered.result()


class _ThreadCollector:
    """What is known of the exchanges, and which of their messages may still have further edges."""

    def __init__(
        self, source: MessageSource, found: Expansion, trigger: Message, limits: ExpansionLimits
    ) -> None:
        self._source = source
        self._trigger = trigger
        self._limits = limits
        self._steps = found.steps
        self._selected = {item.message.id for item in found.selected}
        self._members = {item.message.id: item for item in found.selected}
        self._over_limit = {item.message.id: item for item in found.over_limit}
        self._useless: set[MessageId] = set()
        self._edges: dict[MessageId, list[Reply]] = {}
        #: Messages of which there are more edges than may be asked for.
        self._crowded: set[MessageId] = set()
        self.frontier: list[MessageId] = sorted(self._members)

    async def expand(self) -> None:
        """Take in whatever is one edge away from the newest members."""
        self._steps += 1
        asked, most = self.frontier, self._limits.max_messages * self._limits.max_replies
        edges = (await self._source.replies(asked, most))[:most]
        if len(edges) == most:
            self._crowded.update(asked)
        stated = [
            Reply(child_id=key, parent_id=parent, method="explicit", confidence=1.0)
            for key in asked
            if (parent := self._members[key].message.reply_to) is not None
        ]
        near = [edge for edge in (*stated, *edges) if _is_followed(edge)]
        await self._fetch(near)
        added = self._admit(near)
        openings = self._roots()
        sizes = Counter(openings.values())
        self.frontier = sorted(key for key in added if sizes[openings[key]] <= self._limits.max_messages)

    async def _fetch(self, edges: Sequence[Reply]) -> None:
        ends = {key for edge in edges for key in (edge.child_id, edge.parent_id)}
        wanted = sorted(ends - self._members.keys() - self._over_limit.keys() - self._useless)
        for message in await self._source.messages(wanted) if wanted else ():
            if message.room_id == self._trigger.room_id and message.position <= self._trigger.position:
                self._over_limit[message.id] = _unreached(message)
        self._useless.update(key for key in wanted if key not in self._over_limit)

    def _admit(self, edges: Iterable[Reply]) -> list[MessageId]:
        """Hold what the edges lead to; return what was not held before."""
        added: list[MessageId] = []
        for edge in edges:
            for key, other in ((edge.child_id, edge.parent_id), (edge.parent_id, edge.child_id)):
                if key in self._members or key not in self._over_limit or other not in self._members:
                    continue
                self._members[key] = self._to_member(
                    self._over_limit.pop(key).message, self._members[other], edge
                )
                added.append(key)
            known = self._edges.setdefault(edge.child_id, [])
            known += [edge] if edge not in known else []
        return added

    def _to_member(self, message: Message, origin: Selected, edge: Reply) -> Selected:
        return Selected(
            message=message,
            part=origin.part,
            rule="reply",
            via=origin.message.id,
            reply=edge,
            step=self._steps,
            hops=origin.hops + 1,
        )

    def result(self) -> list[ContextThread]:
        """Return what was gathered, each message in exactly one exchange."""
        openings, parents = self._roots(), self._parents()
        together: dict[MessageId, list[Selected]] = {}
        for item in sorted(self._members.values(), key=lambda item: item.message.position):
            together.setdefault(openings[item.message.id], []).append(item)
        return [
            ContextThread(
                members=tuple(members),
                is_complete=len(members) <= self._limits.max_messages
                and self._crowded.isdisjoint(item.message.id for item in members),
                parents={key: parents[key] for item in members if (key := item.message.id) in parents},
            )
            for members in together.values()
            # An edge that does not count after all may have led to a stranger.
            if not self._selected.isdisjoint(item.message.id for item in members)
        ]

    def _parents(self) -> dict[MessageId, MessageId]:
        """Return what each message stands under: of several edges the one that counts."""
        chosen: dict[MessageId, MessageId] = {}
        for child, edges in self._edges.items():
            both = [edge for edge in edges if child in self._members and self._is_within(edge)]
            if both:
                best = min(both, key=lambda edge: (_METHODS.index(edge.method), edge.parent_id))
                chosen[child] = best.parent_id
        return chosen

    def _is_within(self, edge: Reply) -> bool:
        parent = self._members.get(edge.parent_id)
        return parent is not None and (edge.method != "mention" or "?" in parent.message.body)

    def _roots(self) -> dict[MessageId, MessageId]:
        """Return for each message one that stands for its exchange."""
        parents = self._parents()
        root = {key: key for key in self._members}

        def top(key: MessageId) -> MessageId:
            while root[key] != key:
                root[key] = root[root[key]]
                key = root[key]
            return key

        for child, parent in parents.items():
            root[top(child)] = top(parent)
        return {key: top(key) for key in self._members}


def _is_followed(edge: Reply) -> bool:
    if edge.child_id == edge.parent_id or edge.method not in _METHODS:
        return False
    return edge.method != "mention" or edge.confidence >= _MIN_CONFIDENCE


def _unreached(message: Message) -> Selected:
    """Return a message that no edge has led to yet."""
    return Selected(message=message, part="room", rule="reply", via=None, step=0, hops=0)
