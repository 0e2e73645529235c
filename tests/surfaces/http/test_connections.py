"""What holds a connection without getting on is let go of, and a stream goes on where a killed server left it."""

import asyncio
import logging
import random
import socket
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any
from uuid import UUID

import httpx2
import pydantic_core
import pytest
from starlette.responses import StreamingResponse
from starlette.types import ASGIApp

from operations.village import BO, SQUARE, say, village
from roomlore.db.cluster import Cluster
from roomlore.http import runtime
from roomlore.http.limits import RequestLimits
from roomlore.http.runtime import listen, serve
from roomlore.operations import App
from surfaces.http.test_serving import address, database, process

LIVES, WRITERS, SAID = 3, 4, 15
#: Bytes that no socket keeps.
MANY = 30_000_000


@asynccontextmanager
async def served(app: App) -> AsyncGenerator[tuple[int, asyncio.Event]]:
    """Serve on a port of this machine; give it and what ends that."""
    stop = asyncio.Event()
    with listen("127.0.0.1", 0) as listening:
        serving = asyncio.create_task(serve(app, listening, limits=RequestLimits(), workers=False, stop=stop))
        yield listening.getsockname()[1], stop
        stop.set()
        async with asyncio.timeout(30):
            await serving


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "half",
    [
        b"",
        b"GET /health/li",
        b"GET /health/live HTTP/1.1\r\nHost: x\r\nX-A: ",
        b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\nGET /hea",
    ],
)
async def test_half_a_request_is_waited_for_no_longer(app: App, monkeypatch, half: bytes) -> None:
    monkeypatch.setattr(runtime, "HEADER_TIMEOUT", 0.3)
    async with served(app) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(half)
        async with asyncio.timeout(20):
            said = await reader.read()
        writer.close()
        assert said.startswith(b"HTTP/1.1 200") == half.endswith(b"GET /hea")


async def test_idle_connections_make_room_for_those_who_ask(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "CONNECTIONS", 5)
    async with asyncio.timeout(20), served(app) as (port, _):
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
        # One of them is in use, and stays.
        reader, writer = idle[0]
        writer.write(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200")
        more = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
        for gone, _ in idle[1:]:
            with suppress(ConnectionResetError):
                assert await gone.read() == b""
        for reader, writer in (*more, idle[0]):
            writer.write(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200")
        for _, writer in (*idle, *more):
            writer.close()


@pytest.mark.slow
async def test_where_all_connections_are_in_use_one_more_is_told_so(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "CONNECTIONS", 1)
    async with asked_of(endless, app, asyncio.Event()) as (caller, _):
        await asyncio.get_running_loop().sock_recv(caller, 1000)
        async with asyncio.timeout(20):
            reader, writer = await asyncio.open_connection(*caller.getpeername())
            assert (await reader.read()).startswith(b"HTTP/1.1 503")
        writer.close()


@pytest.mark.slow
async def test_three_hundred_idle_connections_at_256_files_keep_nobody_out(
    cluster: Cluster, app: App
) -> None:
    made = await app.keys.create("operator", name="x")
    limited = ["-c", 'ulimit -n 256; exec "$@"', "sh", sys.executable, "-m", "roomlore"]
    async with process(
        *database(cluster), "--org", str(app.settings.org), "serve", "--port", "0", program=("sh", *limited)
    ) as run:
        place = await address(run)
        host, port = place.removeprefix("http://").split(":")
        idle = [await asyncio.open_connection(host, int(port)) for _ in range(300)]
        async with httpx2.AsyncClient(timeout=20) as client:
            for _ in range(5):
                told = await client.get(f"{place}/v1/rooms", headers={"authorization": f"Bearer {made.key}"})
                assert told.status_code == 200
        for _, writer in idle:
            writer.close()


class Noted(runtime._TimeoutProtocol):
    """A connection of which is known when it is made and lost."""

    made: asyncio.Event
    lost: asyncio.Event
    last: "Noted"

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        Noted.last = self
        self.made.set()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.lost.set()


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> type[Noted]:
    """The kind of a connection, before any is made."""
    monkeypatch.setattr(Noted, "made", asyncio.Event(), raising=False)
    monkeypatch.setattr(Noted, "lost", asyncio.Event(), raising=False)
    monkeypatch.setattr(runtime, "_TimeoutProtocol", Noted)
    return Noted


async def large(scope: Any, receive: Any, send: Any) -> None:
    """Answer at once, with more than anybody keeps in between."""
    assert scope["type"] == "http"
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"x" * MANY})


async def endless(scope: Any, receive: Any, send: Any) -> None:
    """Answer for as long as somebody takes it."""

    async def parts() -> AsyncGenerator[bytes]:
        while True:
            yield b"x" * 100_000
            await asyncio.sleep(0)

    await StreamingResponse(parts())(scope, receive, send)


@asynccontextmanager
async def asked_of(
    answer: ASGIApp, app: App, stop: asyncio.Event
) -> AsyncGenerator[tuple[socket.socket, asyncio.Task[None]]]:
    """Ask over a connection on which nothing is read by itself; give it, and what serves."""
    with listen("127.0.0.1", 0) as listening, socket.socket() as caller:
        serving = asyncio.create_task(
            serve(app, listening, limits=RequestLimits(), workers=False, stop=stop, wrap=lambda _: answer)
        )
        caller.connect(listening.getsockname())
        caller.setblocking(False)
        caller.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(30):
            yield caller, serving
            stop.set()
            await serving


@pytest.mark.parametrize("answer", [large, endless])
async def test_who_does_not_read_an_answer_holds_nothing(
    app: App, noted: type[Noted], monkeypatch: pytest.MonkeyPatch, answer: ASGIApp
) -> None:
    monkeypatch.setattr(runtime, "SEND_TIMEOUT", 0.3)
    async with asked_of(answer, app, asyncio.Event()):
        await noted.lost.wait()


@pytest.mark.slow
async def test_who_reads_slowly_is_answered_whole(app: App, noted: type[Noted]) -> None:
    loop, taken = asyncio.get_running_loop(), 0
    async with asked_of(large, app, asyncio.Event()) as (caller, _):
        await noted.made.wait()
        transport = noted.last.transport
        while taken < MANY:
            waiting = transport.get_write_buffer_size()
            while taken < MANY and transport.get_write_buffer_size() >= waiting:
                taken += len(await loop.sock_recv(caller, 100_000))
            # However long that took.
            noted.last._check_write_progress()
            assert not transport.is_closing()


@pytest.mark.slow
async def test_who_does_not_read_outlives_no_server(
    app: App, noted: type[Noted], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "SHUTDOWN_TIMEOUT", 1)
    stop = asyncio.Event()
    async with asked_of(endless, app, stop) as (_, serving):
        await noted.made.wait()
        stop.set()
        await serving
        await noted.lost.wait()


@pytest.mark.slow
async def test_the_end_cuts_off_what_takes_too_long_without_a_traceback(
    app: App, monkeypatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(runtime, "SHUTDOWN_TIMEOUT", 1)
    made = await app.keys.create("operator", name="x")
    begun, sign_in = asyncio.Event(), App.sign_in

    async def noted(self: App, key: str) -> App:
        begun.set()
        return await sign_in(self, key)

    monkeypatch.setattr(App, "sign_in", noted)
    with caplog.at_level(logging.INFO):
        async with served(app) as (port, stop):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            head = f"POST /v1/search HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {made.key}\r\n"
            writer.write(f"{head}Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{{".encode())
            await begun.wait()
            stop.set()
            async with asyncio.timeout(20):
                await reader.read()
            writer.close()
    assert not any(record.exc_info for record in caplog.records), caplog.text
    assert "Traceback" not in caplog.text


async def test_streams_do_not_hold_up_the_end(app: App) -> None:
    made = await app.keys.create("operator", name="x")
    shown = {"authorization": f"Bearer {made.key}"}
    async with (
        served(app) as (port, stop),
        httpx2.AsyncClient(headers=shown, timeout=60) as client,
        client.stream("GET", f"http://127.0.0.1:{port}/v1/events") as response,
    ):
        lines = response.aiter_lines()
        assert await anext(lines) == "retry: 2000"
        stop.set()
        async with asyncio.timeout(runtime.SHUTDOWN_TIMEOUT / 2):
            assert [line async for line in lines] == [""]


class Reader:
    """Somebody who listens, and comes again where they were cut off."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.last: str | None = None
        self.heard: list[UUID] = []
        self.ready = asyncio.Event()

    async def read(self, url: str, *, most: int, then: Callable[[], None] | None = None) -> None:
        """Listen until so many events were heard, and then go, or do something and listen on."""
        shown = {"authorization": f"Bearer {self.key}"}
        shown |= {} if self.last is None else {"last-event-id": self.last}
        async with (
            httpx2.AsyncClient(headers=shown, timeout=60) as client,
            client.stream("GET", f"{url}/v1/events") as response,
        ):
            assert response.status_code == 200
            coming: str | None = None
            async for line in response.aiter_lines():
                self.ready.set()
                name, _, value = line.partition(": ")
                if name == "id":
                    coming = value
                elif name == "data":
                    facts: dict[str, Any] = pydantic_core.from_json(value)
                    self.heard += [UUID(one) for one in facts["subjects"]]
                elif not line and coming is not None:
                    # Only what came whole counts.
                    self.last, coming = coming, None
                    most -= 1
                    if not most and then is None:
                        return
                    if not most and then is not None:
                        then()


@pytest.mark.slow
async def test_a_reader_hears_everything_once_though_it_is_cut_off_and_the_server_killed(
    cluster: Cluster, app: App
) -> None:
    await village(app)
    reader = Reader((await app.keys.create("member", name="eve's", participant="eve")).key)
    chance, said = random.Random(7), list[UUID]()

    async def write(lane: int) -> None:
        for number in range(SAID):
            said.append(await app.ingest(say(100 * lane + number, BO, SQUARE)))

    words = (*database(cluster), "--org", str(app.settings.org), "serve", "--port", "0", "--no-workers")
    # In each life more is said than is read before its end, so that nobody waits for what never comes.
    for life in range(LIVES):
        async with process(*words) as run, asyncio.timeout(120):
            url = await address(run)
            first = asyncio.create_task(reader.read(url, most=2))
            await reader.ready.wait()
            lanes = range(1 + life * WRITERS, 1 + (life + 1) * WRITERS)
            writing = asyncio.gather(*(write(lane) for lane in lanes))
            await first
            for _ in range(3):
                await reader.read(url, most=chance.randint(1, 3))
            if life < LIVES - 1:
                # In the midst of telling, or of reading what is told next.
                with pytest.raises(httpx2.TransportError):
                    await reader.read(url, most=chance.randint(1, 3), then=run.kill)
            else:
                await reader.read(url, most=LIVES * WRITERS * SAID - len(reader.heard))
            await writing

    assert sorted(reader.heard) == sorted(said)
    assert len(set(reader.heard)) == LIVES * WRITERS * SAID
