"""Finds what people learned, hold for a rule, promise, and report as done."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from roomlore.domain.records import MemoryKind
from roomlore.domain.speech import safe_name
from roomlore.domain.statements import Quote, Spoken, Statement
from roomlore.extraction.clauses import Clause
from roomlore.extraction.cues import cue, is_broken, is_vague
from roomlore.extraction.lexicon import DELIVERED, DOABLE, MONTHS
from roomlore.extraction.taxonomy import COMMITMENT
from roomlore.extraction.wording import clean, depends_on_presence, in_third_person, quoted, title

Check = Callable[[re.Match[str]], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A way of telling what was learned, holds, is promised or is done."""

    kind: MemoryKind
    pattern: re.Pattern[str]
    confidence: float = 0.75
    #: What the match must hold besides.
    check: Check | None = None
    #: Whether it must begin its sentence, as a demand does.
    opens: bool = False
    #: Whether all of the sentence is said, or only the words called `what`.
    is_whole: bool = False

    def fits(self, match: re.Match[str], clause: Clause) -> bool:
        """Return whether a match is one, where it stands."""
        in_place = not self.opens or clause.is_first
        return in_place and (self.check is None or self.check(match))


def _is_told(match: re.Match[str]) -> bool:
    """Return whether what was learned says enough to be of use."""
    words = match["what"].split()
    return len(words) > _FEW_WORDS and not is_vague(match["what"])


def _explains(match: re.Match[str]) -> bool:
    what = match["what"]
    return (
        _is_told(match)
        and not re.match(r"(?i)(?:i|we|he|she|they|my|his|her)\b", what)
        and bool(_REASON.search(what))
    )


def _is_concrete(match: re.Match[str]) -> bool:
    """Return whether what is promised is named."""
    what = match["what"]
    return not is_vague(what) and not re.match(
        r"(?i)(?:an?|the) (?:bit|look|try|go|shot|minute|second|sec|call)\b|(?:back|up|out|off|down)\b", what
    )


_FEW_WORDS = 2
_REASON = re.compile(
    r"(?i)\b(?:because|due to|needs?|requires?|required|only|must|has to|have to|depends|whenever|every time|unless|never|always)\b"
)
_DAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_WHEN = (
    rf"(?:by|before|until) (?:the end|end|eod|noon|midnight|next|this|tomorrow|tonight|{_DAY}|\d|(?:{MONTHS})|close|lunch|monday)"
    rf"|tomorrow|tonight|(?:on|this|next) (?:{_DAY}|week|weekend|month|afternoon|evening)|end of (?:the )?(?:day|week|month)"
    rf"|later today|this (?:afternoon|evening)|today|after (?:lunch|the meeting|work)|at \d{{1,2}}(?::\d\d| ?[ap]m)|on (?:the )?\d|(?:{MONTHS}) \d"
)
_JUST = r"(?:(?:just|finally|now|have|successfully|officially|already|'ve|completely) )*"
_THING = (
    r"(?:migration|release|roll-?out|launch|deployment|rewrite|refactor(?:ing)?|project|campaign|audit|election|merger|renovation"
    r"|fundraiser|experiment|pilot|trial|evaluation|hackathon|tournament|conference|import|cut-?over|switch-?over|transition|redesign"
    r"|feature|version|contract|application|grant|deal|sale|integration|backfill)"
)
_FORMS: Sequence[Form] = (
    # What was learned
    Form(
        kind="lesson",
        pattern=cue(
            r"(?:(?:the|our|a|one|another|important|big|main) )*lessons?(?: learn(?:ed|t))?(?: here| today)?(?: is| was|:| -) (?:that )?(?P<what>.+)"
        ),
        check=_is_told,
    ),
    Form(
        kind="lesson",
        pattern=cue(
            r"(?:(?:the|my|our|a|one|key|main|big|biggest|important) )*take-?aways?(?: here| for me)?(?: is| was|:| -) (?:that )?(?P<what>.+)"
        ),
        check=_is_told,
    ),
    Form(
        kind="lesson",
        pattern=cue(
            r"(?:(?:i|we)'ve |(?:i|we) )(?:just )?(?:learned|learnt|found out) the hard way (?:that )?(?P<what>.+)"
        ),
        check=_is_told,
    ),
    Form(
        kind="lesson",
        pattern=cue(r"(?:it )?turns out (?:that )?(?P<what>.+)"),
        check=_explains,
        confidence=0.65,
    ),
    Form(
        kind="lesson",
        pattern=cue(r"next time,? (?:i|we)(?:'ll| will| should| must| need to| have to|'ve to) (?P<what>.+)"),
        check=_is_told,
        is_whole=True,
    ),
    Form(
        kind="lesson",
        pattern=cue(r"(?:i'm |we're )?never (?P<what>\w+ing .+ again\b).*"),
        is_whole=True,
        check=_is_told,
    ),
    Form(
        kind="lesson",
        pattern=cue(r"never again (?:will (?:i|we) )?(?P<what>\w+ .+)"),
        is_whole=True,
        check=_is_told,
    ),
    Form(
        kind="lesson",
        pattern=cue(
            r"(?:the )?(?:root|actual|underlying) cause (?:was|is|turned out to be|:)(?: that)? (?P<what>.+)"
        ),
        check=_is_told,
        is_whole=True,
    ),
    Form(
        kind="lesson",
        pattern=cue(
            r"in (?:hindsight|retrospect)[, ]+(?:i|we) (?:should|shouldn't|should not|ought to)(?:n't| not)? have (?P<what>.+)"
        ),
        is_whole=True,
        check=_is_told,
    ),
    Form(
        kind="lesson",
        pattern=cue(r"(?:the )?moral of the story(?: is|:|,) (?:that )?(?P<what>.+)"),
        check=_is_told,
    ),
    # What holds each time
    Form(
        kind="pattern",
        pattern=cue(
            r"(?:(?:a|my|our|the|good|general) )*(?:rule of thumb|rule)(?: here)?(?: is|:) (?:that |to )?(?P<what>.+)"
        ),
        check=_is_told,
    ),
    Form(
        kind="pattern",
        pattern=cue(r"(?:(?:a|my|our|the) )*best practices?(?: here)?(?: is|:) (?:that |to )?(?P<what>.+)"),
        check=_is_told,
    ),
    Form(
        kind="pattern",
        pattern=cue(
            r"our (?:[\w-]+ )?(?:convention|rule|policy|practice|standard)(?: here)? is (?:that |to )?(?P<what>.+)"
        ),
        check=_is_told,
    ),
    Form(
        kind="anti_pattern",
        pattern=cue(r"(?:an )?anti-?pattern(?: here)?(?: is|:) (?:that |to )?(?P<what>.+)"),
        check=_is_told,
    ),
    Form(
        kind="pattern",
        pattern=cue(
            rf"(?:we (?:should |must |have to |need to )?|please |you should |you must )?always (?P<what>(?:{DOABLE}) .+)"
        ),
        opens=True,
        is_whole=True,
        check=lambda match: not is_vague(match["what"].split(" ", 1)[1]),
        confidence=0.7,
    ),
    Form(
        kind="anti_pattern",
        pattern=cue(
            rf"(?:we (?:should |must )?|please |you should |you must )?never(?: ever)? (?P<what>(?:{DOABLE}) .+)"
        ),
        opens=True,
        is_whole=True,
        check=lambda match: not is_vague(match["what"].split(" ", 1)[1]),
        confidence=0.7,
    ),
    Form(
        kind="anti_pattern",
        pattern=cue(rf"(?:please )?don't ever (?P<what>(?:{DOABLE}) .+)"),
        opens=True,
        is_whole=True,
        check=lambda match: not is_vague(match["what"].split(" ", 1)[1]),
        confidence=0.7,
    ),
    Form(
        kind="anti_pattern",
        pattern=cue(r"(?:please )?avoid (?P<what>\w+ing \w.+|[\w-]+ \w.+)"),
        opens=True,
        is_whole=True,
        check=_is_concrete,
        confidence=0.65,
    ),
    # What is promised
    Form(
        kind="context",
        pattern=cue(
            rf"(?:i'll|i'm going to|i'm gonna|i promise(?: to| i'll)?|i commit to) (?:also |then |definitely |personally )?(?:{DELIVERED}) (?P<what>.+?(?:{_WHEN})\b.*)"
        ),
        is_whole=True,
        check=_is_concrete,
    ),
    Form(
        kind="context",
        pattern=cue(
            r"(?:i'll|i promise to) (?:also )?(?:take care of|handle|organi[sz]e|be responsible for|take over|prepare) (?P<what>.+)"
        ),
        is_whole=True,
        check=_is_concrete,
    ),
    Form(
        kind="context",
        pattern=cue(rf"i'll have (?P<what>.+? (?:ready|done|finished|sent|fixed) (?:.* )?(?:{_WHEN})\b.*)"),
        is_whole=True,
        check=_is_concrete,
    ),
    # How something came out
    Form(
        kind="process_outcome",
        pattern=cue(
            rf"(?:we|the team)(?:'ve| have|'re)? {_JUST}(?:shipped|released|launched|deployed|rolled out|migrated|signed|published|delivered|completed|won) (?P<what>.+)"
        ),
        is_whole=True,
        check=_is_concrete,
    ),
    Form(
        kind="process_outcome",
        pattern=cue(
            rf"the (?:[\w'.-]+ ){{0,3}}?{_THING}(?: [\w.-]+)? (?:has |have |is |was |just |finally |now |been |successfully )*(?P<what>finished|completed?|succeeded|failed|went live|live|approved|rejected|cancell?ed|merged|shipped|released|rolled back|passed|done)\b.*"
        ),
        is_whole=True,
    ),
    Form(
        kind="process_outcome",
        pattern=cue(
            r"the (?:[\w'.-]+ ){1,4}?(?:cut|reduced|improved|increased|brought|lowered|raised|dropped) (?P<what>.+ (?:from .+ to|by) .*\d.*)"
        ),
        is_whole=True,
    ),
)
#: Any of these words, or nothing is found.
_QUICK = re.compile(
    r"(?i)\b(?:lesson|take-?away|learn|turns|next time|never|cause|hindsight|retrospect|moral|rule|practice|convention|policy|standard|always|anti-?pattern"
    r"|avoid|don'?t|i'?ll|i will|going to|gonna|promise|commit|shipped|released|launched|deployed|rolled|migrated|signed|published|delivered|completed?|won"
    r"|finished|succeeded|failed|live|approved|rejected|cancel|merged|passed|done|cut|reduced|improved|increased|brought|lowered|raised|dropped|found)"
)
_WORDS = {
    "lesson": "Lesson",
    "pattern": "Rule",
    "anti_pattern": "Rule",
}


def found(clause: Clause, said: Spoken) -> Iterator[Statement]:
    """Yield what a clause says was learned, holds, is promised or is done; one thing at most."""
    if not _QUICK.search(clause.rest):
        return
    for form in _FORMS:
        match = form.pattern.match(clause.rest)
        if match and form.fits(match, clause) and not is_broken(match[0]):
            yield _statement(form, match, clause, said)
            return


def _statement(form: Form, match: re.Match[str], clause: Clause, said: Spoken) -> Statement:
    start, end = clause.start + match.start(), clause.start + match.end()
    words = said.body[start:end]
    what = clean(words if form.is_whole else said.body[clause.start + match.start("what") : end])
    is_promise = form.kind == "context"
    return Statement(
        kind=form.kind,
        title=title(what),
        content=_content(form, what, said, words),
        quotes=[Quote(message_id=said.message_id, start=start, end=end)],
        author_id=said.author_id,
        subject_ids=frozenset({said.author_id}) if is_promise else frozenset(),
        confidence=form.confidence,
        tags=frozenset({COMMITMENT}) if is_promise else frozenset(),
    )


def _content(form: Form, what: str, said: Spoken, words: str) -> str:
    if form.kind == "context":
        return in_third_person(said.author_name, words) or quoted(said.author_name, words)
    if form.kind in _WORDS and not depends_on_presence(what):
        return f"{_WORDS[form.kind]} from {safe_name(said.author_name)}: {what}."
    return quoted(said.author_name, words)
