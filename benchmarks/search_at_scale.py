"""Search latency in a large org beside the bare queries of a search, and disk space per message.

    python -m benchmarks.search_at_scale [--messages 1000000] [--rooms 50] [--rounds 100] [--data DIR]

Rooms have very different sizes, every second one is closed, and SQL creates them. Word frequencies are those of real
messages without stop words (Zipf and Mandelbrot: the r-th word has a share of 1 / (r + 2); 7 words per message; the first
word is in a fifth of all messages, the tenth in 6 %, the fiftieth in 1.5 %, as in meetings and on IRC). The vector of a
message is the sum of the vectors of its words, so that no model's speed is measured. The operator and a member ask; each
question is a few words of one message. Bare queries are the vector query alone through the index, and each word of the
question alone, best by `ts_rank`, both without visibility rules. Figures are of the second time a question is asked.
"""

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median, quantiles
from typing import Any, LiteralString

import numpy as np
import psycopg
from pgvector import HalfVector
from pgvector.psycopg import register_vector

from roomlore import App, IncomingAuthor, IncomingMembership, IncomingMessage, IncomingRoom, Settings, Viewer
from roomlore.db.cluster import Cluster, start_cluster
from roomlore.db.database import Database
from roomlore.db.schema import migrate
from roomlore.models.fake import FakeEmbedder

PEOPLE = 100
WORDS = 20_000
START = datetime(2024, 1, 1, tzinfo=UTC)
SETTINGS = {"shared_buffers": "3GB", "maintenance_work_mem": "3GB", "max_wal_size": "16GB"}
CHUNK = 20_000

MESSAGES: LiteralString = """
insert into roomlore.messages (
  org_id, id, room_id, external_id, kind, author_id, author_name, author_kind, body, sent_at, precision, sequence,
  received_at
)
select
  %(org_id)s, gen_random_uuid(), %(room_id)s, 'm' || n, 'message', person.id, person.first_name, 'human',
  (
    select string_agg('word' || floor(3 * exp(random() * ln(%(words)s / 3.0 + 1)) - 2)::int, ' ')
    from generate_series(1, 3 + (hashtext('length' || n) & 7) + (hashtext('more' || n) & 1)) as place
  ),
  at, 's', n, at
from generate_series(1, %(count)s) as n
cross join lateral (select %(start)s + n * interval '20 seconds' as at) as clock
join (
  select id, first_name, row_number() over (order by id) - 1 as number
  from roomlore.participants
  where org_id = %(org_id)s and id <> org_id
) as person on person.number = (hashtext('author' || n) & 65535) %% %(people)s
"""
SIZES: LiteralString = """
select relname::text, pg_total_relation_size(oid), pg_relation_size(oid)
from pg_class
where relnamespace = 'roomlore'::regnamespace and relkind in ('r', 'i') and pg_relation_size(oid) > 10000000
order by 2 desc
"""
BARE_WORD: LiteralString = """
select id from roomlore.messages
where org_id = %(org_id)s and words @@ plainto_tsquery('english', %(question)s)
order by ts_rank(words, plainto_tsquery('english', %(question)s)) desc
limit 60
"""
BARE_NEAR: LiteralString = """
select message_id from roomlore.message_embeddings
where org_id = %(org_id)s and vector_dims(embedding) = 384
order by embedding::halfvec(384) <=> %(vector)s::halfvec(384)
limit 60
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question, and the room its words are from."""

    text: str
    room: str


# The org


def opening(name: str, *, closed: bool) -> list[IncomingMessage]:
    """Return what makes a room with its people: one message of each."""
    people = [IncomingAuthor(account_id=f"u{i}", name=f"Person{i}") for i in range(PEOPLE)]
    room = IncomingRoom(
        external_id=name,
        name=name,
        visibility="members" if closed else "open",
        members=[IncomingMembership(author=person) for person in people] if closed else (),
    )
    return [
        IncomingMessage(
            platform="bench",
            room=room,
            external_id=f"first{i}",
            author=person,
            body="here",
            sent_at=START - timedelta(days=1),
            order=i,
        )
        for i, person in enumerate(people)
    ]


async def fill(cluster: Cluster, app: App, count: int, rooms: int) -> None:
    """Make rooms of very different sizes with so many messages together, and their vectors."""
    share = sum(1 / (place + 1) for place in range(rooms))
    with psycopg.connect(cluster.admin_dsn, autocommit=True) as conn:
        register_vector(conn)
        conn.execute("set session_replication_role = replica")
        conn.execute("select setseed(0.5)")
        for place in range(rooms):
            name = f"room{place}"
            await app.ingest_batch(opening(name, closed=place % 2 == 1))
            room_id = next(room.id for room in await app.rooms(app.operator) if room.name == name)
            size = round(count / (place + 1) / share)
            params = {"org_id": app.org_id, "room_id": room_id, "count": size, "start": START}
            conn.execute(MESSAGES, params | {"people": PEOPLE, "words": WORDS})
            print(f"{name}: {size} messages", flush=True)
        # What the rows of `room_activity` would be had the messages come in one by one.
        conn.execute(
            "update roomlore.room_activity set message_count = counted.number from (select room_id, author_id, count(*) as "
            "number from roomlore.messages group by 1, 2) as counted where room_activity.room_id = counted.room_id and "
            "room_activity.participant_id = counted.author_id"
        )
        put_vectors(conn, app, FakeEmbedder().model_id)
        conn.execute("delete from roomlore.work_queue")
        conn.execute("vacuum analyze")
        began = time.perf_counter()
        conn.execute("select roomlore.build_vector_indexes(1000)")
        print(f"vector index built in {time.perf_counter() - began:.0f} s", flush=True)


def put_vectors(conn: psycopg.Connection, app: App, model: str) -> None:
    """Give every message the sum of the vectors of its words."""
    table = np.random.default_rng(1).standard_normal((WORDS + 1, 384)).astype(np.float32)
    rows = conn.execute(
        "select id, room_id, body from roomlore.messages where org_id = %s", [app.org_id]
    ).fetchall()
    copy = "copy roomlore.message_embeddings (org_id, message_id, room_id, model, embedding) from stdin (format binary)"
    with conn.cursor() as cursor, cursor.copy(copy) as out:
        out.set_types(["uuid", "uuid", "uuid", "text", "halfvec"])
        for message_id, room_id, body in rows:
            out.write_row([app.org_id, message_id, room_id, model, HalfVector(vector_of(body, table))])


def vector_of(text: str, table: np.ndarray) -> np.ndarray:
    """Return the mean of the words' vectors, of length one."""
    numbers = [int(word.removeprefix("word")) for word in text.split() if word.startswith("word")] or [0]
    vector = table[numbers].mean(0)
    return vector / np.linalg.norm(vector)


class Summing(FakeEmbedder):
    """Embeds a question as its messages were."""

    def embed(self, texts: Sequence[str]) -> Any:
        """Return the sums of the vectors of the words."""
        table = np.random.default_rng(1).standard_normal((WORDS + 1, 384)).astype(np.float32)
        return np.array([vector_of(text, table) for text in texts], np.float32)


# What is asked


async def timed(calls: Sequence[Callable[[], Awaitable[object]]]) -> dict[str, float]:
    """Return the times of the second time each call is made."""
    took: list[float] = []
    for call in calls:
        await call()
        began = time.perf_counter()
        await call()
        took.append((time.perf_counter() - began) * 1000)
    return {"p50 ms": round(median(took), 1), "p95 ms": round(quantiles(took, n=20)[18], 1)}


async def measured(app: App, cluster: Cluster, asked: Sequence[Asked]) -> dict[str, object]:
    """Return how long searches and the bare queries take."""
    vectors = dict(
        zip([one.text for one in asked], Summing().embed([one.text for one in asked]), strict=True)
    )

    class Known(FakeEmbedder):
        def embed(self, texts: Sequence[str]) -> Any:
            return np.array([vectors[text] for text in texts])

    app._embedder = Known()  # noqa: SLF001  the model's own time is not measured here
    member = await app.viewer("Person3")
    report: dict[str, object] = {}
    for who, viewer in (("operator", app.operator), ("member", member)):
        report[f"org, {who}"] = await timed([searching(app, viewer, one.text) for one in asked])
        report[f"room, {who}"] = await timed([searching(app, viewer, one.text, one.room) for one in asked])
    async with await psycopg.AsyncConnection.connect(
        cluster.admin_dsn,
        autocommit=True,
        options="-c hnsw.iterative_scan=relaxed_order -c hnsw.ef_search=100",
    ) as conn:
        for name, query in (("bare words", BARE_WORD), ("bare vectors", BARE_NEAR)):
            params = [
                {"org_id": app.org_id, "question": one.text, "vector": str(vectors[one.text].tolist())}
                for one in asked
            ]
            report[name] = await timed([running(conn, query, values) for values in params])
    return report


def searching(
    app: App, viewer: Viewer, text: str, room: str | None = None
) -> Callable[[], Awaitable[object]]:
    """Return a call that searches."""
    return lambda: app.search(viewer, text, room=room)


def running(
    conn: psycopg.AsyncConnection, query: LiteralString, values: dict[str, Any]
) -> Callable[[], Awaitable[object]]:
    """Return a call that runs a query and fetches what comes."""

    async def run() -> object:
        return await (await conn.execute(query, values)).fetchall()

    return run


async def main() -> None:
    """Print the report as JSON."""
    options = argparse.ArgumentParser()
    options.add_argument("--messages", type=int, default=1_000_000)
    options.add_argument("--rooms", type=int, default=50)
    options.add_argument("--rounds", type=int, default=100)
    options.add_argument("--data", type=Path)
    wish = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        data = wish.data or Path(scratch)
        is_new = not (data / "postgres").exists()
        data.mkdir(parents=True, exist_ok=True)
        cluster = await start_cluster(data, settings=SETTINGS)
        try:
            await migrate(cluster.admin_dsn)
            db = await Database.connect(cluster.app_dsn, size=1)
            try:
                app = App(
                    db=db, org_id=await db.ensure_org("bench"), settings=Settings(data=data, org="bench")
                )
                if is_new:
                    await fill(cluster, app, wish.messages, wish.rooms)
                with psycopg.connect(cluster.admin_dsn) as conn:
                    drawn = conn.execute(
                        "select body, rooms.external_id from roomlore.messages join roomlore.rooms on rooms.id = room_id "
                        "where sequence > 100 order by md5(messages.id::text) limit %s",
                        [wish.rounds],
                    ).fetchall()
                    sizes = conn.execute(SIZES).fetchall()
                chance = random.Random(7)
                asked = [
                    Asked(text=" ".join(chance.sample(body.split(), min(3, len(body.split())))), room=room)
                    for body, room in drawn
                ]
                report = await measured(app, cluster, asked)
                report["bytes per message"] = {name: round(own / wish.messages) for name, _, own in sizes}
                print(json.dumps(report, indent=2))
            finally:
                await db.close()
        finally:
            await cluster.close()


asyncio.run(main())
