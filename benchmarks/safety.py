"""The cost of visibility: Roomlore beside the same database without row-level security.

    python -m benchmarks.safety [--messages 100000] [--rooms 50] [--rounds 100] [--data DIR] [--plans]

Two databases on one embedded server hold the same bytes. `guarded` is Roomlore as it is. `bare` is a copy without row-level
security, in which everything of the org is readable, as in a product without visibility rules. Both get the same questions
through the same calls, alternating, so that noise affects both. Target: medians at most 1.3 times those of `bare`.

Three viewers ask: the operator and a participant of an org with open rooms, who must get equal answers from both; and a
member of an org with closed rooms, who joined, left and joined again, with whispers of others around; `bare` shows this
member too much. Missing things are then compared with invisible ones: both must take about as long to be refused.

Word frequencies are those of real text (Zipf), and vectors are hashes of words, so that no model's speed is measured.
"""

import argparse
import asyncio
import json
import random
import re
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import LiteralString
from urllib.parse import urlencode
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import roomlore
from roomlore import (
    App,
    IncomingAuthor,
    IncomingMembership,
    IncomingMessage,
    IncomingRoom,
    NotFound,
    Settings,
    Viewer,
)
from roomlore.db.cluster import Cluster, start_cluster
from roomlore.db.schema import migrate
from roomlore.models.fake import FakeEmbedder

WORDS = 20_000
PEOPLE = 200
START = datetime(2025, 1, 1, tzinfo=UTC)
PACE = timedelta(seconds=20)
LARGEST, SMALL = "room 0", "room 12"
#: Comes early, leaves, comes again; knows three closed rooms of four.
MEMBER = "Person 3"
#: Both copies fit into memory, so that neither pays for the other's being there.
SETTINGS = {"shared_buffers": "1GB"}
MADE_BARE: LiteralString = """
do $$
declare
  name text;
begin
  for name in
    select oid::regclass from pg_class where relnamespace = 'roomlore'::regnamespace and relrowsecurity
  loop
    execute format('alter table %s disable row level security', name);
  end loop;
end $$;
create or replace view roomlore.readable_messages as
select * from roomlore.messages where org_id = roomlore.current_org();
"""

Call = Callable[[App], Awaitable[object]]


# What was said


def people() -> list[IncomingAuthor]:
    return [IncomingAuthor(account_id=f"u{i}", name=f"Person {i}") for i in range(PEOPLE)]


def places(rooms: int, end: datetime, *, closed: bool) -> list[IncomingRoom]:
    """Return the rooms; every closed one lacks a fourth of the people, and some are open."""
    return [
        IncomingRoom(
            external_id=f"r{i}",
            name=f"room {i}",
            visibility="members" if closed and i % 5 != 4 else "open",
            members=[
                stay for p, who in enumerate(people()) if (p + i) % 4 != 1 for stay in stays(p, who, end)
            ]
            if closed and i % 5 != 4
            else (),
        )
        for i in range(rooms)
    ]


def stays(number: int, who: IncomingAuthor, end: datetime) -> list[IncomingMembership]:
    """Return when somebody was there: always, or with a late beginning and a pause."""
    if number % 3:
        return [IncomingMembership(author=who)]
    early, left, again = (START + (end - START) * part for part in (0.05, 0.4, 0.5))
    return [
        IncomingMembership(author=who, joined_at=early, left_at=left),
        IncomingMembership(author=who, joined_at=again),
    ]


def story(count: int, rooms: int, chance: random.Random, *, closed: bool) -> list[IncomingMessage]:
    vocabulary = [f"{chance.choice('bdfgklmnprst')}{chance.choice('aeiou')}{i:x}" for i in range(WORDS)]
    words = iter(chance.choices(vocabulary, [1 / (rank + 1) for rank in range(WORDS)], k=count * 12))
    where, who = places(rooms, START + PACE * count, closed=closed), people()
    messages: list[IncomingMessage] = []
    said: dict[int, list[str]] = {}
    for i in range(count):
        number = min(int(chance.paretovariate(1.2)) - 1, rooms - 1)
        author = min(int(chance.paretovariate(1.0)) - 1, PEOPLE - 1)
        while where[number].members and (author + number) % 4 == 1:
            author = chance.randrange(PEOPLE)
        whispers = closed and chance.random() < 0.05
        earlier = said.setdefault(number, [])
        messages.append(
            IncomingMessage(
                platform="bench",
                room=where[number],
                external_id=f"m{i}",
                author=who[author],
                body=" ".join(next(words) for _ in range(chance.randrange(3, 12))),
                sent_at=START + PACE * i,
                order=i,
                kind="whisper" if whispers else "message",
                audience=chance.sample(who[:40], 2) if whispers else (),
                reply_to=chance.choice(earlier[-20:]) if earlier and chance.random() < 0.3 else None,
            )
        )
        earlier.append(f"m{i}")
    return messages


# Where it is kept


@asynccontextmanager
async def opened(cluster: Cluster, database: str, org: str) -> AsyncGenerator[App]:
    """Give an App on one org of one of the databases."""
    login = urlencode(conninfo_to_dict(cluster.app_dsn) | {"dbname": database})
    settings = Settings(database=f"postgresql:///?{login}", org=org)
    async with roomlore.open(settings, embedder=FakeEmbedder()) as app:
        yield app


async def fill(cluster: Cluster, told: dict[str, list[IncomingMessage]]) -> None:
    """Make both databases."""
    administer(cluster, "postgres", sql.SQL("create database guarded"))
    await migrate(make_conninfo(cluster.admin_dsn, dbname="guarded"))
    for org, messages in told.items():
        async with opened(cluster, "guarded", org) as app:
            for i in range(0, len(messages), 10_000):
                await app.ingest_batch(messages[i : i + 10_000])
            await app.drain()
    administer(cluster, "guarded", sql.SQL("vacuum (freeze, analyze)"))
    administer(cluster, "postgres", sql.SQL("create database bare template guarded"))
    administer(cluster, "bare", sql.SQL(MADE_BARE))


def administer(cluster: Cluster, database: str, change: sql.SQL | sql.Composed) -> None:
    with psycopg.connect(make_conninfo(cluster.admin_dsn, dbname=database), autocommit=True) as conn:
        conn.execute(change)


# What is asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """One viewer with the questions to ask."""

    name: str
    viewer: Viewer
    questions: Sequence[str]
    #: Messages the viewer may see, each after its room.
    triggers: Sequence[tuple[str, str]]

    def calls(self) -> dict[str, list[Call]]:
        """Return the questions by kind."""
        return {
            "search, org": [self.search(question) for question in self.questions],
            "search, largest room": [self.search(question, LARGEST) for question in self.questions],
            "search, small room": [self.search(question, SMALL) for question in self.questions],
            "context": [self.context(*trigger) for trigger in self.triggers],
            "newest messages": [self.newest(LARGEST)] * len(self.questions),
        }

    def search(self, question: str, room: str | None = None) -> Call:
        return lambda app: app.search(self.viewer, question, room=room)

    def context(self, room: str, trigger: str) -> Call:
        return lambda app: app.context(self.viewer, room, trigger)

    def newest(self, room: str) -> Call:
        return lambda app: app.messages(self.viewer, room)

    def before(self, room: str, message: UUID) -> Call:
        return lambda app: app.messages(self.viewer, room, before=str(message))


async def asker(app: App, name: str, told: Sequence[IncomingMessage], rounds: int) -> Asker:
    """Return a viewer who asks about visible messages."""
    viewer = app.operator if name == "operator" else await app.viewer(MEMBER)
    chance = random.Random(11)
    questions = [" ".join(chance.sample(message.body.split(), 3)) for message in chance.sample(told, rounds)]
    triggers: list[tuple[str, str]] = []
    while len(triggers) < rounds:
        trigger = chance.choice(told)
        place = (trigger.room.external_id, trigger.external_id)
        if not await is_refused(lambda app, place=place: app.context(viewer, *place), app):
            triggers.append(place)
    return Asker(name=name, viewer=viewer, questions=questions, triggers=triggers)


async def is_refused(call: Call, app: App) -> bool:
    try:
        await call(app)
    except NotFound:
        return True
    return False


async def took(call: Call, app: App) -> tuple[float, object]:
    """Return the milliseconds that a call took, and what it returned; a refusal is an answer too."""
    began = time.perf_counter()
    try:
        answer = await call(app)
    except NotFound:
        answer = None
    return (time.perf_counter() - began) * 1000, answer


async def compared(
    one: App, other: App, calls: Sequence[tuple[Call, Call]]
) -> tuple[list[float], list[float], bool]:
    """Return how long each call took here and there, by turns, and whether all answers were alike."""
    here: list[float] = []
    there: list[float] = []
    alike = True
    for turn, (call, opposite) in enumerate([*calls[:10], *calls]):
        if turn % 2:
            (first, left), (second, right) = await took(call, one), await took(opposite, other)
        else:
            (second, right), (first, left) = await took(opposite, other), await took(call, one)
        alike = alike and left == right
        # The first ones run with cold caches and without cached plans.
        if turn >= 10:
            here.append(first)
            there.append(second)
    return here, there, alike


async def cost(guarded: App, bare: App, who: Asker) -> dict[str, object]:
    """Return what each kind of question costs with and without row-level security."""
    report: dict[str, object] = {}
    for what, calls in who.calls().items():
        here, there, alike = await compared(guarded, bare, [(call, call) for call in calls])
        # Viewers who may see everything get equal answers; others get less from the guarded one.
        assert alike or who.name == "member", f"{what}, {who.name}: the two databases disagree"
        report[f"{what}, {who.name}"] = figures("guarded", here, "bare", there)
        print(what, who.name, report[f"{what}, {who.name}"], file=sys.stderr)
    return report


async def refusals(guarded: App, who: Asker, rounds: int) -> dict[str, object]:
    """Return how long it takes to be refused what is not there, and what may not be seen."""
    seen = {message.id for message in await guarded.messages(who.viewer, LARGEST, limit=5000)}
    newest = await guarded.messages(guarded.operator, LARGEST, limit=5000)
    hidden = [message.id for message in newest if message.id not in seen][-rounds:]
    known = {room.id for room in await guarded.rooms(who.viewer)}
    kept = [room.id for room in await guarded.rooms(guarded.operator) if room.id not in known]
    rooms = (kept * rounds)[:rounds]
    pairs = {
        "message": [(who.before(LARGEST, key), who.before(LARGEST, absent(key))) for key in hidden],
        "room": [(who.newest(str(key)), who.newest(str(absent(key)))) for key in rooms],
    }
    report: dict[str, object] = {}
    for what, calls in pairs.items():
        assert calls, f"no {what} is hidden"
        for call in (call for pair in calls for call in pair):
            assert await is_refused(call, guarded), f"a hidden {what} is shown"
        forbidden, missing, _ = await compared(guarded, guarded, calls)
        report[f"refused {what}"] = figures("not allowed", forbidden, "not there", missing)
    return report


def absent(key: UUID) -> UUID:
    """Return an id next to this one that nothing has."""
    return UUID(int=key.int ^ 0xFFFF)


def figures(one: str, here: Sequence[float], other: str, there: Sequence[float]) -> dict[str, float]:
    return {
        f"{one} ms": round(median(here), 2),
        f"{other} ms": round(median(there), 2),
        "ratio": round(median(here) / median(there), 2),
    }


# How the server goes about it


async def plans(cluster: Cluster, asking: Sequence[tuple[str, Asker]]) -> None:
    """Print the statements of one call of each kind with their plans, nested ones included."""
    for database in ("guarded", "bare"):
        explain(cluster, database)
        for org, who in asking:
            async with opened(cluster, database, org) as app:
                await print_plans(cluster, app, who, database)
        administer(
            cluster, "postgres", sql.SQL("alter database {} reset all").format(sql.Identifier(database))
        )


async def print_plans(cluster: Cluster, app: App, who: Asker, database: str) -> None:
    log = cluster.home / "postgres.log"
    for what, calls in who.calls().items():
        # Prepared and with cached plans, as in a long session.
        for call in calls[:14]:
            await took(call, app)
        written = log.stat().st_size
        milliseconds, _ = await took(calls[14], app)
        print(f"\n=== {what}, {who.name}, {database}: {milliseconds:.1f} ms, explained")
        for statement in explained(log, written):
            print(statement)


def explain(cluster: Cluster, database: str) -> None:
    """Have the plans of all further sessions in a database written to the server's log."""
    wishes = {
        "session_preload_libraries": "auto_explain",
        "auto_explain.log_min_duration": "0",
        "auto_explain.log_analyze": "on",
        "auto_explain.log_buffers": "on",
        "auto_explain.log_nested_statements": "on",
    }
    for name, value in wishes.items():
        change = sql.SQL("alter database {} set {} = {}")
        # A name with a dot is two identifiers.
        setting = sql.SQL(".").join(sql.Identifier(part) for part in name.split("."))
        administer(cluster, "postgres", change.format(sql.Identifier(database), setting, sql.Literal(value)))


def explained(log: Path, since: int) -> list[str]:
    """Return each statement in the log once: how often it ran, for how long, and its slowest plan."""
    with log.open("rb") as lines:
        lines.seek(since)
        text = lines.read().decode()
    runs: dict[str, list[tuple[float, str]]] = {}
    for entry in re.split(r"^\S+ \S+ \S+ \[\d+\] LOG:  ", text, flags=re.MULTILINE):
        if found := re.match(r"duration: (\S+) ms  plan:\n(.*?\n)(?=\t\S)(.*)", entry, re.DOTALL):
            runs.setdefault(found[2], []).append((float(found[1]), found[3]))
    return [
        f"--- {len(times)} times, {sum(time for time, _ in times):.2f} ms\n{statement}{max(times)[1]}"
        for statement, times in runs.items()
    ]


async def measured(
    cluster: Cluster, told: dict[str, list[IncomingMessage]], wish: argparse.Namespace
) -> None:
    report: dict[str, object] = {"messages in each org": wish.messages}
    asking: list[tuple[str, Asker]] = []
    for org, name in (("open", "operator"), ("open", "participant"), ("closed", "member")):
        async with opened(cluster, "guarded", org) as guarded, opened(cluster, "bare", org) as bare:
            who = await asker(guarded, name, told[org], wish.rounds)
            report |= await cost(guarded, bare, who)
            if name == "member":
                report |= await refusals(guarded, who, wish.rounds)
        asking.append((org, who))
    print(json.dumps(report, indent=2))
    if wish.plans:
        await plans(cluster, asking)


async def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--messages", type=int, default=100_000, help="in each of the two orgs")
    options.add_argument("--rooms", type=int, default=50)
    options.add_argument("--rounds", type=int, default=100)
    options.add_argument("--data", type=Path, help="keep the databases in this folder and use them again")
    options.add_argument("--plans", action="store_true", help="print how the server goes about it")
    wish = options.parse_args()
    told = {
        org: story(wish.messages, wish.rooms, random.Random(7), closed=org == "closed")
        for org in ("open", "closed")
    }
    with tempfile.TemporaryDirectory() as folder:
        data = wish.data or Path(folder)
        fresh = not (data / "postgres").exists()
        cluster = await start_cluster(data, settings=SETTINGS)
        try:
            if fresh:
                await fill(cluster, told)
            await measured(cluster, told, wish)
        finally:
            await cluster.close()


asyncio.run(main())
