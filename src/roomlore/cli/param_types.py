"""Values as people write them: times, spans of time, time zones and JSON objects."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from roomlore.domain.patterns import lazy_pattern

_SPAN = lazy_pattern(r"(?P<count>[0-9]{1,6})(?P<unit>[a-z])")
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_TIME = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z"])


class TimeType(click.ParamType[datetime]):
    """A time. It is in UTC unless it names a zone."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Return the time, with its zone."""
        time: datetime = _TIME.convert(value, param, ctx)
        return time.replace(tzinfo=UTC) if time.utcoffset() is None else time


class SpanType(click.ParamType[timedelta]):
    """A number of minutes, hours, days or weeks.

    Where something is erased, minutes are not accepted, because people write 6m for six months.
    """

    name = "span"

    def __init__(self, *, minutes: bool = True) -> None:
        self.units = _UNITS if minutes else {unit: span for unit, span in _UNITS.items() if unit != "m"}
        self.examples = "90d, 12h, 30m or 4w" if minutes else "90d, 12h or 4w"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Return the span."""
        written = _SPAN.fullmatch(str(value))
        if written is not None and written["unit"] == "m" and "m" not in self.units:
            self.fail(f"{value!r} could mean months or minutes; write {self.examples}", param, ctx)
        if written is None or written["unit"] not in self.units or not int(written["count"]):
            self.fail(f"{value!r} is not a span of time; write {self.examples}", param, ctx)
        return int(written["count"]) * self.units[written["unit"]]


class ZoneType(click.ParamType[ZoneInfo]):
    """A time zone by its IANA name."""

    name = "zone"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ZoneInfo:
        """Return the zone."""
        try:
            return value if isinstance(value, ZoneInfo) else ZoneInfo(str(value))
        except (ZoneInfoNotFoundError, ValueError, OSError):
            self.fail(f"{value!r} is not a time zone; write a name such as Europe/Berlin or UTC", param, ctx)


class JsonObject(click.ParamType[dict[str, Any]]):
    """A JSON object."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        """Return the object."""
        try:
            found = json.loads(value) if isinstance(value, str) else value
        except ValueError:
            found = None
        if not isinstance(found, dict):
            self.fail("must be a JSON object, like '{\"ticket\": 12}'", param, ctx)
        return cast("dict[str, Any]", found)
