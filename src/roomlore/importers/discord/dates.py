"""Reads the local dates of DiscordChatExporter, which depend on the language of the computer that exported.

Whether the day or the month comes first shows only in the whole file: some date has a number above 12, or the messages
are in order only one way, or the id of a message states its time. A date that still has two readings is not read.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import Literal

from roomlore.domain.patterns import lazy_pattern
from roomlore.importers.reading.fields import MalformedRecord, iso_precision, parse_iso_time

Order = Literal["dmy", "mdy", "ymd"]
ORDERS: tuple[Order, ...] = ("dmy", "mdy", "ymd")
#: Local times differ from UTC by at most this.
_FARTHEST_ZONE = timedelta(hours=15)
_FIRST_YEAR, _LAST_YEAR = 2010, 2100
_CENTURY = 2000
_HOURS = 12
_MAX_LENGTH = 100
_CLOCK = lazy_pattern(r"(?<![\d:])(\d{1,2}):(\d\d)(?::(\d\d)(?:[.,]\d{1,7})?)?(?![\d:])", most=_MAX_LENGTH)
_DOTTED_CLOCK = lazy_pattern(r"(?<=\s)(\d{1,2})\.(\d\d)(?:\.(\d\d))?$", most=_MAX_LENGTH)
_NUMBER = lazy_pattern(r"\d+", most=_MAX_LENGTH)
_WORD = lazy_pattern(r"[^\W\d_]{3,}", most=_MAX_LENGTH)
_FORENOON = ("am", "a.m", "πμ", "π.μ", "上午", "午前", "오전")
_AFTERNOON = ("pm", "p.m", "μμ", "μ.μ", "下午", "午後", "오후")
_HALF_DAY = lazy_pattern(
    r"(?<![^\W\d_])(?:am|pm|[ap]\.\s?m|πμ|μμ|[πμ]\.μ)(?![^\W\d_])|上午|午前|오전|下午|午後|오후",
    most=_MAX_LENGTH,
)
# ruff: noqa: RUF001 - letters of other languages
#: Names of months, in a dozen languages. A shorter form of at least three letters counts if it is only one month's.
_MONTHS = tuple(
    tuple(words.split())
    for words in (
        "january januar janvier enero gennaio janeiro januari stycznia styczeń января январь січня ocak ledna leden",
        "february februar février febrero febbraio fevereiro februari lutego luty февраля февраль лютого şubat února únor",
        "march märz mars marzo março maart marca marzec марта март березня mart března březen mrz",
        "april avril abril aprile kwietnia kwiecień апреля апрель квітня nisan dubna duben",
        "may mai mayo maggio maio mei maj maja мая май травня mayıs května květen",
        "june juni juin junio giugno junho czerwca czerwiec июня июнь червня haziran června červen",
        "july juli juillet julio luglio julho lipca lipiec июля июль липня temmuz července červenec",
        "august août agosto augustus augusti sierpnia sierpień августа август серпня ağustos srpna srpen",
        "september septembre septiembre settembre setembro września wrzesień сентября сентябрь вересня eylül září",
        "october oktober octobre octubre ottobre outubro października październik октября октябрь жовтня ekim října říjen",
        "november novembre noviembre novembro listopada listopad ноября ноябрь листопада kasım listopadu",
        "prosince december dezember décembre diciembre dicembre dezembro desember grudnia grudzień декабря декабрь грудня aralık",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTime:
    """A date and time as a file shows it, with each possible reading."""

    #: The time in UTC, if the file states its zone.
    exact: datetime | None = None
    #: Readings on an unknown clock, by order of day, month and year.
    readings: tuple[tuple[Order, datetime], ...] = ()
    #: Whether seconds are shown.
    has_seconds: bool = False


def read_time(shown: str) -> ShownTime | None:
    """Return the possible readings of a date and time; None if it is not one that is understood."""
    text = " ".join(shown.split()).removeprefix("Message sent: ")
    if len(text) > _MAX_LENGTH:
        return None
    exact = _exact(text)
    if exact is not None:
        return ShownTime(exact=exact, has_seconds=iso_precision(text) != "min")
    match = _CLOCK.search(text) or _DOTTED_CLOCK.search(text)
    if match is None:
        return None
    rest = f"{text[: match.start()]} {text[match.end() :]}".casefold()
    hour = _hour(int(match[1]), rest)
    days = _days(rest)
    try:
        clock = timedelta(hours=hour, minutes=int(match[2]), seconds=int(match[3] or 0))
        readings = _at_clock(days, clock)
    except OverflowError:
        return None
    is_clock = clock < timedelta(days=1) and int(match[2]) < 60 and int(match[3] or 0) < 60  # noqa: PLR2004
    return ShownTime(readings=readings, has_seconds=bool(match[3])) if readings and is_clock else None


def _at_clock(days: list[tuple[Order, date]], clock: timedelta) -> tuple[tuple[Order, datetime], ...]:
    return tuple((order, datetime.combine(day, time()) + clock) for order, day in days)


def _exact(text: str) -> datetime | None:
    try:
        if text.isascii() and text.isdigit() and len(text) in {10, 13}:
            return datetime.fromtimestamp(int(text) / (1000 if len(text) > len("1700000000") else 1), UTC)
        return parse_iso_time(text)
    except (MalformedRecord, ValueError, OverflowError, OSError):
        return None


def _hour(hour: int, rest: str) -> int:
    match = _HALF_DAY.search(rest)
    if match is None or not 1 <= hour <= _HOURS:
        return hour
    mark = match[0].replace(" ", "")
    return hour % _HOURS + (_HOURS if mark in _AFTERNOON else 0)


def _days(rest: str) -> list[tuple[Order, date]]:
    numbers = [(int(one), len(one)) for one in _NUMBER.findall(rest)[:4]]
    month = next((found for word in _WORD.findall(rest) if (found := _month(word))), None)
    if month is not None:
        day = _with_month(numbers[:2], month)
        return _in_orders(ORDERS, lambda _: day)
    if len(numbers) != len(ORDERS[0]):
        return []
    lengths = [length for _, length in numbers]
    orders: Sequence[Order] = ("ymd",) if lengths[0] > 2 else ("dmy", "mdy") if lengths[2] > 2 else ORDERS  # noqa: PLR2004
    return _in_orders(orders, lambda order: _day_in(order, [number for number, _ in numbers]))


def _in_orders(orders: Sequence[Order], read: Callable[[Order], date | None]) -> list[tuple[Order, date]]:
    found: list[tuple[Order, date]] = []
    for order in orders:
        day = read(order)
        if day is not None:
            found.append((order, day))
    return found


@lru_cache(maxsize=1024)
def _month(word: str) -> int | None:
    found = {
        number
        for number, names in enumerate(_MONTHS, start=1)
        if any(name.startswith(word) for name in names)
    }
    exact = {number for number, names in enumerate(_MONTHS, start=1) if word in names}
    chosen = exact or found
    return min(chosen) if len(chosen) == 1 else None


def _with_month(numbers: list[tuple[int, int]], month: int) -> date | None:
    if len(numbers) < 2:  # noqa: PLR2004  a day and a year
        return None
    (first, length), (second, _) = numbers
    return _date(first, month, second) if length > 2 else _date(second, month, first)  # noqa: PLR2004


def _day_in(order: Order, numbers: list[int]) -> date | None:
    parts = dict(zip(order, numbers, strict=True))
    return _date(parts["y"], parts["m"], parts["d"])


def _date(year: int, month: int, day: int) -> date | None:
    year += _CENTURY if year < 100 else 0  # noqa: PLR2004
    try:
        return date(year, month, day) if _FIRST_YEAR <= year <= _LAST_YEAR else None
    except ValueError:
        return None


@dataclass(slots=True, kw_only=True)
class DateOrder:
    """Finds out which orders of day, month and year fit all dates of a file."""

    #: For each order, how often a date is before or after the one before it.
    _earlier: dict[Order, int] = field(default_factory=lambda: dict.fromkeys(ORDERS, 0))
    _later: dict[Order, int] = field(default_factory=lambda: dict.fromkeys(ORDERS, 0))
    _last: dict[Order, datetime] = field(default_factory=dict[Order, datetime])
    _possible: set[Order] = field(default_factory=lambda: set(ORDERS))

    def see(self, shown: ShownTime, *, exact: datetime | None = None) -> None:
        """Take a date into account. `exact` is its time if the id of its message states it."""
        if not shown.readings:
            return
        fitting = {order for order, local in shown.readings if exact is None or is_near(local, exact)}
        if fitting & self._possible:
            self._possible &= fitting
        for order, local in shown.readings:
            last = self._last.get(order)
            if last is not None and local < last:
                self._earlier[order] += 1
            elif last is not None and local > last:
                self._later[order] += 1
            self._last[order] = local

    def pick(self, shown: ShownTime, *, exact: datetime | None = None) -> datetime | None:
        """Return the only reading of a date, on its unknown clock; None if there are several.

        `exact` is the time of its message if the message states it.
        """
        fitting: dict[Order, datetime] = {
            order: local
            for order, local in shown.readings
            if order in self._possible and (exact is None or is_near(local, exact))
        }
        if len(set(fitting.values())) > 1:
            least = min(self._disorder(order) for order in fitting)
            fitting = {order: local for order, local in fitting.items() if self._disorder(order) == least}
        readings = set(fitting.values())
        return readings.pop() if len(readings) == 1 else None

    def _disorder(self, order: Order) -> int:
        """Return how often the dates go against their direction. A file may begin with its last message."""
        return min(self._earlier[order], self._later[order])


def in_utc(local: datetime, zone: tzinfo | None) -> datetime:
    """Return the time of a clock in a zone; without a zone, of a clock in UTC."""
    try:
        return local.replace(tzinfo=zone or UTC).astimezone(UTC)
    except OverflowError as error:
        raise MalformedRecord("no time", "out of range") from error


def is_near(local: datetime, exact: datetime) -> bool:
    """Return whether a clock may show this at that time, in some zone."""
    return abs(local.replace(tzinfo=UTC) - exact) <= _FARTHEST_ZONE
