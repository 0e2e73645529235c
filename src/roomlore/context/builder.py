"""Builds a context: walks the room from the trigger, then keeps what matters most within a token budget.

Messages are kept or dropped whole. What matters: the trigger, then the chain of explicit replies it
stands in, then the most recent, then the rest by nearness. A single message that would eat up more than
its share is cut, and says how much.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from roomlore.context.records import Context, ContextLine, LeftOut
from roomlore.context.render import line_text
from roomlore.context.replygraph import DEFAULT_LIMITS, Selected, Walk, WalkLimits, walk
from roomlore.context.speakers import speaker_names
from roomlore.context.tokens import TokenCounter, estimate_tokens, longest_fit, message_cost
from roomlore.domain.errors import BadInput
from roomlore.domain.ids import MessageId
from roomlore.domain.ports import MessageSource
from roomlore.domain.records import Message, Viewer
from roomlore.domain.speech import REMOVED, WORDLESS, safe_text

DEFAULT_BUDGET = 4000
#: One message may take this part of the budget before it is cut; the trigger twice as much.
SHARE = 0.25
#: So many characters of a body are always shown.
_KEPT_AT_LEAST = 200
#: Cutting less than this saves nothing: the marker takes the place.
_WORTH_CUTTING = 40
#: No tokenizer makes fewer tokens of ordinary text; keeps the work on giant bodies bounded.
_CHARACTERS_PER_TOKEN_AT_MOST = 16


async def build(
    source: MessageSource,
    trigger: Message,
    *,
    viewer: Viewer,
    limits: WalkLimits = DEFAULT_LIMITS,
    budget: int = DEFAULT_BUDGET,
    counter: TokenCounter = estimate_tokens,
) -> Context:
    """Return what the viewer should read before answering the trigger, within the budget of tokens.

    The source must answer for the same viewer: nothing here decides what may be seen. The tokens of the
    trigger count even where they exceed the budget alone; nothing else ever exceeds it.
    """
    if budget < 1:
        raise BadInput("budget", "must be at least 1 token")
    found = await walk(source, trigger, limits=limits)
    draft = _Draft(found, trigger, budget=budget, counter=counter)
    kept = longest_fit(_ranked(found, trigger), budget, draft.cost)
    lines = draft.lines(kept)
    return Context(
        room_id=trigger.room_id,
        viewer=viewer,
        trigger_id=trigger.id,
        lines=lines,
        left_out=draft.left_out(kept, found.over_limit),
        sealed=found.sealed,
        tokens=sum(line.tokens for line in lines),
        budget=budget,
    )


def make_fetcher(
    source: MessageSource,
    trigger: Message,
    *,
    viewer: Viewer,
    limits: WalkLimits = DEFAULT_LIMITS,
    budget: int = DEFAULT_BUDGET,
    counter: TokenCounter = estimate_tokens,
) -> Callable[[], Awaitable[Context]]:
    """Return a call without parameters that builds the context anew, for a reply generator to hold."""

    async def fetch() -> Context:
        return await build(source, trigger, viewer=viewer, limits=limits, budget=budget, counter=counter)

    return fetch


class _Draft:
    """Turns any choice among the walk's messages into lines, and tells what they cost."""

    def __init__(self, found: Walk, trigger: Message, *, budget: int, counter: TokenCounter) -> None:
        self._trigger = trigger
        self._allowance = max(1, int(budget * SHARE))
        self._counter = counter
        self._candidates = _chronological([*found.selected, *found.over_limit])
        self._speakers = speaker_names(item.message for item in self._candidates)
        self._costs: dict[str, int] = {}
        self._shown = {item.message.id: self._show(item) for item in self._candidates}

    def lines(self, chosen: Sequence[Selected]) -> tuple[ContextLine, ...]:
        """Return the chosen messages as lines in the order of the room, labelled from m1."""
        ordered = _chronological(chosen)
        labels = {item.message.id: f"m{place}" for place, item in enumerate(ordered, start=1)}
        return tuple(self._line(item, self._shown[item.message.id], labels) for item in ordered)

    def cost(self, chosen: Sequence[Selected]) -> int:
        """Return the tokens of the chosen messages together."""
        return sum(line.tokens for line in self.lines(chosen))

    def left_out(self, kept: Sequence[Selected], over_limit: Sequence[Selected]) -> tuple[LeftOut, ...]:
        """Return the candidates that are not kept, each with what keeps it out and what it would cost."""
        is_in = {item.message.id for item in kept}
        late = {item.message.id for item in over_limit}
        return tuple(
            LeftOut(
                message=item.message,
                rule=item.rule,
                via=item.via,
                step=item.step,
                cause="limit" if item.message.id in late else "budget",
                tokens=self._line(item, self._shown[item.message.id], self._widest(item)).tokens,
            )
            for item in self._candidates
            if item.message.id not in is_in
        )

    def _line(self, item: Selected, shown: tuple[str, int], labels: dict[MessageId, str]) -> ContextLine:
        message = item.message
        line = ContextLine(
            message=message,
            label=labels[message.id],
            speaker=self._speakers[message.author_id, message.author_name],
            text=shown[0],
            characters_cut=shown[1],
            reply_to=labels.get(message.reply_to) if message.reply_to else None,
            rule=item.rule,
            via=item.via,
            step=item.step,
            tokens=0,
        )
        return replace(line, tokens=self._cost_of(line))

    def _cost_of(self, line: ContextLine) -> int:
        text = line_text(line, today=self._trigger.sent_at.date())
        if text not in self._costs:
            self._costs[text] = message_cost(text, self._counter)
        return self._costs[text]

    def _widest(self, item: Selected) -> dict[MessageId, str]:
        """Return labels as wide as they can get, for a line whose place is not known yet."""
        return {item.message.id: f"m{len(self._candidates)}"}

    def _show(self, item: Selected) -> tuple[str, int]:
        """Return the body made harmless, cut if it exceeds its share, and the number of characters cut."""
        body = item.message.body.strip()
        if item.message.redacted_at is not None:
            return REMOVED, 0
        allowance = self._allowance * (2 if item.rule == "trigger" else 1)
        head = body[: max(_KEPT_AT_LEAST, allowance * _CHARACTERS_PER_TOKEN_AT_MOST)].rstrip()
        text, beyond = safe_text(head), len(body) - len(head)
        labels = self._widest(item)

        def fits(length: int) -> bool:
            return self._line(item, _cut(text, length, beyond), labels).tokens <= allowance

        longest = len(text) if beyond else len(text) - _WORTH_CUTTING
        if longest < _KEPT_AT_LEAST and not beyond:
            return text or WORDLESS, 0
        if not beyond and self._line(item, (text, 0), labels).tokens <= allowance:
            return text, 0
        return _cut(text, _largest(min(_KEPT_AT_LEAST, longest), longest, fits), beyond)


def _cut(text: str, length: int, beyond: int) -> tuple[str, int]:
    """Return the beginning of a text with the marker, and how many characters the marker stands for."""
    start = text[:length].rstrip()
    missing = len(text) - len(start) + beyond
    return f"{start} [… {missing} characters cut]".lstrip(), missing


def _largest(low: int, high: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number in the range that fits, or the lowest if none does."""
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _ranked(found: Walk, trigger: Message) -> list[Selected]:
    """Return the selected messages, those that matter most first."""
    place = {key: number for number, key in enumerate(_explicit_chain(found, trigger))}

    def rank(item: Selected) -> tuple[int, int]:
        if item.message.id in place:
            return (0, place[item.message.id])
        return (1, 0) if item.rule == "recent" else (2, item.hops)

    newest_first = found.selected[::-1]
    return sorted(newest_first, key=rank)


def _explicit_chain(found: Walk, trigger: Message) -> list[MessageId]:
    """Return the trigger, what it explicitly answers, what that answers, as far as it was selected."""
    selected = {item.message.id: item.message for item in found.selected}
    chain: list[MessageId] = []
    message: Message | None = trigger
    while message is not None and message.id not in chain:
        chain.append(message.id)
        message = selected.get(message.reply_to) if message.reply_to else None
    return chain


def _chronological(items: Sequence[Selected]) -> list[Selected]:
    return sorted(items, key=lambda item: item.message.position)
