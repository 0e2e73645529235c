"""Limits of the pages: by key, or by address if the key is not known.

The API has separate limits. Invalid keys, in the sign-in form or elsewhere, are limited by address. A key that was
accepted before is never delayed by other people's invalid keys.
"""

import hashlib
import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from math import ceil

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roomlore.domain.errors import BadInput
from roomlore.domain.patterns import lazy_pattern
from roomlore.http.limits import (
    ConcurrencyLimiter,
    FailedAuthLimiter,
    RateLimiter,
    RequestLimits,
    address_of,
    bounded,
)
from roomlore.http.problems import OVERLOADED, TOO_MANY
from roomlore.web.authentication import (
    AUTHENTICATED,
    MAX_FORM_BYTES,
    REJECTED,
    SIGN_IN,
    STATIC,
    has_fit_length,
    key_of_request,
    with_page_headers,
)
from roomlore.web.errors import handle_error, problem_page

#: The maximum number of concurrent requests: in total, of one user, and of all users together whose key is not known
#: yet.
IN_FLIGHT, MAX_PER_KEY, UNKNOWN = 32, 8, 8
STREAM = lazy_pattern(r"/r/[^/]+/events")


class PageLimitMiddleware:
    """Refuses requests over the limits."""

    def __init__(
        self, app: ASGIApp, *, limits: RequestLimits, clock: Callable[[], float], local: bool
    ) -> None:
        self._app = app
        self._body_timeout = limits.body_timeout_seconds
        self._local = local
        self._visitors = RateLimiter(limits, clock)
        guesses = replace(limits, rate=limits.failed_auth_rate, burst=limits.failed_auth_burst)
        self._failed_auth = FailedAuthLimiter(RateLimiter(guesses, clock))
        self._pages = ConcurrencyLimiter(max_total=min(IN_FLIGHT, limits.in_flight), max_per_key=MAX_PER_KEY)
        # Users without a key must not take the slots of users with a key.
        self._unknown = ConcurrencyLimiter(max_total=min(UNKNOWN, limits.in_flight), max_per_key=UNKNOWN // 2)
        self._streams = ConcurrencyLimiter(max_total=limits.streams, max_per_key=limits.max_streams_per_key)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["path"].startswith(STATIC):
            await self._app(scope, receive, send)
            return
        request, address, send = Request(scope), address_of(scope), with_page_headers(send)
        shown = None if self._local else _key(request)
        signs_in = request.method == "POST" and scope["path"] == SIGN_IN and not self._local
        # The form is not read yet, so each sign-in is limited as if it had a different key.
        guess = secrets.token_bytes(8) if signs_in else shown
        if guess is None:
            await self._admit(request, receive, send, visitor=(shown, address))
            return
        if wait := self._failed_auth.enter(guess, address):
            await _retry_response(request, wait)(scope, receive, send)
            return
        try:
            await self._admit(request, receive, send, visitor=(shown, address))
        finally:
            accepted, is_rejected = scope["state"].get(AUTHENTICATED), bool(scope["state"].get(REJECTED))
            self._failed_auth.finish(guess, address, is_authenticated=False, is_rejected=is_rejected)
            if accepted is not None:
                self._failed_auth.mark_known(_digest(accepted))

    async def _admit(
        self, request: Request, receive: Receive, send: Send, *, visitor: tuple[bytes | None, bytes]
    ) -> None:
        scope, (shown, address) = request.scope, visitor
        # Requests with an unknown key are limited by their address.
        is_known = shown is not None and self._failed_auth.is_known(shown)
        one = shown if shown is not None and is_known else address
        if wait := self._visitors.take(one):
            await _retry_response(request, wait)(scope, receive, send)
            return
        try:
            receive = await self._buffered_form(request, receive)
        except HTTPException as error:
            await (await handle_error(request, error))(scope, receive, send)
            return
        slots = self._slots(request, is_known=is_known or self._local)
        if slots.is_full or slots.is_full_for(one):
            full = problem_page(request, OVERLOADED, "The server is at its limit; try again.")
            await full(scope, receive, send)
            return
        with slots.acquire(one):
            await self._app(scope, receive, send)

    async def _buffered_form(self, request: Request, receive: Receive) -> Receive:
        """Wait for the body of a form, without taking a slot. Return a `receive` that returns the body.

        Raises:
            HTTPException: the body does not arrive in time.
        """
        if request.method != "POST":
            return receive
        limited = bounded(receive, MAX_FORM_BYTES, self._body_timeout)
        # A form that states no length is refused later, without being read.
        return await _buffered_body(limited) if has_fit_length(request) else limited

    def _slots(self, request: Request, *, is_known: bool) -> ConcurrencyLimiter:
        if request.method == "GET" and STREAM.fullmatch(request.scope["path"]):
            return self._streams
        return self._pages if is_known else self._unknown


def _retry_response(request: Request, wait: float) -> Response:
    headers = {"retry-after": str(max(1, ceil(wait)))}
    return problem_page(
        request, replace(TOO_MANY, headers=headers), "You send too many requests; wait a moment."
    )


async def _buffered_body(receive: Receive) -> Receive:
    messages = deque([await receive()])
    while messages[-1].get("more_body", False):
        messages.append(await receive())

    async def again() -> Message:
        return messages.popleft() if messages else await receive()

    return again


def _key(request: Request) -> bytes | None:
    """Return the digest of a request's key. The key itself is not stored."""
    try:
        key = key_of_request(request)
    except BadInput:
        # PageAuthenticationMiddleware refuses the request.
        return None
    return None if key is None else _digest(key)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()
