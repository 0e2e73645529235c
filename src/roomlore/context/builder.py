"""Builds a context: walks the room from the trigger, then keeps what matters most within a token budget.

Messages are kept or dropped whole. What matters: the trigger, what it answers, what that answers, and so on, then
the rest of its conversation, then the most recent, then the rest by nearness. A single message that would eat up
more than its share is cut, and says how much.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from roomlore.context.enrich import DEFAULT_LIMITS as DEFAULT_ENRICH_LIMITS
from roomlore.context.enrich import EnrichLimits, Linked, attach, enrich, unembedded
from roomlore.context.memoryblock import MemoryBlock
from roomlore.context.records import Context, ContextLine, LeftOut, UnreadLink
from roomlore.context.render import line_text, linked_text
from roomlore.context.replygraph import DEFAULT_LIMITS, WalkLimits, walk
from roomlore.context.speakers import speaker_names
from roomlore.context.tokens import TokenCounter, estimate_tokens, longest_fit, message_cost
from roomlore.context.walked import Selected, Walk
from roomlore.domain.articles import Unread
from roomlore.domain.errors import BadInput
from roomlore.domain.ids import MessageId
from roomlore.domain.ports import ArticleReader, MessageSource
from roomlore.domain.records import Message, Postable, Viewer
from roomlore.domain.speech import WORDLESS, removed, safe_text

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
    postable: Postable = "room",
) -> Context:
    """Return what the viewer should read before answering the trigger, within the budget of tokens.

    The source must answer for the same viewer, and hold nothing that may not go where it is `postable`: nothing here
    decides what may be seen. The tokens of the
    trigger count even where they exceed the budget alone; nothing else ever exceeds it. What the messages link to
    can be added afterwards, `with_articles`: by then nobody waits for a database.
    """
    if budget < 1:
        raise BadInput("budget", "must be at least 1 token")
    found = await walk(source, trigger, limits=limits)
    draft = _Draft(found, trigger, budget=budget, counter=counter)
    kept = longest_fit(_ranked(found), budget, draft.cost)
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
        postable=postable,
    )


async def with_articles(
    context: Context,
    reader: ArticleReader,
    *,
    limits: EnrichLimits = DEFAULT_ENRICH_LIMITS,
    counter: TokenCounter = estimate_tokens,
) -> Context:
    """Return the context with what its messages link to, as far as the budget lasts; a page never makes it fail.

    Only links of messages that are in are read, those of the newest first. The context tells of each of the others why
    nothing of it is shown.
    """
    bodies = [(line.message.id, line.message.body) for line in context.lines if not removed(line.message)]
    found = await enrich(bodies, reader, limits=limits)
    own = [line for line in context.lines if context.viewer.is_own(line.message.author_id)]
    # In a chat the page takes a turn of its own after a message of the viewer's.
    turns = sum(message_cost(linked_text(line), counter) for line in own[-limits.articles :])
    attached = attach(found, tokens=context.budget - context.tokens - turns, counter=counter)
    lines = tuple(
        _embedding(context, line, attached.blocks.get(line.message.id, ""), counter) for line in context.lines
    )
    return replace(
        context,
        lines=lines,
        tokens=sum(line.tokens for line in lines) + (context.block.tokens if context.block else 0),
        unread=_unread(attached.unread, lines),
    )


def with_block(context: Context, block: MemoryBlock) -> Context:
    """Return the context with what the viewer remembers before it; its budget grows by what that costs."""
    return replace(
        context,
        block=block,
        tokens=context.tokens + block.tokens,
        budget=context.budget + block.tokens,
    )


def _unread(links: Sequence[Linked], lines: Sequence[ContextLine]) -> tuple[UnreadLink, ...]:
    labels = {line.message.id: line.label for line in lines}
    return tuple(
        UnreadLink(label=labels[link.message_id], url=link.outcome.url, reason=link.outcome.reason)
        for link in links
        if isinstance(link.outcome, Unread)
    )


def _embedding(context: Context, line: ContextLine, block: str, counter: TokenCounter) -> ContextLine:
    if not block:
        return line
    whole = replace(line, embeddings=block)
    text = line_text(whole, today=context.lines[-1].message.sent_at.date())
    return replace(whole, tokens=message_cost(text, counter))


class _Draft:
    """Turns any choice among the walk's messages into lines, and tells what they cost."""

    def __init__(self, found: Walk, trigger: Message, *, budget: int, counter: TokenCounter) -> None:
        self._trigger = trigger
        self._allowance = max(1, int(budget * SHARE))
        self._counter = counter
        self._candidates = _chronological([*found.selected, *found.over_limit])
        self._speakers = speaker_names(item.message for item in self._candidates)
        self._costs: dict[str, int] = {}
        self._lines: dict[tuple[MessageId, tuple[str, int], str, str | None], ContextLine] = {}
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
                part=item.part,
                rule=item.rule,
                via=item.via,
                reply=item.reply,
                step=item.step,
                cause="limit" if item.message.id in late else "budget",
                tokens=self._line(item, self._shown[item.message.id], self._widest(item)).tokens,
            )
            for item in self._candidates
            if item.message.id not in is_in
        )

    def _line(self, item: Selected, shown: tuple[str, int], labels: dict[MessageId, str]) -> ContextLine:
        message, label = item.message, labels[item.message.id]
        reply_to = labels.get(message.reply_to) if message.reply_to else None
        key = (message.id, shown, label, reply_to)
        if key not in self._lines:
            line = self._made(item, shown, label=label, reply_to=reply_to)
            self._lines[key] = replace(line, tokens=self._cost_of(line))
        return self._lines[key]

    def _made(
        self, item: Selected, shown: tuple[str, int], *, label: str, reply_to: str | None
    ) -> ContextLine:
        message = item.message
        return ContextLine(
            message=message,
            label=label,
            speaker=self._speakers[message.author_id, message.author_name],
            text=shown[0],
            characters_cut=shown[1],
            reply_to=reply_to,
            part=item.part,
            rule=item.rule,
            via=item.via,
            reply=item.reply,
            step=item.step,
            tokens=0,
        )

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
        if gone := removed(item.message):
            return gone, 0
        allowance = self._allowance * (2 if item.rule == "trigger" else 1)
        head = body[: max(_KEPT_AT_LEAST, allowance * _CHARACTERS_PER_TOKEN_AT_MOST)].rstrip()
        text, beyond = unembedded(safe_text(head)), len(body) - len(head)
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


def _ranked(found: Walk) -> list[Selected]:
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


def _answered(found: Walk) -> set[MessageId]:
    """Return the trigger, what it answers, what that answers, as far as it was selected."""
    chain = {found.trigger_id}
    for item in sorted(found.selected, key=lambda item: item.hops):
        if item.is_answered and item.via in chain:
            chain.add(item.message.id)
    return chain


def _chronological(items: Sequence[Selected]) -> list[Selected]:
    return sorted(items, key=lambda item: item.message.position)
