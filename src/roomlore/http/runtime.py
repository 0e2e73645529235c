"""Serves an App until told to stop: the API, and the workers beside it, in one process."""

import asyncio
import ipaddress
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

#: What was begun is finished within so many seconds of being told to stop.
SHUTDOWN_TIMEOUT = 10
#: So many connections are taken on at once, before there is a look at how many there are.
BACKLOG = 64
#: Seconds in which the head of a request arrives.
HEADER_TIMEOUT = 10.0
#: Whoever takes in nothing for so many seconds, of what waits to be taken, is not there any more.
SEND_TIMEOUT = 10.0
#: Bytes that the system may hold back of a connection; and by what it is told, where it can be.
SEND_BUFFER = 64 * 1024
TCP_NOTSENT_LOWAT: int | None = getattr(socket, "TCP_NOTSENT_LOWAT", None)


#: Connections that are open at a time; fewer where the system grants fewer files.
CONNECTIONS = 1024
#: Files that are left to all else: the database's connections, what is read and written.
RESERVED_FILES = 96 + BACKLOG
#: So many files are asked of the system at the start.
FILES = 4096
OVERLOADED_RESPONSE = (
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n"
)


def raise_file_limit() -> None:
    """Let this process open as many files as it needs, as far as the system grants them."""
    if resource is None:
        return
    granted, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if most == resource.RLIM_INFINITY else min(FILES, most)
    if granted != resource.RLIM_INFINITY and granted < wanted:
        # Where it does not, there are fewer connections.
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def connection_limit() -> int:
    """Return how many connections may be open at a time."""
    if resource is None:
        return CONNECTIONS
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return (
        CONNECTIONS if files == resource.RLIM_INFINITY else max(1, min(CONNECTIONS, files - RESERVED_FILES))
    )


class _TimeoutProtocol(H11Protocol):
    """Closes a connection on which nothing gets on: no head of a request comes, or no answer is taken in.

    Where there are too many, the one that has been idle for longest makes room for a new one.
    """

    idle_since: float = 0.0
    _limit: asyncio.TimerHandle | None = None
    _watch: asyncio.TimerHandle | None = None
    #: Bytes that waited to be taken in when that was last looked at.
    _waiting: int = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self.idle_since = self.loop.time()
        if not self._has_capacity():
            transport.write(OVERLOADED_RESPONSE)
            transport.close()
            return
        # Writing pauses as soon as anything waits, and goes on once nothing does.
        transport.set_write_buffer_limits(high=0)
        _limit_send_buffer(transport)
        self._start_idle_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for no more."""
        self._cancel_idle_timer()
        self._cancel_write_check()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Watch whether what waits is taken in."""
        super().pause_writing()
        self._schedule_write_check()

    def resume_writing(self) -> None:
        """Watch no more: all of it was."""
        self._cancel_write_check()
        super().resume_writing()

    def on_response_complete(self) -> None:
        """Wait for the next request, or until what was answered is read."""
        super().on_response_complete()
        self.idle_since = self.loop.time()
        self._start_idle_timer()

    def _has_capacity(self) -> bool:
        """Whether there is room for one more connection, after letting go of those that have been idle for longest."""
        # Each is of this kind: it is what the server was given.
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
        """Whether a request is being answered."""
        # There is none before the first request, whatever its type says.
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
            # What was answered is still being taken in; that is watched.
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
        # Closed, it would wait for ever for what its caller does not read.
        if self.transport.get_write_buffer_size() >= self._waiting:
            self.transport.abort()
        else:
            self._schedule_write_check()


def _limit_send_buffer(transport: asyncio.Transport) -> None:
    """Have the system hold back little of what is written: it would take in megabytes, and then nothing for long."""
    place: socket.socket | None = transport.get_extra_info("socket")
    if place is not None and place.type == socket.SOCK_STREAM and TCP_NOTSENT_LOWAT is not None:
        with suppress(OSError):
            place.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, SEND_BUFFER)


def _without_cancel_noise(app: ASGIApp) -> ASGIApp:
    """Return an application that says nothing of it when the server has waited long enough and cancels a request."""

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def noted(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await app(scope, receive, noted)
        except asyncio.CancelledError:
            # Nobody cancels but the server, which would log it as a fault.
            if not has_begun:
                await Response(status_code=HTTPStatus.SERVICE_UNAVAILABLE)(scope, receive, send)

    return served


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals to whoever started us."""
        yield


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 is any that is free.

    Raises:
        BadInput: nobody can listen there.
    """
    try:
        # Named as TCP, or nothing tells the event loop to send without delay: every response would wait 40 ms.
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


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine can reach a host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


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
    """Serve until told to stop; what was begun by then is finished.

    Args:
        app: The App of an operator without a key.
        listening: Where requests come in.
        limits: How much is too much.
        workers: Whether work is done beside, in every org of the database.
        stop: Ends it once it is set.
        mounted: What else is served behind the same doors, by path.
        wrap: Puts the API among other ways in; by default there are none.
    """
    api = build(app, limits=limits, mounted=mounted)
    # Streams end once it is set, and keep nobody waiting.
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
        # What was begun is finished, whichever of them failed.
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        # Whoever has not taken in by now what was answered holds nobody up.
        for left in list(server.server_state.connections):
            left.transport.abort()
    for outcome in ended:
        if isinstance(outcome, BaseException):
            raise outcome
