"""What a server refuses, as the very error that an App would raise; what none would, as `ServerUnavailable`."""

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
#: Of the words of a server.
MAX_LENGTH = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why a request was not done, as a server tells it."""

    type: str
    detail: str
    request_id: str = ""
    facts: Mapping[str, str] = field(default_factory=dict[str, str])


def error_of(status: int, kind: str, body: bytes) -> RoomloreError:
    """Return the error that a server's refusal means.

    Args:
        status: Of the response.
        kind: Its media type.
        body: What it says.
    """
    problem = _problem(kind, body)
    if problem is None or not problem.type.startswith(PROBLEM_PREFIX):
        why = f"the server answered {status}, and not as Roomlore does"
        if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
            why = f"the server answered {status}, which points elsewhere; no redirect is followed"
        return ServerUnavailable(why, cure=ADDRESS_HINT)
    make = _ERROR_OF_KIND.get(problem.type.removeprefix(PROBLEM_PREFIX))
    made = None if make is None else make(problem)
    return _unavailable(status, problem) if made is None else made


def _problem(kind: str, body: bytes) -> Problem | None:
    if kind.partition(";")[0].strip().lower() != MEDIA_TYPE:
        return None
    try:
        told = msgspec.json.decode(body, type=Problem)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    # Whoever prints an error must not do what a server wants of their terminal.
    facts = {name: _safe_text(fact) for name, fact in told.facts.items()}
    return replace(told, detail=_safe_text(told.detail), request_id=_safe_text(told.request_id), facts=facts)


def _safe_text(words: str) -> str:
    return as_one_line(words[:MAX_LENGTH])


def _unavailable(status: int, problem: Problem) -> ServerUnavailable:
    if status == HTTPStatus.NOT_FOUND:
        return ServerUnavailable(f"the server knows no such call: {problem.detail}", cure=ADDRESS_HINT)
    asked = f"ask its operator after request {problem.request_id}"
    cure = asked if status == HTTPStatus.INTERNAL_SERVER_ERROR else "try again in a moment"
    return ServerUnavailable(problem.detail, cure=cure)


def _bad_input(problem: Problem) -> RoomloreError:
    what, why = problem.facts.get("what"), problem.facts.get("why")
    if what is None or why is None:
        # Of what is not of its shape, only the text is told.
        what, colon, why = problem.detail.partition(": ")
        what, why = (what, why) if colon else ("request", problem.detail)
    return BadInput(what, why)


def _not_found(problem: Problem) -> RoomloreError | None:
    what, key = problem.facts.get("what"), problem.facts.get("key")
    return None if what is None or key is None else NotFound(what, key)


def _not_allowed(problem: Problem) -> RoomloreError:
    return NotAllowed(problem.facts.get("what", problem.detail))


def _key_refused(_: Problem) -> RoomloreError:
    return KeyRefused()


def _took_too_long(_: Problem) -> RoomloreError:
    return QueryTimeout()


def _database_full(_: Problem) -> RoomloreError:
    return DatabaseFull()


def _conflict(problem: Problem) -> RoomloreError:
    what, why = problem.facts.get("what"), problem.facts.get("why")
    return Conflict("request", problem.detail) if what is None or why is None else Conflict(what, why)


_ERROR_OF_KIND: Mapping[str, Callable[[Problem], RoomloreError | None]] = {
    "bad-input": _bad_input,
    "too-large": _bad_input,
    "not-found": _not_found,
    "not-allowed": _not_allowed,
    "key-refused": _key_refused,
    "key-needed": _key_refused,
    "conflict": _conflict,
    "took-too-long": _took_too_long,
    "database-full": _database_full,
    # Of what was asked again because the first answer was lost.
    "under-way": _conflict,
    "done-already": _conflict,
    "outcome-unknown": _conflict,
}
