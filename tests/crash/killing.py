"""Kills a process that does deeds, or the PostgreSQL under it, and finds what it had been promised."""

import asyncio
import contextlib
import os
import random
import signal
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

import roomlore
from crash.deeds import LOST
from roomlore.db.cluster import Cluster, cluster_status
from roomlore.models.fake import FakeEmbedder
from roomlore.operations import App
from roomlore.settings import Settings

#: The process that writes; the postmaster alone, whose children then end by themselves; all of the server.
VICTIMS = ("process", "postmaster", "server")
#: How many seconds a deed takes, as long as none has told.
USUAL_PACE = 0.03
#: How many seconds it is given to notice that its server is gone.
GRACE = 5


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a run takes place: a server, and an org of its own."""

    server: Cluster
    org: str

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.server.home.parent

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[tuple[App, psycopg.AsyncConnection]]:
        """Open Roomlore as everybody does, and a superuser's connection beside it."""
        settings = Settings(data=self.data, org=self.org)
        async with (
            roomlore.open(settings, embedder=FakeEmbedder()) as app,
            await psycopg.AsyncConnection.connect(
                self.server.admin_dsn,
                autocommit=True,
                options="-c search_path=roomlore,public -c timezone=UTC",
            ) as admin,
        ):
            yield app, admin


async def do_until_killed(place: Place, what: str, victim: str, *, seed: int, deeds: int) -> list[int]:
    """Start a process, kill it or its server at a random moment, and return what it had acknowledged.

    Args:
        place: Where it does its deeds.
        what: Which deeds.
        victim: Whom to kill.
        seed: Which moment, among other things.
        deeds: How many there are to do.
    """
    random_ = random.Random(f"{what} {victim} {seed}")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "crash.deeds", str(place.data), place.org, what, str(seed)),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    said: list[bytes] = []
    try:
        async with asyncio.timeout(120):
            pace = await _listen(process.stdout, said, random_.randrange(1, deeds - 1))
            await asyncio.sleep(random_.uniform(0, 2 * pace))
            kill(victim, process.pid, place.data)
        # It ends when it loses the database in the midst of a deed; where it had none, its worker mends that.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), GRACE)
    finally:
        if process.returncode is None:
            # Not `process.kill()`: it may take the status of one that just ended, which asyncio then never learns.
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        rest, complaints = await process.communicate()
    # What the dying process had not finished writing was not acknowledged.
    lines = (b"".join(said) + rest).decode().split("\n")[:-1]
    if LOST in lines:
        assert (victim != "process", process.returncode) == (True, 0), complaints.decode()
    else:
        assert process.returncode == -signal.SIGKILL, complaints.decode()
    return [int(line) for line in lines if line != LOST]


async def _listen(lines: asyncio.StreamReader, said: list[bytes], count: int) -> float:
    """Wait for some lines, and return how many seconds lay between two of them."""
    said.append(await lines.readline())
    began = time.monotonic()
    while len(said) < count:
        said.append(await lines.readline())
    return (time.monotonic() - began) / (count - 1) if count > 1 else USUAL_PACE


def kill(victim: str, writer: int, data: Path) -> None:
    """Kill a process, or the server that it uses: its first process, or all."""
    postmaster = cluster_status(data).pid
    assert postmaster is not None
    match victim:
        case "process":
            pids = [writer]
        case "postmaster":
            pids = [postmaster]
        case _:
            pids = [postmaster, *_children(postmaster)]
    for pid in pids:
        # One that has ended by itself is asked for its reasons later.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _children(parent: int) -> list[int]:
    found: list[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            _, _, rest = stat.read_text().rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(rest.split()[1]) == parent:
            found.append(int(stat.parent.name))
    return found
