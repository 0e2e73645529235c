"""Errors as problem documents (RFC 9457). A table maps each error class to a status.

If an error is unexpected, only its class and place are logged, because its text may quote messages. The response then
has no details.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from traceback import extract_tb
from typing import Any

import pydantic_core
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roomlore.db.database import statement_timeout
from roomlore.db.work_queue import translate_connection_errors
from roomlore.domain.errors import (
    BackendUnavailable,
    BadInput,
    Conflict,
    DatabaseError,
    DatabaseFull,
    DatabaseUnavailable,
    IndexUnavailable,
    KeyRefused,
    ModelUnavailable,
    NotAllowed,
    NotFound,
    QueryTimeout,
    RoomloreError,
    SchemaMismatch,
    TextRefused,
    UnknownFormat,
)

LOG = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"
#: The maximum number of characters of a detail. A longer detail quotes input.
LONGEST_DETAIL = 500
#: The maximum number of validation errors that one problem lists.
MAX_FAULTS = 10
RETRY_HEADERS = {"retry-after": "1"}
#: The timeout of each database query, in seconds.
RESPONSE_TIMEOUT = 30.0
#: The fields of errors that a problem shows.
FACT_FIELDS = ("what", "why", "key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why a request failed."""

    #: A stable name of the kind of problem.
    type: str
    title: str
    status: int
    detail: str
    request_id: str
    #: The fields of the error: `what`, and `why` or `key`.
    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemKind:
    """A kind of problem."""

    name: str
    status: HTTPStatus
    title: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    #: This text replaces the text of the error if only the operator may see that text.
    detail: str | None = None


def _unavailable(detail: str) -> ProblemKind:
    return ProblemKind(
        name="unavailable",
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        title="Unavailable",
        headers=RETRY_HEADERS,
        detail=detail,
    )


CHALLENGE = {"www-authenticate": 'Bearer realm="roomlore"'}
#: The kind of problem for each error class that Roomlore raises on purpose.
KINDS: Mapping[type[RoomloreError], ProblemKind] = {
    BadInput: ProblemKind(name="bad-input", status=HTTPStatus.BAD_REQUEST, title="Bad input"),
    TextRefused: ProblemKind(name="bad-input", status=HTTPStatus.BAD_REQUEST, title="Bad input"),
    UnknownFormat: ProblemKind(name="bad-input", status=HTTPStatus.BAD_REQUEST, title="Bad input"),
    KeyRefused: ProblemKind(
        name="key-refused", status=HTTPStatus.UNAUTHORIZED, title="Key refused", headers=CHALLENGE
    ),
    NotAllowed: ProblemKind(name="not-allowed", status=HTTPStatus.FORBIDDEN, title="Not allowed"),
    NotFound: ProblemKind(name="not-found", status=HTTPStatus.NOT_FOUND, title="Not found"),
    Conflict: ProblemKind(name="conflict", status=HTTPStatus.CONFLICT, title="Conflict"),
    # There is no Retry-After, because a second attempt would take as long.
    QueryTimeout: ProblemKind(
        name="took-too-long",
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        title="Took too long",
        detail="the query took too long; ask for less, or try again later",
    ),
    DatabaseFull: ProblemKind(
        name="database-full",
        status=HTTPStatus.INSUFFICIENT_STORAGE,
        title="Database full",
        headers={"retry-after": "60"},
        detail="the disk of the database is full: nothing was written; everything stored can be read. The operator must"
        " free some of the disk or make it larger; the server then continues by itself",
    ),
    DatabaseUnavailable: _unavailable(
        "the database does not answer; everything acknowledged is stored; try again"
    ),
    SchemaMismatch: _unavailable("the database is being migrated"),
    DatabaseError: _unavailable("the database cannot be used"),
    BackendUnavailable: _unavailable("an index server does not answer"),
    IndexUnavailable: _unavailable("an index is missing, outdated, or too slow"),
    ModelUnavailable: _unavailable("the embedding model cannot be loaded"),
}
#: Problems that only occur over HTTP.
NO_KEY = ProblemKind(name="key-needed", status=HTTPStatus.UNAUTHORIZED, title="Key needed", headers=CHALLENGE)
TOO_LARGE = ProblemKind(name="too-large", status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE, title="Too large")
TOO_SLOW = ProblemKind(
    name="too-slow",
    status=HTTPStatus.REQUEST_TIMEOUT,
    title="Too slow",
    # The connection is closed, because the rest of the body is not read.
    headers={"connection": "close"},
)
NOT_JSON = ProblemKind(name="not-json", status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE, title="Not JSON")
TOO_MANY = ProblemKind(
    name="too-many-requests", status=HTTPStatus.TOO_MANY_REQUESTS, title="Too many requests"
)
OVERLOADED = ProblemKind(
    name="overloaded", status=HTTPStatus.SERVICE_UNAVAILABLE, title="Overloaded", headers=RETRY_HEADERS
)
FAULT = ProblemKind(name="fault", status=HTTPStatus.INTERNAL_SERVER_ERROR, title="Fault")


def problem_response(
    scope: Scope,
    kind: ProblemKind,
    detail: str,
    headers: Mapping[str, str] | None = None,
    *,
    facts: Mapping[str, str] | None = None,
) -> Response:
    """Return the response for a problem."""
    problem = Problem(
        type=f"urn:roomlore:problem:{kind.name}",
        title=kind.title,
        status=kind.status,
        detail=shortened(detail),
        request_id=scope["state"]["request_id"],
        facts={name: shortened(fact) for name, fact in (facts or {}).items()},
    )
    body = pydantic_core.to_json(problem)
    return Response(body, kind.status, {**kind.headers, **(headers or {})}, MEDIA_TYPE)


def error_response(scope: Scope, error: RoomloreError) -> Response:
    """Return the response for an error that was raised on purpose."""
    kind = next(KINDS[base] for base in type(error).__mro__ if base in KINDS)
    if kind.detail is not None:
        return problem_response(scope, kind, kind.detail)
    facts = {name: getattr(error, name) for name in FACT_FIELDS if hasattr(error, name)}
    return problem_response(scope, kind, str(error), facts=facts)


async def handle_error(request: Request, error: Exception) -> Response:
    """Return the response for an error of Roomlore, for invalid input, or for a wrong path or method."""
    if isinstance(error, RoomloreError):
        return error_response(request.scope, error)
    if isinstance(error, RequestValidationError):
        return problem_response(request.scope, KINDS[BadInput], validation_message(error.errors()))
    assert isinstance(error, HTTPException)
    for kind in (TOO_LARGE, TOO_SLOW):
        if error.status_code == kind.status:
            return problem_response(request.scope, kind, error.detail)
    if error.status_code == HTTPStatus.BAD_REQUEST:
        return problem_response(request.scope, KINDS[BadInput], "body: must be JSON")
    status = HTTPStatus(error.status_code)
    kind = ProblemKind(name=status.phrase.lower().replace(" ", "-"), status=status, title=status.phrase)
    return problem_response(request.scope, kind, f"no {request.method} of this path", error.headers)


def validation_message(errors: Sequence[Any], *, prefix: int = 0) -> str:
    """Return pydantic's errors as text, without the input.

    The first `prefix` names of each location are left out.
    """
    texts = [
        f"{'.'.join(str(part) for part in one['loc'][prefix:])}: {one['msg']}" for one in errors[:MAX_FAULTS]
    ]
    return shortened("; ".join(dict.fromkeys(texts)).removeprefix(": "))


def shortened(text: str) -> str:
    """Return a text cut to the limit. Characters that cannot be encoded are replaced."""
    # Input may contain lone surrogates.
    whole = text.encode("utf-8", "replace").decode()
    return whole if len(whole) <= LONGEST_DETAIL else f"{whole[: LONGEST_DETAIL - 1]}…"


def handle_fault(scope: Scope, error: Exception) -> Response:
    """Return the response for an uncaught error. If the error was unexpected, the response has no details."""
    if isinstance(error, RoomloreError):
        return error_response(scope, error)
    log_fault(scope, error)
    return problem_response(scope, FAULT, "an internal error in Roomlore; no write is half done")


def log_fault(scope: Scope, error: Exception) -> None:
    """Log the class and place of an unexpected error."""
    place = extract_tb(error.__traceback__)[-1]
    LOG.error(
        "unexpected %s at %s:%s in request %s",
        type(error).__name__,
        Path(place.filename).name,
        place.lineno,
        scope["state"]["request_id"],
    )


class ErrorMiddleware:
    """Turns uncaught errors into responses."""

    def __init__(
        self, app: ASGIApp, *, answer: Callable[[Scope, Exception], Response] = handle_fault
    ) -> None:
        self._app = app
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_started = False

        async def send_noting_start(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            with translate_connection_errors(), statement_timeout(RESPONSE_TIMEOUT):
                await self._app(scope, receive, send_noting_start)
        except Exception as error:  # noqa: BLE001  the caller gets a response without details
            if has_started:
                # The response is cut short, and the caller notices this. If the error were raised, the server would log
                # its text.
                log_fault(scope, error)
                return
            await self._answer(scope, error)(scope, receive, send)
