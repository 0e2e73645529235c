"""What the pages take on at a time, and from whom: so much of each key, so much of each address that shows none.

The API has its own share. Whoever guesses keys, with the sign-in form or otherwise, is slowed down by where they come
from; a key that got in before is not slowed down by others who guess.
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
from roomlore.domain.patterns import later
from roomlore.surfaces.http.limits import Buckets, Limits, Slots, Strangers, address_of, bounded
from roomlore.surfaces.http.problems import OVERLOADED, TOO_MANY
from roomlore.surfaces.web.doors import (
    GUESSED,
    LARGEST,
    LET_IN,
    SIGN_IN,
    STATIC,
    has_fit_length,
    key_shown,
    sealed,
)
from roomlore.surfaces.web.faults import on_error, refusal

#: Pages that are made at a time, and of one visitor; and for all together whose key is not known yet.
IN_FLIGHT, OF_ONE, UNKNOWN = 32, 8, 8
#: What streams are called.
STREAM = later(r"/r/[^/]+/events")


class Admission:
    """Lets requests of pages in as far as the limits go."""

    def __init__(self, app: ASGIApp, *, limits: Limits, clock: Callable[[], float], local: bool) -> None:
        self._app = app
        self._patience = limits.patience
        #: Whether nobody signs in, so that there is nothing to guess.
        self._local = local
        self._visitors = Buckets(limits, clock)
        guessing = replace(limits, rate=limits.guesses, burst=limits.first_guesses)
        self._strangers = Strangers(Buckets(guessing, clock))
        self._pages = Slots(most=min(IN_FLIGHT, limits.in_flight), of_one=OF_ONE)
        # Whoever has no key yet leaves places to those who have.
        self._unknown = Slots(most=min(UNKNOWN, limits.in_flight), of_one=UNKNOWN // 2)
        self._streams = Slots(most=limits.streams, of_one=limits.streams_of_key)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or say why not."""
        if scope["type"] != "http" or scope["path"].startswith(STATIC):
            await self._app(scope, receive, send)
            return
        request, address, send = Request(scope), address_of(scope), sealed(send)
        shown = None if self._local else _key(request)
        signs_in = request.method == "POST" and scope["path"] == SIGN_IN and not self._local
        # Which key a form holds is not known yet: each is a guess of its own.
        guess = secrets.token_bytes(8) if signs_in else shown
        if guess is None:
            await self._admit(request, receive, send, visitor=(shown, address))
            return
        if wait := self._strangers.enter(guess, address):
            await _later(request, wait)(scope, receive, send)
            return
        try:
            await self._admit(request, receive, send, visitor=(shown, address))
        finally:
            let_in, is_guess = scope["state"].get(LET_IN), bool(scope["state"].get(GUESSED))
            self._strangers.leave(guess, address, is_let_in=False, is_guess=is_guess)
            if let_in is not None:
                self._strangers.know(_digest(let_in))

    async def _admit(
        self, request: Request, receive: Receive, send: Send, *, visitor: tuple[bytes | None, bytes]
    ) -> None:
        scope, (shown, address) = request.scope, visitor
        # One that nobody knows yet is no more than where it comes from.
        is_known = shown is not None and self._strangers.is_known(shown)
        one = shown if shown is not None and is_known else address
        if wait := self._visitors.take(one):
            await _later(request, wait)(scope, receive, send)
            return
        try:
            heard = await self._heard(request, receive)
        except HTTPException as error:
            await (await on_error(request, error))(scope, receive, send)
            return
        slots = self._slots(request, is_known=is_known or self._local)
        if slots.are_full or slots.are_full_of(one):
            full = refusal(request, OVERLOADED, "More is asked than can be shown now; try again.")
            await full(scope, heard, send)
            return
        with slots.taken(one):
            await self._app(scope, heard, send)

    async def _heard(self, request: Request, receive: Receive) -> Receive:
        """Return what gives the body of a form, which has arrived: waiting for it takes nobody's place.

        Raises:
            HTTPException: it does not arrive in time.
        """
        if request.method != "POST":
            return receive
        heard = bounded(receive, LARGEST, self._patience)
        # What does not say how large it is the door refuses, and nobody reads.
        return await _arrived(heard) if has_fit_length(request) else heard

    def _slots(self, request: Request, *, is_known: bool) -> Slots:
        """Return the places of which a request takes one."""
        if request.method == "GET" and STREAM.fullmatch(request.scope["path"]):
            return self._streams
        return self._pages if is_known else self._unknown


def _later(request: Request, wait: float) -> Response:
    headers = {"retry-after": str(max(1, ceil(wait)))}
    return refusal(request, replace(TOO_MANY, headers=headers), "You ask too often; wait a moment.")


async def _arrived(receive: Receive) -> Receive:
    """Wait until a body is there, and return what gives it."""
    messages = deque([await receive()])
    while messages[-1].get("more_body", False):
        messages.append(await receive())

    async def again() -> Message:
        return messages.popleft() if messages else await receive()

    return again


def _key(request: Request) -> bytes | None:
    """Return which key a request shows; itself it is kept nowhere."""
    try:
        key = key_shown(request)
    except BadInput:
        # The door says what is wrong with it.
        return None
    return None if key is None else _digest(key)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()
