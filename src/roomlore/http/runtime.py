"""Serves the API, and runs the workers, in one process."""

import asyncio
import socket
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import Any, cast

import uvicorn
from fastapi import FastAPI
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from roomlore.domain.errors import BadInput
from roomlore.http.application import build
from roomlore.http.limits import RequestLimits
from roomlore.operations import App

try:
    import resource
except ImportError:
    # Windows has no such limits.
    resource = None  # type: ignore[assignment]

#: Seconds after a stop in which running requests may finish.
SHUTDOWN_TIMEOUT = 10
#: The number of connections that the system accepts before the process accepts them.
BACKLOG = 64
#: The maximum number of seconds until the headers of a request have arrived.
HEADER_TIMEOUT = 10.0
#: Seconds after which a client that does not read is disconnected.
SEND_TIMEOUT = 10.0
#: The maximum number of bytes of a connection that the system buffers, and the socket option for it; None if there is
#: none.
SEND_BUFFER = 64 * 1024
TCP_NOTSENT_LOWAT: int | None = getattr(socket, "TCP_NOTSENT_LOWAT", None)

#: The maximum number of open connections. It is lower if the system allows fewer open files.
CONNECTIONS = 1024
#: The number of files reserved for everything else, such as connections to the database.
RESERVED_FILES = 96 + BACKLOG
#: The limit of open files that is requested at the start.
FILES = 4096
OVERLOADED_RESPONSE = (
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n"
)


def raise_file_limit() -> None:
    """Raise this process's limit of open files, as far as the system allows it."""
    if resource is None:
        return
    granted, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if most == resource.RLIM_INFINITY else min(FILES, most)
    if granted != resource.RLIM_INFINITY and granted < wanted:
        # If the limit cannot be raised, fewer connections are allowed.
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def connection_limit() -> int:
    """Return the limit of open connections."""
    if resource is None:
        return CONNECTIONS
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return (
        CONNECTIONS if files == resource.RLIM_INFINITY else max(1, min(CONNECTIONS, files - RESERVED_FILES))
    )


class _TimeoutProtocol(H11Protocol):
    """Closes connections that send no request or do not read the response.

    If there are too many connections, the connection that has been idle for longest is closed for a new one.
    """

    idle_since: float = 0.0
    _limit: asyncio.TimerHandle | None = None
    _watch: asyncio.TimerHandle | None = None
    #: Bytes in the write buffer at the last check.
    _waiting: int = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.idle_since = self.loop.time()
        if not self._has_capacity():
            transport.write(OVERLOADED_RESPONSE)
            transport.close()
            return
        # Writing pauses as soon as the buffer is not empty.
        transport.set_write_buffer_limits(high=0)
        _limit_send_buffer(transport)
        self._start_idle_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_idle_timer()
        self._cancel_write_check()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._schedule_write_check()

    def resume_writing(self) -> None:
        self._cancel_write_check()
        super().resume_writing()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.idle_since = self.loop.time()
        self._start_idle_timer()

    def _has_capacity(self) -> bool:
        """Return whether this connection can be accepted.

        If there are too many connections, the ones that have been idle for longest are closed.
        """
        others = [one for one in cast("set[_TimeoutProtocol]", self.connections) if one is not self]
        too_many = len(others) + 1 - connection_limit()
        if too_many <= 0:
            return True
        idle = sorted((one for one in others if not one.is_serving), key=lambda one: one.idle_since)
        for one in idle[:too_many]:
            one.transport.abort()
        return len(idle) >= too_many

    @property
    def is_serving(self) -> bool:
        """Return whether a request is in progress."""
        # `cycle` is None before the first request, although its type says otherwise.
        return bool(self.cycle) and not self.cycle.response_complete

    def _start_idle_timer(self) -> None:
        self._cancel_idle_timer()
        self._limit = self.loop.call_later(HEADER_TIMEOUT, self._close_idle)

    def _cancel_idle_timer(self) -> None:
        if self._limit is not None:
            self._limit.cancel()

    def _close_idle(self) -> None:
        if self.is_serving:
            return
        if self.transport.get_write_buffer_size():
            # The client is still reading the response.
            self._start_idle_timer()
        elif not self.transport.is_closing():
            self.transport.close()

    def _schedule_write_check(self) -> None:
        self._cancel_write_check()
        self._waiting = self.transport.get_write_buffer_size()
        self._watch = self.loop.call_later(SEND_TIMEOUT, self._check_write_progress)

    def _cancel_write_check(self) -> None:
        if self._watch is not None:
            self._watch.cancel()

    def _check_write_progress(self) -> None:
        # `close` would wait until the client has read everything.
        if self.transport.get_write_buffer_size() >= self._waiting:
            self.transport.abort()
        else:
            self._schedule_write_check()


def _limit_send_buffer(transport: asyncio.Transport) -> None:
    """Limit the system's send buffer for a connection.

    With a large buffer, the process would notice late that the client does not read.
    """
    sock: socket.socket | None = transport.get_extra_info("socket")
    if sock is not None and sock.type == socket.SOCK_STREAM and TCP_NOTSENT_LOWAT is not None:
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, SEND_BUFFER)


def _without_cancel_noise(app: ASGIApp) -> ASGIApp:
    """Return an application that does not log requests that the server cancels at its shutdown timeout."""

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        has_started = False

        async def send_noting_start(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            await app(scope, receive, send_noting_start)
        except asyncio.CancelledError:
            # Only the server cancels requests here, and it would log each as an error.
            if not has_started:
                await Response(status_code=HTTPStatus.SERVICE_UNAVAILABLE)(scope, receive, send)

    return served


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals to the caller of `serve`."""
        yield


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Port 0 means any free port.

    Raises:
        BadInput: the address cannot be used.
    """
    try:
        # If the protocol is named, asyncio sets TCP_NODELAY. Without it, every response would wait 40 ms.
        family, kind, protocol, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
        )[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(place)
            listening.listen(BACKLOG)
        except OSError:
            listening.close()
            raise
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else None
        raise BadInput(f"{host}:{port}", f"cannot listen there: {why or 'no such host'}") from None
    return listening


async def serve(
    app: App,
    listening: socket.socket,
    *,
    limits: RequestLimits,
    workers: bool,
    stop: asyncio.Event,
    mounted: Mapping[str, ASGIApp] | None = None,
    wrap: Callable[[FastAPI], ASGIApp] | None = None,
) -> None:
    """Serve until `stop` is set. Running requests are finished.

    Args:
        app: The App of an operator without a key.
        listening: The listening socket.
        limits: Limits of requests.
        workers: Whether to run the workers of every org of the database.
        stop: Ends the server.
        mounted: Other applications to serve with the same middleware, by path.
        wrap: Wraps the API, to serve pages as well.
    """
    api = build(app, limits=limits, mounted=mounted)
    # Streams end when this is set.
    api.state.stop = stop
    config = uvicorn.Config(
        _without_cancel_noise(api if wrap is None else wrap(api)),
        access_log=False,
        backlog=BACKLOG,
        http=_TimeoutProtocol,
        lifespan="off",
        log_config=None,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_TIMEOUT,
        ws="none",
    )
    server = _Server(config)
    tasks: list[asyncio.Task[Any]] = [
        asyncio.create_task(server.serve([listening])),
        asyncio.create_task(stop.wait()),
    ]
    tasks += [asyncio.create_task(app.run_worker(stop))] if workers else []
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.set()
        server.should_exit = True
        # Everything finishes, even if one of the tasks failed.
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        # Clients that are still reading are disconnected.
        for connection in list(server.server_state.connections):
            connection.transport.abort()
    for outcome in ended:
        if isinstance(outcome, BaseException):
            raise outcome
