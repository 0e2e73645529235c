"""Records as a server reads and writes them: JSON, with times in UTC and spans in seconds."""

import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, TypeVar, cast
from urllib.parse import quote
from uuid import UUID

import msgspec

from roomlore.domain.errors import BadInput, ServerUnavailable
from roomlore.domain.fields import field_values

Told = TypeVar("Told")


def decode(body: bytes, kind: type[Told]) -> Told:
    """Return the record that an answer holds; what it holds besides is left aside.

    Raises:
        ServerUnavailable: it holds none.
    """
    try:
        return cast("Told", _decoder(kind).decode(body))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError):
        cure = "are client and server of the same version?"
        raise ServerUnavailable(f"the server's answer is no {_type_name(kind)}", cure=cure) from None


def encode(value: object) -> bytes:
    """Return a value as JSON.

    Raises:
        BadInput: it cannot be written so.
    """
    try:
        return json.dumps(value, default=_plain, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput("request", f"cannot be written as JSON: {type(error).__name__}") from None


def convert(kind: type[Told], record: object) -> Told:
    """Return a record that is in a larger one, which has all of its fields."""
    assert is_dataclass(kind)
    return kind(**{one.name: getattr(record, one.name) for one in fields(kind)})


def segment(what: str, word: str) -> str:
    """Return a word as a part of a path.

    Raises:
        BadInput: it cannot stand there.
    """
    if word in {"", ".", ".."}:
        raise BadInput(f"{what} {word!r}", "cannot stand in an address; name it by its id")
    try:
        return quote(word, safe="")
    except UnicodeEncodeError:
        raise BadInput(f"{what} {word!r}", "holds half of a character") from None


def query(**wanted: object) -> list[tuple[str, str]]:
    """Return what is asked for as pairs of an address; None is left out, and a list is named word by word, an empty one by one empty word."""
    pairs: list[tuple[str, str]] = []
    for name, value in wanted.items():
        if value is None:
            continue
        each = cast("Sequence[object]", value) if isinstance(value, list | tuple) else [value]
        pairs += [(name, _query_word(one)) for one in each or [""]]
    return pairs


def format_time(what: str, time: datetime | None, *, otherwise: str = "needs a zone") -> str | None:
    """Return a time as it is written.

    Raises:
        BadInput: it has no zone.
    """
    if time is not None and time.utcoffset() is None:
        raise BadInput(what, otherwise)
    return None if time is None else time.isoformat()


@lru_cache(maxsize=256)
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    # Not strict: spans are written as numbers.
    return msgspec.json.Decoder(kind, strict=False)


def _type_name(kind: type[object]) -> str:
    return getattr(kind, "__name__", "record")


def _query_word(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return field_values(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    if isinstance(value, Sequence | AbstractSet) and not isinstance(value, str | bytes | bytearray):
        return list(cast("Sequence[Any]", value))
    raise TypeError
