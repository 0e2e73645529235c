"""What a call may say, by tool and prompt. None of it says who reads: that is settled before anybody calls."""

from datetime import UTC, date, datetime, time
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)

from roomlore.domain.records import MemoryKind
from roomlore.mcp.errors import ToolError

LONGEST_WORD, LONGEST_TEXT = 500, 10_000
MOST_NAMED = 20
DEFAULT_BUDGET, LEAST_BUDGET, MOST_BUDGET = 2_000, 100, 16_000
#: Of faults in one call, so many are named.
MAX_FAULTS = 10


def _storable(value: str) -> str:
    if "\0" in value:
        raise ValueError("must hold no NUL: no database takes one")
    return value


ShortText = Annotated[
    str, StringConstraints(min_length=1, max_length=LONGEST_WORD), AfterValidator(_storable)
]
LongText = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_TEXT), AfterValidator(_storable)]
ShortTexts = Annotated[list[ShortText], Field(max_length=MOST_NAMED)]
Room = Annotated[ShortText, Field(description="Name or id of a room.")]
Budget = Annotated[
    int, Field(ge=LEAST_BUDGET, le=MOST_BUDGET, description="The most tokens of text to return.")
]
Limit = Annotated[int, Field(ge=1, le=20, description="How many at most.")]

Private = Annotated[
    bool,
    Field(description="All that you may read, not only what everybody in the room may: post nothing of it."),
]

Given = TypeVar("Given", bound="Arguments")


class Arguments(BaseModel):
    """What a call says; a word that is not known here is refused, since leaving it out might mean something else."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


def _utc_time(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        if len(value) == len("2026-01-31"):
            return datetime.combine(date.fromisoformat(value), time.min, tzinfo=UTC)
        moment = datetime.fromisoformat(value)
    except ValueError:
        moment = None
    if moment is None or moment.utcoffset() is None:
        raise ValueError("must be a day or a time with its zone, like 2026-01-31T09:00:00Z")
    return moment


UtcTime = Annotated[
    datetime,
    BeforeValidator(_utc_time),
    Field(description="A day, or a time with its zone, like 2026-01-31."),
]


class RoomList(Arguments):
    """For `room_list`."""

    limit: Annotated[int, Field(ge=1, le=200, description="How many at most.")] = 50


class PeopleList(Arguments):
    """For `people_list`."""

    room: Annotated[ShortText | None, Field(description="Only who spoke there; everybody by default.")] = None
    limit: Annotated[int, Field(ge=1, le=200, description="How many at most.")] = 50


class RoomRead(Arguments):
    """For `room_read`."""

    room: Room
    since: UtcTime | None = None
    until: UtcTime | None = None
    before: Annotated[ShortText | None, Field(description="Id of a message; only what came before it.")] = (
        None
    )
    limit: Annotated[int, Field(ge=1, le=200, description="How many at most, the newest of the span.")] = 50
    budget: Budget = DEFAULT_BUDGET


class MessageRead(Arguments):
    """For `message_read`."""

    room: Room
    message: Annotated[ShortText, Field(description="Id of the message.")]
    part: Annotated[int, Field(ge=1, le=1_000, description="Which part of its words.")] = 1


class RoomContext(Arguments):
    """For `room_context`."""

    room: Room
    message: Annotated[ShortText, Field(description="Id of the message to answer.")] = "last"
    budget: Budget = DEFAULT_BUDGET
    private: Private = False


class RoomSearch(Arguments):
    """For `room_search`."""

    question: Annotated[LongText, Field(description="In plain words; who and when may be among them.")]
    room: Annotated[
        ShortText | None,
        Field(description="Only there, and what everybody there may read; everywhere by default."),
    ] = None
    limit: Limit = 5
    budget: Budget = DEFAULT_BUDGET
    private: Private = False


class Ask(Arguments):
    """For `ask`."""

    question: Annotated[LongText, Field(description="In plain words.")]
    room: Annotated[
        ShortText | None,
        Field(description="Where you answer: look there first, and use what everybody there may read."),
    ] = None
    budget: Budget = DEFAULT_BUDGET
    private: Private = False


class MemorySearch(Arguments):
    """For `memory_search`."""

    question: Annotated[LongText | None, Field(description="What it is about; the newest by default.")] = None
    room: Annotated[ShortText | None, Field(description="Only from this room; not with a question.")] = None
    about: Annotated[
        ShortText | None, Field(description="Only about this participant; not with a question.")
    ] = None
    limit: Limit = 10
    budget: Budget = DEFAULT_BUDGET


class MemoryWhy(Arguments):
    """For `memory_why`."""

    memory: Annotated[ShortText, Field(description="Id of a memory, or the beginning of it.")]
    budget: Budget = DEFAULT_BUDGET


class Remember(Arguments):
    """For `remember`."""

    content: Annotated[LongText, Field(description="One statement.")]
    sources: Annotated[
        ShortTexts,
        Field(description="Ids of messages it rests on; none: yours alone."),
    ] = []
    room: ShortText | None = None
    about: Annotated[ShortTexts, Field(description="Whom it is about.")] = []
    kind: MemoryKind = "fact"
    occurred_at: UtcTime | None = None


class RoomSay(Arguments):
    """For `room_say`."""

    room: Room
    text: LongText
    reply_to: Annotated[ShortText | None, Field(description="Id of the message it answers.")] = None
    to: Annotated[ShortTexts, Field(description="Whisper to these alone; to the whole room by default.")] = []


class Forget(Arguments):
    """For `forget`."""

    memory: Annotated[ShortText | None, Field(description="Id of a memory to put aside.")] = None
    message: Annotated[ShortText | None, Field(description="Id of a message of yours to erase for good.")] = (
        None
    )


class Correct(Arguments):
    """For `correct`."""

    text: Annotated[LongText, Field(description="What is right.")]
    memory: Annotated[ShortText | None, Field(description="Id of a memory to replace.")] = None
    message: Annotated[ShortText | None, Field(description="Id of a message of yours to edit.")] = None


class CatchUp(Arguments):
    """For the prompt `catch_up`."""

    room: Room
    since: UtcTime | None = None


def parse_arguments(kind: type[Given], given: object) -> Given:
    """Return what a call says.

    Raises:
        Refused: it is not of its shape, or says an unknown word; what was said is not repeated.
    """
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        faults = [
            f"{'.'.join(str(part) for part in fault['loc']) or 'arguments'}: {fault['msg']}"
            for fault in error.errors()[:MAX_FAULTS]
        ]
        raise ToolError("; ".join(dict.fromkeys(faults))) from None
