"""Ingest rate beside PostgreSQL's COPY of the same rows.

    python -m benchmarks.ingest_rate [--rounds N] [--messages N]

Both write to the same tables with all indexes and constraints, on the embedded server with its usual settings: every commit
waits for the disk. Roomlore cleans, attributes, resolves replies, counts and enqueues work, under row-level security. COPY
gets ready-made rows, as a superuser without policies: once the messages alone, and once every row that a batch writes.
Rounds alternate, each from empty tables. Target: a third of COPY's rate.
"""

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg

from roomlore.db.cluster import Cluster, start_cluster
from roomlore.db.database import Database
from roomlore.db.schema import migrate
from roomlore.domain.incoming import IncomingAuthor, IncomingMessage, IncomingRoom
from roomlore.models.fake import FakeEmbedder
from roomlore.operations import App
from roomlore.settings import Settings

#: As many as are stored at once, in one transaction.
BATCH = 10_000
START = datetime(2024, 1, 1, tzinfo=UTC)
#: What a batch writes, parents first.
WRITTEN = ("messages", "replies", "room_activity", "work_queue")
TABLES = (
    "messages",
    "message_audience",
    "message_revisions",
    "replies",
    "room_activity",
    "message_embeddings",
    "work_queue",
)
WORDS = [
    "the",
    "deploy",
    "migration",
    "broke",
    "again",
    "looks",
    "fine",
    "needs",
    "review",
    "budget",
    "second",
    "camera",
    "flight",
    "tent",
    "bread",
    "since",
    "about",
    "nobody",
    "touched",
    "it",
    "March",
    "because",
    "room",
    "too",
    "cold",
    "would",
    "rather",
    "wait",
    "until",
    "Tuesday",
    "when",
    "back",
    "so",
    "could",
    "you",
    "have",
    "a",
    "look",
    "five",
    "minutes",
    "same",
    "as",
    "last",
    "year",
    "status",
    "graph",
    "incident",
    "release",
    "branch",
    "staging",
    "customer",
    "invoice",
]


def chat(count: int) -> list[IncomingMessage]:
    """Return made-up messages of 50 authors in 5 rooms, every third a reply, each with a foreign record."""
    random_ = random.Random(7)
    rooms = [IncomingRoom(external_id=f"C{number}", name=f"room-{number}") for number in range(5)]
    authors = [
        IncomingAuthor(
            account_id=f"U{number:05}", name=f"Person {number}", kind="human" if number else "agent"
        )
        for number in range(50)
    ]
    said: dict[str, list[str]] = {room.external_id: [] for room in rooms}
    messages: list[IncomingMessage] = []
    for number in range(count):
        room, author = random_.choice(rooms), random_.choice(authors)
        external_id, body = f"{1704067200 + number}.{number:06}", sentence(random_)
        earlier = said[room.external_id][-20:]
        messages.append(
            IncomingMessage(
                platform="bench",
                room=room,
                external_id=external_id,
                author=author,
                body=body,
                sent_at=START + timedelta(seconds=7 * number),
                order=number,
                reply_to=random_.choice(earlier) if earlier and number % 3 == 0 else None,
                raw=foreign(external_id, author, body),
            )
        )
        said[room.external_id].append(external_id)
    return messages


def sentence(random_: random.Random) -> str:
    return " ".join(random_.choices(WORDS, k=random_.choices([4, 12, 30], weights=[5, 4, 1])[0]))


def foreign(external_id: str, author: IncomingAuthor, body: str) -> dict[str, object]:
    """Return a foreign record of some 600 bytes, shaped as chat exports are."""
    elements = [{"type": "text", "text": body}]
    return {
        "client_msg_id": f"b1c1d5e7-8d1e-4f4b-9a53-{external_id[-12:].replace('.', '0'):0>12}",
        "type": "message",
        "user": author.account_id,
        "ts": external_id,
        "text": body,
        "team": "T0123456",
        "user_profile": {"real_name": author.name, "team": "T0123456", "is_restricted": False},
        "blocks": [{"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": elements}]}],
        "reactions": [{"name": "thumbsup", "count": 2, "users": ["U00001", "U00002"]}],
        "avatar": "https://files.example.org/avatars/2024-01-01/5f2d9c7e1a_72.png?size=72&v=3",
    }


async def ingest(app: App, messages: Sequence[IncomingMessage]) -> float:
    began = time.perf_counter()
    for start in range(0, len(messages), BATCH):
        await app.ingest_batch(messages[start : start + BATCH])
    return time.perf_counter() - began


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows of a table as they lie there, ready for COPY."""

    table: str
    columns: str
    blocks: bytes


async def copy_out(admin: psycopg.AsyncConnection, table: str) -> Rows:
    found = await admin.execute(
        """select string_agg(quote_ident(attname), ', ' order by attnum) from pg_attribute
           where attrelid = ('roomlore.' || %s)::regclass and attnum > 0 and not attisdropped
             and attgenerated = ''""",
        [table],
    )
    row = await found.fetchone()
    assert row is not None
    async with admin.cursor() as cursor, cursor.copy(f"copy {table} ({row[0]}) to stdout") as copy:
        return Rows(table=table, columns=row[0], blocks=b"".join([bytes(block) async for block in copy]))


async def copy_in(admin: psycopg.AsyncConnection, every: Sequence[Rows]) -> float:
    began = time.perf_counter()
    async with admin.transaction(), admin.cursor() as cursor:
        for rows in every:
            async with cursor.copy(f"copy {rows.table} ({rows.columns}) from stdin") as copy:
                await copy.write(rows.blocks)
    return time.perf_counter() - began


async def clear(admin: psycopg.AsyncConnection) -> None:
    await admin.execute(f"truncate {', '.join(TABLES)}, conversations cascade")
    await admin.execute("checkpoint")


async def rates(
    app: App, admin: psycopg.AsyncConnection, *, messages: list[IncomingMessage], rounds: int
) -> None:
    speeds: dict[str, list[float]] = {name: [] for name in ("ours", "COPY of messages", "COPY of all rows")}
    for number in range(rounds + 1):
        await clear(admin)
        took = {"ours": await ingest(app, messages)}
        every = [await copy_out(admin, table) for table in WRITTEN]
        for name, rows in (("COPY of messages", every[:1]), ("COPY of all rows", every)):
            await clear(admin)
            took[name] = await copy_in(admin, rows)
        if number == 0:  # the first round warms up
            continue
        for name, seconds in took.items():
            speeds[name].append(len(messages) / seconds)
        print(f"round {number}: " + "   ".join(f"{name} {speeds[name][-1]:,.0f}/s" for name in speeds))
    for name, values in speeds.items():
        ratios = [one / other for one, other in zip(speeds["ours"], values, strict=True)]
        print(
            f"median {name:18}{statistics.median(values):8,.0f}/s, ours to it {statistics.median(ratios):.2f}"
        )


async def latency(app: App, messages: Sequence[IncomingMessage]) -> None:
    times: list[float] = []
    for message in messages:
        began = time.perf_counter()
        await app.ingest(message)
        times.append((time.perf_counter() - began) * 1000)
    cuts = statistics.quantiles(times, n=20)
    print(f"one message at a time: p50 {statistics.median(times):.1f} ms, p95 {cuts[18]:.1f} ms")


async def size(admin: psycopg.AsyncConnection, tables: Sequence[str]) -> int:
    """Return the bytes of tables and their indexes, partitions included."""
    found = await admin.execute(
        """select sum(pg_total_relation_size(oid))::bigint from pg_class
           where relnamespace = 'roomlore'::regnamespace and (
             relname = any (%(tables)s)
             or oid in (
               select inhrelid from pg_inherits join pg_class as whole on whole.oid = inhparent
               where whole.relname = any (%(tables)s)
             )
           )""",
        {"tables": list(tables)},
    )
    row = await found.fetchone()
    assert row is not None
    return row[0]


async def sizes(app: App, admin: psycopg.AsyncConnection, messages: list[IncomingMessage]) -> None:
    await clear(admin)
    await ingest(app, messages)
    others = [name for name in TABLES if name not in {"message_embeddings", "work_queue"}]
    await admin.execute("vacuum analyze messages")
    bare = await size(admin, others)
    await app.drain()
    vectors = await size(admin, ["message_embeddings"])
    thousands = len(messages) / 1000
    print(
        f"on disk per 1,000 messages, with indexes: {bare / thousands / 1e6:.2f} MB, "
        f"with embeddings {(bare + vectors) / thousands / 1e6:.2f} MB"
    )


async def measure(cluster: Cluster, *, rounds: int, count: int) -> None:
    db = await Database.connect(cluster.app_dsn)
    app = App(db=db, org_id=await db.ensure_org("bench"), settings=Settings(), _embedder=FakeEmbedder())
    options = "-c search_path=roomlore,public"
    async with await psycopg.AsyncConnection.connect(
        cluster.admin_dsn, autocommit=True, options=options
    ) as admin:
        messages = chat(count + 300)
        await rates(app, admin, messages=messages[:count], rounds=rounds)
        await latency(app, messages[count:])
        await sizes(app, admin, messages[:count])
    await db.close()


async def main() -> None:
    parser = argparse.ArgumentParser(description="How fast messages come in, beside COPY.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--messages", type=int, default=10_000)
    wish = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cluster = await start_cluster(Path(folder))
        try:
            await migrate(cluster.admin_dsn)
            await measure(cluster, rounds=wish.rounds, count=wish.messages)
        finally:
            await cluster.close()


if __name__ == "__main__":
    asyncio.run(main())
