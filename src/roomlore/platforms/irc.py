"""Reads IRC logs as clients and channel loggers write them.

A log has no ids, no accounts and often no date. Ids are made from day, line and text, so that a log that grew
imports only its new lines; the day comes from the line, the caller or the file name; times are taken as UTC.

The room is the part of the file name before its date ("#ubuntu_2004-11-15.log" is "#ubuntu"), else the folder
inside the export ("#ubuntu/2004-11-15.txt"), else "irc": files of one channel share a room whatever the day.
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
from roomlore.domain.ports import Reader, ReadOptions, Source
from roomlore.platforms.lines import looks_like, matching, read_lines

_CLOCK = (
    r"(?:(?P<day>\d{4}-\d\d-\d\d)[T ]?)?(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d))?(?:Z|\+00:?00)?"
)
_TIMED = re.compile(rf"(?:\[{_CLOCK}\]|{_CLOCK.replace('?P<', '?P<b')})\s+(?P<rest>\S.*)", re.DOTALL)
_SAID = re.compile(r"<[ @+%&~]?(?P<nick>[^\s<>]{1,64})>(?: (?P<text>.*))?", re.DOTALL)
_ACTION = re.compile(r"\* (?P<nick>[^\s*]{1,64})(?: (?P<text>.*))?", re.DOTALL)
_SYSTEM = re.compile(r"(?:===|-!-|\*\*\*|---|-->|<--)(?: |$).*", re.DOTALL)
_DATED = re.compile(r"(?P<before>.*?)(?P<day>\d{4}-\d\d-\d\d)(?P<after>.*)", re.DOTALL)
_LOG_NAME = re.compile(r"\.(?:txt|log|irc|weechatlog)$", re.IGNORECASE)
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
    # Asked before the first record, so that nothing is half imported for want of a day.
    for file in files:
        _require_day(source, file, options)
    for file in files:
        yield from _file(source, file, options)


def _require_day(source: Source, file: str, options: ReadOptions) -> None:
    if _open_log(file, options).day is not None:
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


def _file(source: Source, file: str, options: ReadOptions) -> Iterator[ReadItem]:
    log = _open_log(file, options)
    for line in read_lines(source, file):
        if isinstance(line, Skipped):
            yield line
        elif line.text.strip():
            yield from _line(log, line.number, line.text)
    if log.waiting and log.day is not None:
        log.now = datetime.combine(log.day, time(), UTC)
    yield from _waited(log)


def _open_log(file: str, options: ReadOptions) -> _Log:
    folder, _, name = file.rpartition("/")
    while match := _LOG_NAME.search(name):
        name = name[: match.start()]
    dated = _DATED.fullmatch(name)
    before = dated["before"].strip(" -_.") if dated else name if options.day else ""
    room = before or folder.rpartition("/")[2] or "irc"
    return _Log(
        file=file,
        room=IncomingRoom(external_id=room[:255], name=room),
        day=options.day or (_day(dated["day"]) if dated else None),
        part=dated["after"][:40] if dated else "",
    )


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
