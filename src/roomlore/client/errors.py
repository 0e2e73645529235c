"""Translates a server's problem documents to the errors that an App would raise.

All other failures are `ServerUnavailable`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus

import msgspec

from roomlore.domain.errors import (
    BadInput,
    Conflict,
    DatabaseFull,
    KeyRefused,
    NotAllowed,
    NotFound,
    QueryTimeout,
    RoomloreError,
    ServerUnavailable,
)
from roomlore.domain.rendering import as_one_line

PROBLEM_PREFIX = "urn:roomlore:problem:"
MEDIA_TYPE = "application/problem+json"
ADDRESS_HINT = "is the address right, and are client and server of the same version?"
#: The maximum number of characters of a server's text that an error contains.
MAX_LENGTH = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """The reason why a server refused a request."""

    type: str
    detail: str
    request_id: str = ""
    facts: Mapping[str, str] = field(default_factory=dict[str, str])


def error_of(status: int, content_type: str, body: bytes) -> RoomloreError:
    """Return the error for an unsuccessful response."""
    problem = _problem(content_type, body)
    if problem is None or not problem.type.startswith(PROBLEM_PREFIX):
        why = f"the server answered {status}, and not as Roomlore does"
        if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
            why = f"the server answered {status}, which points elsewhere; no redirect is followed"
        return ServerUnavailable(why, cure=ADDRESS_HINT)
    make = _ERROR_OF_KIND.get(problem.type.removeprefix(PROBLEM_PREFIX))
    error = None if make is None else make(problem)
    return _unavailable(status, problem) if error is None else error


def _problem(content_type: str, body: bytes) -> Problem | None:
    if content_type.partition(";")[0].strip().lower() != MEDIA_TYPE:
        return None
    try:
        problem = msgspec.json.decode(body, type=Problem)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    # Control characters of a server must not reach the terminal that prints the error.
    facts = {name: _safe_text(fact) for name, fact in problem.facts.items()}
    detail, request_id = _safe_text(problem.detail), _safe_text(problem.request_id)
    return replace(problem, detail=detail, request_id=request_id, facts=facts)


def _safe_text(text: str) -> str:
    return as_one_line(text[:MAX_LENGTH])


def _unavailable(status: int, problem: Problem) -> ServerUnavailable:
    if status == HTTPStatus.NOT_FOUND:
        return ServerUnavailable(f"the server knows no such call: {problem.detail}", cure=ADDRESS_HINT)
    is_fault = status == HTTPStatus.INTERNAL_SERVER_ERROR
    cure = f"ask its operator about request {problem.request_id}" if is_fault else "try again in a moment"
    return ServerUnavailable(problem.detail, cure=cure)


def _bad_input(problem: Problem) -> RoomloreError:
    what, why = problem.facts.get("what"), problem.facts.get("why")
    if what is None or why is None:
        # A problem with the validation has no facts, only a text.
        what, colon, why = problem.detail.partition(": ")
        what, why = (what, why) if colon else ("request", problem.detail)
    return BadInput(what, why)


def _not_found(problem: Problem) -> RoomloreError | None:
    what, key = problem.facts.get("what"), problem.facts.get("key")
    return None if what is None or key is None else NotFound(what, key)


def _conflict(problem: Problem) -> RoomloreError:
    what, why = problem.facts.get("what"), problem.facts.get("why")
    return Conflict("request", problem.detail) if what is None or why is None else Conflict(what, why)


_ERROR_OF_KIND: Mapping[str, Callable[[Problem], RoomloreError | None]] = {
    "bad-input": _bad_input,
    "too-large": _bad_input,
    "not-found": _not_found,
    "not-allowed": lambda problem: NotAllowed(problem.facts.get("what", problem.detail)),
    "key-refused": lambda _: KeyRefused(),
    "key-needed": lambda _: KeyRefused(),
    "conflict": _conflict,
    "took-too-long": lambda _: QueryTimeout(),
    "database-full": lambda _: DatabaseFull(),
    # The first attempt of a repeated request is still running. Its response was lost.
    "under-way": _conflict,
    "done-already": _conflict,
    "outcome-unknown": _conflict,
}
