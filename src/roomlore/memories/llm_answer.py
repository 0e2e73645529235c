"""Which statements of a language model's answer are taken: those that tell what their quotes tell, and nothing else.

Looked up, not asked: the quotes stand where they are said to stand, as their author's own plain words, and whatever
the statement says comes from them. Numbers, names and negations are the same in both. Wishes are looked up likewise.
What is refused says why.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, cast, get_args

from roomlore.domain.claims import Claim, ExistingMemory, NamedParticipant, Quote, SourceText
from roomlore.domain.ids import MessageId, ParticipantId
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.records import MemoryKind
from roomlore.domain.rendering import safe_text
from roomlore.memories.attributes import attribute_stated
from roomlore.memories.clauses import Clause, clauses_of
from roomlore.memories.entailment import (
    NEGATION_WORDS,
    is_person_named,
    mismatch,
    normalised_words,
    shared_stems,
)
from roomlore.memories.patterns import JOKE, is_question
from roomlore.memories.rendering import title_of
from roomlore.memories.sentences import MASK, Sentence, own_sentences_of
from roomlore.privacy import patterns
from roomlore.privacy.identifiers import distinctive_values, proper_names, without_quotations
from roomlore.privacy.recogniser import MAX_REQUEST_LENGTH
from roomlore.privacy.records import PrivacyRequest, RequestKind

LONGEST_WORDS = 600
SHORTEST_QUOTE = 4

#: Markup, links and addresses; what a renderer or a shell might take for more than words.
_MARKUP = lazy_pattern(
    r"[<>{}\[\]|\\`~^]|://|\bwww\.|^\W*#|\*\*|__|&#?\w+;|\b(?:javascript|data|mailto)\s*:", re.IGNORECASE
)
#: Words to a language model that will read the memory one day.
_INSTRUCTION = lazy_pattern(
    r"(?m:^(?>.*?\b(?:ignore|disregard|forget|override|bypass)\b)"
    r".*\b(?:instructions?|rules?|prompts?|above|previous|prior|everything)\b)"
    r"|\b(?:system|developer)\s+(?:prompt|message|override|note)\b|^\W*(?:system|assistant|user|developer|tool)\s*:"
    r"|\byou\s+(?:are\s+now|must|shall|should)\b|\bact\s+as\b|\bjailbreak\b",
    re.IGNORECASE,
)
_ANY_WORD = lazy_pattern(r"\w")


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptLabels:
    """What a language model was shown, by label."""

    messages: Mapping[str, SourceText]
    people: Mapping[str, NamedParticipant]
    #: What is remembered already of the same people for the same people.
    memories: Mapping[str, ExistingMemory] = field(default_factory=dict[str, ExistingMemory])


class InvalidItem(Exception):
    """Why something in an answer is not taken, in one phrase that quotes nobody."""


def parse_object(
    value: object, needed: frozenset[str], optional: frozenset[str] = frozenset()
) -> Mapping[str, object]:
    """Return the fields of an object, if they are those that were asked for.

    Raises:
        Refused: they are others.
    """
    fields = cast("Mapping[str, object]", value) if isinstance(value, dict) else dict[str, object]()
    if not needed <= fields.keys() <= needed | optional:
        raise InvalidItem("it has not the fields that were asked for")
    return fields


def parse_text(value: object) -> str:
    """Return a text without the blanks around it.

    Raises:
        Refused: it is none.
    """
    if not isinstance(value, str):
        raise InvalidItem("it has not the fields that were asked for")
    return value.strip()


def parse_list(value: object) -> Sequence[object]:
    """Return a list.

    Raises:
        Refused: it is none.
    """
    if not isinstance(value, list):
        raise InvalidItem("it has not the fields that were asked for")
    return cast("list[object]", value)


def check_plain_text(text: str, is_clean: Callable[[str], bool], *, longest: int) -> None:
    """Refuse what is more than one short line of words.

    Raises:
        Refused: it is longer, or holds markup, an order or a secret.
    """
    is_words = 0 < len(text) <= longest and text.isprintable() and _ANY_WORD.search(text) is not None
    if not is_words or _MARKUP.search(text) or "?" in text or safe_text(text) != text:
        raise InvalidItem("it is more than plain words")
    if _INSTRUCTION.search(text):
        raise InvalidItem("it tells somebody what to do")
    if not is_clean(text):
        raise InvalidItem("there is a secret in it")


def labelled_message(label: object, shown: PromptLabels) -> SourceText:
    """Return the message that has a label.

    Raises:
        Refused: none has that was shown.
    """
    message = shown.messages.get(parse_text(label))
    if message is None:
        raise InvalidItem("it quotes a message that was not shown")
    return message


def locate_quote(words: object, message: SourceText) -> Quote:
    """Return where words stand in a message.

    Raises:
        Refused: they do not.
    """
    span = _find_words(parse_text(words), message.body)
    if span is None:
        raise InvalidItem("what it quotes does not stand there")
    return Quote(message_id=message.message_id, start=span[0], end=span[1])


def _find_words(words: str, body: str) -> tuple[int, int] | None:
    """Return where words stand in a body, whatever their case and blanks; whole words only."""
    parts = words.strip(" .…\"'“”").split()
    if not parts or sum(map(len, parts)) < SHORTEST_QUOTE or len(words) > LONGEST_WORDS:
        return None
    pattern = r"(?<!\w)" + r"\s+".join(map(re.escape, parts)) + r"(?!\w)"
    match = lazy_pattern(pattern, re.IGNORECASE).search(body)
    return None if match is None else match.span()


def quoted_sentences(message: SourceText, quote: Quote) -> list[Sentence]:
    """Return the sentences that a quote is of, if they are the author's own and no joke.

    Raises:
        Refused: they are not.
    """
    if message.author_kind != "human" or message.kind not in {"message", "whisper"}:
        raise InvalidItem("it quotes what nobody said of themselves")
    touched = [
        one for one in own_sentences_of(message.body) if one.start < quote.end and quote.start < one.end
    ]
    covered = sum(
        not letter.isspace() and letter != MASK
        for one in touched
        for letter in one.text[max(quote.start - one.start, 0) : max(quote.end - one.start, 0)]
    )
    if covered < sum(not letter.isspace() for letter in message.body[quote.start : quote.end]):
        raise InvalidItem("it quotes what is a quotation there")
    if any(JOKE.search(one.text) for one in touched):
        raise InvalidItem("it quotes a question or a joke")
    return touched


#: What one may be told as where another was.
_INTERCHANGEABLE_KINDS: frozenset[MemoryKind] = frozenset({"fact", "preference"})
_DECISIONS: frozenset[MemoryKind] = frozenset({"technical_decision", "process_decision"})


def apply_links(
    statement: Claim,
    subjects: Sequence[NamedParticipant],
    shown: PromptLabels,
    *,
    slot: object,
    repeats: object,
    replaces: object,
) -> tuple[Claim, str]:
    """Return a statement with what of these claims holds, and why the others do not; empty where all do.

    Args:
        statement: What is stated.
        subjects: Whom it is about.
        shown: What the language model was shown.
        slot: Of what it is said to be the one value, or None.
        repeats: The label of what it is said to repeat, or None.
        replaces: The label of what it is said to take the place of, or None.
    """
    reasons: list[str] = []
    found = statement
    for check, claim in ((_with_attribute, slot), (_with_repeated, repeats), (_with_replaced, replaces)):
        if claim is None or claim == "":
            continue
        try:
            found = check(found, subjects, shown, parse_text(claim))
        except InvalidItem as refused:
            reasons.append(str(refused))
    return found, "; ".join(reasons)


def _with_attribute(
    statement: Claim, subjects: Sequence[NamedParticipant], _: PromptLabels, claim: str
) -> Claim:
    if len(subjects) != 1:
        raise InvalidItem("kept without its slot: it is not about one person")
    slot = attribute_stated(claim, statement.kind, _after_name(statement.content, subjects[0]))
    if slot is None:
        raise InvalidItem("kept without its slot: there is no such one, or its words do not tell it")
    return replace(statement, slot=slot)


def _with_repeated(
    statement: Claim, subjects: Sequence[NamedParticipant], shown: PromptLabels, claim: str
) -> Claim:
    one = _linked_memory(statement, subjects, shown, claim)
    words, held = normalised_words(statement.content), normalised_words(one.content)
    if _numbers_in(words) != _numbers_in(held) or NEGATION_WORDS.isdisjoint(
        words
    ) != NEGATION_WORDS.isdisjoint(held):
        raise InvalidItem("kept beside what it is said to repeat: that has another number, or says no")
    if one.slot is not None and statement.slot not in {None, one.slot}:
        raise InvalidItem("kept beside what it is said to repeat: that is the value of something else")
    if not shared_stems(words, held, but=_name_words(subjects)):
        raise InvalidItem("kept beside what it is said to repeat: they have no word in common")
    return replace(statement, repeats=one.id)


def _with_replaced(
    statement: Claim, subjects: Sequence[NamedParticipant], shown: PromptLabels, claim: str
) -> Claim:
    if statement.repeats is not None:
        raise InvalidItem("kept beside what it is said to replace: it is said to repeat something as well")
    one = _linked_memory(statement, subjects, shown, claim)
    is_own = {person.id for person in subjects} == {statement.author_id}
    is_decided = statement.kind in _DECISIONS and one.kind in _DECISIONS
    if not is_own and not is_decided:
        raise InvalidItem("kept beside what it is said to replace: whoever says it cannot know")
    if one.slot is not None and statement.slot not in {None, one.slot}:
        raise InvalidItem("kept beside what it is said to replace: that is the value of something else")
    held = normalised_words(one.content)
    if statement.slot is None and not shared_stems(
        normalised_words(statement.content), held, but=_name_words(subjects)
    ):
        raise InvalidItem("kept beside what it is said to replace: they have no word in common")
    return replace(statement, replaces=one.id)


def _linked_memory(
    statement: Claim, subjects: Sequence[NamedParticipant], shown: PromptLabels, label: str
) -> ExistingMemory:
    """Return the memory that has a label, if it may say the same or the contrary."""
    one = shown.memories.get(label)
    if one is None:
        raise InvalidItem("kept alone: it names a memory that was not shown")
    if {person.id for person in subjects} != ({one.subject_id} - {None}):
        raise InvalidItem("kept alone: it names a memory about somebody else")
    families = (_INTERCHANGEABLE_KINDS, _DECISIONS, frozenset({statement.kind}))
    is_alike = any({statement.kind, one.kind} <= family for family in families)
    if not is_alike and statement.kind != "correction":
        raise InvalidItem("kept alone: it names a memory of another kind")
    return one


def _after_name(content: str, person: NamedParticipant) -> list[str]:
    words, called = normalised_words(content), _name_words([person])
    start = next((place for place, word in enumerate(words) if word not in called), len(words))
    return words[start:] if start else []


def _name_words(people: Sequence[NamedParticipant]) -> frozenset[str]:
    return frozenset(
        word for one in people for name in (one.name, *one.names) for word in normalised_words(name)
    )


def _numbers_in(words: Sequence[str]) -> list[str]:
    return sorted(word for word in words if word[-1].isdigit())


#: In one answer; what is beyond is not looked at.
MOST_WISHES = 6
MOST_NAMED = 6
REQUEST_KINDS: tuple[RequestKind, ...] = get_args(RequestKind)

_REQUEST_FIELDS = frozenset({"message", "kind", "quote", "from"})
_OPTIONAL_REQUEST_FIELDS = frozenset({"about"})
_NO = r"(?:n['\u2019]?t|\b(?:not|no|never|nothing|without|neither|nor))\b"
_SAYING = r"(?:said|told|written|wrote|posted|shared|mentioned|shown|typed|sent|say|tell|write|post|share|mention)\b"
_HERE = r"(?:this|the|these) (?:room|chat|channel|group|walls|house|family|circle|team)"
_ELSE = r"(?:nobody|no one|anybody|anyone|others|a soul|people)(?: else)?"
#: By beginnings; also of languages that rules do not hear.
_FORGETTING = lazy_pattern(
    r"(?<!\bi )\bforget|\b(?:delet|remov|eras(?:e|ing|ure)|purg(?:e|ing)|wip(?:e|ing)|scrub|redact|unsee|unsay|pretend"
    r"|strike (?:that|this|it|my|what|from)|slip(?:s|ped)? out|tak(?:e|ing) (?:that|this|it) back"
    r"|out of (?:the|your) (?:records?|notes|minutes|logs?|memory)|you (?:never|did(?:n['\u2019]?t| not)) (?:hear|see|saw|read)"
    "|vergiss|vergess|lösch|entfern|oubli|effac|supprim|olvid|borr(?!ow)|elimin|dimentic|cancella(?:re|te|lo|mi)?\\b"
    "|esque[çc]|apag|vergeet|verwijder)",
    re.IGNORECASE,
)
#: With a no: what should not have been said.
_REGRET = lazy_pattern(
    rf"\b(?:should|ought|wish|mean|meant)(?:n['\u2019]?t)?\b.{{0,40}}\b{_SAYING}", re.IGNORECASE
)
#: What is kept to oneself, and is no dog.
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
#: A no, and soon after it what is not to be done.
_SECRECY = lazy_pattern(
    rf"{_NO}\s+(?!need to\b)(?:\S+\s+){{0,4}}?"
    r"(?:tell|told|say|mention|repeat|shar|spread|pass|breath|discuss|quot|show|hear|learn|word\b)",
    re.IGNORECASE,
)
#: The same from somebody who is named.
_HIDING = lazy_pattern(
    rf"{_NO}\s+(?:\S+\s+){{0,4}}?(?:know|see|find|let|read|get|receiv)",
    re.IGNORECASE,
)
_DENYING = lazy_pattern(_NO, re.IGNORECASE)
#: What somebody does not do themselves is nothing that they ask of others.
_OWN_DOING = lazy_pattern(
    r"\b(?:i|we|he|she|they|it)\s+(?:(?:do|did|does|have|has|had|can|could)\s*)?(?:n['\u2019]?t|not|never)\b"
    r"(?!\s+(?:want|wish|like)\b)",
    re.IGNORECASE,
)
#: Stands for what was said just before, and names nothing.
_REFERRING_WORDS = frozenset(
    ["that", "this", "it", "them", "these", "those", "what", "i", "said", "all", "everything"]
)
_FEW_WORDS = 3


def parse_request(value: object, shown: PromptLabels) -> tuple[SourceText, PrivacyRequest]:
    """Return the message that voices a wish in an answer, and the wish.

    Raises:
        Refused: nobody voices it.
    """
    fields = parse_object(value, _REQUEST_FIELDS, _OPTIONAL_REQUEST_FIELDS)
    kind = parse_text(fields["kind"])
    if kind not in REQUEST_KINDS:
        raise InvalidItem("there is no such kind")
    message = labelled_message(fields["message"], shown)
    quote = locate_quote(fields["quote"], message)
    _check_own_request(kind, quoted_sentences(message, quote), message, quote)
    named = _parse_restricted(fields["from"], message, shown)
    if (kind == "withhold") != bool(named):
        raise InvalidItem("it says from whom it is kept where that is not the wish, or does not")
    about = _parse_subject(fields.get("about"), message)
    # More than the wish is said: then that is what it is about.
    tells = (
        len(normalised_words(message.body)) - len(normalised_words(message.body[quote.start : quote.end]))
        > _FEW_WORDS
    )
    is_about_itself = not about and kind != "forget" and tells
    wish = PrivacyRequest(
        kind=kind,
        refers_back=not about and not is_about_itself,
        is_about_itself=is_about_itself,
        subject=about,
        identifiers=_identifiers_in(about, shown) if kind == "forget" else (),
        restricted_ids=named,
    )
    return message, wish


def _check_own_request(kind: str, voiced: list[Sentence], message: SourceText, quote: Quote) -> None:
    words = message.body[quote.start : quote.end]
    if len(message.body) > MAX_REQUEST_LENGTH or not _has_request_words(kind, words):
        raise InvalidItem("its words voice no such wish")
    for one in voiced:
        if patterns.QUESTION.search(one.text) and not patterns.ASKS_FAVOUR.match(one.text):
            raise InvalidItem("it quotes a question or a joke")
        is_put_off = kind == "forget" and (
            patterns.CONDITIONAL.search(one.text) or patterns.NEGATED.search(one.text)
        )
        if patterns.REPORTED_SPEECH.search(one.text) or is_put_off:
            raise InvalidItem("what it quotes is not wished by its author, or not now")


def _has_request_words(kind: str, words: str) -> bool:
    """Return whether words of this kind of wish stand there."""
    if kind == "forget":
        is_rued = _DENYING.search(words) and _REGRET.search(words)
        return bool(_FORGETTING.search(words) or is_rued)
    asked = _OWN_DOING.sub(" ", words)
    is_hidden = kind == "withhold" and _HIDING.search(asked)
    return bool(_CONFIDING.search(words) or _SECRECY.search(asked) or is_hidden)


def _parse_restricted(value: object, message: SourceText, shown: PromptLabels) -> frozenset[ParticipantId]:
    """Return from whom it is to be kept: others who take part, whom the message names."""
    labels = parse_list(value)
    found = [shown.people.get(parse_text(label)) for label in labels[: MOST_NAMED + 1]]
    if any(person is None for person in found) or len(found) > MOST_NAMED:
        raise InvalidItem("it is kept from somebody who is not known there")
    people: list[NamedParticipant] = [person for person in found if person is not None]
    said = set(normalised_words(message.body))
    if not all(person.id != message.author_id and is_person_named(person, said) for person in people):
        raise InvalidItem("it is kept from somebody whom its message does not name")
    return frozenset(person.id for person in people)


def _parse_subject(value: object, message: SourceText) -> str:
    """Return the words of the message that say what the wish is about; nothing where it points back."""
    if value is None or not (words := parse_text(value)) or set(normalised_words(words)) <= _REFERRING_WORDS:
        return ""
    quote = locate_quote(words, message)
    return message.body[quote.start : quote.end]


def _identifiers_in(about: str, shown: PromptLabels) -> tuple[str, ...]:
    """Return what is named that can be told from everything else, but for the people there."""
    called = {
        word
        for person in shown.people.values()
        for name in (person.name, *person.names)
        for word in normalised_words(name)
    }
    named = [
        one for one in proper_names(without_quotations(about)) if called.isdisjoint(normalised_words(one))
    ]
    return tuple(dict.fromkeys([*distinctive_values(about), *named]))


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


def validate_answer(
    answer: str, labels: PromptLabels, *, is_clean: Callable[[str], bool]
) -> list[ValidationResult]:
    """Return what becomes of each statement and wish in an answer, which may be cut short or no JSON at all.

    Args:
        answer: JSON, perhaps with words around it.
        labels: What it was asked of.
        is_clean: Returns whether a text holds no secret.
    """
    return [_validate(part, value, labels, is_clean) for part, value in _parse_items(answer)]


def _validate(
    part: Section, value: object, shown: PromptLabels, is_clean: Callable[[str], bool]
) -> ValidationResult:
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
    return apply_links(
        statement, subjects, shown, **{claim: fields.get(name) for claim, name in claims.items()}
    )


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
        part
        for one in touched
        for part in clauses_of(one)
        if part.start < quote.end and quote.start < part.end
    ]
    if not near or not all(part.is_plain for part in near):
        raise InvalidItem("what it quotes is not plainly stated")
    return near


def _parse_subjects(value: object, shown: PromptLabels) -> list[NamedParticipant]:
    found = [shown.people.get(parse_text(label)) for label in parse_list(value)]
    if any(person is None for person in found):
        raise InvalidItem("it is about somebody who is not known there")
    return [person for person in found if person is not None]


def _check_subjects(
    subjects: Sequence[NamedParticipant], author: NamedParticipant, own: Sequence[Sequence[Clause]]
) -> None:
    """Refuse what is about somebody else than whoever speaks, and whom the words do not name."""
    words = {word for one in own for part in one for word in normalised_words(part.text)}
    if not all(person.id == author.id or is_person_named(person, words) for person in subjects):
        raise InvalidItem("it is about somebody whom its quotes do not name")
