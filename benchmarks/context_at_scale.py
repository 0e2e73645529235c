"""Time and rows read for a context in a small and in a very large room.

    python -m benchmarks.context_at_scale [--messages 1000 1000000] [--rounds 200] [--data DIR]

Each room is closed, in one embedded database, which is temporary unless a folder is named. SQL creates the rooms. As in a
busy room, five of six messages answer another one, mostly among the hundred before, one in forty an old one; a quarter of
the replies is stated, the rest inferred with some confidence. Triggers come from the whole room.

The operator and a member ask about the same triggers. Figures are of the second build of each context. Rows are those that
PostgreSQL counts as read from tables; they are bounded if they do not grow with the room.
"""

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import mean, median, quantiles
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from roomlore import App, IncomingAuthor, IncomingMembership, IncomingMessage, IncomingRoom, Settings, Viewer
from roomlore.context.limits import DEFAULT_LIMITS
from roomlore.db.cluster import Cluster, start_cluster
from roomlore.db.database import Database
from roomlore.db.schema import migrate

PEOPLE = 100
START = datetime(2024, 1, 1, tzinfo=UTC)
SETTINGS = {"shared_buffers": "1GB", "maintenance_work_mem": "512MB", "max_wal_size": "8GB"}

#: No context reads the index of words, and making it takes longer than all the rest.
BEFORE: LiteralString = """
drop index if exists roomlore.messages_words;
set session_replication_role = replica;
"""
MESSAGES: LiteralString = """
insert into roomlore.messages (
  org_id, id, room_id, external_id, kind, author_id, author_name, author_kind, body, sent_at, precision, sequence,
  received_at
)
select
  %(org_id)s,
  (
    lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '70008'
    || left(md5(%(room_id)s::text), 5) || lpad(to_hex(n), 10, '0')
  )::uuid,
  %(room_id)s, 'm' || n, 'message', person.id, person.first_name, 'human',
  (
    select string_agg('word' || (hashtext(n || '-' || place) & 8191), ' ')
    from generate_series(1, 4 + (hashtext('length' || n) & 15)) as place
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
REPLIES: LiteralString = """
insert into roomlore.replies (org_id, room_id, child_id, parent_id, method, confidence)
select
  %(org_id)s, %(room_id)s, child.id, parent.id, edge.method,
  case edge.method when 'explicit' then 1.0 else 0.3 + 0.7 * sqrt(random()) end
from (
  select
    n,
    -- as many at a distance up to 10 as up to 100
    n - case when random() < 0.025 then ceil(random() * 20000)::int else ceil(power(100, random()))::int end as to_n,
    (array['explicit', 'mention', 'mention', 'inferred'])[1 + floor(random() * 4)::int] as method
  from generate_series(2, %(count)s) as n
  where random() < 0.83
) as edge
join roomlore.messages as child
  on child.org_id = %(org_id)s and child.room_id = %(room_id)s and child.external_id = 'm' || edge.n
join roomlore.messages as parent
  on parent.org_id = %(org_id)s and parent.room_id = %(room_id)s and parent.external_id = 'm' || edge.to_n
"""
ROWS_READ: LiteralString = """
select sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint
from pg_stat_user_tables
where schemaname = 'roomlore'
"""


# The rooms


def opening(name: str) -> list[IncomingMessage]:
    """Return what makes a closed room with its people: one message of each."""
    people = [IncomingAuthor(account_id=f"u{i}", name=f"Person {i}") for i in range(PEOPLE)]
    room = IncomingRoom(
        external_id=name,
        name=name,
        visibility="members",
        members=[IncomingMembership(author=person) for person in people],
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


async def fill(cluster: Cluster, app: App, count: int) -> None:
    """Make a room of so many messages."""
    await app.ingest_batch(opening(room_of(count)))
    room_id = next(room.id for room in await app.rooms(app.operator) if room.name == room_of(count))
    params = {"org_id": app.org_id, "room_id": room_id, "count": count, "start": START, "people": PEOPLE}
    with psycopg.connect(cluster.admin_dsn, autocommit=True) as conn:
        conn.execute(BEFORE)
        conn.execute("select setseed(0.5)")
        conn.execute(sql.SQL(MESSAGES), params)
        conn.execute("analyze")
        conn.execute(sql.SQL(REPLIES), params)


def room_of(count: int) -> str:
    return f"room of {count}"


# What is asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one viewer asks about one room."""

    app: App
    #: Sees the server's statistics, which Roomlore may not.
    admin: psycopg.Connection[Any]
    viewer: Viewer
    room: str
    triggers: Sequence[str]

    async def times(self) -> tuple[list[float], list[int]]:
        """Return the milliseconds that each context took, and how many lines it has."""
        took: list[float] = []
        lines: list[int] = []
        for trigger in self.triggers:
            began = time.perf_counter()
            context = await self.app.context(self.viewer, self.room, trigger)
            took.append((time.perf_counter() - began) * 1000)
            lines.append(len(context.lines))
        return took, lines

    async def rows_read(self) -> list[int]:
        """Return how many rows PostgreSQL read from tables for each context, those of the log and checks included."""
        read: list[int] = []
        before = await self._counted()
        for trigger in self.triggers:
            await self.app.context(self.viewer, self.room, trigger)
            after = await self._counted()
            read.append(after - before)
            before = after
        return read

    async def _counted(self) -> int:
        # The one connection of the pool tells what it has read so far.
        async with self.app.db.system_connection() as own:
            await own.execute("select pg_stat_force_next_flush()")
        row = self.admin.execute(ROWS_READ).fetchone()
        assert row is not None
        return int(row[0])

    async def figures(self) -> dict[str, float]:
        await self.times()
        took, lines = await self.times()
        rows = await self.rows_read()
        return {
            "p50 ms": round(median(took), 1),
            "p95 ms": round(quantiles(took, n=20)[18], 1),
            "rows read, mean": round(mean(rows)),
            "rows read, p95": round(quantiles(rows, n=20)[18]),
            "rows read, most": max(rows),
            "lines, mean": round(mean(lines), 1),
        }


def triggers(count: int, rounds: int) -> list[str]:
    chance = random.Random(3)
    return [f"m{chance.randrange(min(150, count // 2), count + 1)}" for _ in range(rounds)]


async def report(cluster: Cluster, counts: Sequence[int], rounds: int) -> dict[str, object]:
    database = await Database.connect(cluster.app_dsn, size=1)
    try:
        app = App(db=database, org_id=await database.ensure_org("bench"), settings=Settings(org="bench"))
        known = {room.name for room in await app.rooms(app.operator)}
        for count in counts:
            if room_of(count) not in known:
                await fill(cluster, app, count)
        with psycopg.connect(cluster.admin_dsn, autocommit=True) as admin:
            admin.execute("vacuum (freeze, analyze)")
            found: dict[str, object] = {}
            for name, viewer in (("operator", app.operator), ("member", await app.viewer("Person 3"))):
                for count in counts:
                    room, drawn = room_of(count), triggers(count, rounds)
                    asked = Asked(app=app, admin=admin, viewer=viewer, room=room, triggers=drawn)
                    found[f"{room}, {name}"] = await asked.figures()
            return found | {"rows that a source may return at most": DEFAULT_LIMITS.max_rows}
    finally:
        await database.close()


async def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--messages", type=int, nargs="+", default=[1_000, 1_000_000], help="in each room")
    options.add_argument("--rounds", type=int, default=200)
    options.add_argument("--data", type=Path, help="keep the database in this folder and use it again")
    wish = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cluster = await start_cluster(wish.data or Path(folder), settings=SETTINGS)
        try:
            await migrate(cluster.admin_dsn)
            print(json.dumps(await report(cluster, wish.messages, wish.rounds), indent=2))
        finally:
            await cluster.close()


asyncio.run(main())
