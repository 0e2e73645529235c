"""Which wishes in a language model's answer are taken: those that somebody voices in their own words.

A wish is its author's, whoever the answer says it is of; what it covers is settled where wishes are. What is asked,
joked, quoted, reported or put off to another time is none, and neither is a sentence without any word of such a wish:
a language model that was talked into it could otherwise silence anybody.
"""

import re
from typing import get_args

from roomlore.domain.ids import ParticipantId
from roomlore.domain.patterns import later
from roomlore.domain.statements import Person, Quote, Spoken
from roomlore.extraction.languagemodelquotes import (
    Refused,
    Shown,
    fields_of,
    list_of,
    message_of,
    own_sentences,
    quote_of,
    text_of,
)
from roomlore.extraction.languagemodelwords import is_named, words_of
from roomlore.extraction.sentences import Sentence
from roomlore.wishes import cues
from roomlore.wishes.marks import names, strong_values, unquoted
from roomlore.wishes.recogniser import LONGEST
from roomlore.wishes.records import Wish, WishKind

#: In one answer; what is beyond is not looked at.
MOST_WISHES = 6
MOST_NAMED = 6
KINDS: tuple[WishKind, ...] = get_args(WishKind)

_NEEDED = frozenset({"message", "kind", "quote", "from"})
_OPTIONAL = frozenset({"about"})
_NO = r"(?:n['\u2019]?t|\b(?:not|no|never|nothing|without|neither|nor))\b"
_SAYING = r"(?:said|told|written|wrote|posted|shared|mentioned|shown|typed|sent|say|tell|write|post|share|mention)\b"
_HERE = r"(?:this|the|these) (?:room|chat|channel|group|walls|house|family|circle|team)"
_ELSE = r"(?:nobody|no one|anybody|anyone|others|a soul|people)(?: else)?"
#: By beginnings; also of languages that rules do not hear.
_FORGETTING = later(
    r"(?<!\bi )\bforget|\b(?:delet|remov|eras(?:e|ing|ure)|purg(?:e|ing)|wip(?:e|ing)|scrub|redact|unsee|unsay|pretend"
    r"|strike (?:that|this|it|my|what|from)|slip(?:s|ped)? out|tak(?:e|ing) (?:that|this|it) back"
    r"|out of (?:the|your) (?:records?|notes|minutes|logs?|memory)|you (?:never|did(?:n['\u2019]?t| not)) (?:hear|see|saw|read)"
    "|vergiss|vergess|lösch|entfern|oubli|effac|supprim|olvid|borr(?!ow)|elimin|dimentic|cancella(?:re|te|lo|mi)?\\b"
    "|esque[çc]|apag|vergeet|verwijder)",
    re.IGNORECASE,
)
#: With a no: what should not have been said.
_RUEING = later(rf"\b(?:should|ought|wish|mean|meant)(?:n['\u2019]?t)?\b.{{0,40}}\b{_SAYING}", re.IGNORECASE)
#: What is kept to oneself, and is no dog.
_THAT = r"(?:this|that|it|these|those|them|all|everything|what)"
_CONFIDING = later(
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
_HUSHING = later(
    rf"{_NO}\s+(?!need to\b)(?:\S+\s+){{0,4}}?"
    r"(?:tell|told|say|mention|repeat|shar|spread|pass|breath|discuss|quot|show|hear|learn|word\b)",
    re.IGNORECASE,
)
#: The same from somebody who is named.
_HIDING = later(
    rf"{_NO}\s+(?:\S+\s+){{0,4}}?(?:know|see|find|let|read|get|receiv)",
    re.IGNORECASE,
)
_DENYING = later(_NO, re.IGNORECASE)
#: What somebody does not do themselves is nothing that they ask of others.
_OWN_DOING = later(
    r"\b(?:i|we|he|she|they|it)\s+(?:(?:do|did|does|have|has|had|can|could)\s*)?(?:n['\u2019]?t|not|never)\b"
    r"(?!\s+(?:want|wish|like)\b)",
    re.IGNORECASE,
)
#: Stands for what was said just before, and names nothing.
_BACK = frozenset(["that", "this", "it", "them", "these", "those", "what", "i", "said", "all", "everything"])
_FEW_WORDS = 3


def wish_of(value: object, shown: Shown) -> tuple[Spoken, Wish]:
    """Return the message that voices a wish in an answer, and the wish.

    Raises:
        Refused: nobody voices it.
    """
    fields = fields_of(value, _NEEDED, _OPTIONAL)
    kind = text_of(fields["kind"])
    if kind not in KINDS:
        raise Refused("there is no such kind")
    message = message_of(fields["message"], shown)
    quote = quote_of(fields["quote"], message)
    _check_voiced(kind, own_sentences(message, quote), message, quote)
    named = _named(fields["from"], message, shown)
    if (kind == "withhold") != bool(named):
        raise Refused("it says from whom it is kept where that is not the wish, or does not")
    about = _about(fields.get("about"), message)
    # More than the wish is said: then that is what it is about.
    tells = len(words_of(message.body)) - len(words_of(message.body[quote.start : quote.end])) > _FEW_WORDS
    is_about_itself = not about and kind != "forget" and tells
    wish = Wish(
        kind=kind,
        points_back=not about and not is_about_itself,
        is_about_itself=is_about_itself,
        topic=about,
        values=_values(about, shown) if kind == "forget" else (),
        party_ids=named,
    )
    return message, wish


def _check_voiced(kind: str, voiced: list[Sentence], message: Spoken, quote: Quote) -> None:
    words = message.body[quote.start : quote.end]
    if len(message.body) > LONGEST or not _is_wishing(kind, words):
        raise Refused("its words voice no such wish")
    for one in voiced:
        if cues.ASKS.search(one.text) and not cues.ASKS_SOMEBODY.match(one.text):
            raise Refused("it quotes a question or a joke")
        is_put_off = kind == "forget" and (cues.NOT_YET.search(one.text) or cues.DENIED.search(one.text))
        if cues.REPORTED.search(one.text) or is_put_off:
            raise Refused("what it quotes is not wished by its author, or not now")


def _is_wishing(kind: str, words: str) -> bool:
    """Return whether words of this kind of wish stand there."""
    if kind == "forget":
        is_rued = _DENYING.search(words) and _RUEING.search(words)
        return bool(_FORGETTING.search(words) or is_rued)
    asked = _OWN_DOING.sub(" ", words)
    is_hidden = kind == "withhold" and _HIDING.search(asked)
    return bool(_CONFIDING.search(words) or _HUSHING.search(asked) or is_hidden)


def _named(value: object, message: Spoken, shown: Shown) -> frozenset[ParticipantId]:
    """Return from whom it is to be kept: others who take part, whom the message names."""
    labels = list_of(value)
    found = [shown.people.get(text_of(label)) for label in labels[: MOST_NAMED + 1]]
    if any(person is None for person in found) or len(found) > MOST_NAMED:
        raise Refused("it is kept from somebody who is not known there")
    people: list[Person] = [person for person in found if person is not None]
    said = set(words_of(message.body))
    if not all(person.id != message.author_id and is_named(person, said) for person in people):
        raise Refused("it is kept from somebody whom its message does not name")
    return frozenset(person.id for person in people)


def _about(value: object, message: Spoken) -> str:
    """Return the words of the message that say what the wish is about; nothing where it points back."""
    if value is None or not (words := text_of(value)) or set(words_of(words)) <= _BACK:
        return ""
    quote = quote_of(words, message)
    return message.body[quote.start : quote.end]


def _values(about: str, shown: Shown) -> tuple[str, ...]:
    """Return what is named that can be told from everything else, but for the people there."""
    called = {
        word
        for person in shown.people.values()
        for name in (person.name, *person.names)
        for word in words_of(name)
    }
    named = [one for one in names(unquoted(about)) if called.isdisjoint(words_of(one))]
    return tuple(dict.fromkeys([*strong_values(about), *named]))
