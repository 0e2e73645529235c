"""Validates the answer of a language model: accepts only claims and privacy requests that their quotes prove.

A quote must be in the message that it names, as the own words of the message's author. A claim consists of the quoted
sentences; the language model chooses them and adds nothing. Each refusal has a reason that quotes nobody.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, cast, get_args

from roomlore.domain.claims import Claim, ExistingMemory, NamedParticipant, Quote, SourceText
from roomlore.domain.ids import MessageId, ParticipantId
from roomlore.domain.memory_text import quoted_statement, title_of
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.records import MemoryKind
from roomlore.memories.normalisation import normalised
from roomlore.privacy import patterns
from roomlore.privacy.identifiers import distinctive_values, proper_names, without_quotations
from roomlore.privacy.recogniser import MAX_REQUEST_LENGTH
from roomlore.privacy.records import PrivacyRequest, RequestKind
from roomlore.text.recognisers import is_question
from roomlore.text.sentences import MASK, Sentence, own_sentences_of

LONGEST_WORDS = 600
SHORTEST_QUOTE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptLabels:
    """The messages, people and memories in a prompt, by label."""

    messages: Mapping[str, SourceText]
    people: Mapping[str, NamedParticipant]
    memories: Mapping[str, ExistingMemory] = field(default_factory=dict[str, ExistingMemory])


class InvalidItem(Exception):
    """A part of an answer is refused. The error message says why, and quotes nobody."""


def parse_object(
    value: object, needed: frozenset[str], optional: frozenset[str] = frozenset()
) -> Mapping[str, object]:
    """Return the fields of an object, if they are the expected fields."""
    fields = cast("Mapping[str, object]", value) if isinstance(value, dict) else dict[str, object]()
    if not needed <= fields.keys() <= needed | optional:
        raise InvalidItem("it lacks the fields that were asked for")
    return fields


def parse_text(value: object) -> str:
    """Return a stripped string."""
    if not isinstance(value, str):
        raise InvalidItem("it lacks the fields that were asked for")
    return value.strip()


def parse_list(value: object) -> Sequence[object]:
    """Return a list."""
    if not isinstance(value, list):
        raise InvalidItem("it lacks the fields that were asked for")
    return cast("list[object]", value)


def labelled_message(label: object, shown: PromptLabels) -> SourceText:
    """Return the message with a label."""
    message = shown.messages.get(parse_text(label))
    if message is None:
        raise InvalidItem("it quotes a message that was not shown")
    return message


def locate_quote(words: object, message: SourceText) -> Quote:
    """Return the position of words in a message."""
    span = _find_words(parse_text(words), message.body)
    if span is None:
        raise InvalidItem("its quote is not in the message")
    return Quote(message_id=message.message_id, start=span[0], end=span[1])


def _find_words(words: str, body: str) -> tuple[int, int] | None:
    """Find whole words in a body. Case and spacing do not matter."""
    parts = words.strip(" .…\"'“”").split()
    if not parts or sum(map(len, parts)) < SHORTEST_QUOTE or len(words) > LONGEST_WORDS:
        return None
    pattern = r"(?<!\w)" + r"\s+".join(map(re.escape, parts)) + r"(?!\w)"
    match = lazy_pattern(pattern, re.IGNORECASE).search(body)
    return None if match is None else match.span()


def quoted_sentences(message: SourceText, quote: Quote) -> list[Sentence]:
    """Return the sentences of a quote, if they are the author's own words."""
    if message.author_kind != "human" or message.kind not in {"message", "whisper"}:
        raise InvalidItem("it quotes a message that no human wrote")
    touched = [
        one for one in own_sentences_of(message.body) if one.start < quote.end and quote.start < one.end
    ]
    covered = sum(
        not letter.isspace() and letter != MASK
        for one in touched
        for letter in one.text[max(quote.start - one.start, 0) : max(quote.end - one.start, 0)]
    )
    if covered < sum(not letter.isspace() for letter in message.body[quote.start : quote.end]):
        raise InvalidItem("it quotes a quotation")
    return touched


#: Kinds that a claim and a memory may have if both make the same statement.
_INTERCHANGEABLE_KINDS: frozenset[MemoryKind] = frozenset({"fact", "preference"})
_DECISIONS: frozenset[MemoryKind] = frozenset({"decision", "technical_decision", "process_decision"})


def apply_links(
    claim: Claim,
    subjects: Sequence[NamedParticipant],
    shown: PromptLabels,
    *,
    repeats: object,
    replaces: object,
) -> tuple[Claim, str]:
    """Return a claim with its valid links, and the reasons why other links are invalid.

    `repeats` and `replaces` are labels of memories. Each of them may be None.
    """
    reasons: list[str] = []
    found = claim
    for check, label in ((_with_repeated, repeats), (_with_replaced, replaces)):
        if label is None or label == "":
            continue
        try:
            found = check(found, subjects, shown, parse_text(label))
        except InvalidItem as refused:
            reasons.append(str(refused))
    return found, "; ".join(reasons)


def _with_repeated(
    claim: Claim, subjects: Sequence[NamedParticipant], shown: PromptLabels, label: str
) -> Claim:
    return replace(claim, repeats=_linked_memory(claim, subjects, shown, label).id)


def _with_replaced(
    claim: Claim, subjects: Sequence[NamedParticipant], shown: PromptLabels, label: str
) -> Claim:
    if claim.repeats is not None:
        raise InvalidItem("stored beside the memory it replaces: it also repeats one")
    one = _linked_memory(claim, subjects, shown, label)
    is_own = {person.id for person in subjects} == {claim.author_id}
    if not is_own and not {claim.kind, one.kind} <= _DECISIONS:
        raise InvalidItem(
            "stored beside the memory it replaces: its author is neither the subject nor a decider"
        )
    return replace(claim, replaces=one.id)


def _linked_memory(
    claim: Claim, subjects: Sequence[NamedParticipant], shown: PromptLabels, label: str
) -> ExistingMemory:
    """Return the memory with a label, if it has the same subject and a compatible kind."""
    one = shown.memories.get(label)
    if one is None:
        raise InvalidItem("stored alone: it links a memory that was not shown")
    if {person.id for person in subjects} != ({one.subject_id} - {None}):
        raise InvalidItem("stored alone: it links a memory about somebody else")
    families = (_INTERCHANGEABLE_KINDS, _DECISIONS, frozenset({claim.kind}))
    is_alike = any({claim.kind, one.kind} <= family for family in families)
    if not is_alike and claim.kind != "correction":
        raise InvalidItem("stored alone: it links a memory of another kind")
    return one


#: The maximum number in one answer. Further items are ignored.
MOST_WISHES = 6
MOST_NAMED = 6
REQUEST_KINDS: tuple[RequestKind, ...] = get_args(RequestKind)

_REQUEST_FIELDS = frozenset({"message", "kind", "quote", "from"})
_OPTIONAL_REQUEST_FIELDS = frozenset({"about"})
_NO = r"(?:n['\u2019]?t|\b(?:not|no|never|nothing|without|neither|nor))\b"
_SAYING = r"(?:said|told|written|wrote|posted|shared|mentioned|shown|typed|sent|say|tell|write|post|share|mention)\b"
_HERE = r"(?:this|the|these) (?:room|chat|channel|group|walls|house|family|circle|team)"
_ELSE = r"(?:nobody|no one|anybody|anyone|others|a soul|people)(?: else)?"
#: Word beginnings, also of languages that the rules do not cover.
_FORGETTING = lazy_pattern(
    r"(?<!\bi )\bforget|\b(?:delet|remov|eras(?:e|ing|ure)|purg(?:e|ing)|wip(?:e|ing)|scrub|redact|unsee|unsay|pretend"
    r"|strike (?:that|this|it|my|what|from)|slip(?:s|ped)? out|tak(?:e|ing) (?:that|this|it) back"
    r"|out of (?:the|your) (?:records?|notes|minutes|logs?|memory)|you (?:never|did(?:n['\u2019]?t| not)) (?:hear|see|saw|read)"
    "|vergiss|vergess|lösch|entfern|oubli|effac|supprim|olvid|borr(?!ow)|elimin|dimentic|cancella(?:re|te|lo|mi)?\\b"
    "|esque[çc]|apag|vergeet|verwijder)",
    re.IGNORECASE,
)
#: Words that, with a negation, refer to something that should not have been said.
_REGRET = lazy_pattern(
    rf"\b(?:should|ought|wish|mean|meant)(?:n['\u2019]?t)?\b.{{0,40}}\b{_SAYING}", re.IGNORECASE
)
#: What can be kept secret.
_THAT = r"(?:this|that|it|these|those|them|all|everything|what)"
_CONFIDING = lazy_pattern(
    r"\b(?:between (?:us|you|ourselves|the (?:two|three|four) of us|friends|these)|among (?:us|ourselves)|secret(?!ar)"
    r"|confid(?!ent(?:ly)?\b|ence)|in (?:strict(?:est)? )?confidence|privat|hush|slip(?:s|ped)? out"
    rf"|(?:off|outside|not for)[ -](?:the )?record|keep {_THAT} (?:to|from|among|between|under|quiet|off|out of|with us)|keep quiet"
    rf"|quiet about|to yoursel(?:f|ves)|no further|(?:this|that|it|said) (?:all )?stays? (?:here|with (?:us|you)|in (?:here|{_HERE}))"
    rf"|{_ELSE} (?:must|should|may|needs?|has|have|ought)(?: to)? (?:ever )?(?:know|hear|see|learn|find|read)"
    "|unter uns|vertraul|geheim|behalt|entre nous|entre nosotros|tra noi|segret|entre nós|segred|onder ons)"
    rf"|{_NO}.{{0,20}}\bleaves? (?:here|{_HERE})"
    rf"|{_NO}.{{0,20}}\b{_ELSE} (?:to )?(?:know|see|read|find)",
    re.IGNORECASE,
)
#: A negation, and soon after it a verb of telling.
_SECRECY = lazy_pattern(
    rf"{_NO}\s+(?!need to\b)(?:\S+\s+){{0,4}}?"
    r"(?:tell|told|say|mention|repeat|shar|spread|pass|breath|discuss|quot|show|hear|learn|word\b)",
    re.IGNORECASE,
)
#: The same, with a verb of knowing and the name of a person.
_HIDING = lazy_pattern(rf"{_NO}\s+(?:\S+\s+){{0,4}}?(?:know|see|find|let|read|get|receiv)", re.IGNORECASE)
_DENYING = lazy_pattern(_NO, re.IGNORECASE)
#: A person who says what they do not do themselves ("I don't tell") makes no request to others.
_OWN_DOING = lazy_pattern(
    r"\b(?:i|we|he|she|they|it)\s+(?:(?:do|did|does|have|has|had|can|could)\s*)?(?:n['\u2019]?t|not|never)\b"
    r"(?!\s+(?:want|wish|like)\b)",
    re.IGNORECASE,
)
#: Words that only refer to the message before.
_REFERRING_WORDS = frozenset("that this it them these those what i said all everything".split())
_FEW_WORDS = 3


def parse_request(value: object, shown: PromptLabels) -> tuple[SourceText, PrivacyRequest]:
    """Return the privacy request in an answer, and the message of the request."""
    fields = parse_object(value, _REQUEST_FIELDS, _OPTIONAL_REQUEST_FIELDS)
    kind = parse_text(fields["kind"])
    if kind not in REQUEST_KINDS:
        raise InvalidItem("there is no such kind")
    message = labelled_message(fields["message"], shown)
    quote = locate_quote(fields["quote"], message)
    _check_own_request(kind, quoted_sentences(message, quote), message, quote)
    named = _parse_restricted(fields["from"], message, shown)
    if (kind == "restrict") != bool(named):
        raise InvalidItem("its kind and its list of people do not fit")
    about = _parse_subject(fields.get("about"), message)
    # If the message says more than the request, the request is about the rest of the message.
    tells = len(_words(message.body)) - len(_words(message.body[quote.start : quote.end])) > _FEW_WORDS
    is_about_itself = not about and kind != "forget" and tells
    request = PrivacyRequest(
        kind=kind,
        refers_back=not about and not is_about_itself,
        is_about_itself=is_about_itself,
        subject=about,
        identifiers=_identifiers_in(about, shown) if kind == "forget" else (),
        restricted_ids=named,
    )
    return message, request


def _check_own_request(kind: str, voiced: list[Sentence], message: SourceText, quote: Quote) -> None:
    words = message.body[quote.start : quote.end]
    if len(message.body) > MAX_REQUEST_LENGTH or not _has_request_words(kind, words):
        raise InvalidItem("its words are no such request")
    for one in voiced:
        if patterns.QUESTION.search(one.text) and not patterns.ASKS_FAVOUR.match(one.text):
            raise InvalidItem("it quotes a question or a joke")
        is_put_off = kind == "forget" and (
            patterns.CONDITIONAL.search(one.text) or patterns.NEGATED.search(one.text)
        )
        if patterns.REPORTED_SPEECH.search(one.text) or is_put_off:
            raise InvalidItem("its quote is not its author's request, or not for now")


def _has_request_words(kind: str, words: str) -> bool:
    """Return whether words may be a request of this kind."""
    if kind == "forget":
        is_rued = _DENYING.search(words) and _REGRET.search(words)
        return bool(_FORGETTING.search(words) or is_rued)
    asked = _OWN_DOING.sub(" ", words)
    is_hidden = kind == "restrict" and _HIDING.search(asked)
    return bool(_CONFIDING.search(words) or _SECRECY.search(asked) or is_hidden)


def _parse_restricted(value: object, message: SourceText, shown: PromptLabels) -> frozenset[ParticipantId]:
    """Return the ids of the people from whom a request withholds something. The message must name each of them."""
    labels = parse_list(value)
    found = [shown.people.get(parse_text(label)) for label in labels[: MOST_NAMED + 1]]
    if any(person is None for person in found) or len(found) > MOST_NAMED:
        raise InvalidItem("it is withheld from somebody unknown")
    people: list[NamedParticipant] = [person for person in found if person is not None]
    said = set(_words(message.body))
    if not all(person.id != message.author_id and _is_named(person, said) for person in people):
        raise InvalidItem("it is withheld from somebody its message does not name")
    return frozenset(person.id for person in people)


def _parse_subject(value: object, message: SourceText) -> str:
    """Return the words of the message that name the subject of a request.

    Return an empty text if the request refers to an earlier message.
    """
    if value is None or not (words := parse_text(value)) or set(_words(words)) <= _REFERRING_WORDS:
        return ""
    quote = locate_quote(words, message)
    return message.body[quote.start : quote.end]


def _identifiers_in(about: str, shown: PromptLabels) -> tuple[str, ...]:
    """Return the distinctive values and names in a subject, without the people of the prompt."""
    called = {
        word
        for person in shown.people.values()
        for name in (person.name, *person.names)
        for word in _words(name)
    }
    named = [one for one in proper_names(without_quotations(about)) if called.isdisjoint(_words(one))]
    return tuple(dict.fromkeys([*distinctive_values(about), *named]))


#: The kinds that messages can state. The other kinds are experiences of agents, or come from other stores.
EXTRACTABLE_KINDS: tuple[MemoryKind, ...] = (
    "decision", "announcement", "answer", "promise", "preference", "fact", "lesson", "resource", "correction",
)  # fmt: skip
LONGEST_ANSWER = 60_000
MOST_STATEMENTS = 12
MOST_QUOTES = 4
#: Confidence of claims about oneself, and about anything else.
OWN_CONFIDENCE, OTHER_CONFIDENCE = 0.75, 0.6

_CLAIM_FIELDS = frozenset({"kind", "subjects", "quotes"})
_OPTIONAL_CLAIM_FIELDS = frozenset({"same_as", "replaces"})
_QUOTE_FIELDS = frozenset({"message", "text"})
Section = Literal["requests", "statements"]
_MOST: Mapping[Section, int] = {"requests": MOST_WISHES, "statements": MOST_STATEMENTS}
_FIRST = lazy_pattern(r'\{\s*"(requests|statements)"\s*:\s*\[')
_NEXT = lazy_pattern(r'\s*,\s*"(requests|statements)"\s*:\s*\[')
_BETWEEN = lazy_pattern(r"[\s,]*")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationResult:
    """The validated claim or request of an answer, or the reason why it is refused."""

    #: JSON of the item, as far as it could be read.
    raw: str
    claim: Claim | None = None
    #: The request with its message.
    request: tuple[MessageId, PrivacyRequest] | None = None
    #: Why the item is refused, or stored without a link. The reason quotes nobody.
    reason: str = ""

    @property
    def is_accepted(self) -> bool:
        """Whether there is a claim or a request."""
        return self.claim is not None or self.request is not None


def validate_answer(
    answer: str, labels: PromptLabels, *, is_clean: Callable[[str], bool]
) -> list[ValidationResult]:
    """Validate each claim and request of an answer.

    The answer may be cut short, and may not even be JSON. `is_clean` returns whether a text contains no secret.
    """
    return [_validate(part, value, labels, is_clean) for part, value in _parse_items(answer)]


def _validate(
    part: Section, value: object, shown: PromptLabels, is_clean: Callable[[str], bool]
) -> ValidationResult:
    stated = json.dumps(value, ensure_ascii=False, default=str)[:2_000]
    try:
        if isinstance(value, InvalidItem):
            raise value
        if part == "requests":
            message, request = parse_request(value, shown)
            return ValidationResult(raw=stated, request=(message.message_id, request))
        statement, reason = _parse_claim(value, shown, is_clean)
        return ValidationResult(raw=stated, claim=statement, reason=reason)
    except InvalidItem as refused:
        return ValidationResult(raw=stated, reason=str(refused))


def _parse_items(answer: str) -> Iterator[tuple[Section, object]]:
    """Yield the items of an answer, and then the reason why the rest of the answer could not be read."""
    begin = _FIRST.search(answer) if len(answer) <= LONGEST_ANSWER else None
    if begin is None:
        yield "statements", InvalidItem("the answer is not the JSON that was asked for")
    seen = set[Section]()
    while begin is not None and begin[1] not in seen:
        part = cast("Section", begin[1])
        seen.add(part)
        place, left = begin.end(), _MOST[part]
        while (place := cast("re.Match[str]", _BETWEEN.match(answer, place)).end()) < len(answer) and answer[
            place
        ] != "]":
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


def _parse_claim(value: object, shown: PromptLabels, is_clean: Callable[[str], bool]) -> tuple[Claim, str]:
    """Return a claim, and the reasons why some of its links are invalid."""
    fields = parse_object(value, _CLAIM_FIELDS, _OPTIONAL_CLAIM_FIELDS)
    kind = parse_text(fields["kind"])
    if kind not in EXTRACTABLE_KINDS:
        raise InvalidItem("there is no such kind")
    quotes = [_parse_quote(one, shown) for one in parse_list(fields["quotes"])[: MOST_QUOTES + 1]]
    if not 1 <= len(quotes) <= MOST_QUOTES:
        raise InvalidItem("it has no quote, or too many")
    told_by = {one.message_id: one for one in shown.messages.values()}
    words = [told_by[quote.message_id].body[quote.start : quote.end] for quote in quotes]
    if all(is_question(sentence.text) for sentence in own_sentences_of(words[0])):
        raise InvalidItem("it quotes a question")
    if not all(map(is_clean, words)):
        raise InvalidItem("there is a secret in it")
    author_id = told_by[quotes[0].message_id].author_id
    subjects = _parse_subjects(fields["subjects"], shown)
    _check_subjects(subjects, author_id, words)
    is_own = {person.id for person in subjects} == {author_id}
    claim = Claim(
        kind=kind,
        title=title_of(words[0]),
        content=_content(quotes, list(shown.messages.values())),
        quotes=quotes,
        author_id=author_id,
        subject_ids=frozenset(person.id for person in subjects),
        involved_ids=frozenset(told_by[quote.message_id].author_id for quote in quotes) - {author_id},
        confidence=OWN_CONFIDENCE if is_own else OTHER_CONFIDENCE,
    )
    links = {"repeats": "same_as", "replaces": "replaces"}
    return apply_links(claim, subjects, shown, **{link: fields.get(name) for link, name in links.items()})


def _content(quotes: Sequence[Quote], messages: Sequence[SourceText]) -> str:
    """Return the quoted words with the names of their authors, in the order of the messages."""
    by_message = {quote.message_id: quote for quote in quotes}
    return " ".join(
        quoted_statement(one.author_name, one.body[quote.start : quote.end])
        for one in messages
        if (quote := by_message.get(one.message_id))
    )


# Quotes and subjects


def _parse_quote(value: object, shown: PromptLabels) -> Quote:
    """Return the sentences of a quote. A part of a sentence might say something else than the whole."""
    fields = parse_object(value, _QUOTE_FIELDS)
    message = labelled_message(fields["message"], shown)
    quote = locate_quote(fields["text"], message)
    sentences = quoted_sentences(message, quote)
    return replace(quote, start=sentences[0].start, end=sentences[-1].end)


def _parse_subjects(value: object, shown: PromptLabels) -> list[NamedParticipant]:
    found = [shown.people.get(parse_text(label)) for label in parse_list(value)]
    if any(person is None for person in found):
        raise InvalidItem("it is about somebody unknown")
    return [person for person in found if person is not None]


def _check_subjects(
    subjects: Sequence[NamedParticipant], author_id: ParticipantId, quoted: Sequence[str]
) -> None:
    """Refuse subjects that are not the author and are not named in the quotes."""
    words = {word for text in quoted for word in _words(text)}
    if not all(person.id == author_id or _is_named(person, words) for person in subjects):
        raise InvalidItem("it is about somebody its quotes do not name")


def _is_named(person: NamedParticipant, words: Collection[str]) -> bool:
    """Return whether the first word of a person's name is among the words."""
    return any((parts := _words(name)) and parts[0] in words for name in (person.name, *person.names))


def _words(text: str) -> list[str]:
    return [word.removesuffix("'s") for word in normalised(text).split()]
