"""Reads one line of an IRC log as irssi, WeeChat, HexChat, mIRC, ZNC, energymech and Eggdrop write it.

Actions and what the client reports look alike in some of them ("* ana waves", "* ana is now known as ben"): what reads
like a report is one, so that nobody is said to have said it.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from roomlore.domain.patterns import lazy_pattern
from roomlore.platforms.localclock import ClockReading

#: `mark`: the log's own note of a day; `unknown`: no line of an IRC log.
LineKind = Literal["said", "action", "notice", "system", "mark", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class IrcLine:
    """What one line says."""

    kind: LineKind
    text: str = ""
    nick: str = ""
    #: None for a line without a clock.
    reading: ClockReading | None = None
    #: What a mark shows, as the clock on the wall shows it; None where it names no day that can be read.
    moment: datetime | None = None
    #: Whether a mark says which day it is, readable or not.
    names_day: bool = False
    #: The channel that a mark names.
    channel: str = ""
    #: Whether it has a month that is no word for one.
    has_strange_month: bool = False


_MODES = "[ @+%&~!]{0,6}"
_CLOCK = (
    r"(?:(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[T ]?)?"
    r"(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,]\d{1,9})?)?(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
_BRACKETED = lazy_pattern(rf"\[{_CLOCK}\]\s+(?P<rest>\S.*)", re.DOTALL)
_BARE = lazy_pattern(rf"{_CLOCK}\s+(?P<rest>\S.*)", re.DOTALL)
_TABBED = lazy_pattern(rf"{_CLOCK}\t(?P<prefix>[^\t]{{0,80}})\t(?P<text>.*)", re.DOTALL)
#: HexChat: "Feb 26 22:00:01 <ana>	hi".
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
    # irssi: who is there, requests of clients, words of servers.
    r"|\[(?:Users [#&+!]|[ @+%&~][^\]\s]{1,64}\]|ctcp\().*|![\w.-]{1,64} .*",
    re.DOTALL,
)
#: What mIRC and HexChat report behind the star of actions.
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
#: irssi, HexChat (in any language), mIRC; Eggdrop writes "[00:00] --- Thu Feb 26 2026".
_DAY_MARK = lazy_pattern(
    r"--- (?:Log (?:opened|closed)|Day changed)\b.*|Session (?:Start|Close|Time): .*", most=_LONGEST_MARK
)
_MAYBE_MARK = lazy_pattern(r"(?:---|\*{4}) .*\d{4}\s*", most=_LONGEST_MARK)
_CHANNEL_MARK = lazy_pattern(r"Session Ident: (?P<channel>\S.*)")
#: WeeChat, translated in other languages.
_LOG_EDGE = lazy_pattern(r"\*{4}  \S.*  \*{4}\s*", most=_LONGEST_MARK)
#: Colours and styles of IRC: control codes that nobody sees.
_STYLE = lazy_pattern(r"\x03(?:\d{1,2}(?:,\d{1,2})?)?|\x04(?:[0-9A-Fa-f]{6})?|[\x02\x0f\x11\x16\x1d\x1e\x1f]")
_WORD_CHARACTER = lazy_pattern(r"[^\W_]|[\[\]\\`_^{}|]")
#: Short names of months, as `strftime` writes them in a dozen languages.
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
    """Return what a line says; its text is without the codes of colours and styles."""
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
    named = _NAMED_MONTH.fullmatch(line)
    if named and not _month(named["word"]):
        return IrcLine(kind="unknown", has_strange_month=_spoken_line(named["rest"], None).kind != "unknown")
    if named:
        # Nothing but a line of HexChat begins like this.
        found = _spoken_line(named["rest"], _clock_reading(named, month=_month(named["word"])))
        return found if found.kind != "unknown" else _system_line(named["rest"], found.reading)
    return IrcLine(kind="system", text=line) if _SYSTEM_LINE.fullmatch(line) else IrcLine(kind="unknown")


def _timed_line(rest: str, reading: ClockReading) -> IrcLine:
    if _LOG_EDGE.fullmatch(rest):
        return IrcLine(kind="mark", reading=reading)
    day = _day_named(rest) if rest.startswith("--- ") else None
    if day is not None:
        return IrcLine(kind="mark", moment=day, names_day=True)
    return _spoken_line(rest, reading)


def _spoken_line(rest: str, reading: ClockReading | None) -> IrcLine:
    """Return what stands behind the clock."""
    said = _MESSAGE_LINE.fullmatch(rest)
    if said:
        return IrcLine(kind="said", nick=said["nick"], text=said["text"] or "", reading=reading)
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
    """Return the moment that stands at the end of a mark; None where none does."""
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
