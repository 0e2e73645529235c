"""Reads from a question who said something and when, by patterns and without a model.

Filters are read only from two forms of questions. One form asks who said something ("what did Ana say about …",
"messages from bots", "my questions about …"). The other form asks when something was said ("what was said last week
about …"). A name or a time that is merely mentioned is not a filter. If in doubt, no filter is read, because a wrong
filter loses answers.
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

TimeLike = datetime | str
PARTICIPANT_KINDS = get_args(ParticipantKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The filters of a search; a message must pass all of them."""

    #: Authors by name, account, id or the beginning of an id, or `me`. Each stands for all accounts of a person. A
    #: message by any of these people passes.
    by: Sequence[str] = ()
    #: Kinds of authors. A message by an author of any of these kinds passes.
    kinds: Sequence[ParticipantKind] = ()
    #: A time, a date, or a phrase such as `yesterday`, `last week`, `3 days ago`.
    since: TimeLike | None = None
    #: The end of the time range. A day, week, month or year is included as a whole; a time is exact.
    until: TimeLike | None = None
    #: An id or its beginning, or `message:` with an id or external id of a message in the conversation.
    conversation: str | None = None
    #: True: only messages with a visible answer. False: only questions without a visible answer.
    answered: bool | None = None
    #: Whether to search for the question as it is, without reading filters from it.
    literal: bool = False

    def time_range(self, now: datetime) -> TimeRange:
        """Return the time range, by the clock of `now`.

        Raises:
            BadInput: `since` or `until` is no time, or the end is not after the beginning.
        """
        since, until = _time_bound("since", self.since, now), _time_bound("until", self.until, now)
        start, end = since and since.since, until and (until.until or until.since)
        if start is not None and end is not None and start >= end:
            raise BadInput("until", "must be after since")
        return TimeRange(since=start, until=end)

    def check(self) -> None:
        """Check that all kinds of authors are known.

        Raises:
            BadInput: a kind is unknown.
        """
        for kind in self.kinds:
            if kind not in PARTICIPANT_KINDS:
                raise BadInput("kind", f"{kind!r} is none of {', '.join(PARTICIPANT_KINDS)}")


NO_FILTERS = Filters()


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedFilters:
    """The filters that were read from a question. The words of the filters are not searched for."""

    #: The authors' names, as the viewer knows them.
    by: Sequence[str]
    kinds: Sequence[ParticipantKind]
    since: datetime | None
    until: datetime | None
    #: The text that was searched for; empty if the question consists of filters only.
    words: str
    #: Names in the question that belong to nobody whom the viewer knows. If there are any, no author filter applies.
    unknown: Sequence[str] = ()

    def unknown_names_note(self) -> str:
        """Return a sentence about the unknown names; empty if there are none."""
        names = " or ".join(f"\u201c{safe_name(name)}\u201d" for name in self.unknown)
        return names and f"Nobody called {names} is known here; the search covers all authors."

    def summary(self) -> str:
        """Return the filters in one line, for example "by Ana, since 2024-03-04, before 2024-03-11".

        The result is empty if there are no filters.
        """
        authors = [*map(safe_name, self.by), *(f"{kind}s" for kind in self.kinds)]
        parts = [f"by {' or '.join(authors)}"] if authors else []
        parts += [f"since {_minute(self.since)}"] if self.since else []
        parts += [f"before {_minute(self.until)}"] if self.until else []
        return ", ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedQuery:
    """The author, the time and the topic that a question states."""

    text: str
    #: Names of authors as the question writes them. People with these names need not exist.
    names: Sequence[str] = ()
    #: Whether the question asks for the viewer's own messages.
    is_own: bool = False
    kinds: Sequence[ParticipantKind] = ()
    #: Whether the question asks only for questions of the author.
    wants_questions: bool = False
    time_phrase: str | None = None
    #: Whether the time may belong to the topic rather than to the message. The time range then has no end, so only
    #: messages before the time are excluded.
    is_time_loose: bool = False
    #: The text of the question without author and time.
    topic: str = ""
    without_time: str = ""

    @property
    def has_author(self) -> bool:
        """Whether the question asks for the messages of somebody."""
        return bool(self.names or self.is_own or self.kinds)

    def time_range(self, now: datetime) -> TimeRange | None:
        """Return the time range, relative to `now`.

        Return None if the question has no time range, or one that is empty or in the future.
        """
        found = None if self.time_phrase is None else parse_time_range(self.time_phrase, now)
        if found is None or (found.since is not None and found.since > now):
            return None
        if found.since is not None and found.until is not None and found.since >= found.until:
            return None
        return TimeRange(since=found.since) if self.is_time_loose else found

    def search_text(self, *, author: bool, time: bool) -> str:
        """Return the text to search for.

        `author` and `time` say which of the two became filters. The words of these filters are left out.
        """
        if (self.time_phrase is not None and not time) or not (author or time):
            return self.text
        return self.without_time if self.has_author and not author else self.topic

    def search_texts(self) -> set[str]:
        """Return the results of `search_text` for all combinations of its arguments.

        An empty text means that nothing is searched for.
        """
        both = (False, True)
        return {self.search_text(author=author, time=time) for author in both for time in both}


#: Verbs of saying: base, past, participle, -ing. Their subject is the author, whatever follows the verb.
_SAID = (
    *("say said said saying", "mention mentioned mentioned mentioning", "tell told told telling"),
    *("ask asked asked asking", "reply replied replied replying", "comment commented commented commenting"),
    *("announce announced announced announcing", "suggest suggested suggested suggesting"),
    *("propose proposed proposed proposing", "claim claimed claimed claiming"),
)
#: Verbs of writing. They may also be about letters, so a topic must follow them.
_WRITTEN = (
    *("write wrote written writing", "post posted posted posting", "answer answered answered answering"),
    *("explain explained explained explaining",),
)
#: Verbs of something that several people do together. So they state a time but no author.
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
#: Words that may follow "Ana's messages" if the question asks for these messages and not for something about them.
_ONLY = rf"(?P<rest>(?: (?:{_ABOUT}|to|that|in|for) .*|[ ,]+{TIME_PHRASE}(?: .*)?)?\W*)"

#: Patterns of whole questions. The first pattern that matches is used.
_FORMS = tuple(
    _LEAD + form
    for form in (
        rf"what(?: else)? {_WAS} {_PARTICIPLE} by {_WHO}{_ONLY}",
        rf"what(?: else)? {_WAS} {_PARTICIPLE}{_REST}",
        rf"{_WH}did {_WHO}{_OFTEN} {_BASE}{_REST}",
        # "What does Ana say", but not "what do I say".
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
#: Each form contains one of these words. Most questions contain none of them, so no form needs to be compiled.
_NEEDED = lazy_pattern(
    rf"\b(?:{'|'.join(sorted(_CAREFUL | _MUTUAL | {form for verb in _SAID for form in verb.split()}))}"
    rf"|{_NOUN}|by|from|according)\b",
    re.IGNORECASE,
)
_FIRST = rf"({TIME_PHRASE})[, ]+(?=\w)"
#: A time directly after the verb, or after an addressee.
_SOON = rf"[ ,]*(?:(?:to \w+|me|us|him|her|them|everyone|everybody|here|anything|something) )?({TIME_PHRASE})"
_SOON_TO = rf" \w+ ({TIME_PHRASE})"
_LATE = rf"(?P<topic> .+?)[ ,]+(?P<when>{PAST_PHRASE})\W*"
#: Words in the topic of a question. If the topic contains one of them, a time after the topic is not read as a filter,
#: because the time may belong to the topic.
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
#: Words that are too general to be a topic.
_PLAIN = lazy_pattern(
    rf"(?:else|exactly|often|many times|kind of|sort of|all|things?|{_NOUN}|\s)*", re.IGNORECASE
)
_MARKS = " ?!.,;:"
#: Question words that ask for one message rather than for all messages.
_REASONS = frozenset({"when", "where", "why", "how"})
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
#: Pronouns and words for nobody in particular.
_NOT_NAMES = frozenset(
    (
        *("we", "you", "he", "she", "they", "it", "us", "him", "her", "them", "who", "one", "there", "this"),
        *("that", "everyone", "everybody", "people", "anyone", "anybody", "someone", "somebody", "nobody"),
        *("folks", "others"),
    )
)
#: Words with which no name begins. If one of them follows, the form does not apply.
_NO_NAME = lazy_pattern(
    r"(?:was|were|is|are|be|been|has|have|had|did|does|do|not|happened|happens)\b", re.IGNORECASE
)
#: If one of these words follows, the question is about the message, and does not ask for the message.
_VERDICT = lazy_pattern(r" (?:was|were|is|are|has|had)\b", re.IGNORECASE)
#: The maximum number of characters. No form is tried on a longer text.
_LONGEST = 500


def parse_query(question: str) -> ParsedQuery:
    """Return what a question states about author and time. For most questions, this is only the text."""
    text = " ".join(question[: _LONGEST + 1].replace("\u2019", "'").split())
    if len(question) > _LONGEST or _NEEDED.search(text) is None:
        return ParsedQuery(text=question)
    first = _compiled(_FIRST).match(text)
    rest = text[first.end() :] if first else text
    matches = (_compiled(form).fullmatch(rest) for form in (*_FORMS, _WHO_SAID))
    form = next((match for match in matches if match is not None), None)
    if form is None or _is_ambiguous(form):
        return ParsedQuery(text=question)
    parsed = _with_time(_with_authors(ParsedQuery(text=question), form), form, first and first[1])
    return parsed if parsed.has_author or parsed.time_phrase else ParsedQuery(text=question)


def is_generic_person(name: str) -> bool:
    """Return whether a text stands for people in general and is no name: "anyone in the office", "those who sail"."""
    return without_article(name).lower().split()[0] in _NOT_NAMES


def without_article(name: str) -> str:
    """Return a name without an article or a similar word before it."""
    article = _ARTICLE.match(name)
    return name[article.end() :] if article else name


@cache
def _compiled(form: str) -> re.Pattern[str]:
    """Return the compiled pattern. Compiling all forms would take 0.2 seconds, so each is compiled when first used."""
    return sentence_pattern(form, re.IGNORECASE | re.DOTALL)


def _is_ambiguous(form: re.Match[str]) -> bool:
    """Return whether a question of this form may ask for something other than messages."""
    fields = form.groupdict()
    verb, noun, rest = (fields.get("verb") or "").lower(), fields.get("noun") or "", fields["rest"]
    is_done = verb in _CAREFUL and not (_compiled(_TOPICAL).match(rest) and _PLAIN.fullmatch(noun))
    return is_done or _VERDICT.match(rest) is not None


def _with_authors(parsed: ParsedQuery, form: re.Match[str]) -> ParsedQuery:
    """Return the parsed question with the authors of the form. If in doubt, return it without authors."""
    fields = form.groupdict()
    if not fields.get("who") or (fields.get("verb") or "").lower() in _MUTUAL:
        return parsed
    people = [name.removeprefix("@") for name in _BETWEEN_NAMES.split(fields["who"])]
    bare = [without_article(name).lower() for name in people]
    kinds = sorted({_KINDS[name] for name in bare if name in _KINDS})
    is_own = any(name.lower() in _ME for name in people)
    names = [
        name
        for name, plain in zip(people, bare, strict=True)
        if plain not in _KINDS and plain not in _NOT_NAMES and name.lower() not in _ME
    ]
    # "Bots and Ana", or "Ana and everybody", cannot be expressed as one filter.
    is_unnamed = any(name in _NOT_NAMES or _NO_NAME.match(name) for name in bare)
    if is_unnamed or (kinds and (is_own or names)):
        return parsed
    questions = _QUESTIONS.search(form.string[: form.start("rest")]) is not None
    return replace(parsed, names=tuple(names), is_own=is_own, kinds=tuple(kinds), wants_questions=questions)


def _with_time(parsed: ParsedQuery, form: re.Match[str], first: str | None) -> ParsedQuery:
    """Return the parsed question with the time of the form. Its topic and `without_time` leave this time out."""
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
        parsed,
        time_phrase=when,
        is_time_loose=is_loose,
        topic=topic.strip(_MARKS),
        without_time=timeless.strip(_MARKS),
    )


def _split_time(rest: str, *, after: str) -> tuple[str | None, str, bool]:
    """Return the time phrase in `rest`, the text around it, and whether the time may belong to the topic.

    `rest` is the text after the verb `after`. The time phrase is None if there is none.
    """
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
