"""What tells statements apart: their words in order, whatever their case, spacing, accents of stress and short forms.

Nor does it matter whether somebody is quoted or spoken of: `Ana: "I prefer tabs"` and "Ana prefers tabs" are one. Tense,
number and whoever merely thinks so do.
"""

import re
import unicodedata
from collections.abc import Sequence
from hashlib import sha256

from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.words import expand_contraction


def _word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


#: Words without which a statement says the same. What turns or bounds it (not, only, never, before) is none of them.
FILLER_WORDS = _word_set(
    "a an the that of so really very just also quite actually basically definitely absolutely simply pretty still now"
    " currently"
)
#: A word, a number with its parts (3.11, 10:30, -5) or something else that says something (emoji, +, #).
_PIECE = lazy_pattern(
    r"[+-]?\d+(?:[.,:/]\d+)*|[\w']+|[^\w\s.,;:!?\"'\u201c\u201d\u201e\u2018\u00ab\u00bb()\[\]*_~`-]",
    re.UNICODE,
)
#: How somebody is quoted who speaks of themselves, as extractors write it; what others report is somebody else's word.
_OF_ONESELF = lazy_pattern(r"(?P<name>[\w.'-]+(?: [\w.'-]+)?): *[\"\u201c]?(?P<self>i|my)(?=[\s'])")
_OF_OTHERS = {"am": "is", "have": "has", "do": "does", "go": "goes"}
#: May stand between "I" and its verb.
_BETWEEN = _word_set(
    "never always usually often sometimes rarely seldom hardly mostly only already finally recently originally"
)
#: Of one form whoever does it: what is past, or can be, or may be either.
_UNBENT = _word_set(
    """
    can could will would shall should may might must was were had did is are has does
    bought sold got won lost became began grew left met made went taught took wrote built ran gave came found learnt fell
    broke chose told spent thought said saw kept held knew spoke drove ate drank
    read put set cut hit let cost quit shut split spread beat bet
    """
)
#: Words in "-ed" that are not past.
_PRESENT = _word_set("need feed speed breed bleed heed weed embed")


def normalised(content: str) -> str:
    """Return the words of a statement that make it what it is, in order, with one space between two.

    Statements of one gist say the same: "Ana really prefers the dark mode.", `Ana: "I prefer dark mode"`.
    """
    plain = unicodedata.normalize("NFKC", content).casefold().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    text = " ".join(plain.split())
    match = _OF_ONESELF.match(text)
    if match is None:
        words = _content_words(text)
    elif match["self"] == "my":
        words = _content_words(f"{match['name']}'s {text[match.end() :]}")
    else:
        words = [*_content_words(match["name"]), *_in_third_person(_content_words(text[match.end() :]))]
    return " ".join([word for word in words if word not in FILLER_WORDS] or words) or text


def digest_of(content: str) -> str:
    """Return what statements of one gist have in common: hex digits that tell nothing of what they say."""
    return sha256(normalised(content).encode()).hexdigest()


def _content_words(text: str) -> list[str]:
    """Return the words of a text but fillers; of nothing but fillers, all of it."""
    found = [word for piece in _PIECE.findall(text) for word in _expand(piece)]
    return [word for word in found if word not in FILLER_WORDS] or found


def _expand(piece: str) -> list[str]:
    """Return the words that a piece is short for, none of which is short for others."""
    full, word = expand_contraction(piece), piece.strip("'")
    if full != piece:
        return [one for part in full.split() for one in _expand(part)]
    if word != piece:
        return [one for part in _PIECE.findall(word) for one in _expand(part)]
    return [word]


def _in_third_person(words: Sequence[str]) -> list[str]:
    """Return what somebody says behind "I" as it is said of them: the verb with its s."""
    place = next((place for place, word in enumerate(words) if word not in _BETWEEN), len(words))
    return [*words[:place], *map(_third_person_verb, words[place : place + 1]), *words[place + 1 :]]


def _third_person_verb(verb: str) -> str:
    if verb in _OF_OTHERS:
        return _OF_OTHERS[verb]
    if not verb.isalpha() or verb in _UNBENT or (verb.endswith("ed") and verb not in _PRESENT):
        return verb
    if verb.endswith(("s", "x", "z", "ch", "sh")):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if verb.endswith("y") and verb[-2:-1] not in "aeiou" else f"{verb}s"
