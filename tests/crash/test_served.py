"""kill -9 of what serves, or of PostgreSQL under it, while many write over HTTP: nothing acknowledged is lost."""

import asyncio
import itertools
import os
import random
import re
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import psycopg
import pytest

from crash.killing import VICTIMS, Place, kill
from roomlore.db.cluster import Cluster, start_cluster, stop_cluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="finds the server's processes in /proc"),
]
CLIENTS = 16
BATCH = 5
#: Batches that are acknowledged before anybody is killed, at most; and after it, where somebody goes on serving.
BEFORE, AFTER = 60, 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cluster]:
    """A claim on a server with the usual settings, so that it is stopped only once."""
    data = tmp_path_factory.mktemp("served")
    cluster = asyncio.run(start_cluster(data))
    yield cluster
    asyncio.run(cluster.close())
    asyncio.run(stop_cluster(data, force=True))


@dataclass(slots=True)
class Load:
    """Batches that many clients send, and what became of them."""

    sent: set[str] = field(default_factory=set)
    acknowledged: set[str] = field(default_factory=set)
    statuses: set[int] = field(default_factory=set)
    enough: int = 0
    is_enough: asyncio.Event = field(default_factory=asyncio.Event)
    is_over: bool = False

    def wait_for(self, more: int) -> asyncio.Event:
        """Return what is set once so many more batches were acknowledged."""
        self.enough, self.is_enough = len(self.acknowledged) + more, asyncio.Event()
        return self.is_enough

    async def client(self, http: httpx2.AsyncClient, lane: int) -> None:
        """Send batches, each once, until it is over."""
        for number in itertools.count():
            if self.is_over:
                return
            name = f"{lane}-{number}"
            self.sent.add(name)
            try:
                response = await http.post("/v1/messages", json={"messages": _batch(name)})
            except httpx2.TransportError:
                await asyncio.sleep(0.05)  # nobody is there; asking again at once would only heat the machine
                continue
            self.statuses.add(response.status_code)
            if response.status_code == 200:
                assert [item["outcome"] for item in response.json()["items"]] == ["added"] * BATCH
                self.acknowledged.add(name)
            else:
                assert response.headers["retry-after"], response.text
                await asyncio.sleep(0.05)
            if len(self.acknowledged) >= self.enough:
                self.is_enough.set()


def _batch(name: str) -> list[dict[str, str]]:
    return [
        {
            "room": f"room{place % 2}",
            "id": f"{name}-{place}",
            "author": f"p{place}",
            "text": f"batch {name}, message {place}",
            "sent_at": "2026-01-01T00:00:00Z",
        }
        for place in range(BATCH)
    ]


@asynccontextmanager
async def serving(place: Place) -> AsyncGenerator[tuple[asyncio.subprocess.Process, str]]:
    """`roomlore serve` as a process, and where it serves."""
    run = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "roomlore", "--data", str(place.data), "--org", place.org),
        *("serve", "--port", "0", "--rate", "100000"),
        env={name: value for name, value in os.environ.items() if not name.startswith("ROOMLORE_")},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert run.stderr is not None
    try:
        async with asyncio.timeout(90):
            line = (await run.stderr.readline()).decode()
        found = re.search(r"serving (\S+)/v1", line)
        assert found, line
        yield run, f"http://{found[1]}"
    finally:
        if run.returncode is None:
            run.kill()
        await run.communicate()


@pytest.mark.parametrize(("seed", "victim"), list(enumerate(VICTIMS)))
async def test_what_was_acknowledged_over_http_is_there(server: Cluster, victim: str, seed: int) -> None:
    place = Place(server=server, org=f"served {victim} {seed}")
    load, before = Load(), random.Random(f"{victim} {seed}").randrange(1, BEFORE)
    async with place.open() as (app, _):
        key = (await app.keys.create("operator", name="writes")).key

    async with (
        serving(place) as (run, url),
        httpx2.AsyncClient(base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=60) as http,
        asyncio.TaskGroup() as clients,
    ):
        begun = load.wait_for(before)
        for lane in range(CLIENTS):
            clients.create_task(load.client(http, lane))
        async with asyncio.timeout(120):
            await begun.wait()
            kill(victim, run.pid, place.data)
            if victim == "process":
                await run.wait()
            else:
                # Whoever serves starts PostgreSQL again, and goes on.
                await load.wait_for(AFTER).wait()
        load.is_over = True

    assert load.statuses <= {200, 503}
    async with place.open() as (app, admin):
        counted = await stored(admin, app.org_id)
    assert set(counted.values()) <= {BATCH}, "a batch was stored in part, or twice"
    assert load.acknowledged <= counted.keys() <= load.sent


async def stored(admin: psycopg.AsyncConnection, org_id: object) -> dict[str, int]:
    """Return how many messages of each batch there are."""
    rows = await admin.execute(
        "select regexp_replace(external_id, '-[0-9]+$', ''), count(*) from messages where org_id = %s group by 1",
        [org_id],
    )
    return dict(await rows.fetchall())
