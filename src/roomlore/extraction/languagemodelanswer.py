"""Which statements of a language model's answer are taken: those that tell what their quotes tell, and nothing else.

Looked up, not asked: the quotes stand where they are said to stand, as their author's own plain words, and whatever
the statement says comes from them. Numbers, names and negations are the same in both. What is refused says why.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from roomlore.domain.records import MemoryKind
from roomlore.domain.speech import safe_text
from roomlore.domain.statements import Person, Quote, Spoken, Statement
from roomlore.extraction.clauses import Clause, clauses
from roomlore.extraction.cues import JOKING, is_asked
from roomlore.extraction.languagemodelwords import against, is_named, words_of
from roomlore.extraction.sentences import COVER, sentences
from roomlore.extraction.wording import title

#: The kinds that can be drawn from what people say; the others are agents' own.
OF_ROOMS: tuple[MemoryKind, ...] = (
    "technical_decision", "process_decision", "preference", "fact", "lesson", "pattern", "anti_pattern", "correction",
    "process_outcome", "context",
)  # fmt: skip
LONGEST_ANSWER = 60_000
MOST_STATEMENTS = 12
MOST_QUOTES = 4
LONGEST_CONTENT = 300
SHORTEST_QUOTE = 4
#: How likely it was meant so: of oneself, and of anything else.
OF_ONESELF, OF_ELSE = 0.75, 0.6

_FIELDS = frozenset({"kind", "content", "author", "subjects", "quotes"})
#: Markup, links and addresses; what a renderer or a shell might take for more than words.
_MARKUP = re.compile(
    r"[<>{}\[\]|\\`~^]|://|\bwww\.|^\W*#|\*\*|__|&#?\w+;|\b(?:javascript|data|mailto)\s*:", re.IGNORECASE
)
#: Words to a language model that will read the memory one day.
_INSTRUCTION = re.compile(
    r"\b(?:ignore|disregard|forget|override|bypass)\b.*\b(?:instructions?|rules?|prompts?|above|previous|prior|everything)\b"
    r"|\b(?:system|developer)\s+(?:prompt|message|override|note)\b|^\W*(?:system|assistant|user|developer|tool)\s*:"
    r"|\byou\s+(?:are\s+now|must|shall|should)\b|\bact\s+as\b|\bjailbreak\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a language model was shown, by label."""

    messages: Mapping[str, Spoken]
    people: Mapping[str, Person]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of a statement in an answer."""

    #: As it came, or what of it could be read.
    stated: str
    #: None where it was refused.
    statement: Statement | None
    #: Why it was refused, in one phrase that quotes nobody; empty where it was not.
    reason: str = ""


class _Refused(Exception):
    """Why a statement is not taken."""


def verdicts(answer: str, shown: Shown, *, is_clean: Callable[[str], bool]) -> list[Verdict]:
    """Return what becomes of each statement in an answer, which may be cut short or no JSON at all.

    Args:
        answer: JSON, perhaps with words around it.
        shown: What it was asked of.
        is_clean: Returns whether a text holds no secret.
    """
    return [_verdict(one, shown, is_clean) for one in _stated(answer)][:MOST_STATEMENTS]


def _verdict(value: object, shown: Shown, is_clean: Callable[[str], bool]) -> Verdict:
    stated = json.dumps(value, ensure_ascii=False, default=str)[:2_000]
    try:
        if isinstance(value, _Refused):
            raise value
        return Verdict(stated=stated, statement=_statement(value, shown, is_clean))
    except _Refused as refused:
        return Verdict(stated=stated, statement=None, reason=str(refused))


def _stated(answer: str) -> Iterator[object]:
    """Yield the statements in an answer, as far as it is what was asked for; then why the rest is not."""
    begin = re.search(r'\{\s*"statements"\s*:\s*\[', answer)
    if begin is None or len(answer) > LONGEST_ANSWER:
        yield _Refused("the answer is not the JSON that was asked for")
        return
    decoder, place = json.JSONDecoder(), begin.end()
    for _ in range(MOST_STATEMENTS):
        if (comma := re.compile(r"[\s,]*").match(answer, place)) is not None:
            place = comma.end()
        if answer[place : place + 1] == "]":
            return
        try:
            value, place = decoder.raw_decode(answer, place)
        except (ValueError, RecursionError):
            yield _Refused("the answer breaks off")
            return
        yield value


def _statement(value: object, shown: Shown, is_clean: Callable[[str], bool]) -> Statement:
    fields = cast("Mapping[str, object]", value) if isinstance(value, dict) else dict[str, object]()
    if fields.keys() != _FIELDS:
        raise _Refused("it has not the fields that were asked for")
    kind, content = _text(fields["kind"]), _text(fields["content"])
    if kind not in OF_ROOMS:
        raise _Refused("there is no such kind")
    _check_plain(content, is_clean, longest=LONGEST_CONTENT)
    quotes = [_quote(one, shown) for one in _list(fields["quotes"])]
    if not 1 <= len(quotes) <= MOST_QUOTES:
        raise _Refused("it quotes nothing, or too much")
    told_by = {one.message_id: one for one in shown.messages.values()}
    author = shown.people.get(_text(fields["author"]))
    if author is None or author.id != told_by[quotes[0].message_id].author_id:
        raise _Refused("somebody else said what it quotes")
    subjects = _subjects(fields["subjects"], shown)
    own = [_own_words(told_by[quote.message_id], quote) for quote in quotes]
    authors = [told_by[quote.message_id].author_id for quote in quotes]
    _check_subjects(subjects, author, own)
    agreeing = [person for person in shown.people.values() if person.id in authors[1:]]
    said = told_by[quotes[0].message_id].body[quotes[0].start : quotes[0].end]
    reason = against(content, own[0], author=author, agreeing=agreeing if "decision" in kind else [])
    if reason:
        raise _Refused(reason)
    is_own = {person.id for person in subjects} == {author.id}
    return Statement(
        kind=kind,
        title=title(said),
        content=content,
        quotes=quotes,
        author_id=author.id,
        subject_ids=frozenset(person.id for person in subjects),
        involved_ids=frozenset(authors) - {author.id},
        confidence=OF_ONESELF if is_own else OF_ELSE,
    )


def _text(value: object) -> Any:
    if not isinstance(value, str):
        raise _Refused("it has not the fields that were asked for")
    return value.strip()


def _list(value: object) -> Sequence[object]:
    if not isinstance(value, list):
        raise _Refused("it has not the fields that were asked for")
    return cast("list[object]", value)


def _check_plain(text: str, is_clean: Callable[[str], bool], *, longest: int) -> None:
    """Refuse what is more than one short line of words."""
    is_words = 0 < len(text) <= longest and text.isprintable() and _WORD.search(text) is not None
    if not is_words or _MARKUP.search(text) or "?" in text or safe_text(text) != text:
        raise _Refused("it is more than plain words")
    if _INSTRUCTION.search(text):
        raise _Refused("it tells somebody what to do")
    if not is_clean(text):
        raise _Refused("there is a secret in it")


# What it rests on


def _quote(value: object, shown: Shown) -> Quote:
    """Return where the words stand that a statement quotes."""
    fields = cast("Mapping[str, object]", value) if isinstance(value, dict) else dict[str, object]()
    if fields.keys() != {"message", "text"}:
        raise _Refused("it has not the fields that were asked for")
    message = shown.messages.get(_text(fields["message"]))
    if message is None:
        raise _Refused("it quotes a message that was not shown")
    span = _found(_text(fields["text"]), message.body)
    if span is None:
        raise _Refused("what it quotes does not stand there")
    return Quote(message_id=message.message_id, start=span[0], end=span[1])


def _found(words: str, body: str) -> tuple[int, int] | None:
    """Return where words stand in a body, whatever their case and blanks; whole words only."""
    parts = words.strip(" .…\"'“”").split()
    if not parts or sum(map(len, parts)) < SHORTEST_QUOTE or len(words) > LONGEST_CONTENT * 2:
        return None
    pattern = r"(?<!\w)" + r"\s+".join(map(re.escape, parts)) + r"(?!\w)"
    match = re.search(pattern, body, re.IGNORECASE)
    return None if match is None else match.span()


def _own_words(message: Spoken, quote: Quote) -> list[Clause]:
    """Return the clauses that a quote is of, if they are the author's own and plainly stated."""
    if message.author_kind != "human" or message.kind not in {"message", "whisper"}:
        raise _Refused("it quotes what nobody said of themselves")
    touched = [one for one in sentences(message.body) if one.start < quote.end and quote.start < one.end]
    covered = sum(
        not letter.isspace() and letter != COVER
        for one in touched
        for letter in one.text[max(quote.start - one.start, 0) : max(quote.end - one.start, 0)]
    )
    if covered < sum(not letter.isspace() for letter in message.body[quote.start : quote.end]):
        raise _Refused("it quotes what is a quotation there")
    if any(is_asked(one.text) or JOKING.search(one.text) for one in touched):
        raise _Refused("it quotes a question or a joke")
    near = [
        part for one in touched for part in clauses(one) if part.start < quote.end and quote.start < part.end
    ]
    if not near or not all(part.is_plain for part in near):
        raise _Refused("what it quotes is not plainly stated")
    return near


def _subjects(value: object, shown: Shown) -> list[Person]:
    found = [shown.people.get(_text(label)) for label in _list(value)]
    if any(person is None for person in found):
        raise _Refused("it is about somebody who is not known there")
    return [person for person in found if person is not None]


def _check_subjects(subjects: Sequence[Person], author: Person, own: Sequence[Sequence[Clause]]) -> None:
    """Refuse what is about somebody else than whoever speaks, and whom the words do not name."""
    words = {word for one in own for part in one for word in words_of(part.text)}
    if not all(person.id == author.id or is_named(person, words) for person in subjects):
        raise _Refused("it is about somebody whom its quotes do not name")
