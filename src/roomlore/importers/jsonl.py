"""Imports `roomlore.message/1`, our own format: one JSON object per line.

`docs/jsonl.md` is the reference of the format. If a line does not say who may read it, the narrower visibility applies.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from difflib import get_close_matches
from functools import partial
from typing import Any, cast, get_args

from roomlore.domain.incoming import (
    IncomingAuthor,
    IncomingMembership,
    IncomingMessage,
    IncomingRoom,
    MessageKind,
    ParsedItem,
    ParticipantKind,
    RoomKind,
    SkippedRecord,
    TimestampPrecision,
    Visibility,
)
from roomlore.domain.ports import ExportFiles, Importer, ReadOptions
from roomlore.domain.room_visibility import DIRECT_KINDS
from roomlore.importers.reading.fields import (
    Fields,
    MalformedRecord,
    as_list,
    as_object,
    build_or_skip,
    checked_id,
    id_list,
    iso_precision,
    json_type,
    object_field,
    object_list,
    parse_iso_time,
    platform_metadata,
    required_id,
    text_field,
    unix_time,
)
from roomlore.importers.reading.json_stream import MAX_DEPTH, TOO_DEEP
from roomlore.importers.reading.text_lines import TextLine, is_format, matching_files, read_lines

MESSAGE_KEYS = frozenset({
    "schema", "platform", "room", "id", "author", "kind", "text", "sent_at", "reply_to", "thread_root",
    "audience", "mentions", "attachments", "reactions", "edited_at", "deleted", "metadata",
})  # fmt: skip
ROOM_KEYS = frozenset({
    "id", "name", "kind", "visibility", "topic", "members", "workspace", "category", "context_id",
})  # fmt: skip
PARTICIPANT_KEYS = frozenset({"id", "name", "kind", "persona", "bridged"})
MEMBER_KEYS = PARTICIPANT_KEYS | {"joined_at", "left_at"}
#: Keys that limit visibility. If a misspelt key were ignored, the message would be open.
_VISIBILITY_KEYS = ("visibility", "members", "audience", "kind", "deleted", "left_at")
_UNKNOWN_KEY_REASON = "unknown field"
_MAX_KEYS, _MAX_KEY_LENGTH = 10, 60


def unknown_keys(record: Mapping[str, Any]) -> list[str]:
    """Return the unknown keys of a record and its parts. `metadata` may have any keys."""
    found = set(_unknown_in(record, MESSAGE_KEYS, ""))
    found.update(_unknown_in(record.get("author"), PARTICIPANT_KEYS, "author."))
    for participant in as_list(record.get("audience")):
        found.update(_unknown_in(participant, PARTICIPANT_KEYS, "audience."))
    room = as_object(record.get("room")) or {}
    found.update(_unknown_in(room, ROOM_KEYS, "room."))
    for participant in as_list(room.get("members")):
        found.update(_unknown_in(participant, MEMBER_KEYS, "room.members."))
    return sorted(found)


def reject_misspelt_keys(unknown: list[str]) -> None:
    """Raise MalformedRecord if an unknown key looks like a misspelt visibility key."""
    for key in unknown:
        *_, word = key.rpartition(".")
        if near := get_close_matches(word.casefold(), _VISIBILITY_KEYS, n=1, cutoff=0.75):
            raise MalformedRecord(_UNKNOWN_KEY_REASON, f"{key_list([key])}: did you mean {near[0]}?")


def skipped_keys(unknown: list[str], where: str) -> SkippedRecord:
    """Return the SkippedRecord that reports the ignored keys of an imported message."""
    return SkippedRecord(
        where=where,
        reason=_UNKNOWN_KEY_REASON,
        detail=f"{key_list(unknown)}: left aside, the message went in",
    )


def key_list(unknown: list[str]) -> str:
    """Return unknown keys as a short list."""
    listed = ", ".join(key[:_MAX_KEY_LENGTH] for key in unknown[:_MAX_KEYS])
    return f"{listed}, …" if len(unknown) > _MAX_KEYS else listed


def _unknown_in(value: Any, known: frozenset[str], prefix: str) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (f"{prefix}{key}" for key in cast("Fields", value).keys() - known)


#: The version of the format, required in the first line.
SCHEMA = "roomlore.message/1"
_SUFFIXES = (".jsonl", ".ndjson", ".json", ".txt")


@dataclass(slots=True)
class _KnownRooms:
    """The rooms of earlier lines. Later lines may state only the id of such a room."""

    rooms: dict[tuple[str, str], IncomingRoom] = field(default_factory=dict[tuple[str, str], IncomingRoom])
    #: Unknown keys that were reported.
    unknown: set[str] = field(default_factory=set[str])


def _is_jsonl(source: ExportFiles, file: str) -> bool:
    if len(source.files) > 1 and not file.lower().endswith(_SUFFIXES):
        return False
    with source.open(file) as stream:
        head = stream.read(2**16).removeprefix(b"\xef\xbb\xbf").lstrip()
    first, newline, _ = head.partition(b"\n")
    if not newline and len(head) == 2**16:
        return f'"{SCHEMA}"'.encode() in head
    value = _parsed(first.decode("utf-8", "replace"))
    return isinstance(value, dict) and cast("Fields", value).get("schema") == SCHEMA


def _read(source: ExportFiles, options: ReadOptions) -> Iterator[ParsedItem]:
    del options  # the format states everything
    files, unreadable = matching_files(source, _is_jsonl)
    yield from unreadable
    declared = _KnownRooms()
    for file in files:
        for line in read_lines(source, file):
            if isinstance(line, SkippedRecord):
                yield line
            elif line.text.strip():
                yield from _line(file, line, declared)


def _line(file: str, line: TextLine, declared: _KnownRooms) -> Iterator[ParsedItem]:
    where = f"{file} line {line.number}"
    value = _parsed(line.text)
    if isinstance(value, _InvalidJson):
        yield SkippedRecord(where=where, reason="not JSON", detail=value.why)
        return
    item = next(
        build_or_skip(value, where, build=partial(_message, declared=declared, at=(line.number, where)))
    )
    yield item
    new_keys = [key for key in _unknown(value) if key not in declared.unknown]
    if new_keys and not isinstance(item, SkippedRecord):
        # Each key is reported once.
        declared.unknown.update(new_keys)
        yield skipped_keys(new_keys, where)


def _unknown(value: Any) -> list[str]:
    return unknown_keys(cast("Fields", value)) if isinstance(value, dict) else []


def read_record(value: Any, *, where: str, order: int) -> tuple[ParsedItem, list[str]]:
    """Return the message of one object, or the reason why it is skipped, and the object's unknown keys.

    `order` is its position among messages with the same time.
    """
    value = TOO_DEEP if _depth(value) > MAX_DEPTH else _required_object(value)
    build = partial(_message, declared=_KnownRooms(), at=(order, where))
    return next(build_or_skip(value, where, build=build)), _unknown(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class _InvalidJson:
    why: str


def _parsed(line: str) -> Any:
    try:
        value = json.loads(line, parse_constant=_reject_constant, parse_float=_float)
    except RecursionError:
        return TOO_DEEP
    except ValueError as error:
        return _InvalidJson(
            why=error.msg if isinstance(error, json.JSONDecodeError) else "a number out of range"
        )
    if _depth(value) > MAX_DEPTH:
        return TOO_DEEP
    # Lone surrogates cannot be stored.
    return _required_object(value) if "\\ud" in line.lower() else value


def _reject_constant(name: str) -> Any:
    raise ValueError(name)


def _float(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


def _depth(value: Any) -> int:
    level: list[Any] = [value]
    depth = 0
    while level:
        depth += 1
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(cast("dict[str, Any]", item).values())
            elif isinstance(item, list):
                below.extend(cast("list[Any]", item))
        level = below
    return depth


def _required_object(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_required_object(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {
            _required_object(key): _required_object(item)
            for key, item in cast("dict[str, Any]", value).items()
        }
    return value


def _message(fields: Fields, *, declared: _KnownRooms, at: tuple[int, str]) -> IncomingMessage:
    number, where = at
    if fields.get("schema", SCHEMA) != SCHEMA:
        raise MalformedRecord("unknown schema")
    reject_misspelt_keys(unknown_keys(fields))
    platform = checked_id(text_field(fields, "platform") or "jsonl", "platform")
    external_id = required_id(fields, "id", "no id")
    room = _room(fields.get("room"), platform, declared)
    sent_at, precision = _sent(fields)
    kind, audience = _kind(fields)
    edited = fields.get("edited_at")
    metadata = dict(object_field(fields, "metadata"))
    return IncomingMessage(
        platform=platform,
        room=room,
        external_id=external_id,
        author=_author(fields.get("author"), "author"),
        body=text_field(fields, "text"),
        sent_at=sent_at,
        kind=kind,
        precision=precision,
        order=number,
        reply_to=checked_id(text_field(fields, "reply_to"), "reply_to") or None,
        thread_root=checked_id(text_field(fields, "thread_root"), "thread_root") or None,
        audience=audience,
        mentions=id_list(fields.get("mentions")),
        attachments=object_list(fields, "attachments"),
        reactions=object_list(fields, "reactions"),
        edited_at=_moment(edited, "edited_at") if edited is not None else None,
        deleted=_flag(fields, "deleted"),
        metadata=metadata | platform_metadata(history_lost=edited is not None),
        raw=fields,
        where=where,
    )


def _flag(fields: Fields, key: str) -> bool:
    value = fields.get(key)
    if value is not None and not isinstance(value, bool):
        raise MalformedRecord("wrong type", f"{key} is {json_type(value)}, not true or false")
    return value is True


def _kind(fields: Fields) -> tuple[MessageKind, tuple[IncomingAuthor, ...]]:
    """Return the kind, and the audience of a whisper. A message with an audience is a whisper."""
    kind = text_field(fields, "kind") or "message"
    if kind not in get_args(MessageKind):
        raise MalformedRecord("unknown message kind")
    stated = fields.get("audience")
    if stated is None:
        return cast("MessageKind", kind), ()
    if not isinstance(stated, list):
        raise MalformedRecord("wrong type", f"audience is {json_type(stated)}, not a list")
    audience = tuple(_author(member, "audience") for member in cast("list[Any]", stated))
    return ("whisper" if kind == "message" else cast("MessageKind", kind)), audience


def _author(value: Any, what: str) -> IncomingAuthor:
    if isinstance(value, str) and value:
        return IncomingAuthor(account_id=checked_id(value, what), name=value)
    if not isinstance(value, dict):
        raise MalformedRecord(
            "no author" if value in (None, "") else "wrong type", f"{what} is {json_type(value)}"
        )
    fields = cast("Fields", value)
    kind = text_field(fields, "kind") or "human"
    if kind not in get_args(ParticipantKind):
        raise MalformedRecord("unknown participant kind")
    account = required_id(fields, "id", "no author")
    return IncomingAuthor(
        account_id=account,
        name=text_field(fields, "name") or account,
        kind=cast("ParticipantKind", kind),
        persona=checked_id(text_field(fields, "persona"), "persona"),
        bridged=_flag(fields, "bridged"),
    )


def _room(value: Any, platform: str, declared: _KnownRooms) -> IncomingRoom:
    fields = cast("Fields", {"id": value} if isinstance(value, str) else value)
    if not isinstance(fields, dict):
        raise MalformedRecord("no room" if value is None else "wrong type", f"room is {json_type(value)}")
    external_id = required_id(fields, "id", "no room")
    known = declared.rooms.get((platform, external_id))
    room = known or IncomingRoom(external_id=external_id, name=external_id)
    stated = text_field(fields, "kind")
    kind = (cast("RoomKind", stated) if stated in get_args(RoomKind) else None) if stated else room.kind
    visibility = text_field(fields, "visibility") or ("members" if kind in DIRECT_KINDS else room.visibility)
    if visibility not in (*get_args(Visibility), None):
        raise MalformedRecord("unknown visibility")
    room = replace(
        room,
        name=text_field(fields, "name") or room.name,
        kind=kind,
        visibility=cast("Visibility | None", visibility),
        topic=text_field(fields, "topic") or room.topic,
        workspace=text_field(fields, "workspace") or room.workspace,
        category=text_field(fields, "category") or room.category,
        context_id=checked_id(text_field(fields, "context_id"), "context_id") or room.context_id,
        members=_members(fields.get("members"), room),
    )
    declared.rooms[platform, external_id] = room
    return room


def _members(value: Any, room: IncomingRoom) -> tuple[IncomingMembership, ...]:
    if value is None:
        return tuple(room.members)
    if not isinstance(value, list):
        raise MalformedRecord("wrong type", f"members is {json_type(value)}, not a list")
    return tuple(_membership(item) for item in cast("list[Any]", value))


def _membership(value: Any) -> IncomingMembership:
    author = _author(value, "a member")
    fields = as_object(value) or {}
    joined, left = (fields.get(key) for key in ("joined_at", "left_at"))
    return IncomingMembership(
        author=author,
        joined_at=_moment(joined, "joined_at") if joined is not None else None,
        left_at=_moment(left, "left_at") if left is not None else None,
    )


def _moment(value: Any, what: str) -> datetime:
    if isinstance(value, int) and not isinstance(value, bool):
        seconds, milliseconds = divmod(value, 1000)
        return unix_time(seconds, microseconds=milliseconds * 1000)
    if not isinstance(value, str):
        raise MalformedRecord("no time", f"{what} is {json_type(value)}")
    return parse_iso_time(value)


def _sent(fields: Fields) -> tuple[datetime, TimestampPrecision]:
    value = fields.get("sent_at")
    moment = _moment(value, "sent_at")
    return moment, iso_precision(value) if isinstance(value, str) else "ms"


IMPORTER = Importer(
    name="jsonl",
    recognises=partial(is_format, fits=_is_jsonl),
    read=_read,
    signs=("roomlore.message/1", '"sent_at"', '"author"', '"room"', '"platform"'),
)
