"""What of an exchange speaks to a question, and how it is quoted.

A question that nobody answered tells nothing, and a notice of the platform or what was injected for agents is
nobody's answer: neither is ever quoted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from roomlore.domain.incoming import MessageKind
from roomlore.domain.records import Memory, Message
from roomlore.domain.rendering import as_one_line, render_message, safe_name, without_trailing_quotes
from roomlore.search.confidence import relevance
from roomlore.search.records import Hit, LogMatch, MatchedMemory
from roomlore.search.threads import answers_lookup

#: How many answers to a cited message are quoted with it.
MAX_ANSWERS = 3
#: What somebody said.
QUOTABLE_KINDS = frozenset[MessageKind]({"message", "whisper"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """The message of an exchange that speaks best to the question, and what is quoted with it."""

    hit: Hit
    message: Message
    answers: Sequence[Message]
    #: How well it fits, 0..1.
    relevance: float


def select_quotes(hits: Iterable[Hit]) -> list[Quote]:
    """Return what may be quoted, best first, one for each exchange that tells something."""
    found = [quote for hit in hits if (quote := _best(hit)) is not None]
    return sorted(found, key=lambda quote: -quote.relevance)


def _best(hit: Hit) -> Quote | None:
    """Return the best quote of an exchange, if any of its finds tells something."""
    found = (message for message in hit.messages if message.id in hit.why and _is_informative(message))
    told = (_quote_of(hit, message) for message in found)
    return max(
        (quote for quote in told if quote.answers or not _is_question(quote.message)),
        key=lambda quote: quote.relevance,
        default=None,
    )


def _quote_of(hit: Hit, message: Message) -> Quote:
    """Return a find with what answers it, where it asks or opens."""
    answers: Iterable[Message] = ()
    if _is_question(message) or message.id == hit.root.id:
        by_id = {other.id: other for other in hit.messages}
        answers = (
            by_id[key] for key in answers_lookup(hit.replies)(message.id) if _is_informative(by_id[key])
        )
    return Quote(
        hit=hit,
        message=message,
        answers=list(answers)[:MAX_ANSWERS],
        relevance=relevance(hit.why[message.id]),
    )


def _is_informative(message: Message) -> bool:
    return message.kind in QUOTABLE_KINDS and bool(message.body.strip())


def _is_question(message: Message) -> bool:
    return without_trailing_quotes(message.body).rstrip().endswith("?")


def quoted_text(
    said: Iterable[Quote], *, memories: Iterable[MatchedMemory] = (), lines: Iterable[LogMatch] = ()
) -> str:
    """Return what is cited in words: memories, messages with their answers, lines of raw logs, a line for each."""
    told = [message_line(message, quote.hit) for quote in said for message in [quote.message, *quote.answers]]
    recalled = [line for one in memories for line in memory_lines(one)]
    return "\n".join([*recalled, *told, *map(log_line, lines)])


def message_line(message: Message, hit: Hit) -> str:
    """Return a message as it is quoted: in which room, when, by whom, and its words."""
    room = safe_name(hit.room_name) if hit.room_name else "a whisper"
    return f"{room}, {message.sent_at:%Y-%m-%d %H:%M} {render_message(message)}"


def memory_lines(recalled: MatchedMemory) -> list[str]:
    """Return a memory and under it what it took the place of, a line for each."""
    return [memory_line(recalled.memory), *(f"  {memory_line(old)}" for old in recalled.superseded)]


def memory_line(memory: Memory) -> str:
    """Return what a memory says as one line that nobody can mistake for a message."""
    authors = [safe_name(one.name) for one in memory.participants if one.role == "author"]
    marks = [memory.kind.replace("_", " "), f"{memory.valid_from:%Y-%m-%d}"]
    marks += [f"stated by {' and '.join(authors)}"] if authors else []
    marks += ["superseded"] if memory.superseded_by is not None else []
    marks += ["outdated"] if memory.is_outdated else []
    return f"(memory: {', '.join(marks)}) {as_one_line(memory.content)}"


def log_line(line: LogMatch) -> str:
    """Return what a line of a raw log says, with who is named as its author."""
    when = "" if line.sent_at is None else f", {line.sent_at:%Y-%m-%d %H:%M}"
    where = f"raw log {as_one_line(line.file)}:{line.number}{when}"
    return f"({where}) [{safe_name(line.author_name)}]: {as_one_line(line.text)}"
