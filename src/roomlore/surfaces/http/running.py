"""Serves an App until told to stop: the API, and the workers beside it, in one process."""

import asyncio
import ipaddress
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import uvicorn

from roomlore.app import App
from roomlore.domain.errors import BadInput
from roomlore.surfaces.http.limits import Limits
from roomlore.surfaces.http.server import build

#: What was begun is finished within so many seconds of being told to stop.
FAREWELL = 10
BACKLOG = 512


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
    app: App, listening: socket.socket, *, limits: Limits, workers: bool, stop: asyncio.Event
) -> None:
    """Serve until told to stop; what was begun by then is finished.

    Args:
        app: The App of an operator without a key.
        listening: Where requests come in.
        limits: How much is too much.
        workers: Whether work is done beside, in every org of the database.
        stop: Ends it once it is set.
    """
    config = uvicorn.Config(
        build(app, limits=limits),
        access_log=False,
        http="h11",
        lifespan="off",
        log_config=None,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=FAREWELL,
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
    for outcome in ended:
        if isinstance(outcome, BaseException):
            raise outcome
