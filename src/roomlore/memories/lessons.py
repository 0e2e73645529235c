"""Extracts lessons, rules, promises and outcomes."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from roomlore.domain.claims import Claim, Quote, SourceText
from roomlore.domain.patterns import sentence_pattern
from roomlore.domain.records import MemoryKind
from roomlore.domain.rendering import safe_name
from roomlore.memories.clauses import Clause
from roomlore.memories.kinds import COMMITMENT_TAG
from roomlore.memories.lexicon import ACTION_VERBS, DELIVERY_VERBS, MONTHS
from roomlore.memories.patterns import is_disfluent, is_unresolved_reference
from roomlore.memories.rendering import cleaned, in_third_person, needs_context, quoted_statement, title_of
from roomlore.text.recognisers import phrase_pattern

FormCheck = Callable[[re.Match[str]], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonForm:
    """A way of stating a lesson, rule, promise or outcome."""

    kind: MemoryKind
    pattern: re.Pattern[str]
    confidence: float
    check: FormCheck
    #: Whether the statement must be the first clause of its sentence, like a demand.
    must_open: bool
    #: Whether the claim is the whole match. Otherwise the claim is the group `what`.
    is_whole: bool

    def matches(self, match: re.Match[str], clause: Clause) -> bool:
        """Return whether a match in a clause is a valid statement of this form."""
        in_place = not self.must_open or clause.is_first
        return in_place and self.check(match) and not is_disfluent(match[0])


# What words must be

_FEW_WORDS = 2
_REASON = sentence_pattern(
    r"(?i)\b(?:because|due to|needs?|requires?|required|only|must|has to|have to|depends|whenever|every time|unless|never|always)\b"
)
_OF_SOMEBODY = sentence_pattern(r"(?i)(?:i|we|he|she|they|my|his|her)\b")
_NOTHING_NAMED = sentence_pattern(
    r"(?i)(?:an?|the) (?:bit|look|try|go|shot|minute|second|sec|call)\b|(?:back|up|out|off|down)\b"
)


def _is_informative(match: re.Match[str]) -> bool:
    """Return whether a lesson has enough words, and does not only refer to something."""
    return len(match["what"].split()) > _FEW_WORDS and not is_unresolved_reference(match["what"])


def _explains(match: re.Match[str]) -> bool:
    what = match["what"]
    return _is_informative(match) and not _OF_SOMEBODY.match(what) and bool(_REASON.search(what))


def _is_concrete(match: re.Match[str]) -> bool:
    """Return whether a promise names what is promised, rather than only refers to it."""
    return not is_unresolved_reference(match["what"]) and not _NOTHING_NAMED.match(match["what"])


def _has_object(match: re.Match[str]) -> bool:
    """Return whether a rule names its object, rather than only refers to it."""
    return not is_unresolved_reference(match["what"].split(" ", 1)[1])


_CHECKS: Mapping[str, FormCheck] = {
    "any": bool,
    "told": _is_informative,
    "explains": _explains,
    "concrete": _is_concrete,
    "object": _has_object,
}

# Tables

_DAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_PARTS: Mapping[str, str] = {
    "doable": ACTION_VERBS,
    "delivered": DELIVERY_VERBS,
    "when": rf"(?:by|before|until) (?:the end|end|eod|noon|midnight|next|this|tomorrow|tonight|{_DAY}|\d|(?:{MONTHS})|close|lunch|monday)"
    rf"|tomorrow|tonight|(?:on|this|next) (?:{_DAY}|week|weekend|month|afternoon|evening)|end of (?:the )?(?:day|week|month)"
    rf"|later today|this (?:afternoon|evening)|today|after (?:lunch|the meeting|work)|at \d{{1,2}}(?::\d\d| ?[ap]m)|on (?:the )?\d|(?:{MONTHS}) \d",
    "just": r"(?:(?:just|finally|now|have|successfully|officially|already|'ve|completely) )*",
    "thing": r"migration|release|roll-?out|launch|deployment|rewrite|refactor(?:ing)?|project|campaign|audit|election|merger|renovation"
    r"|fundraiser|experiment|pilot|trial|evaluation|hackathon|tournament|conference|import|cut-?over|switch-?over|transition|redesign"
    r"|feature|version|contract|application|grant|deal|sale|integration|backfill",
}
#: Columns: kind, confidence, check, whether it must be first in its sentence, whether the claim is the whole match or
#: `what`, pattern.
_TABLE = r"""
    lesson          0.75  told      -      what   (?:(?:the|our|a|one|another|important|big|main) )*lessons?(?: learn(?:ed|t))?(?: here| today)?(?: is| was|:| -) (?:that )?(?P<what>.+)
    lesson          0.75  told      -      what   (?:(?:the|my|our|a|one|key|main|big|biggest|important) )*take-?aways?(?: here| for me)?(?: is| was|:| -) (?:that )?(?P<what>.+)
    lesson          0.75  told      -      what   (?:(?:i|we)'ve |(?:i|we) )(?:just )?(?:learned|learnt|found out) the hard way (?:that )?(?P<what>.+)
    lesson          0.65  explains  -      what   (?:it )?turns out (?:that )?(?P<what>.+)
    lesson          0.75  told      -      whole  next time,? (?:i|we)(?:'ll| will| should| must| need to| have to|'ve to) (?P<what>.+)
    lesson          0.75  told      -      whole  (?:i'm |we're )?never (?P<what>\w+ing .+ again\b).*
    lesson          0.75  told      -      whole  never again (?:will (?:i|we) )?(?P<what>\w+ .+)
    lesson          0.75  told      -      whole  (?:the )?(?:root|actual|underlying) cause (?:was|is|turned out to be|:)(?: that)? (?P<what>.+)
    lesson          0.75  told      -      whole  in (?:hindsight|retrospect)[, ]+(?:i|we) (?:should|shouldn't|should not|ought to)(?:n't| not)? have (?P<what>.+)
    lesson          0.75  told      -      what   (?:the )?moral of the story(?: is|:|,) (?:that )?(?P<what>.+)
    pattern         0.75  told      -      what   (?:(?:a|my|our|the|good|general) )*(?:rule of thumb|rule)(?: here)?(?: is|:) (?:that |to )?(?P<what>.+)
    pattern         0.75  told      -      what   (?:(?:a|my|our|the) )*best practices?(?: here)?(?: is|:) (?:that |to )?(?P<what>.+)
    pattern         0.75  told      -      what   our (?:[\w-]+ )?(?:convention|rule|policy|practice|standard)(?: here)? is (?:that |to )?(?P<what>.+)
    anti_pattern    0.75  told      -      what   (?:an )?anti-?pattern(?: here)?(?: is|:) (?:that |to )?(?P<what>.+)
    pattern         0.7   object    opens  whole  (?:we (?:should |must |have to |need to )?|please |you should |you must )?always (?P<what><doable> .+)
    anti_pattern    0.7   object    opens  whole  (?:we (?:should |must )?|please |you should |you must )?never(?: ever)? (?P<what><doable> .+)
    anti_pattern    0.7   object    opens  whole  (?:please )?don't ever (?P<what><doable> .+)
    anti_pattern    0.65  concrete  opens  whole  (?:please )?avoid (?P<what>\w+ing \w.+|[\w-]+ \w.+)
    context         0.75  concrete  -      whole  (?:i'll|i'm going to|i'm gonna|i promise(?: to| i'll)?|i commit to) (?:also |then |definitely |personally )?<delivered> (?P<what>.+?<when>\b.*)
    context         0.75  concrete  -      whole  (?:i'll|i promise to) (?:also )?(?:take care of|handle|organi[sz]e|be responsible for|take over|prepare) (?P<what>.+)
    context         0.75  concrete  -      whole  i'll have (?P<what>.+? (?:ready|done|finished|sent|fixed) (?:.* )?<when>\b.*)
    process_outcome 0.75  concrete  -      whole  (?:we|the team)(?:'ve| have|'re)? <just>(?:shipped|released|launched|deployed|rolled out|migrated|signed|published|delivered|completed|won) (?P<what>.+)
    process_outcome 0.75  any       -      whole  the (?:[\w'.-]+ ){0,3}?<thing>(?: [\w.-]+)? (?:has |have |is |was |just |finally |now |been |successfully )*(?P<what>finished|completed?|succeeded|failed|went live|live|approved|rejected|cancell?ed|merged|shipped|released|rolled back|passed|done)\b.*
    process_outcome 0.75  any       -      whole  the (?:[\w'.-]+ ){1,4}?(?:cut|reduced|improved|increased|brought|lowered|raised|dropped) (?P<what>.+ (?:from .+ to|by) .*\d.*)
"""


def _parse_form(row: str) -> LessonForm:
    kind, confidence, check, place, said, pattern = row.split(None, 5)
    return LessonForm(
        kind=cast("MemoryKind", kind),
        pattern=phrase_pattern(pattern, _PARTS),
        confidence=float(confidence),
        check=_CHECKS[check],
        must_open=place == "opens",
        is_whole=said == "whole",
    )


_FORMS = [_parse_form(row) for row in _TABLE.strip().splitlines()]
#: Each form contains at least one of these words.
_PREFILTER = sentence_pattern(
    r"(?i)\b(?:lesson|take-?away|learn|turns|next time|never|cause|hindsight|retrospect|moral|rule|practice|convention|policy|standard|always|anti-?pattern"
    r"|avoid|don'?t|i'?ll|i will|going to|gonna|promise|commit|shipped|released|launched|deployed|rolled|migrated|signed|published|delivered|completed?|won"
    r"|finished|succeeded|failed|live|approved|rejected|cancel|merged|passed|done|cut|reduced|improved|increased|brought|lowered|raised|dropped|found)"
)
_LABELS = {"lesson": "Lesson", "pattern": "Rule", "anti_pattern": "Rule"}


def match_lesson(clause: Clause, said: SourceText) -> Claim | None:
    """Return the lesson, rule, promise or outcome that a clause states; None if the clause states none."""
    rest = clause.rest
    if not _PREFILTER.search(rest):
        return None
    for form in _FORMS:
        match = form.pattern.match(rest)
        if match and form.matches(match, clause):
            return _claim(form, match, clause, said)
    return None


def _claim(form: LessonForm, match: re.Match[str], clause: Clause, said: SourceText) -> Claim:
    start, end = clause.start + match.start(), clause.start + match.end()
    words = said.body[start:end]
    what = cleaned(words if form.is_whole else said.body[clause.start + match.start("what") : end])
    is_promise = form.kind == "context"
    return Claim(
        kind=form.kind,
        title=title_of(what),
        content=_content(form, what, said, words),
        quotes=[Quote(message_id=said.message_id, start=start, end=end)],
        author_id=said.author_id,
        subject_ids=frozenset({said.author_id}) if is_promise else frozenset(),
        confidence=form.confidence,
        tags=frozenset({COMMITMENT_TAG}) if is_promise else frozenset(),
    )


def _content(form: LessonForm, what: str, said: SourceText, words: str) -> str:
    if form.kind == "context":
        return in_third_person(said.author_name, words) or quoted_statement(said.author_name, words)
    if form.kind in _LABELS and not needs_context(what):
        return f"{_LABELS[form.kind]} from {safe_name(said.author_name)}: {what}."
    return quoted_statement(said.author_name, words)
