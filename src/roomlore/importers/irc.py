"""Imports IRC logs of clients and channel loggers.

A log has no ids or accounts, often no dates and rarely a zone. Ids are derived from day, line number and text, so that
a longer log adds only its new lines. The day comes from the line, a mark in the log, the file name or the caller.
If none of them states a day, the log is refused. Times are wall-clock times: they name no zone, repeat an hour in
autumn, and jump when the clock was adjusted. Messages keep the order of the lines.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import partial
from typing import IO, Any, Literal

from roomlore.domain.errors import BadInput
from roomlore.domain.incoming import (
    ASSUMED_UTC,
    IncomingAuthor,
    IncomingMessage,
    IncomingRoom,
    ParsedItem,
    SkippedRecord,
    TimestampPrecision,
)
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.ports import ExportFiles, Importer, ReadOptions
from roomlore.importers.reading.fields import direct_members, platform_metadata
from roomlore.importers.reading.text_lines import TextLine, is_format, matching_files, read_lines

# Times

#: If a time is earlier than the last time by more than this, it is past midnight. If it is earlier by less, the clock
#: was adjusted.
MAX_SET_BACK = timedelta(hours=3)
#: If a month and day is further back than this, it belongs to the next year.
_HALF_YEAR = timedelta(days=183)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReading:
    """The time in a line. Missing parts are None."""

    hour: int
    minute: int
    second: int | None = None
    year: int | None = None
    month: int | None = None
    day: int | None = None
    offset: timedelta | None = None

    @property
    def is_dated(self) -> bool:
        """Whether the reading has a full date."""
        return self.year is not None


@dataclass(slots=True, kw_only=True)
class LocalClock:
    """The clock of a log, line by line."""

    zone: tzinfo
    #: The last wall-clock time. Until there is one, the day.
    shown: datetime | None = None
    #: The moment of the last line.
    now: datetime | None = None
    #: Whether the last line was moved to a later moment, to keep the order.
    is_moved: bool = False
    _last: datetime | None = None

    def set_day(self, day: date) -> None:
        """Set the day for the next times."""
        self.shown = datetime.combine(day, time())

    def set_time(self, shown: datetime) -> None:
        """Set day and time from a mark in the log."""
        self.shown = shown
        with suppress(OverflowError):
            self.now = self._not_before_last(shown.replace(tzinfo=self.zone).astimezone(UTC))

    def advance(self, reading: ClockReading) -> bool:
        """Advance to a reading. Return False if the reading is no time."""
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
        # The first of the month: a leap day may not exist in this year.
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
        # If the hour that is repeated in autumn was already passed once, this is its second pass.
        again = shown.replace(tzinfo=self.zone, fold=1).astimezone(UTC)
        return again if again >= self._last else first

    def _not_before_last(self, moment: datetime) -> datetime:
        """Return the moment. If the clock was only set back a little, return the last moment instead."""
        if self._last is not None and timedelta() < self._last - moment <= MAX_SET_BACK:
            return self._last
        return moment


# Lines

#: `mark`: a day or channel mark of the log. `unknown`: not a line of an IRC log.
LineKind = Literal["said", "action", "notice", "system", "mark", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class IrcLine:
    """The content of one line."""

    kind: LineKind
    text: str = ""
    nick: str = ""
    #: None for a line without a time.
    reading: ClockReading | None = None
    #: The wall-clock time of a mark; None if the mark has no readable day.
    moment: datetime | None = None
    #: Whether a mark names a day, readable or not.
    names_day: bool = False
    #: The channel named by a mark.
    channel: str = ""
    #: Whether the line begins like a dated line, but its month is unknown.
    has_strange_month: bool = False


_MODES = "[ @+%&~!]{0,6}"
_CLOCK = (
    r"(?:(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[T ]?)?"
    r"(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,]\d{1,9})?)?(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
_BRACKETED = lazy_pattern(rf"\[{_CLOCK}\]\s+(?P<rest>\S.*)", re.DOTALL)
_BARE = lazy_pattern(rf"{_CLOCK}\s+(?P<rest>\S.*)", re.DOTALL)
_TABBED = lazy_pattern(rf"{_CLOCK}\t(?P<prefix>[^\t]{{0,80}})\t(?P<text>.*)", re.DOTALL)
_NAMED_MONTH = lazy_pattern(
    r"(?P<word>[^\W\d_]{3,9}\.?) {1,2}(?P<day>\d{1,2}) (?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)\s+(?P<rest>\S.*)",
    re.DOTALL,
)
_MESSAGE_LINE = lazy_pattern(rf"<{_MODES}(?P<nick>[^\s<>]{{1,64}})>(?:[ \t](?P<text>.*))?", re.DOTALL)
_ACTION_LINE = lazy_pattern(
    r"(?:\*[ \t]|Action: )[@+%&~!]{0,6}(?P<nick>[^\s*:(),]{1,64})(?:[ \t](?P<text>.*))?", re.DOTALL
)
_NOTICE_LINE = lazy_pattern(
    r"-(?P<nick>[^\s:()/!<>*-][^\s:()/<>]{0,63})(?:\([^)\s]{0,200}\))?(?:[:/][^\s-]\S{0,63})?-[ \t](?P<text>.*)",
    re.DOTALL,
)
_SYSTEM_LINE = lazy_pattern(
    r"(?:===|-!-|\*\*\*|---|-->|<--)(?: |$).*"
    # irssi: member lists, client requests, server messages.
    r"|\[(?:Users [#&+!]|[ @+%&~][^\]\s]{1,64}\]|ctcp\().*|![\w.-]{1,64} .*",
    re.DOTALL,
)
#: Events that mIRC and HexChat write with the star of actions.
_EVENT_LINE = lazy_pattern(
    r"""
    \*[ \t](?:
        (?:Joins|Parts|Quits):\s
      | \S{1,64}\ \(\S{1,200}\)\ (?:has\ (?:joined|left|quit)|Quit|Joined|Left)\b
      | \S{1,64}\ has\ (?:quit|left|joined)(?:\ \(|\ [#&+!]|\s*$)
      | \S{1,64}\ is\ now\ known\ as\ \S{1,64}\s*$
      | \S{1,64}\ (?:sets|removes)\ (?:mode|ban|exempt|invite|voice|quiet|channel|user|half|op)\b
      | \S{1,64}\ (?:gives|removes)\ (?:channel\ )?(?:operator|half-?operator|voice|op|owner|admin)\b
      | \S{1,64}\ (?:changes|has\ changed)\ (?:the\ )?topic\ to\b
      | \S{1,64}\ was\ kicked\ by\ | \S{1,64}\ has\ kicked\ \S{1,64}\ from\ [#&+!]
      | Now\ talking\ (?:in|on)\ | Topic\ (?:is|for)\b | Set\ by\ | (?:Disconnected|Reconnect(?:ed|ing)|Connect(?:ed|ing))\b
      | (?:Rejoined|Attempting\ to\ rejoin)\ channel\b | Retrieving\ [#&+!] | Your\ nick\ is\b
      | You\ (?:have|were|are)\b | Channel\ [#&+!]\S | Cannot\ join\b | Loaded\ log\b | Looking\ up\b | [#&+!]\S
    )
    """,
    re.VERBOSE,
)
_LONGEST_MARK = 200
_DATE = (
    r"(?P<word>[^\W\d_]{3,9}\.?) +(?P<day>\d{1,2}) "
    r"(?:(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d) )?(?P<year>\d{4})"
)
_MARK_DATE = lazy_pattern(rf"(?:.*\s)?{_DATE}\s*", most=_LONGEST_MARK)
#: irssi, HexChat (any language), mIRC; Eggdrop writes "[00:00] --- Thu Feb 26 2026".
_DAY_MARK = lazy_pattern(
    r"--- (?:Log (?:opened|closed)|Day changed)\b.*|Session (?:Start|Close|Time): .*", most=_LONGEST_MARK
)
_MAYBE_MARK = lazy_pattern(r"(?:---|\*{4}) .*\d{4}\s*", most=_LONGEST_MARK)
_CHANNEL_MARK = lazy_pattern(r"Session Ident: (?P<channel>\S.*)")
#: WeeChat, in any language.
_LOG_EDGE = lazy_pattern(r"\*{4}  \S.*  \*{4}\s*", most=_LONGEST_MARK)
#: Invisible control codes for colours and styles.
_STYLE = lazy_pattern(r"\x03(?:\d{1,2}(?:,\d{1,2})?)?|\x04(?:[0-9A-Fa-f]{6})?|[\x02\x0f\x11\x16\x1d\x1e\x1f]")
_WORD_CHARACTER = lazy_pattern(r"[^\W_]|[\[\]\\`_^{}|]")
#: Short month names of `strftime` in a dozen languages.
_MONTHS = {
    word: number
    for number, words in enumerate(
        (
            "jan january januar janv janvier ene gen sty",
            "feb february februar fév févr fev february lut",
            "mar march mär mrz märz mrt mars marzo",
            "apr april avr avril abr kwi",
            "may mai mag mei maj maio mayo",
            "jun june juni juin giu cze",
            "jul july juli juil juillet lug lip",
            "aug august août ago sie",
            "sep sept september set wrz",
            "oct october okt oktober out ott paź",
            "nov november lis",
            "dec december dez dezember déc dic gru des",
        ),
        start=1,
    )
    for word in words.split()
}


def read_line(raw: str) -> IrcLine:
    """Return the content of a line, without control codes."""
    line = _STYLE.sub("", raw)
    mark = _mark_line(line)
    if mark is not None:
        return mark
    tabbed = _TABBED.fullmatch(line)
    if tabbed:
        return _weechat_line(tabbed["prefix"], tabbed["text"], _clock_reading(tabbed))
    clock = _BRACKETED.fullmatch(line) or _BARE.fullmatch(line)
    if clock:
        return _timed_line(clock["rest"], _clock_reading(clock))
    named_month = _NAMED_MONTH.fullmatch(line)
    if named_month and not _month(named_month["word"]):
        return IrcLine(
            kind="unknown", has_strange_month=_spoken_line(named_month["rest"], None).kind != "unknown"
        )
    if named_month:
        # Only HexChat lines begin like this.
        content = _spoken_line(
            named_month["rest"], _clock_reading(named_month, month=_month(named_month["word"]))
        )
        return content if content.kind != "unknown" else _system_line(named_month["rest"], content.reading)
    return IrcLine(kind="system", text=line) if _SYSTEM_LINE.fullmatch(line) else IrcLine(kind="unknown")


def _timed_line(rest: str, reading: ClockReading) -> IrcLine:
    if _LOG_EDGE.fullmatch(rest):
        return IrcLine(kind="mark", reading=reading)
    day = _day_named(rest) if rest.startswith("--- ") else None
    if day is not None:
        return IrcLine(kind="mark", moment=day, names_day=True)
    return _spoken_line(rest, reading)


def _spoken_line(rest: str, reading: ClockReading | None) -> IrcLine:
    """Return the content after the time."""
    match = _MESSAGE_LINE.fullmatch(rest)
    if match:
        return IrcLine(kind="said", nick=match["nick"], text=match["text"] or "", reading=reading)
    if _EVENT_LINE.match(rest) or _SYSTEM_LINE.fullmatch(rest):
        return _system_line(rest, reading)
    action = _ACTION_LINE.fullmatch(rest)
    if action:
        return IrcLine(kind="action", nick=action["nick"], text=action["text"] or "", reading=reading)
    notice = _NOTICE_LINE.fullmatch(rest)
    if notice:
        return IrcLine(kind="notice", nick=notice["nick"], text=notice["text"], reading=reading)
    return IrcLine(kind="unknown", text=rest, reading=reading)


def _weechat_line(prefix: str, text: str, reading: ClockReading) -> IrcLine:
    mark = prefix.strip()
    if mark == "*":
        nick, _, does = text.partition(" ")
        bare = nick.lstrip("@+%&~!")
        if bare:
            return IrcLine(kind="action", nick=bare, text=does, reading=reading)
    elif _WORD_CHARACTER.search(mark) and " " not in mark:
        return IrcLine(kind="said", nick=mark.lstrip("@+%&~!")[:64], text=text, reading=reading)
    return _system_line(f"{mark} {text}".strip(), reading)


def _system_line(text: str, reading: ClockReading | None) -> IrcLine:
    return IrcLine(kind="system", text=text.replace("\t", " "), reading=reading)


def _mark_line(line: str) -> IrcLine | None:
    if len(line) > _LONGEST_MARK:
        return None
    ident = _CHANNEL_MARK.fullmatch(line)
    if ident:
        return IrcLine(kind="mark", channel=ident["channel"].split()[0])
    day = _day_named(line)
    is_surely = _DAY_MARK.fullmatch(line) is not None
    if is_surely or (day is not None and _MAYBE_MARK.fullmatch(line)):
        return IrcLine(kind="mark", moment=day, names_day=True)
    return None


def _day_named(text: str) -> datetime | None:
    """Return the date and time at the end of a mark; None if there is none."""
    match = _MARK_DATE.fullmatch(text)
    month = _month(match["word"]) if match else None
    if match is None or month is None:
        return None
    hour, minute, second = (int(match[part] or 0) for part in ("hour", "minute", "second"))
    try:
        return datetime(int(match["year"]), month, int(match["day"]), hour, minute, second)  # noqa: DTZ001  a clock on a wall
    except ValueError:
        return None


def _clock_reading(match: re.Match[str], *, month: int | None = None) -> ClockReading:
    parts = match.groupdict()
    zone = parts.get("zone")
    year, number = parts.get("year"), parts.get("month")
    return ClockReading(
        hour=int(parts["hour"]),
        minute=int(parts["minute"]),
        second=int(parts["second"]) if parts["second"] else None,
        year=int(year) if year else None,
        month=int(number) if number else month,
        day=int(parts["day"]) if parts["day"] else None,
        offset=_offset(zone) if zone else None,
    )


def _offset(zone: str) -> timedelta:
    if zone == "Z":
        return timedelta()
    digits = zone[1:].replace(":", "")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return -offset if zone[0] == "-" else offset


def _month(word: str) -> int | None:
    return _MONTHS.get(word.casefold().rstrip("."))


#: File name endings of logs.
LOG_NAME = lazy_pattern(r"\.(?:txt|log|irc|weechatlog)$", re.IGNORECASE)
_DATED = lazy_pattern(
    r"(?P<before>.*?)(?P<day>(?<!\d)\d{4}-\d\d-\d\d|(?<![^\W_])(?:19|20)\d{6})(?!\d)(?P<after>.*)", re.DOTALL
)
#: What may follow a date: part of the day and encoding, but no channel.
_PART = lazy_pattern(
    r"[-_. \d]*(?:[-+]\d{4}[a-z]{0,5})?(?:[-_. ](?:annotation|ascii|latin-?1|raw|utf-?8))?", re.IGNORECASE
)
_NUMBER_SUFFIX = lazy_pattern(r"[-_. \d]*")
_EDGES = " -_."
_CHANNEL_SIGNS = tuple("#&+!")
#: WeeChat: "irc.libera.#python.weechatlog". A name without a channel sign is a private conversation.
_WEECHAT_NAME = lazy_pattern(r"irc\.(?P<server>[^#&+!]{1,100}?)\.(?P<buffer>[#&+!].*|[^.]+)", re.DOTALL)
_OWN_BUFFERS = ("core.weechat", "irc.server.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogName:
    """The content of a log's file name."""

    #: Empty if the name is only a date.
    channel: str
    network: str = ""
    day: date | None = None
    #: The part of the day.
    part: str = ""
    #: A private conversation, or the client's own buffer.
    is_private: bool = False
    is_client: bool = False


def parse_log_name(file: str) -> LogName:
    """Return the content of a log's file name."""
    name = file.rpartition("/")[2]
    is_weechat = name.lower().endswith(".weechatlog")
    while match := LOG_NAME.search(name):
        name = name[: match.start()]
    if is_weechat and name.startswith(_OWN_BUFFERS):
        return LogName(channel=name, is_private=True, is_client=True)
    buffer = _WEECHAT_NAME.fullmatch(name) if is_weechat else None
    if buffer:
        is_private = not buffer["buffer"].startswith(_CHANNEL_SIGNS)
        return LogName(channel=buffer["buffer"], network=buffer["server"], is_private=is_private)
    dated = _DATED.fullmatch(name)
    day = _file_day(dated["day"]) if dated else None
    if dated is None or day is None:
        return LogName(channel=name)
    after = "" if _PART.fullmatch(dated["after"]) else dated["after"].strip(_EDGES)
    channel = dated["before"].strip(_EDGES) or after
    return LogName(channel=channel, day=day, part=dated["after"][:40])


def ambiguous_names(files: Sequence[str]) -> frozenset[str]:
    """Return the channel names that logs in several folders share.

    Only logs without a day or with the same day are compared, because such logs are of different channels.
    """
    places: dict[tuple[str, date | None, str], set[str]] = {}
    for file in files:
        name = parse_log_name(file)
        channel = name.channel or _folder(file)
        if not name.network:
            places.setdefault((channel, name.day, name.part), set()).add(_folder_path(file))
    return frozenset(channel for (channel, _, _), found in places.items() if len(found) > 1)


def room_of_log(
    file: str, name: LogName, known_twins: frozenset[str], *, workspace: str = ""
) -> IncomingRoom:
    """Return the room of a log.

    `known_twins` are the channel names that several folders share. `workspace` is the network that the caller names.
    """
    channel = name.channel or _folder(file) or "irc"
    place = _folder_path(file) if channel in known_twins and not name.network else name.network
    network = workspace or name.network or place.rpartition("/")[2]
    key = f"{place}/{channel}".lstrip("/")
    if workspace and not key.startswith(f"{workspace}/"):
        key = f"{workspace}/{key}"
    room = IncomingRoom(external_id=key[:255], name=channel, workspace=network)
    if not name.is_private:
        return room
    return replace(room, kind="system" if name.is_client else "dm", visibility="members")


def _folder(file: str) -> str:
    return file.rpartition("/")[0].rpartition("/")[2]


def _folder_path(file: str) -> str:
    """Return the folders of a file, without years, months and the folder that names the room."""
    folders = file.split("/")[:-1]
    if folders and not parse_log_name(file).channel:
        folders = folders[:-1]
    return "/".join(folder for folder in folders if not _NUMBER_SUFFIX.fullmatch(folder))


def _file_day(written: str) -> date | None:
    try:
        return date.fromisoformat(written)
    except ValueError:
        return None


_SNIFFED_LINES = 40
#: Signs of channels, not of nicks.
_CHANNEL_MARKS = frozenset("#&")
_SIDES = 2
_SYSTEM_AUTHOR = IncomingAuthor(account_id="", name="IRC", kind="system")
_MESSAGE_KINDS = frozenset({"said", "action", "notice"})
#: Prefixes of day marks.
_LOG_MARKS = ("---", "****", "Session ")
_DAY_REMEDY = "pass --day YYYY-MM-DD with the day of its first line, or put the date into the file name"


@dataclass(slots=True, kw_only=True)
class _LogReader:
    """The state while reading a file."""

    file: str
    room: IncomingRoom
    clock: LocalClock
    part: str
    #: The zone stated in messages.
    zone_named: str
    #: Whether a mark in the log may name the room, because the file name does not.
    is_unnamed: bool
    #: The network that the caller names.
    workspace: str
    precision: TimestampPrecision = "min"
    #: System lines before the first line with a time. They get the time of that line.
    undated: list[tuple[TextLine, IrcLine]] = field(default_factory=list[tuple[TextLine, IrcLine]])


def _is_log(source: ExportFiles, file: str) -> bool:
    """Return whether most of the first lines are log lines."""
    if "." in file.rpartition("/")[2] and not LOG_NAME.search(file) and len(source.files) > 1:
        return False
    with source.open(file) as stream:
        head = [read_line(line) for line in _first_lines(stream)]
    fits = sum(line.kind != "unknown" or line.has_strange_month for line in head)
    return fits * 2 > len(head) and any(
        line.kind in _MESSAGE_KINDS or line.has_strange_month for line in head
    )


def _first_lines(stream: IO[bytes]) -> list[str]:
    lines = stream.read(2**15).decode("utf-8", "replace").removeprefix("\ufeff").split("\n")[:_SNIFFED_LINES]
    return [line.rstrip("\r") for line in lines if line.strip()]


def _read(source: ExportFiles, options: ReadOptions) -> Iterator[ParsedItem]:
    files, unreadable = matching_files(source, _is_log)
    yield from unreadable
    if not files:
        files = [file for file in source.files if LOG_NAME.search(file)]
    # Check all files first, so that no import stops half-way because a day is missing.
    for file in files:
        _require_days(source, file, options)
    shared = ambiguous_names(files)
    logs = [_open_log(file, options, shared) for file in files]
    _with_direct_members(source, logs)
    for log in logs:
        yield from _file(source, log.file, log)


def _require_days(source: ExportFiles, file: str, options: ReadOptions) -> None:
    """Raise BadInput if the days of a log cannot be known."""
    is_known = options.day is not None or parse_log_name(file).day is not None
    is_timed = False
    for line in read_lines(source, file):
        if isinstance(line, SkippedRecord) or (is_timed and not line.text.startswith(_LOG_MARKS)):
            continue
        content = read_line(line.text)
        if content.names_day and content.moment is None:
            problem = (
                "names a day in a way that is not understood; write it like --- Day changed Fri Feb 27 2026"
            )
            raise BadInput(f"{file} line {line.number}", problem)
        if content.has_strange_month and not is_timed:
            raise BadInput(f"{file} line {line.number}", "begins with a month that is not understood")
        is_known = is_known or content.names_day
        if content.reading is not None and not is_timed:
            is_timed = True
            if not is_known and not content.reading.is_dated:
                missing = "year" if content.reading.month else "date"
                problem = "day and hour" if missing == "year" else "hours"
                raise BadInput(
                    f"{file} line {line.number}", f"tells {problem} but no {missing}; {_DAY_REMEDY}"
                )


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
    """Mark logs without a channel sign as private conversations if a speaker has the name of the log.

    Clients name such a log after the other person. If no speaker has that name and at most two people speak, the kind
    of the room is unknown.
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
    lines_read = (read_line(line.text) for line in lines)
    return {each.nick for each in lines_read if each.kind in _MESSAGE_KINDS and each.reading is not None}


def _line(log: _LogReader, line: TextLine) -> Iterator[ParsedItem]:
    where = f"{log.file} line {line.number}"
    content = read_line(line.text)
    if content.moment is not None:
        log.clock.set_time(content.moment)
    if content.channel and log.is_unnamed:
        name = replace(parse_log_name(log.file), channel=content.channel)
        log.room = room_of_log(log.file, name, frozenset(), workspace=log.workspace)
        log.is_unnamed = False
    if content.kind == "mark":
        return
    if content.kind == "unknown":
        yield SkippedRecord(where=where, reason="not a line of an IRC log")
        return
    if content.reading is not None:
        if not log.clock.advance(content.reading):
            yield SkippedRecord(where=where, reason="no time", detail="the clock shows no time of day")
            return
        log.precision = "s" if content.reading.second is not None else "min"
    if log.clock.now is None:
        log.undated.append((line, content))
        return
    yield from _flush_undated(log)
    yield _message(log, line, content)


def _flush_undated(log: _LogReader) -> Iterator[ParsedItem]:
    waiting, log.undated = log.undated, []
    for line, content in waiting:
        if log.clock.now is None:
            yield SkippedRecord(where=f"{log.file} line {line.number}", reason="no date")
        else:
            yield _message(log, line, content)


def _message(log: _LogReader, line: TextLine, content: IrcLine) -> IncomingMessage:
    assert log.clock.now is not None
    is_spoken = content.kind in _MESSAGE_KINDS
    author = IncomingAuthor(account_id=content.nick, name=content.nick) if is_spoken else _SYSTEM_AUTHOR
    return IncomingMessage(
        platform="irc",
        room=log.room,
        external_id=_synthetic_id(log, line),
        author=author,
        body=content.text,
        sent_at=log.clock.now,
        kind="message" if is_spoken else "system",
        precision=log.precision,
        order=line.number,
        synthetic_id=True,
        metadata=_metadata(log, content),
        raw=line.text,
        where=f"{log.file} line {line.number}",
    )


def _metadata(log: _LogReader, content: IrcLine) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if content.reading is None or content.reading.offset is None:
        facts["time_zone"] = log.zone_named
    if content.reading is not None and log.clock.is_moved and log.clock.shown is not None:
        # The clock was adjusted: keep the order, and record the displayed time.
        facts["clock"] = log.clock.shown.isoformat(sep=" ")
    if content.kind in {"action", "notice"}:
        facts[content.kind] = True
    return platform_metadata(**facts)


def _synthetic_id(log: _LogReader, line: TextLine) -> str:
    assert log.clock.shown is not None
    digest = hashlib.sha256(line.text.encode("utf-8", "replace")).hexdigest()[:12]
    return f"{log.clock.shown.date().isoformat()}{log.part}:{line.number}:{digest}"


IMPORTER = Importer(
    name="irc",
    recognises=partial(is_format, fits=_is_log),
    read=_read,
    signs=("-!- ", " <", "> ", "*** ", " has joined "),
)
