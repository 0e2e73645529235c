"""What one process takes on: so many requests at a time, so many of each key, so much in each.

Whatever is too much is refused before any work for it begins; what was begun is finished, so that no write that was
acknowledged is lost.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roomlore.surfaces.http.problems import NOT_JSON, OVERLOADED, TOO_LARGE, TOO_MANY, refusal

#: Where messages come in.
MESSAGES = "/v1/messages"
#: Told whatever else there is to do.
HEALTH = "/health/"
#: So many keys are remembered; one that was not seen for longer than that many others begins anew.
KEYS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much is too much."""

    #: Requests that are served at a time.
    in_flight: int = 64
    #: Of one key, in a second; and how many at once after a rest.
    rate: float = 50.0
    burst: int = 200
    #: Bytes of one body.
    body: int = 8 * 1024 * 1024
    #: Bytes of one that holds no messages.
    asking: int = 256 * 1024


@dataclass(slots=True)
class Buckets:
    """What is left to each key: tokens that come back with time."""

    limits: Limits
    clock: Callable[[], float]
    #: Tokens and when they were counted; whoever was not seen for longest comes first.
    _left: OrderedDict[bytes, tuple[float, float]] = field(
        default_factory=OrderedDict[bytes, tuple[float, float]]
    )

    def take(self, key: bytes) -> float:
        """Take a token and return 0, or return in how many seconds there will be one."""
        now = self.clock()
        left, counted_at = self._left.pop(key, (float(self.limits.burst), now))
        left = min(self.limits.burst, left + (now - counted_at) * self.limits.rate)
        wait = 0.0 if left >= 1 else (1 - left) / self.limits.rate
        self._left[key] = (left if wait else left - 1, now)
        if len(self._left) > KEYS:
            self._left.popitem(last=False)
        return wait


class Admission:
    """Lets requests in as far as the limits go; health is always told."""

    def __init__(self, app: ASGIApp, *, limits: Limits, clock: Callable[[], float]) -> None:
        self._app = app
        self._limits = limits
        self._buckets = Buckets(limits, clock)
        self._in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or say why not."""
        if scope["type"] != "http" or scope["path"].startswith(HEALTH):
            await self._app(scope, receive, send)
            return
        refused = self._refusal(scope)
        if refused is not None:
            await refused(scope, receive, send)
            return
        self._in_flight += 1
        try:
            await self._app(scope, _bounded(receive, self._largest(scope)), send)
        finally:
            self._in_flight -= 1

    def _largest(self, scope: Scope) -> int:
        """Return how large a body may be: what is said may be long, what is asked of it is not."""
        is_said = scope["path"].startswith(MESSAGES)
        return self._limits.body if is_said else min(self._limits.body, self._limits.asking)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if self._in_flight >= self._limits.in_flight:
            return refusal(scope, OVERLOADED, "more is asked than can be served now; try again")
        # The key itself is kept nowhere. Without one, all share what one key has.
        key = hashlib.sha256((key_of(headers) or "").encode()).digest()
        if wait := self._buckets.take(key):
            return refusal(
                scope, TOO_MANY, "this key asks too often", {"retry-after": str(max(1, ceil(wait)))}
            )
        return _unfit(scope, headers, largest=self._largest(scope))


def key_of(headers: Headers) -> str | None:
    """Return the key that a request shows, however it spells that it does."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" and key.strip() else None


def _unfit(scope: Scope, headers: Headers, *, largest: int) -> Response | None:
    """Return why a body is not read, as far as its headers tell; None where it is."""
    length = headers.get("content-length", "")
    has_body = length not in {"", "0"} or "transfer-encoding" in headers
    if length.isdecimal() and (len(length) > len(str(largest)) or int(length) > largest):
        return refusal(scope, TOO_LARGE, too_large(largest))
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if has_body and kind != "application/json":
        return refusal(scope, NOT_JSON, "the body must be JSON, sent as application/json")
    return None


def too_large(largest: int) -> str:
    """Return what is told of a body that is too large."""
    return f"a body has at most {largest:,} bytes; send it in parts"


def _bounded(receive: Receive, largest: int) -> Receive:
    """Return a way to receive that ends where a body grows too large, whatever its headers said."""
    received = 0

    async def bounded() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > largest:
            raise HTTPException(TOO_LARGE.status, too_large(largest))
        return message

    return bounded
