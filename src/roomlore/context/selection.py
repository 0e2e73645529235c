"""Selects what a context shows: whole threads, the most important first, within a token budget and a message limit.

If a thread does not fit, all its messages are shortened. If it still does not fit, it is left out. Only the trigger's
own thread is then shown in part, and the context says so.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from roomlore.context.expansion import Expansion, Selected, chronological
from roomlore.context.links import escape_embeddings
from roomlore.context.records import ContextLine, OmissionCause, OmittedMessage
from roomlore.context.render import is_own, line_text, own_day_text, speaker_names
from roomlore.context.threads import ContextThread
from roomlore.context.tokens import TokenCounter, largest_fitting, message_cost
from roomlore.domain.ids import MessageId
from roomlore.domain.records import Viewer
from roomlore.domain.rendering import NO_TEXT_NOTICE, removal_notice, safe_text, with_mention_names

#: A message that takes a larger share of the budget is cut. The trigger may take twice this share.
MAX_MESSAGE_SHARE = 0.25
#: The number of characters of a body that are always shown.
_MIN_SHOWN = 200
#: The number of characters of a body that are always shown in a shortened thread.
_MIN_SHORTENED = 40
#: A body is cut only by at least so many characters, because the marker also takes space.
_MIN_CUT = 40
#: Every tokenizer makes at least so many tokens of ordinary text. The constant bounds the work on giant bodies.
_MAX_CHARACTERS_PER_TOKEN = 16


class ContextDraft:
    """Formats any choice of candidates as lines, and counts their tokens."""

    def __init__(
        self, candidates: Iterable[Selected], viewer: Viewer, *, budget: int, counter: TokenCounter
    ) -> None:
        self._viewer = viewer
        self._allowance = max(1, int(budget * MAX_MESSAGE_SHARE))
        self._counter = counter
        self._candidates = chronological(candidates)
        self._speakers = speaker_names(item.message for item in self._candidates)
        self._lines: dict[tuple[MessageId, tuple[str, int], str, str | None, bool], ContextLine] = {}
        self._shown = {
            item.message.id: self._show(item, self._allowance * (2 if item.rule == "trigger" else 1))
            for item in self._candidates
        }

    def lines(self, chosen: Sequence[Selected]) -> tuple[ContextLine, ...]:
        """Return lines for the chosen messages in the order of the room, labelled from m1."""
        ordered = chronological(chosen)
        labels = {item.message.id: f"m{place}" for place, item in enumerate(ordered, start=1)}
        days = [item.message.sent_at.date() for item in ordered]
        return tuple(
            self._line(item, self._shown[item.message.id], labels, is_dated=day != before)
            for item, day, before in zip(ordered, days, [None, *days], strict=False)
        )

    def cost(self, chosen: Sequence[Selected]) -> int:
        """Return the tokens of the chosen messages."""
        return sum(line.tokens for line in self.lines(chosen))

    def omitted(
        self, kept: Sequence[Selected], causes: Mapping[MessageId, OmissionCause]
    ) -> tuple[OmittedMessage, ...]:
        """Return the candidates that are not kept, each with the cause and its tokens."""
        is_in = {item.message.id for item in kept}
        return tuple(
            OmittedMessage(
                message=item.message,
                part=item.part,
                rule=item.rule,
                reached_from=item.reached_from,
                reply=item.reply,
                step=item.step,
                reason=causes[item.message.id],
                tokens=self._line(item, self._shown[item.message.id], self._widest_labels(item)).tokens,
            )
            for item in self._candidates
            if item.message.id not in is_in
        )

    def shorten(self, items: Sequence[Selected], *, tokens: int) -> Callable[[], None]:
        """Shorten each of these messages to a number of tokens; return a function that undoes this."""
        before = {item.message.id: self._shown[item.message.id] for item in items}
        for item in items:
            own = self._allowance * 2 if item.rule == "trigger" else min(tokens, self._allowance)
            self._shown[item.message.id] = self._show(item, own, at_least=_MIN_SHORTENED)
        return lambda: self._shown.update(before)

    def _line(
        self,
        item: Selected,
        shown: tuple[str, int],
        labels: dict[MessageId, str],
        *,
        is_dated: bool = True,
    ) -> ContextLine:
        message, label = item.message, labels[item.message.id]
        reply_to = labels.get(message.reply_to) if message.reply_to else None
        key = (message.id, shown, label, reply_to, is_dated)
        if key not in self._lines:
            line = ContextLine(
                message=message,
                label=label,
                speaker=self._speakers[message.author_id, message.author_name],
                text=shown[0],
                characters_cut=shown[1],
                reply_to=reply_to,
                is_dated=is_dated,
                part=item.part,
                rule=item.rule,
                reached_from=item.reached_from,
                reply=item.reply,
                step=item.step,
                tokens=0,
            )
            self._lines[key] = replace(line, tokens=self._cost_of(line))
        return self._lines[key]

    def _cost_of(self, line: ContextLine) -> int:
        cost = message_cost(line_text(line), self._counter)
        # In a chat format, the date of the viewer's own message is a separate turn.
        is_apart = line.is_dated and is_own(line.message, self._viewer)
        return cost + (message_cost(own_day_text(line), self._counter) if is_apart else 0)

    def _widest_labels(self, item: Selected) -> dict[MessageId, str]:
        """Return the longest possible labels, for a line whose place among the lines is not known yet."""
        return {item.message.id: f"m{len(self._candidates)}"}

    def _show(self, item: Selected, allowance: int, *, at_least: int = _MIN_SHOWN) -> tuple[str, int]:
        """Return the sanitised body, cut to its allowance of tokens, and the number of characters cut."""
        body = with_mention_names(item.message).strip()
        if notice := removal_notice(item.message):
            return notice, 0
        head = body[: max(at_least, allowance * _MAX_CHARACTERS_PER_TOKEN)].rstrip()
        text, beyond = escape_embeddings(safe_text(head)), len(body) - len(head)
        labels = self._widest_labels(item)

        def fits(length: int) -> bool:
            return self._line(item, _truncated(text, length, beyond), labels).tokens <= allowance

        longest = len(text) if beyond else len(text) - _MIN_CUT
        if longest < at_least and not beyond:
            return text or NO_TEXT_NOTICE, 0
        if not beyond and self._line(item, (text, 0), labels).tokens <= allowance:
            return text, 0
        return _truncated(text, largest_fitting(min(at_least, longest), longest, fits), beyond)


def _truncated(text: str, length: int, beyond: int) -> tuple[str, int]:
    """Return the beginning of a text with a marker, and the number of characters cut."""
    start = text[:length].rstrip()
    missing = len(text) - len(start) + beyond
    return f"{start} [… {missing} characters cut]".lstrip(), missing


#: A message with fewer tokens is useless, because label, time and author take most of the tokens.
_MIN_TOKENS = 24


@dataclass(slots=True, kw_only=True)
class Selection:
    """The messages to show, and the reasons why other messages are left out."""

    kept: list[Selected] = field(default_factory=list[Selected])
    causes: dict[MessageId, OmissionCause] = field(default_factory=dict[MessageId, OmissionCause])
    #: Whether the trigger's own thread is shown in part.
    is_partial: bool = False


class ContextSelector:
    """Fills a context with threads, one after another."""

    def __init__(
        self, found: Expansion, draft: ContextDraft, *, limit: int, budget: int, notice: int
    ) -> None:
        self._draft = draft
        self._limit = limit
        self._budget = budget
        #: The tokens of the notice that the trigger's own thread is incomplete.
        self._notice = notice
        self._places = {item.message.id: place for place, item in enumerate(_by_rank(found))}
        self._recent = {item.message.id for item in found.selected if item.rule == "recent"}
        self._choice = Selection(causes={item.message.id: "limit" for item in found.over_limit})
        self._is_full = False

    def select(self, threads: Sequence[ContextThread]) -> Selection:
        """Return the messages to show, and why others are left out.

        `threads` must include the thread of the trigger.
        """
        own, *others = sorted(threads, key=self._place)
        self._take_trigger_thread(own)
        for one in others:
            self._take(one)
        return self._choice

    def _place(self, one: ContextThread) -> int:
        return min(self._places[key] for item in one.members if (key := item.message.id) in self._places)

    def _take_trigger_thread(self, own: ContextThread) -> None:
        """Take the trigger's thread: all of it if it fits, otherwise its most important part."""
        if own.is_complete and self._try_take(own.members):
            return
        choice = self._choice
        if own.is_complete and len(own.members) == 1:
            # The trigger is taken even if the trigger alone exceeds the budget.
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
        self._leave([item for item in own.members if item.message.id not in kept], "thread")

    def _nearest(self, own: ContextThread) -> list[Selected]:
        """Return the messages of the trigger's thread in the order in which they are taken.

        The trigger comes first, then its parent, the parent of its parent, and so on. The other messages follow by
        rank, each after its own parent.
        """
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
        """Take all messages of a thread if all fit, otherwise none."""
        members = one.members
        if self._is_full:
            return self._leave(members, "budget")
        if not one.is_complete:
            return self._leave(members, "thread")
        if len(members) > self._free(members):
            return self._leave(members, "limit")
        if self._try_take(members):
            return None
        # Single messages are taken by rank: if a message does not fit, no less important message may take its place.
        self._is_full = len(members) == 1
        return self._leave(members, "budget" if self._is_full else "thread")

    def _try_take(self, members: Sequence[Selected]) -> bool:
        """Take all of these messages if they fit, shortened if necessary; return whether they were taken."""
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
        undo = self._draft.shorten(members, tokens=each)
        if not self._fits([*kept, *members]):
            undo()
            return False
        kept += members
        return True

    def _fits(self, items: Sequence[Selected]) -> bool:
        return self._draft.cost(items) <= self._budget

    def _free(self, members: Sequence[Selected]) -> int:
        """Return how many more messages the limit allows. Places are reserved for the most recent messages."""
        taken = {item.message.id for item in (*self._choice.kept, *members)}
        return self._limit - len(self._choice.kept) - len(self._recent - taken)

    def _leave(self, items: Sequence[Selected], cause: OmissionCause) -> None:
        self._choice.causes |= dict.fromkeys((item.message.id for item in items), cause)


def _by_rank(found: Expansion) -> list[Selected]:
    """Return the selected messages, the most important first."""
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
    """Return the ids of the trigger, the message that it answers, the message which that message answers, and so on."""
    chain = {found.trigger_id}
    for item in sorted(found.selected, key=lambda item: item.hops):
        if item.is_reply_parent and item.reached_from in chain:
            chain.add(item.message.id)
    return chain
