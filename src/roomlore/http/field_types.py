"""What a request may say, by type: words that a database can be asked for, times with a zone, and nothing unknown."""

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field, PlainValidator, StringConstraints, WithJsonSchema

from roomlore.operations.registry import LONGEST_TEXT, LONGEST_WORD, MOST_WORDS, NO_NUL

#: A name, an id or the beginning of one, an external id.
ShortText = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_WORD, pattern=NO_NUL)]
#: What somebody says or asks.
LongText = Annotated[str, StringConstraints(max_length=LONGEST_TEXT, pattern=NO_NUL)]
ShortTexts = Annotated[list[ShortText], Field(max_length=MOST_WORDS)]
#: Of what is listed.
Limit = Annotated[int, Query(ge=1, le=1_000)]
#: Of tokens.
Budget = Annotated[int, Query(ge=1, le=1_000_000)]
QueryTexts = Annotated[list[ShortText], Query(max_length=MOST_WORDS)]


def _utc_time(value: Any) -> datetime:
    moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    if moment is None or moment.utcoffset() is None:
        raise ValueError("must be a time with its zone, like 2026-01-31T09:00:00Z")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("lies outside of all time") from None


UtcTime = Annotated[
    datetime, PlainValidator(_utc_time), WithJsonSchema({"type": "string", "format": "date-time"})
]


class RequestBody(BaseModel):
    """What a request says; a word that is not known here is refused, since leaving it out might mean something else."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class QueryParameters(BaseModel):
    """What a query says, where numbers are words, too."""

    model_config = ConfigDict(extra="forbid")


class RoomBody(RequestBody):
    """Where a message is looked for."""

    room: ShortText | None = None
