"""Recognises questions, small talk, requests for confidentiality, and words without a topic."""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from roomlore.domain.patterns import MAX_SENTENCE_LENGTH, lazy_pattern, sentence_pattern
from roomlore.domain.rendering import without_trailing_quotes

# Phrases

#: Patterns of blanks and apostrophes. Longer runs of blanks do not occur in phrases. A pattern that allows them could
#: match a text in too many ways.
BLANK_PATTERN, APOSTROPHE_PATTERN = r"\s{1,9}", "\\s?['\u2019]?\\s?"
#: Full forms of contractions. A pattern with the short form also matches the full form.
_FULL = {
    "i'm": "i am",
    "i'll": "i will",
    "i've": "i have",
    "we're": "we are",
    "we'll": "we will",
    "we've": "we have",
    "don't": "do not",
    "it's": "it is",
}
_TYPED = re.compile(rf"\[[^\]]*\]|\b(?P<short>{'|'.join(_FULL)})\b|(?P<apostrophe>')|(?P<blank> )")
_PART = re.compile(r"(?<!P)<(\w+)>")


def phrase_pattern(
    pattern: str, parts: Mapping[str, str] = MappingProxyType({}), *, most: int | None = MAX_SENTENCE_LENGTH
) -> re.Pattern[str]:
    """Return a pattern for a phrase. Case does not matter.

    In a text, blanks may be wider, apostrophes may be missing, and contractions may be written out.

    Args:
        pattern: As in `re`; `<name>` stands for one of the parts.
        parts: The parts by name.
        most: As in `lazy_pattern`; None for a pattern that takes linear time.
    """
    whole = _PART.sub(lambda part: f"(?:{parts[part[1]]})", pattern)
    return lazy_pattern(_TYPED.sub(_as_typed, whole), re.IGNORECASE, most=most)


def _as_typed(match: re.Match[str]) -> str:
    if short := match["short"]:
        either = (short.replace("'", APOSTROPHE_PATTERN), _FULL[short].replace(" ", BLANK_PATTERN))
        return f"(?:{'|'.join(either)})"
    if match["apostrophe"]:
        return APOSTROPHE_PATTERN
    return BLANK_PATTERN if match["blank"] else match[0]


# Questions

#: The maximum number of characters of a text that are read.
_MAX_READ = 4_000
_QUESTION_END = sentence_pattern(r"\?[^\w]*$|,\s(?:right|huh|eh|isn'?t it)\W*$", re.IGNORECASE)
_ASKING = phrase_pattern(
    r"(?:who|what|why|how|where|which|when|whose|whom|anyone|anybody|any)\b"
    r"|(?:do|does|did|is|are|am|was|were|can|could|will|would|should|shall|may|has|have|had|isn't|aren't|don't"
    r"|doesn't|didn't|haven't|hasn't|won't|can't)"
    r" (?:i|you|u|we|he|she|they|it|the|my|your|our|this|that|there|some\w*|any\w*)\b"
)
_OPENING_WORD = sentence_pattern(
    r"\s*(?:who|what|when|where|why|how|which|whose|can|could|do|does|did|is|are|should|would|will)\b",
    re.IGNORECASE,
)


def is_question(text: str) -> bool:
    """Return whether a sentence or short message is a question, by its first words or its end."""
    head, end = text.lstrip()[:MAX_SENTENCE_LENGTH], text.rstrip()[-MAX_SENTENCE_LENGTH:]
    return bool(_QUESTION_END.search(end) or _ASKING.match(head))


def contains_question(text: str) -> bool:
    """Return whether any part of a text is a question.

    It accepts more than `is_question`. For example, an agent should notice the question "is Ben there".
    """
    return "?" in text[:_MAX_READ] or bool(_OPENING_WORD.match(text[:MAX_SENTENCE_LENGTH]))


def ends_in_question_mark(body: str) -> bool:
    """Return whether a message ends in a question mark. Quoted lines at its end are ignored.

    It accepts less than `is_question`, because a message that only begins like a question may also contain the answer.
    """
    return without_trailing_quotes(body).rstrip().endswith("?")


# Words that say little

_SMALL_TALK = lazy_pattern(
    r"\W*(?:(?:hi|hello|hey|yo|thanks|thank you|thx|ty|ok|okay|k|cool|nice|great|lol|haha+|yes|yep|no|nope|sure|bye|np|good"
    r" (?:morning|night|evening|day)|how are you|no problem|you'?re welcome|welcome|there|all|everyone|bot)\W*){0,6}",
    re.IGNORECASE,
)
#: Words without a topic. `memories` has two other lists: fillers, which do not change a claim, and negations.
STOP_WORDS = frozenset(
    """
    a about all also am an and any are as at be been but by can could did do does doing done for from had has have he her
    hers him his how i if in into is it its just me my no not of off on or our out over she should so some such than that
    the their them then there these they this those to too up us was we were what when where which who whom whose why will
    with would you your
    """.split()
)
#: Words without a topic, including those that are typical for chat.
CHAT_STOP_WORDS = STOP_WORDS | frozenset(
    """
    anyone get go got hello hey hi i'd i'll i'm i've im it's know like now oh ok okay one please really thank thanks that's
    yeah yes you're
    """.split()
)


def is_small_talk(text: str) -> bool:
    """Return whether a text is nothing but a greeting, thanks or similar words."""
    return bool(_SMALL_TALK.fullmatch(text[:_MAX_READ]))


# Confidentiality

_CONFIDENTIALITY = (
    r"\b(?:(?:strictly )?confidential(?:ly)?\b|in (?:strict(?:est)? )?confidence\b(?! (?:that|in)\b)|off the record\b"
    r"|(?:just|strictly|only) between (?:you and me|us|ourselves)\b|don't (?:tell|share|repeat|forward) (?:this|that|it|anyone|anybody)\b"
    r"|keep (?:this|that|it) (?:quiet|private|secret|confidential|(?:to|between|among) (?:yourself|yourselves|us))\b"
    r"|not for (?:sharing|the public)\b|this stays between\b)"
)
_CONFIDENTIALITY_REQUEST = phrase_pattern(_CONFIDENTIALITY, most=None)
_CONFIDENTIALITY_HINT = phrase_pattern(
    rf"{_CONFIDENTIALITY}|\b(?:off record|between (?:us|you and me|ourselves)|don't (?:tell (?!me\b)|(?:mention|repeat|share) (?:this|that|it|any)\b)"
    r"|keep (?:this|that|it|these) (?:to|between|private|quiet|secret|confidential|under)|in confidence|in private"
    r"|nobody (?:else )?(?:must|should|may|can|needs to) know|hush-hush|for your (?:eyes|ears) only"
    r"|(?:shouldn't|mustn't|can't) (?:know|find out))\b",
    most=None,
)


def asks_for_confidentiality(bodies: Iterable[str]) -> bool:
    """Return whether one of several messages asks to keep a conversation among the people who are present."""
    return any(_CONFIDENTIALITY_REQUEST.search(body) for body in bodies)


def hints_at_confidentiality(text: str) -> bool:
    """Return whether a text may ask for confidentiality.

    It accepts more than `asks_for_confidentiality`, because it only prevents the extraction of memories. It does not
    hide a whole conversation.
    """
    return bool(_CONFIDENTIALITY_HINT.search(text))
