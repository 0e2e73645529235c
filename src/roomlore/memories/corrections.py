"""Finds messages that correct an earlier message."""

import re
from collections.abc import Iterator, Sequence

from roomlore.domain.claims import Claim, Quote, SourceText
from roomlore.domain.patterns import sentence_pattern
from roomlore.memories.clauses import Clause
from roomlore.memories.lexicon import MONTHS
from roomlore.memories.patterns import CORRECTION_PREFIX, is_disfluent
from roomlore.memories.rendering import cleaned, quoted_statement, title_of
from roomlore.text.recognisers import STOP_WORDS, phrase_pattern

#: The maximum number of messages between a correction and the corrected message.
_MAX_DISTANCE = 8
_FEW_WORDS = 3
_LONGEST_CORRECTED, _LONGEST_RIGHT = 120, 160
#: Phrases that say that an earlier message was wrong, followed by the right words.
_OWN = phrase_pattern(
    CORRECTION_PREFIX
    + r"(?:(?:i meant(?: to say)?|correction[:,]|let me correct (?:that|myself)[:,]|i was wrong[,.:]|i misspoke[,.:]|that should (?:be|read|say))[\s,:]*(?P<what>\w.+))"
)
_STAR = sentence_pattern(r"\*\s?(?P<what>[\w:.,/ -]{1,40})$")
_OTHERS = phrase_pattern(
    CORRECTION_PREFIX
    + r"(?:actually[\s,]+(?P<what>\w.+)|(?P<not>(?:it's|the|that's|they're|he's|she's) .{1,80}, not (?:the |in |on |at )?\S+(?: \S+){0,2})\W*$)"
)
_VALUE = sentence_pattern(
    rf"(?i:\b(?P<day>(?:mon|tues|wednes|thurs|fri|satur|sun)day)s?\b)|\b(?P<month>(?=[A-Z])(?i:{MONTHS}))\b"
    r"|(?P<number>(?<![\w.-])[$\u20ac\u00a3]?\d[\d.,:]*(?:k|am|pm|%|st|nd|rd|th)?\b)|(?P<name>(?<=[a-z,] )[A-Z][\w-]+)"
)
_WORD = sentence_pattern(r"[^\W\d_]{3,}")
#: If two messages share only these words, this does not show that both are about the same thing.
_EMPTY_WORDS = STOP_WORDS | {"actually", "correction", "here", "meant", "sorry", "yes"}
_REPLACED = sentence_pattern(r", not (?:the |in |on |at )?(\w(?:[\w.:-]*\w)?)")
_STATES = sentence_pattern(
    r"(?i)\b(?:is|are|was|were|will|'s|'ll|has|have|costs?|opens?|closes?|starts?|ends?|begins?|live|works?|meets?|needs?|called|at|on)\b"
)


def match_correction(
    clause: Clause, said: Sequence[SourceText], place: int
) -> tuple[Claim, SourceText] | None:
    """Return the correction that a clause states and the corrected message; None if either is unclear."""
    message = said[place]
    own = _OWN.match(clause.sentence.text) or _STAR.match(message.body.strip())
    match = own or _OTHERS.match(clause.sentence.text)
    if not match or not clause.is_first:
        return None
    right = match.groupdict().get("what") or match.groupdict().get("not") or ""
    if is_disfluent(right) or len(right) > _LONGEST_RIGHT or right.rstrip().endswith("?"):
        return None
    wrong = _corrected_message(right, said, place, is_own=own is not None)
    return (_correction_claim(right, wrong, clause, message), wrong) if wrong else None


def _corrected_message(
    right: str, said: Sequence[SourceText], place: int, *, is_own: bool
) -> SourceText | None:
    message = said[place]
    for earlier in _candidates(said, place):
        if is_own and earlier.author_id != message.author_id and earlier.message_id != message.answers:
            continue
        if _contradicts(right, earlier.body, is_fragment=is_own and len(right.split()) <= _FEW_WORDS):
            return earlier
    return None


def _candidates(said: Sequence[SourceText], place: int) -> Iterator[SourceText]:
    """Yield the messages that a correction may be about.

    First comes the message that the correction replies to, then earlier messages, newest first.
    """
    answers = said[place].answers
    before = said[max(0, place - _MAX_DISTANCE) : place]
    yield from (one for one in before if one.message_id == answers)
    yield from (one for one in reversed(before) if one.message_id != answers)


def _contradicts(right: str, wrong: str, *, is_fragment: bool) -> bool:
    """Return whether two texts about the same thing differ in a day, month, number or name."""
    if len(wrong) > _LONGEST_CORRECTED or wrong.rstrip().endswith("?") or not _STATES.search(wrong):
        return False
    new, old = _values(right), _values(wrong)
    if is_fragment:
        new = {kind: values for kind, values in new.items() if len(old.get(kind, ())) == 1}
    differs = any(
        kind in old and values - old[kind] for kind, values in new.items() if is_fragment or kind != "name"
    )
    shared = _words(right) & _words(wrong)
    replaced = _REPLACED.search(right)
    names_it = bool(
        replaced and sentence_pattern(rf"(?i)(?<!\w){re.escape(replaced[1])}(?!\w)").search(wrong)
    )
    return names_it or (differs and (is_fragment or bool(shared)))


def _values(text: str) -> dict[str, set[str]]:
    values: dict[str, set[str]] = {}
    for match in _VALUE.finditer(text):
        values.setdefault(match.lastgroup or "", set()).add(match[0].lower())
    return values


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)} - _EMPTY_WORDS


def _correction_claim(right: str, wrong: SourceText, clause: Clause, message: SourceText) -> Claim:
    sentence = clause.sentence
    start = sentence.start + sentence.text.find(right)
    words = cleaned(message.body[start : start + len(right)])
    whose = "own" if wrong.author_id == message.author_id else f"{wrong.author_name}'s"
    return Claim(
        kind="correction",
        title=title_of(words),
        content=f"{quoted_statement(message.author_name, words)}, correcting {whose} \u201c{cleaned(wrong.body)}\u201d",
        quotes=[
            Quote(message_id=message.message_id, start=sentence.start, end=sentence.end),
            Quote(message_id=wrong.message_id, start=0, end=len(wrong.body)),
        ],
        author_id=message.author_id,
        involved_ids=frozenset({wrong.author_id}) - {message.author_id},
        confidence=0.65,
    )
