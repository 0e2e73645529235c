"""Reads IRC logs as clients and channel loggers write them.

A log has no ids and no accounts, often no date and nearly never a zone. Ids are made from day, line and text, so that
a log that grew imports only its new lines. The day comes from the line, a mark in the log, the file name or the caller;
a log whose days cannot be known is refused as a whole. The order of the lines is the order in the room.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC
from typing import IO, Any

from roomlore.domain.errors import BadInput
from roomlore.domain.incoming import (
    ASSUMED_UTC,
    IncomingAuthor,
    IncomingMessage,
    IncomingRoom,
    Precision,
    ReadItem,
    Skipped,
)
from roomlore.domain.ports import Reader, ReadOptions, Source
from roomlore.platforms.fields import platform_facts
from roomlore.platforms.irclines import IrcLine, read_line
from roomlore.platforms.ircnames import LOG_NAME, read_name, room_of, twins
from roomlore.platforms.lines import Line, looks_like, matching, read_lines
from roomlore.platforms.localclock import LocalClock
from roomlore.platforms.presence import both_sides

_LOOKED_AT = 40
#: What tells the name of a channel from a nick.
_CHANNEL_MARKS = frozenset("#&")
_SIDES = 2
_SYSTEM_AUTHOR = IncomingAuthor(account_id="", name="IRC", kind="system")
_SPOKEN = frozenset({"said", "action", "notice"})
#: How marks of days begin.
_MARKS = ("---", "****", "Session ")
_CURE = "pass --day YYYY-MM-DD with the day of its first line, or put the date into the file name"


@dataclass(slots=True, kw_only=True)
class _Log:
    """Where the reading of one file stands."""

    file: str
    room: IncomingRoom
    clock: LocalClock
    part: str
    #: What messages say about the zone of their times.
    zone_named: str
    #: Whether the file name says nothing of the room, so that a mark in the log may.
    is_unnamed: bool
    #: The network, as the caller says.
    workspace: str
    precision: Precision = "min"
    #: System lines before the first time; they get that time.
    waiting: list[tuple[Line, IrcLine]] = field(default_factory=list[tuple[Line, IrcLine]])


def _sniff(source: Source) -> bool:
    return any(looks_like(source, file, _is_log) is True for file in source.files[:200])


def _is_log(source: Source, file: str) -> bool:
    """Return whether most of the first lines are a log's."""
    if "." in file.rpartition("/")[2] and not LOG_NAME.search(file) and len(source.files) > 1:
        return False
    with source.open(file) as stream:
        head = [read_line(line) for line in _head(stream)]
    fits = sum(line.kind != "unknown" or line.has_strange_month for line in head)
    return fits * 2 > len(head) and any(line.kind in _SPOKEN or line.has_strange_month for line in head)


def _head(stream: IO[bytes]) -> list[str]:
    lines = stream.read(2**15).decode("utf-8", "replace").removeprefix("\ufeff").split("\n")[:_LOOKED_AT]
    return [line.rstrip("\r") for line in lines if line.strip()]


def _read(source: Source, options: ReadOptions) -> Iterator[ReadItem]:
    files, unreadable = matching(source, _is_log)
    yield from unreadable
    if not files:
        files = [file for file in source.files if LOG_NAME.search(file)]
    # Asked before the first record, so that nothing is half imported for want of a day.
    for file in files:
        _require_days(source, file, options)
    shared = twins(files)
    logs = [_open_log(file, options, shared) for file in files]
    _with_sides(source, logs)
    for log in logs:
        yield from _file(source, log.file, log)


def _require_days(source: Source, file: str, options: ReadOptions) -> None:
    """Refuse a log whose days cannot be known, and say what is missing."""
    is_known = options.day is not None or read_name(file).day is not None
    is_timed = False
    for line in read_lines(source, file):
        if isinstance(line, Skipped) or (is_timed and not line.text.startswith(_MARKS)):
            continue
        found = read_line(line.text)
        if found.names_day and found.moment is None:
            what = (
                "names a day in a way that is not understood; write it like --- Day changed Fri Feb 27 2026"
            )
            raise BadInput(f"{file} line {line.number}", what)
        if found.has_strange_month and not is_timed:
            raise BadInput(f"{file} line {line.number}", "begins with a month that is not understood")
        is_known = is_known or found.names_day
        if found.reading is not None and not is_timed:
            is_timed = True
            if not is_known and not found.reading.is_dated:
                missing = "year" if found.reading.month else "date"
                what = "day and hour" if missing == "year" else "hours"
                raise BadInput(f"{file} line {line.number}", f"tells {what} but no {missing}; {_CURE}")


def _file(source: Source, file: str, log: _Log) -> Iterator[ReadItem]:
    for line in read_lines(source, file):
        if isinstance(line, Skipped):
            yield line
        elif line.text.strip():
            yield from _line(log, line)
    if log.waiting and log.clock.now is None and log.clock.shown is not None:
        log.clock.mark(log.clock.shown)
    yield from _waited(log)


def _open_log(file: str, options: ReadOptions, shared: frozenset[str]) -> _Log:
    name = read_name(file)
    zone = options.zone
    log = _Log(
        file=file,
        room=room_of(file, name, shared, workspace=options.workspace),
        clock=LocalClock(zone=zone or UTC),
        part=name.part,
        zone_named=str(zone) if zone else ASSUMED_UTC,
        is_unnamed=not name.channel and "/" not in file,
        workspace=options.workspace,
    )
    day = options.day or name.day
    if day is not None:
        log.clock.begin(day)
    return log


def _with_sides(source: Source, logs: list[_Log]) -> None:
    """Tell talks of two from channels, where a log is not named as a channel: a talk is for its two sides.

    Clients name the log of a talk by the other side. With one or two people in it and neither of that name it may be
    either, and counts as a room of unknown kind.
    """
    speakers: dict[str, set[str]] = {}
    for log in logs:
        if read_name(log.file).channel and _CHANNEL_MARKS.isdisjoint(log.room.name):
            speakers.setdefault(log.room.external_id, set()).update(_speakers(source, log.file))
    for log in logs:
        nicks = speakers.get(log.room.external_id)
        if nicks is None or log.room.kind == "system":
            continue
        if log.room.name.casefold() in {nick.casefold() for nick in nicks}:
            sides = [IncomingAuthor(account_id=nick, name=nick) for nick in sorted(nicks)]
            log.room = replace(log.room, kind="dm", members=both_sides("dm", sides))
        elif len(nicks) <= _SIDES and log.room.kind != "dm":
            log.room = replace(log.room, kind=None)


def _speakers(source: Source, file: str) -> set[str]:
    lines = (line for line in read_lines(source, file) if not isinstance(line, Skipped))
    said = (read_line(line.text) for line in lines)
    return {one.nick for one in said if one.kind in _SPOKEN and one.reading is not None}


def _line(log: _Log, line: Line) -> Iterator[ReadItem]:
    where = f"{log.file} line {line.number}"
    found = read_line(line.text)
    if found.moment is not None:
        log.clock.mark(found.moment)
    if found.channel and log.is_unnamed:
        name = replace(read_name(log.file), channel=found.channel)
        log.room = room_of(log.file, name, frozenset(), workspace=log.workspace)
        log.is_unnamed = False
    if found.kind == "mark":
        return
    if found.kind == "unknown":
        yield Skipped(where=where, reason="not a line of an IRC log")
        return
    if found.reading is not None:
        if not log.clock.read(found.reading):
            yield Skipped(where=where, reason="no time", detail="the clock shows no time of day")
            return
        log.precision = "s" if found.reading.second is not None else "min"
    if log.clock.now is None:
        log.waiting.append((line, found))
        return
    yield from _waited(log)
    yield _message(log, line, found)


def _waited(log: _Log) -> Iterator[ReadItem]:
    waiting, log.waiting = log.waiting, []
    for line, found in waiting:
        if log.clock.now is None:
            yield Skipped(where=f"{log.file} line {line.number}", reason="no date")
        else:
            yield _message(log, line, found)


def _message(log: _Log, line: Line, found: IrcLine) -> IncomingMessage:
    assert log.clock.now is not None
    is_spoken = found.kind in _SPOKEN
    author = IncomingAuthor(account_id=found.nick, name=found.nick) if is_spoken else _SYSTEM_AUTHOR
    return IncomingMessage(
        platform="irc",
        room=log.room,
        external_id=_made_id(log, line),
        author=author,
        body=found.text,
        sent_at=log.clock.now,
        kind="message" if is_spoken else "system",
        precision=log.precision,
        order=line.number,
        synthetic_id=True,
        metadata=_metadata(log, found),
        raw=line.text,
        where=f"{log.file} line {line.number}",
    )


def _metadata(log: _Log, found: IrcLine) -> dict[str, Any]:
    about: dict[str, Any] = {}
    if found.reading is None or found.reading.offset is None:
        about["time_zone"] = log.zone_named
    if found.reading is not None and log.clock.is_moved and log.clock.shown is not None:
        # The clock was set back; the order of the lines is kept, and what it showed beside it.
        about["clock"] = log.clock.shown.isoformat(sep=" ")
    if found.kind in {"action", "notice"}:
        about[found.kind] = True
    return platform_facts(**about)


def _made_id(log: _Log, line: Line) -> str:
    assert log.clock.shown is not None
    digest = hashlib.sha256(line.text.encode("utf-8", "replace")).hexdigest()[:12]
    return f"{log.clock.shown.date().isoformat()}{log.part}:{line.number}:{digest}"


#: IRC logs.
READER = Reader(name="irc", sniff=_sniff, read=_read)
