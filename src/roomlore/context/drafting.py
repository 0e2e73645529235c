"""What a context would look like: any choice among its candidates as lines, and what they cost."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from roomlore.context.enrich import escape_embeddings
from roomlore.context.records import OmissionCause, ContextLine, OmittedMessage
from roomlore.context.render import is_own, line_text, own_day_text
from roomlore.context.speakers import speaker_names
from roomlore.context.tokens import TokenCounter, message_cost
from roomlore.context.walked import Selected
from roomlore.domain.ids import MessageId
from roomlore.domain.records import Viewer
from roomlore.domain.speech import NO_TEXT_NOTICE, removal_notice, safe_text, with_mention_names

#: One message may take this part of the budget before it is cut; the trigger twice as much.
MAX_MESSAGE_SHARE = 0.25
#: So many characters of a body are always shown.
_MIN_SHOWN = 200
#: So many where a whole exchange is shortened.
_MIN_SHORTENED = 40
#: Cutting less than this saves nothing: the marker takes the place.
_MIN_CUT = 40
#: No tokenizer makes fewer tokens of ordinary text; keeps the work on giant bodies bounded.
_MAX_CHARACTERS_PER_TOKEN = 16


class ContextDraft:
    """Turns any choice among the candidates into lines, and tells what they cost."""

    def __init__(
        self, candidates: Iterable[Selected], viewer: Viewer, *, budget: int, counter: TokenCounter
    ) -> None:
        self._viewer = viewer
        self._allowance = max(1, int(budget * MAX_MESSAGE_SHARE))
        self._counter = counter
        self._candidates = chronological(candidates)
        self._speakers = speaker_names(item.message for item in self._candidates)
        self._costs: dict[str, int] = {}
        self._lines: dict[tuple[MessageId, tuple[str, int], str, str | None, bool], ContextLine] = {}
        self._shown = {item.message.id: self._show(item, self._share(item)) for item in self._candidates}

    def lines(self, chosen: Sequence[Selected]) -> tuple[ContextLine, ...]:
        """Return the chosen messages as lines in the order of the room, labelled from m1."""
        ordered = chronological(chosen)
        labels = {item.message.id: f"m{place}" for place, item in enumerate(ordered, start=1)}
        days = [item.message.sent_at.date() for item in ordered]
        return tuple(
            self._line(item, self._shown[item.message.id], labels, is_dated=day != before)
            for item, day, before in zip(ordered, days, [None, *days], strict=False)
        )

    def cost(self, chosen: Sequence[Selected]) -> int:
        """Return the tokens of the chosen messages together."""
        return sum(line.tokens for line in self.lines(chosen))

    def left_out(self, kept: Sequence[Selected], causes: Mapping[MessageId, OmissionCause]) -> tuple[OmittedMessage, ...]:
        """Return the candidates that are not kept, each with what keeps it out and what it would cost."""
        is_in = {item.message.id for item in kept}
        return tuple(
            OmittedMessage(
                message=item.message,
                part=item.part,
                rule=item.rule,
                via=item.via,
                reply=item.reply,
                step=item.step,
                cause=causes[item.message.id],
                tokens=self._line(item, self._shown[item.message.id], self._widest_labels(item)).tokens,
            )
            for item in self._candidates
            if item.message.id not in is_in
        )

    @contextmanager
    def shortened(self, items: Sequence[Selected], *, tokens: int) -> Generator[Callable[[], None]]:
        """Show each of these with so many tokens at most, and no less than a few words; as before, unless it is kept."""
        before = {item.message.id: self._shown[item.message.id] for item in items}
        for item in items:
            own = self._allowance * 2 if item.rule == "trigger" else min(tokens, self._allowance)
            self._shown[item.message.id] = self._show(item, own, at_least=_MIN_SHORTENED)
        is_kept = False

        def keep() -> None:
            nonlocal is_kept
            is_kept = True

        yield keep
        if not is_kept:
            self._shown |= before

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
            line = self._to_line(item, shown, label=label, reply_to=reply_to, is_dated=is_dated)
            self._lines[key] = replace(line, tokens=self._cost_of(line))
        return self._lines[key]

    def _to_line(
        self, item: Selected, shown: tuple[str, int], *, label: str, reply_to: str | None, is_dated: bool
    ) -> ContextLine:
        message = item.message
        return ContextLine(
            message=message,
            label=label,
            speaker=self._speakers[message.author_id, message.author_name],
            text=shown[0],
            characters_cut=shown[1],
            reply_to=reply_to,
            is_dated=is_dated,
            part=item.part,
            rule=item.rule,
            via=item.via,
            reply=item.reply,
            step=item.step,
            tokens=0,
        )

    def _cost_of(self, line: ContextLine) -> int:
        cost = self._count_tokens(line_text(line))
        # In a chat the day takes a turn of its own before a message of the viewer's.
        is_apart = line.is_dated and is_own(line.message, self._viewer)
        return cost + (self._count_tokens(own_day_text(line)) if is_apart else 0)

    def _count_tokens(self, text: str) -> int:
        if text not in self._costs:
            self._costs[text] = message_cost(text, self._counter)
        return self._costs[text]

    def _widest_labels(self, item: Selected) -> dict[MessageId, str]:
        """Return labels as wide as they can get, for a line whose place is not known yet."""
        return {item.message.id: f"m{len(self._candidates)}"}

    def _share(self, item: Selected) -> int:
        return self._allowance * (2 if item.rule == "trigger" else 1)

    def _show(self, item: Selected, allowance: int, *, at_least: int = _MIN_SHOWN) -> tuple[str, int]:
        """Return the body made harmless, cut if it exceeds its share, and the number of characters cut."""
        body = with_mention_names(item.message).strip()
        if gone := removal_notice(item.message):
            return gone, 0
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
        return _truncated(text, _largest(min(at_least, longest), longest, fits), beyond)


def _truncated(text: str, length: int, beyond: int) -> tuple[str, int]:
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


def chronological(items: Iterable[Selected]) -> list[Selected]:
    """Return the items in the order of the room."""
    return sorted(items, key=lambda item: item.message.position)
