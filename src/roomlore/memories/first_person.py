"""Recognises what people state about themselves, and about others by name.

A statement about another person is rewritten in the first person and then matched against the same table of forms.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

from roomlore.domain.claims import NamedParticipant
from roomlore.domain.patterns import MAX_SENTENCE_LENGTH, sentence_pattern
from roomlore.domain.records import MemoryKind
from roomlore.memories import lexicon
from roomlore.memories.kinds import attribute_named
from roomlore.memories.patterns import CORRECTION_PREFIX, is_temporary, is_unresolved_reference
from roomlore.text.recognisers import phrase_pattern

TextMatch = re.Match[str]
Head = Literal["i", "my", "we", "call"]
#: In a table, this means that the words of the clause name the attribute.
_NAMED_IN_TEXT = "thing"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstPersonForm:
    """One form of a statement about oneself, for example "I live in <place>"."""

    pattern: re.Pattern[str]
    #: The first word of the form.
    head: Head
    kind: MemoryKind
    confidence: float
    attribute: str | None
    tag: str | None
    #: Decides from the named groups of a match whether it is a valid statement.
    check: Callable[[TextMatch], bool]
    #: Whether the form states an event. A statement of another form is rejected if it is temporary.
    is_event: bool

    def matches(self, match: TextMatch) -> bool:
        """Return whether a match is a valid statement. Unless it states an event, it must also be lasting."""
        return (self.is_event or not is_temporary(match.string)) and self.check(match)


# What words must be


def _names_it(match: TextMatch) -> bool:
    """Return whether the captured words name something and do not only refer to it."""
    return not is_unresolved_reference(match["what"])


_WORD_END = sentence_pattern(r"[\s.,!]")
_KIND_OF_PLACE = sentence_pattern(
    r"(?:an?|the) (?:\w+ ){0,2}(?:village|city|town|suburbs?|countryside|farm|house|flat|apartment|country|mountains"
    r"|north|south|east|west|island|coast|cabin|hostel|dorm|studio|uk|us|usa|netherlands|bay area)\b",
    re.IGNORECASE,
)
_TECHNICAL = sentence_pattern(rf"(?i)(?:{lexicon.TECHNICAL})(?!\w)")
#: A place name in a text that is all lower case.
_SMALL_NAME = sentence_pattern(r"[a-z]{3,}(?:,? [a-z]{3,})?\W*$")


def _is_place(match: TextMatch) -> bool:
    """Return whether the words name a place or a kind of place."""
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
#: Words that refer to the current topic.
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
#: Objects that somebody likes only at this moment, or that cannot be liked.
_OF_THE_MOMENT = sentence_pattern(
    r"(?:the|my|our)\b(?! (?-i:[A-Z]))|an? (?:bit|lot|good|nice|little)\b|having to\b|being\b|to (?:know|think)\b"
    r"|(?:and|or|but|too|as|in|on|at|for|from|with|by|put|get|make|go|do|have|to be an?)\b|\W",
    re.IGNORECASE,
)


#: Verbs of liking before a nuisance ("I love traffic jams") are irony.
_PLEASED = sentence_pattern(r"(?i)\b(?:love|adore|enjoy|like)\s+$")
_NUISANCE = sentence_pattern(rf"(?i)(?:{lexicon.NUISANCES})\b")


def _is_self_contained(match: TextMatch) -> bool:
    """Return whether the object of a preference can be understood without its context."""
    what = match["what"]
    if not (_names_it(match) and _LETTERS.search(what)) or _POINTING.search(what):
        return False
    verb = _FINITE.search(what)
    # A finite verb belongs to another sentence, unless a relative word before it connects it.
    return not verb or bool(_RELATIVE.search(what, 0, verb.start()))


def _is_lasting(match: TextMatch) -> bool:
    """Return whether the object of a preference is meant seriously and is not just the current topic."""
    what = match["what"]
    is_meant = not (_PLEASED.search(match.string, 0, match.start("what")) and _NUISANCE.match(what))
    return _is_self_contained(match) and is_meant and not _OF_THE_MOMENT.match(what) and len(what) > _SHORTEST


_LONGEST_STEM = 4


def _is_permanent(match: TextMatch) -> bool:
    """Return whether a value is lasting and not a passing state."""
    value = match["value"].strip()
    word = _WORD_END.split(value.lower(), maxsplit=1)[0]
    is_doing = word.endswith(("ing", "ed")) and len(word) > _LONGEST_STEM
    return not (is_unresolved_reference(value) or word in lexicon.MOMENTARY or is_doing)


def _is_work(match: TextMatch) -> bool:
    """Return whether the captured words name a job. Unlike other values, a job may end in -ing."""
    value = match["value"].strip()
    return not is_unresolved_reference(value) and value.split(" ", 1)[0].lower() not in lexicon.MOMENTARY | {
        "killing",
        "done",
    }


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
    "any": bool,
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
    """Return the forms of a table. The table has one form a line, in four columns: attribute, tag, check, pattern.

    A "-" means that a form has no value in the column. In a pattern, `<word>` stands for a named part, and a blank
    stands for any number of blanks. An apostrophe may be missing in the text.
    """
    return tuple(_parse_form(kind, confidence, line.split(None, 3)) for line in table.strip().splitlines())


def _parse_form(kind: MemoryKind, confidence: float, columns: list[str]) -> FirstPersonForm:
    attribute, tag, check, pattern = columns
    return FirstPersonForm(
        pattern=phrase_pattern(pattern, _PARTS),
        head=_first_word(pattern),
        kind=kind,
        confidence=confidence,
        attribute=None
        if attribute == "-"
        else _NAMED_IN_TEXT
        if attribute == _NAMED_IN_TEXT
        else attribute_named(attribute.replace("_", " ")),
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


# Columns: the attribute whose value the form states, the tag, the check of the captured words, the pattern.

_PREFERENCE_FORMS = parse_forms(
    "preference",
    0.75,
    r"""
    -           -           general   i <quite>prefer (?!not to\b|to not\b|none\b)(?P<what>.+)
    -           -           lasting   i <quite>(?:love|hate|like|dislike|enjoy|adore|detest|despise|loathe) (?!to (?:waste|see|say|bother|break)\b)(?P<what>.+)
    -           -           lasting   i <quite>(?:can't|cannot|can not) (?:stand|bear|abide) (?P<what>.+)
    -           -           lasting   i <quite>don't <quite>(?:like|enjoy) (?P<what>.+)
    -           -           lasting   i'm <quite>(?:not )?(?:an? )?(?:big |huge |great )?(?:fan of|fond of|keen on) (?P<what>.+)
    -           -           named     i'd (?:much )?rather (?!be |die )(?P<what>\w.+ than .+|we .+)
    -           -           lasting   i'm <quite>(?:into|passionate about|obsessed with) (?P<what>.+)
    -           -           lasting   i've always (?:liked|loved|hated|enjoyed|preferred|disliked) (?P<what>.+)
    thing       -           favourite my (?P<thing>(?:all-time )?favou?rite (?:[\w'-]+ ){0,2}?[\w'-]+)(?: is|[']s|:| are) (?P<value>.+)
    """,
)
_FACT_FORMS = parse_forms(
    "fact",
    0.85,
    r"""
    home        -           place     i <quite>(?:live|reside) in (?P<where>.+)
    home        -           place     (?:i'm|i've been) <quite>(?:living|based|located|residing) (?:in|out of) (?P<where>.+)
    home        -           place     i <just>(?:moved|relocated) (?:back |over |here )?to (?P<where>.+)
    home        -           place     i've (?:always )?lived in (?P<where>.+ (?:since|for) .+)
    employer    work        employer  i've (?:been working|worked) (?:at|for) (?P<where>.+ (?:since|for) .+)
    job         work        any       i've worked as (?:an? |the )?\w.+ (?:since|for) .+
    job         work        any       i've been (?:an? |the )(?:[\w/-]+ ){0,3}?(?:<job>) (?:since|for) .+
    home        -           place     we live in (?P<where>.+)
    -           home        any       i live (?:alone|with my (?:\w+ )?(?:<relative>|family|grandparents)\b|on (?:a|my) (?:farm|boat|island)\b)
    origin      -           place     (?:i'm|i come) <quite>(?:originally )?from (?P<where>.+)
    -           origin      place     i (?:grew up|was raised) in (?P<where>.+)
    birthplace  -           place     i was born (?:and raised )?in (?P<where><name>.+)
    employer    work        employer  i <quite>work (?:full time |part time )?(?:at|for) (?P<where>.+)
    employer    work        employer  i <just>(?:started|got|landed|accepted) (?:an? )?(?:new )?(?:job|position|role) (?:at|with) (?P<where>.+)
    employer    work        employer  i <just>(?:started|began) (?:working|work) (?:at|for) (?P<where>.+)
    employer    work        any       my (?:employer|company) is (?P<value><name>.+)
    job         work        any       i <quite>work as (?:an? |the )?\w.+
    job         work        any       i'm (?:an? |the )(?:(?!an?\b|more\b)[\w/-]+ ){0,4}?(?:<job>)<end>(?! of (?:this|it|my)\b)
    job         work        any       i'm an? (?:[\w/-]+ ){0,2}?students?<end>
    job         work        work      my (?:job|profession|occupation|day job) is (?P<value>.+)
    -           work        any       i work (?:remotely|from home)\b
    -           work        any       i (?:lead|run|manage|head|own) (?:the|a|an|my own) (?:[\w'-]+ ){0,3}(?:team|department|company|business|shop|store|studio|restaurant|caf\u00e9|cafe|bakery|clinic|school|farm|lab|agency|practice)\b
    -           education   named     i'm (?:studying|majoring in) (?!for\b|the\b)(?P<what>.+)
    -           education   named     i (?:study|studied|majored in|teach|taught) (?!for\b|the\b|it\b|how\b)(?P<what>[\w' -]+ (?:at|in) <name>.*|[a-z]+(?: [a-z]+)?\W*)$
    -           education   any       i teach (?:at|in) (?:an?|the|my) \w.+
    -           education   any       (?:<have>|i got|i hold) an? (?:\w+ )?(?:degree|ph\.?d|doctorate|master's|bachelor's|diploma|certificate|certification|mba|black belt) in \w.*
    -           education   named     i <just>(?:graduated (?:from|in|with)|enrolled in|dropped out of) (?P<what>.+)
    birthday    -           date      i was born on (?P<when>.+)
    birthday    -           date      my (?:birthday|bday|b-day)(?: is|'s) (?:on |in )?(?P<when>.+)
    age         -           any       i'm (?:1[01]\d|\d{1,2}) (?:years? old|yo|y/o)<end>
    age         -           any       i <just>turned \d{2}\b(?! (?:pages|off|on))
    time_zone   -           any       i'm (?:in|on) (?:the )?(?:<zone>)(?:\s?[+-]\s?\d{1,2}(?::?\d\d)?)?(?: time(?: ?zone)?)?(?!\w)
    time_zone   -           standing  my time ?zone(?: is|'s) (?P<value>.+)
    -           family      any       <have> <some> (?:[\w-]+ ){0,3}?(?:<relative>)\b(?!['-])(?! (?:in|of|to) | with me\b)
    -           family      any       <have> (?:twins|kids|children)\b
    -           family      any       i'm (?:happily |newly |recently |already |not )?(?:married|divorced|engaged to|widowed|pregnant)\b(?! (?:to (?:the|my)|with (?:this|the)))
    -           family      any       i'm an? (?:single |proud |new |stay-at-home )?(?:mom|mum|dad|mother|father|parent|widow|widower|grandmother|grandfather|twin|only child)\b
    -           family      any       i <just>(?:got (?:married|engaged|divorced)|had (?:a baby|twins|a son|a daughter))\b
    -           family      any       my (?:\w+ ){0,2}?(?:<relative>|<animal>)(?:(?:'s name)?(?: is|'s) (?:named|called)|'s name is) \w.+
    -           family      any       my (?:\w+ ){0,1}?(?:<relative>)(?: <name>\w+)? (?:is|'s) (?:an? (?:[\w-]+ ){0,3}?(?:<job>)<end>|from <name>|(?:<diet>)<end>|allergic to \w|\d+ years old)
    -           family      any       my (?:\w+ ){0,1}?(?:<relative>)(?: <name>\w+)? (?:lives? (?:in|with|near)|works? (?:at|for|as|in)|stud(?:y|ies)(?: at| in)?|teaches|speaks|was born (?:in|on)) \w.+
    -           health      allergen  i'm <quite>(?:severely |highly |very |mildly |deathly |a bit |slightly )?allergic to (?P<what>.+)
    -           health      any       i'm (?:an? )?(?:<condition>)<end>
    -           health      any       (?:<have>|i suffer from|i was (?:recently )?diagnosed with|i live with) (?:an? )?(?!to\b)(?:\w+ )?(?:<condition>)\b
    -           health      any       <have> an? (?:\w+ ){0,2}allergy\b.*|i was diagnosed with \w.+
    diet        -           any       (?:i'm|i've been) <quite>(?:an? )?(?:strict |lifelong |mostly )?(?:<diet>)<end>
    -           diet        named     i (?:don't|never) (?:eat|drink) (?!and\b|or\b|much\b|enough\b|a lot\b|anything\b|before\b|after\b)(?P<what>.+)
    -           habit       any       i don't (?:smoke|drink|drive)\W*$
    -           pet         any       <have> <some> (?:[\w'-]+ ){0,3}?(?:<animal>)(?: (?:named|called)\b|<end>)(?! in (?:this|the|that) (?:fight|race))
    -           pet         any       i <just>(?:adopted|rescued|got) <some> (?:[\w'-]+ ){0,3}?(?:<animal>)(?: <dated>|<end>)
    -           language    any       i <quite>(?:(?:don't|can't) )?(?:really )?speak (?:any |fluent |some |only |a bit of |a little )?(?:<language>)\b
    -           language    any       i'm (?:fluent in|a native speaker of|bilingual in|learning|taking) (?:to speak )?(?:<language>)\b(?! (?:history|food|cooking))
    native_language - standing        my (?:native|first|mother) (?:language|tongue) is (?P<value>.+)
    -           possession  any       i (?:own|drive|ride) (?:an?|two|three|my own) (?!(?:lot|hard|bit|copy|tough)\b).+
    -           possession  any       i don't (?:have|own) (?:an?|any) (?:<belonging>|<animal>|kids|children|siblings)<end>(?! (?:with|here|on|at))
    -           possession  any       i <just>(?:bought|sold) (?:an?|my|our) (?:[\w'-]+ ){0,2}?(?:house|flat|apartment|cottage|farm|car|motorbike|motorcycle|boat|camper|van)\b
    -           possession  any       my (?:\w+ )?(?:<belonging>) is (?:an? (?:[a-z-]+ ){0,3}?<name>\w.+|(?:called|named) \w.+|<name>\w.+)
    thing       possession  standing  i <quite>use (?P<value>[\w.+-]+(?: [\w.+-]+)?) as my (?:main |default |daily )?(?P<thing><tool>)\b
    thing       possession  standing  my (?:\w+ )?(?P<thing><tool>) is (?P<value>\w.+)
    thing       -           standing  my (?:\w+ )?(?P<thing>hometown|home town|blood type|star sign|zodiac sign|major|job title) is (?P<value>\w.+)
    thing       -           standing  my (?:\w+ )?(?P<thing>dentist|therapist|landlord|manager|boss|nickname) is (?P<value><name>\w.+)
    -           pastime     any       i <quite>(?:play|practice|practise) (?:the |an? )?(?:<pastime>)\b
    -           pastime     any       i <quite>(?:go|play|run|swim|teach|volunteer|train|practice|practise|attend|coach|visit|cook|bake|climb|cycle|hike|paint|sing|dance|work out|do yoga|meditate)\b.{0,80}? <often>\b.*
    -           pastime     any       i <quite>(?:volunteer|coach) (?:at|for|with|in|as) \w.*
    pronouns    -           any       i <quite>use (?:he|she|they)/\w+(?:/\w+)?(?: pronouns)?
    pronouns    -           any       my pronouns (?:are|is) \w+/\w+.*
    name        -           any       i go by (?!the\b|my\b|what\b|bus\b|train\b|car\b|foot\b)<name>\w+\b
    name        -           any       (?:please )?(?:just )?call me <name>[\w'-]{1,30}\W*$
    """,
)
_EVENT_FORMS = parse_forms(
    "fact",
    0.8,
    r"""
    -     event       any       i <just>(?:(?:quit|lost|left) my (?:\w+ )?job|(?:got|was|been) (?:promoted|laid off|fired|hired)|retired)\b
    -     event       any       i <just>became an? \w.+
    -     event       any       i <just>started (?:my own|an?) (?:[\w'-]+ ){0,2}?(?:business|blog|company|channel|family|band|podcast|book club|clothing line|shop|store|studio|charity|non-?profit)\b.*
    -     event       any       i <just>opened (?:my|an?) (?:[\w'-]+ ){0,3}?(?:store|studio|shop|business|bakery|caf\u00e9|cafe|restaurant|gym|practice)\b.*
    -     event       any       i <just>joined (?:an?|the|my) (?:[\w'-]+ ){0,3}?(?:gym|club|group|team|choir|class|church|band|orchestra|council|board|shelter|company)\b.*
    -     event       any       i <just>won (?:an?|the|my) (?:[\w'-]+ ){0,4}?(?:tournament|award|prize|competition|medal|scholarship|grant|championship|race|contest)\b.*
    -     event       any       i <just>passed (?:my|the) (?:[\w'-]+ ){0,2}?(?:exams?|test|bar)\b.*
    -     event       any       i <just>published (?:my|an?) (?:[\w'-]+ ){0,2}?(?:book|novel|paper|article|album|story)\b.*
    -     event       any       i <just>(?:went to|attended|visited|participated in|took part in|volunteered at|hosted|organi[sz]ed|performed (?:at|in)|travell?ed to|competed in|celebrated) (?!bed\b|work\b|sleep\b|the (?:store|shop|bathroom|toilet|office|site|page|website|link|forum|channel|folder|menu)\b)[\w' &-]{2,80}? <dated>\b.*
    home  -           place     we <just>(?:moved|relocated) (?:back )?to (?P<where>.+)
    -     family      any       we're expecting (?:our|a|twins)\b.*(?:baby|child|twins|girl|boy|son|daughter|kid)\b
    -     pet         any       we <just>(?:adopted|rescued|got) <some> (?:[\w'-]+ ){0,3}?(?:<animal>)\b
    -     family      any       we have <some> (?:[\w-]+ ){0,3}?(?:kids|children|sons?|daughters?|dogs?|cats?)\b
    """,
)
_ALL_FORMS = (*_PREFERENCE_FORMS, *_FACT_FORMS, *_EVENT_FORMS)
_FORMS_BY_HEAD: Mapping[Head, Sequence[FirstPersonForm]] = {
    head: [form for form in _ALL_FORMS if form.head == head] for head in ("i", "my", "we", "call")
}
_HEAD_PATTERN = sentence_pattern(
    r"(?P<word>i|my|we|call)\b|(?P<please>please|just)\b|(?:im|ive|id)\b", re.IGNORECASE
)
#: Verbs of habit whose subject may be that of the clause before.
_HABIT = sentence_pattern(
    r"(?:also |now |currently )?(?:work|live|play|speak|prefer|love|hate|study|teach|own|drive|volunteer)\s",
    re.IGNORECASE,
)


def match_first_person(text: str) -> FirstPersonForm | None:
    """Return the matching form of a clause in the first person, with its attribute; None if no form matches."""
    for form in _FORMS_BY_HEAD[head] if (head := _head_of(text)) else ():
        match = form.pattern.match(text)
        if match and form.matches(match):
            is_named = form.attribute == _NAMED_IN_TEXT
            return replace(form, attribute=attribute_named(match["thing"])) if is_named else form
    return None


def _head_of(text: str) -> Head | None:
    match = _HEAD_PATTERN.match(text)
    if not match:
        return None
    if match["please"]:
        return "call"
    return cast("Head", match["word"].lower()) if match["word"] else "i"


def add_subject(text: str) -> str:
    """Return a clause with "I" as its subject if it begins with a verb of habit."""
    return f"I {text}" if _HABIT.match(text) else text


# Statements about others

_SHORTEST_NAME = 3
_FIRST_PERSON_VERBS = {
    "is": "I'm",
    "has": "I have",
    "does": "I do",
    "doesn't": "I don't",
    "goes": "I go",
    "was": "I was",
    "can't": "I can't",
}
_ES = ("ches", "shes", "sses", "xes", "zes")
_AFTER_NAME = sentence_pattern(r"(?P<own>'s?)?\s+(?P<verb>[A-Za-z']+)\b(?P<more>.*)", re.DOTALL)


class NamedPeople:
    """Finds the people of a room by name."""

    def __init__(self, people: Sequence[NamedParticipant]) -> None:
        """Index the names that belong to one person only."""
        called: dict[str, set[int]] = {}
        for number, person in enumerate(people):
            for name in {person.name, *person.names}:
                if len(name) >= _SHORTEST_NAME:
                    called.setdefault(name.casefold(), set()).add(number)
        self._people: Mapping[str, NamedParticipant] = {
            name: people[next(iter(numbers))] for name, numbers in called.items() if len(numbers) == 1
        }
        #: The indexed names in lower case.
        self.names = frozenset(self._people)
        longest_first = sorted(self._people, key=len, reverse=True)
        either = "|".join(re.escape(name) for name in longest_first) or "(?!)"
        self._pattern = sentence_pattern(rf"@?(?P<name>{either})(?!\w)", re.IGNORECASE)

    def subject_of(self, text: str) -> tuple[NamedParticipant, int] | None:
        """Return the human whose name begins a clause, and the index where the name ends; None if no name begins it."""
        match = self._pattern.match(text)
        person = self._people.get(match["name"].casefold()) if match else None
        return (person, match.end()) if person and match and person.kind == "human" else None


#: The opening words with which a person denies a statement about them.
_DENIES = sentence_pattern(
    rf"\W*(?:(?:lol|huh|what|(?:a?ha)+h?)[\s,.!?]+)*{CORRECTION_PREFIX}(?:no+\b(?! (?:problem|worries))|nope|nah|wrong|since when"
    r"|not (?:any ?more|me|true|really|quite|at all)|(?:i(?:'m| am)|that(?:'s| is)) (?:not|wrong)"
    r"|i (?:do|did|was|have|had|am)(?:n't| not)|i never|used to|what|huh|left (?:last|in|there))\b",
    re.IGNORECASE,
)


def denies_statement(body: str) -> bool:
    """Return whether a message begins with words by which its author denies a statement about them."""
    return bool(_DENIES.match(body[:MAX_SENTENCE_LENGTH].replace("\u2019", "'")))


def first_person_variants(rest: str) -> Iterator[str]:
    """Yield the words after a name, rewritten in the first person, in each possible form."""
    match = _AFTER_NAME.match(rest)
    if not match:
        return
    verb, more = match["verb"], match["more"]
    if match["own"]:
        yield f"my {verb}{more}"
        yield f"I'm {verb}{more}"
        return
    if first := _first_person(verb.lower()):
        yield f"{first}{more}"


def _first_person(verb: str) -> str | None:
    """Return a verb of the third person in the first person; None if it is not in the third person."""
    if verb in _FIRST_PERSON_VERBS:
        return _FIRST_PERSON_VERBS[verb]
    if verb.endswith("ed"):
        return f"I {verb}"
    if verb.endswith("ies"):
        return f"I {verb[:-3]}y"
    if verb.endswith(_ES):
        return f"I {verb[:-2]}"
    return f"I {verb[:-1]}" if verb.endswith("s") and len(verb) > _SHORTEST_NAME else None
