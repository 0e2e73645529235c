"""Arguments of tools and prompts: their types with limits, and a model made from the signature of each function.

No argument names the viewer. The key or --as decides who the viewer is, before any call.
"""

import inspect
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from typing import Annotated, Any, cast, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    create_model,
)

from roomlore.mcp.errors import ToolError
from roomlore.operations.registry import argument_help

LONGEST_WORD, LONGEST_TEXT = 500, 10_000
MOST_NAMED = 20
DEFAULT_BUDGET, LEAST_BUDGET, MOST_BUDGET = 2_000, 100, 16_000
#: The maximum number of errors of one call that are named.
MAX_ERRORS = 10


def _without_nul(value: str) -> str:
    if "\0" in value:
        raise ValueError("must not contain NUL")
    return value


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


ShortText = Annotated[
    str, StringConstraints(min_length=1, max_length=LONGEST_WORD), AfterValidator(_without_nul)
]
LongText = Annotated[
    str, StringConstraints(min_length=1, max_length=LONGEST_TEXT), AfterValidator(_without_nul)
]
ShortTexts = Annotated[list[ShortText], Field(max_length=MOST_NAMED)]
Limit = Annotated[int, Field(ge=1, le=20)]
ListLimit = Annotated[int, Field(ge=1, le=200)]
Part = Annotated[int, Field(ge=1, le=1_000)]
Budget = Annotated[int, Field(ge=LEAST_BUDGET, le=MOST_BUDGET)]
UtcTime = Annotated[datetime, BeforeValidator(_utc_time)]
#: Descriptions of arguments that several tools take.
COMMON_HELP: Mapping[str, str] = {
    "budget": "The most tokens of text to return.",
    "limit": "How many at most.",
    "private": "Everything you may read, not only what everybody in the room may: do not post it.",
    "room": "Name or id of a room.",
    "since": "A day, or a time with its zone, like 2026-01-31.",
    "until": "A day, or a time with its zone, like 2026-01-31.",
}


class Arguments(BaseModel):
    """The arguments of a call. Unknown arguments are refused, because ignoring them could change the meaning."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


def arguments_model(function: Callable[..., Any]) -> type[Arguments]:
    """Return the model of a function's arguments after the first, with descriptions from its docstring."""
    hints, helps = get_type_hints(function, include_extras=True), {**COMMON_HELP, **argument_help(function)}
    fields: dict[str, Any] = {}
    for one in list(inspect.signature(function).parameters.values())[1:]:
        default = ... if one.default is inspect.Parameter.empty else one.default
        fields[one.name] = (Annotated[hints[one.name], Field(description=helps.get(one.name))], default)
    create = cast("Callable[..., type[Arguments]]", create_model)
    return create(function.__name__, __base__=Arguments, **fields)


def parse_arguments(model: type[Arguments], values: object) -> dict[str, Any]:
    """Return the arguments of a call.

    Raises:
        ToolError: they do not fit the model; the error does not repeat the values.
    """
    try:
        return dict(model.model_validate(values))
    except ValidationError as error:
        errors = [
            f"{'.'.join(str(part) for part in one['loc']) or 'arguments'}: {one['msg']}"
            for one in error.errors()[:MAX_ERRORS]
        ]
        raise ToolError("; ".join(dict.fromkeys(errors))) from None
