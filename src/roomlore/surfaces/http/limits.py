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

from roomlore.surfaces.http.problems import NOT_JSON, OVERLOADED, TOO_LARGE, TOO_MANY, TOO_SLOW, refusal

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
NOT_LET_IN = 401
#: The state of a request holds this once its key was let in.
LET_IN = "key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much is too much."""

    #: Requests that are served at a time.
    in_flight: int = 64
    #: How much of that one key may take.
    share: float = 0.5
    #: Streams that are open at a time, and of one key.
    streams: int = 256
    streams_of_key: int = 16
    #: Of one key, in a second; and how many at once after a rest.
    rate: float = 50.0
    burst: int = 200
    #: Bytes of one body.
    body: int = 8 * 1024 * 1024
    #: Bytes of one that holds no messages.
    asking: int = 256 * 1024
    #: Seconds in which a body arrives.
    patience: float = 20.0
    #: Keys that are none, from one address: in a second, and at once after a rest.
    guesses: float = 0.5
    first_guesses: int = 30


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
class Slots:
    """What is being served, of all and of each."""

    most: int
    of_one: int
    _taken: Counter[bytes] = field(default_factory=Counter[bytes])

    @property
    def are_full(self) -> bool:
        """Whether everybody has to wait."""
        return self._taken.total() >= self.most

    def are_full_of(self, key: bytes) -> bool:
        """Whether one has to wait."""
        return self._taken[key] >= self.of_one

    @contextmanager
    def taken(self, key: bytes) -> Generator[None]:
        """Take a place until done."""
        self._taken[key] += 1
        try:
            yield
        finally:
            self._taken[key] -= 1
            if not self._taken[key]:
                del self._taken[key]


@dataclass(slots=True)
class Strangers:
    """How often somebody may show what is no key. A key that was let in before does not wait for others who guess.

    A guess is counted before it is looked at, so that many at once are no more than one after the other; it is given
    back where it was none.
    """

    buckets: Buckets
    _known: OrderedDict[bytes, None] = field(default_factory=OrderedDict[bytes, None])
    _looked_at: Counter[tuple[bytes, bytes]] = field(default_factory=Counter[tuple[bytes, bytes]])

    def enter(self, key: bytes, address: bytes) -> float:
        """Count a key as a guess until it is known to be none.

        Returns:
            In how many seconds a key from there is looked at; 0 where it is now, and then `leave` must follow.
        """
        if key in self._known:
            return 0.0
        # The same key many times at once is one guess.
        if not self._looked_at[key, address] and (wait := self.buckets.take(address)):
            del self._looked_at[key, address]
            return wait
        self._looked_at[key, address] += 1
        return 0.0

    def is_known(self, key: bytes) -> bool:
        """Whether a key was let in before."""
        return key in self._known

    def leave(self, key: bytes, address: bytes, *, is_let_in: bool, is_guess: bool) -> None:
        """Note what came of a key that was looked at: it was let in, it was a guess, or nobody knows."""
        if self._looked_at[key, address] > 1:
            self._looked_at[key, address] -= 1
        else:
            was_counted = self._looked_at.pop((key, address), 0)
            if was_counted and not is_guess:
                self.buckets.give_back(address)
        if is_guess:
            self._known.pop(key, None)
        elif is_let_in:
            self.know(key)

    def know(self, key: bytes) -> None:
        """Note that a key was let in."""
        self._known.pop(key, None)
        self._known[key] = None
        if len(self._known) > KEYS:
            self._known.popitem(last=False)


class Admission:
    """Lets requests in as far as the limits go; health is always told."""

    def __init__(self, app: ASGIApp, *, limits: Limits, clock: Callable[[], float]) -> None:
        self._app = app
        self._limits = limits
        self._buckets = Buckets(limits, clock)
        guessing = replace(limits, rate=limits.guesses, burst=limits.first_guesses)
        self._strangers = Strangers(Buckets(guessing, clock))
        self._requests = Slots(most=limits.in_flight, of_one=ceil(limits.in_flight * limits.share))
        self._streams = Slots(most=limits.streams, of_one=limits.streams_of_key)

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
        if shown is not None and (wait := self._strangers.enter(key, address)):
            later = _later(scope, "too many keys that are none were shown from there", wait)
            await later(scope, receive, send)
            return
        refused = self._refusal(scope, headers, slots=slots, key=key)
        if refused is not None:
            if shown is not None:
                self._strangers.leave(key, address, is_let_in=False, is_guess=False)
            await refused(scope, receive, send)
            return

        is_guess = False

        async def noted(message: Message) -> None:
            nonlocal is_guess
            if message["type"] == "http.response.start":
                # What was refused for another reason, such as two keys at once, shows of no key that it is one.
                is_guess = message["status"] == NOT_LET_IN
                leave()
            await send(message)

        def leave() -> None:
            nonlocal shown
            if shown is not None:
                is_let_in = LET_IN in scope["state"]
                self._strangers.leave(key, address, is_let_in=is_let_in, is_guess=is_guess)
            shown = None

        try:
            with slots.taken(key):
                await self._app(scope, bounded(receive, self._largest(scope), self._limits.patience), noted)
        finally:
            # Whoever goes before there is an answer leaves as well.
            leave()

    def _largest(self, scope: Scope) -> int:
        """Return how large a body may be: what is said may be long, what is asked of it is not."""
        is_said = scope["path"].startswith(MESSAGES)
        return self._limits.body if is_said else min(self._limits.body, self._limits.asking)

    def _refusal(self, scope: Scope, headers: Headers, *, slots: Slots, key: bytes) -> Response | None:
        if slots.are_full:
            return refusal(scope, OVERLOADED, "more is asked than can be served now; try again")
        if slots.are_full_of(key):
            return _later(scope, "too much that this key asked for is still under way", 1)
        if wait := self._buckets.take(key):
            return _later(scope, "this key asks too often", wait)
        return _unfit(scope, headers, largest=self._largest(scope))


def _later(scope: Scope, why: str, wait: float) -> Response:
    return refusal(scope, TOO_MANY, why, {"retry-after": str(max(1, ceil(wait)))})


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


def bounded(receive: Receive, largest: int, patience: float) -> Receive:
    """Return a way to receive that ends where a body grows too large, whatever its headers said, or is too slow."""
    received, is_whole = 0, False
    begun = asyncio.get_running_loop().time()

    async def bounded() -> Message:
        nonlocal received, is_whole
        if is_whole:
            # What is left to be told is that the caller has gone.
            return await receive()
        try:
            async with asyncio.timeout_at(begun + patience):
                message = await receive()
        except TimeoutError:
            raise HTTPException(
                TOO_SLOW.status, f"the body must arrive within {patience:g} seconds"
            ) from None
        is_whole = not message.get("more_body", False)
        received += len(message.get("body", b""))
        if received > largest:
            raise HTTPException(TOO_LARGE.status, too_large(largest))
        return message

    return bounded
