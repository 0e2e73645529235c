"""Records as JSON: times in UTC, durations in seconds."""

import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import is_dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, TypeVar, cast
from urllib.parse import quote
from uuid import UUID

import msgspec

from roomlore.domain.errors import BadInput, ServerUnavailable
from roomlore.domain.records import field_values

Record = TypeVar("Record")
Query = list[tuple[str, str]]


def decode(body: bytes, kind: type[Record]) -> Record:
    """Return the record in a response. Unknown fields are ignored.

    Raises:
        ServerUnavailable: the response holds no such record.
    """
    try:
        return cast("Record", _decoder(kind).decode(body))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError):
        name = getattr(kind, "__name__", "record")
        raise ServerUnavailable(
            f"the server's answer is no {name}", cure="are client and server of the same version?"
        ) from None


def encode(value: object) -> bytes:
    """Return a value as JSON.

    Raises:
        BadInput: JSON cannot hold the value.
    """
    try:
        return json.dumps(value, default=_plain, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput("request", f"cannot be written as JSON: {type(error).__name__}") from None


def segment(what: str, word: str) -> str:
    """Return a word as one segment of a path.

    Raises:
        BadInput: a path cannot hold the word.
    """
    if word in {"", ".", ".."}:
        raise BadInput(f"{what} {word!r}", "cannot stand in an address; name it by its id")
    try:
        return quote(word, safe="")
    except UnicodeEncodeError:
        raise BadInput(f"{what} {word!r}", "holds half of a character") from None


def query(**parameters: object) -> Query:
    """Return query parameters as pairs.

    None is left out. A list becomes one pair for each value. An empty list becomes one empty value.
    """
    pairs: Query = []
    for name, value in parameters.items():
        if value is not None:
            values = cast("Sequence[object]", value) if isinstance(value, list | tuple) else [value]
            pairs += [(name, _query_value(one)) for one in values or [""]]
    return pairs


def check_zone(name: str, value: object, *, otherwise: str = "needs a zone") -> None:
    """Raise BadInput if a value is a time without a zone."""
    if isinstance(value, datetime) and value.utcoffset() is None:
        raise BadInput(name, otherwise)


@lru_cache(maxsize=256)
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    # The validation is not strict, because durations are numbers in JSON.
    return msgspec.json.Decoder(kind, strict=False)


def _query_value(value: object) -> str:
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
