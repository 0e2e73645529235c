"""Limits of one process: concurrent requests, requests per key, and bytes and seconds per request.

A request over a limit is refused before any work is done for it. Streams are mostly idle, so they have a separate
limit.
"""

import asyncio
import hashlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from ipaddress import IPv6Address, IPv6Network, ip_address
from math import ceil

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roomlore.http.problems import NOT_JSON, OVERLOADED, TOO_LARGE, TOO_MANY, TOO_SLOW, problem_response

MESSAGES = "/v1/messages"
EVENTS = "/v1/events"
#: Requests below this path are never limited.
HEALTH = "/health/"
#: The number of keys that are remembered. If there are more, the least recently used key is forgotten.
KEYS = 10_000
#: The prefix length of the network that one IPv6 subscriber usually has.
NETWORK = 64
UNAUTHORIZED = 401
#: The name of the entry of the request state that is set when the key has been accepted.
AUTHENTICATED_KEY = "key"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """Limits of requests."""

    #: The maximum number of concurrent requests.
    in_flight: int = 64
    #: The share of the concurrent requests that one key may have.
    max_key_share: float = 0.5
    #: The maximum number of open streams, of all keys together and of one key.
    streams: int = 256
    max_streams_per_key: int = 16
    #: The maximum number of requests of one key: per second, and at once after a pause.
    rate: float = 50.0
    burst: int = 200
    #: The maximum number of bytes of a body that contains messages.
    body: int = 8 * 1024 * 1024
    #: The maximum number of bytes of any other body.
    max_query_body_bytes: int = 256 * 1024
    #: The maximum number of seconds until a body has arrived.
    body_timeout_seconds: float = 20.0
    #: The maximum number of invalid keys from one address: per second, and at once after a pause.
    failed_auth_rate: float = 0.5
    failed_auth_burst: int = 30


@dataclass(slots=True)
class RateLimiter:
    """A token bucket for each key."""

    limits: RequestLimits
    clock: Callable[[], float]
    #: For each key its tokens, and the time for which they were computed. The least recently used key comes first.
    _left: OrderedDict[bytes, tuple[float, float]] = field(
        default_factory=OrderedDict[bytes, tuple[float, float]]
    )

    def take(self, key: bytes) -> float:
        """Take a token and return 0.

        If there is no token, return the seconds until there is one.
        """
        left, now = self._count(key)
        wait = 0.0 if left >= 1 else (1 - left) / self.limits.rate
        self._left.pop(key, None)
        self._left[key] = (left if wait else left - 1, now)
        if len(self._left) > KEYS:
            self._left.popitem(last=False)
        return wait

    def give_back(self, key: bytes) -> None:
        """Return an unused token."""
        left, now = self._count(key)
        if key in self._left:
            self._left[key] = (min(float(self.limits.burst), left + 1), now)

    def _count(self, key: bytes) -> tuple[float, float]:
        now = self.clock()
        left, counted_at = self._left.get(key, (float(self.limits.burst), now))
        return min(self.limits.burst, left + (now - counted_at) * self.limits.rate), now


@dataclass(slots=True, kw_only=True)
class ConcurrencyLimiter:
    """Limits the number of concurrent tasks, in total and for each key."""

    max_total: int
    max_per_key: int
    _taken: Counter[bytes] = field(default_factory=Counter[bytes])

    @property
    def is_full(self) -> bool:
        """Return whether no further task may start."""
        return self._taken.total() >= self.max_total

    def is_full_for(self, key: bytes) -> bool:
        """Return whether no further task of a key may start."""
        return self._taken[key] >= self.max_per_key

    @contextmanager
    def acquire(self, key: bytes) -> Generator[None]:
        """Hold a slot for the duration of the block."""
        self._taken[key] += 1
        try:
            yield
        finally:
            self._taken[key] -= 1
            if not self._taken[key]:
                del self._taken[key]


@dataclass(slots=True)
class FailedAuthLimiter:
    """Limits invalid keys by address.

    A key that was accepted before is never delayed by invalid keys of other callers. Any other key takes a token before
    its check, so that keys that arrive at once are limited like keys that arrive one after another. The token is given
    back unless the key is rejected.
    """

    buckets: RateLimiter
    _known: OrderedDict[bytes, None] = field(default_factory=OrderedDict[bytes, None])
    _pending: Counter[tuple[bytes, bytes]] = field(default_factory=Counter[tuple[bytes, bytes]])

    def enter(self, key: bytes, address: bytes) -> float:
        """Return 0 if the key may be checked now. The caller must then call `finish`.

        Otherwise return the seconds to wait.
        """
        if key in self._known:
            return 0.0
        # Concurrent checks of the same key take only one token together.
        if not self._pending[key, address] and (wait := self.buckets.take(address)):
            del self._pending[key, address]
            return wait
        self._pending[key, address] += 1
        return 0.0

    def is_known(self, key: bytes) -> bool:
        """Return whether a key was accepted before."""
        return key in self._known

    def finish(self, key: bytes, address: bytes, *, is_authenticated: bool, is_rejected: bool) -> None:
        """Record the result of a check: accepted, rejected, or neither."""
        if self._pending[key, address] > 1:
            self._pending[key, address] -= 1
        else:
            was_counted = self._pending.pop((key, address), 0)
            if was_counted and not is_rejected:
                self.buckets.give_back(address)
        if is_rejected:
            self._known.pop(key, None)
        elif is_authenticated:
            self.mark_known(key)

    def mark_known(self, key: bytes) -> None:
        """Record that a key was accepted."""
        self._known.pop(key, None)
        self._known[key] = None
        if len(self._known) > KEYS:
            self._known.popitem(last=False)


class LimitMiddleware:
    """Refuses requests over the limits."""

    def __init__(self, app: ASGIApp, *, limits: RequestLimits, clock: Callable[[], float]) -> None:
        self._app = app
        self._limits = limits
        self._buckets = RateLimiter(limits, clock)
        guesses = replace(limits, rate=limits.failed_auth_rate, burst=limits.failed_auth_burst)
        self._failed_auth = FailedAuthLimiter(RateLimiter(guesses, clock))
        self._requests = ConcurrencyLimiter(
            max_total=limits.in_flight, max_per_key=ceil(limits.in_flight * limits.max_key_share)
        )
        self._streams = ConcurrencyLimiter(max_total=limits.streams, max_per_key=limits.max_streams_per_key)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["path"].startswith(HEALTH):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        shown = key_of(headers)
        # Only a digest of the key is stored. All requests without a key share one bucket.
        key, address = hashlib.sha256((shown or "").encode()).digest(), address_of(scope)
        slots = self._streams if scope["path"] == EVENTS else self._requests
        if shown is not None and (wait := self._failed_auth.enter(key, address)):
            response = _retry_response(scope, "too many invalid keys came from this address", wait)
            await response(scope, receive, send)
            return
        response = self._refusal(scope, headers, slots=slots, key=key)
        if response is not None:
            if shown is not None:
                self._failed_auth.finish(key, address, is_authenticated=False, is_rejected=False)
            await response(scope, receive, send)
            return

        is_rejected, is_finished = False, shown is None

        def finish() -> None:
            nonlocal is_finished
            if not is_finished:
                is_accepted = AUTHENTICATED_KEY in scope["state"]
                self._failed_auth.finish(key, address, is_authenticated=is_accepted, is_rejected=is_rejected)
            is_finished = True

        async def send_noting_status(message: Message) -> None:
            nonlocal is_rejected
            if message["type"] == "http.response.start":
                # Other refusals, such as the refusal of two keys in one request, do not show whether the key is valid.
                is_rejected = message["status"] == UNAUTHORIZED
                finish()
            await send(message)

        body = bounded(receive, self._max_body(scope), self._limits.body_timeout_seconds)
        try:
            with slots.acquire(key):
                await self._app(scope, body, send_noting_status)
        finally:
            # The client may have disconnected before there was a response.
            finish()

    def _max_body(self, scope: Scope) -> int:
        holds_messages = scope["path"].startswith(MESSAGES)
        return (
            self._limits.body if holds_messages else min(self._limits.body, self._limits.max_query_body_bytes)
        )

    def _refusal(
        self, scope: Scope, headers: Headers, *, slots: ConcurrencyLimiter, key: bytes
    ) -> Response | None:
        if slots.is_full:
            return problem_response(scope, OVERLOADED, "the server is at its limit; try again")
        if slots.is_full_for(key):
            return _retry_response(scope, "too many requests of this key are in progress", 1)
        if wait := self._buckets.take(key):
            return _retry_response(scope, "too many requests with this key", wait)
        return _body_problem(scope, headers, max_bytes=self._max_body(scope))


def _retry_response(scope: Scope, why: str, wait: float) -> Response:
    return problem_response(scope, TOO_MANY, why, {"retry-after": str(max(1, ceil(wait)))})


def address_of(scope: Scope) -> bytes:
    """Return the client's IPv4 address, or its IPv6 network."""
    host = (scope.get("client") or ("", 0))[0]
    try:
        address = ip_address(host)
    except ValueError:
        return host.encode()
    if isinstance(address, IPv6Address):
        return IPv6Network((address, NETWORK), strict=False).network_address.packed
    return address.packed


def key_of(headers: Headers) -> str | None:
    """Return the bearer key of a request; None if there is none, or more than one."""
    if len(headers.getlist("authorization")) > 1:
        return None
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" and key.strip() else None


def _body_problem(scope: Scope, headers: Headers, *, max_bytes: int) -> Response | None:
    """Return the refusal of a body because of its headers; None if the headers are acceptable."""
    length = headers.get("content-length", "")
    has_body = length not in {"", "0"} or "transfer-encoding" in headers
    if length.isdecimal() and (len(length) > len(str(max_bytes)) or int(length) > max_bytes):
        return problem_response(scope, TOO_LARGE, too_large(max_bytes))
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if has_body and kind != "application/json":
        return problem_response(scope, NOT_JSON, "the body must be JSON, sent as application/json")
    return None


def too_large(max_bytes: int) -> str:
    """Return the text of the problem that a body is too large."""
    return f"a body has at most {max_bytes:,} bytes; send it in parts"


def bounded(receive: Receive, max_bytes: int, timeout_seconds: float) -> Receive:
    """Return a `receive` that limits the bytes of a body and the seconds until it has arrived.

    The limit of bytes applies whatever the headers state.
    """
    received, is_whole = 0, False
    started_at = asyncio.get_running_loop().time()

    async def bounded() -> Message:
        nonlocal received, is_whole
        if is_whole:
            # After the body, only a disconnect can follow.
            return await receive()
        try:
            async with asyncio.timeout_at(started_at + timeout_seconds):
                message = await receive()
        except TimeoutError:
            why = f"the body must arrive within {timeout_seconds:g} seconds"
            raise HTTPException(TOO_SLOW.status, why) from None
        is_whole = not message.get("more_body", False)
        received += len(message.get("body", b""))
        if received > max_bytes:
            raise HTTPException(TOO_LARGE.status, too_large(max_bytes))
        return message

    return bounded
