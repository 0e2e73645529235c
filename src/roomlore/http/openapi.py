"""The OpenAPI description of the routes: their types and docstrings, and what all routes share."""

import json
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from typing import Any, cast

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from roomlore.domain.records import Message
from roomlore.http.idempotency import REPLAYS
from roomlore.http.json_values import hidden_fields
from roomlore.http.problems import Problem
from roomlore.operations.responses import FoundMessage

API_DESCRIPTION = """\
Conversation memory for rooms full of people and agents. Your key alone decides what you see; what you may not see is not
found. Times are in UTC, durations in seconds, ids sort by time. Errors are problem documents (RFC 9457); every response
has an `X-Request-Id`."""
VIEWER = {
    "name": "Roomlore-Viewer",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 500},
    "description": (
        "With an operator's key: read and act as this participant, by name, account or id; percent-encoded UTF-8."
    ),
}
COMMON_RESPONSES = {
    "400": "The request has the wrong shape, or a name in it means nothing or several things.",
    "401": "The key is missing or not valid.",
    "403": "The key does not give this right.",
    "404": "It does not exist, or the viewer may not see it.",
    "429": "Too many requests with this key; `Retry-After` says when to try again.",
    "500": "An internal error in Roomlore.",
    "507": "The disk of the database is full: nothing was written; everything stored can be read.",
    "503": "The server is at its limit, or the database does not answer; `Retry-After` says when to try again.",
}
BODY_RESPONSES = {
    "408": "The body does not arrive in time.",
    "413": "The body is too large.",
    "415": "The body is not JSON.",
}
IDEMPOTENCY_RESPONSES = {
    "409": (
        "The same request is still in progress (`Retry-After` says when to try again), or it succeeded and its response is"
        " not stored, or its outcome is unknown."
    ),
    "422": "The `Idempotency-Key` belongs to another request.",
}
IDEMPOTENCY_HEADER = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]*$"},
    "description": (
        "A new word for each request. If you repeat the request with it within a day, the request does not run again, and"
        " you get its response with `Idempotency-Replayed: true`."
    ),
}
METHODS = ("get", "post", "put", "patch", "delete")


def openapi_document(api: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of an application."""
    if api.openapi_schema is None:
        document = get_openapi(
            title="Roomlore", version=version("roomlore"), description=API_DESCRIPTION, routes=api.routes
        )
        _describe_durations(document)
        for schema in document["components"]["schemas"].values():
            _remove_hidden_fields(schema)
        components = document["components"]
        components["schemas"].pop("HTTPValidationError", None)
        components["schemas"].pop("ValidationError", None)
        components["schemas"]["Problem"] = TypeAdapter(Problem).json_schema()
        components["parameters"] = {"Viewer": VIEWER, "IdempotencyKey": IDEMPOTENCY_HEADER}
        components["responses"] = {
            f"Problem{status}": _problem(why)
            for status, why in (COMMON_RESPONSES | BODY_RESPONSES | IDEMPOTENCY_RESPONSES).items()
        }
        for path, method, operation in _operations(document):
            _complete(operation, is_versioned=path.startswith("/v1"))
            if REPLAYS.get((method.upper(), path), "read") != "read":
                operation["parameters"].append({"$ref": "#/components/parameters/IdempotencyKey"})
                operation["responses"] |= _problem_responses(IDEMPOTENCY_RESPONSES)
        api.openapi_schema = document
    return api.openapi_schema


def parameters(api: FastAPI, path: str, method: str) -> frozenset[str]:
    """Return the names of the query parameters of a route."""
    operation = api.openapi()["paths"].get(path, {}).get(method.lower(), {})
    known = [one for one in operation.get("parameters", []) if one.get("in") == "query"]
    return frozenset(one["name"] for one in known)


def openapi_text(api: FastAPI) -> str:
    """Return the text of `docs/openapi.json`."""
    return json.dumps(openapi_document(api), indent=1, ensure_ascii=False) + "\n"


def _remove_hidden_fields(schema: dict[str, Any]) -> None:
    for record in (Message, FoundMessage):
        if schema.get("title") == record.__name__:
            for name in hidden_fields(record):
                schema["properties"].pop(name, None)
            schema["required"] = [name for name in schema["required"] if name in schema["properties"]]


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                yield path, method, item[method]


def _complete(operation: dict[str, Any], *, is_versioned: bool) -> None:
    """Split the docstring into summary and description, and add what every operation has."""
    summary, _, rest = operation.pop("description", "").partition("\n")
    operation["summary"] = summary.removesuffix(".")
    if rest.strip():
        operation["description"] = " ".join(rest.split())
    operation["operationId"] = operation["operationId"].partition("_v1_")[0].partition("_health_")[0]
    operation["responses"].pop("422", None)
    if is_versioned:
        operation.setdefault("parameters", []).append({"$ref": "#/components/parameters/Viewer"})
        statuses = COMMON_RESPONSES | (BODY_RESPONSES if "requestBody" in operation else {})
        operation["responses"] |= _problem_responses(statuses)


def _problem_responses(statuses: Iterable[str]) -> dict[str, Any]:
    return {status: {"$ref": f"#/components/responses/Problem{status}"} for status in statuses}


def _problem(why: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": why, "content": {"application/problem+json": {"schema": schema}}}


def _describe_durations(value: Any) -> None:
    """Describe durations as the numbers of seconds that the JSON has."""
    if isinstance(value, dict):
        schema = cast("dict[str, Any]", value)
        if schema.get("format") == "duration":
            del schema["format"]
            schema |= {"type": "number", "description": "Seconds."}
        for part in schema.values():
            _describe_durations(part)
    elif isinstance(value, list):
        for part in cast("list[Any]", value):
            _describe_durations(part)
