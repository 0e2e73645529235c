"""Which wishes in a language model's answer are taken: those that somebody voices in their own words.

A wish is its author's, whoever the answer says it is of; what it covers is settled where wishes are. What is asked,
joked, quoted, reported or put off to another time is none, and neither is a sentence without any word of such a wish:
a language model that was talked into it could otherwise silence anybody.
"""

import re
from typing import get_args

from roomlore.domain.ids import ParticipantId
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.statements import NamedParticipant, Quote, SourceText
from roomlore.extraction.languagemodelquotes import (
    InvalidItem,
    PromptLabels,
    parse_object,
    parse_list,
    labelled_message,
    quoted_sentences,
    locate_quote,
    parse_text,
)
from roomlore.extraction.languagemodelwords import is_person_named, normalised_words
from roomlore.extraction.sentences import Sentence
from roomlore.wishes import cues
from roomlore.wishes.marks import proper_names, distinctive_values, without_quotations
from roomlore.wishes.recogniser import MAX_REQUEST_LENGTH
from roomlore.wishes.records import PrivacyRequest, RequestKind

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
_REGRET = lazy_pattern(rf"\b(?:should|ought|wish|mean|meant)(?:n['\u2019]?t)?\b.{{0,40}}\b{_SAYING}", re.IGNORECASE)
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
_REFERRING_WORDS = frozenset(["that", "this", "it", "them", "these", "those", "what", "i", "said", "all", "everything"])
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
    tells = len(normalised_words(message.body)) - len(normalised_words(message.body[quote.start : quote.end])) > _FEW_WORDS
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
        if cues.QUESTION.search(one.text) and not cues.ASKS_FAVOUR.match(one.text):
            raise InvalidItem("it quotes a question or a joke")
        is_put_off = kind == "forget" and (cues.CONDITIONAL.search(one.text) or cues.NEGATED.search(one.text))
        if cues.REPORTED_SPEECH.search(one.text) or is_put_off:
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
    named = [one for one in proper_names(without_quotations(about)) if called.isdisjoint(normalised_words(one))]
    return tuple(dict.fromkeys([*distinctive_values(about), *named]))
