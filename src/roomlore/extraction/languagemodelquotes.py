"""Looks up what a language model quotes: whether it stands there, and as its author's own words."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.speech import safe_text
from roomlore.domain.statements import NamedParticipant, Quote, ExistingMemory, SourceText
from roomlore.extraction.cues import JOKE
from roomlore.extraction.sentences import MASK, Sentence, own_sentences_of

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
    touched = [one for one in own_sentences_of(message.body) if one.start < quote.end and quote.start < one.end]
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
