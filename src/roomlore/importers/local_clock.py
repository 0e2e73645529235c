"""Turns what a clock on the wall showed, line after line, into moments in the order of the lines.

Such a clock has no zone, often no date, shows one hour twice in autumn, and is set right now and then.
"""

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo

#: A clock that falls back by no more than this was set right or changed to winter time; by more, it passed midnight.
MAX_SET_BACK = timedelta(hours=3)
#: A day of the year that lies further back than this is one of the next year.
_HALF_YEAR = timedelta(days=183)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReading:
    """What a line shows of the time; None for what it does not show."""

    hour: int
    minute: int
    second: int | None = None
    year: int | None = None
    month: int | None = None
    day: int | None = None
    offset: timedelta | None = None

    @property
    def is_dated(self) -> bool:
        """Whether the day is known without any other line."""
        return self.year is not None


@dataclass(slots=True, kw_only=True)
class LocalClock:
    """Where the reading of one log stands."""

    zone: tzinfo
    #: What was shown last, and the day that counts until another is shown.
    shown: datetime | None = None
    #: The moment of the last line.
    now: datetime | None = None
    #: Whether the last line lies later than its clock showed, to keep the order of the lines.
    is_moved: bool = False
    _last: datetime | None = None

    def set_day(self, day: date) -> None:
        """Set the day that counts until another is shown."""
        self.shown = datetime.combine(day, time())

    def set_time(self, shown: datetime) -> None:
        """Set day and time as a mark of the log shows them."""
        self.shown = shown
        with suppress(OverflowError):
            self.now = self._not_before_last(shown.replace(tzinfo=self.zone).astimezone(UTC))

    def advance(self, reading: ClockReading) -> bool:
        """Move to what a line shows; return False where it is no time."""
        shown = self._shown(reading)
        if shown is None:
            return False
        try:
            moment = self._moment(shown, reading.offset)
        except (ValueError, OverflowError):
            return False
        self.shown = shown
        self.now = self._not_before_last(moment)
        self.is_moved = self.now != moment
        self._last = self.now
        return True

    def _shown(self, reading: ClockReading) -> datetime | None:
        try:
            clock = time(reading.hour, reading.minute, reading.second or 0)
            if reading.year is not None and reading.month and reading.day:
                return datetime.combine(date(reading.year, reading.month, reading.day), clock)
            if self.shown is None:
                return None
            if reading.month and reading.day:
                return self._of_the_year(reading.month, reading.day, clock)
            shown = datetime.combine(self.shown.date(), clock)
            return shown + timedelta(days=1) if self.shown - shown > MAX_SET_BACK else shown
        except (ValueError, OverflowError):
            return None

    def _of_the_year(self, month: int, day: int, clock: time) -> datetime:
        assert self.shown is not None
        year = self.shown.year
        # A leap day has no such date in the year before.
        candidate = date(year, month, 1)
        if self.shown.date() - candidate > _HALF_YEAR:
            year += 1
        return datetime.combine(date(year, month, day), clock)

    def _moment(self, shown: datetime, offset: timedelta | None) -> datetime:
        if offset is not None:
            return shown.replace(tzinfo=UTC) - offset
        first = shown.replace(tzinfo=self.zone, fold=0).astimezone(UTC)
        if self._last is None or not timedelta() < self._last - first <= MAX_SET_BACK:
            return first
        # The hour that comes twice: what stands after the first is in the second.
        again = shown.replace(tzinfo=self.zone, fold=1).astimezone(UTC)
        return again if again >= self._last else first

    def _not_before_last(self, moment: datetime) -> datetime:
        """Return the moment, or the last one where the clock was only set back."""
        if self._last is not None and timedelta() < self._last - moment <= MAX_SET_BACK:
            return self._last
        return moment
