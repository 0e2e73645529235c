"""Parses times as people write them: yesterday, last week, since 5 March 2024.

A day, week, month or year is a range that includes all of it, by the clock of `now`. Weeks begin on Monday. If a month
or date has no year, it is the latest one that has begun.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from roomlore.domain.patterns import MAX_SENTENCE_LENGTH, lazy_pattern

MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july", "august", "september"),
    *("october", "november", "december"),
)
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
NUMBERS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve"),
)
#: Phrases with a vague number, and the largest number that each can mean.
VAGUE_COUNTS = {"couple of": 3, "few": 7}
DAY = timedelta(days=1)
#: First and last hour of each part of a day.
PARTS = {"morning": (0, 12), "afternoon": (12, 18), "evening": (17, 24), "night": (18, 30)}
EXACT = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1)}
SHORT = {"h": "hour", "d": "day", "w": "week"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange:
    """A time range: since <= moment < until. None means that the range is open on this side."""

    since: datetime | None = None
    until: datetime | None = None


Fields = Mapping[str, str]
PhraseRule = tuple[str, Callable[[Fields, datetime], TimeRange | None]]

_COUNT = rf"(?P<count>\d{{1,3}}|an?|{'|'.join(NUMBERS[1:])})"
_MONTH = rf"(?P<month>{'|'.join(f'{name}|{name[:3]}' for name in MONTHS if name != 'may')}|may|sept)\.?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_UNIT = r"(?P<unit>minute|hour|day|week|month|year)"
_NUMBER = r"(?P<number>\d{1,2})(?:st|nd|rd|th)?"
_CLOCK = r"[t ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:z|[+-]\d\d:?\d\d)?"


def parse_time_range(words: str, now: datetime) -> TimeRange | None:
    """Return the time range of a phrase such as "since Monday" or "2024-03-05", by the clock of `now`.

    Return None if the phrase is no time.
    """
    phrase = " ".join(words.lower().split())
    try:
        for pattern, rule in _BOUND_RULES:
            bound = lazy_pattern(pattern, most=MAX_SENTENCE_LENGTH).fullmatch(phrase)
            if bound is not None:
                return rule(bound.groupdict(), now)
        return _point(phrase, now)
    except (ValueError, OverflowError):
        # There is no such date, for example 30 February or year 0.
        return None


def _point(phrase: str, now: datetime) -> TimeRange | None:
    for pattern, rule in (*_FREE_RULES, *_NAMED_RULES, *_SHORT_RULES):
        found = lazy_pattern(pattern, most=MAX_SENTENCE_LENGTH).fullmatch(phrase)
        if found is not None:
            return rule(found.groupdict(), now)
    return None


# Relative to now


def _today(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def _unit_start(unit: str, now: datetime, back: int) -> datetime:
    """Return the start of the day, week, month or year `back` units ago."""
    today = _today(now)
    match unit:
        case "day":
            return today - back * DAY
        case "week":
            return today - (today.weekday() + 7 * back) * DAY
        case "month":
            year, month = divmod(today.year * 12 + today.month - 1 - back, 12)
            return today.replace(year=year, month=month + 1, day=1)
        case _:
            return today.replace(year=today.year - back, month=1, day=1)


def _whole_unit(unit: str, now: datetime, back: int) -> TimeRange:
    begin = _unit_start(unit, now, back)
    return TimeRange(since=begin, until=_unit_end(unit, begin))


def _unit_end(unit: str, begin: datetime) -> datetime:
    """Return the end of the day, week, month or year that begins at this time."""
    try:
        return _unit_start(unit, begin, -1)
    except (ValueError, OverflowError):
        return datetime.max.replace(tzinfo=begin.tzinfo)


def _day(fields: Fields, now: datetime) -> TimeRange:
    back = {"today": 0, "yesterday": 1}.get(fields["day"], 2)
    return _whole_unit("day", now, back)


def _part_of_day(fields: Fields, now: datetime) -> TimeRange:
    name = fields["part"] or fields["night"]
    is_past = name == "last night" or (fields["of"] or "") == "yesterday"
    first, last = PARTS.get(name, PARTS["night" if name == "last night" else "evening"])
    begin = _today(now) - is_past * DAY
    return TimeRange(since=begin + timedelta(hours=first), until=begin + timedelta(hours=last))


def _calendar_unit(fields: Fields, now: datetime) -> TimeRange:
    back = 0 if fields["which"] == "this" else 1
    if fields["unit"] != "weekend":
        return _whole_unit(fields["unit"], now, back)
    # On a weekend, "last weekend" is the weekend before.
    monday = _unit_start("week", now, 0 if back == 0 else 1)
    return TimeRange(since=monday + 5 * DAY, until=monday + 7 * DAY)


def _rolling_range(fields: Fields, now: datetime) -> TimeRange:
    count = _number(fields.get("few") or fields.get("count") or "one")
    unit = SHORT.get(fields["unit"], fields["unit"])
    if unit in EXACT:
        return TimeRange(since=now - count * EXACT[unit])
    if unit in {"day", "week"}:
        return TimeRange(since=_today(now - count * (7 if unit == "week" else 1) * DAY))
    year, month = divmod(now.year * 12 + now.month - 1 - count * (12 if unit == "year" else 1), 12)
    # That month may have no 31st; every month has a 28th.
    return TimeRange(since=_today(now).replace(year=year, month=month + 1, day=min(now.day, 28)))


def _ago(fields: Fields, now: datetime) -> TimeRange:
    count, unit = _number(fields["count"]), fields["unit"]
    if unit in EXACT:
        # "Two hours ago" is not exact to the minute.
        return TimeRange(since=now - 1.5 * count * EXACT[unit], until=now - 0.5 * count * EXACT[unit])
    return _whole_unit(unit, now, count)


def _weekday(fields: Fields, now: datetime) -> TimeRange | None:
    today, which = _today(now), fields.get("which") or ""
    back = (today.weekday() - DAYS.index(fields["weekday"])) % 7
    if which.startswith("this") and "past" not in which:
        back = today.weekday() - DAYS.index(fields["weekday"])
    elif which and back == 0:
        back = 7
    begin = today - back * DAY
    return None if back < 0 else TimeRange(since=begin, until=_unit_end("day", begin))


def _number(word: str) -> int:
    if word in VAGUE_COUNTS:
        return VAGUE_COUNTS[word]
    if word.isdecimal():
        return int(word)
    return 1 if word in {"a", "an"} else NUMBERS.index(word)


# Named months and dates


def _month(fields: Fields, now: datetime) -> TimeRange:
    number = _month_number(fields["month"])
    this = _unit_start("month", now, 0)
    year = int(fields["year"]) if fields["year"] else this.year - (number > this.month)
    begin = this.replace(year=year, month=number)
    return TimeRange(since=begin, until=_unit_end("month", begin))


def _last_month(fields: Fields, now: datetime) -> TimeRange:
    """Return the range of a phrase such as "last March" or "this March". "last" never means the current month."""
    number, this = _month_number(fields["month"]), _unit_start("month", now, 0)
    year = this.year - (number > this.month if fields["which"] == "this" else number >= this.month)
    begin = this.replace(year=year, month=number)
    return TimeRange(since=begin, until=_unit_end("month", begin))


def _date(fields: Fields, now: datetime) -> TimeRange:
    today = _today(now)
    month, number = _month_number(fields["month"]), int(fields["number"])
    year = int(fields["year"]) if fields["year"] else today.year
    begin = today.replace(year=year, month=month, day=number)
    if not fields["year"] and begin > today:
        begin = begin.replace(year=year - 1)
    return TimeRange(since=begin, until=_unit_end("day", begin))


def _year(fields: Fields, now: datetime) -> TimeRange:
    begin = _today(now).replace(year=int(fields["year"]), month=1, day=1)
    return TimeRange(since=begin, until=begin.replace(year=begin.year + 1))


def _iso(fields: Fields, now: datetime) -> TimeRange:
    written = fields["iso"].upper()
    if len(written) == len("2024-03"):
        begin = datetime.fromisoformat(f"{written}-01").replace(tzinfo=now.tzinfo)
        return TimeRange(since=begin, until=_unit_end("month", begin))
    begin = datetime.fromisoformat(written)
    begin = begin if begin.tzinfo else begin.replace(tzinfo=now.tzinfo)
    is_day = len(written) == len("2024-03-05")
    return TimeRange(since=begin, until=_unit_end("day", begin) if is_day else begin)


def _month_number(name: str) -> int:
    return next(number for number, month in enumerate(MONTHS, start=1) if month.startswith(name[:3]))


# Phrases around other phrases


def _bound(fields: Fields, now: datetime, *, is_start: bool, at_end: bool) -> TimeRange | None:
    """Return a range that is open at one side. Its other side is the start or the end of another range."""
    other = _point(fields.get("first") or fields["on"], now)
    moment = other and (other.until if at_end else other.since)
    if moment is None:
        return None
    return TimeRange(since=moment) if is_start else TimeRange(until=moment)


def _between(fields: Fields, now: datetime) -> TimeRange | None:
    first, last = _point(fields["first"], now), _point(fields["last"], now)
    if first is None or last is None or first.since is None or last.until is None:
        return None
    return TimeRange(since=first.since, until=last.until) if first.since < last.until else None


#: Phrases that are clearly a time anywhere in a sentence.
_FREE_RULES: tuple[PhraseRule, ...] = (
    (
        r"(?:earlier |late |later )?(?:(?P<of>this|yesterday) (?P<part>morning|afternoon|evening)|(?P<night>tonight|last night))",
        _part_of_day,
    ),
    (r"(?:earlier )?(?P<day>today|yesterday|(?:the )?day before yesterday)", _day),
    (
        rf"(?:the |these )?(?:last|past|previous) (?:{_COUNT}|(?:a )?(?P<few>couple of|few)) {_UNIT}s?",
        _rolling_range,
    ),
    (rf"(?:the (?:last|past)|past) {_UNIT}", _rolling_range),
    (
        r"(?:earlier |late |later )?(?P<which>last|this|previous) (?P<unit>weekend|week|month|year)",
        _calendar_unit,
    ),
    (rf"{_COUNT} {_UNIT}s? ago", _ago),
    (rf"(?P<which>last|this|this past|past) (?P<weekday>{'|'.join(DAYS)})", _weekday),
    (rf"(?P<which>last|this) {_MONTH}", _last_month),
)
#: Phrases that are a time in a sentence only after a preposition.
_NAMED_RULES: tuple[PhraseRule, ...] = (
    (rf"(?P<iso>\d{{4}}-\d\d-\d\d(?:{_CLOCK})?|\d{{4}}-\d\d)", _iso),
    (rf"(?:the )?{_NUMBER}(?: of)? {_MONTH}(?:,? {_YEAR})?", _date),
    (rf"{_MONTH} (?:the )?{_NUMBER}(?:,? {_YEAR})?", _date),
    (rf"{_MONTH}(?: (?:of )?{_YEAR})?", _month),
    (_YEAR, _year),
    (rf"(?P<weekday>{'|'.join(DAYS)})", _weekday),
)
#: Abbreviations that are read only in filters, not in sentences.
_SHORT_RULES: tuple[PhraseRule, ...] = ((r"(?P<count>\d{1,3})(?P<unit>[hdw])", _rolling_range),)
_BOUND_RULES: tuple[PhraseRule, ...] = (
    (r"between (?P<first>.+) and (?P<last>.+)", _between),
    (r"from (?P<first>.+) (?:to|until|till|through) (?P<last>.+)", _between),
    (
        r"(?:ever )?since (?P<first>.+)|from (?P<on>.+) on(?:wards?)?",
        partial(_bound, is_start=True, at_end=False),
    ),
    (r"after (?P<first>.+)", partial(_bound, is_start=True, at_end=True)),
    (r"(?:until|till|up to|through) (?P<first>.+)", partial(_bound, is_start=False, at_end=True)),
    (r"before (?P<first>.+)", partial(_bound, is_start=False, at_end=False)),
    (r"(?:on|in|during|over|within|from|back in|at) (?P<first>.+)", lambda f, now: _point(f["first"], now)),
)


def _any_rule(rules: tuple[PhraseRule, ...]) -> str:
    """Return a pattern, without named groups, that matches any of the rules."""
    return "(?:" + "|".join(re.sub(r"\(\?P<\w+>", "(?:", pattern) for pattern, _ in rules) + ")"


_FREE, _POINT = _any_rule(_FREE_RULES), f"(?:{_any_rule(_FREE_RULES)}|{_any_rule(_NAMED_RULES)})"
_ENDS = r"(?!\w|'s\b|-\d)"
#: Phrases that count back from now ("last week"), or that are open towards now ("since Monday"). Messages about such a
#: time are hardly ever older than the time.
PAST_PHRASE = (
    rf"(?<![\w-])(?:(?:ever )?since {_POINT}"
    rf"|(?!(?:earlier |late |later )?(?:this|today|tonight)\b)(?:in |over |during |within )?{_FREE}){_ENDS}"
)
#: Any time within a sentence.
TIME_PHRASE = (
    rf"(?<![\w-])(?:between {_POINT} and {_POINT}|from {_POINT} (?:to|until|till|through) {_POINT}"
    rf"|(?:ever )?since {_POINT}|from {_POINT} on(?:wards?)?"
    rf"|(?:after|until|till|up to|before) {_POINT}"
    rf"|(?:in|over|during|within) {_FREE}|{_FREE}|(?:back )?(?:on|in|during) {_any_rule(_NAMED_RULES)}"
    rf"|{_any_rule(_NAMED_RULES[:1])}){_ENDS}"
)
