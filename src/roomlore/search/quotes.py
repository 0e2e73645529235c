"""Selects the messages of a thread that are quoted as an answer, and formats the quotations.

Questions without answers, platform notices and injected messages are never quoted.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from roomlore.domain.ids import MessageId
from roomlore.domain.incoming import MessageKind
from roomlore.domain.memory_text import quoted_statement
from roomlore.domain.records import Memory, Message
from roomlore.domain.rendering import as_one_line, render_message, safe_name
from roomlore.search.confidence import relevance
from roomlore.search.records import Hit, LogMatch, MatchedMemory
from roomlore.search.threads import answers_lookup
from roomlore.text.recognisers import ends_in_question_mark

#: The maximum number of answers that are quoted with a message.
MAX_ANSWERS = 3
QUOTABLE_KINDS = frozenset[MessageKind]({"message", "whisper"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """The most relevant message of a thread, with the answers quoted with it."""

    hit: Hit
    message: Message
    answers: Sequence[Message]
    #: The relevance, 0..1.
    relevance: float

    @property
    def odds(self) -> float | None:
        """The odds that the message or its answer answers the question; None if the message was not read."""
        probability = self.hit.why[self.message.id].answer_probability
        return None if probability is None else probability / (1 - probability)


def select_quotes(hits: Iterable[Hit]) -> list[Quote]:
    """Return at most one quote per thread, best first by the score of the search."""
    found = (max(_quotes(hit), key=_score, default=None) for hit in hits)
    return sorted((quote for quote in found if quote is not None), key=_score, reverse=True)


def _score(quote: Quote) -> float:
    return quote.hit.why[quote.message.id].score


def _quotes(hit: Hit) -> Iterator[Quote]:
    """Yield the messages of a thread that may be quoted."""
    for message in hit.messages:
        if message.id in hit.why and _is_quotable(message):
            quote = _to_quote(hit, message)
            if quote.answers or not ends_in_question_mark(message.body):
                yield quote


def _to_quote(hit: Hit, message: Message) -> Quote:
    return Quote(
        hit=hit,
        message=message,
        answers=quoted_answers(hit, message),
        relevance=relevance(hit.why[message.id]),
    )


def quoted_answers(hit: Hit, message: Message) -> list[Message]:
    """Return the answers that are quoted with a message of a thread, if it is a question or the root."""
    is_asking = any(edge.parent_id == message.id and edge.is_answer for edge in hit.replies)
    if not is_asking and not ends_in_question_mark(message.body) and message.id != hit.root.id:
        return []
    by_id = {other.id: other for other in hit.messages}
    found = (by_id[key] for key in answers_lookup(hit.replies)(message.id))
    return [answer for answer in found if _is_quotable(answer)][:MAX_ANSWERS]


def _is_quotable(message: Message) -> bool:
    return message.kind in QUOTABLE_KINDS and bool(message.body.strip())


def quoted_text(
    quotes: Iterable[Quote], *, memories: Iterable[MatchedMemory] = (), lines: Iterable[LogMatch] = ()
) -> str:
    """Return one line for each cited memory, message, answer and log line.

    A memory that only repeats the cited messages has no line.
    """
    quoted = [(message, quote.hit) for quote in quotes for message in [quote.message, *quote.answers]]
    statements = {message.id: quoted_statement(message.author_name, message.body) for message, _ in quoted}
    remembered = [
        line
        for match in memories
        if match.superseded or not _only_repeats(match.memory, statements)
        for line in (memory_line(match.memory), *(f"  {memory_line(old)}" for old in match.superseded))
    ]
    messages = [message_line(message, hit) for message, hit in quoted]
    return "\n".join([*remembered, *messages, *map(log_line, lines)])


def _only_repeats(memory: Memory, statements: Mapping[MessageId, str]) -> bool:
    """Return whether a memory consists of cited messages. `statements` has each of them as memories quote it."""
    return memory.content == " ".join(statements.get(source, "") for source in memory.source_ids)


def message_line(message: Message, hit: Hit) -> str:
    """Return a message as one quotation: room, time, author and text."""
    room = safe_name(hit.room_name) if hit.room_name else "a whisper"
    return f"{room}, {message.sent_at:%Y-%m-%d %H:%M} {render_message(message)}"


def memory_line(memory: Memory) -> str:
    """Return a memory as one line that cannot be mistaken for a message."""
    authors = [safe_name(person.name) for person in memory.participants if person.role == "author"]
    marks = [memory.kind.replace("_", " "), f"{memory.valid_from:%Y-%m-%d}"]
    marks += [f"stated by {' and '.join(authors)}"] if authors else []
    marks += ["superseded"] if memory.superseded_by is not None else []
    marks += ["outdated"] if memory.is_outdated else []
    return f"(memory: {', '.join(marks)}) {as_one_line(memory.content)}"


def log_line(line: LogMatch) -> str:
    """Return a line of a log file as one quotation, with its stated author."""
    when = "" if line.sent_at is None else f", {line.sent_at:%Y-%m-%d %H:%M}"
    where = f"raw log {as_one_line(line.file)}:{line.number}{when}"
    return f"({where}) [{safe_name(line.author_name)}]: {as_one_line(line.text)}"
