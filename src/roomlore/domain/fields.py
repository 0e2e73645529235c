"""The fields of a record by name, for a record that holds more."""

from dataclasses import fields
from typing import Any


def field_values(record: Any) -> dict[str, Any]:
    """Return the values of a record's fields by their names; what they hold is not copied."""
    return {one.name: getattr(record, one.name) for one in fields(record)}
