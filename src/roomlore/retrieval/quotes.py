"""What of an exchange speaks to a question, and how it is quoted.

A question that nobody answered tells nothing, and a notice of the platform or what was injected for agents is
nobody's answer: neither is ever quoted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from roomlore.domain.incoming import MessageKind
from roomlore.domain.records import Memory, Message
from roomlore.domain.speech import on_one_line, own_words, safe_name, spoken
from roomlore.retrieval.evidence import strength
from roomlore.retrieval.exchanges import answers_in
from roomlore.retrieval.records import Hit, RawLine, Recalled

#: How many answers to a cited message are quoted with it.
ANSWERS = 3
#: What somebody said.
QUOTED = frozenset[MessageKind]({"message", "whisper"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """The message of an exchange that speaks best to the question, and what is quoted with it."""

    hit: Hit
    message: Message
    answers: Sequence[Message]
    #: How well it fits, 0..1.
    strength: float


def quotes(hits: Iterable[Hit]) -> list[Quote]:
    """Return what may be quoted, best first, one for each exchange that tells something."""
    found = [quote for hit in hits if (quote := _best(hit)) is not None]
    return sorted(found, key=lambda quote: -quote.strength)


def _best(hit: Hit) -> Quote | None:
    """Return the best quote of an exchange, if any of its finds tells something."""
    found = (message for message in hit.messages if message.id in hit.why and _tells(message))
    told = (_quote_of(hit, message) for message in found)
    return max(
        (quote for quote in told if quote.answers or not _asks(quote.message)),
        key=lambda quote: quote.strength,
        default=None,
    )


def _quote_of(hit: Hit, message: Message) -> Quote:
    """Return a find with what answers it, where it asks or opens."""
    answers: Iterable[Message] = ()
    if _asks(message) or message.id == hit.opening.id:
        by_id = {other.id: other for other in hit.messages}
        answers = (by_id[key] for key in answers_in(hit.replies)(message.id) if _tells(by_id[key]))
    return Quote(
        hit=hit,
        message=message,
        answers=list(answers)[:ANSWERS],
        strength=strength(hit.why[message.id]),
    )


def _tells(message: Message) -> bool:
    return message.kind in QUOTED and bool(message.body.strip())


def _asks(message: Message) -> bool:
    return own_words(message.body).rstrip().endswith("?")


def quoted(said: Iterable[Quote], *, memories: Iterable[Recalled] = (), lines: Iterable[RawLine] = ()) -> str:
    """Return what is cited in words: memories, messages with their answers, lines of raw logs, a line for each."""
    told = [said_where(message, quote.hit) for quote in said for message in [quote.message, *quote.answers]]
    recalled = [line for one in memories for line in recalled_lines(one)]
    return "\n".join([*recalled, *told, *map(raw_line, lines)])


def said_where(message: Message, hit: Hit) -> str:
    """Return a message as it is quoted: in which room, when, by whom, and its words."""
    room = safe_name(hit.room_name) if hit.room_name else "a whisper"
    return f"{room}, {message.sent_at:%Y-%m-%d %H:%M} {spoken(message)}"


def recalled_lines(recalled: Recalled) -> list[str]:
    """Return a memory and under it what it took the place of, a line for each."""
    return [remembered(recalled.memory), *(f"  {remembered(old)}" for old in recalled.superseded)]


def remembered(memory: Memory) -> str:
    """Return what a memory says as one line that nobody can mistake for a message."""
    authors = [safe_name(one.name) for one in memory.participants if one.role == "author"]
    marks = [memory.kind.replace("_", " "), f"{memory.valid_from:%Y-%m-%d}"]
    marks += [f"stated by {' and '.join(authors)}"] if authors else []
    marks += ["superseded"] if memory.superseded_by is not None else []
    marks += ["outdated"] if memory.is_outdated else []
    return f"(memory: {', '.join(marks)}) {on_one_line(memory.content)}"


def raw_line(line: RawLine) -> str:
    """Return what a line of a raw log says, with who is named as its author."""
    when = "" if line.sent_at is None else f", {line.sent_at:%Y-%m-%d %H:%M}"
    where = f"raw log {on_one_line(line.file)}:{line.number}{when}"
    return f"({where}) [{safe_name(line.author_name)}]: {on_one_line(line.text)}"
