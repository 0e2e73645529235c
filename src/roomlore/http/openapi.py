"""The OpenAPI description of the routes: from their types and docstrings, with what all of them have in common."""

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
from roomlore.http.schemas import FoundMessage

API_DESCRIPTION = """\
Conversation memory for rooms full of people and agents. Who asks is who the key is for: it alone decides what is there.
Whatever may not be seen is not found. Times are in UTC, spans in seconds, ids sort by time. Errors are problem documents
(RFC 9457); every response has an `X-Request-Id`."""
VIEWER = {
    "name": "Roomlore-Viewer",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 500},
    "description": (
        "For an operator's key: reads and acts as this participant, by name, account or id; percent-encoded UTF-8."
    ),
}
#: What any request may come to, and what one with a body may besides.
COMMON_RESPONSES = {
    "400": "What was sent is not of its shape, or means nothing or several things.",
    "401": "There is no key, or it is not valid.",
    "403": "The key does not give the right.",
    "404": "There is no such thing, or it is not for the viewer: the two are not told apart.",
    "429": "The key asks too often; `Retry-After` says when to come again.",
    "500": "A fault in Roomlore.",
    "507": "The disk of the database is full: nothing was written, and what is stored can be read.",
    "503": "Too much is asked at once, or the database does not answer; `Retry-After` says when to come again.",
}
BODY_RESPONSES = {
    "408": "The body does not arrive in time.",
    "413": "The body is too large.",
    "415": "The body is not JSON.",
}
#: What one may come to that may be asked for under a key of the caller's own.
IDEMPOTENCY_RESPONSES = {
    "409": (
        "The same is still under way (`Retry-After` says when to ask again), or was done and its answer is not kept, or"
        " nobody knows whether it was."
    ),
    "422": "The `Idempotency-Key` was given to another request.",
}
IDEMPOTENCY_HEADER = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]*$"},
    "description": (
        "Any word that is new for each request: asked again with it within a day, the request is not done again, and what"
        " came of it is answered with `Idempotency-Replayed: true`."
    ),
}
METHODS = ("get", "post", "put", "patch", "delete")


def openapi_document(api: FastAPI) -> dict[str, Any]:
    """Return the description of an application's routes."""
    if api.openapi_schema is None:
        document = get_openapi(
            title="Roomlore", version=version("roomlore"), description=API_DESCRIPTION, routes=api.routes
        )
        _describe_spans(document)
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
    """Return the names of the query parameters that a route knows."""
    operation = api.openapi()["paths"].get(path, {}).get(method.lower(), {})
    known = [one for one in operation.get("parameters", []) if one.get("in") == "query"]
    return frozenset(one["name"] for one in known)


def openapi_text(api: FastAPI) -> str:
    """Return the description as the text that is kept."""
    return json.dumps(openapi_document(api), indent=1, ensure_ascii=False) + "\n"


def _remove_hidden_fields(schema: dict[str, Any]) -> None:
    """Take out of a record what is never shown of it."""
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
    """Take summary and description from the docstring, and add what every operation has."""
    summary, _, rest = operation.pop("description", "").partition("\n")
    operation["summary"] = summary.removesuffix(".")
    if rest.strip():
        operation["description"] = " ".join(rest.split())
    operation["operationId"] = operation["operationId"].partition("_v1_")[0].partition("_health_")[0]
    operation["responses"].pop("422", None)
    if is_versioned:
        operation.setdefault("parameters", []).append({"$ref": "#/components/parameters/Viewer"})
        told = COMMON_RESPONSES | (BODY_RESPONSES if "requestBody" in operation else {})
        operation["responses"] |= _problem_responses(told)


def _problem_responses(told: Iterable[str]) -> dict[str, Any]:
    return {status: {"$ref": f"#/components/responses/Problem{status}"} for status in told}


def _problem(why: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": why, "content": {"application/problem+json": {"schema": schema}}}


def _describe_spans(value: Any) -> None:
    """Say of every span that it is a number of seconds, which it is where it is shown."""
    if isinstance(value, dict):
        facts = cast("dict[str, Any]", value)
        if facts.get("format") == "duration":
            del facts["format"]
            facts |= {"type": "number", "description": "Seconds."}
        for part in facts.values():
            _describe_spans(part)
    elif isinstance(value, list):
        for part in cast("list[Any]", value):
            _describe_spans(part)
