"""Times, spans of time and zones as people write them: 2026-01-31, 90d, 12h, Europe/Berlin."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from roomlore.domain.patterns import lazy_pattern

_SPAN = lazy_pattern(r"(?P<count>[0-9]{1,6})(?P<unit>[a-z])")
_UNITS = {
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}


#: Times are UTC where they do not say otherwise.
TIME = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z"])


class SpanType(click.ParamType[timedelta]):
    """A number of hours, days or weeks, and where they are of use of minutes.

    Whoever writes 6m may mean months, which matters where something is erased.
    """

    name = "span"

    def __init__(self, *, minutes: bool = True) -> None:
        self.units = _UNITS if minutes else {unit: span for unit, span in _UNITS.items() if unit != "m"}
        self.examples = "90d, 12h, 30m or 4w" if minutes else "90d, 12h or 4w"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Return the span that the text gives."""
        written = _SPAN.fullmatch(str(value))
        if written is not None and written["unit"] == "m" and "m" not in self.units:
            self.fail(f"{value!r} could mean months or minutes; write {self.examples}", param, ctx)
        if written is None or written["unit"] not in self.units or not int(written["count"]):
            self.fail(f"{value!r} is no span of time; write {self.examples}", param, ctx)
        return int(written["count"]) * self.units[written["unit"]]


class ZoneType(click.ParamType[ZoneInfo]):
    """A time zone by its name in the IANA database."""

    name = "zone"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ZoneInfo:
        """Return the zone of that name."""
        try:
            return value if isinstance(value, ZoneInfo) else ZoneInfo(str(value))
        except (ZoneInfoNotFoundError, ValueError, OSError):
            self.fail(f"{value!r} is no time zone; write its name, such as Europe/Berlin or UTC", param, ctx)


def in_utc(time: datetime | None) -> datetime | None:
    """Return a time with its zone: UTC where it has none."""
    return time.replace(tzinfo=UTC) if time is not None and time.utcoffset() is None else time
