"""Which wishes in a language model's answer are taken: those that somebody voices in their own words.

A wish is its author's, whoever the answer says it is of; what it covers is settled where wishes are. What is asked,
joked, quoted, reported or put off to another time is none, and neither is a sentence without any word of wishing:
a language model that was talked into it could otherwise silence anybody.
"""

import re
from typing import get_args

from roomlore.domain.ids import ParticipantId
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
#: One of these stands in whatever is wished, by beginnings; also of languages that rules do not hear.
_WISHING = re.compile(
    r"\b(?:forget|forgot|delet|remov|eras|purg|wip(?:e|ing)|scrub|redact|strike|unsee|unsay|pretend|secret|confid|privat|hush"
    r"|slip|record\b|between|yoursel|oursel|among us|out of (?:here|this|the room)|stays? (?:here|with|in)|leaves? (?:here|this)"
    r"|take (?:that|it|this) back|(?:anyone|anybody|nobody|no one|others|a soul)\b|keep (?:this|that|it)|quiet"
    "|vergiss|vergess|lösch|entfern|unter uns|vertraul|geheim|behalt|oubli|effac|supprim|entre nous|olvid|borr|elimin"
    r"|entre nosotros|dimentic|cancell|tra noi|segret|esque[çc]|apag|entre nós|segred|vergeet|verwijder|onder ons)",
    re.IGNORECASE,
)
#: Or one of these, and a no.
_TELLING = re.compile(
    r"\b(?:tell|told|say|said|mention|repeat|shar|spread|pass|show|hear|learn|find|know|see|let|word|breath|discuss|quot)",
    re.IGNORECASE,
)
_DENYING = re.compile(r"n['\u2019]?t\b|\b(?:not|no|never|nothing|without|neither|nor)\b", re.IGNORECASE)
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
    is_wishing = _WISHING.search(words) or (_TELLING.search(words) and _DENYING.search(words))
    if len(message.body) > LONGEST or not is_wishing:
        raise Refused("its words voice no wish")
    for one in voiced:
        if cues.ASKS.search(one.text) and not cues.ASKS_SOMEBODY.match(one.text):
            raise Refused("it quotes a question or a joke")
        is_put_off = kind == "forget" and (cues.NOT_YET.search(one.text) or cues.DENIED.search(one.text))
        if cues.REPORTED.search(one.text) or is_put_off:
            raise Refused("what it quotes is not wished by its author, or not now")


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
