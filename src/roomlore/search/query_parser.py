"""What a question itself says of who said something and when, read without a model.

Only forms that ask who said it ("what did Ana say about …", "messages from bots", "my questions about …") or that
bound when it was said ("what was said last week about …") narrow a search: whoever is merely named, and whatever
merely happened then, does not. When in doubt nothing is read, since a wrong reading loses answers.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import get_args

from roomlore.domain.errors import BadInput
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.patterns import lazy_pattern, sentence_pattern
from roomlore.domain.rendering import safe_name
from roomlore.search.time_phrases import PAST_PHRASE, TIME_PHRASE, TimeRange, parse_time_range

#: A time as programs and people write it.
TimeLike = datetime | str
PARTICIPANT_KINDS = get_args(ParticipantKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What of the messages to look through, in words as people write them; each narrows what the others leave."""

    #: Whose, by name, account, id or its beginning, `me` for one's own: every account of a person, anybody's of several.
    by: Sequence[str] = ()
    #: Of what kind the author is; of several any.
    kinds: Sequence[ParticipantKind] = ()
    #: From then on: a time, a date, or words like `yesterday`, `last week`, `3 days ago`.
    since: TimeLike | None = None
    #: Until then: a day, week, month or year named here counts whole, a time exactly.
    until: TimeLike | None = None
    #: An id or the beginning of one, or `message:` and an id or external id of a message in it.
    conversation: str | None = None
    #: Only what is answered by something the viewer may see, or only what is not.
    answered: bool | None = None
    #: Whether the question is searched for as it stands, and not read for who and when.
    literal: bool = False
    #: Whether what is near the viewer in the graph is ranked higher: narrows nothing.
    near: bool = False

    def time_range(self, now: datetime) -> TimeRange:
        """Return from when to when, by the clock of `now`.

        Raises:
            BadInput: one is no time, or the end is not after the beginning.
        """
        since, until = _time_bound("since", self.since, now), _time_bound("until", self.until, now)
        start, end = since and since.since, until and (until.until or until.since)
        if start is not None and end is not None and start >= end:
            raise BadInput("until", "must be after since")
        return TimeRange(since=start, until=end)

    def check(self) -> None:
        """Do nothing if the kinds are kinds.

        Raises:
            BadInput: one is not.
        """
        for kind in self.kinds:
            if kind not in PARTICIPANT_KINDS:
                raise BadInput("kind", f"{kind!r} is none of {', '.join(PARTICIPANT_KINDS)}")


#: Everything the viewer may see.
NO_FILTERS = Filters()


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedFilters:
    """What was read out of a question; what narrowed its search is left out of what is searched for."""

    #: Whose words are asked for, as the viewer knows them.
    by: Sequence[str]
    kinds: Sequence[ParticipantKind]
    since: datetime | None
    until: datetime | None
    #: What was searched for; empty where everything that these said then was asked for.
    words: str
    #: Whose words are asked for, where the viewer knows of nobody called so: then nobody's words are looked through alone.
    unknown: Sequence[str] = ()

    def unknown_names_note(self) -> str:
        """Return that nobody of some names is known here, and what was done instead; empty where there are none."""
        names = " or ".join(f"\u201c{safe_name(name)}\u201d" for name in self.unknown)
        return names and f"Nobody called {names} is known here; it was searched whoever said it."

    def summary(self) -> str:
        """Return what narrowed the search in one line, empty for nothing: by Ana, since 2024-03-04, before 2024-03-11."""
        authors = [*map(safe_name, self.by), *(f"{kind}s" for kind in self.kinds)]
        parts = [f"by {' or '.join(authors)}"] if authors else []
        parts += [f"since {_minute(self.since)}"] if self.since else []
        parts += [f"before {_minute(self.until)}"] if self.until else []
        return ", ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedQuery:
    """What a question says of itself: whose words are asked for, when these were said, and what is left."""

    text: str
    #: Of whoever is asked for, as the question calls them; whether there is such a participant is not known here.
    names: Sequence[str] = ()
    #: Whether the asker's own words are asked for.
    is_own: bool = False
    kinds: Sequence[ParticipantKind] = ()
    #: Whether what they asked is wanted, and not what else they said.
    wants_questions: bool = False
    #: How the question says when it was said.
    time_phrase: str | None = None
    #: Whether that may also be the time of what was spoken of: then only what was said before it is out.
    is_time_loose: bool = False
    #: What is left without author and time.
    topic: str = ""
    #: What is left without time.
    without_time: str = ""

    @property
    def has_author(self) -> bool:
        """Whether somebody's words are asked for."""
        return bool(self.names or self.is_own or self.kinds)

    def time_range(self, now: datetime) -> TimeRange | None:
        """Return when it was said, by the clock of `now`; None where the question does not say, or errs."""
        found = None if self.time_phrase is None else parse_time_range(self.time_phrase, now)
        if found is None or (found.since is not None and found.since > now):
            return None
        if found.since is not None and found.until is not None and found.since >= found.until:
            return None
        return TimeRange(since=found.since) if self.is_time_loose else found

    def search_text(self, *, author: bool, time: bool) -> str:
        """Return what is to be searched for, where author and time narrow the search already, or do not."""
        author_is_left, time_is_left = (
            self.has_author and not author,
            self.time_phrase is not None and not time,
        )
        if time_is_left or not (author or time):
            return self.text
        return self.without_time if author_is_left else self.topic

    def search_texts(self) -> set[str]:
        """Return everything that `words` may return; nothing where nothing is left."""
        both = (False, True)
        return {self.search_text(author=author, time=time) for author in both for time in both}


#: Base, past, participle, -ing: whoever did is the author, whatever follows.
_SAID = (
    *("say said said saying", "mention mentioned mentioned mentioning", "tell told told telling"),
    *("ask asked asked asking", "reply replied replied replying", "comment commented commented commenting"),
    *("announce announced announced announcing", "suggest suggested suggested suggesting"),
    *("propose proposed proposed proposing", "claim claimed claimed claiming"),
)
#: Letters are written and posted, too: here only where a topic follows.
_WRITTEN = (
    *("write wrote written writing", "post posted posted posting", "answer answered answered answering"),
    *("explain explained explained explaining",),
)
#: It takes two: these tell when it was said, and not by whom.
_SHARED = (
    "discuss discussed discussed discussing",
    "talk talked talked talking",
    "chat chatted chatted chatting",
)
_BASE, _PAST, _PARTICIPLE, _ING = (
    f"(?P<verb>{'|'.join(forms)})"
    for forms in zip(*(verb.split() for verb in (*_SAID, *_WRITTEN, *_SHARED)), strict=True)
)
_CAREFUL = frozenset(form for verb in _WRITTEN for form in verb.split())
_MUTUAL = frozenset(form for verb in _SHARED for form in verb.split())

_LEAD = (
    r"(?:(?:hey|hi|ok|okay|so|and|but|please|also)[, ]+)*(?:(?:can|could|would|do) you )?(?:please )?"
    r"(?:(?:find|show|tell|give|list|get|fetch|remind|search|look|know|remember|recall|summari[sz]e)"
    r"(?: up| for)?(?: me| us)?(?: of)? )?(?:(?:all|any|every|some)(?: of)? )?(?:the )?(?:similar )?"
)
_NAME = r"[^\s,?.!:;\"]+(?: [^\s,?.!:;\"]+){0,3}?"
_OWNER = r"[^\s,?.!:;\"']+(?: [^\s,?.!:;\"']+){0,3}?"
_WHO = rf"(?P<who>{_NAME}(?:(?:, and |, | and | or ){_NAME}){{0,3}}?)"
_OFTEN = r"(?: (?:ever|also|just|already|really|actually|once|first|last|recently))?"
_NOUN = r"(?:messages?|questions?|posts?|comments?|remarks?|repl(?:y|ies)|answers?|responses?|statements?)"
_ANY = rf"(?:what|everything|anything|something|all|things?|stuff|whatever|{_NOUN})"
_ABOUT = r"(?:about|on|regarding|concerning)"
_WAS = r"(?:was|were|is|are|has been|have been|had been|got)"
_WH = r"(?:(?P<wh>what|which|how|when|where|why)(?P<noun>(?: \w+){0,3}?) )?"
_REST = r"(?P<rest>(?![\w'-]).*)"
#: What may follow somebody's messages where these are meant, and not something about them.
_ONLY = rf"(?P<rest>(?: (?:{_ABOUT}|to|that|in|for) .*|[ ,]+{TIME_PHRASE}(?: .*)?)?\W*)"

#: How a question asks for what was said, each from its beginning to its end. The first that fits is taken.
_FORMS = tuple(
    _LEAD + form
    for form in (
        rf"what(?: else)? {_WAS} {_PARTICIPLE} by {_WHO}{_ONLY}",
        rf"what(?: else)? {_WAS} {_PARTICIPLE}{_REST}",
        rf"{_WH}did {_WHO}{_OFTEN} {_BASE}{_REST}",
        # What one does say, and not what one is to say, or how.
        rf"(?:(?P<wh>what|which)(?P<noun>(?: \w+){{0,3}}?) )?(?:does|do) (?!(?:i|you|we) ){_WHO}{_OFTEN} {_BASE}{_REST}",
        rf"{_WH}(?:has|have|had) {_WHO}{_OFTEN} {_PARTICIPLE}{_REST}",
        rf"{_WH}(?:was|were|is|are) {_WHO}{_OFTEN} {_ING}{_REST}",
        rf"(?:which|what) (?P<who>bots?|agents?|humans?){_OFTEN} {_PAST}{_REST}",
        rf"{_NOUN}(?: {_PARTICIPLE})?(?: from| of)?(?P<rest> {TIME_PHRASE}.*)",
        rf"{_ANY}(?: that| which)? {_WHO}(?: has| have| had)?{_OFTEN} {_PAST}{_REST}",
        rf"{_ANY}(?: {_PARTICIPLE}| sent| made)? (?:by|from) {_WHO}{_ONLY}",
        (
            rf"(?:what (?:was|were|is|are) )?(?P<who>my|(?:the )?(?:bot|agent)(?=[' ])|{_OWNER}(?='s? ))(?:'s?)?"
            rf" {_NOUN}{_ONLY}"
        ),
        rf"according to {_WHO}(?P<rest>, .*)",
        rf"{_NOUN}(?P<rest> {_ABOUT} .*)",
    )
)
_WHO_SAID = rf"who(?: else)?{_OFTEN} {_PAST}{_REST}"
#: Each form has at least one of these words: most questions have none, and need no form to be made.
_NEEDED = lazy_pattern(
    rf"\b(?:{'|'.join(sorted(_CAREFUL | _MUTUAL | {form for verb in _SAID for form in verb.split()}))}"
    rf"|{_NOUN}|by|from|according)\b",
    re.IGNORECASE,
)
_FIRST = rf"({TIME_PHRASE})[, ]+(?=\w)"
#: When it was said, right behind the verb, or to whom and when.
_SOON = rf"[ ,]*(?:(?:to \w+|me|us|him|her|them|everyone|everybody|here|anything|something) )?({TIME_PHRASE})"
_SOON_TO = rf" \w+ ({TIME_PHRASE})"
_LATE = rf"(?P<topic> .+?)[ ,]+(?P<when>{PAST_PHRASE})\W*"
#: Where a topic has one of these, the time behind it may be that of what it tells, and of something to come.
_CLAUSE = sentence_pattern(
    r"\b(?:what|when|where|who|why|how|that|if|whether|will|would|should|could|can|might|may|must|did|does|do|was|were"
    r"|is|are|be|been|has|have|had|going|doing|to|after|before|during|next|tomorrow|happen\w*|\w+'(?:ll|d|re|ve|m))\b"
    r"|\b(?:for|of|from|by|in|on|at|with|about)$",
    re.IGNORECASE,
)
_TO_TOPIC = lazy_pattern(
    rf"[\s,]*(?:(?:anything|something|everything|things)(?=\W|$)\s*)?(?:(?:{_ABOUT}|of|that|if|whether|to)(?=\W|$))?\s*",
    re.IGNORECASE,
)
_TOPICAL = rf"\W*$|[ ,]+(?:about|regarding|concerning|that|anything|something|{TIME_PHRASE})"
#: Said of whatever was said; it is no topic.
_PLAIN = lazy_pattern(
    rf"(?:else|exactly|often|many times|kind of|sort of|all|things?|{_NOUN}|\s)*", re.IGNORECASE
)
_MARKS = " ?!.,;:"
#: Whoever asks so points to something, and does not want to see all there is.
_REASONS = frozenset({"when", "where", "why", "how"})
_QUESTION = lazy_pattern(
    r"(?:who|whom|whose|what|when|where|why|how|which)\b"
    r"|(?:does|do|did|is|are|was|were|can|could|would|should|has|have|will)"
    r" (?:i|you|we|he|she|it|they|there|this|that|the|any\w*|some\w*)\b",
    re.IGNORECASE,
)
_QUESTIONS = lazy_pattern(r"\bquestions?\b", re.IGNORECASE)
_BETWEEN_NAMES = lazy_pattern(r",? and |, | or ", re.IGNORECASE)
_ARTICLE = lazy_pattern(
    r"(?:the|our|any|all|some|other|those|these|both|either|your|my)(?: of the)? (?=\w)", re.IGNORECASE
)
_KINDS: dict[str, ParticipantKind] = {
    **dict.fromkeys(("bot", "bots", "agent", "agents"), "agent"),
    **dict.fromkeys(("human", "humans"), "human"),
}
_ME = frozenset({"i", "me", "my", "myself"})
#: Nobody in particular, or somebody whom only what was said before tells.
_NOT_NAMES = frozenset(
    (
        *("we", "you", "he", "she", "they", "it", "us", "him", "her", "them", "who", "one", "there", "this"),
        *("that", "everyone", "everybody", "people", "anyone", "anybody", "someone", "somebody", "nobody"),
        *("folks", "others"),
    )
)
#: With these begins no name: the question has another form than it seemed.
_NO_NAME = lazy_pattern(
    r"(?:was|were|is|are|be|been|has|have|had|did|does|do|not|happened|happens)\b", re.IGNORECASE
)
#: After these what was said is what is spoken of, not what is looked for.
_VERDICT = lazy_pattern(r" (?:was|were|is|are|has|had)\b", re.IGNORECASE)
#: A longer text is no question of one of these forms; no more than a sentence.
_LONGEST = 500


def parse_query(question: str) -> ParsedQuery:
    """Return what a question says of itself; of most questions that is nothing but their text."""
    text = " ".join(question[: _LONGEST + 1].replace("\u2019", "'").split())
    if len(question) > _LONGEST or _NEEDED.search(text) is None:
        return ParsedQuery(text=question)
    first = _compiled(_FIRST).match(text)
    said = text[first.end() :] if first else text
    for form in (*_FORMS, _WHO_SAID):
        found = _compiled(form).fullmatch(said)
        if found is not None:
            asked = (
                ParsedQuery(text=question)
                if _is_ambiguous(found)
                else _parse_form(question, found, first and first[1])
            )
            return asked if asked.has_author or asked.time_phrase else ParsedQuery(text=question)
    return ParsedQuery(text=question)


def is_question(text: str) -> bool:
    """Return whether a message asks something, by its mark at the end or its first word."""
    return text.rstrip().endswith("?") or _QUESTION.match(text.lstrip()) is not None


def is_generic_person(name: str) -> bool:
    """Return whether somebody is meant who is not named: anyone in the office, those who sail."""
    return without_article(name).lower().split()[0] in _NOT_NAMES


def without_article(name: str) -> str:
    """Return a name without what may stand before it in a sentence."""
    article = _ARTICLE.match(name)
    return name[article.end() :] if article else name


@cache
def _compiled(form: str) -> re.Pattern[str]:
    """Return what finds a form in any case; made when first needed, since all of them take a fifth of a second."""
    return sentence_pattern(form, re.IGNORECASE | re.DOTALL)


def _parse_form(question: str, form: re.Match[str], first: str | None) -> ParsedQuery:
    return _with_time(_with_authors(ParsedQuery(text=question), form), form, first)


def _is_ambiguous(form: re.Match[str]) -> bool:
    """Return whether a question of this form may after all ask for something else than what was said."""
    fields = form.groupdict()
    verb, noun, rest = (fields.get("verb") or "").lower(), fields.get("noun") or "", fields["rest"]
    is_done = verb in _CAREFUL and not (_compiled(_TOPICAL).match(rest) and _PLAIN.fullmatch(noun))
    return is_done or _VERDICT.match(rest) is not None


def _with_authors(asked: ParsedQuery, form: re.Match[str]) -> ParsedQuery:
    """Add whose words are asked for; nobody's where that is not sure."""
    fields = form.groupdict()
    if not fields.get("who") or (fields.get("verb") or "").lower() in _MUTUAL:
        return asked
    people = [name.removeprefix("@") for name in _BETWEEN_NAMES.split(fields["who"])]
    bare = [without_article(name).lower() for name in people]
    kinds = sorted({_KINDS[name] for name in bare if name in _KINDS})
    mine = any(name.lower() in _ME for name in people)
    names = [
        name
        for name, plain in zip(people, bare, strict=True)
        if plain not in _KINDS and plain not in _NOT_NAMES and name.lower() not in _ME
    ]
    # Bots and Ana together are no one kind; whoever comes with somebody unsaid is not all that is asked for.
    is_unsaid = any(name in _NOT_NAMES or _NO_NAME.match(name) for name in bare)
    if is_unsaid or (kinds and (mine or names)):
        return asked
    questions = _QUESTIONS.search(form.string[: form.start("rest")]) is not None
    return replace(asked, names=tuple(names), is_own=mine, kinds=tuple(kinds), wants_questions=questions)


def _with_time(asked: ParsedQuery, form: re.Match[str], first: str | None) -> ParsedQuery:
    """Add when it was said, and what is left."""
    fields = form.groupdict()
    rest, noun = form["rest"], fields.get("noun") or ""
    when, left, is_loose = first, rest, False
    if when is None:
        when, left, is_loose = _split_time(rest, after=fields.get("verb") or "")
    topic = _TO_TOPIC.sub("", left, count=1) if left.strip() else ""
    start = form.start("rest")
    timeless = form.string if when is None or first else form.string[:start] + left
    is_pointing = not topic.strip(_MARKS) and (fields.get("wh") or "").lower() in _REASONS
    if form.re.pattern == _WHO_SAID or is_pointing or topic.strip(_MARKS).lower() in _NOT_NAMES:
        topic = timeless
    elif not _PLAIN.fullmatch(noun):
        topic = f"{noun.strip()} {topic}"
    return replace(
        asked,
        time_phrase=when,
        is_time_loose=is_loose,
        topic=topic.strip(_MARKS),
        without_time=timeless.strip(_MARKS),
    )


def _split_time(rest: str, *, after: str) -> tuple[str | None, str, bool]:
    """Return when it was said, what is left of the text behind the verb, and whether the time is loose."""
    soon = _compiled(_SOON).match(rest)
    if soon is None and after.lower().startswith(("tell", "told", "ask")):
        soon = _compiled(_SOON_TO).match(rest)
    if soon is not None:
        return soon[1], rest[: soon.start(1)].rstrip(" ,") + rest[soon.end(1) :], False
    late = _compiled(_LATE).fullmatch(rest)
    if late is None or _CLAUSE.search(_TO_TOPIC.sub("", late["topic"], count=1)):
        return None, rest, False
    return late["when"], late["topic"], True


def _time_bound(name: str, time: TimeLike | None, now: datetime) -> TimeRange | None:
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise BadInput(name, "must say its time zone")
        return TimeRange(since=time, until=time)
    found = None if time is None else parse_time_range(time, now)
    if time is not None and (found is None or (found.since or found.until) is None):
        raise BadInput(
            name,
            f"{time!r} is no time; write 2024-03-05, 2024-03-05T14:30, yesterday, last week or 3 days ago",
        )
    return found


def _minute(moment: datetime) -> str:
    is_day = not (moment.hour or moment.minute or moment.second)
    return f"{moment:%Y-%m-%d}" if is_day else f"{moment:%Y-%m-%d %H:%M}"
