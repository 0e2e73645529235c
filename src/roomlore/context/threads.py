"""Completes the threads of a walk, so that an answer is shown with its question and all other answers.

Threads consist of the same edges as elsewhere (view `thread_edges`): stated replies, platform threads, and inferred
answers to questions. Other inferred replies make no threads. A thread has no messages after the trigger.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from roomlore.context.expansion import Expansion, Selected
from roomlore.context.limits import ExpansionLimits
from roomlore.domain.ids import MessageId
from roomlore.domain.ports import MessageSource
from roomlore.domain.records import Message, Reply

#: The methods whose edges make threads. If a message has several edges, the first method decides.
_METHODS = ("explicit", "thread", "mention", "inferred")
_STATED = ("explicit", "thread")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextThread:
    """A thread, or a message without a thread, in the order of the room."""

    members: tuple[Selected, ...]
    #: False if the thread has more messages than a context may have. In this case, some of them are missing here.
    is_complete: bool
    #: The parent of each message of the thread, if the parent is also in the thread.
    parents: dict[MessageId, MessageId]


async def complete_threads(
    source: MessageSource, expansion: Expansion, trigger: Message, *, limits: ExpansionLimits
) -> list[ContextThread]:
    """Return the complete thread of each selected message. The threads may have messages that were not selected.

    At most 2·M source calls are made, with M = `limits.max_messages`. Each call that returns something adds to a
    thread, and a thread with more than M messages is not followed further.
    """
    collector = _ThreadCollector(source, expansion, trigger, limits)
    while collector.frontier:
        await collector.expand()
    return collector.result()


class _ThreadCollector:
    """Collects threads: the messages found so far, and the `frontier`, whose edges are not fetched yet."""

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
        #: Messages that have more edges than may be fetched.
        self._crowded: set[MessageId] = set()
        self.frontier: list[MessageId] = sorted(self._members)

    async def expand(self) -> None:
        """Add the messages that are one edge away from the messages that the previous call added."""
        self._steps += 1
        frontier, limit = self.frontier, self._limits.max_messages * self._limits.max_replies
        edges = (await self._source.replies(frontier, limit))[:limit]
        if len(edges) == limit:
            self._crowded.update(frontier)
        stated = [
            Reply(child_id=key, parent_id=parent, method="explicit", confidence=1.0)
            for key in frontier
            if (parent := self._members[key].message.reply_to) is not None
        ]
        near = [edge for edge in (*stated, *edges) if _is_followed(edge)]
        await self._fetch(near)
        added = self._admit(near)
        roots = self._roots()
        sizes = Counter(roots.values())
        self.frontier = sorted(key for key in added if sizes[roots[key]] <= self._limits.max_messages)

    async def _fetch(self, edges: Sequence[Reply]) -> None:
        ends = {key for edge in edges for key in (edge.child_id, edge.parent_id)}
        wanted = sorted(ends - self._members.keys() - self._over_limit.keys() - self._useless)
        for message in await self._source.messages(wanted) if wanted else ():
            if message.room_id == self._trigger.room_id and message.position <= self._trigger.position:
                # The message was not reached over an edge before.
                self._over_limit[message.id] = Selected(
                    message=message, part="room", rule="reply", reached_from=None, step=0, hops=0
                )
        self._useless.update(key for key in wanted if key not in self._over_limit)

    def _admit(self, edges: Iterable[Reply]) -> list[MessageId]:
        """Add the messages at both ends of the edges; return the ids of the new messages."""
        added: list[MessageId] = []
        for edge in edges:
            for key, other in ((edge.child_id, edge.parent_id), (edge.parent_id, edge.child_id)):
                if key in self._members or key not in self._over_limit or other not in self._members:
                    continue
                origin = self._members[other]
                self._members[key] = Selected(
                    message=self._over_limit.pop(key).message,
                    part=origin.part,
                    rule="reply",
                    reached_from=other,
                    reply=edge,
                    step=self._steps,
                    hops=origin.hops + 1,
                )
                added.append(key)
            known = self._edges.setdefault(edge.child_id, [])
            known += [edge] if edge not in known else []
        return added

    def result(self) -> list[ContextThread]:
        """Return the threads. Each message is in exactly one thread."""
        roots, parents = self._roots(), self._parents()
        together: dict[MessageId, list[Selected]] = {}
        for item in sorted(self._members.values(), key=lambda item: item.message.position):
            together.setdefault(roots[item.message.id], []).append(item)
        return [
            ContextThread(
                members=tuple(members),
                is_complete=len(members) <= self._limits.max_messages
                and self._crowded.isdisjoint(item.message.id for item in members),
                parents={key: parents[key] for item in members if (key := item.message.id) in parents},
            )
            for members in together.values()
            # A thread without a selected message is left out. It was reached over an edge that is not used, because
            # another edge decides the parent.
            if not self._selected.isdisjoint(item.message.id for item in members)
        ]

    def _parents(self) -> dict[MessageId, MessageId]:
        """Return the parent of each message that has one. If a message has several edges, the first method decides."""
        chosen: dict[MessageId, MessageId] = {}
        for child, edges in self._edges.items():
            both = [edge for edge in edges if child in self._members and self._is_within(edge)]
            if both:
                best = min(both, key=lambda edge: (_METHODS.index(edge.method), edge.parent_id))
                chosen[child] = best.parent_id
        return chosen

    def _is_within(self, edge: Reply) -> bool:
        return edge.parent_id in self._members

    def _roots(self) -> dict[MessageId, MessageId]:
        """Return for each message one message that stands for its thread."""
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
    return edge.child_id != edge.parent_id and (edge.method in _STATED or edge.is_answer)
