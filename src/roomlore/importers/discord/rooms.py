"""What the HTML and CSV files of DiscordChatExporter say about rooms and authors, besides their messages."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from roomlore.domain.incoming import IncomingAuthor, IncomingRoom, RoomKind
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.ports import ExportFiles
from roomlore.importers.reading.fields import MAX_ID, direct_members
from roomlore.importers.reading.text_lines import matches_format

#: The name that the exporter gives to the server of direct messages.
DIRECT_MESSAGES = "Direct Messages"
_DISCORD_EPOCH = datetime(2015, 1, 1, tzinfo=UTC)
_SNOWFLAKE = lazy_pattern(r"\d{15,20}")
_CHANNEL_ID = lazy_pattern(r"\[(\d{15,20})\](?: \([^()\[\]]{1,60}\))?(?: \[part \d{1,9}\])?$", most=1000)
_PART = lazy_pattern(r" \[part \d{1,9}\]$", most=1000)
#: The exporter adds a digest to the name of each file that it downloads.
_DOWNLOADED = lazy_pattern(r"-[0-9A-F]{5}\.[^./]{1,20}$", most=1000)
_DISCRIMINATOR = lazy_pattern(r"#\d{4}$")
_SIDES = 2
_SNIFFED_FILES = 200
#: Server, category, channel and thread.
_THREAD_DEPTH = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportName:
    """The content of a file name: `Server - Category - channel [id] (after 2024-01-01) [part 2].html`."""

    #: Empty if the name does not state it.
    channel_id: str
    #: Server, category and channel, as far as they are stated.
    parts: Sequence[str]


def read_file_name(file: str) -> ExportName:
    """Return the content of a file name."""
    stem = file.rpartition("/")[2]
    stem = _PART.sub("", stem.rpartition(".")[0] or stem)
    match = _CHANNEL_ID.search(stem)
    if match is None:
        return ExportName(channel_id="", parts=[stem])
    parts = stem[: match.start()].strip().split(" - ")
    return ExportName(channel_id=match[1], parts=[part for part in parts if part])


def is_attached(file: str) -> bool:
    """Return whether a file is one that an export downloaded, such as an attachment. It may imitate an export."""
    folders = file.split("/")[:-1]
    is_downloaded = bool(folders) and _DOWNLOADED.search(file) is not None
    return is_downloaded or any(folder.endswith("_Files") for folder in folders)


def has_export(
    source: ExportFiles, fits: Callable[[ExportFiles, str], bool], *, endings: tuple[str, ...]
) -> bool:
    """Return whether one of the files, without those that an export downloaded, has a format."""
    files = list(source.files)
    if len(files) > 1:
        files = [file for file in files if file.lower().endswith(endings) and not is_attached(file)]
    files.sort(key=lambda file: file.count("/"))
    return any(matches_format(source, file, fits) is True for file in files[:_SNIFFED_FILES])


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomFacts:
    """What a file states about its channel."""

    #: Empty if the file name does not state it.
    channel_id: str
    server: str
    #: The headings above the channel, outermost first, and its name.
    path: Sequence[str]
    topic: str = ""

    @property
    def external_id(self) -> str:
        """The channel's id, or its names if the id is unknown."""
        return self.channel_id or "/".join(filter(None, (self.server, *self.path)))[:MAX_ID] or "discord"

    @property
    def is_direct(self) -> bool:
        """Whether the room is a conversation outside of servers."""
        return self.server == DIRECT_MESSAGES


def room_of(facts: RoomFacts, authors: Iterable[IncomingAuthor], called: Iterable[str]) -> IncomingRoom:
    """Return the room. `called` are the names of its authors, by which a direct room may be named.

    A thread may be private, and these files do not say so. So the kind of a thread is unknown, and its room is closed.
    """
    people = list(authors)
    kind = _direct_kind(facts, people, set(called)) if facts.is_direct else "channel"
    if len(facts.path) >= _THREAD_DEPTH:
        kind = None
    return IncomingRoom(
        external_id=facts.external_id,
        name=facts.path[-1] if facts.path else facts.external_id,
        kind=kind,
        visibility="members" if facts.is_direct else None,
        topic=facts.topic,
        members=direct_members(kind, people),
        workspace="" if facts.is_direct else facts.server,
        category=facts.path[-2] if len(facts.path) > 1 and not facts.is_direct else "",
    )


def _direct_kind(facts: RoomFacts, people: Sequence[IncomingAuthor], called: set[str]) -> RoomKind | None:
    """Return whether two people talk or a group.

    The exporter names a conversation of two after the other person. If nobody has that name and at most two people
    write, it may also be a group.
    """
    if len({author.account_id for author in people}) > _SIDES:
        return "group_dm"
    return "dm" if facts.path and facts.path[-1] in called else None


def user_name(full_name: str) -> str:
    """Return a full name such as `ana#1234` without its number."""
    return _DISCRIMINATOR.sub("", full_name)


def is_numbered(full_name: str) -> bool:
    """Return whether a full name has a number other than 0000, as those of all bots but no webhooks have."""
    return _DISCRIMINATOR.search(full_name) is not None and not full_name.endswith("#0000")


def derived_id(sent_at: datetime, account: str, text: str, repeats: Counter[str]) -> str:
    """Return an id for a message that has none, from its content. `repeats` counts the ids of its room."""
    digest = hashlib.sha256(f"{account}\0{text}".encode("utf-8", "replace")).hexdigest()[:12]
    external_id = f"{int(sent_at.timestamp() * 1000)}:{digest}"
    repeats[external_id] += 1
    return external_id if repeats[external_id] == 1 else f"{external_id}:{repeats[external_id]}"


def time_of_id(snowflake: str) -> datetime | None:
    """Return the time that an id of Discord contains; None if it is not such an id."""
    if not _SNOWFLAKE.fullmatch(snowflake) or not snowflake.isascii():
        return None
    return _DISCORD_EPOCH + timedelta(milliseconds=int(snowflake) >> 22)
