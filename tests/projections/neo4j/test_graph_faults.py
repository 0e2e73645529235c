"""Failures of Neo4j: the errors, what is kept, and that the password is never shown."""

import asyncio
import logging
import socket
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import pytest

from projections.neo4j.running import Server, real_server
from projections.neo4j.stories import Model, Raw, message, user
from roomlore.domain.errors import BackendUnavailable, BadInput
from roomlore.projections import neo4j as graphs
from roomlore.projections.neo4j import Neo4jProjection, open_neo4j

PASSWORD = "hush-0123456789"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:7474",
        "bolt://",
        "bolt://127.0.0.1:0",
        "bolt://127.0.0.1:port",
        f"bolt://neo4j:{PASSWORD}@127.0.0.1:7687",
        "neo4j://127.0.0.1:7687/a-database",
        "neo4j://127.0.0.1:7687?policy=near",
        "bolt://graph.example:7687",
    ],
)
def test_an_address_that_cannot_be_used_is_refused_and_not_repeated(url: str):
    with pytest.raises(BadInput) as caught:
        open_neo4j(url, user="neo4j", password=PASSWORD)
    assert PASSWORD not in str(caught.value)
    assert caught.value.what == "Neo4j URL"


def test_an_address_for_the_way_through_a_network_is_taken():
    assert repr(open_neo4j("neo4j+s://graph.example", user="neo4j", password=PASSWORD)) == "Neo4jProjection()"


@pytest.mark.parametrize(("name", "password"), [("", PASSWORD), ("neo4j", "")])
def test_user_and_password_must_be_given(name: str, password: str):
    with pytest.raises(BadInput, match="must be given"):
        open_neo4j("bolt://127.0.0.1:7687", user=name, password=password)


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(graphs, "find_spec", lambda _: None)
    with pytest.raises(BadInput, match=r"pip install 'roomlore\[neo4j\]'"):
        open_neo4j("bolt://127.0.0.1:7687", user="neo4j", password=PASSWORD)


@pytest.mark.slow
async def test_a_port_that_refuses_is_told_soon(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    graph = open_neo4j(f"bolt://127.0.0.1:{port}", user="neo4j", password=PASSWORD, seconds=5)
    with pytest.raises(BackendUnavailable, match="cannot be reached"):
        await graph.index_names()
    await graph.close()
    assert PASSWORD not in caplog.text


@asynccontextmanager
async def listening(answer: bytes) -> AsyncGenerator[int]:
    """Something that answers everybody the same, or nothing at all; its port."""
    handling: list[asyncio.Task[None] | None] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handling.append(asyncio.current_task())
        with suppress(ConnectionError):
            await reader.read(20)
            writer.write(answer)
            if not answer:
                await reader.read()
            writer.close()
            await writer.wait_closed()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
    await asyncio.gather(*(one for one in handling if one is not None))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"hello"])
async def test_what_is_not_neo4j_is_given_up(answer: bytes):
    async with listening(answer) as port:
        graph = open_neo4j(f"bolt://127.0.0.1:{port}", user="neo4j", password=PASSWORD, seconds=0.5)
        started = time.monotonic()
        with pytest.raises(BackendUnavailable):
            await graph.index_names()
        assert time.monotonic() - started < 5
        await graph.close()


@pytest.mark.slow
async def test_a_wrong_password_is_told_and_shown_nowhere(
    server: tuple[str, str, str], caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    graph = open_neo4j(server[0], user=server[1], password=PASSWORD)
    with pytest.raises(BackendUnavailable, match="denies access") as caught:
        await graph.index_names()
    await graph.close()
    assert caught.value.__cause__ is None
    assert PASSWORD not in f"{caught.value} {caught.value.__dict__} {graph!r} {graph._wire!r} {caplog.text}"


@pytest.mark.slow
async def test_a_database_that_is_not_there_is_told(server: tuple[str, str, str]):
    url, name, password = server
    graph = open_neo4j(url, user=name, password=password, database="nowhere")
    with pytest.raises(BackendUnavailable, match="no such database"):
        await graph.index_names()
    await graph.close()


@pytest.mark.slow
async def test_a_writer_that_is_kept_waiting_gives_up(
    server: tuple[str, str, str], graph: Neo4jProjection, raw: Raw, copy: str
):
    url, name, password = server
    impatient = open_neo4j(url, user=name, password=password, seconds=1)
    await impatient.index_names()
    async with raw._driver.session() as session, await session.begin_transaction() as holding:
        await holding.run("MATCH (c:Copy {name: $copy}) SET c.name = $copy", copy=copy)
        with pytest.raises(BackendUnavailable, match="no answer within 1 seconds"):
            await impatient.put(copy, [user(1)])
    await impatient.put(copy, [user(2)])
    await impatient.close()
    assert [one.id.int for one in await graph.stored_digests(copy, after=None, limit=5)] == [2]


@pytest.mark.slow
async def test_a_wiped_server_is_told_from_an_empty_copy(graph: Neo4jProjection, raw: Raw, copy: str):
    await graph.put(copy, [user(1)])
    await raw.ask("MATCH (n) WHERE n.copy = $copy OR n.name = $copy DETACH DELETE n", copy=copy)
    for asked in (graph.put(copy, [user(1)]), graph.stored_digests(copy, after=None, limit=1)):
        with pytest.raises(BackendUnavailable, match="gone"):
            await asked
    await graph.prepare(copy, dimensions=0)
    assert await graph.stored_digests(copy, after=None, limit=1) == []


@pytest.mark.slow
@pytest.mark.skipif(real_server() is not None, reason="a real server is not killed")
async def test_a_server_killed_in_the_middle_loses_nothing_it_confirmed(own_server: Server):
    graph = open_neo4j(own_server.url, user=own_server.user, password=own_server.password, seconds=10)
    await graph.prepare("a-copy", dimensions=0)
    model = Model()
    batches = [
        [user(1), *(message(1000 * batch + n, author=1, reply_to=1000 * batch + n - 1) for n in range(100))]
        for batch in range(1, 200)
    ]
    confirmed: list[int] = []
    is_under_way = asyncio.Event()

    async def write() -> None:
        for number, batch in enumerate(batches):
            await graph.put("a-copy", batch)
            confirmed.append(number)
            if len(confirmed) == 5:
                is_under_way.set()

    writing = asyncio.create_task(write())
    await is_under_way.wait()
    own_server.kill()
    with pytest.raises(BackendUnavailable):
        await writing
    await asyncio.to_thread(own_server.start)
    async with Raw((own_server.url, own_server.user, own_server.password)) as raw:
        # Of the batch that was under way all is there, or nothing.
        nodes, _, _ = await raw.seen("a-copy")
        assert (len(nodes) - 1) in {100 * len(confirmed), 100 * (len(confirmed) + 1)}
        for batch in batches[: len(confirmed) + 2]:
            model.put(batch)
        for batch in batches[len(confirmed) - 1 : len(confirmed) + 2]:
            await graph.put("a-copy", batch)
        assert await raw.seen("a-copy") == model.seen()
    await graph.close()
