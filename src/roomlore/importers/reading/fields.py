"""Reads fields of foreign records. The importers of all formats share these functions.

Any field may be missing or of another type. The identity of a message (id, author, time, text) must be valid; otherwise
the record is skipped with a reason. Decoration (reactions, files, embeds) is taken as far as it is valid.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, cast

from roomlore.domain.incoming import (
    PLATFORM_METADATA,
    IncomingAuthor,
    IncomingMembership,
    IncomingMessage,
    ParsedItem,
    RoomKind,
    SkippedRecord,
    TimestampPrecision,
)
from roomlore.domain.patterns import lazy_pattern

#: The maximum length of an id. Ids are index keys, and no platform's ids come near this length.
MAX_ID = 255
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_INTEGER = 2**63 - 1
_ISO = lazy_pattern(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d([.,]\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?")

#: JSON types in words. Booleans come first, because Python counts them as integers.
_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "true or false"),
    ((int, float), "a number"),
    (str, "text"),
    (list, "a list"),
    (dict, "an object"),
)

Fields = Mapping[str, Any]


class TooDeep:
    """Stands for a value that is nested beyond `MAX_DEPTH`."""


TOO_DEEP = TooDeep()


class MalformedRecord(Exception):
    """The record cannot be read. Its importer turns this error into a `SkippedRecord`."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


def build_or_skip(
    value: Any, where: str, *, build: Callable[[Fields], IncomingMessage]
) -> Iterator[ParsedItem]:
    """Yield the message built from a record, or the reason why it is skipped."""
    try:
        message = build(as_record(value))
    except MalformedRecord as error:
        yield SkippedRecord(where=where, reason=error.reason, detail=error.detail)
    else:
        yield message


def as_record(value: Any) -> Fields:
    """Return the value if it is an object. Raises MalformedRecord otherwise."""
    if isinstance(value, TooDeep):
        raise MalformedRecord("nested too deeply")
    fields = as_object(value)
    if fields is None:
        raise MalformedRecord("not an object", f"found {json_type(value)}")
    return fields


def as_object(value: Any) -> Fields | None:
    """Return the value if it is an object."""
    return cast("Fields", value) if isinstance(value, dict) else None


def as_list(value: Any) -> list[Any]:
    """Return the value if it is a list; otherwise an empty list."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def json_type(value: Any) -> str:
    """Return the type of a JSON value in words."""
    for types, name in _KINDS:
        if isinstance(value, types):
            return name
    return "nothing"


def text_field(record: Fields, key: str) -> str:
    """Return a text member; empty if it is missing or null."""
    value = record.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MalformedRecord("wrong type", f"{key} is {json_type(value)}, not text")
    return value


def first_text(record: Fields, *keys: str) -> str:
    """Return the first member that is a non-empty text."""
    for key in keys:
        value = record.get(key)
        if isinstance(value, str) and value:
            return value
    return ""


def required_id(record: Fields, key: str, reason: str) -> str:
    """Return a required id."""
    value = text_field(record, key)
    if not value:
        raise MalformedRecord(reason)
    return checked_id(value, key)


def checked_id(value: str, what: str) -> str:
    """Return the id if it is not too long."""
    if len(value) > MAX_ID:
        raise MalformedRecord("id too long", f"{what} has {len(value)} characters")
    return value


def object_field(record: Fields, key: str) -> Fields:
    """Return an object member; empty if it is missing or no object."""
    return as_object(record.get(key)) or {}


def object_list(record: Fields, key: str) -> list[Fields]:
    """Return the objects of a list member."""
    return [fields for item in as_list(record.get(key)) if (fields := as_object(item)) is not None]


def id_list(values: Any) -> list[str]:
    """Return the valid ids, in order, without duplicates."""
    found = [item for item in as_list(values) if isinstance(item, str) and 0 < len(item) <= MAX_ID]
    return list(dict.fromkeys(found))


def integer_field(record: Fields, key: str) -> int | None:
    """Return an integer member of at most 64 bits."""
    value = record.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _MAX_INTEGER:
        return None
    return value


def sequence(digits: str, otherwise: int) -> int:
    """Return a numeric id as the order of the message."""
    if digits.isascii() and digits.isdigit() and len(digits) < len(str(_MAX_INTEGER)) + 1:
        return min(int(digits), _MAX_INTEGER)
    return otherwise


def non_empty(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not empty."""
    return {
        key: value
        for key, value in fields.items()
        if value is not None and value is not False and value not in ("", [], {})
    }


def platform_metadata(**fields: Any) -> dict[str, Any]:
    """Return the non-empty fields as platform metadata. Only operators see it, because it may name hidden people."""
    stated = non_empty(**fields)
    return {PLATFORM_METADATA: stated} if stated else {}


def unix_time(seconds: int, *, microseconds: int = 0) -> datetime:
    """Return a Unix time."""
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=microseconds)
    except OverflowError as error:
        raise MalformedRecord("no time", "out of range") from error


def parse_iso_time(value: str, *, zone: tzinfo | None = None) -> datetime:
    """Return an ISO 8601 time in UTC. A time without an offset is in `zone`; without a zone, it is invalid."""
    if not _ISO.fullmatch(value):
        raise MalformedRecord("no time", "not an ISO 8601 time")
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            if zone is None:
                raise MalformedRecord("no time zone")
            moment = moment.replace(tzinfo=zone)
        return moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise MalformedRecord("no time", "out of range") from error


def parse_optional_time(value: Any, *, zone: tzinfo | None = None) -> datetime | None:
    """Return an optional time; None if it is invalid."""
    try:
        return parse_iso_time(value, zone=zone) if isinstance(value, str) else None
    except MalformedRecord:
        return None


def iso_precision(value: str) -> TimestampPrecision:
    """Return the precision of an ISO 8601 time."""
    match = _ISO.fullmatch(value)
    if match is None or match[1] is None:
        return "min"
    digits = len(match[2] or ".") - 1
    return "s" if digits == 0 else "ms" if digits <= len("000") else "us"


def reaction(item: Fields, emoji: str, by: list[str]) -> dict[str, Any]:
    """Return a reaction with its count and the accounts that gave it."""
    return non_empty(emoji=emoji, count=integer_field(item, "count"), by=by)


def add_author(
    authors: dict[tuple[str, str], IncomingAuthor], record: Any, author_of: Callable[[Fields], IncomingAuthor]
) -> None:
    """Add the author of a record to the known authors, unless the record is malformed."""
    try:
        author = author_of(as_object(record) or {})
    except MalformedRecord:
        return
    authors.setdefault((author.account_id, author.persona), author)


_SIDES = 2


def direct_members(
    kind: RoomKind | None, authors: Iterable[IncomingAuthor]
) -> tuple[IncomingMembership, ...]:
    """Return both sides of a one-to-one room as members without a date.

    For other rooms, return nobody.
    """
    known = {(author.account_id, author.persona): author for author in authors}
    # A room with a third account is not one-to-one. Its speakers may not all read its earlier messages.
    if kind != "dm" or len({account for account, _ in known}) > _SIDES:
        return ()
    return tuple(IncomingMembership(author=author) for author in known.values())
