"""Reads tables of forms: each a pattern of one clause, what it tells, and what its words must be besides."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from roomlore.domain.patterns import sentence_pattern
from roomlore.domain.records import MemoryKind
from roomlore.extraction import lexicon
from roomlore.extraction.cues import phrase_pattern, is_temporary, is_unresolved_reference
from roomlore.extraction.slots import attribute_named

TextMatch = re.Match[str]
Head = Literal["i", "my", "we", "call"]
#: Of a form that leaves the name of its slot to the words.
_NAMED_IN_TEXT = "thing"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstPersonForm:
    """A way of saying something about oneself."""

    pattern: re.Pattern[str]
    #: With which word it begins.
    head: Head
    kind: MemoryKind
    confidence: float
    slot: str | None
    tag: str | None
    #: Whether the words that a match names are what the form needs.
    check: Callable[[TextMatch], bool]
    #: Whether it tells what happened, once and for good, and not what is so, maybe for the day.
    is_event: bool

    def matches(self, match: TextMatch) -> bool:
        """Return whether a match tells what lasts."""
        return (self.is_event or not is_temporary(match.string)) and self.check(match)

    def slot_of(self, match: TextMatch) -> str | None:
        """Return of what it tells the one value; a form may leave the name of it to the words, as `thing`."""
        return attribute_named(match["thing"]) if self.slot == _NAMED_IN_TEXT else self.slot


# What words must be


def _is_any(_: TextMatch) -> bool:
    return True


def _names_it(match: TextMatch) -> bool:
    """Return whether what is spoken of is said, and not only pointed at."""
    return not is_unresolved_reference(match["what"])


_WORD_END = sentence_pattern(r"[\s.,!]")
_KIND_OF_PLACE = sentence_pattern(
    r"(?:an?|the) (?:\w+ ){0,2}(?:village|city|town|suburbs?|countryside|farm|house|flat|apartment|country|mountains"
    r"|north|south|east|west|island|coast|cabin|hostel|dorm|studio|uk|us|usa|netherlands|bay area)\b",
    re.IGNORECASE,
)
_TECHNICAL = sentence_pattern(rf"(?i)(?:{lexicon.TECHNICAL})(?!\w)")
#: Those who write all in small letters write names so too.
_SMALL_NAME = sentence_pattern(r"[a-z]{3,}(?:,? [a-z]{3,})?\W*$")


def _is_place(match: TextMatch) -> bool:
    """Return whether what follows can be a place: a name, or a kind of place."""
    where = match["where"].strip()
    first = _WORD_END.split(where, maxsplit=1)[0]
    if first.lower() in lexicon.NOT_A_PLACE or is_unresolved_reference(where):
        return False
    small = match.string == match.string.lower() and _SMALL_NAME.match(where)
    if _TECHNICAL.match(where):
        return False
    return bool(first[:1].isupper() or _KIND_OF_PLACE.match(where) or small)


_NO_EMPLOYER = sentence_pattern(
    r"(?:the (?:moment|office|time|same|end|weekend|problem|issue|bug|code)|home|night|least|work|all|once|times"
    r"|my (?:own|desk|best)|a (?:time|distance|different|solution|fix|while)|free|food|peanuts|pay|tips|myself|money|fun|now|\w+ing|\d\w*)\b",
    re.IGNORECASE,
)
_ARTICLE = sentence_pattern(r"(?:an?|the|my|our) \w", re.IGNORECASE)


def _is_employer(match: TextMatch) -> bool:
    where = match["where"].strip()
    if is_unresolved_reference(where) or _NO_EMPLOYER.match(where):
        return False
    return bool(where[:1].isupper() or _ARTICLE.match(where) or match.string == match.string.lower())


_SHORTEST = 2
_LETTERS = sentence_pattern(r"[^\W\d_]{2}")
#: Points at what is just being spoken of.
_POINTING = sentence_pattern(
    r"\b(?:like|this|these|those|here|him|her|he|she|they|them|it|you|your|yours|whatever|(?:to|of|in|with|for|at|about) that)\b",
    re.IGNORECASE,
)
_FINITE = sentence_pattern(
    r"(?i)\b(?:is|are|was|were|has|does|will|works|(?:is|are|was|does|will|has|can)n['\u2019]?t)\b"
)
_RELATIVE = sentence_pattern(
    r"(?i)\b(?:that|which|who|whose|what|whatever|how|when|where|than|as|if|because|while|until)\b"
)
#: What is liked here and now, or no thing that can be liked.
_OF_THE_MOMENT = sentence_pattern(
    r"(?:the|my|our)\b(?! (?-i:[A-Z]))|an? (?:bit|lot|good|nice|little)\b|having to\b|being\b|to (?:know|think)\b"
    r"|(?:and|or|but|too|as|in|on|at|for|from|with|by|put|get|make|go|do|have|to be an?)\b|\W",
    re.IGNORECASE,
)


#: Whoever says that they love these does not.
_PLEASED = sentence_pattern(r"(?i)\b(?:love|adore|enjoy|like)\s+$")
_NUISANCE = sentence_pattern(rf"(?i)(?:{lexicon.NUISANCES})\b")


def _is_self_contained(match: TextMatch) -> bool:
    """Return whether what is liked is named without pointing."""
    what = match["what"]
    if not (_names_it(match) and _LETTERS.search(what)) or _POINTING.search(what):
        return False
    verb = _FINITE.search(what)
    # A verb of its own belongs to another sentence, unless a word joins it to what is liked.
    return not verb or bool(_RELATIVE.search(what, 0, verb.start()))


def _is_lasting(match: TextMatch) -> bool:
    """Return whether what is liked can be told apart from what is just being spoken of."""
    what = match["what"]
    is_meant = not (_PLEASED.search(match.string, 0, match.start("what")) and _NUISANCE.match(what))
    return _is_self_contained(match) and is_meant and not _OF_THE_MOMENT.match(what) and len(what) > _SHORTEST


_LONGEST_STEM = 4


def _is_permanent(match: TextMatch) -> bool:
    """Return whether what something is said to be is what it is, not how it does at the moment."""
    value = match["value"].strip()
    word = _WORD_END.split(value.lower(), maxsplit=1)[0]
    is_doing = word.endswith(("ing", "ed")) and len(word) > _LONGEST_STEM
    return not (is_unresolved_reference(value) or word in lexicon.MOMENTARY or is_doing)


def _is_work(match: TextMatch) -> bool:
    """Return whether a job is named, which may be doing something."""
    value = match["value"].strip()
    return not is_unresolved_reference(value) and value.split(" ", 1)[0].lower() not in lexicon.MOMENTARY | {"killing", "done"}


_NO_FAVOURITE = sentence_pattern(
    r"(?i)\b(?:part|ones?|thing|memory|moment|time|bit|is|are|to|of|there|here|so|far)\b"
)


def _is_favourite(match: TextMatch) -> bool:
    return _is_permanent(match) and not _NO_FAVOURITE.search(match["thing"])


_DATE = sentence_pattern(rf"(?i)\b(?:{lexicon.MONTHS})\b|\d[./-]\d")


_NO_ALLERGEN = sentence_pattern(rf"(?i)(?:{lexicon.NO_ALLERGENS})\b")


def _is_allergen(match: TextMatch) -> bool:
    return _names_it(match) and not _NO_ALLERGEN.match(match["what"])


def _is_date(match: TextMatch) -> bool:
    return bool(_DATE.search(match["when"]))


_CHECKS: Mapping[str, Callable[[TextMatch], bool]] = {
    "any": _is_any,
    "named": _names_it,
    "place": _is_place,
    "employer": _is_employer,
    "general": _is_self_contained,
    "lasting": _is_lasting,
    "standing": _is_permanent,
    "work": _is_work,
    "favourite": _is_favourite,
    "allergen": _is_allergen,
    "date": _is_date,
}

# Tables

_PARTS: Mapping[str, str] = {
    "name": "(?-i:[A-Z])",
    "some": r"(?:an?|the|one|two|three|four|five|six|seven|eight|nine|ten|1?\d|several|twin|our (?:first|second))",
    "have": r"(?:i have|i've got|i've)",
    "quite": r"(?:(?:really|much|strongly|generally|usually|always|personally|totally|absolutely|definitely|actually"
    r"|still|just|also|mostly|often|now|currently) )*",
    "just": r"(?:(?:just|recently|finally|also|have|already|actually|'ve) )*",
    "end": r"(?=\W*$|[,;.!(]| (?:at|for|in|from|by|with|who|and|on|of|here|these|now|since|based|too|myself|working)\b)",
    "often": r"(?:(?:every|each) (?:other |single )?(?:day|morning|evening|night|week|weekend|month|year|summer|winter"
    r"|spring|autumn|fall|(?:mon|tues|wednes|thurs|fri|satur|sun)day)s?|on (?:mon|tues|wednes|thurs|fri|satur|sun)days"
    r"|on weekends|(?:once|twice|three times) an? (?:week|month|day|year))",
    "dated": rf"(?:yesterday|last (?:\w+ )?(?:night|week|weekend|month|year|summer|winter|spring|autumn|fall|\w+day|{lexicon.MONTHS})"
    rf"|this past \w+|(?:a|two|three|few|\d+) (?:days|weeks|months|years) ago|on \w+day|in (?:{lexicon.MONTHS}|\d{{4}}))",
    "job": lexicon.JOBS,
    "relative": lexicon.RELATIVES,
    "animal": lexicon.ANIMALS,
    "condition": lexicon.CONDITIONS,
    "diet": lexicon.DIETS,
    "language": lexicon.LANGUAGES,
    "zone": lexicon.ZONES,
    "tool": lexicon.TOOLS,
    "belonging": lexicon.BELONGINGS,
    "pastime": lexicon.PASTIMES,
}


def parse_forms(kind: MemoryKind, confidence: float, table: str) -> tuple[FirstPersonForm, ...]:
    """Return the forms of a table, one a line: slot, tag, check, pattern; "-" is none, <word> a part.

    In a pattern a blank is any blanks and an apostrophe may be missing.
    """
    return tuple(_parse_form(kind, confidence, line.split(None, 3)) for line in table.strip().splitlines())


def _parse_form(kind: MemoryKind, confidence: float, columns: list[str]) -> FirstPersonForm:
    slot, tag, check, pattern = columns
    return FirstPersonForm(
        pattern=phrase_pattern(pattern, _PARTS),
        head=_first_word(pattern),
        kind=kind,
        confidence=confidence,
        slot=None if slot == "-" else _NAMED_IN_TEXT if slot == _NAMED_IN_TEXT else attribute_named(slot.replace("_", " ")),
        tag=None if tag == "-" else tag,
        check=_CHECKS[check],
        is_event="<just>" in pattern,
    )


def _first_word(pattern: str) -> Head:
    if "call me" in pattern:
        return "call"
    if pattern.startswith("my "):
        return "my"
    return "we" if pattern.startswith("we") else "i"
