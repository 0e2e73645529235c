"""What of a record may be shown: everything but the fields that say that they are not to be."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, cast


@cache
def public_fields(record: type[Any]) -> tuple[str, ...]:
    """Return the names of the fields of a record that may be shown."""
    return tuple(one.name for one in fields(record) if one.metadata.get("shown", True))


@cache
def hidden_fields(record: type[Any]) -> frozenset[str]:
    """Return the names of the fields of a record that may not be shown."""
    return frozenset(one.name for one in fields(record)) - frozenset(public_fields(record))


def public_value(value: Any) -> Any:
    """Return a value in which each record, however deep it lies, is what of it may be shown."""
    if is_dataclass(value) and not isinstance(value, type):
        return {name: public_value(getattr(value, name)) for name in public_fields(type(value))}
    if isinstance(value, Mapping):
        return {key: public_value(one) for key, one in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [public_value(one) for one in cast("Sequence[Any]", value)]
    return value
