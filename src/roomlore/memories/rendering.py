"""Writes the text of a memory: in the third person if that is certainly right, otherwise as a quotation."""

import re

from roomlore.domain.patterns import sentence_pattern
from roomlore.domain.rendering import safe_name
from roomlore.text.recognisers import phrase_pattern

LONGEST_TITLE = 60
LONGEST_CONTENT = 400

_TRAILING = sentence_pattern(
    r"[\s(.,;:!?\u2026*_~`\U0001f000-\U0001faff\u2600-\u27bf\ufe0f\u200d]+$|(?:\s*[:;=]-?[)dpo(/|\]])+$",
    re.IGNORECASE,
)
_MARKDOWN = sentence_pattern(r"\*\*|__|~~|(?<!\w)[*_`](?=\w)|(?<=\w)[*_`](?!\w)")
_ADVERBS = (
    r"(?:(?:really|also|still|just|personally|usually|generally|always|often|absolutely|totally|actually|definitely"
    r"|much|strongly|mostly|only|recently|finally|currently|now|both|simply|truly|kinda|sometimes|never|already"
    r"|originally|officially|happily|proudly) )*"
)
_HEADS = (
    (phrase_pattern(r"i'm\b"), "is"),
    (phrase_pattern(r"i was\b"), "was"),
    (phrase_pattern(r"i've\b"), "has"),
    (phrase_pattern(r"i'll\b"), "will"),
    (phrase_pattern(r"i'd rather\b"), "would rather"),
    (phrase_pattern(r"i don't\b"), "does not"),
    (phrase_pattern(r"i (?:can't|cannot|can not)\b"), "cannot"),
    (phrase_pattern(r"i can\b"), "can"),
)
_SAYS = phrase_pattern(rf"i (?P<adverbs>{_ADVERBS})(?P<verb>[a-z]+)\b")
_EMPTY = sentence_pattern(r"\b(?:just|also|actually|personally)\s+", re.IGNORECASE)
_NO_VERBS = frozenset("don dont can cant wont couldn wouldn and or not".split())
_IRREGULAR = {"am": "is", "have": "has", "do": "does", "go": "goes"}
#: Verbs whose form is the same for all persons: past tenses, modals, and forms that may be past tenses.
_INVARIABLE = frozenset(
    """
    can could will would shall should may might must was were had did is are has does bought sold got won
    lost became began grew left met made went taught took wrote built ran gave came found learnt fell broke
    chose told spent thought said saw kept held knew spoke drove ate drank read put set cut hit let cost
    quit shut split spread beat bet
    """.split()
)
#: Words in "-ed" that are not a past tense.
_PRESENT_IN_ED = frozenset("need feed speed breed bleed heed weed embed".split())
_OWN = (
    (sentence_pattern(r"\bmyself\b", re.IGNORECASE), "themselves"),
    (sentence_pattern(r"\bmine\b", re.IGNORECASE), "theirs"),
    (sentence_pattern(r"\bmy\b", re.IGNORECASE), "their"),
    (sentence_pattern(r"\bme\b", re.IGNORECASE), "them"),
)
#: Words that refer to people or things that only people who are present know.
_MY = sentence_pattern(r"my\s+", re.IGNORECASE)
_PRESENT = sentence_pattern(
    r"\b(?:i|i['\u2019]\w+|im|ive|we|we['\u2019]\w+|us|our|ours|ourselves|you|your|yours|you['\u2019]\w+|u|ur|ya"
    r"|this|these|those|here|he|she|him|her|they|them|it)\b",
    re.IGNORECASE,
)
#: A second verb in the same statement, which would also have to be in the third person.
_COORDINATED = sentence_pattern(
    r"\s+(?:and|or)\s|.*\band (?:have|am|do|use|want|need|think|like|love|hate|prefer|don|can|will|would|cannot)\b",
    re.IGNORECASE,
)

_AFTERTHOUGHT = sentence_pattern(
    r"(?<![\s,])[\s,]++(?:btw|by the way|tbh|imo|imho|fyi|too|though|myself|lol|unfortunately|anyway|as well|you know|because|and|but|so|or|since|as|if|when|which|then)$",
    re.IGNORECASE,
)
#: Stated pronouns such as "she/her", which are not references to a person.
_RESOLVED = sentence_pattern(r"\b(?:he|she|they)/\w+(?:/\w+)?", re.IGNORECASE)


def cleaned(words: str) -> str:
    """Return words on one line, without markdown, and without smileys and punctuation at the end."""
    text = " ".join(_MARKDOWN.sub("", words).split())
    while (shorter := _AFTERTHOUGHT.sub("", _TRAILING.sub("", text))) != text:
        text = shorter
    # The matching bracket was opened before these words, so the closing one is removed.
    return text.rstrip(")") if ")" in text and "(" not in text else text


def in_third_person(name: str, words: str) -> str | None:
    """Return the words as a sentence about their author; None if this sentence could be unclear or wrong."""
    text = cleaned(words)
    if match := _MY.match(text):
        head, rest = f"{possessive(name)} ", text[match.end() :]
    else:
        verb = _verb(text)
        if verb is None:
            return None
        head, rest = f"{safe_name(name)} {verb[0]}", text[verb[1] :]
    if _PRESENT.search(_RESOLVED.sub("", rest)) or _COORDINATED.match(rest):
        return None
    for pattern, other in _OWN:
        rest = pattern.sub(other, rest)
    return f"{head}{rest}."


def _verb(text: str) -> tuple[str, int] | None:
    """Return the verb after "I" in the third person, and the index where the verb ends in the text.

    Return None if there is no verb.
    """
    for pattern, verb in _HEADS:
        if match := pattern.match(text):
            return verb, match.end()
    match = _SAYS.match(text)
    if not match or (verb := match["verb"].lower()) in _NO_VERBS:
        return None
    return _EMPTY.sub("", match["adverbs"]) + third_person(verb), match.end()


def third_person(verb: str) -> str:
    """Return a verb in the third person; past and modal verbs stay the same."""
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    if not verb.isalpha() or verb in _INVARIABLE or (verb.endswith("ed") and verb not in _PRESENT_IN_ED):
        return verb
    if verb.endswith(("s", "x", "z", "ch", "sh")):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if verb.endswith("y") and verb[-2:-1] not in "aeiou" else f"{verb}s"


def quoted_statement(name: str, words: str) -> str:
    """Return the words as a quotation with the name of their author."""
    text = " ".join(words.split()).strip(" *_")
    if len(text) > LONGEST_CONTENT:
        text = f"{text[:LONGEST_CONTENT].rsplit(' ', 1)[0]} \u2026"
    return f"{safe_name(name)}: \u201c{text}\u201d"


def possessive(name: str) -> str:
    """Return the possessive of a name."""
    return f"{safe_name(name)}'s"


def title_of(words: str) -> str:
    """Return the first few words, with a capital letter."""
    text = cleaned(words)
    if len(text) > LONGEST_TITLE:
        text = f"{text[:LONGEST_TITLE].rsplit(' ', 1)[0]} \u2026"
    return text[:1].upper() + text[1:]


def needs_context(words: str) -> bool:
    """Return whether words refer to something that only people who are present know."""
    return bool(_PRESENT.search(words))


def name_list(names: list[str]) -> str:
    """Return names as one list: "Ana", "Ana and Ben", "Ana, Ben and Eve"."""
    safe = [safe_name(name) for name in names]
    return safe[0] if len(safe) == 1 else f"{', '.join(safe[:-1])} and {safe[-1]}"
