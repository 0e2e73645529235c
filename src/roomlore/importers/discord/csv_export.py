"""Imports the CSV of DiscordChatExporter. Each file has one channel, direct message or thread, or a partition of one.

Pitfalls: the rows have no ids, so that ids are derived from time, author and text. Only the file name tells the room, and
it does not tell threads from channels. Before September 2019, rows have no account ids; before December,
semicolons separate the columns; before November 2023, times are local. Bots, replies and system messages are not marked.
"""

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import unquote
from zoneinfo import ZoneInfo

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
from roomlore.importers.discord.attachments import stored_file_id
from roomlore.importers.discord.dates import DateOrder, in_utc, read_time
from roomlore.importers.discord.rooms import (
    RoomFacts,
    derived_id,
    has_export,
    is_attached,
    read_file_name,
    room_of,
    user_name,
)
from roomlore.importers.reading.fields import (
    MalformedRecord,
    checked_id,
    non_empty,
    platform_metadata,
    reaction,
)
from roomlore.importers.reading.text_lines import matching_files, read_lines

_REQUIRED = frozenset({"author", "date", "content"})
_KNOWN = _REQUIRED | {"authorid", "attachments", "reactions"}
_NEXT_ADDRESS = lazy_pattern(r",(?=https?://)")
_REACTION = lazy_pattern(r"([^,]{1,100}) \((\d{1,9})\)(?:,|$)")
_ENDINGS = (".csv",)
_SNIFFED_BYTES = 500

Row = Mapping[str, str]


@dataclass(slots=True, kw_only=True)
class _Survey:
    """What all files of a room state together."""

    facts: RoomFacts
    authors: dict[str, IncomingAuthor] = field(default_factory=dict[str, IncomingAuthor])
    order: DateOrder = field(default_factory=DateOrder)

    def see(self, row: Row) -> None:
        """Take a row into account."""
        time = read_time(row["date"])
        if time is not None:
            self.order.see(time)
        if self.facts.is_direct:
            try:
                author = _author(row)
            except MalformedRecord:
                return
            self.authors.setdefault(author.account_id, author)

    def room(self) -> IncomingRoom:
        """Return the room. The kind of a room that is not direct is unknown: it may be a private thread."""
        room = room_of(self.facts, self.authors.values(), [author.name for author in self.authors.values()])
        return room if self.facts.is_direct else replace(room, kind=None)


def _read(source: ExportFiles, options: ReadOptions) -> Iterator[ParsedItem]:
    files, unreadable = matching_files(source, _is_csv)
    yield from unreadable
    surveys: dict[str, _Survey] = {}
    rooms: dict[str, str] = {}
    for file in files:
        if is_attached(file):
            detail = "import its folder by itself"
            yield SkippedRecord(where=file, reason="export among attachments", detail=detail)
            continue
        facts = _facts(file, options.workspace)
        rooms[file] = facts.external_id
        survey = surveys.setdefault(facts.external_id, _Survey(facts=facts))
        for item in _rows(source, file):
            if not isinstance(item, SkippedRecord):
                survey.see(item[1])
    for file, room_id in rooms.items():
        yield from _file(source, file, surveys[room_id], options.zone)


def _facts(file: str, workspace: str) -> RoomFacts:
    """Return what the file name states about the room: `Server - Category - channel [id].csv`."""
    name = read_file_name(file)
    server, *path = name.parts if name.channel_id and len(name.parts) > 1 else ("", *name.parts)
    headings = [" - ".join(path[:-1])] if len(path) > 1 else []
    return RoomFacts(channel_id=name.channel_id, server=server or workspace, path=[*headings, *path[-1:]])


def _is_csv(source: ExportFiles, file: str) -> bool:
    if not file.lower().endswith(_ENDINGS) and len(source.files) > 1:
        return False
    with source.open(file) as stream:
        head = stream.read(_SNIFFED_BYTES)
    return bool(_columns(head.removeprefix(b"\xef\xbb\xbf").split(b"\n")[0].decode("utf-8", "replace"))[0])


def _columns(header: str) -> tuple[list[str], str]:
    """Return the names of the columns and what is between them; no names if the line is not such a header."""
    for separator in (",", ";"):
        names = [
            name.strip().strip('"').casefold() for name in header.rstrip().rstrip(separator).split(separator)
        ]
        if _REQUIRED <= set(names) <= _KNOWN and len(set(names)) == len(names):
            return names, separator
    return [], ","


def _rows(source: ExportFiles, file: str) -> Iterator[tuple[str, Row] | SkippedRecord]:
    """Yield the rows with their places."""
    lines = _Lines(source=source, file=file)
    columns, separator = _columns(next(lines, ""))
    if not columns:
        yield from lines.faults or [SkippedRecord(where=file, reason="not an export of this format")]
        return
    reader = csv.reader(lines, delimiter=separator)
    while True:
        where = f"{file} line {lines.number + 1}"
        try:
            cells = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            yield SkippedRecord(where=where, reason="not a row", detail=str(error)[:100])
            continue
        yield from lines.faults
        lines.faults.clear()
        yield from _row(cells, columns, where)
    yield from lines.faults


def _row(
    cells: Sequence[str], columns: Sequence[str], where: str
) -> Iterator[tuple[str, Row] | SkippedRecord]:
    if not cells:
        return
    # Old files have a separator at the end of each row.
    is_whole = len(cells) == len(columns) or (len(cells) == len(columns) + 1 and not cells[-1])
    if is_whole:
        yield where, dict(zip(columns, cells, strict=False))
    else:
        detail = f"{len(cells)} of {len(columns)} columns"
        yield SkippedRecord(where=where, reason="not a row", detail=detail)


@dataclass(slots=True, kw_only=True)
class _Lines:
    """The lines of a file, with their ends, for a reader of rows."""

    source: ExportFiles
    file: str
    number: int = 0
    faults: list[SkippedRecord] = field(default_factory=list[SkippedRecord])
    _lines: Iterator[Any] | None = None

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        self._lines = self._lines or read_lines(self.source, self.file)
        for line in self._lines:
            if isinstance(line, SkippedRecord):
                self.faults.append(line)
                continue
            self.number = line.number
            return f"{line.text}\n"
        raise StopIteration


def _file(source: ExportFiles, file: str, survey: _Survey, zone: ZoneInfo | None) -> Iterator[ParsedItem]:
    room = survey.room()
    # Files may overlap, so each file counts its own.
    repeats = Counter[str]()
    number = 0
    for item in _rows(source, file):
        if isinstance(item, SkippedRecord):
            yield item
            continue
        where, row = item
        number += 1
        try:
            sent = _sent(row, survey.order, zone)
            yield _message(row, room, sent, (where, number, repeats))
        except MalformedRecord as error:
            yield SkippedRecord(where=where, reason=error.reason, detail=error.detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """When a message was sent."""

    at: datetime
    precision: TimestampPrecision
    #: The zone that the time was read in; empty if the file states it.
    zone_named: str = ""


def _sent(row: Row, order: DateOrder, zone: ZoneInfo | None) -> _Sent:
    shown = row["date"]
    time = read_time(shown)
    if time is None:
        raise MalformedRecord("no time", shown[:100])
    if time.exact is not None:
        return _Sent(at=time.exact, precision="ms" if time.has_seconds else "min")
    local = order.pick(time)
    if local is None:
        raise MalformedRecord("day and month unclear", shown[:100])
    precision: TimestampPrecision = "s" if time.has_seconds else "min"
    return _Sent(at=in_utc(local, zone), precision=precision, zone_named=str(zone or ASSUMED_UTC))


def _author(row: Row) -> IncomingAuthor:
    full_name, account = row["author"].strip(), row.get("authorid", "").strip()
    if not full_name and not account:
        raise MalformedRecord("no author")
    return IncomingAuthor(
        account_id=checked_id(account or f"name:{full_name}", "author"),
        name=user_name(full_name) or full_name or account,
    )


def _message(row: Row, room: IncomingRoom, sent: _Sent, at: tuple[str, int, Counter[str]]) -> IncomingMessage:
    where, number, repeats = at
    author = _author(row)
    body = row["content"]
    return IncomingMessage(
        platform="discord",
        room=room,
        external_id=derived_id(sent.at, author.account_id, body, repeats),
        author=author,
        body=body,
        sent_at=sent.at,
        precision=sent.precision,
        order=number,
        attachments=list(_attachments(row.get("attachments", ""))),
        reactions=_reactions(row.get("reactions", "")),
        synthetic_id=True,
        metadata=platform_metadata(time_zone=sent.zone_named),
        raw=dict(row),
        where=where,
    )


def _attachments(cell: str) -> Iterator[dict[str, Any]]:
    addresses = _NEXT_ADDRESS.split(cell) if cell.startswith("http") else cell.split(",")
    for address in filter(None, addresses):
        path = address.partition("?")[0].replace("\\", "/")
        yield non_empty(id=stored_file_id(address), name=unquote(path.rpartition("/")[2]), url=address)


def _reactions(cell: str) -> list[dict[str, Any]]:
    return [reaction({"count": int(count)}, emoji, []) for emoji, count in _REACTION.findall(cell)]


IMPORTER = Importer(
    name="discord-csv",
    recognises=partial(has_export, fits=_is_csv, endings=_ENDINGS),
    read=_read,
    signs=("AuthorID,Author,Date,Content", '"AuthorID"', "Attachments,Reactions"),
)
