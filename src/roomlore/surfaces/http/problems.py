"""What goes wrong, as HTTP says it: one table from errors to statuses, one shape for all (RFC 9457).

A fault of ours is told without details, and logged by its kind and place alone: its text may quote what somebody said.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from traceback import extract_tb

import pydantic_core
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roomlore.domain.errors import (
    BadInput,
    Conflict,
    DatabaseError,
    DatabaseUnavailable,
    KeyRefused,
    ModelUnavailable,
    NotAllowed,
    NotFound,
    RoomloreError,
    SchemaMismatch,
    UnknownFormat,
)
from roomlore.store.work import meeting_outages

LOG = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"
#: Of what went wrong, in words; more is somebody's input.
LONGEST_DETAIL = 500
#: Of faults in one request, so many are named.
NAMED = 10
LATER = {"retry-after": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why a request was not done."""

    #: Tells the kinds apart; stable.
    type: str
    title: str
    status: int
    detail: str
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of problem."""

    name: str
    status: HTTPStatus
    title: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    #: Told instead of what the error says, where that is nobody's business.
    detail: str | None = None


def _unavailable(detail: str) -> Kind:
    return Kind(
        name="unavailable",
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        title="Unavailable",
        headers=LATER,
        detail=detail,
    )


CHALLENGE = {"www-authenticate": 'Bearer realm="roomlore"'}
#: What is raised on purpose.
KINDS: Mapping[type[RoomloreError], Kind] = {
    BadInput: Kind(name="bad-input", status=HTTPStatus.BAD_REQUEST, title="Bad input"),
    UnknownFormat: Kind(name="bad-input", status=HTTPStatus.BAD_REQUEST, title="Bad input"),
    KeyRefused: Kind(
        name="key-refused", status=HTTPStatus.UNAUTHORIZED, title="Key refused", headers=CHALLENGE
    ),
    NotAllowed: Kind(name="not-allowed", status=HTTPStatus.FORBIDDEN, title="Not allowed"),
    NotFound: Kind(name="not-found", status=HTTPStatus.NOT_FOUND, title="Not found"),
    Conflict: Kind(name="conflict", status=HTTPStatus.CONFLICT, title="Conflict"),
    DatabaseUnavailable: _unavailable(
        "the database does not answer; what was acknowledged is stored, try again"
    ),
    SchemaMismatch: _unavailable("the database is being brought up to date"),
    DatabaseError: _unavailable("the database cannot be used"),
    ModelUnavailable: _unavailable("the embedding model cannot be loaded"),
}
#: What only this surface can say.
NO_KEY = Kind(name="key-needed", status=HTTPStatus.UNAUTHORIZED, title="Key needed", headers=CHALLENGE)
TOO_LARGE = Kind(name="too-large", status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE, title="Too large")
NOT_JSON = Kind(name="not-json", status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE, title="Not JSON")
TOO_MANY = Kind(name="too-many-requests", status=HTTPStatus.TOO_MANY_REQUESTS, title="Too many requests")
OVERLOADED = Kind(name="overloaded", status=HTTPStatus.SERVICE_UNAVAILABLE, title="Overloaded", headers=LATER)
FAULT = Kind(name="fault", status=HTTPStatus.INTERNAL_SERVER_ERROR, title="Fault")


def refusal(scope: Scope, kind: Kind, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return the response that tells of a problem."""
    problem = Problem(
        type=f"urn:roomlore:problem:{kind.name}",
        title=kind.title,
        status=kind.status,
        detail=_short(detail),
        request_id=scope["state"]["request_id"],
    )
    body = pydantic_core.to_json(problem)
    return Response(body, kind.status, {**kind.headers, **(headers or {})}, MEDIA_TYPE)


def told(scope: Scope, error: RoomloreError) -> Response:
    """Return the response that tells of an error raised on purpose."""
    kind = next(KINDS[one] for one in type(error).__mro__ if one in KINDS)
    return refusal(scope, kind, str(error) if kind.detail is None else kind.detail)


async def on_error(request: Request, error: Exception) -> Response:
    """Return what tells of an error of ours, of a wrong path or method, or of input that is not of its shape."""
    if isinstance(error, RoomloreError):
        return told(request.scope, error)
    if isinstance(error, RequestValidationError):
        return refusal(request.scope, KINDS[BadInput], _faults(error))
    assert isinstance(error, HTTPException)
    if error.status_code == TOO_LARGE.status:
        return refusal(request.scope, TOO_LARGE, error.detail)
    if error.status_code == HTTPStatus.BAD_REQUEST:
        return refusal(request.scope, KINDS[BadInput], "body: must be JSON")
    status = HTTPStatus(error.status_code)
    kind = Kind(name=status.phrase.lower().replace(" ", "-"), status=status, title=status.phrase)
    return refusal(request.scope, kind, f"no {request.method} of this path", error.headers)


def _faults(error: RequestValidationError) -> str:
    """Return what is wrong in words, without repeating what was sent."""
    faults = [
        f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}" for fault in error.errors()[:NAMED]
    ]
    return "; ".join(dict.fromkeys(faults))


def _short(text: str) -> str:
    # Half of a surrogate pair, out of somebody's input, cannot be sent.
    whole = text.encode("utf-8", "replace").decode()
    return whole if len(whole) <= LONGEST_DETAIL else f"{whole[: LONGEST_DETAIL - 1]}…"


class Problems:
    """Tells of whatever nobody caught: an outage as such, anything else as a fault without details."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

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
            with meeting_outages():
                await self._app(scope, receive, noted)
        except Exception as error:
            if has_begun:
                raise
            await self._response(scope, error)(scope, receive, send)

    def _response(self, scope: Scope, error: Exception) -> Response:
        if isinstance(error, RoomloreError):
            return told(scope, error)
        place = extract_tb(error.__traceback__)[-1]
        LOG.error(
            "unexpected %s at %s:%s in request %s",
            type(error).__name__,
            Path(place.filename).name,
            place.lineno,
            scope["state"]["request_id"],
        )
        return refusal(scope, FAULT, "a fault in Roomlore; nothing was left half-written")
