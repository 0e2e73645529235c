"""What goes wrong, as HTTP says it: one table from errors to statuses, one shape for all (RFC 9457).

A fault of ours is told without details, and logged by its kind and place alone: its text may quote what somebody said.
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
#: Of what went wrong, in words; more is somebody's input.
LONGEST_DETAIL = 500
#: Of faults in one request, so many are named.
MAX_FAULTS = 10
RETRY_HEADERS = {"retry-after": "1"}
#: Seconds within which the database answers each question of a read.
RESPONSE_TIMEOUT = 30.0
#: What errors hold, by the names of their fields.
FACT_FIELDS = ("what", "why", "key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why a request was not done."""

    #: Tells the kinds apart; stable.
    type: str
    title: str
    status: int
    detail: str
    request_id: str
    #: What an error of ours holds besides its text: `what`, and `why` or `key`; empty where it holds nothing.
    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemKind:
    """A kind of problem."""

    name: str
    status: HTTPStatus
    title: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    #: Told instead of what the error says, where that is nobody's business.
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
#: What is raised on purpose.
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
    # Asked again at once, it would take as long.
    QueryTimeout: ProblemKind(
        name="took-too-long",
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        title="Took too long",
        detail="reading this took longer than anybody may hold the database; ask for less, or later",
    ),
    DatabaseFull: ProblemKind(
        name="database-full",
        status=HTTPStatus.INSUFFICIENT_STORAGE,
        title="Database full",
        headers={"retry-after": "60"},
        detail="the disk of the database is full: nothing of this was written, and what is stored can be read; whoever runs"
        " this server must free some of the disk or make it larger, and it then goes on by itself",
    ),
    DatabaseUnavailable: _unavailable(
        "the database does not answer; what was acknowledged is stored, try again"
    ),
    SchemaMismatch: _unavailable("the database is being brought up to date"),
    DatabaseError: _unavailable("the database cannot be used"),
    BackendUnavailable: _unavailable("a server that holds copies does not answer"),
    IndexUnavailable: _unavailable("a copy is gone, is unlike what is stored, or does not answer in time"),
    ModelUnavailable: _unavailable("the embedding model cannot be loaded"),
}
#: What only this surface can say.
NO_KEY = ProblemKind(name="key-needed", status=HTTPStatus.UNAUTHORIZED, title="Key needed", headers=CHALLENGE)
TOO_LARGE = ProblemKind(name="too-large", status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE, title="Too large")
TOO_SLOW = ProblemKind(
    name="too-slow",
    status=HTTPStatus.REQUEST_TIMEOUT,
    title="Too slow",
    # What is still on its way is of no use any more.
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
    """Return the response that tells of a problem."""
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
    """Return the response that tells of an error raised on purpose."""
    kind = next(KINDS[one] for one in type(error).__mro__ if one in KINDS)
    if kind.detail is not None:
        return problem_response(scope, kind, kind.detail)
    held = {name: getattr(error, name) for name in FACT_FIELDS if hasattr(error, name)}
    return problem_response(scope, kind, str(error), facts=held)


async def handle_error(request: Request, error: Exception) -> Response:
    """Return what tells of an error of ours, of a wrong path or method, or of input that is not of its shape."""
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
    """Return what pydantic found wrong in words, without repeating what was sent.

    Args:
        errors: Each with its place and what is wrong.
        prefix: So many of the names of each place are known to whoever is told.
    """
    told = [
        f"{'.'.join(str(part) for part in one['loc'][prefix:])}: {one['msg']}" for one in errors[:MAX_FAULTS]
    ]
    return shortened("; ".join(dict.fromkeys(told)).removeprefix(": "))


def shortened(text: str) -> str:
    """Return a text that can be sent, no longer than anybody reads."""
    # Half of a surrogate pair, out of somebody's input, cannot be sent.
    whole = text.encode("utf-8", "replace").decode()
    return whole if len(whole) <= LONGEST_DETAIL else f"{whole[: LONGEST_DETAIL - 1]}…"


def handle_fault(scope: Scope, error: Exception) -> Response:
    """Return the response that tells of whatever nobody caught; of a fault of ours without details."""
    if isinstance(error, RoomloreError):
        return error_response(scope, error)
    log_fault(scope, error)
    return problem_response(scope, FAULT, "a fault in Roomlore; nothing was left half-written")


def log_fault(scope: Scope, error: Exception) -> None:
    """Note a fault of ours in the log: its kind and place alone."""
    place = extract_tb(error.__traceback__)[-1]
    LOG.error(
        "unexpected %s at %s:%s in request %s",
        type(error).__name__,
        Path(place.filename).name,
        place.lineno,
        scope["state"]["request_id"],
    )


class ErrorMiddleware:
    """Tells of whatever nobody caught: an outage as such, anything else as a fault without details."""

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
        has_begun = False

        async def noted(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            with translate_connection_errors(), statement_timeout(RESPONSE_TIMEOUT):
                await self._app(scope, receive, noted)
        except Exception as error:  # noqa: BLE001  whoever asks is told, and told no details
            if has_begun:
                # Half of a response tells by itself that it is not whole; raised, the server would log what it quotes.
                log_fault(scope, error)
                return
            await self._answer(scope, error)(scope, receive, send)
