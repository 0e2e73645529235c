"""Routes that are derived from declared operations. The types of a method's arguments check the request."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime, timedelta
from functools import cache
from http import HTTPStatus
from types import UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints

from fastapi import APIRouter, Query
from msgspec import Meta
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, create_model
from starlette.responses import Response

from roomlore.http.authentication import AuthenticatedApp
from roomlore.http.field_types import RequestBody, UtcTime
from roomlore.http.responses import json_response
from roomlore.operations.registry import MOST_WORDS, Operation, Parameter, Word, operations_of, without_none
from roomlore.operations.responses import shown_as, to_document
from roomlore.operations.services import SERVICES

PREFIX = "/v1"


def routers() -> list[APIRouter]:
    """Return the routers of all declared operations."""
    return [_router(attribute, service) for attribute, service in SERVICES.items()]


def declared() -> Mapping[tuple[str, str], Operation]:
    """Return every declared operation by method and path."""
    operations = (one for service in SERVICES.values() for one in operations_of(service).values())
    return {(one.method, PREFIX + one.path): one for one in operations}


def _router(attribute: str, service: type) -> APIRouter:
    router = APIRouter(prefix=PREFIX)
    for one in operations_of(service).values():
        record = _response_record(one)
        router.add_api_route(
            one.path,
            _endpoint(attribute, one),
            methods=[one.method],
            name=one.name,
            tags=[one.path.split("/")[1]],
            response_model=record,
            status_code=_status(one),
            description=description(one.function),
        )
    return router


def description(function: Callable[..., Any]) -> str:
    """Return the text of a docstring, without its sections such as `Args`."""
    text = inspect.getdoc(function) or ""
    for section in ("Args:", "Raises:", "Returns:"):
        text = text.partition(f"\n{section}")[0]
    return text.strip()


def _endpoint(attribute: str, one: Operation) -> Callable[..., Any]:
    in_path = [parameter for parameter in one.parameters if one.is_in_path(parameter)]
    others = [parameter for parameter in one.parameters if not one.is_in_path(parameter)]
    body = _body(one, others) if others and one.method not in {"GET", "DELETE"} else None

    async def serve(**values: Any) -> Response:
        app, fields = values.pop("app"), values.pop("body", None)
        if fields is not None:
            values |= {parameter.name: getattr(fields, parameter.name) for parameter in others}
        arguments = {
            parameter.name: _plain(values[parameter.name])
            for parameter in one.parameters
            if not (parameter.is_detail and values[parameter.name] is None)
        }
        viewer = [app.access.principal] if one.takes_viewer else []
        result = await getattr(getattr(app, attribute), one.function.__name__)(*viewer, **arguments)
        return _response(one, result)

    arguments = [
        _argument("app", AuthenticatedApp),
        *(_argument(p.name, request_type(without_none(p.type))) for p in in_path),
        *(
            [_query_argument(parameter) for parameter in others]
            if body is None
            else [_argument("body", body)]
        ),
    ]
    serve.__signature__ = inspect.Signature(arguments)  # type: ignore[attr-defined]
    serve.__name__ = one.name
    return serve


def _response(one: Operation, result: Any) -> Response:
    if one.result is type(None):
        return Response(status_code=HTTPStatus.NO_CONTENT)
    return json_response(to_document(one, result), status=_status(one))


def _status(one: Operation) -> HTTPStatus:
    is_empty = one.result is type(None)
    return HTTPStatus.NO_CONTENT if is_empty else HTTPStatus(one.declaration.get("status", HTTPStatus.OK))


def _response_record(one: Operation) -> Any:
    shown, key, result = shown_as(one), one.declaration.get("result_key"), one.result
    if result is type(None):
        return None
    if shown is not None:
        record = get_type_hints(shown)["return"]
        return list[record] if get_origin(result) is list else record
    return result if key is None else _new_model(_title(one, "Response"), BaseModel, {key: (result, ...)})


def _body(one: Operation, parameters: Sequence[Parameter]) -> type[BaseModel]:
    return _request_model(_title(one, "Request"), parameters, description(one.function).partition("\n")[0])


def _request_model(name: str, parameters: Sequence[Parameter], about: str) -> type[BaseModel]:
    fields_: dict[str, Any] = {}
    for parameter in parameters:
        kind = request_type(parameter.type)
        if parameter.is_detail:
            fields_[parameter.name] = (kind | None, None)
        else:
            default = ... if parameter.is_required else _request_default(parameter.default)
            fields_[parameter.name] = (kind, default)
    return _new_model(name, RequestBody, fields_, about)


def _new_model(
    name: str, base: type[BaseModel], fields_: Mapping[str, Any], about: str = ""
) -> type[BaseModel]:
    create = cast("Callable[..., type[BaseModel]]", create_model)
    return create(name, __base__=base, __doc__=about, **fields_)


@cache
def _record(kind: type) -> type[BaseModel]:
    """Return the model that validates a record in a request. Missing fields get the record's defaults."""
    hints = get_type_hints(kind, include_extras=True)
    parameters = [
        Parameter(
            name=one.name,
            type=hints[one.name],
            **({} if one.default is MISSING else {"default": one.default}),
        )
        for one in fields(kind)
    ]
    model = _request_model(kind.__name__, parameters, inspect.getdoc(kind) or "")
    model.__record__ = kind  # type: ignore[attr-defined]
    return model


def _request_default(default: Any) -> Any:
    """Return a method's default in the form that it has in a request, for example a duration as seconds."""
    if is_dataclass(default) and not isinstance(default, type):
        return _record(type(default))()
    return list(cast("tuple[Any, ...]", default)) if isinstance(default, tuple) else default


def _plain(value: Any) -> Any:
    """Return a validated value of a request in the form that the method takes."""
    if not isinstance(value, BaseModel):
        return value
    record: type[Any] = getattr(type(value), "__record__")  # noqa: B009  only the models of records have it
    return record(**{name: _plain(getattr(value, name)) for name in type(value).model_fields})


def request_type(kind: Any) -> Any:
    """Return the type with which pydantic validates an argument in a request."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _limited(*parts)
    if kind in FORMS:
        return FORMS[kind]
    if origin in {Union, UnionType}:
        return Union[tuple(map(request_type, parts))]  # noqa: UP007  made while it runs
    if origin in {Sequence, list}:
        return Annotated[list[request_type(parts[0])], Field(max_length=MOST_WORDS)]
    if origin is Mapping:
        return dict[parts[0], parts[1]]
    return _record(kind) if is_dataclass(kind) else kind


def _limited(base: Any, *notes: Any) -> Any:
    limits = [_field(note) if isinstance(note, Meta) else note for note in notes]
    if base is timedelta:
        return Annotated[float, *limits, SECONDS]
    inner = base if base is str else request_type(base)
    return Annotated[get_args(inner)[0] if get_origin(inner) is Annotated else inner, *limits]


def _seconds(value: float) -> timedelta:
    try:
        return timedelta(seconds=value)
    except OverflowError:
        raise ValueError("is too long") from None


#: A duration in a request, as a number of seconds.
SECONDS = AfterValidator(_seconds)


def _field(meta: Meta) -> Any:
    names = ("gt", "ge", "lt", "le", "min_length", "max_length", "pattern", "description")
    limits = {name: getattr(meta, name) for name in names if getattr(meta, name) is not None}
    return Field(**limits)


def _query_argument(parameter: Parameter) -> inspect.Parameter:
    kind = request_type(without_none(parameter.type))
    # In a query string, one empty value stands for an empty list.
    is_list = get_origin(get_args(kind)[0] if get_origin(kind) is Annotated else kind) is list
    notes = (BeforeValidator(_unblank), Query()) if is_list else (Query(),)
    default = None if parameter.is_detail else parameter.default
    if default is None:
        kind = kind | None
    return _argument(parameter.name, Annotated[kind, *notes], default)


def _unblank(value: Any) -> Any:
    return [one for one in cast("list[Any]", value) if one != ""] if isinstance(value, list) else value


def _argument(name: str, kind: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)


def _title(one: Operation, suffix: str) -> str:
    return "".join(part.capitalize() for part in one.name.split("_")) + suffix


#: For each type that has another form in a request, the type that validates that form.
FORMS: Mapping[Any, Any] = {str: request_type(Word), datetime: UtcTime, timedelta: Annotated[float, SECONDS]}
