"""What the name of an IRC log says: the channel, the day, and whether it is a talk of two.

The room is what the file name says besides its date ("#ubuntu_2004-11-15.log" and "#ubuntu.log" are "#ubuntu").
Where that is nothing it is the folder inside the export ("#ubuntu/2004-11-15.txt"), else "irc": files of one
channel share a room whatever the day, and two channels never do.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

from roomlore.domain.incoming import IncomingRoom
from roomlore.domain.patterns import lazy_pattern

#: How names of logs end.
LOG_NAME = lazy_pattern(r"\.(?:txt|log|irc|weechatlog)$", re.IGNORECASE)
_DATED = lazy_pattern(
    r"(?P<before>.*?)(?P<day>(?<!\d)\d{4}-\d\d-\d\d|(?<![^\W_])(?:19|20)\d{6})(?!\d)(?P<after>.*)", re.DOTALL
)
#: What may follow a date and still name no channel: the time or part of the day, and how the text is written.
_PART = lazy_pattern(
    r"[-_. \d]*(?:[-+]\d{4}[a-z]{0,5})?(?:[-_. ](?:annotation|ascii|latin-?1|raw|utf-?8))?", re.IGNORECASE
)
_NUMBER_SUFFIX = lazy_pattern(r"[-_. \d]*")
_EDGES = " -_."
_CHANNEL_SIGNS = tuple("#&+!")
#: WeeChat: "irc.libera.#python.weechatlog"; without a sign of a channel it is a talk of two.
_WEECHAT_NAME = lazy_pattern(r"irc\.(?P<server>[^#&+!]{1,100}?)\.(?P<buffer>[#&+!].*|[^.]+)", re.DOTALL)
_OWN_BUFFERS = ("core.weechat", "irc.server.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogName:
    """What the name of one log says."""

    #: Empty where the name is a date and nothing else.
    channel: str
    #: The network, where the name tells it.
    network: str = ""
    day: date | None = None
    #: Which part of the day it is, as far as the name says.
    part: str = ""
    #: Not a channel: what two said, or what the client itself reports.
    is_private: bool = False
    is_client: bool = False


def parse_log_name(file: str) -> LogName:
    """Return what the name of a log says."""
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
    """Return the names that logs of several folders share though they are of several channels.

    Those are logs without a date, and logs of the same day.
    """
    places: dict[tuple[str, date | None, str], set[str]] = {}
    for file in files:
        name = parse_log_name(file)
        channel = name.channel or _folder(file)
        if not name.network:
            places.setdefault((channel, name.day, name.part), set()).add(_folder_path(file))
    return frozenset(channel for (channel, _, _), found in places.items() if len(found) > 1)


def room_of_log(file: str, name: LogName, known_twins: frozenset[str], *, workspace: str = "") -> IncomingRoom:
    """Return the room of a log; channels of two networks may have one name.

    Args:
        file: The log.
        name: What its name says.
        known_twins: Names that logs of several folders share.
        workspace: The network, as the caller says.
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
    """Return the folders of a file but for those that only count years or months, and the one that names its room."""
    folders = file.split("/")[:-1]
    if folders and not parse_log_name(file).channel:
        folders = folders[:-1]
    return "/".join(folder for folder in folders if not _NUMBER_SUFFIX.fullmatch(folder))


def _file_day(written: str) -> date | None:
    try:
        return date.fromisoformat(written)
    except ValueError:
        return None
