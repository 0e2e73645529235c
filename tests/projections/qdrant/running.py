"""Servers for these tests, which can be killed, restarted and made to misbehave."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

PROGRAM = Path(__file__).with_name("shim.py")
SECONDS_TO_START = 30


class Shim:
    """The program in shim.py on a folder of its own; its address stays the same over restarts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, *faults: str) -> None:
        """Start it, and return when it listens."""
        assert self._process is None
        arguments = [sys.executable, str(PROGRAM), str(self.folder), "--port", str(self.port), *faults]
        self._process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        assert said.strip().isdecimal(), f"the server did not start: {said!r}"
        self.port = int(said)

    def kill(self) -> None:
        """Kill it with SIGKILL, if it runs."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGKILL)
        self.died()

    def died(self) -> None:
        """Wait until it is dead."""
        assert self._process is not None
        assert self._process.wait(SECONDS_TO_START) == -signal.SIGKILL
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None

    def restart(self, *faults: str) -> None:
        """Kill it and start it on the same folder with other faults."""
        self.kill()
        self.start(*faults)


def real_server() -> tuple[str, str | None] | None:
    """Return address and key of a real server to test against, if there is one."""
    url = os.environ.get("QDRANT_URL")
    return (url, os.environ.get("QDRANT_KEY") or None) if url else None


@asynccontextmanager
async def stranger(answer: bytes) -> AsyncGenerator[str]:
    """The address of a server that is no Qdrant and always gives the same answer."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            lengths = [line for line in head.splitlines() if line.startswith("content-length:")]
            await reader.readexactly(int(lengths[0].partition(":")[2]) if lengths else 0)
            writer.write(answer)
            await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
