"""Chooses what of a room a context shows: whole exchanges, those that matter most first, within a budget and a limit.

An exchange that does not fit is shortened, all of its messages there, or left out whole. Only of the trigger's own a part
is shown where that does not fit either, and the context says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from roomlore.context.drafting import ContextDraft
from roomlore.context.records import OmissionCause
from roomlore.context.walked import Selected, Expansion
from roomlore.context.wholes import ContextThread
from roomlore.domain.ids import MessageId

#: Fewer tokens tell nothing of a message: its citation, time and author take most of them.
_MIN_TOKENS = 24


@dataclass(slots=True, kw_only=True)
class Selection:
    """What is shown, and why the rest is not."""

    kept: list[Selected] = field(default_factory=list[Selected])
    causes: dict[MessageId, OmissionCause] = field(default_factory=dict[MessageId, OmissionCause])
    #: Whether not all of the trigger's own exchange is shown.
    is_partial: bool = False


class ContextSelector:
    """Fills a context with exchanges, one after the other."""

    def __init__(self, found: Expansion, draft: ContextDraft, *, limit: int, budget: int, notice: int) -> None:
        self._draft = draft
        self._limit = limit
        self._budget = budget
        #: What it costs to say that not all of the trigger's exchange is there.
        self._notice = notice
        self._places = {item.message.id: place for place, item in enumerate(_by_rank(found))}
        self._recent = {item.message.id for item in found.selected if item.rule == "recent"}
        self._choice = Selection(causes={item.message.id: "limit" for item in found.over_limit})
        self._is_full = False

    def select(self, threads: Sequence[ContextThread]) -> Selection:
        """Return what is shown of these exchanges."""
        own, *others = sorted(threads, key=self._place)
        self._take_trigger_thread(own)
        for one in others:
            self._take(one)
        return self._choice

    def _place(self, one: ContextThread) -> int:
        return min(self._places[key] for item in one.members if (key := item.message.id) in self._places)

    def _take_trigger_thread(self, own: ContextThread) -> None:
        """Take the trigger's exchange, whole if that can be, otherwise what matters most of it."""
        if own.is_complete and self._try_take(own.members):
            return
        choice = self._choice
        if own.is_complete and len(own.members) == 1:
            # Alone, and longer than the budget.
            choice.kept += own.members
            return
        choice.is_partial, self._budget = True, self._budget - self._notice
        for item in self._nearest(own):
            is_first = not choice.kept
            if is_first or (len(choice.kept) < self._free([]) and self._fits([*choice.kept, item])):
                choice.kept.append(item)
            elif item.message.id in self._places:
                break
        kept = {item.message.id for item in choice.kept}
        self._leave([item for item in own.members if item.message.id not in kept], "exchange")

    def _nearest(self, own: ContextThread) -> list[Selected]:
        """Return the trigger, what it answers and so on, then the rest as it matters; nothing before what it answers."""
        items = {item.message.id: item for item in own.members}
        trigger = min(items, key=lambda key: self._places.get(key, len(self._places)))
        order: dict[MessageId, None] = {}
        key: MessageId | None = trigger
        while key is not None and key not in order:
            order[key] = None
            key = own.parents.get(key)
        rest = sorted(items.keys() & self._places.keys(), key=self._places.__getitem__)
        waiting = [one for one in rest if one not in order]
        while ready := [one for one in waiting if own.parents.get(one) in {None, *order}]:
            order[ready[0]] = None
            waiting.remove(ready[0])
        return [items[one] for one in order if one in items]

    def _take(self, one: ContextThread) -> None:
        """Take an exchange whole, or leave it out whole."""
        members = one.members
        if self._is_full:
            return self._leave(members, "budget")
        if not one.is_complete:
            return self._leave(members, "exchange")
        if len(members) > self._free(members):
            return self._leave(members, "limit")
        if self._try_take(members):
            return None
        # A message alone is kept or dropped as it matters: nothing that matters less comes in its stead.
        self._is_full = len(members) == 1
        return self._leave(members, "budget" if self._is_full else "exchange")

    def _try_take(self, members: Sequence[Selected]) -> bool:
        """Take messages if they fit, if need be with fewer words of each; return whether they did."""
        kept = self._choice.kept
        if len(members) > self._free(members):
            return False
        if self._fits([*kept, *members]):
            kept += members
            return True
        left = self._budget - (self._draft.cost(kept) if kept else 0)
        each = left // len(members)
        if len(members) == 1 or each < _MIN_TOKENS:
            return False
        with self._draft.shortened(members, tokens=each) as keep:
            if not self._fits([*kept, *members]):
                return False
            keep()
        kept += members
        return True

    def _fits(self, items: Sequence[Selected]) -> bool:
        return self._draft.cost(items) <= self._budget

    def _free(self, members: Sequence[Selected]) -> int:
        """Return how many more messages may come in; places are kept for the most recent."""
        taken = {item.message.id for item in (*self._choice.kept, *members)}
        return self._limit - len(self._choice.kept) - len(self._recent - taken)

    def _leave(self, items: Sequence[Selected], cause: OmissionCause) -> None:
        self._choice.causes |= dict.fromkeys((item.message.id for item in items), cause)


def _by_rank(found: Expansion) -> list[Selected]:
    """Return the selected messages, those that matter most first."""
    answered = _answered(found)

    def rank(item: Selected) -> tuple[int, int]:
        if item.message.id in answered:
            return (0, item.hops)
        if item.part == "conversation":
            return (1, item.hops)
        return (2, 0) if item.rule == "recent" else (3, item.hops)

    newest_first = found.selected[::-1]
    return sorted(newest_first, key=rank)


def _answered(found: Expansion) -> set[MessageId]:
    """Return the trigger, what it answers, what that answers, as far as it was selected."""
    chain = {found.trigger_id}
    for item in sorted(found.selected, key=lambda item: item.hops):
        if item.is_reply_parent and item.via in chain:
            chain.add(item.message.id)
    return chain
