"""Errors as pages, or as the problem documents of the API if the address ends in `.json`."""

from collections.abc import Mapping
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from roomlore.domain.errors import RoomloreError
from roomlore.http import problems
from roomlore.http.problems import FAULT, KINDS, ProblemKind, shortened
from roomlore.web.rendering import render

JSON_SUFFIX = ".json"
STATUS_MESSAGES: Mapping[int, str] = {
    HTTPStatus.BAD_REQUEST: "This form cannot be read.",
    HTTPStatus.NOT_FOUND: "This page does not exist, or you may not see it.",
    HTTPStatus.METHOD_NOT_ALLOWED: "This page does not support that method.",
    HTTPStatus.REQUEST_TIMEOUT: "This form took too long to arrive; send it again.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "This form is too large.",
}
DEFAULT_MESSAGE = "This is not possible."


def error_page(request: Request, error: RoomloreError) -> Response:
    """Return the page for an error that was raised on purpose."""
    if request.url.path.endswith(JSON_SUFFIX):
        return problems.error_response(request.scope, error)
    kind = next(KINDS[base] for base in type(error).__mro__ if base in KINDS)
    return problem_page(request, kind, str(error) if kind.detail is None else kind.detail)


async def handle_error(request: Request, error: Exception) -> Response:
    """Return the page for an error of Roomlore, or for a wrong path or method."""
    if isinstance(error, RoomloreError):
        return error_page(request, error)
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    kind = ProblemKind(name=status.phrase.lower().replace(" ", "-"), status=status, title=status.phrase)
    response = problem_page(request, kind, STATUS_MESSAGES.get(status, DEFAULT_MESSAGE))
    response.headers.update({name: value for name, value in (error.headers or {}).items() if name == "Allow"})
    return response


def handle_fault(scope: Scope, error: Exception) -> Response:
    """Return the page for an uncaught error. If the error was unexpected, the page has no details."""
    request = Request(scope)
    if isinstance(error, RoomloreError):
        return error_page(request, error)
    problems.log_fault(scope, error)
    return problem_page(request, FAULT, "An internal error in Roomlore; no write is half done.")


def problem_page(request: Request, kind: ProblemKind, detail: str) -> Response:
    """Return the page, or the JSON, for a problem."""
    if request.url.path.endswith(JSON_SUFFIX):
        return problems.problem_response(request.scope, kind, detail)
    state = request.scope["state"]
    values = {"title": kind.title, "detail": shortened(detail), "request_id": state["request_id"]}
    response = render("fault.html", state.get("visit"), values, status=kind.status)
    response.headers.update({name: value for name, value in kind.headers.items() if name == "retry-after"})
    return response
