"""Latency of search, context and ingest over HTTP beside the same calls in process, and where the time goes.

    python -m benchmarks.http_overhead [--messages 10000] [--seconds 10] [--clients 1 50]

One temporary embedded database with one room of made-up, embedded messages. The server runs in a second process, on
loopback, with a member's key. The same number of tasks makes the same calls in process. Both authenticate with the key on
every call. A second run in process leaves that out, to show what it costs.
"""

import argparse
import asyncio
import itertools
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx2

import roomlore
from roomlore import App, IncomingAuthor, IncomingMessage, IncomingRoom, Settings
from roomlore.http.limits import RequestLimits
from roomlore.http.runtime import listen, serve

START = datetime(2024, 1, 1, tzinfo=UTC)
WORDS = [f"word{number}" for number in range(2_000)]
BATCH = 100
NUMBERS = itertools.count()

Call = Callable[[], Awaitable[Any]]


def text(source: random.Random) -> str:
    return " ".join(source.choices(WORDS, k=12))


def records(source: random.Random) -> list[dict[str, Any]]:
    """A batch that was never sent before."""
    return [
        {
            "platform": "made",
            "room": "fresh",
            "id": f"f{next(NUMBERS)}",
            "author": f"p{source.randrange(50)}",
            "text": text(source),
            "sent_at": "2025-01-01T00:00:00Z",
        }
        for _ in range(BATCH)
    ]


async def fill(app: App, count: int) -> None:
    source, room = random.Random(1), IncomingRoom(external_id="busy", name="busy")
    batch = [
        IncomingMessage(
            platform="made",
            room=room,
            external_id=f"m{number}",
            author=IncomingAuthor(account_id=f"p{number % 50}", name=f"Person {number % 50}"),
            body=text(source),
            sent_at=START + timedelta(seconds=20 * number),
        )
        for number in range(count)
    ]
    for part in range(0, count, 1_000):
        await app.ingest_batch(batch[part : part + 1_000])
    await app.drain()


async def measure(call: Call, clients: int, seconds: float) -> tuple[float, float, float]:
    """Return p50 and p95 in milliseconds, and calls in a second."""
    took: list[float] = []
    end = time.perf_counter() + seconds

    async def client() -> None:
        while (began := time.perf_counter()) < end:
            await call()
            took.append((time.perf_counter() - began) * 1000)

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    return median(took), quantiles(took, n=20)[-1], len(took) / (time.perf_counter() - began)


def in_process(app: App, key: str | None, admin: str) -> dict[str, Call]:
    source = random.Random(2)

    async def signed(shown: str) -> App:
        return await app.sign_in(shown)

    async def searching() -> None:
        acting = app if key is None else await signed(key)
        await acting.search(acting.access.principal, text(source)[:30])

    async def context() -> None:
        acting = app if key is None else await signed(key)
        await acting.context(acting.access.principal, "busy", f"m{source.randrange(500, 1000)}")

    async def ingest() -> None:
        acting = app if key is None else await signed(admin)
        await acting.intake.add_messages(records(source))

    return {"search": searching, "context": context, f"ingest {BATCH}": ingest}


def over_http(client: httpx2.AsyncClient, key: str, admin: str) -> dict[str, Call]:
    source = random.Random(2)
    reads, writes = ({"authorization": f"Bearer {one}"} for one in (key, admin))

    async def ask(method: str, path: str, headers: dict[str, str], json: Any = None) -> None:
        (await client.request(method, path, json=json, headers=headers)).raise_for_status()

    async def searching() -> None:
        await ask("POST", "/v1/search", reads, {"question": text(source)[:30]})

    async def context() -> None:
        await ask("GET", f"/v1/rooms/busy/context?trigger=m{source.randrange(500, 1000)}", reads)

    async def ingest() -> None:
        await ask("POST", "/v1/messages", writes, {"messages": records(source)})

    async def health() -> None:
        await ask("GET", "/health/live", reads)

    return {"search": searching, "context": context, f"ingest {BATCH}": ingest, "live": health}


async def server(settings: Settings) -> None:
    """Serve until standard input ends; the port is printed."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, stop.set)
    async with roomlore.open(settings) as app:
        with listen("127.0.0.1", 0) as listening:
            print(listening.getsockname()[1], flush=True)
            limits = RequestLimits(rate=1e9, burst=10**9, in_flight=1_000)
            await serve(app, listening, limits=limits, workers=False, stop=stop)


async def compare(settings: Settings, args: argparse.Namespace) -> None:
    async with roomlore.open(settings) as app:
        await fill(app, args.messages)
        key = (await app.keys.create("member", name="reads", participant="p1")).key
        admin = (await app.keys.create("operator", name="writes")).key
        run = await asyncio.create_subprocess_exec(
            sys.executable, __file__, "--serve", str(settings.data),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert run.stdin is not None
        assert run.stdout is not None
        url = f"http://127.0.0.1:{int(await run.stdout.readline())}"
        pool = httpx2.Limits(max_connections=200, max_keepalive_connections=200)
        print(f"{'call':<12}{'how':<24}{'clients':>8}{'p50 ms':>9}{'p95 ms':>9}{'per s':>9}")
        async with httpx2.AsyncClient(base_url=url, limits=pool, timeout=120) as client:
            viewed = await app.sign_in(key)
            ways = {
                "in process, no key": in_process(viewed, None, admin),
                "in process, signed in": in_process(app, key, admin),
                "HTTP": over_http(client, key, admin),
            }
            ways["in process, no key"][f"ingest {BATCH}"] = in_process(app, None, admin)[f"ingest {BATCH}"]
            for name in ("search", "context", f"ingest {BATCH}", "live"):
                for clients in args.clients:
                    for how, calls in ways.items():
                        if name in calls:
                            # Until every connection has made its plans.
                            await measure(calls[name], max(clients, 8), args.seconds / 2)
                            p50, p95, rate = await measure(calls[name], clients, args.seconds)
                            print(
                                f"{name:<12}{how:<24}{clients:>8}{p50:>9.1f}{p95:>9.1f}{rate:>9.0f}",
                                flush=True,
                            )
        run.stdin.close()
        await run.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 50])
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve is not None:
        asyncio.run(server(Settings(data=args.serve, org="made")))
        return
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(Settings(data=Path(folder), org="made"), args))


if __name__ == "__main__":
    main()
