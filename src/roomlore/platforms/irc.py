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
    TimestampPrecision,
    ParsedItem,
    SkippedRecord,
)
from roomlore.domain.ports import Importer, ReadOptions, ExportFiles
from roomlore.platforms.fields import platform_metadata
from roomlore.platforms.irclines import IrcLine, read_line
from roomlore.platforms.ircnames import LOG_NAME, parse_log_name, room_of_log, ambiguous_names
from roomlore.platforms.lines import TextLine, matches_format, matching_files, read_lines
from roomlore.platforms.localclock import LocalClock
from roomlore.platforms.presence import direct_members

_SNIFFED_LINES = 40
#: What tells the name of a channel from a nick.
_CHANNEL_MARKS = frozenset("#&")
_SIDES = 2
_SYSTEM_AUTHOR = IncomingAuthor(account_id="", name="IRC", kind="system")
_MESSAGE_KINDS = frozenset({"said", "action", "notice"})
#: How marks of days begin.
_LOG_MARKS = ("---", "****", "Session ")
_DAY_REMEDY = "pass --day YYYY-MM-DD with the day of its first line, or put the date into the file name"


@dataclass(slots=True, kw_only=True)
class _LogReader:
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
    precision: TimestampPrecision = "min"
    #: System lines before the first time; they get that time.
    undated: list[tuple[TextLine, IrcLine]] = field(default_factory=list[tuple[TextLine, IrcLine]])


def _sniff(source: ExportFiles) -> bool:
    return any(matches_format(source, file, _is_log) is True for file in source.files[:200])


def _is_log(source: ExportFiles, file: str) -> bool:
    """Return whether most of the first lines are a log's."""
    if "." in file.rpartition("/")[2] and not LOG_NAME.search(file) and len(source.files) > 1:
        return False
    with source.open(file) as stream:
        head = [read_line(line) for line in _first_lines(stream)]
    fits = sum(line.kind != "unknown" or line.has_strange_month for line in head)
    return fits * 2 > len(head) and any(line.kind in _MESSAGE_KINDS or line.has_strange_month for line in head)


def _first_lines(stream: IO[bytes]) -> list[str]:
    lines = stream.read(2**15).decode("utf-8", "replace").removeprefix("\ufeff").split("\n")[:_SNIFFED_LINES]
    return [line.rstrip("\r") for line in lines if line.strip()]


def _read(source: ExportFiles, options: ReadOptions) -> Iterator[ParsedItem]:
    files, unreadable = matching_files(source, _is_log)
    yield from unreadable
    if not files:
        files = [file for file in source.files if LOG_NAME.search(file)]
    # Asked before the first record, so that nothing is half imported for want of a day.
    for file in files:
        _require_days(source, file, options)
    shared = ambiguous_names(files)
    logs = [_open_log(file, options, shared) for file in files]
    _with_direct_members(source, logs)
    for log in logs:
        yield from _file(source, log.file, log)


def _require_days(source: ExportFiles, file: str, options: ReadOptions) -> None:
    """Refuse a log whose days cannot be known, and say what is missing."""
    is_known = options.day is not None or parse_log_name(file).day is not None
    is_timed = False
    for line in read_lines(source, file):
        if isinstance(line, SkippedRecord) or (is_timed and not line.text.startswith(_LOG_MARKS)):
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
                raise BadInput(f"{file} line {line.number}", f"tells {what} but no {missing}; {_DAY_REMEDY}")


def _file(source: ExportFiles, file: str, log: _LogReader) -> Iterator[ParsedItem]:
    for line in read_lines(source, file):
        if isinstance(line, SkippedRecord):
            yield line
        elif line.text.strip():
            yield from _line(log, line)
    if log.undated and log.clock.now is None and log.clock.shown is not None:
        log.clock.set_time(log.clock.shown)
    yield from _flush_undated(log)


def _open_log(file: str, options: ReadOptions, shared: frozenset[str]) -> _LogReader:
    name = parse_log_name(file)
    zone = options.zone
    log = _LogReader(
        file=file,
        room=room_of_log(file, name, shared, workspace=options.workspace),
        clock=LocalClock(zone=zone or UTC),
        part=name.part,
        zone_named=str(zone) if zone else ASSUMED_UTC,
        is_unnamed=not name.channel and "/" not in file,
        workspace=options.workspace,
    )
    day = options.day or name.day
    if day is not None:
        log.clock.set_day(day)
    return log


def _with_direct_members(source: ExportFiles, logs: list[_LogReader]) -> None:
    """Tell talks of two from channels, where a log is not named as a channel: a talk is for its two sides.

    Clients name the log of a talk by the other side. With one or two people in it and neither of that name it may be
    either, and counts as a room of unknown kind.
    """
    speakers: dict[str, set[str]] = {}
    for log in logs:
        if parse_log_name(log.file).channel and _CHANNEL_MARKS.isdisjoint(log.room.name):
            speakers.setdefault(log.room.external_id, set()).update(_speakers(source, log.file))
    for log in logs:
        nicks = speakers.get(log.room.external_id)
        if nicks is None or log.room.kind == "system":
            continue
        if log.room.name.casefold() in {nick.casefold() for nick in nicks}:
            sides = [IncomingAuthor(account_id=nick, name=nick) for nick in sorted(nicks)]
            log.room = replace(log.room, kind="dm", members=direct_members("dm", sides))
        elif len(nicks) <= _SIDES and log.room.kind != "dm":
            log.room = replace(log.room, kind=None)


def _speakers(source: ExportFiles, file: str) -> set[str]:
    lines = (line for line in read_lines(source, file) if not isinstance(line, SkippedRecord))
    said = (read_line(line.text) for line in lines)
    return {one.nick for one in said if one.kind in _MESSAGE_KINDS and one.reading is not None}


def _line(log: _LogReader, line: TextLine) -> Iterator[ParsedItem]:
    where = f"{log.file} line {line.number}"
    found = read_line(line.text)
    if found.moment is not None:
        log.clock.set_time(found.moment)
    if found.channel and log.is_unnamed:
        name = replace(parse_log_name(log.file), channel=found.channel)
        log.room = room_of_log(log.file, name, frozenset(), workspace=log.workspace)
        log.is_unnamed = False
    if found.kind == "mark":
        return
    if found.kind == "unknown":
        yield SkippedRecord(where=where, reason="not a line of an IRC log")
        return
    if found.reading is not None:
        if not log.clock.advance(found.reading):
            yield SkippedRecord(where=where, reason="no time", detail="the clock shows no time of day")
            return
        log.precision = "s" if found.reading.second is not None else "min"
    if log.clock.now is None:
        log.undated.append((line, found))
        return
    yield from _flush_undated(log)
    yield _message(log, line, found)


def _flush_undated(log: _LogReader) -> Iterator[ParsedItem]:
    waiting, log.undated = log.undated, []
    for line, found in waiting:
        if log.clock.now is None:
            yield SkippedRecord(where=f"{log.file} line {line.number}", reason="no date")
        else:
            yield _message(log, line, found)


def _message(log: _LogReader, line: TextLine, found: IrcLine) -> IncomingMessage:
    assert log.clock.now is not None
    is_spoken = found.kind in _MESSAGE_KINDS
    author = IncomingAuthor(account_id=found.nick, name=found.nick) if is_spoken else _SYSTEM_AUTHOR
    return IncomingMessage(
        platform="irc",
        room=log.room,
        external_id=_synthetic_id(log, line),
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


def _metadata(log: _LogReader, found: IrcLine) -> dict[str, Any]:
    about: dict[str, Any] = {}
    if found.reading is None or found.reading.offset is None:
        about["time_zone"] = log.zone_named
    if found.reading is not None and log.clock.is_moved and log.clock.shown is not None:
        # The clock was set back; the order of the lines is kept, and what it showed beside it.
        about["clock"] = log.clock.shown.isoformat(sep=" ")
    if found.kind in {"action", "notice"}:
        about[found.kind] = True
    return platform_metadata(**about)


def _synthetic_id(log: _LogReader, line: TextLine) -> str:
    assert log.clock.shown is not None
    digest = hashlib.sha256(line.text.encode("utf-8", "replace")).hexdigest()[:12]
    return f"{log.clock.shown.date().isoformat()}{log.part}:{line.number}:{digest}"


#: IRC logs.
IMPORTER = Importer(name="irc", recognises=_sniff, read=_read)
