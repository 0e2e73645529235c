"""Of what a statement about somebody can be the one value: a closed list, the same for rules and language models.

Rules know a slot by the form of a clause. What a language model calls one counts only where the sentence puts it as
the value of that slot, as it is by now: "lives in Porto" is somebody's home, "lived", "will live" and "does not live
in Porto" are not.
"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from roomlore.domain.patterns import sentence_pattern
from roomlore.domain.records import MemoryKind
from roomlore.memories import lexicon

#: What a value can be told as.
ATTRIBUTE_KINDS: frozenset[MemoryKind] = frozenset({"fact", "preference", "correction"})
#: Each favourite of somebody is a slot of its own.
FAVOURITE = "favourite"


def _word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_OWN = "(?:my |her |his |their )?"
_AN = "(?:an? |the )?"
#: What follows somebody's name where it is told, by slot.
_STATED = {
    "home": r"(?:(?:lives?|resides?|(?:am |is )?(?:living|residing|based|located)) in"
    r"|(?:have |has )?(?:moved|relocated) (?:back |over )?(?:from \w+ )?to(?! the \w+ team)) \w(?!.*\b(?:ago|last|in \d))",
    "employer": r"(?:(?:works?|(?:am |is )?working|(?:have |has )?(?:started|began) (?:working|an? (?:new )?job)) (?:at|for|with)"
    r"|(?:employer|company) is) (?!home\b|night\b|the moment\b)\w",
    "job": rf"(?:works? as|(?:am|is|became)(?= an? (?:\w+ ){{0,3}}?(?:{lexicon.JOBS})\b)|(?:job|profession|occupation) is) {_AN}\w",
    "origin": r"(?:am |is |comes? )(?:originally )?from \w",
    "birthplace": rf"(?:was )?born (?:and raised )?in (?!\d|{lexicon.MONTHS})\w",
    "birthday": r"(?:(?:was )?born on|(?:birthday|bday) is(?: on| in)?) \w",
    "age": r"(?:am|is) \d{1,3} years? old|(?:has )?turned \d{1,3}$",
    "time zone": rf"(?:(?:am|is) (?:in|on) {_AN}(?:{lexicon.ZONES})\b|time ?zone is \w)",
    "native language": r"(?:native|first|mother) (?:language|tongue) is \w",
    "diet": rf"(?:am|is|became|went|turned|has (?:been|become|gone)) {_AN}(?:{lexicon.DIETS})$",
    "pronouns": r"(?:uses? (?:he|she|they) /|pronouns are) ?\w",
    "name": r"(?:goes|go) by \w",
}
#: What else somebody has one of; other names of the same behind it.
_THINGS = {
    "editor": ("text editor",),
    "ide": (),
    "shell": (),
    "os": ("operating system",),
    "distro": ("distribution",),
    "browser": (),
    "keyboard layout": (),
    "terminal": (),
    "window manager": (),
    "hometown": ("home town",),
    "blood type": (),
    "star sign": ("zodiac sign",),
    "dentist": (),
    "therapist": (),
    "landlord": (),
    "manager": (),
    "boss": (),
    "major": (),
    "job title": (),
    "nickname": (),
}
#: Written with or without blanks and hyphens.
_NAMES = {name.replace(" ", ""): name for name in (*_STATED, *_THINGS)} | {
    other.replace(" ", ""): name for name, others in _THINGS.items() for other in others
}
#: Says when, or nothing.
_MEANWHILE = _word_set("now currently just recently also still actually finally already really")
_DENYING = _word_set(
    "not no never none nobody nothing neither nor without hardly barely anymore longer until unless if when while before"
    " during almost nearly sometimes occasionally rarely"
)
_FAVOURITE = sentence_pattern(
    rf"{_OWN}(?:all time )?(?P<thing>favou?rite (?:[^\W\d]+ ){{0,2}}?[^\W\d]+) (?:is|are) \w"
)


def _thing(name: str, others: Sequence[str]) -> str:
    called = "|".join((name, *others))
    return (
        rf"(?:{_OWN}(?:new |main |default |daily )?(?:{called}) is (?!\w+(?:ing|ed)\b)\w"
        rf"|uses? \w[\w.+ ]{{0,40}}? as {_OWN}(?:main |default |daily )?(?:{called})$)"
    )


#: How each is told of somebody, in small letters with one blank between words.
ATTRIBUTES: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        name: sentence_pattern(pattern)
        for name, pattern in (
            *_STATED.items(),
            *((name, _thing(name, others)) for name, others in _THINGS.items()),
        )
    }
    | {FAVOURITE: _FAVOURITE}
)


def attribute_named(words: str) -> str:
    """Return the slot that words name: one of the list, or a favourite.

    Raises:
        ValueError: there is no such slot.
    """
    name = " ".join(words.lower().replace("-", " ").replace("favorite", FAVOURITE).split())
    favourite = name.removeprefix("all time ")
    found = favourite if favourite.startswith(f"{FAVOURITE} ") else _NAMES.get(name.replace(" ", ""))
    if found is None:
        raise ValueError(words)
    return found


def attribute_stated(slot: str, kind: MemoryKind, words: Sequence[str]) -> str | None:
    """Return the slot whose value a sentence tells of somebody, if it is the one that was claimed; else None.

    Args:
        slot: What was claimed.
        kind: Of the statement.
        words: The sentence behind the name of whom it is about, in small letters.
    """
    pattern = ATTRIBUTES.get(slot)
    if pattern is None or kind not in ATTRIBUTE_KINDS or not _DENYING.isdisjoint(words):
        return None
    match = pattern.match(" ".join(word for word in words if word not in _MEANWHILE))
    if match is None:
        return None
    return attribute_named(match["thing"]) if slot == FAVOURITE else slot
