"""The types of request fields: texts that the database can store, and times with a zone."""

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field, PlainValidator, StringConstraints, WithJsonSchema

from roomlore.operations.registry import LONGEST_TEXT, LONGEST_WORD, MOST_WORDS, NO_NUL

#: A name, an id or its beginning, or an external id.
ShortText = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_WORD, pattern=NO_NUL)]
#: A message or a question.
LongText = Annotated[str, StringConstraints(max_length=LONGEST_TEXT, pattern=NO_NUL)]
ShortTexts = Annotated[list[ShortText], Field(max_length=MOST_WORDS)]
#: The maximum number of records in a list.
Limit = Annotated[int, Query(ge=1, le=1_000)]
#: A number of tokens.
Budget = Annotated[int, Query(ge=1, le=1_000_000)]
QueryTexts = Annotated[list[ShortText], Query(max_length=MOST_WORDS)]


def _utc_time(value: Any) -> datetime:
    time = datetime.fromisoformat(value) if isinstance(value, str) else None
    if time is None or time.utcoffset() is None:
        raise ValueError("must be a time with its zone, like 2026-01-31T09:00:00Z")
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise ValueError("is too early or too late") from None


UtcTime = Annotated[
    datetime, PlainValidator(_utc_time), WithJsonSchema({"type": "string", "format": "date-time"})
]


class RequestBody(BaseModel):
    """A request body. Unknown fields are refused, because ignoring one could change the meaning of the request."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class QueryParameters(BaseModel):
    """Query parameters. Their values are texts, so numbers are converted from text."""

    model_config = ConfigDict(extra="forbid")


class RoomBody(RequestBody):
    """A body with the room of a message. The room may be left out."""

    room: ShortText | None = None
