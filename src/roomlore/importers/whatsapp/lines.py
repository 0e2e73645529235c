r"""Reads the lines of WhatsApp's exported chats: the date and time before each message, in any language.

Every language has its own order, separators and digits. A line begins a message if it has the same shape as most of
the dated lines of its file. So a dated line that somebody pasted into a message usually stays in that message.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Literal
from unicodedata import category

from roomlore.domain.patterns import lazy_pattern

#: Invisible marks for the direction of text. WhatsApp begins its own words with U+200E.
MARK = "\u200e"
_DIRECTION = "\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\ufeff"
_SPACES = "\u00a0\u2007\u2009\u202f"
_WITHOUT_MARKS = dict.fromkeys(
    [0x200E, 0x200F, 0x061C, 0xFEFF, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
)
_PLAIN = _WITHOUT_MARKS | dict.fromkeys(map(ord, _SPACES), " ")

_BRACKETED = lazy_pattern(rf"[{_DIRECTION}]{{0,4}}\[(?P<stamp>[^\[\]\n]{{8,48}})\][ \xa0]?(?P<rest>[^\n]*)")
_DASHED = lazy_pattern(
    rf"[{_DIRECTION}]{{0,4}}(?P<stamp>\d[^\n]{{7,47}}?)[ {_SPACES}][-\u2013\u2014][ {_SPACES}](?P<rest>[^\n]*)"
)
_DATE = lazy_pattern(r"(?<!\d)(?P<a>\d{1,4})(?P<sep> ?[./-] ?)(?P<b>\d{1,2})(?P=sep)(?P<c>\d{1,4})(?!\d)")
_TIME = lazy_pattern(
    r"(?<!\d)(?P<hour>\d{1,2})(?P<sep>[:.])(?P<minute>\d\d)(?:(?P=sep)(?P<second>\d\d))?(?!\d)"
)
_DIGIT = lazy_pattern(r"\d")
#: The most letters beside date and time: "klo", "p. m.", "de la tarde".
_MAX_WORDS = 16
_CENTURY = 2000
_YEAR_DIGITS = 4
_SHORT_YEAR = 2
#: Years of the Thai calendar are 543 ahead.
_BUDDHIST, _AHEAD = 2400, 543
_NOON = 12

Period = Literal["", "am", "pm"]
#: The marks of 12-hour clocks, in small letters without dots, quotes and spaces.
_AM = frozenset(
    "am vorm vm fm dop ap de πμ sa öö pd pg ص قظ قبلازظهر 上午 午前 오전 凌晨 早上 清晨 पूर्वाह्न मपू முற்பகல் לפנהצ "
    "ก่อนเที่ยง проб дп претпладне ಪೂರ್ವಾಹ್ನ ਪੂਦੁ".split()
)
_PM = frozenset(
    "pm nachm nm em odp ip du μμ ch ös md ptg م بظ بعدازظهر 下午 午後 오후 中午 晚上 傍晚 अपराह्न मउ பிற்பகல் אחהצ "
    "หลังเที่ยง слоб пп попладне ಅಪರಾಹ್ನ ਬਾਦੁ".split()
)

#: The order of the three numbers of a date.
DateOrder = Literal["dmy", "mdy", "ymd"]
DATE_ORDERS: tuple[DateOrder, ...] = ("dmy", "mdy", "ymd")
#: What the numbers of a date mean: the places of year, month and day.
_PLACES: dict[DateOrder, tuple[int, int, int]] = {"dmy": (2, 1, 0), "mdy": (2, 0, 1), "ymd": (0, 1, 2)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """The date and time before a message, as written. The order of the date is not known yet."""

    numbers: tuple[int, int, int]
    hour: int
    minute: int
    second: int | None
    #: Where the year of four digits is: 0 or 2. None if the year has two digits.
    long_year: int | None
    separator: str
    #: Whether a mark such as PM is beside the time. The hour counts it already.
    is_12_hours: bool
    #: Whether words beside the time are not known. They may tell the half of the day.
    has_unknown_words: bool
    #: Whether the mark is written AM or PM, as in the United States.
    has_capitals: bool
    #: Whether a number of the date has a leading zero.
    is_padded: bool

    @property
    def key(self) -> str:
        """Date and time for ids. It does not depend on the order of the date."""
        date = "-".join(f"{number % 100:02}" for number in sorted(n % 100 for n in self.numbers))
        second = "" if self.second is None else f":{self.second:02}"
        return f"{date}T{self.hour:02}:{self.minute:02}{second}"

    def moment(self, order: DateOrder) -> datetime | None:
        """Return the wall-clock time; None if there is no such day or time."""
        year, month, day = (self.numbers[place] for place in _PLACES[order])
        year += _CENTURY if self.long_year is None else -_AHEAD if year > _BUDDHIST else 0
        try:
            return datetime(year, month, day, self.hour, self.minute, self.second or 0)  # noqa: DTZ001  a clock on a wall
        except ValueError:
            return None

    def allows(self, order: DateOrder) -> bool:
        """Return whether the year may be where the order has it."""
        return self.long_year is None or _PLACES[order][0] == self.long_year


#: What all dated lines of a file have in common.
Shape = tuple[bool, str, int | None, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadLine:
    """A line that begins with date and time."""

    stamp: Stamp
    #: The line after date and time.
    rest: str
    shape: Shape


def read_head(line: str) -> HeadLine | None:
    """Return the date, time and rest of a line; None if the line does not begin with a date and time."""
    match = _BRACKETED.match(line) or _DASHED.match(line)
    if match is None:
        return None
    stamp = _stamp(match["stamp"].translate(_PLAIN))
    if stamp is None:
        return None
    shape = (match.re.pattern == _BRACKETED.pattern, stamp.separator, stamp.long_year, stamp.second is None)
    return HeadLine(stamp=stamp, rest=line[match.start("rest") :], shape=shape)


def _stamp(text: str) -> Stamp | None:
    date = _DATE.search(text)
    if date is None:
        return None
    lengths = [len(date[part]) for part in ("a", "b", "c")]
    if lengths[0] not in {1, _SHORT_YEAR, _YEAR_DIGITS} or lengths[2] > _YEAR_DIGITS or lengths[2] == 3:  # noqa: PLR2004
        return None
    if lengths[0] == lengths[2] == _YEAR_DIGITS:
        return None
    left = f"{text[: date.start()]} {text[date.end() :]}"
    time = _TIME.search(left)
    words = f"{left[: time.start()]} {left[time.end() :]}".strip(" ,،.") if time else ""
    if time is None or len(words) > _MAX_WORDS or _DIGIT.search(words):
        return None
    period = _period(words)
    return Stamp(
        numbers=(int(date["a"]), int(date["b"]), int(date["c"])),
        hour=_hour(int(time["hour"]), period),
        minute=int(time["minute"]),
        second=int(time["second"]) if time["second"] else None,
        long_year=0 if lengths[0] == _YEAR_DIGITS else 2 if lengths[2] == _YEAR_DIGITS else None,
        separator=date["sep"].strip(),
        is_12_hours=bool(period),
        has_unknown_words=bool(words) and not period,
        has_capitals=words in {"AM", "PM"},
        is_padded=any(int(date[part][0]) == 0 for part in ("a", "b")),
    )


def _period(words: str) -> Period:
    key = "".join(letter for letter in words.casefold() if letter.isalpha() or category(letter)[0] == "M")
    return "am" if key in _AM else "pm" if key in _PM else ""


def _hour(hour: int, period: Period) -> int:
    if period == "pm" and hour < _NOON:
        return hour + _NOON
    return 0 if period == "am" and hour == _NOON else hour


def bare(text: str) -> str:
    """Return a text without the invisible marks and spaces at its ends."""
    return text.strip(f" {_SPACES}{MARK}\u200f\u061c\u202a\u202b\u202c\ufeff")


@dataclass(slots=True)
class _OrderTrial:
    """How well an order of dates fits the lines so far."""

    impossible: int = 0
    steps_back: int = 0
    last: datetime | None = None


@dataclass(slots=True)
class DateOrderSurvey:
    """Finds the order of the dates of a file from all its lines."""

    _trials: dict[DateOrder, _OrderTrial] = field(
        default_factory=lambda: {order: _OrderTrial() for order in DATE_ORDERS}
    )
    _is_american: bool = True
    #: The last date, and how often each of its numbers has changed.
    _numbers: tuple[int, int, int] | None = None
    _changes: list[int] = field(default_factory=lambda: [0, 0, 0])

    def add(self, stamp: Stamp) -> None:
        """Count a line."""
        self._is_american &= stamp.separator == "/" and stamp.has_capitals and not stamp.is_padded
        for place, number in enumerate(stamp.numbers):
            self._changes[place] += self._numbers is not None and self._numbers[place] != number
        self._numbers = stamp.numbers
        for order, trial in self._trials.items():
            moment = stamp.moment(order) if stamp.allows(order) else None
            if moment is None:
                trial.impossible += 1
                continue
            trial.steps_back += trial.last is not None and moment < trial.last
            trial.last = moment

    def order(self) -> tuple[DateOrder, bool]:
        """Return the order with the fewest impossible dates and steps back, and whether it is only assumed."""
        faults = {order: (trial.impossible, trial.steps_back) for order, trial in self._trials.items()}
        best: list[DateOrder] = [
            order for order in self._preference() if faults[order] == min(faults.values())
        ]
        # A year of two digits comes first only if the number at the end changes like a day.
        if len(best) > 1 and "ymd" in best:
            is_year_first = self._changes[2] > self._changes[0]
            best = [order for order in best if (order == "ymd") == is_year_first]
        return best[0], len(best) > 1

    def _preference(self) -> Sequence[DateOrder]:
        """Return the orders, the most likely first: the day changes more often than the month.

        If both change alike, the day is first, except with a 12-hour clock as in the United States.
        """
        first, second, _ = self._changes
        is_month_first = second > first if abs(first - second) > 1 else self._is_american
        return ("mdy", "dmy", "ymd") if is_month_first else DATE_ORDERS


def in_zone(shown: datetime, zone: tzinfo, last: datetime | None) -> datetime | None:
    """Return the moment of a wall-clock time in UTC; None if it is out of range.

    In the hour that is repeated in autumn, a time before the last moment belongs to the second pass.
    """
    try:
        first = shown.replace(tzinfo=zone).astimezone(UTC)
        again = shown.replace(tzinfo=zone, fold=1).astimezone(UTC)
    except OverflowError:
        return None
    is_second_pass = last is not None and first < last <= again and again - first <= timedelta(hours=2)
    return again if is_second_pass else first
