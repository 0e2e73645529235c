"""Imports chat memories from Qdrant points: scroll responses, a list, or one point per line.

A question and its answer are stored as two points or as one point. Both forms give the same two messages: the answer
is a reply to the question and one millisecond later. Points have no order, and their ids are not ids of messages. If a
point does not state the id of its message, the id is derived from time, side, partner and text.
"""

import io
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
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
    TimestampPrecision,
)
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.ports import ExportFiles, Importer, ReadOptions
from roomlore.importers.bot_messages import (
    SIDES,
    Side,
    channel_in_user,
    derived_id,
    platform_of,
    room_of,
)
from roomlore.importers.reading.fields import (
    Fields,
    MalformedRecord,
    as_list,
    as_object,
    as_record,
    checked_id,
    direct_members,
    first_text,
    iso_precision,
    json_type,
    object_field,
    parse_iso_time,
    platform_metadata,
    sequence,
    text_field,
    unix_time,
)
from roomlore.importers.reading.json_stream import JsonShape, JsonStep, skipped_fault, walk, walk_file
from roomlore.importers.reading.text_lines import (
    MAX_LINE_BYTES,
    is_format,
    matching_files,
    read_lines,
    unreadable,
)

#: The time between question and answer.
REPLY_GAP = timedelta(milliseconds=1)
_PAIR = "conversation_pair"
#: Point ids are numbers or UUIDs.
_LONGEST_POINT_ID = 64
_TALK = frozenset({"", "conversation"})
#: Keys of a pair that belong to only one of its messages.
_QUESTION_KEYS, _ANSWER_KEYS = frozenset({"content", "user_message"}), frozenset({"bot_response"})
#: Larger Unix times are in milliseconds (in seconds, they would be after the year 5138).
_MILLISECONDS_FROM = 10**11


@dataclass(frozen=True, slots=True, kw_only=True)
class PointMessage:
    """A message in a point."""

    side: Side
    platform: str
    room: str
    #: Whether the person and the bot are alone in the room.
    is_direct: bool
    #: The person who asked.
    partner: str
    author: IncomingAuthor
    body: str
    sent_at: datetime
    precision: TimestampPrecision
    zone_assumed: bool
    #: The platform's ids of the message and of its parent.
    native_id: str = ""
    native_reply: str = ""
    #: For the answer of a pair, the question.
    answers: str = ""
    #: The id of the point of a pair.
    pair: str = ""
    raw: Fields = field(default_factory=dict[str, Any])
    where: str = ""

    @property
    def external_id(self) -> str:
        """The platform's id, or else a derived id."""
        return self.native_id or derived_id(
            side=self.side, partner=self.partner, body=self.body, sent_at=self.sent_at
        )


def is_chat_point(value: Any) -> bool:
    """Return whether a value looks like a point of a chat memory."""
    payload = object_field(as_object(value) or {}, "payload")
    fields = {**object_field(payload, "metadata"), **payload}
    return bool(
        first_text(fields, "content", "user_message", "bot_response")
        and {"user_id", "author_id"} & fields.keys()
        and {"role", "source", "author_is_bot"} & fields.keys()
    )


def point_messages(point: Fields, *, bot: str, where: str) -> Iterator[PointMessage]:
    """Yield the messages of a point. `bot` is the default name of the bot. Raises MalformedRecord."""
    payload = object_field(point, "payload")
    if not payload:
        raise MalformedRecord("no payload")
    fields = {**object_field(payload, "metadata"), **payload}
    if not {first_text(fields, "memory_type"), first_text(fields, "type")} <= _TALK:
        raise MalformedRecord("not something said")
    if _PAIR in (fields.get("source"), fields.get("role")):
        yield from _question_and_answer(point, fields, bot=bot, where=where)
    else:
        yield _single_message(point, fields, bot=bot, where=where)


def _single_message(point: Fields, fields: Fields, *, bot: str, where: str) -> PointMessage:
    side = _side(fields)
    author = _human_author(fields) if side == "asked" else _bot_author(fields, bot, is_author=True)
    message = _point_message(fields, side, author, bot=bot, where=where)
    body = text_field(fields, "content") or text_field(
        fields, "user_message" if side == "asked" else "bot_response"
    )
    if not body:
        raise MalformedRecord("no text")
    return replace(
        message,
        body=body,
        native_id=_id(fields, "message_id"),
        native_reply=_id(fields, "reply_to_msg_id"),
        raw=_raw(point, frozenset()),
    )


def _question_and_answer(point: Fields, fields: Fields, *, bot: str, where: str) -> Iterator[PointMessage]:
    question = text_field(fields, "user_message") or text_field(fields, "content")
    answer = text_field(fields, "bot_response")
    if not question and not answer:
        raise MalformedRecord("no text")
    question_message = replace(
        _point_message(fields, "asked", _human_author(fields), bot=bot, where=where),
        body=question,
        native_id=_id(fields, "message_id"),
        native_reply=_id(fields, "reply_to_msg_id"),
        pair=_point_id(point),
        raw=_raw(point, _ANSWER_KEYS),
    )
    try:
        later = question_message.sent_at + REPLY_GAP
    except OverflowError as error:
        raise MalformedRecord("no time", "out of range") from error
    if question:
        yield question_message
    if answer:
        yield replace(
            question_message,
            side="answered",
            author=_bot_author(fields, bot, is_author=False),
            body=answer,
            sent_at=later,
            precision="us" if question_message.precision == "us" else "ms",
            native_id="",
            native_reply="",
            answers=question_message.external_id if question else "",
            # If one message of the pair is erased, its text must not stay with the other message.
            raw=_raw(point, _QUESTION_KEYS),
        )


def _point_message(
    fields: Fields, side: Side, author: IncomingAuthor, *, bot: str, where: str
) -> PointMessage:
    partner = _id(fields, "user_id") or author.account_id
    channel = _id(fields, "channel_id") or channel_in_user(partner)
    # A name comes first, because all stores of a bot know its name.
    with_whom = first_text(fields, "bot_name", "character_name") or _id(fields, "bot_id") or bot
    sent_at, precision, zone_assumed = _sent(fields)
    return PointMessage(
        side=side,
        platform=platform_of(channel=channel, partner=partner),
        room=checked_id(room_of(channel=channel, bot=with_whom, partner=partner), "the room's id"),
        is_direct=not channel,
        partner=partner,
        author=author,
        body="",
        sent_at=sent_at,
        precision=precision,
        zone_assumed=zone_assumed,
        where=where,
    )


def _side(fields: Fields) -> Side:
    for key in ("source", "role"):
        side = SIDES.get(first_text(fields, key))
        if side is not None:
            return side
    is_bot = fields.get("author_is_bot")
    if not isinstance(is_bot, bool):
        raise MalformedRecord("no author", "neither source nor role tells who speaks")
    return "answered" if is_bot else "asked"


def _human_author(fields: Fields) -> IncomingAuthor:
    account = _id(fields, "author_id") or _id(fields, "user_id")
    if not account or channel_in_user(account):
        raise MalformedRecord("no author")
    name = first_text(fields, "author_name", "user_name") or account
    return IncomingAuthor(
        account_id=account, name=name, kind="agent" if fields.get("author_is_bot") is True else "human"
    )


def _bot_author(fields: Fields, otherwise: str, *, is_author: bool) -> IncomingAuthor:
    """Return the bot as the author. The author fields describe the bot only if `is_author` is set."""
    name = first_text(fields, "bot_name", "character_name", *(["author_name"] if is_author else []))
    account = (_id(fields, "author_id") if is_author else "") or _id(fields, "bot_id")
    account = account or checked_id(name or otherwise, "the bot's name")
    return IncomingAuthor(account_id=account, name=name or account, kind="agent")


def _id(fields: Fields, key: str) -> str:
    value = fields.get(key)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise MalformedRecord("wrong type", f"{key} is {json_type(value)}, not an id")
    return checked_id(str(value), key)


def _sent(fields: Fields) -> tuple[datetime, TimestampPrecision, bool]:
    """Return the time, its precision, and whether its zone is assumed."""
    value = fields.get("timestamp")
    if value is None:
        value = fields.get("timestamp_unix")
    if isinstance(value, str):
        moment = parse_iso_time(value, zone=UTC)
        return moment, iso_precision(value), datetime.fromisoformat(value).tzinfo is None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise MalformedRecord("no time", f"timestamp is {json_type(value)}")
    in_seconds = value / 1000 if abs(value) >= _MILLISECONDS_FROM else value
    seconds, part = divmod(in_seconds, 1)
    # The time is rounded: fractions are not exact to the microsecond, and a millisecond separates question and answer.
    return unix_time(int(seconds), microseconds=round(part * 1000) * 1000), "ms", False


def _point_id(point: Fields) -> str:
    value = point.get("id")
    is_id = isinstance(value, str | int) and not isinstance(value, bool)
    return str(value)[:_LONGEST_POINT_ID] if is_id and value != "" else "unknown"


def _raw(point: Fields, without: frozenset[str]) -> Fields:
    payload = {key: value for key, value in object_field(point, "payload").items() if key not in without}
    if "metadata" in payload:
        inner = object_field(payload, "metadata")
        payload["metadata"] = {key: value for key, value in inner.items() if key not in without}
    return {"id": point.get("id"), "payload": payload}


_SUFFIXES = (".json", ".jsonl", ".ndjson", ".txt")
#: Points may include long vectors.
_PEEK_BYTES = 2**18
#: Files, and lines per file, read to recognise an export.
_SNIFFED_FILES = 50
_SPINE: JsonShape = {(): "any", ("result",): "any", ("result", "points"): "list", ("points",): "list"}
#: Members of a server response that hold points.
_POINT_CONTAINERS = frozenset({"result", "points"})
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SAFE_ID = lazy_pattern(r"[\w-]{1,64}")


@dataclass(slots=True)
class _Survey:
    """The result of the first pass: questions and speakers."""

    #: Ids of questions by room, person and time. The id is empty if two questions share all three.
    questions: dict[tuple[str, str, datetime], str] = field(
        default_factory=dict[tuple[str, str, datetime], str]
    )
    #: Platform ids of questions, by room.
    asked_ids: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    speakers: dict[str, dict[str, IncomingAuthor]] = field(default_factory=lambda: defaultdict(dict))
    direct: set[str] = field(default_factory=set[str])

    def note(self, said: PointMessage) -> None:
        """Add a message."""
        self.speakers[said.room].setdefault(said.author.account_id, said.author)
        if said.is_direct:
            self.direct.add(said.room)
        if said.side == "asked":
            self.asked_ids.add((said.room, said.native_id))
            place = (said.room, said.partner, said.sent_at)
            is_one = self.questions.get(place, said.external_id) == said.external_id
            self.questions[place] = said.external_id if is_one else ""

    def with_own_id(self, said: PointMessage) -> PointMessage:
        """Return the message without a platform id that is the id of its question."""
        is_shared = said.side == "answered" and (said.room, said.native_id) in self.asked_ids
        return replace(said, native_id="") if said.native_id and is_shared else said

    def parent_of(self, said: PointMessage) -> str | None:
        """Return the id of the stated parent, or else of the only question one millisecond before; None if unknown."""
        stated = said.answers or said.native_reply
        if stated or said.side == "asked":
            return stated if stated != said.external_id and stated else None
        try:
            before = said.sent_at - REPLY_GAP
        except OverflowError:
            return None
        return self.questions.get((said.room, said.partner, before)) or None

    def rooms(self) -> dict[str, IncomingRoom]:
        """Return the rooms. They are closed, because points do not state who may read them."""
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
    del options  # the points need no options
    files, unreadable = matching_files(source, _is_point_file)
    yield from unreadable
    # All pages of an export get the same name for the bot.
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


def _message(point_message: PointMessage, survey: _Survey, rooms: dict[str, IncomingRoom]) -> IncomingMessage:
    point_message = survey.with_own_id(point_message)
    return IncomingMessage(
        platform=point_message.platform,
        room=rooms[point_message.room],
        external_id=point_message.external_id,
        author=point_message.author,
        body=point_message.body,
        sent_at=point_message.sent_at,
        precision=point_message.precision,
        order=sequence(point_message.native_id, int(point_message.side == "answered")),
        reply_to=survey.parent_of(point_message),
        synthetic_id=not point_message.native_id,
        metadata=platform_metadata(
            time_zone=ASSUMED_UTC if point_message.zone_assumed else "", legacy_pair=point_message.pair
        ),
        raw=point_message.raw,
        where=point_message.where,
    )


def _file_messages(source: ExportFiles, file: str, bot: str) -> Iterator[PointMessage | SkippedRecord]:
    for where, value in _values(source, file):
        if isinstance(value, SkippedRecord):
            yield value
            continue
        try:
            yield from point_messages(as_record(value), bot=bot, where=where)
        except MalformedRecord as error:
            yield SkippedRecord(where=where, reason=error.reason, detail=error.detail)


def _values(source: ExportFiles, file: str) -> Iterator[tuple[str, Any]]:
    """Yield each point with its position, or a skipped record."""
    try:
        is_lined = _is_json_lines(source, file)
    except OSError as error:
        yield file, unreadable(file, error)
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
    """Return whether a file has one JSON value per line. Its first two non-empty lines decide."""
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
    """Return the id of a point for reports, if the id is safe."""
    given = cast("Fields", value).get("id") if isinstance(value, dict) else None
    if isinstance(given, bool) or not isinstance(given, str | int):
        return ""
    return f"point {given}" if _SAFE_ID.fullmatch(str(given)) else ""


def _points(steps: Iterator[JsonStep]) -> Iterator[tuple[JsonStep | None, Any]]:
    """Yield the points of a walk. A fault of the walk is yielded, too."""
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
            yield (
                step,
                SkippedRecord(where=step.key, reason="not a list of points", detail=json_type(step.value)),
            )
        elif not step.place:
            root[step.key] = step.value
    if root and not is_page:
        yield None, root


def _flatten(value: Any) -> Iterator[Any]:
    """Yield the points of a page that is an item of a list; yield any other value unchanged."""
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


IMPORTER = Importer(
    name="qdrant",
    recognises=partial(is_format, fits=_is_point_file, most=_SNIFFED_FILES),
    read=_read,
    signs=('"payload"', '"points"', '"vector"', '"next_page_offset"', '"user_id"'),
)
