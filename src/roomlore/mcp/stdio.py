"""MCP over standard input and output, for the program that started this process.

Standard output carries only messages of the protocol. Everything else goes to standard error. Daemon threads read and
write, so that the process can end while they block.
"""

import asyncio
import os
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar, cast

from mcp.server.stdio import stdio_server

from roomlore.mcp.server import build
from roomlore.operations import App

Result = TypeVar("Result")

#: The maximum number of bytes of one message, as over HTTP. A longer message ends the connection.
LONGEST_LINE = 256 * 1024
_CHUNK_SIZE = 64 * 1024


class LineReader:
    """The lines of an input."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    async def __aiter__(self) -> AsyncGenerator[str]:
        """Yield each line. A line that is too long ends the input."""
        held = b""
        while piece := await _in_thread(lambda: os.read(self._fd, _CHUNK_SIZE)):
            *lines, held = (held + piece).split(b"\n")
            for line in lines:
                yield line.decode("utf-8", "replace")
            if len(held) > LONGEST_LINE:
                return


class LineWriter:
    """An output. It sets an event when its reader has gone."""

    def __init__(self, fd: int, closed: asyncio.Event) -> None:
        self._fd = fd
        self._closed = closed

    async def write(self, text: str) -> None:
        """Write text."""
        left = text.encode()
        try:
            while left:
                left = left[await _in_thread(partial(os.write, self._fd, left)) :]
        except OSError:
            # The parent process has gone.
            self._closed.set()

    async def flush(self) -> None:
        """Do nothing: writes are not buffered."""


async def serve(app: App, *, allow_writes: bool, stop: asyncio.Event) -> None:
    """Serve until the input ends or `stop` is set. `stop` is also set when the reader of the output has gone."""
    with _own_stdout() as fd:
        tasks: list[asyncio.Task[Any]] = [
            asyncio.create_task(_serve_streams(app, fd, allow_writes=allow_writes, closed=stop)),
            asyncio.create_task(stop.wait()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
    for outcome in ended:
        if isinstance(outcome, Exception):
            raise outcome


async def _serve_streams(app: App, fd: int, *, allow_writes: bool, closed: asyncio.Event) -> None:
    server = build(lambda _: app, allow_writes=allow_writes)
    # The SDK uses only these methods.
    lines, out = cast("Any", LineReader(sys.stdin.fileno())), cast("Any", LineWriter(fd, closed))
    async with stdio_server(stdin=lines, stdout=out) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


async def _in_thread(call: Callable[[], Result]) -> Result:
    """Return the result of a blocking call. After a cancellation, the call continues and its result is ignored.

    The event loop would wait for its own threads when it ends, so this uses a daemon thread.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()

    def settle(result: Result | None, error: OSError | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(cast("Result", result))
        else:
            done.set_exception(error)

    def run() -> None:
        result, failed = None, None
        try:
            result = call()
        except OSError as error:
            failed = error
        # The loop may have ended.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result, failed)

    threading.Thread(target=run, daemon=True).start()
    return await done


@contextmanager
def _own_stdout() -> Generator[int]:
    """Yield a private descriptor of standard output. All other output to standard output goes to standard error."""
    own = os.dup(sys.stdout.fileno())
    sys.stdout.flush()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        yield own
    finally:
        os.dup2(own, sys.stdout.fileno())
        os.close(own)
