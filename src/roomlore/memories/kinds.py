"""The kinds of memories, and the attributes that have one value at a time.

Importance is on a scale of 1 to 5. For the four kinds of agents' experiences, it comes from the literature on agent
memory, which uses 0..1; those values are multiplied by five. Where the literature gives a range, the middle of the
range is used.
"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from roomlore.domain.patterns import sentence_pattern
from roomlore.domain.records import MemoryKind
from roomlore.memories import lexicon

#: The default importance of each kind.
DEFAULT_IMPORTANCE: Mapping[MemoryKind, float] = MappingProxyType(
    {
        "technical_decision": 4.0,  # what was chosen to build with, and how it is built
        "process_decision": 4.0,  # what a group decided to do: when, who, where, how
        "preference": 3.0,  # what somebody likes, avoids or wants done their way
        "fact": 3.0,  # what is true of a person or a thing until it changes
        "lesson": 4.0,  # what was learned from experience
        "pattern": 3.5,  # what to do each time: a rule, a convention
        "anti_pattern": 3.5,  # what to avoid or never do
        "correction": 3.5,  # what was wrong before, and what is right
        "process_outcome": 3.0,  # how something ended: shipped, won, failed
        "context": 2.0,  # what is true for now: current work, promises
        "observation": 2.5,  # what an agent noticed
        "interaction": 2.75,  # what an agent and somebody said to each other
        "learning": 3.75,  # what an agent learned and can use again
        "insight": 4.5,  # what an agent concluded from many observations
    }
)
#: Tags a `context` memory that is a promise.
COMMITMENT_TAG = "commitment"
#: Tags a memory that an agent stated about itself.
AGENT_TAG = "agent"

# Attributes. Rules know the attribute from the form of a clause. An attribute that a language model names is accepted
# only if the sentence states its present value: "lives in Porto" states a home; "lived", "will live" and "does not live
# in Porto" do not.

#: The kinds that may state the value of an attribute.
ATTRIBUTE_KINDS: frozenset[MemoryKind] = frozenset({"fact", "preference", "correction"})
#: Each favourite is an attribute of its own.
FAVOURITE = "favourite"


_OWN = "(?:my |her |his |their )?"
_AN = "(?:an? |the )?"
#: For each attribute, the words after a person's name that state its value.
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
#: Other names of attributes.
_SYNONYMS = {
    "editor": "text editor",
    "os": "operating system",
    "distro": "distribution",
    "hometown": "home town",
    "star sign": "zodiac sign",
}
_THINGS = (
    *(
        "editor",
        "ide",
        "shell",
        "os",
        "distro",
        "browser",
        "keyboard layout",
        "terminal",
        "window manager",
        "hometown",
    ),
    *(
        "blood type",
        "star sign",
        "dentist",
        "therapist",
        "landlord",
        "manager",
        "boss",
        "major",
        "job title",
        "nickname",
    ),
)
#: Every attribute by its name without blanks and hyphens.
_NAMES = {name.replace(" ", ""): name for name in (*_STATED, *_THINGS)} | {
    synonym.replace(" ", ""): name for name, synonym in _SYNONYMS.items()
}
#: Words between a name and a verb that do not change the statement.
_MEANWHILE = frozenset(
    """
    now currently just recently also still actually finally already really
    """.split()
)
_DENYING = frozenset(
    """
    not no never none nobody nothing neither nor without hardly barely anymore longer until unless if when
    while before during almost nearly sometimes occasionally rarely
    """.split()
)
_FAVOURITE = sentence_pattern(
    rf"{_OWN}(?:all time )?(?P<thing>favou?rite (?:[^\W\d]+ ){{0,2}}?[^\W\d]+) (?:is|are) \w"
)


def _thing(name: str) -> str:
    called = f"{name}|{_SYNONYMS[name]}" if name in _SYNONYMS else name
    return (
        rf"(?:{_OWN}(?:new |main |default |daily )?(?:{called}) is (?!\w+(?:ing|ed)\b)\w"
        rf"|uses? \w[\w.+ ]{{0,40}}? as {_OWN}(?:main |default |daily )?(?:{called})$)"
    )


#: For each attribute a pattern of the words that state its value, in lower case with one blank between words.
ATTRIBUTES: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        name: sentence_pattern(pattern)
        for name, pattern in (*_STATED.items(), *((name, _thing(name)) for name in _THINGS))
    }
    | {FAVOURITE: _FAVOURITE}
)


def attribute_named(words: str) -> str:
    """Return the attribute that a text names: an attribute of the list, or a favourite.

    Raises:
        ValueError: There is no such attribute.
    """
    name = " ".join(words.lower().replace("-", " ").replace("favorite", FAVOURITE).split())
    favourite = name.removeprefix("all time ")
    found = favourite if favourite.startswith(f"{FAVOURITE} ") else _NAMES.get(name.replace(" ", ""))
    if found is None:
        raise ValueError(words)
    return found


def attribute_stated(attribute: str, kind: MemoryKind, words: Sequence[str]) -> str | None:
    """Return the attribute if a sentence states its present value, otherwise None.

    `words` are the words of the sentence after the name of its subject, in lower case.
    """
    pattern = ATTRIBUTES.get(attribute)
    if pattern is None or kind not in ATTRIBUTE_KINDS or not _DENYING.isdisjoint(words):
        return None
    match = pattern.match(" ".join(word for word in words if word not in _MEANWHILE))
    if match is None:
        return None
    return attribute_named(match["thing"]) if attribute == FAVOURITE else attribute
