"""What one process takes on: so many requests at a time, so many of each key, so much in each.

Whatever is too much is refused before any work for it begins; what was begun is finished, so that no write that was
acknowledged is lost. Streams wait most of the time, and have places of their own.
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

#: Where messages come in.
MESSAGES = "/v1/messages"
#: Where what changes is told.
EVENTS = "/v1/events"
#: Told whatever else there is to do.
HEALTH = "/health/"
#: So many keys are remembered; one that was not seen for longer than that many others begins anew.
KEYS = 10_000
#: Of an address of the sixth version, whoever has it usually has so much of the network.
NETWORK = 64
UNAUTHORIZED = 401
#: The state of a request holds this once its key was let in.
AUTHENTICATED_KEY = "key"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """How much is too much."""

    #: Requests that are served at a time.
    in_flight: int = 64
    #: How much of that one key may take.
    max_key_share: float = 0.5
    #: Streams that are open at a time, and of one key.
    streams: int = 256
    max_streams_per_key: int = 16
    #: Of one key, in a second; and how many at once after a rest.
    rate: float = 50.0
    burst: int = 200
    #: Bytes of one body.
    body: int = 8 * 1024 * 1024
    #: Bytes of one that holds no messages.
    max_query_body_bytes: int = 256 * 1024
    #: Seconds in which a body arrives.
    body_timeout_seconds: float = 20.0
    #: Keys that are none, from one address: in a second, and at once after a rest.
    failed_auth_rate: float = 0.5
    failed_auth_burst: int = 30


@dataclass(slots=True)
class RateLimiter:
    """What is left to each key: tokens that come back with time."""

    limits: RequestLimits
    clock: Callable[[], float]
    #: Tokens and when they were counted; whoever was not seen for longest comes first.
    _left: OrderedDict[bytes, tuple[float, float]] = field(
        default_factory=OrderedDict[bytes, tuple[float, float]]
    )

    def take(self, key: bytes) -> float:
        """Take a token and return 0, or return in how many seconds there will be one."""
        left, now = self._counted(key)
        wait = self._wait(left)
        self._left.pop(key, None)
        self._left[key] = (left if wait else left - 1, now)
        if len(self._left) > KEYS:
            self._left.popitem(last=False)
        return wait

    def give_back(self, key: bytes) -> None:
        """Give back a token that was taken for nothing."""
        left, now = self._counted(key)
        if key in self._left:
            self._left[key] = (min(float(self.limits.burst), left + 1), now)

    def _counted(self, key: bytes) -> tuple[float, float]:
        now = self.clock()
        left, counted_at = self._left.get(key, (float(self.limits.burst), now))
        return min(self.limits.burst, left + (now - counted_at) * self.limits.rate), now

    def _wait(self, left: float) -> float:
        return 0.0 if left >= 1 else (1 - left) / self.limits.rate


@dataclass(slots=True, kw_only=True)
class ConcurrencyLimiter:
    """What is being served, of all and of each."""

    max_total: int
    max_per_key: int
    _taken: Counter[bytes] = field(default_factory=Counter[bytes])

    @property
    def is_full(self) -> bool:
        """Whether everybody has to wait."""
        return self._taken.total() >= self.max_total

    def is_full_for(self, key: bytes) -> bool:
        """Whether one has to wait."""
        return self._taken[key] >= self.max_per_key

    @contextmanager
    def acquire(self, key: bytes) -> Generator[None]:
        """Take a place until done."""
        self._taken[key] += 1
        try:
            yield
        finally:
            self._taken[key] -= 1
            if not self._taken[key]:
                del self._taken[key]


@dataclass(slots=True)
class FailedAuthLimiter:
    """How often somebody may show what is no key. A key that was let in before does not wait for others who guess.

    A guess is counted before it is looked at, so that many at once are no more than one after the other; it is given
    back where it was none.
    """

    buckets: RateLimiter
    _known: OrderedDict[bytes, None] = field(default_factory=OrderedDict[bytes, None])
    _pending: Counter[tuple[bytes, bytes]] = field(default_factory=Counter[tuple[bytes, bytes]])

    def enter(self, key: bytes, address: bytes) -> float:
        """Count a key as a guess until it is known to be none.

        Returns:
            In how many seconds a key from there is looked at; 0 where it is now, and then `leave` must follow.
        """
        if key in self._known:
            return 0.0
        # The same key many times at once is one guess.
        if not self._pending[key, address] and (wait := self.buckets.take(address)):
            del self._pending[key, address]
            return wait
        self._pending[key, address] += 1
        return 0.0

    def is_known(self, key: bytes) -> bool:
        """Whether a key was let in before."""
        return key in self._known

    def finish(self, key: bytes, address: bytes, *, is_authenticated: bool, is_rejected: bool) -> None:
        """Note what came of a key that was looked at: it was let in, it was a guess, or nobody knows."""
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
        """Note that a key was let in."""
        self._known.pop(key, None)
        self._known[key] = None
        if len(self._known) > KEYS:
            self._known.popitem(last=False)


class LimitMiddleware:
    """Lets requests in as far as the limits go; health is always told."""

    def __init__(self, app: ASGIApp, *, limits: RequestLimits, clock: Callable[[], float]) -> None:
        self._app = app
        self._limits = limits
        self._buckets = RateLimiter(limits, clock)
        guessing = replace(limits, rate=limits.failed_auth_rate, burst=limits.failed_auth_burst)
        self._failed_auth = FailedAuthLimiter(RateLimiter(guessing, clock))
        self._requests = ConcurrencyLimiter(
            max_total=limits.in_flight, max_per_key=ceil(limits.in_flight * limits.max_key_share)
        )
        self._streams = ConcurrencyLimiter(max_total=limits.streams, max_per_key=limits.max_streams_per_key)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or say why not."""
        if scope["type"] != "http" or scope["path"].startswith(HEALTH):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        shown = key_of(headers)
        # The key itself is kept nowhere. Without one, all share what one key has.
        key, address = hashlib.sha256((shown or "").encode()).digest(), address_of(scope)
        slots = self._streams if scope["path"] == EVENTS else self._requests
        if shown is not None and (wait := self._failed_auth.enter(key, address)):
            later = _retry_response(scope, "too many keys that are none were shown from there", wait)
            await later(scope, receive, send)
            return
        refused = self._refusal(scope, headers, slots=slots, key=key)
        if refused is not None:
            if shown is not None:
                self._failed_auth.finish(key, address, is_authenticated=False, is_rejected=False)
            await refused(scope, receive, send)
            return

        is_guess = False

        async def noted(message: Message) -> None:
            nonlocal is_guess
            if message["type"] == "http.response.start":
                # What was refused for another reason, such as two keys at once, shows of no key that it is one.
                is_guess = message["status"] == UNAUTHORIZED
                leave()
            await send(message)

        def leave() -> None:
            nonlocal shown
            if shown is not None:
                is_let_in = AUTHENTICATED_KEY in scope["state"]
                self._failed_auth.finish(key, address, is_authenticated=is_let_in, is_rejected=is_guess)
            shown = None

        try:
            with slots.acquire(key):
                await self._app(
                    scope, bounded(receive, self._max_body(scope), self._limits.body_timeout_seconds), noted
                )
        finally:
            # Whoever goes before there is an answer leaves as well.
            leave()

    def _max_body(self, scope: Scope) -> int:
        """Return how large a body may be: what is said may be long, what is asked of it is not."""
        is_said = scope["path"].startswith(MESSAGES)
        return self._limits.body if is_said else min(self._limits.body, self._limits.max_query_body_bytes)

    def _refusal(
        self, scope: Scope, headers: Headers, *, slots: ConcurrencyLimiter, key: bytes
    ) -> Response | None:
        if slots.is_full:
            return problem_response(scope, OVERLOADED, "more is asked than can be served now; try again")
        if slots.is_full_for(key):
            return _retry_response(scope, "too much that this key asked for is still under way", 1)
        if wait := self._buckets.take(key):
            return _retry_response(scope, "this key asks too often", wait)
        return _body_problem(scope, headers, max_bytes=self._max_body(scope))


def _retry_response(scope: Scope, why: str, wait: float) -> Response:
    return problem_response(scope, TOO_MANY, why, {"retry-after": str(max(1, ceil(wait)))})


def address_of(scope: Scope) -> bytes:
    """Return what tells apart where requests come from."""
    host = (scope.get("client") or ("", 0))[0]
    try:
        address = ip_address(host)
    except ValueError:
        return host.encode()
    if isinstance(address, IPv6Address):
        return IPv6Network((address, NETWORK), strict=False).network_address.packed
    return address.packed


def key_of(headers: Headers) -> str | None:
    """Return the key that a request shows, however it spells that it does; of two it shows none."""
    if len(headers.getlist("authorization")) > 1:
        return None
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" and key.strip() else None


def _body_problem(scope: Scope, headers: Headers, *, max_bytes: int) -> Response | None:
    """Return why a body is not read, as far as its headers tell; None where it is."""
    length = headers.get("content-length", "")
    has_body = length not in {"", "0"} or "transfer-encoding" in headers
    if length.isdecimal() and (len(length) > len(str(max_bytes)) or int(length) > max_bytes):
        return problem_response(scope, TOO_LARGE, too_large(max_bytes))
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if has_body and kind != "application/json":
        return problem_response(scope, NOT_JSON, "the body must be JSON, sent as application/json")
    return None


def too_large(max_bytes: int) -> str:
    """Return what is told of a body that is too large."""
    return f"a body has at most {max_bytes:,} bytes; send it in parts"


def bounded(receive: Receive, max_bytes: int, timeout_seconds: float) -> Receive:
    """Return a way to receive that ends where a body grows too large, whatever its headers said, or is too slow."""
    received, is_whole = 0, False
    begun = asyncio.get_running_loop().time()

    async def bounded() -> Message:
        nonlocal received, is_whole
        if is_whole:
            # What is left to be told is that the caller has gone.
            return await receive()
        try:
            async with asyncio.timeout_at(begun + timeout_seconds):
                message = await receive()
        except TimeoutError:
            raise HTTPException(
                TOO_SLOW.status, f"the body must arrive within {timeout_seconds:g} seconds"
            ) from None
        is_whole = not message.get("more_body", False)
        received += len(message.get("body", b""))
        if received > max_bytes:
            raise HTTPException(TOO_LARGE.status, too_large(max_bytes))
        return message

    return bounded
