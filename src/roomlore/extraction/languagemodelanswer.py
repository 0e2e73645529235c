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
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.records import MemoryKind
from roomlore.domain.statements import NamedParticipant, Quote, SourceText, Claim
from roomlore.extraction.clauses import Clause, clauses_of
from roomlore.extraction.cues import is_question
from roomlore.extraction.languagemodellinks import apply_links
from roomlore.extraction.languagemodelquotes import (
    InvalidItem,
    PromptLabels,
    check_plain_text,
    parse_object,
    parse_list,
    labelled_message,
    quoted_sentences,
    locate_quote,
    parse_text,
)
from roomlore.extraction.languagemodelwishes import MOST_WISHES, parse_request
from roomlore.extraction.languagemodelwords import mismatch, is_person_named, normalised_words
from roomlore.extraction.wording import title_of
from roomlore.wishes.records import PrivacyRequest

#: The kinds that can be drawn from what people say; the others are agents' own.
EXTRACTABLE_KINDS: tuple[MemoryKind, ...] = (
    "technical_decision", "process_decision", "preference", "fact", "lesson", "pattern", "anti_pattern", "correction",
    "process_outcome", "context",
)  # fmt: skip
LONGEST_ANSWER = 60_000
MOST_STATEMENTS = 12
MOST_QUOTES = 4
LONGEST_CONTENT = 300
#: How likely it was meant so: of oneself, and of anything else.
OWN_CONFIDENCE, OTHER_CONFIDENCE = 0.75, 0.6

_CLAIM_FIELDS = frozenset({"kind", "content", "author", "subjects", "quotes"})
_OPTIONAL_CLAIM_FIELDS = frozenset({"slot", "same_as", "replaces"})
_QUOTE_FIELDS = frozenset({"message", "text"})
Section = Literal["wishes", "statements"]
_MOST: Mapping[Section, int] = {"wishes": MOST_WISHES, "statements": MOST_STATEMENTS}
_FIRST = lazy_pattern(r'\{\s*"(wishes|statements)"\s*:\s*\[')
_NEXT = lazy_pattern(r'\s*,\s*"(wishes|statements)"\s*:\s*\[')
_BETWEEN = lazy_pattern(r"[\s,]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationResult:
    """What became of a statement or a wish in an answer."""

    #: As it came, or what of it could be read.
    raw: str
    #: One of these, or none where it was refused.
    claim: Claim | None = None
    #: And the message that voices it.
    request: tuple[MessageId, PrivacyRequest] | None = None
    #: Why it was refused, or is kept without what it claimed besides, in a phrase that quotes nobody; mostly empty.
    reason: str = ""

    @property
    def is_accepted(self) -> bool:
        """Return whether it was taken."""
        return self.claim is not None or self.request is not None


def validate_answer(answer: str, labels: PromptLabels, *, is_clean: Callable[[str], bool]) -> list[ValidationResult]:
    """Return what becomes of each statement and wish in an answer, which may be cut short or no JSON at all.

    Args:
        answer: JSON, perhaps with words around it.
        shown: What it was asked of.
        is_clean: Returns whether a text holds no secret.
    """
    return [_validate(part, value, labels, is_clean) for part, value in _parse_items(answer)]


def _validate(part: Section, value: object, shown: PromptLabels, is_clean: Callable[[str], bool]) -> ValidationResult:
    stated = json.dumps(value, ensure_ascii=False, default=str)[:2_000]
    try:
        if isinstance(value, InvalidItem):
            raise value
        if part == "wishes":
            message, wish = parse_request(value, shown)
            return ValidationResult(raw=stated, request=(message.message_id, wish))
        statement, reason = _parse_claim(value, shown, is_clean)
        return ValidationResult(raw=stated, claim=statement, reason=reason)
    except InvalidItem as refused:
        return ValidationResult(raw=stated, reason=str(refused))


def _parse_items(answer: str) -> Iterator[tuple[Section, object]]:
    """Yield what is in an answer, as far as it is what was asked for; then why the rest is not."""
    begin = _FIRST.search(answer) if len(answer) <= LONGEST_ANSWER else None
    if begin is None:
        yield "statements", InvalidItem("the answer is not the JSON that was asked for")
    seen = set[Section]()
    while begin is not None and begin[1] not in seen:
        part = cast("Section", begin[1])
        seen.add(part)
        place, left = begin.end(), _MOST[part]
        while (place := _skip_comma(answer, place)) < len(answer) and answer[place] != "]":
            try:
                value, place = _DECODER.raw_decode(answer, place)
            except (ValueError, RecursionError):
                place = len(answer)
                break
            if left > 0:
                yield part, value
            left -= 1
        if place >= len(answer):
            yield part, InvalidItem("the answer breaks off")
            return
        begin = _NEXT.match(answer, place + 1)


_DECODER = json.JSONDecoder()


def _skip_comma(answer: str, place: int) -> int:
    match = _BETWEEN.match(answer, place)
    return place if match is None else match.end()


def _parse_claim(value: object, shown: PromptLabels, is_clean: Callable[[str], bool]) -> tuple[Claim, str]:
    """Return what is stated, and why it is without what it claims besides."""
    fields = parse_object(value, _CLAIM_FIELDS, _OPTIONAL_CLAIM_FIELDS)
    kind, content = parse_text(fields["kind"]), parse_text(fields["content"])
    if kind not in EXTRACTABLE_KINDS:
        raise InvalidItem("there is no such kind")
    check_plain_text(content, is_clean, longest=LONGEST_CONTENT)
    quotes = [_parse_quote(one, shown) for one in parse_list(fields["quotes"])[: MOST_QUOTES + 1]]
    if not 1 <= len(quotes) <= MOST_QUOTES:
        raise InvalidItem("it quotes nothing, or too much")
    told_by = {one.message_id: one for one in shown.messages.values()}
    author = shown.people.get(parse_text(fields["author"]))
    if author is None or author.id != told_by[quotes[0].message_id].author_id:
        raise InvalidItem("somebody else said what it quotes")
    subjects = _parse_subjects(fields["subjects"], shown)
    own = [_quoted_clauses(told_by[quote.message_id], quote) for quote in quotes]
    authors = [told_by[quote.message_id].author_id for quote in quotes]
    _check_subjects(subjects, author, own)
    agreeing = [person for person in shown.people.values() if person.id in authors[1:]]
    reason = mismatch(content, own[0], author=author, agreeing=agreeing if "decision" in kind else [])
    if reason:
        raise InvalidItem(reason)
    is_own = {person.id for person in subjects} == {author.id}
    statement = Claim(
        kind=kind,
        title=title_of(told_by[quotes[0].message_id].body[quotes[0].start : quotes[0].end]),
        content=content,
        quotes=quotes,
        author_id=author.id,
        subject_ids=frozenset(person.id for person in subjects),
        involved_ids=frozenset(authors) - {author.id},
        confidence=OWN_CONFIDENCE if is_own else OTHER_CONFIDENCE,
    )
    claims = {"slot": "slot", "repeats": "same_as", "replaces": "replaces"}
    return apply_links(statement, subjects, shown, **{claim: fields.get(name) for claim, name in claims.items()})


# What it rests on


def _parse_quote(value: object, shown: PromptLabels) -> Quote:
    fields = parse_object(value, _QUOTE_FIELDS)
    return locate_quote(fields["text"], labelled_message(fields["message"], shown))


def _quoted_clauses(message: SourceText, quote: Quote) -> list[Clause]:
    """Return the clauses that a quote is of, if they are the author's own and plainly stated."""
    touched = quoted_sentences(message, quote)
    if any(is_question(one.text) for one in touched):
        raise InvalidItem("it quotes a question or a joke")
    near = [
        part for one in touched for part in clauses_of(one) if part.start < quote.end and quote.start < part.end
    ]
    if not near or not all(part.is_plain for part in near):
        raise InvalidItem("what it quotes is not plainly stated")
    return near


def _parse_subjects(value: object, shown: PromptLabels) -> list[NamedParticipant]:
    found = [shown.people.get(parse_text(label)) for label in parse_list(value)]
    if any(person is None for person in found):
        raise InvalidItem("it is about somebody who is not known there")
    return [person for person in found if person is not None]


def _check_subjects(subjects: Sequence[NamedParticipant], author: NamedParticipant, own: Sequence[Sequence[Clause]]) -> None:
    """Refuse what is about somebody else than whoever speaks, and whom the words do not name."""
    words = {word for one in own for part in one for word in normalised_words(part.text)}
    if not all(person.id == author.id or is_person_named(person, words) for person in subjects):
        raise InvalidItem("it is about somebody whom its quotes do not name")
