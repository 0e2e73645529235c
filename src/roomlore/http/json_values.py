"""JSON values: hidden fields are left out, and integers that not every JSON reader can represent become strings."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, cast

from roomlore.domain.patterns import lazy_pattern

#: JavaScript and others read all numbers as doubles. Doubles represent every integer up to this one exactly.
MAX_SAFE_INTEGER = 2**53
#: A fast test for large integers, which most documents do not contain.
_MANY_DIGITS = lazy_pattern(r"\d{16}")


def safe_json(body: bytes) -> bytes:
    """Return JSON in which integers beyond 2^53 are strings."""
    if not _MANY_DIGITS.search(body.decode()):
        return body
    return json.dumps(safe_numbers(json.loads(body)), ensure_ascii=False, separators=(",", ":")).encode()


def safe_numbers(value: Any) -> Any:
    """Return a JSON value in which integers beyond 2^53 are strings."""
    if isinstance(value, Mapping):
        return {key: safe_numbers(one) for key, one in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list):
        return [safe_numbers(one) for one in cast("list[Any]", value)]
    is_large = isinstance(value, int) and not isinstance(value, bool) and abs(value) > MAX_SAFE_INTEGER
    return str(value) if is_large else value


@cache
def public_fields(record: type[Any]) -> tuple[str, ...]:
    """Return the names of the fields of a record that may be shown."""
    return tuple(one.name for one in fields(record) if one.metadata.get("shown", True))


@cache
def hidden_fields(record: type[Any]) -> frozenset[str]:
    """Return the names of the fields of a record that may not be shown."""
    return frozenset(one.name for one in fields(record)) - frozenset(public_fields(record))


def public_value(value: Any) -> Any:
    """Return a value in which each record, at any depth, is a mapping of its public fields."""
    if is_dataclass(value) and not isinstance(value, type):
        return {name: public_value(getattr(value, name)) for name in public_fields(type(value))}
    if isinstance(value, Mapping):
        return {key: public_value(one) for key, one in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [public_value(one) for one in cast("Sequence[Any]", value)]
    return value
