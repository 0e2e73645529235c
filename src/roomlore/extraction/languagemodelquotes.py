"""Looks up what a language model quotes: whether it stands there, and as its author's own words."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from roomlore.domain.patterns import later
from roomlore.domain.speech import safe_text
from roomlore.domain.statements import Person, Quote, Remembered, Spoken
from roomlore.extraction.cues import JOKING
from roomlore.extraction.sentences import COVER, Sentence, sentences

LONGEST_WORDS = 600
SHORTEST_QUOTE = 4

#: Markup, links and addresses; what a renderer or a shell might take for more than words.
_MARKUP = later(
    r"[<>{}\[\]|\\`~^]|://|\bwww\.|^\W*#|\*\*|__|&#?\w+;|\b(?:javascript|data|mailto)\s*:", re.IGNORECASE
)
#: Words to a language model that will read the memory one day.
_INSTRUCTION = later(
    r"(?m:^(?>.*?\b(?:ignore|disregard|forget|override|bypass)\b)"
    r".*\b(?:instructions?|rules?|prompts?|above|previous|prior|everything)\b)"
    r"|\b(?:system|developer)\s+(?:prompt|message|override|note)\b|^\W*(?:system|assistant|user|developer|tool)\s*:"
    r"|\byou\s+(?:are\s+now|must|shall|should)\b|\bact\s+as\b|\bjailbreak\b",
    re.IGNORECASE,
)
_WORD = later(r"\w")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a language model was shown, by label."""

    messages: Mapping[str, Spoken]
    people: Mapping[str, Person]
    #: What is remembered already of the same people for the same people.
    remembered: Mapping[str, Remembered] = field(default_factory=dict[str, Remembered])


class Refused(Exception):
    """Why something in an answer is not taken, in one phrase that quotes nobody."""


def fields_of(
    value: object, needed: frozenset[str], optional: frozenset[str] = frozenset()
) -> Mapping[str, object]:
    """Return the fields of an object, if they are those that were asked for.

    Raises:
        Refused: they are others.
    """
    fields = cast("Mapping[str, object]", value) if isinstance(value, dict) else dict[str, object]()
    if not needed <= fields.keys() <= needed | optional:
        raise Refused("it has not the fields that were asked for")
    return fields


def text_of(value: object) -> str:
    """Return a text without the blanks around it.

    Raises:
        Refused: it is none.
    """
    if not isinstance(value, str):
        raise Refused("it has not the fields that were asked for")
    return value.strip()


def list_of(value: object) -> Sequence[object]:
    """Return a list.

    Raises:
        Refused: it is none.
    """
    if not isinstance(value, list):
        raise Refused("it has not the fields that were asked for")
    return cast("list[object]", value)


def check_plain(text: str, is_clean: Callable[[str], bool], *, longest: int) -> None:
    """Refuse what is more than one short line of words.

    Raises:
        Refused: it is longer, or holds markup, an order or a secret.
    """
    is_words = 0 < len(text) <= longest and text.isprintable() and _WORD.search(text) is not None
    if not is_words or _MARKUP.search(text) or "?" in text or safe_text(text) != text:
        raise Refused("it is more than plain words")
    if _INSTRUCTION.search(text):
        raise Refused("it tells somebody what to do")
    if not is_clean(text):
        raise Refused("there is a secret in it")


def message_of(label: object, shown: Shown) -> Spoken:
    """Return the message that has a label.

    Raises:
        Refused: none has that was shown.
    """
    message = shown.messages.get(text_of(label))
    if message is None:
        raise Refused("it quotes a message that was not shown")
    return message


def quote_of(words: object, message: Spoken) -> Quote:
    """Return where words stand in a message.

    Raises:
        Refused: they do not.
    """
    span = _found(text_of(words), message.body)
    if span is None:
        raise Refused("what it quotes does not stand there")
    return Quote(message_id=message.message_id, start=span[0], end=span[1])


def _found(words: str, body: str) -> tuple[int, int] | None:
    """Return where words stand in a body, whatever their case and blanks; whole words only."""
    parts = words.strip(" .…\"'“”").split()
    if not parts or sum(map(len, parts)) < SHORTEST_QUOTE or len(words) > LONGEST_WORDS:
        return None
    pattern = r"(?<!\w)" + r"\s+".join(map(re.escape, parts)) + r"(?!\w)"
    match = later(pattern, re.IGNORECASE).search(body)
    return None if match is None else match.span()


def own_sentences(message: Spoken, quote: Quote) -> list[Sentence]:
    """Return the sentences that a quote is of, if they are the author's own and no joke.

    Raises:
        Refused: they are not.
    """
    if message.author_kind != "human" or message.kind not in {"message", "whisper"}:
        raise Refused("it quotes what nobody said of themselves")
    touched = [one for one in sentences(message.body) if one.start < quote.end and quote.start < one.end]
    covered = sum(
        not letter.isspace() and letter != COVER
        for one in touched
        for letter in one.text[max(quote.start - one.start, 0) : max(quote.end - one.start, 0)]
    )
    if covered < sum(not letter.isspace() for letter in message.body[quote.start : quote.end]):
        raise Refused("it quotes what is a quotation there")
    if any(JOKING.search(one.text) for one in touched):
        raise Refused("it quotes a question or a joke")
    return touched
