"""Which statements of a language model's answer are taken: those that tell what their quotes tell, and nothing else.

Looked up, not asked: the quotes stand where they are said to stand, as their author's own plain words, and whatever
the statement says comes from them. Numbers, names and negations are the same in both. Wishes are looked up likewise.
What is refused says why.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from roomlore.domain.ids import MessageId
from roomlore.domain.patterns import later
from roomlore.domain.records import MemoryKind
from roomlore.domain.statements import Person, Quote, Spoken, Statement
from roomlore.extraction.clauses import Clause, clauses
from roomlore.extraction.cues import is_asked
from roomlore.extraction.languagemodellinks import linked
from roomlore.extraction.languagemodelquotes import (
    Refused,
    Shown,
    check_plain,
    fields_of,
    list_of,
    message_of,
    own_sentences,
    quote_of,
    text_of,
)
from roomlore.extraction.languagemodelwishes import MOST_WISHES, wish_of
from roomlore.extraction.languagemodelwords import against, is_named, words_of
from roomlore.extraction.wording import title
from roomlore.wishes.records import Wish

#: The kinds that can be drawn from what people say; the others are agents' own.
OF_ROOMS: tuple[MemoryKind, ...] = (
    "technical_decision", "process_decision", "preference", "fact", "lesson", "pattern", "anti_pattern", "correction",
    "process_outcome", "context",
)  # fmt: skip
LONGEST_ANSWER = 60_000
MOST_STATEMENTS = 12
MOST_QUOTES = 4
LONGEST_CONTENT = 300
#: How likely it was meant so: of oneself, and of anything else.
OF_ONESELF, OF_ELSE = 0.75, 0.6

_NEEDED = frozenset({"kind", "content", "author", "subjects", "quotes"})
_OPTIONAL = frozenset({"slot", "same_as", "replaces"})
_QUOTED = frozenset({"message", "text"})
Part = Literal["wishes", "statements"]
_MOST: Mapping[Part, int] = {"wishes": MOST_WISHES, "statements": MOST_STATEMENTS}
_FIRST = later(r'\{\s*"(wishes|statements)"\s*:\s*\[')
_NEXT = later(r'\s*,\s*"(wishes|statements)"\s*:\s*\[')
_BETWEEN = later(r"[\s,]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of a statement or a wish in an answer."""

    #: As it came, or what of it could be read.
    stated: str
    #: One of these, or none where it was refused.
    statement: Statement | None = None
    #: And the message that voices it.
    wish: tuple[MessageId, Wish] | None = None
    #: Why it was refused, or is kept without what it claimed besides, in a phrase that quotes nobody; mostly empty.
    reason: str = ""

    @property
    def is_kept(self) -> bool:
        """Return whether it was taken."""
        return self.statement is not None or self.wish is not None


def verdicts(answer: str, shown: Shown, *, is_clean: Callable[[str], bool]) -> list[Verdict]:
    """Return what becomes of each statement and wish in an answer, which may be cut short or no JSON at all.

    Args:
        answer: JSON, perhaps with words around it.
        shown: What it was asked of.
        is_clean: Returns whether a text holds no secret.
    """
    return [_verdict(part, value, shown, is_clean) for part, value in _stated(answer)]


def _verdict(part: Part, value: object, shown: Shown, is_clean: Callable[[str], bool]) -> Verdict:
    stated = json.dumps(value, ensure_ascii=False, default=str)[:2_000]
    try:
        if isinstance(value, Refused):
            raise value
        if part == "wishes":
            message, wish = wish_of(value, shown)
            return Verdict(stated=stated, wish=(message.message_id, wish))
        statement, reason = _statement(value, shown, is_clean)
        return Verdict(stated=stated, statement=statement, reason=reason)
    except Refused as refused:
        return Verdict(stated=stated, reason=str(refused))


def _stated(answer: str) -> Iterator[tuple[Part, object]]:
    """Yield what is in an answer, as far as it is what was asked for; then why the rest is not."""
    begin = _FIRST.search(answer) if len(answer) <= LONGEST_ANSWER else None
    if begin is None:
        yield "statements", Refused("the answer is not the JSON that was asked for")
    seen = set[Part]()
    while begin is not None and begin[1] not in seen:
        part = cast("Part", begin[1])
        seen.add(part)
        place, left = begin.end(), _MOST[part]
        while (place := _behind_comma(answer, place)) < len(answer) and answer[place] != "]":
            try:
                value, place = _DECODER.raw_decode(answer, place)
            except (ValueError, RecursionError):
                place = len(answer)
                break
            if left > 0:
                yield part, value
            left -= 1
        if place >= len(answer):
            yield part, Refused("the answer breaks off")
            return
        begin = _NEXT.match(answer, place + 1)


_DECODER = json.JSONDecoder()


def _behind_comma(answer: str, place: int) -> int:
    match = _BETWEEN.match(answer, place)
    return place if match is None else match.end()


def _statement(value: object, shown: Shown, is_clean: Callable[[str], bool]) -> tuple[Statement, str]:
    """Return what is stated, and why it is without what it claims besides."""
    fields = fields_of(value, _NEEDED, _OPTIONAL)
    kind, content = text_of(fields["kind"]), text_of(fields["content"])
    if kind not in OF_ROOMS:
        raise Refused("there is no such kind")
    check_plain(content, is_clean, longest=LONGEST_CONTENT)
    quotes = [_quote(one, shown) for one in list_of(fields["quotes"])[: MOST_QUOTES + 1]]
    if not 1 <= len(quotes) <= MOST_QUOTES:
        raise Refused("it quotes nothing, or too much")
    told_by = {one.message_id: one for one in shown.messages.values()}
    author = shown.people.get(text_of(fields["author"]))
    if author is None or author.id != told_by[quotes[0].message_id].author_id:
        raise Refused("somebody else said what it quotes")
    subjects = _subjects(fields["subjects"], shown)
    own = [_own_words(told_by[quote.message_id], quote) for quote in quotes]
    authors = [told_by[quote.message_id].author_id for quote in quotes]
    _check_subjects(subjects, author, own)
    agreeing = [person for person in shown.people.values() if person.id in authors[1:]]
    reason = against(content, own[0], author=author, agreeing=agreeing if "decision" in kind else [])
    if reason:
        raise Refused(reason)
    is_own = {person.id for person in subjects} == {author.id}
    statement = Statement(
        kind=kind,
        title=title(told_by[quotes[0].message_id].body[quotes[0].start : quotes[0].end]),
        content=content,
        quotes=quotes,
        author_id=author.id,
        subject_ids=frozenset(person.id for person in subjects),
        involved_ids=frozenset(authors) - {author.id},
        confidence=OF_ONESELF if is_own else OF_ELSE,
    )
    claims = {"slot": "slot", "repeats": "same_as", "replaces": "replaces"}
    return linked(statement, subjects, shown, **{claim: fields.get(name) for claim, name in claims.items()})


# What it rests on


def _quote(value: object, shown: Shown) -> Quote:
    fields = fields_of(value, _QUOTED)
    return quote_of(fields["text"], message_of(fields["message"], shown))


def _own_words(message: Spoken, quote: Quote) -> list[Clause]:
    """Return the clauses that a quote is of, if they are the author's own and plainly stated."""
    touched = own_sentences(message, quote)
    if any(is_asked(one.text) for one in touched):
        raise Refused("it quotes a question or a joke")
    near = [
        part for one in touched for part in clauses(one) if part.start < quote.end and quote.start < part.end
    ]
    if not near or not all(part.is_plain for part in near):
        raise Refused("what it quotes is not plainly stated")
    return near


def _subjects(value: object, shown: Shown) -> list[Person]:
    found = [shown.people.get(text_of(label)) for label in list_of(value)]
    if any(person is None for person in found):
        raise Refused("it is about somebody who is not known there")
    return [person for person in found if person is not None]


def _check_subjects(subjects: Sequence[Person], author: Person, own: Sequence[Sequence[Clause]]) -> None:
    """Refuse what is about somebody else than whoever speaks, and whom the words do not name."""
    words = {word for one in own for part in one for word in words_of(part.text)}
    if not all(person.id == author.id or is_named(person, words) for person in subjects):
        raise Refused("it is about somebody whom its quotes do not name")
