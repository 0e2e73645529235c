"""`roomlore serve` as a process: it serves, works beside, and ends in order."""

import asyncio
import itertools
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlencode

import httpx2
import pytest
from psycopg.conninfo import conninfo_to_dict

from roomlore.cli import server
from roomlore.cli.main import cli
from roomlore.client.server import is_loopback
from roomlore.db.cluster import Cluster
from roomlore.domain.errors import BadInput
from roomlore.http.runtime import listen
from roomlore.operations import App


@asynccontextmanager
async def process(
    *words: str, program: Sequence[str] = (sys.executable, "-m", "roomlore"), **environment: str
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A command of its own, ended whatever happens."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ROOMLORE_")}
    run = await asyncio.create_subprocess_exec(
        *program, *words,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=clean | environment,
    )  # fmt: skip
    try:
        yield run
    finally:
        if run.returncode is None:
            run.kill()
            await run.wait()


def database(cluster: Cluster) -> tuple[str, ...]:
    return ("--database", f"postgresql:///?{urlencode(conninfo_to_dict(cluster.app_dsn))}")


async def address(run: asyncio.subprocess.Process) -> str:
    """Return where a process says that it serves."""
    assert run.stderr is not None
    async with asyncio.timeout(60):
        line = (await run.stderr.readline()).decode()
    found = re.search(r"serving (\S+)/v1", line)
    assert found, line + (await run.stderr.read()).decode()
    return f"http://{found[1]}"


@pytest.mark.slow
async def test_it_serves_works_and_ends_in_order(cluster: Cluster, app: App) -> None:
    org, made = str(app.settings.org), await app.keys.create("operator", name="x")
    shown = {"authorization": f"Bearer {made.key}"}
    said = {
        "room": "a",
        "id": "1",
        "author": "ana",
        "text": "the gate is blue",
        "sent_at": "2026-01-01T00:00:00Z",
    }

    async with process(*database(cluster), "--org", org, "serve", "--port", "0") as run:
        url = await address(run)
        async with httpx2.AsyncClient(base_url=url, headers=shown, timeout=60) as client:
            taken = await client.post("/v1/messages", json={"messages": [said]})
            assert taken.status_code == 200, taken.text
            assert "server" not in taken.headers
            async with asyncio.timeout(60):
                while not (await client.get("/v1/statistics")).json()["counts"]["embedded"]["done"]:
                    pass
            answer = (await client.post("/v1/search", json={"question": "gate"})).json()
            assert answer["hits"][0]["messages"][0]["body"] == "the gate is blue"
            run.send_signal(signal.SIGTERM)
            out, err = await asyncio.wait_for(run.communicate(), 60)

    assert (run.returncode, out) == (0, b"")
    assert b"Traceback" not in err
    assert b"gate" not in err


@pytest.mark.slow
async def test_it_says_so_where_others_can_reach_it(cluster: Cluster) -> None:
    async with process(
        *database(cluster), "serve", "--host", "0.0.0.0", "--port", "0", "--no-workers"
    ) as run:
        await address(run)
        run.send_signal(signal.SIGINT)
        _, err = await asyncio.wait_for(run.communicate(), 60)

    assert run.returncode == 0
    assert b"TLS" in err


@pytest.mark.slow
async def test_it_wants_no_key_of_its_own(cluster: Cluster) -> None:
    async with process(*database(cluster), "serve", ROOMLORE_KEY="rlk_x") as run:
        _, err = await run.communicate()

    assert run.returncode == 1
    assert b"ROOMLORE_KEY" in err
    assert b"rlk_x" not in err


@pytest.mark.slow
async def test_what_was_acknowledged_is_there_after_a_kill(cluster: Cluster, app: App) -> None:
    made = await app.keys.create("operator", name="x")
    shown = {"authorization": f"Bearer {made.key}"}
    acknowledged: list[str] = []

    async def write(client: httpx2.AsyncClient, lane: int) -> None:
        for number in itertools.count():
            record = {
                "room": "a",
                "id": f"{lane}-{number}",
                "author": "ana",
                "text": "x",
                "sent_at": "2026-01-01T00:00:00Z",
            }
            response = await client.post("/v1/messages", json={"messages": [record]})
            assert response.status_code == 200
            acknowledged.append(record["id"])
            if len(acknowledged) == 40:
                run.kill()

    async with (
        process(*database(cluster), "--org", str(app.settings.org), "serve", "--port", "0") as run,
        httpx2.AsyncClient(base_url=await address(run), headers=shown, timeout=60) as client,
    ):
        ends = await asyncio.gather(*(write(client, lane) for lane in range(8)), return_exceptions=True)
        _, err = await run.communicate()

    assert all(isinstance(end, httpx2.TransportError) for end in ends), err
    kept = {one.external_id for one in await app.messages(app.operator, "a", limit=1000)}
    assert len(acknowledged) >= 40
    assert set(acknowledged) <= kept


def test_without_what_it_needs_it_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setattr(server, "find_spec", lambda _: None)

    with pytest.raises(BadInput, match=r"roomlore\[server\]"):
        cli.main(["serve"], standalone_mode=False)


def test_responses_are_sent_without_delay() -> None:
    """The event loop looks at the protocol that a socket was made with."""
    with listen("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP


def test_where_nobody_can_listen_is_told_in_a_line() -> None:
    with listen("127.0.0.1", 0) as taken, pytest.raises(BadInput, match="cannot listen there"):
        listen("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(BadInput, match="cannot listen there"):
        listen("nowhere.invalid", 7171)


@pytest.mark.parametrize(
    ("host", "is_it"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("a.example", False)],
)
def test_a_loopback_is_known(host, is_it) -> None:
    assert is_loopback(host) is is_it
