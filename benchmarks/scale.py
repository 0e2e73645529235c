"""Search and context at scale: latency, and disk space per message.

    python -m benchmarks.scale [--messages 100000] [--rooms 50] [--rounds 100]

Word frequencies are those of real text (Zipf), and vectors are hashes of words, so that no model's speed is measured. The
database is embedded and temporary.
"""

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import roomlore
from roomlore import App, IncomingAuthor, IncomingMessage, IncomingRoom, Viewer
from roomlore.models.fake import FakeEmbedder

WORDS = 20_000
START = datetime(2025, 1, 1, tzinfo=UTC)


def story(count: int, rooms: int, chance: random.Random) -> list[IncomingMessage]:
    vocabulary = [f"{chance.choice('bdfgklmnprst')}{chance.choice('aeiou')}{i:x}" for i in range(WORDS)]
    weights = [1 / (rank + 1) for rank in range(WORDS)]
    people = [IncomingAuthor(account_id=f"u{i}", name=f"Person {i}") for i in range(200)]
    places = [
        IncomingRoom(external_id=f"r{i}", name=f"room {i}", visibility="members" if i % 5 == 4 else "open")
        for i in range(rooms)
    ]
    words = iter(chance.choices(vocabulary, weights, k=count * 12))
    messages = []
    for i in range(count):
        room = places[min(int(chance.paretovariate(1.2)) - 1, rooms - 1)]
        reply_to = f"m{chance.randrange(max(0, i - 40), i)}" if i and chance.random() < 0.3 else None
        messages.append(
            IncomingMessage(
                platform="bench",
                room=room,
                external_id=f"m{i}",
                author=people[min(int(chance.paretovariate(1.0)) - 1, 199)],
                body=" ".join(next(words) for _ in range(chance.randrange(3, 12))),
                sent_at=START + timedelta(seconds=20 * i),
                order=i,
                reply_to=reply_to,
            )
        )
    return messages


@dataclass
class Asked:
    """What one viewer asks, timed."""

    app: App
    viewer: Viewer
    questions: list[str]
    triggers: list[IncomingMessage]

    async def everything(self) -> dict[str, dict[str, float]]:
        return {
            "search, org": await timed([self.search(question) for question in self.questions]),
            "search, largest room": await timed([self.search(q, room="room 0") for q in self.questions]),
            "search, small room": await timed([self.search(q, room="room 12") for q in self.questions]),
            "context": await timed([self.context(trigger) for trigger in self.triggers]),
        }

    def search(self, question: str, room: str | None = None) -> Coroutine[Any, Any, object]:
        return self.app.search(self.viewer, question, room=room)

    def context(self, trigger: IncomingMessage) -> Coroutine[Any, Any, object]:
        return self.app.context(self.viewer, trigger.room.external_id, trigger.external_id)


async def timed(calls: list[Coroutine[Any, Any, object]]) -> dict[str, float]:
    took: list[float] = []
    for call in calls:
        began = time.perf_counter()
        await call
        took.append((time.perf_counter() - began) * 1000)
    return {"p50 ms": round(median(took), 1), "p95 ms": round(quantiles(took, n=20)[18], 1)}


async def sizes(app: App) -> dict[str, int]:
    async with app.db.read_transaction(app.operator) as conn:
        rows = await (
            await conn.execute(
                """
                select relname, pg_total_relation_size(c.oid)
                from pg_class c join pg_namespace n on n.oid = c.relnamespace
                where nspname = 'roomlore' and relkind in ('r') and pg_total_relation_size(c.oid) > 1000000
                order by 2 desc
                """
            )
        ).fetchall()
    return dict(rows)


async def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--messages", type=int, default=100_000)
    options.add_argument("--rooms", type=int, default=50)
    options.add_argument("--rounds", type=int, default=100)
    wish = options.parse_args()
    chance = random.Random(7)
    messages = story(wish.messages, wish.rooms, chance)
    questions = [" ".join(chance.sample(m.body.split(), 3)) for m in chance.sample(messages, wish.rounds)]
    triggers = chance.sample([m for m in messages if m.room.visibility == "open"], wish.rounds)
    report: dict[str, object] = {"messages": wish.messages}
    with tempfile.TemporaryDirectory() as data:
        async with roomlore.open(roomlore.Settings(data=Path(data)), embedder=FakeEmbedder()) as app:
            began = time.perf_counter()
            for i in range(0, len(messages), 10_000):
                await app.ingest_batch(messages[i : i + 10_000])
            report["ingest messages/s"] = round(wish.messages / (time.perf_counter() - began))
            began = time.perf_counter()
            await app.drain()
            report["vectors written/s"] = round(wish.messages / (time.perf_counter() - began))
            member = await app.viewer("Person 3")
            for name, viewer in (("operator", app.operator), ("member", member)):
                asked = Asked(app, viewer, questions, triggers)
                report |= {f"{what}, {name}": took for what, took in (await asked.everything()).items()}
            found = await sizes(app)
            report["bytes per 1,000 messages"] = {
                name: round(size / wish.messages * 1000) for name, size in found.items()
            }
            report["kB per 1,000 messages"] = round(sum(found.values()) / wish.messages)
    print(json.dumps(report, indent=2))


asyncio.run(main())
