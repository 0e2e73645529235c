"""Requests to a server. They are limited in time and size, and retried if that is safe.

The key is sent in one header and never shown. Proxies from the environment, redirects and cookies are not used.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib.util import find_spec
from typing import TYPE_CHECKING
from uuid import uuid4

from roomlore.client.errors import error_of
from roomlore.client.server import Server
from roomlore.domain.errors import BadInput, QueryTimeout, RoomloreError, ServerUnavailable
from roomlore.operations.registry import Method

if TYPE_CHECKING:
    import httpx2

#: Seconds until a connection must be open.
CONNECT_SECONDS = 10.0
#: Seconds of the first and of the longest pause between attempts. If the server asks for a longer pause, the request
#: fails.
MIN_BACKOFF, LONGEST_PAUSE = 0.25, 30.0
#: Statuses with which a server refuses a request without processing it. So it is safe to retry the request.
RETRY_STATUSES = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
MAY_BE_DONE = "it may have been done: check before you try again"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRequest:
    """One request, which may be sent in several attempts."""

    method: Method
    #: The path below the server's address, percent-encoded.
    path: str
    query: Sequence[tuple[str, str]] = ()
    #: The body, as JSON.
    body: bytes | None = None
    #: The viewer, percent-encoded; None for the key holder.
    viewer: str | None = None
    #: Whether the request is not idempotent. It is then sent with an Idempotency-Key.
    is_change: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerResponse:
    """The response of a server."""

    status: int
    content_type: str
    retry_after: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _FailedAttempt:
    #: Seconds before the next attempt. None means that there is no next attempt.
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
        return f"Transport({self._server.address!r})"

    @property
    def server(self) -> Server:
        """The server."""
        return self._server

    async def request(self, request: ServerRequest, *, key: str) -> ServerResponse:
        """Return a successful response, with retries.

        Raises:
            RoomloreError: the server refuses.
            ServerUnavailable: the server cannot be reached, is overloaded, or is not Roomlore.
        """
        headers = _headers(key, request)
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        if request.is_change:
            # All attempts have the same key, so the server runs the request once.
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
        """Open a response that is read as it arrives, with a timeout of `silence` seconds between two reads."""
        import httpx2  # noqa: PLC0415  needs the extra

        headers = _headers(key, request) | {"Accept": "text/event-stream"}
        timeout = httpx2.Timeout(silence, connect=min(CONNECT_SECONDS, self._server.seconds), pool=None)
        async with self._http.stream(
            request.method, self._url(request), params=_params(request), headers=headers, timeout=timeout
        ) as response:
            yield response

    async def error_of(self, response: "httpx2.Response") -> tuple[RoomloreError, float]:
        """Return the error for an unsuccessful response, and its Retry-After in seconds."""
        read = await self._read_response(response)
        return error_of(read.status, read.content_type, read.body), _seconds(read.retry_after) or 0.0

    def connection_error(self, error: Exception, *, may_be_done: bool = False) -> ServerUnavailable:
        """Return the error for a failed connection."""
        # Only the class of the error is shown, because its text may contain parts of the request.
        why = f"no server answers at {self._server.address} ({type(error).__name__})"
        cure = MAY_BE_DONE if may_be_done else "is it running, and is the address right?"
        return ServerUnavailable(why, cure=cure)

    async def back_off(self, failures: int, *, at_least: float = 0.0) -> None:
        """Wait before another attempt. The wait is longer after more failures."""
        await self._sleep(max(at_least, self._backoff(max(1, failures))))

    async def _attempt(
        self, request: ServerRequest, headers: Mapping[str, str], attempt: int
    ) -> ServerResponse | _FailedAttempt:
        import httpx2  # noqa: PLC0415  needs the extra

        try:
            async with self._slots, asyncio.timeout(self._server.seconds):
                response = await self._send(request, headers)
        except (TimeoutError, httpx2.ReadTimeout):
            why = f"no answer within {self._server.seconds:g} seconds"
            cure = MAY_BE_DONE if request.is_change else "ask for less, or allow more seconds"
            return _FailedAttempt(error=ServerUnavailable(why, cure=cure), pause=None)
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError) as error:
            was_sent = not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.InvalidURL)
            lost = self.connection_error(error, may_be_done=request.is_change and was_sent)
            return _FailedAttempt(error=lost, pause=self._backoff(attempt))
        if HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
            return response
        error = error_of(response.status, response.content_type, response.body)
        # A query that timed out is not retried, because it would take as long again.
        pause = None if isinstance(error, QueryTimeout) else self._backoff_of(response, request, attempt)
        return _FailedAttempt(error=error, pause=pause)

    async def _send(self, request: ServerRequest, headers: Mapping[str, str]) -> ServerResponse:
        url, params = self._url(request), _params(request)
        async with self._http.stream(
            request.method, url, params=params, content=request.body, headers=dict(headers)
        ) as response:
            return await self._read_response(response)

    async def _read_response(self, response: "httpx2.Response") -> ServerResponse:
        body = bytearray()
        # The raw bytes are read and never decompressed, because a small response could become very large.
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > self._server.largest:
                why = f"the response has more than {self._server.largest:,} bytes"
                raise ServerUnavailable(why, cure="ask for less")
        return ServerResponse(
            status=response.status_code,
            content_type=response.headers.get("content-type", ""),
            retry_after=response.headers.get("retry-after", ""),
            body=bytes(body),
        )

    def _url(self, request: ServerRequest) -> str:
        return f"{self._server.address.rstrip('/')}{request.path}"

    def _backoff_of(self, response: ServerResponse, request: ServerRequest, attempt: int) -> float | None:
        """Return the seconds before the next attempt of a refused request; None if it must not be repeated."""
        wanted = _seconds(response.retry_after)
        # An earlier attempt may still be running. Its response was lost.
        is_running = request.is_change and response.status == HTTPStatus.CONFLICT and wanted is not None
        if response.status not in RETRY_STATUSES and not is_running:
            return None
        pause = max(self._backoff(attempt), wanted or 0.0)
        return pause if pause <= LONGEST_PAUSE else None

    def _backoff(self, attempt: int) -> float:
        # The pause is random, so that clients do not all come back to a restarted server at once.
        return min(LONGEST_PAUSE, MIN_BACKOFF * 2 ** (attempt - 1)) * (1 + self._random()) / 2


def http_client(server: Server) -> "httpx2.AsyncClient":
    """Return an HTTP client for a server. The caller has to close it.

    Raises:
        BadInput: the extra `client` is not installed.
    """
    if find_spec("httpx2") is None:
        raise BadInput("server", "a client needs httpx2; run: pip install 'roomlore[client]'")
    import httpx2  # noqa: PLC0415  needs the extra

    # Streams of events have connections of their own, so that they never block calls.
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


def _params(request: ServerRequest) -> tuple[tuple[str, str], ...] | None:
    return tuple(request.query) or None


def _headers(key: str, request: ServerRequest) -> dict[str, str]:
    viewer = {} if request.viewer is None else {"Roomlore-Viewer": request.viewer}
    return {"Authorization": f"Bearer {key}", **viewer}


def _seconds(retry_after: str) -> float | None:
    # A Retry-After with a date is ignored.
    wait = retry_after.strip()
    return float(wait) if wait.isascii() and wait.isdecimal() and len(wait) < len("1000000") else None
