"""Says in the third person what somebody said of themselves, where that is certain, and quotes them otherwise."""

import re

from roomlore.domain.patterns import sentence_pattern
from roomlore.domain.rendering import safe_name
from roomlore.memories.patterns import phrase_pattern

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
_NO_VERBS = frozenset({"don", "dont", "can", "cant", "wont", "couldn", "wouldn", "and", "or", "not"})
_PAST = frozenset(
    {
        "bought",
        "sold",
        "got",
        "won",
        "lost",
        "had",
        "became",
        "began",
        "grew",
        "left",
        "quit",
        "met",
        "made",
        "went",
    }
    | {
        "taught",
        "took",
        "wrote",
        "built",
        "ran",
        "gave",
        "came",
        "found",
        "learnt",
        "set",
        "put",
        "hit",
        "cut",
        "let",
    }
    | {"read", "saw", "fell", "broke", "chose", "told", "spent", "thought"}
)
_OWN = (
    (sentence_pattern(r"\bmyself\b", re.IGNORECASE), "themselves"),
    (sentence_pattern(r"\bmine\b", re.IGNORECASE), "theirs"),
    (sentence_pattern(r"\bmy\b", re.IGNORECASE), "their"),
    (sentence_pattern(r"\bme\b", re.IGNORECASE), "them"),
)
#: Who or what is meant can be told only among those who were there.
_MY = sentence_pattern(r"my\s+", re.IGNORECASE)
_PRESENT = sentence_pattern(
    r"\b(?:i|i['\u2019]\w+|im|ive|we|we['\u2019]\w+|us|our|ours|ourselves|you|your|yours|you['\u2019]\w+|u|ur|ya"
    r"|this|these|those|here|he|she|him|her|they|them|it)\b",
    re.IGNORECASE,
)
#: A second verb that would have to be changed like the first.
_COORDINATED = sentence_pattern(
    r"\s+(?:and|or)\s|.*\band (?:have|am|do|use|want|need|think|like|love|hate|prefer|don|can|will|would|cannot)\b",
    re.IGNORECASE,
)

_AFTERTHOUGHT = sentence_pattern(
    r"(?<![\s,])[\s,]++(?:btw|by the way|tbh|imo|imho|fyi|too|though|myself|lol|unfortunately|anyway|as well|you know|because|and|but|so|or|since|as|if|when|which|then)$",
    re.IGNORECASE,
)


#: Points at nobody: it stands for whoever speaks, or is how they wish to be called.
_RESOLVED = sentence_pattern(r"\b(?:he|she|they)/\w+(?:/\w+)?", re.IGNORECASE)


def cleaned(words: str) -> str:
    """Return words on one line, without marks of emphasis, smileys and stops at their end."""
    text = " ".join(_MARKDOWN.sub("", words).split())
    while (shorter := _AFTERTHOUGHT.sub("", _TRAILING.sub("", text))) != text:
        text = shorter
    # What was opened before the words is closed in them.
    return text.rstrip(")") if ")" in text and "(" not in text else text


def in_third_person(name: str, words: str) -> str | None:
    """Return a sentence about whoever said the words, or None where it could not be read alone or be wrong."""
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
    """Return the verb of a clause that begins with "I" as it is said of others, and where it ends."""
    for pattern, verb in _HEADS:
        if match := pattern.match(text):
            return verb, match.end()
    match = _SAYS.match(text)
    if not match or (verb := match["verb"].lower()) in _NO_VERBS:
        return None
    return _EMPTY.sub("", match["adverbs"]) + (
        verb if _is_past(verb) else _third_person_verb(verb)
    ), match.end()


def _is_past(verb: str) -> bool:
    return verb in _PAST or (verb.endswith("ed") and verb not in {"need", "feed", "speed", "breed", "bleed"})


def _third_person_verb(verb: str) -> str:
    if verb in {"go", "do"} or verb.endswith(("s", "x", "z", "ch", "sh")):
        return verb + "es"
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return verb[:-1] + "ies"
    return verb + "s"


def quoted_statement(name: str, words: str) -> str:
    """Return who said the words, and the words."""
    text = " ".join(words.split()).strip(" *_")
    if len(text) > LONGEST_CONTENT:
        text = f"{text[:LONGEST_CONTENT].rsplit(' ', 1)[0]} \u2026"
    return f"{safe_name(name)}: \u201c{text}\u201d"


def possessive(name: str) -> str:
    """Return how what is somebody's is said to be theirs."""
    return f"{safe_name(name)}'s"


def title_of(words: str) -> str:
    """Return the first few words, the first letter large."""
    text = cleaned(words)
    if len(text) > LONGEST_TITLE:
        text = f"{text[:LONGEST_TITLE].rsplit(' ', 1)[0]} \u2026"
    return text[:1].upper() + text[1:]


def needs_context(words: str) -> bool:
    """Return whether words point at somebody or something that only those who were there can tell."""
    return bool(_PRESENT.search(words))


def name_list(names: list[str]) -> str:
    """Return names as one list: "Ana", "Ana and Ben", "Ana, Ben and Eve"."""
    safe = [safe_name(name) for name in names]
    return safe[0] if len(safe) == 1 else f"{', '.join(safe[:-1])} and {safe[-1]}"
