"""Reads the points of chat memories kept in Qdrant: as its scroll answers with them, as a list, or one a line.

Such memories keep what a person said and what a bot answered as two points, or as one. Either way the same two
messages come out, the answer a millisecond after the question and in reply to it. Points are in no order and their ids
are their own, so a message is named by when it was said, by which side, to whom and in which words.
"""

import io
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import PurePosixPath
from typing import Any, cast

from roomlore.domain.incoming import (
    ASSUMED_UTC,
    IncomingAuthor,
    IncomingMessage,
    IncomingRoom,
    ParsedItem,
    SkippedRecord,
)
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.ports import Importer, ReadOptions, ExportFiles
from roomlore.platforms.fields import Fields, MalformedRecord, as_list, as_object, json_type, platform_metadata
from roomlore.platforms.jsonstream import JsonShape, JsonStep, TooDeep, skipped_fault, walk, walk_file
from roomlore.platforms.lines import MAX_LINE_BYTES, matches_format, matching_files, read_lines
from roomlore.platforms.presence import direct_members
from roomlore.platforms.qdrantpayload import REPLY_GAP, PointMessage, is_chat_point, point_messages

_SUFFIXES = (".json", ".jsonl", ".ndjson", ".txt")
#: A point may come with its vectors, and these be long.
_PEEK_BYTES = 2**18
#: How many files, and how many lines of one, are looked at to recognise an export.
_SNIFFED_FILES = 50
_SPINE: JsonShape = {(): "any", ("result",): "any", ("result", "points"): "list", ("points",): "list"}
#: Members of an answer of the server that hold points.
_POINT_CONTAINERS = frozenset({"result", "points"})
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SAFE_ID = lazy_pattern(r"[\w-]{1,64}")


@dataclass(slots=True)
class _Survey:
    """What the first pass finds: which question an answer belongs to, and who speaks where."""

    #: Questions by room, person and time; nothing where there are two.
    questions: dict[tuple[str, str, datetime], str] = field(default_factory=dict[tuple[str, str, datetime], str])
    #: Messages by room and what their platform calls them.
    ids: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    speakers: dict[str, dict[str, IncomingAuthor]] = field(default_factory=lambda: defaultdict(dict))
    direct: set[str] = field(default_factory=set[str])

    def note(self, said: PointMessage) -> None:
        """Note one message."""
        self.speakers[said.room].setdefault(said.author.account_id, said.author)
        if said.is_direct:
            self.direct.add(said.room)
        if said.native_id:
            self.ids.setdefault((said.room, said.native_id), said.external_id)
        if said.side == "asked":
            place = (said.room, said.partner, said.sent_at)
            is_one = self.questions.get(place, said.external_id) == said.external_id
            self.questions[place] = said.external_id if is_one else ""

    def parent_of(self, said: PointMessage) -> str | None:
        """Return what a message answers: what it says, else the one question that stands a millisecond before it."""
        stated = said.answers or self.ids.get((said.room, said.native_reply), "")
        if stated or said.side == "asked":
            return stated if stated != said.external_id and stated else None
        try:
            before = said.sent_at - REPLY_GAP
        except OverflowError:
            # The first moment there is.
            return None
        return self.questions.get((said.room, said.partner, before)) or None

    def rooms(self) -> dict[str, IncomingRoom]:
        """Return the rooms; none may be read but by who speaks there, for the points do not say who else may."""
        return {
            room: IncomingRoom(
                external_id=room,
                name=room,
                kind="dm" if room in self.direct else "channel",
                visibility="members",
                members=direct_members("dm" if room in self.direct else "channel", speakers.values()),
            )
            for room, speakers in self.speakers.items()
        }


def _sniff(source: ExportFiles) -> bool:
    return any(matches_format(source, file, _is_point_file) is True for file in source.files[:_SNIFFED_FILES])


def _is_point_file(source: ExportFiles, file: str) -> bool:
    if len(source.files) > 1 and not file.lower().endswith(_SUFFIXES):
        return False
    with source.open(file) as stream:
        head = stream.read(_PEEK_BYTES).removeprefix(_BYTE_ORDER_MARK).lstrip()
    if head[:1] not in (b"{", b"["):
        return False
    parts = [head, *head.splitlines()[:_SNIFFED_FILES]]
    return any(is_chat_point(value) for part in parts for _, value in _points(walk(io.BytesIO(part), _SPINE)))


def _read(source: ExportFiles, options: ReadOptions) -> Iterator[ParsedItem]:
    del options  # the points say all there is to say
    files, unreadable = matching_files(source, _is_point_file)
    yield from unreadable
    # The same for all pages of an export.
    bot = PurePosixPath(source.name).stem or "bot"
    survey = _Survey()
    for file in files:
        for item in _file_messages(source, file, bot):
            if not isinstance(item, SkippedRecord):
                survey.note(item)
    build = partial(_message, survey=survey, rooms=survey.rooms())
    for file in files:
        for item in _file_messages(source, file, bot):
            yield item if isinstance(item, SkippedRecord) else build(item)


def _message(said: PointMessage, survey: _Survey, rooms: dict[str, IncomingRoom]) -> IncomingMessage:
    return IncomingMessage(
        platform="qdrant",
        room=rooms[said.room],
        external_id=said.external_id,
        author=said.author,
        body=said.body,
        sent_at=said.sent_at,
        precision=said.precision,
        order=int(said.side == "answered"),
        reply_to=survey.parent_of(said),
        synthetic_id=True,
        metadata=platform_metadata(time_zone=ASSUMED_UTC if said.zone_assumed else "", legacy_pair=said.pair),
        raw=said.raw,
        where=said.where,
    )


def _file_messages(source: ExportFiles, file: str, bot: str) -> Iterator[PointMessage | SkippedRecord]:
    for where, value in _values(source, file):
        if isinstance(value, SkippedRecord):
            yield value
            continue
        try:
            yield from point_messages(_point(value), bot=bot, where=where)
        except MalformedRecord as error:
            yield SkippedRecord(where=where, reason=error.reason, detail=error.detail)


def _point(value: Any) -> Fields:
    if isinstance(value, TooDeep):
        raise MalformedRecord("nested too deeply")
    fields = as_object(value)
    if fields is None:
        raise MalformedRecord("not an object", f"found {json_type(value)}")
    return fields


def _values(source: ExportFiles, file: str) -> Iterator[tuple[str, Any]]:
    """Yield each point of a file after its place there, and what is no point as its report."""
    try:
        is_lined = _is_json_lines(source, file)
    except OSError as error:
        yield file, SkippedRecord(where=file, reason="unreadable file", detail=error.strerror or str(error))
        return
    if not is_lined:
        yield from _with_place(walk_file(source, file, _SPINE), file)
        return
    for line in read_lines(source, file):
        if isinstance(line, SkippedRecord):
            yield file, line
        elif line.text.strip():
            stream = io.BytesIO(line.text.encode("utf-8", "replace"))
            yield from _with_place(walk(stream, _SPINE), f"{file} line {line.number}")


def _is_json_lines(source: ExportFiles, file: str) -> bool:
    """Return whether each line of a file is a value of its own."""
    first = b""
    with source.open(file) as stream:
        while data := stream.readline(MAX_LINE_BYTES):
            line = data.removeprefix(_BYTE_ORDER_MARK).rstrip()
            if not line:
                continue
            if first:
                is_whole = first[-1:] in (b"}", b"]")
                return is_whole or (line[:1] in (b"{", b"[") and first[-1:] not in (b",", b"[", b"{", b":"))
            first = line
    return False


def _with_place(steps: Iterator[JsonStep], where: str) -> Iterator[tuple[str, Any]]:
    count = 0
    for step, value in _points(steps):
        if isinstance(value, SkippedRecord):
            yield where, value
        elif step is not None and step.kind == "fault":
            yield where, skipped_fault(step, where)
        else:
            count += 1
            yield f"{where} {_point_label(value) or f'record {count}'}", value


def _point_label(value: Any) -> str:
    """Return a point's own id, if it can be told."""
    given = cast("Fields", value).get("id") if isinstance(value, dict) else None
    if isinstance(given, bool) or not isinstance(given, str | int):
        return ""
    return f"point {given}" if _SAFE_ID.fullmatch(str(given)) else ""


def _points(steps: Iterator[JsonStep]) -> Iterator[tuple[JsonStep | None, Any]]:
    """Yield the points that a walk passes, and its fault."""
    root: dict[str, Any] = {}
    is_page = False
    for step in steps:
        if step.kind == "fault":
            yield step, None
            return
        if step.kind == "opened":
            is_page = is_page or bool(step.place)
        elif step.number:
            yield from ((step, one) for one in _flatten(step.value))
        elif step.key in _POINT_CONTAINERS:
            is_page = True
            yield step, SkippedRecord(where=step.key, reason="not a list of points", detail=json_type(step.value))
        elif not step.place:
            root[step.key] = step.value
    if root and not is_page:
        yield None, root


def _flatten(value: Any) -> Iterator[Any]:
    """Yield the points of a page in a list of pages; anything else as it is."""
    fields = as_object(value)
    if fields is None or "payload" in fields:
        yield value
        return
    page = as_object(fields.get("result")) or fields
    points = page.get("points", fields.get("result"))
    if isinstance(points, list):
        yield from as_list(points)
    else:
        yield value


#: Points of chat memories in Qdrant.
IMPORTER = Importer(name="qdrant", recognises=_sniff, read=_read)
