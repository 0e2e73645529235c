"""Time to the first byte of a large room's page: its newest, middle and oldest messages, and a filter.

    python -m benchmarks.web_timeline [--messages 10000] [--requests 200] [--data FOLDER]

One embedded database with one room of made-up messages, replies, edits and whispers, disentangled into conversations. The
requests come from the same process, from a member with a key and from the operator on the local machine. Target: p95
below 300 ms.
"""

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median, quantiles

import httpx2

import roomlore
from roomlore import App, IncomingAuthor, IncomingMessage, IncomingRoom, Settings
from roomlore.domain.ids import uuid7
from roomlore.http.headers import SecurityHeadersMiddleware
from roomlore.web.site import build

START = datetime(2024, 1, 1, tzinfo=UTC)
WORDS = [f"word{number}" for number in range(2_000)]
PEOPLE = [
    IncomingAuthor(
        account_id=f"p{number}", name=f"Person {number}", kind="agent" if number % 10 == 0 else "human"
    )
    for number in range(50)
]
ROOM = IncomingRoom(external_id="busy", name="busy")
HERE = ("127.0.0.1", 4711)


def said(source: random.Random, number: int) -> IncomingMessage:
    is_whisper = number % 97 == 0
    return IncomingMessage(
        platform="made",
        room=ROOM,
        external_id=f"m{number}",
        author=PEOPLE[source.randrange(50)],
        kind="whisper" if is_whisper else "message",
        audience=(PEOPLE[1],) if is_whisper else (),
        body=" ".join(source.choices(WORDS, k=source.randrange(3, 30))),
        sent_at=START + timedelta(minutes=number + 900 * (number // 40)),
        reply_to=f"m{number - source.randrange(1, 8)}" if number > 10 and number % 4 == 0 else None,
    )


async def fill(app: App, count: int) -> None:
    source = random.Random(1)
    batch = [said(source, number) for number in range(count)]
    for part in range(0, count, 1_000):
        await app.ingest_batch(batch[part : part + 1_000])
    await app.disentangle()
    for number in range(50, count, 500):
        await app.memories.remember(f"Number {number} was said", sources=[f"m{number}"], room="busy")


async def measure(client: httpx2.AsyncClient, paths: Sequence[str], requests: int) -> tuple[float, float]:
    """Return p50 and p95 in milliseconds."""
    took: list[float] = []
    for number in range(requests + 5):
        began = time.perf_counter()
        response = await client.get(paths[number % len(paths)])
        took.append((time.perf_counter() - began) * 1000)
        response.raise_for_status()
    return median(took[5:]), quantiles(took[5:], n=20)[-1]


async def compare(settings: Settings, args: argparse.Namespace) -> None:
    async with roomlore.open(settings) as app:
        if not await app.rooms(app.operator):
            await fill(app, args.messages)
        [room] = await app.rooms(app.operator)
        key = (await app.keys.create("member", name="reads", participant="p1")).key
        kinds = {
            "newest": [f"/r/{room.id}"],
            "middle": [f"/r/{room.id}?at=m{args.messages // 2 + number}" for number in (1, 2, 3, 5, 7)],
            "oldest": [f"/r/{room.id}?at=m{number}" for number in range(1, 6)],
            "one author": [f"/r/{room.id}?author=p7"],
            "has memory": [f"/r/{room.id}?memory=1"],
            "threads": [f"/r/{room.id}?view=threads"],
            "twin": [f"/r/{room.id}.json"],
        }
        print(f"{'page':<12}{'who':<10}{'p50 ms':>9}{'p95 ms':>9}")
        for who, local in (("operator", True), ("member", False)):
            transport = httpx2.ASGITransport(
                app=SecurityHeadersMiddleware(build(app, local=local), new_id=uuid7), client=HERE
            )
            cookies = {} if local else {"roomlore_key": key}
            async with httpx2.AsyncClient(
                transport=transport, base_url="http://localhost", cookies=cookies
            ) as client:
                for name, paths in kinds.items():
                    p50, p95 = await measure(client, paths, args.requests)
                    print(f"{name:<12}{who:<10}{p50:>9.1f}{p95:>9.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--data", type=Path, help="kept, and used again if there")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(Settings(data=args.data or Path(folder), org="made"), args))


if __name__ == "__main__":
    main()
