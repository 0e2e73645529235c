"""Whoever serves or works while the embedding server is dead starts, answers by words and says so, and recovers."""

import asyncio
import os
import re
import socket
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from crash.killing import Place
from ingest.stories import at, message
from jobs.test_outages import until
from models.embeddingserver import embedding_server
from roomlore.db.cluster import Cluster, start_cluster, stop_cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

DEAD = "embedding model: the connection failed"
NO_MODEL = "no embedding model"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cluster]:
    """A claim on a server with the usual settings, so that it is stopped only once."""
    data = tmp_path_factory.mktemp("away")
    cluster = asyncio.run(start_cluster(data))
    yield cluster
    asyncio.run(cluster.close())
    asyncio.run(stop_cluster(data, force=True))


@pytest.fixture(name="port")
def _port() -> int:
    """A port at which nobody listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@asynccontextmanager
async def running(place: Place, port: int, *verb: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    """`roomlore` as a process, for which a server at this port embeds."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ROOMLORE_")}
    run = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "roomlore", "--data", str(place.data), "--org", place.org, *verb),
        env=clean
        | {"ROOMLORE_EMBEDDING_URL": f"http://127.0.0.1:{port}/v1", "ROOMLORE_EMBEDDING_NAME": "fake"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield run
    finally:
        if run.returncode is None:
            run.terminate()
        await run.communicate()


async def where(run: asyncio.subprocess.Process) -> str:
    """Return where it serves, once it does."""
    assert run.stderr is not None
    async with asyncio.timeout(90):
        line = (await run.stderr.readline()).decode()
    found = re.search(r"serving (\S+)/v1", line)
    assert found, line
    return f"http://{found[1]}"


async def searched(http: httpx2.AsyncClient, question: str = "lantern") -> tuple[int, list[str]]:
    """Return how much is found, and what the answer had to do without."""
    answer = (await http.post("/v1/search", json={"question": question})).raise_for_status().json()
    return len(answer["hits"]), answer["degraded"]


async def embedding(http: httpx2.AsyncClient) -> dict[str, Any]:
    """Return how embedding does, and how much is still to be disentangled."""
    numbers = (await http.get("/v1/statistics")).raise_for_status().json()
    [current] = numbers["embedding"]
    return current | {"disentangled": numbers["counts"]["disentangled"]["waiting"]}


async def test_who_serves_while_the_embedding_server_is_dead_answers_and_recovers(server: Cluster, port: int):
    place = Place(server=server, org="served without vectors")
    async with place.open() as (app, _):
        key = (await app.keys.create("operator", name="asks")).key
        await app.ingest_batch(
            [message("1", "who has the lantern?"), message("2", "bread and cheese", sent_at=at(2))]
        )

    async with running(place, port, "serve", "--port", "0") as run:
        url = await where(run)
        async with httpx2.AsyncClient(
            base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=60
        ) as http:
            began = time.monotonic()
            assert await searched(http) == (1, [NO_MODEL])
            # The first one finds out that it is dead; the next ones need not.
            assert time.monotonic() - began < 20

            async def told() -> bool:
                held = await embedding(http)
                return held["disentangled"] == 0 and held["error"] == DEAD

            async def embedded() -> bool:
                held = await embedding(http)
                return held["waiting"] == 0 and held["failing_since"] is None

            async def found_by_meaning() -> bool:
                hits, degraded = await searched(http)
                assert hits
                return degraded == []

            # What needs no vectors is done meanwhile, and the outage is there to be seen.
            await until(told)
            held = await embedding(http)
            assert held["failing_since"] is not None
            assert (held["done"], held["waiting"], held["model"]) == (0, 2, "http/fake")
            with embedding_server(port):
                await until(embedded)
                held = await embedding(http)
                assert (held["done"], held["dimensions"]) == (2, 384)
                await until(found_by_meaning)


async def test_a_worker_that_starts_while_the_embedding_server_is_dead_does_the_rest_and_recovers(
    server: Cluster, port: int
):
    place = Place(server=server, org="worked without vectors")
    async with place.open() as (app, _):
        await app.ingest_batch([message("1", "who has the lantern?")])
        async with running(place, port, "worker"):

            async def disentangled() -> bool:
                return not (await app.waiting("disentangle")).waiting

            async def told() -> bool:
                return (await app.monitoring.statistics()).embedding[0].error == DEAD

            async def embedded() -> bool:
                return not (await app.waiting()).waiting

            await until(disentangled)
            await until(told)
            assert not await embedded()
            with embedding_server(port):
                await until(embedded)
            assert (await app.monitoring.statistics()).embedding[0].error is None
