"""Renders records as HTML. The templates escape all texts."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.phrases import count_phrase, pluralise
from roomlore.domain.rendering import with_mention_names
from roomlore.web.request_context import RequestContext, at_path

#: A web address in a text, without punctuation that follows it.
URL_PATTERN = lazy_pattern(r"https?://[^\s<>\"'\x00-\x1f]+[^\s<>\"'\x00-\x1f.,;:!?)\]}]", re.IGNORECASE)
LINK = Markup('<a href="{0}" rel="noopener noreferrer nofollow" target="_blank">{0}</a>')
BEGINNING = 90


def prose(text: str) -> Markup:
    """Return an escaped text in which web addresses are links."""
    return Markup().join(_pieces(text))


def _pieces(text: str) -> Iterator[Markup]:
    end = 0
    for found in URL_PATTERN.finditer(text):
        yield Markup.escape(text[end : found.start()])
        yield LINK.format(found[0])
        end = found.end()
    yield Markup.escape(text[end:])


def beginning(text: str, most: int = BEGINNING) -> str:
    """Return the beginning of a text on one line, cut between two words."""
    line = " ".join(text[: 4 * most].split())
    if len(line) <= most and len(text) <= 4 * most:
        return line
    kept = line[:most].rsplit(" ", 1)[0] if " " in line[:most] else line[:most]
    return f"{kept} …"


WEB_FOLDER = Path(__file__).parent
STATIC = WEB_FOLDER / "static"
SPAN_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))


def render(
    template: str, visit: RequestContext | None, values: Mapping[str, object], *, status: int = HTTPStatus.OK
) -> HTMLResponse:
    """Return a page. `page` is its record. `visit` is the request context; it is None if nobody is signed in."""
    text = environment().get_template(template).render({"visit": visit, **values})
    return HTMLResponse(text, status)


@cache
def environment() -> Environment:
    """Return the environment of the templates. An unknown name in a template is an error."""
    made = Environment(
        loader=PackageLoader("roomlore.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    named: dict[str, Any] = {"static": static, "at_path": at_path}
    made.globals.update(named)
    filters: dict[str, Any] = {
        "moment": format_time,
        "day": day,
        "count": count,
        "span": span,
        "kept": format_retention,
        "percent": percent,
        "prose": prose,
        "beginning": beginning,
        "words": with_mention_names,
        "noun": pluralise,
        "counted": count_phrase,
    }
    made.filters.update(filters)
    return made


@cache
def static(name: str) -> str:
    """Return the address of a static file.

    The address changes with the file's content, so browsers may cache the file forever.
    """
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?v={digest}"


def format_time(at: datetime | None) -> str:
    """Return a point in time, to the minute."""
    return "" if at is None else f"{at:%Y-%m-%d %H:%M}"


def day(at: datetime | None) -> str:
    """Return the day of a point in time."""
    return "" if at is None else f"{at:%Y-%m-%d}"


def count(number: float) -> str:
    """Return a number with thousands separators."""
    return f"{number:,}"


def span(length: timedelta | float | None) -> str:
    """Return a rounded duration."""
    if length is None:
        return ""
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    for name, size in SPAN_UNITS:
        if seconds >= size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"


def format_retention(length: timedelta | None) -> str:
    """Return a retention period in days or hours; None means forever."""
    if length is None:
        return "forever"
    days, hours = divmod(length // timedelta(hours=1), 24)
    return count_phrase(days * 24 + hours, "hour") if hours else count_phrase(days, "day")


def percent(share: Any) -> str:
    """Return a share as a percentage."""
    return f"{share * 100:.0f} %"
