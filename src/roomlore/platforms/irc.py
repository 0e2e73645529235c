"""Reads IRC logs as clients and channel loggers write them.

A log has no ids, no accounts and often no date. Ids are made from day, line and text, so that a log that grew
imports only its new lines; the day comes from the line, the caller or the file name; times are taken as UTC.

The room is what the file name says besides its date ("#ubuntu_2004-11-15.log" and "#ubuntu.log" are "#ubuntu").
Where that is nothing it is the folder inside the export ("#ubuntu/2004-11-15.txt"), else "irc": files of one
channel share a room whatever the day, and two channels never do.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import IO

from roomlore.domain.errors import BadInput
from roomlore.domain.incoming import (
    IncomingAuthor,
    IncomingMessage,
    IncomingRoom,
    Precision,
    ReadItem,
    Skipped,
)
from roomlore.domain.patterns import later
from roomlore.domain.ports import Reader, ReadOptions, Source
from roomlore.platforms.lines import looks_like, matching, read_lines

_CLOCK = (
    r"(?:(?P<day>\d{4}-\d\d-\d\d)[T ]?)?(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d))?(?:Z|\+00:?00)?"
)
_TIMED = later(rf"(?:\[{_CLOCK}\]|{_CLOCK.replace('?P<', '?P<b')})\s+(?P<rest>\S.*)", re.DOTALL)
_SAID = later(r"<[ @+%&~]?(?P<nick>[^\s<>]{1,64})>(?: (?P<text>.*))?", re.DOTALL)
_ACTION = later(r"\* (?P<nick>[^\s*]{1,64})(?: (?P<text>.*))?", re.DOTALL)
_SYSTEM = later(r"(?:===|-!-|\*\*\*|---|-->|<--)(?: |$).*", re.DOTALL)
_DATED = later(
    r"(?P<before>.*?)(?P<day>(?<!\d)\d{4}-\d\d-\d\d|(?<![^\W_])(?:19|20)\d{6})(?!\d)(?P<after>.*)", re.DOTALL
)
#: What may follow a date and still name no channel: the time or part of the day, and how the text is written.
_PART = later(
    r"[-_. \d]*(?:[-+]\d{4}[a-z]{0,5})?(?:[-_. ](?:annotation|ascii|latin-?1|raw|utf-?8))?", re.IGNORECASE
)
_NUMBERED = later(r"[-_. \d]*")
_EDGES = " -_."
_LOG_NAME = later(r"\.(?:txt|log|irc|weechatlog)$", re.IGNORECASE)
#: A clock that falls back by more than this has passed midnight; by less, it was set right.
_MIDNIGHT = timedelta(hours=12)
_LOOKED_AT = 40
_SYSTEM_AUTHOR = IncomingAuthor(account_id="", name="IRC", kind="system")


@dataclass(slots=True)
class _Log:
    """Where the reading of one file stands."""

    file: str
    room: IncomingRoom
    day: date | None
    part: str
    now: datetime | None = None
    precision: Precision = "min"
    #: System lines before the first time; they get that time.
    waiting: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])


def _sniff(source: Source) -> bool:
    return any(looks_like(source, file, _is_log) is True for file in source.files[:200])


def _is_log(source: Source, file: str) -> bool:
    """Return whether most of the first lines are a log's."""
    if "." in file.rpartition("/")[2] and not _LOG_NAME.search(file) and len(source.files) > 1:
        return False
    seen = fits = said = 0
    with source.open(file) as stream:
        head = _head(stream)
    for line in head:
        seen += 1
        match = _TIMED.fullmatch(line)
        rest = match["rest"] if match else ""
        is_said = bool(_SAID.fullmatch(rest) or _ACTION.fullmatch(rest))
        said += is_said
        fits += is_said or bool(_SYSTEM.fullmatch(rest or line))
    return said > 0 and fits * 2 > seen


def _head(stream: IO[bytes]) -> list[str]:
    lines = stream.read(2**15).decode("utf-8", "replace").removeprefix("\ufeff").splitlines()[:_LOOKED_AT]
    return [line for line in lines if line.strip()]


def _read(source: Source, options: ReadOptions) -> Iterator[ReadItem]:
    files, unreadable = matching(source, _is_log)
    yield from unreadable
    if not files:
        files = [file for file in source.files if _LOG_NAME.search(file)]
    twins = _twins(files)
    # Asked before the first record, so that nothing is half imported for want of a day.
    for file in files:
        _require_day(source, file, options)
    for file in files:
        yield from _file(source, file, _open_log(file, options, twins))


def _require_day(source: Source, file: str, options: ReadOptions) -> None:
    if options.day is not None or _named(file)[1] is not None:
        return
    try:
        with source.open(file) as stream:
            head = _head(stream)
    except OSError:
        return
    for line in head:
        match = _TIMED.fullmatch(line)
        if match and not (match["day"] or match["bday"]):
            raise _no_day(file)


def _no_day(file: str) -> BadInput:
    return BadInput(file, "tells hours but no date; pass --day YYYY-MM-DD or put the date into the file name")


def _file(source: Source, file: str, log: _Log) -> Iterator[ReadItem]:
    for line in read_lines(source, file):
        if isinstance(line, Skipped):
            yield line
        elif line.text.strip():
            yield from _line(log, line.number, line.text)
    if log.waiting and log.day is not None:
        log.now = datetime.combine(log.day, time(), UTC)
    yield from _waited(log)


def _open_log(file: str, options: ReadOptions, twins: frozenset[str]) -> _Log:
    room, day, part = _named(file)
    known = f"{_place(file)}/{room}".lstrip("/") if day is None and room in twins else room
    fallback = file.rpartition("/")[0].rpartition("/")[2] or "irc"
    return _Log(
        file=file,
        room=IncomingRoom(external_id=(known or fallback)[:255], name=room or fallback),
        day=options.day or day,
        part=part,
    )


def _named(file: str) -> tuple[str, date | None, str]:
    """Return the channel that a file name tells, its date, and which part of that day it is."""
    name = file.rpartition("/")[2]
    while match := _LOG_NAME.search(name):
        name = name[: match.start()]
    dated = _DATED.fullmatch(name)
    day = _day(dated["day"]) if dated else None
    if dated is None or day is None:
        return name, None, ""
    after = "" if _PART.fullmatch(dated["after"]) else dated["after"].strip(_EDGES)
    return dated["before"].strip(_EDGES) or after, day, dated["after"][:40]


def _twins(files: list[str]) -> frozenset[str]:
    """Return the names that logs without a date share across folders: channels of several networks."""
    places: dict[str, set[str]] = {}
    for file in files:
        room, day, _ = _named(file)
        if day is None:
            places.setdefault(room, set()).add(_place(file))
    return frozenset(room for room, found in places.items() if len(found) > 1)


def _place(file: str) -> str:
    """Return the folders of a file but for those that only count years or months."""
    folders = file.split("/")[:-1]
    return "/".join(folder for folder in folders if not _NUMBERED.fullmatch(folder))


def _day(written: str) -> date | None:
    try:
        return date.fromisoformat(written)
    except ValueError:
        return None


def _line(log: _Log, number: int, text: str) -> Iterator[ReadItem]:
    where = f"{log.file} line {number}"
    match = _TIMED.fullmatch(text)
    rest = text
    if match:
        rest = match["rest"]
        # A system line that begins with a clock is timed like any other.
        if not _advance(log, match):
            yield Skipped(where=where, reason="no time", detail="the clock shows no time of day")
            return
    said = _SAID.fullmatch(rest) or _ACTION.fullmatch(rest) if match else None
    if said is None and not _SYSTEM.fullmatch(rest):
        yield Skipped(where=where, reason="not a line of an IRC log")
        return
    if log.now is None:
        log.waiting.append((number, text))
        return
    yield from _waited(log)
    yield _message(log, number, text)


def _waited(log: _Log) -> Iterator[ReadItem]:
    waiting, log.waiting = log.waiting, []
    for number, text in waiting:
        if log.now is None:
            yield Skipped(where=f"{log.file} line {number}", reason="no date")
        else:
            yield _message(log, number, text)


def _advance(log: _Log, match: re.Match[str]) -> bool:
    """Set the log's clock by a line; return False when it shows no time."""
    parts = {key.removeprefix("b"): value for key, value in match.groupdict().items() if value is not None}
    day = _day(parts["day"]) if "day" in parts else log.day
    if day is None and "day" not in parts:
        raise _no_day(log.file)
    try:
        clock = time(int(parts["hour"]), int(parts["minute"]), int(parts.get("second", "0")))
    except ValueError:
        return False
    if day is None:
        return False
    moment = datetime.combine(day, clock, UTC)
    if "day" not in parts and log.now is not None and log.now - moment > _MIDNIGHT:
        if day >= date.max - timedelta(days=1):
            return False
        moment += timedelta(days=1)
    log.now = moment
    log.day = moment.date()
    log.precision = "s" if "second" in parts else "min"
    return True


def _message(log: _Log, number: int, text: str) -> IncomingMessage:
    assert log.now is not None
    match = _TIMED.fullmatch(text)
    rest = match["rest"] if match else text
    said = _SAID.fullmatch(rest) if match else None
    action = _ACTION.fullmatch(rest) if match and not said else None
    spoken = said or action
    message = IncomingMessage(
        platform="irc",
        room=log.room,
        external_id=_made_id(log, number, text),
        author=_SYSTEM_AUTHOR,
        body=rest,
        sent_at=log.now,
        kind="system",
        precision=log.precision,
        order=number,
        synthetic_id=True,
        metadata={"time_zone": "assumed UTC"} | ({"action": True} if action else {}),
        raw=text,
        where=f"{log.file} line {number}",
    )
    if spoken is None:
        return message
    author = IncomingAuthor(account_id=spoken["nick"], name=spoken["nick"])
    return replace(message, author=author, body=spoken["text"] or "", kind="message")


def _made_id(log: _Log, number: int, text: str) -> str:
    assert log.now is not None
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]
    return f"{log.now.date().isoformat()}{log.part}:{number}:{digest}"


#: IRC logs.
READER = Reader(name="irc", sniff=_sniff, read=_read)
