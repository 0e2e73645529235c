"""Operations.

An operation is a method of a service that is declared once; routes, clients and limits are made from it.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypedDict,
    TypeVar,
    Union,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
)

from msgspec import Meta

from roomlore.domain.errors import BadInput
from roomlore.domain.phrases import reject_unknown_keywords
from roomlore.domain.records import Viewer

Function = TypeVar("Function", bound=Callable[..., Any])
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
#: What a repeated request with the same Idempotency-Key gets. `whole`: the stored answer, which holds ids, numbers and
#: times. `memory`, `conversation`: that record as it is now. `once`: only the fact that the request was done, because
#: the answer holds text or a secret. `read`: a new answer, because nothing was changed.
Replay = Literal["whole", "memory", "conversation", "once", "read"]

#: No database accepts a NUL.
NO_NUL = r"^[^\x00]*$"
LONGEST_WORD, LONGEST_TEXT, MOST_WORDS = 500, 1_000_000, 200
#: A name, an id or its beginning, or an external id. A plain `str` in a signature has this type.
Word = Annotated[str, Meta(min_length=1, max_length=LONGEST_WORD, pattern=NO_NUL)]
#: What somebody says or asks.
Text = Annotated[str, Meta(max_length=LONGEST_TEXT, pattern=NO_NUL)]
#: How many records one request lists.
Limit = Annotated[int, Meta(ge=1, le=1_000)]
#: Tokens.
Budget = Annotated[int, Meta(ge=1, le=1_000_000)]
Share = Annotated[float, Meta(ge=0, le=1)]

_DECLARED = "__operation__"
_ARGS = re.compile(r"^(?:Args|Attributes):\n((?:(?: +.*)?\n)*)", re.MULTILINE)
_ENTRY = re.compile(r"^    (\w+): (.*(?:\n {5,}.*)*)", re.MULTILINE)
_REQUIRED = inspect.Parameter.empty


class Declaration(TypedDict, total=False):
    """The options of an operation besides its method and path."""

    #: The operation id; the name of the method by default.
    name: str
    #: None: the operation takes no Idempotency-Key, like a GET.
    replay: Replay | None
    #: Whether a second run changes nothing. If so, a failed run may be repeated with the same key.
    is_repeatable: bool
    status: int
    #: For a result that is a plain value: the name of the only field of the JSON object that shows the result.
    result_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """An argument of an operation: its name, its type with limits, and its default."""

    name: str
    type: Any
    default: Any = _REQUIRED
    #: If a request leaves the argument out, the call is made without it.
    is_detail: bool = False
    is_keyword: bool = False

    @property
    def is_required(self) -> bool:
        """Return whether a request must contain the argument."""
        return self.default is _REQUIRED and not self.is_detail


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A declared method of a service."""

    function: Callable[..., Any]
    method: Method
    #: The path below `/v1`, with parameters in braces.
    path: str
    declaration: Declaration

    @property
    def name(self) -> str:
        """Return the operation id."""
        return self.declaration.get("name", self.function.__name__)

    @property
    def takes_viewer(self) -> bool:
        """Return whether the first argument is the viewer."""
        return signature_of(self.function).takes_viewer

    @property
    def parameters(self) -> Sequence[Parameter]:
        """Return the arguments besides the viewer, in the order of the signature."""
        return signature_of(self.function).parameters

    @property
    def result(self) -> Any:
        """Return the type of what the method returns."""
        return signature_of(self.function).result

    def is_in_path(self, parameter: Parameter) -> bool:
        """Return whether an argument is a part of the path."""
        return f"{{{parameter.name}}}" in self.path

    def bind(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """Return the given arguments of a call by name. Arguments that were left out are omitted.

        Raises:
            TypeError: they do not fit the signature.
        """
        bound = inspect.signature(self.function).bind(None, *args, **keywords)
        given = dict(list(bound.arguments.items())[1:])
        details = signature_of(self.function).details
        if details is not None:
            name, known = details
            extra = given.pop(name, {})
            reject_unknown_keywords(self.function.__qualname__.lower(), extra, known)
            given |= extra
        return given


def operation(
    method: Method, path: str, **declaration: Unpack[Declaration]
) -> Callable[[Function], Function]:
    """Declare a method of a service as an operation.

    Args:
        method: The HTTP method.
        path: The path below `/v1`; names in braces are arguments of the method.
        declaration: The other options of the operation.
    """

    def declare(function: Function) -> Function:
        setattr(
            function,
            _DECLARED,
            Operation(function=function, method=method, path=path, declaration=declaration),
        )
        return function

    return declare


@cache
def operations_of(service: type) -> Mapping[str, Operation]:
    """Return the operations of a service by the names of its methods."""
    found = {name: getattr(member, _DECLARED, None) for name, member in vars(service).items()}
    return {name: one for name, one in found.items() if one is not None}


def summary(function: Callable[..., Any]) -> str:
    """Return the first line of a docstring."""
    return (inspect.getdoc(function) or "").partition("\n")[0]


def argument_help(described: Any) -> dict[str, str]:
    """Return what the docstring of a function or typed dictionary says about each argument."""
    section = _ARGS.search(f"{inspect.getdoc(described)}\n")
    return {name: " ".join(text.split()) for name, text in (_ENTRY.findall(section[1]) if section else ())}


def check_zone(name: str, value: Any) -> None:
    """Check that a value is not a time without a time zone.

    Raises:
        BadInput: the value is a time without a time zone.
    """
    if hasattr(value, "utcoffset") and value.utcoffset() is None:
        raise BadInput(name.replace("_", " "), "must have a time zone")


def without_none(kind: Any) -> Any:
    """Return a type without None."""
    if get_origin(kind) in {Union, UnionType}:
        rest = tuple(one for one in get_args(kind) if one is not type(None))
        return rest[0] if len(rest) == 1 else Union[rest]  # noqa: UP007  made while it runs
    return kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The arguments and the result of a method of a service."""

    takes_viewer: bool
    parameters: Sequence[Parameter]
    result: Any
    #: The name of the parameter for keyword arguments, and the typed dictionary of all keywords.
    details: tuple[str, type] | None


@cache
def signature_of(function: Callable[..., Any]) -> Signature:
    """Return the signature of a method, with the limits of its annotated types."""
    hints = get_type_hints(function, include_extras=True)
    found, takes_viewer, details = list[Parameter](), False, None
    for one in list(inspect.signature(function).parameters.values())[1:]:
        kind = hints[one.name]
        if kind is Viewer:
            takes_viewer = True
        elif one.kind is inspect.Parameter.VAR_KEYWORD:
            (known,) = get_args(kind)
            details = (one.name, known)
            typed = get_type_hints(known, include_extras=True)
            found += [
                Parameter(name=name, type=of, is_detail=True, is_keyword=True) for name, of in typed.items()
            ]
        else:
            is_keyword = one.kind is inspect.Parameter.KEYWORD_ONLY
            found.append(Parameter(name=one.name, type=kind, default=one.default, is_keyword=is_keyword))
    return Signature(takes_viewer=takes_viewer, parameters=found, result=hints.get("return"), details=details)
