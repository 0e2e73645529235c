"""What goes wrong, as a page says it; its twin says the same as the API does.

Nothing that was sent is repeated, but what an error of ours names, in short and as plain text.
"""

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
#: What is said of what only this surface can refuse.
STATUS_MESSAGES: Mapping[int, str] = {
    HTTPStatus.BAD_REQUEST: "This form cannot be read.",
    HTTPStatus.NOT_FOUND: "There is no such page, or nothing that you may see.",
    HTTPStatus.METHOD_NOT_ALLOWED: "This page cannot be asked for that way.",
    HTTPStatus.REQUEST_TIMEOUT: "This form took too long to arrive; send it again.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "This form is larger than any of ours.",
}
DEFAULT_MESSAGE = "This cannot be done."


def error_page(request: Request, error: RoomloreError) -> Response:
    """Return the response that tells of an error raised on purpose."""
    if request.url.path.endswith(JSON_SUFFIX):
        return problems.error_response(request.scope, error)
    kind = next(KINDS[one] for one in type(error).__mro__ if one in KINDS)
    return problem_page(request, kind, str(error) if kind.detail is None else kind.detail)


async def handle_error(request: Request, error: Exception) -> Response:
    """Return what tells of an error of ours, or of a page that is not there."""
    if isinstance(error, RoomloreError):
        return error_page(request, error)
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    kind = ProblemKind(name=status.phrase.lower().replace(" ", "-"), status=status, title=status.phrase)
    response = problem_page(request, kind, STATUS_MESSAGES.get(status, DEFAULT_MESSAGE))
    response.headers.update({name: value for name, value in (error.headers or {}).items() if name == "Allow"})
    return response


def handle_fault(scope: Scope, error: Exception) -> Response:
    """Return what tells of whatever nobody caught; of a fault of ours without details."""
    request = Request(scope)
    if isinstance(error, RoomloreError):
        return error_page(request, error)
    problems.log_fault(scope, error)
    return problem_page(request, FAULT, "A fault in Roomlore; nothing was left half-written.")


def problem_page(request: Request, kind: ProblemKind, detail: str) -> Response:
    """Return the page, or the twin, that tells why a request was not done."""
    if request.url.path.endswith(JSON_SUFFIX):
        return problems.problem_response(request.scope, kind, detail)
    state = request.scope["state"]
    values = {"title": kind.title, "detail": shortened(detail), "request_id": state["request_id"]}
    response = render("fault.html", state.get("visit"), values, status=kind.status)
    response.headers.update({name: value for name, value in kind.headers.items() if name == "retry-after"})
    return response
