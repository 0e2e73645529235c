"""Requests on their way to a server: bounded in time and size, and begun again where that does no harm.

The key is in one header and in nothing that is shown. No proxy out of the environment, no redirects, no cookies.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal
from uuid import uuid4

from roomlore.client.errors import error_of
from roomlore.client.server import Server
from roomlore.domain.errors import BadInput, QueryTimeout, RoomloreError, ServerUnavailable

if TYPE_CHECKING:
    import httpx2

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
#: Before this a connection stands, or there will be none.
CONNECT_SECONDS = 10.0
#: Between two attempts, at first and at most; a server that wants more is told of as an error.
MIN_BACKOFF, LONGEST_PAUSE = 0.25, 30.0
#: Whoever says so did not begin, or keeps nothing of what was begun.
RETRY_STATUSES = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
#: What to do where a change may have been made whose answer did not come.
MAY_BE_DONE = "it may have been done: look before it is asked for again"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRequest:
    """One request, as often as it is begun."""

    method: Method
    #: Below the server's address, percent-encoded.
    path: str
    query: Sequence[tuple[str, str]] = ()
    #: As JSON.
    body: bytes | None = None
    #: As whom it is asked, where that is not the key's own participant; percent-encoded.
    viewer: str | None = None
    #: Whether doing it twice would do more than doing it once.
    is_change: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerResponse:
    """What a server answered."""

    status: int
    content_type: str
    retry_after: str
    body: bytes

    @property
    def is_success(self) -> bool:
        """Whether it did what it was asked."""
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES


@dataclass(frozen=True, slots=True, kw_only=True)
class _FailedAttempt:
    """Why an attempt came to nothing, and after how many seconds another may be made; None: none."""

    error: RoomloreError
    pause: float | None


class Transport:
    """Connections to one server."""

    def __init__(
        self,
        server: Server,
        http: "httpx2.AsyncClient",
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._server = server
        self._http = http
        self._sleep = sleep
        self._random = chance
        self._slots = asyncio.Semaphore(server.connections)

    def __repr__(self) -> str:
        """Show where it leads, and no key."""
        return f"Wire({self._server.address!r})"

    @property
    def server(self) -> Server:
        """Where it leads."""
        return self._server

    async def request(self, request: ServerRequest, *, key: str) -> ServerResponse:
        """Return what a server answers with, asked again for as long as that is promising.

        Raises:
            RoomloreError: what the server says is wrong.
            ServerUnavailable: it cannot be reached, takes nothing on, or is none of ours.
        """
        headers = _headers(key, request)
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        if request.is_change:
            # One for all attempts: the server does what has it once.
            headers["Idempotency-Key"] = str(uuid4())
        for attempt in range(1, self._server.attempts + 1):
            outcome = await self._attempt(request, headers, attempt)
            if isinstance(outcome, ServerResponse):
                return outcome
            if outcome.pause is None or attempt == self._server.attempts:
                raise outcome.error
            await self._sleep(outcome.pause)
        raise AssertionError("there is at least one attempt")

    @asynccontextmanager
    async def stream(
        self, request: ServerRequest, *, key: str, silence: float
    ) -> AsyncGenerator["httpx2.Response"]:
        """Give an answer that is read as it comes, whatever it is, for as long as it is not silent for too long."""
        import httpx2  # noqa: PLC0415  needs the extra

        headers = _headers(key, request) | {"Accept": "text/event-stream"}
        timeout = httpx2.Timeout(silence, connect=min(CONNECT_SECONDS, self._server.seconds), pool=None)
        async with self._http.stream(
            request.method, self._url(request), params=_params(request), headers=headers, timeout=timeout
        ) as response:
            yield response

    async def error_of(self, response: "httpx2.Response") -> tuple[RoomloreError, float]:
        """Return the error that an answer means which tells of no success, and for how long it wants to be left alone."""
        told = await self._read_response(response)
        return error_of(told.status, told.content_type, told.body), _seconds(told.retry_after) or 0.0

    def connection_error(self, error: Exception, *, may_be_done: bool = False) -> ServerUnavailable:
        """Return the error of a connection that does not stand, or no more."""
        # Its kind, and not its words: they may tell what is on the way.
        why = f"no server answers at {self._server.address} ({type(error).__name__})"
        cure = MAY_BE_DONE if may_be_done else "is it running, and is the address right?"
        return ServerUnavailable(why, cure=cure)

    async def back_off(self, failures: int, *, at_least: float = 0.0) -> None:
        """Wait before another attempt, the longer the more have failed."""
        await self._sleep(max(at_least, self._backoff(max(1, failures))))

    async def _attempt(
        self, asked: ServerRequest, headers: Mapping[str, str], attempt: int
    ) -> ServerResponse | _FailedAttempt:
        import httpx2  # noqa: PLC0415  needs the extra

        try:
            async with self._slots, asyncio.timeout(self._server.seconds):
                told = await self._send(asked, headers)
        except (TimeoutError, httpx2.ReadTimeout):
            why = f"no answer within {self._server.seconds:g} seconds"
            cure = MAY_BE_DONE if asked.is_change else "ask for less, or be more patient"
            return _FailedAttempt(error=ServerUnavailable(why, cure=cure), pause=None)
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError) as error:
            was_sent = not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.InvalidURL)
            lost = self.connection_error(error, may_be_done=asked.is_change and was_sent)
            return _FailedAttempt(error=lost, pause=self._backoff(attempt))
        if told.is_success:
            return told
        error = error_of(told.status, told.content_type, told.body)
        # Asked again, it would take as long.
        pause = None if isinstance(error, QueryTimeout) else self._backoff_of(told, asked, attempt)
        return _FailedAttempt(error=error, pause=pause)

    async def _send(self, asked: ServerRequest, headers: Mapping[str, str]) -> ServerResponse:
        async with self._http.stream(
            asked.method, self._url(asked), params=_params(asked), content=asked.body, headers=dict(headers)
        ) as response:
            return await self._read_response(response)

    async def _read_response(self, response: "httpx2.Response") -> ServerResponse:
        body = bytearray()
        # As it comes, not unpacked: nothing small may become large here.
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > self._server.largest:
                why = f"the answer has more than {self._server.largest:,} bytes"
                raise ServerUnavailable(why, cure="ask for less")
        return ServerResponse(
            status=response.status_code,
            content_type=response.headers.get("content-type", ""),
            retry_after=response.headers.get("retry-after", ""),
            body=bytes(body),
        )

    def _url(self, asked: ServerRequest) -> str:
        return f"{self._server.address.rstrip('/')}{asked.path}"

    def _backoff_of(self, told: ServerResponse, asked: ServerRequest, attempt: int) -> float | None:
        """Return after how long another attempt may be made of what was refused; None: there is no point."""
        wanted = _seconds(told.retry_after)
        # The same change is still under way, from an attempt of ours whose answer was lost.
        is_under_way = asked.is_change and told.status == HTTPStatus.CONFLICT and wanted is not None
        if told.status not in RETRY_STATUSES and not is_under_way:
            return None
        pause = max(self._backoff(attempt), wanted or 0.0)
        return pause if pause <= LONGEST_PAUSE else None

    def _backoff(self, attempt: int) -> float:
        # Not all of those whom a server lost come back at once.
        return min(LONGEST_PAUSE, MIN_BACKOFF * 2 ** (attempt - 1)) * (1 + self._random()) / 2


def http_client(server: Server) -> "httpx2.AsyncClient":
    """Return what keeps connections to a server; whoever has it closes it.

    Raises:
        BadInput: the extra is not installed.
    """
    if find_spec("httpx2") is None:
        raise BadInput("server", "asking one needs httpx2; run: pip install 'roomlore[client]'")
    import httpx2  # noqa: PLC0415  needs the extra

    # Calls take turns; events have connections beside theirs, so that listening keeps nobody from asking.
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=server.connections)
    timeout = httpx2.Timeout(server.seconds, connect=min(CONNECT_SECONDS, server.seconds), pool=None)
    headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "roomlore"}
    return httpx2.AsyncClient(
        headers=headers,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        timeout=timeout,
        limits=limits,
        verify=server.tls or True,
        trust_env=False,
        follow_redirects=False,
    )


def _params(asked: ServerRequest) -> tuple[tuple[str, str], ...] | None:
    return tuple(asked.query) or None


def _headers(key: str, asked: ServerRequest) -> dict[str, str]:
    """Return what a request says of who asks."""
    shown = {"Authorization": f"Bearer {key}"}
    return shown if asked.viewer is None else shown | {"Roomlore-Viewer": asked.viewer}


def _seconds(retry_after: str) -> float | None:
    # A date, the other form, is taken for nothing said.
    wait = retry_after.strip()
    return float(wait) if wait.isascii() and wait.isdecimal() and len(wait) < len("1000000") else None
