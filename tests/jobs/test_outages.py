"""A worker goes on after whatever ends its connections, its process or its server."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from ingest.stories import message
from roomlore.db import work_queue
from roomlore.db.cluster import start_cluster, stop_cluster
from roomlore.db.database import Database
from roomlore.db.schema import migrate
from roomlore.db.work_queue import RetrySchedule, Task
from roomlore.domain.errors import DatabaseUnavailable
from roomlore.jobs import runner
from roomlore.jobs.embedding import EmbeddingWorker
from roomlore.models.fake import FakeEmbedder
from roomlore.operations import App
from roomlore.settings import Settings

QUICK = replace(
    runner.DRAIN_POLICY,
    retries=RetrySchedule(first_after=timedelta(milliseconds=1), last_attempt=3),
    poll_seconds=0.1,
)
LISTENERS = "select pid from pg_stat_activity where query like 'listen%%'"


def embedding(db: Database) -> EmbeddingWorker:
    return EmbeddingWorker(db=db, embedder=FakeEmbedder())


@asynccontextmanager
async def running(db: Database, pace: runner.RetryPolicy = QUICK) -> AsyncGenerator[asyncio.Task[None]]:
    stop = asyncio.Event()
    worker = asyncio.create_task(runner.run(embedding(db), stop=stop, policy=pace))
    try:
        yield worker
        stop.set()
        await asyncio.wait_for(worker, 60)
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)


async def until(holds: Callable[[], Awaitable[object]], *, worker: asyncio.Task[None] | None = None) -> None:
    async with asyncio.timeout(120):
        while not await holds():
            assert worker is None or not worker.done(), worker
            await asyncio.sleep(0.01)


async def pids(admin: psycopg.AsyncConnection) -> set[int]:
    return {pid for (pid,) in await (await admin.execute(LISTENERS)).fetchall()}


async def vectors(app: App) -> int:
    async with app.db.read_transaction(app.operator) as conn:
        row = await (await conn.execute("select count(*) from message_embeddings")).fetchone()
    return row[0] if row else 0


async def queue(admin: psycopg.AsyncConnection, columns: str) -> list[tuple]:
    return await (
        await admin.execute(f"select {columns} from work_queue where queue = 'embed' order by subject_id")
    ).fetchall()


@pytest.mark.slow
async def test_a_listener_that_was_ended_is_replaced_without_haste(
    app: App, db: Database, admin, monkeypatch
):
    steps: list[float] = []
    step = runner.step

    async def counted(*args, **kwargs) -> runner.StepResult:
        steps.append(time.monotonic())
        return await step(*args, **kwargs)

    monkeypatch.setattr(runner, "step", counted)
    async with running(db, replace(QUICK, poll_seconds=0.5)) as worker:
        await until(lambda: pids(admin))
        [old] = await pids(admin)
        began = len(steps)
        ended_at = time.monotonic()
        await admin.execute("select pg_terminate_backend(%s)", [old])

        async def replaced() -> bool:
            return bool(await pids(admin) - {old})

        await until(replaced, worker=worker)
        # Two lanes that each look once a rest, and once more for the news.
        assert len(steps) - began <= 4 * ((time.monotonic() - ended_at) / 0.5 + 2)
        await app.ingest(message("1", "still there"))
        await until(lambda: vectors(app), worker=worker)


@pytest.mark.slow
async def test_every_connection_that_was_ended_is_replaced(app: App, db: Database, admin):
    async with running(db) as worker:
        await until(lambda: pids(admin))
        await app.ingest_batch([message(str(n), f"number {n}") for n in range(50)])
        await admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'roomlore_app' "
            "or query like 'listen%%'"
        )

        async def all_done() -> bool:
            # The pool gives out its ended connections before it notices.
            with contextlib.suppress(psycopg.OperationalError):
                return await vectors(app) == 50
            return False

        await until(all_done, worker=worker)


@pytest.mark.slow
async def test_a_worker_lives_through_a_restart_of_the_server(tmp_path_factory):
    data = tmp_path_factory.mktemp("data")
    cluster = await start_cluster(data, settings={"fsync": "off"})
    await migrate(cluster.admin_dsn)
    db = await Database.connect(cluster.app_dsn)
    try:
        app = App(
            db=db, org_id=await db.ensure_org("org"), settings=Settings(org="org"), _embedder=FakeEmbedder()
        )
        async with running(db) as worker:
            await app.ingest(message("1", "before"))
            await until(lambda: vectors(app), worker=worker)
            await stop_cluster(data, force=True)
            await asyncio.wait([worker], timeout=0.5)
            assert not worker.done()
            again = await start_cluster(data, settings={"fsync": "off"})
            try:
                await after_restart(app, worker)
            finally:
                await again.close()
    finally:
        await db.close()
        await cluster.close()
        await stop_cluster(data, force=True)


async def after_restart(app: App, worker: asyncio.Task[None]) -> None:
    async def told() -> bool:
        with contextlib.suppress(psycopg.OperationalError):
            await app.ingest(message("2", "after"))
            return True
        return False

    async def both() -> bool:
        with contextlib.suppress(psycopg.OperationalError):
            return await vectors(app) == 2
        return False

    await until(told, worker=worker)
    await until(both, worker=worker)


async def test_a_worker_without_a_server_stops_when_told(db: Database, monkeypatch):
    @asynccontextmanager
    async def away():
        raise psycopg.OperationalError("the server went away")
        yield

    monkeypatch.setattr(db, "system_connection", away)
    monkeypatch.setattr(db, "listening", lambda _: away())
    async with running(db, replace(QUICK, poll_seconds=30.0)) as worker:
        await asyncio.wait([worker], timeout=0.1)
        assert not worker.done()


async def test_a_worker_that_hangs_is_abandoned_when_told_to_stop(app: App, db: Database, admin, monkeypatch):
    class Hanging(EmbeddingWorker):
        async def do(self, *_) -> None:
            begun.set()
            await asyncio.Event().wait()

    release = work_queue.release

    async def slow_release(*args: Any, **kwargs: Any) -> None:
        for _ in range(1_000):
            await asyncio.sleep(0)
        await release(*args, **kwargs)

    await app.ingest(message("1", "never embedded"))
    begun, stop = asyncio.Event(), asyncio.Event()
    monkeypatch.setattr(runner, "SHUTDOWN_TIMEOUT", 0.1)
    monkeypatch.setattr(work_queue, "release", slow_release)
    worker = asyncio.create_task(runner.run(Hanging(db=db, embedder=FakeEmbedder()), stop=stop, policy=QUICK))
    await begun.wait()
    stop.set()
    await asyncio.wait_for(worker, 60)
    assert await queue(admin, "attempts, due_at <= now()") == [(0, True)]


@pytest.mark.slow
async def test_a_drain_that_loses_the_database_says_so_and_costs_no_attempt(app: App, db: Database, admin):
    class Unlucky(EmbeddingWorker):
        async def do(self, *_) -> None:
            raise psycopg.errors.AdminShutdown("terminating connection")

    await app.ingest_batch([message("1", "one"), message("2", "two")])
    with pytest.raises(DatabaseUnavailable, match="terminating connection"):
        await runner.drain(Unlucky(db=db, embedder=FakeEmbedder()), policy=QUICK)
    assert await queue(admin, "attempts, failures, due_at <= now()") == [(0, 0, True)] * 2


async def test_an_error_of_the_server_that_is_no_outage_counts_as_a_failure(app: App, db: Database, admin):
    class Deadlocked(EmbeddingWorker):
        async def do(self, *_) -> None:
            raise psycopg.errors.DeadlockDetected

    await app.ingest(message("1", "one"))
    drained = await runner.drain(Deadlocked(db=db, embedder=FakeEmbedder()), policy=QUICK)
    assert drained.dead_lettered == 1
    assert await queue(admin, "failures, error") == [(3, "DeadlockDetected")]


async def taken_and_lost(db: Database, admin: psycopg.AsyncConnection) -> list[Task]:
    """Take a batch as a worker does that is killed at once."""
    async with db.system_connection() as conn:
        tasks = await runner._take(conn, embedding(db), None, policy=QUICK)
    await admin.execute("update work_queue set due_at = now()")
    return tasks


@pytest.mark.slow
async def test_five_kills_cost_good_work_none_of_its_attempts(app: App, db: Database, admin):
    await app.ingest(message("1", "good"))
    for _ in range(5):
        assert len(await taken_and_lost(db, admin)) == 1

    class Flaky(EmbeddingWorker):
        async def do(self, org_id, tasks) -> int:
            if (await queue(admin, "failures"))[0][0] < QUICK.retries.last_attempt - 1:
                raise OSError
            return await super().do(org_id, tasks)

    drained = await runner.drain(Flaky(db=db, embedder=FakeEmbedder()), policy=QUICK)
    assert (drained.done, drained.dead_lettered) == (1, 0)


async def test_what_ends_every_worker_is_soon_taken_alone_and_then_set_aside(app: App, db: Database, admin):
    ids = (await app.ingest_batch([message(str(n), f"number {n}") for n in range(20)])).message_ids
    poison, batches = ids[7], []
    for _ in range(40):
        tasks = await taken_and_lost(db, admin)
        if not tasks:
            break
        batches.append(len(tasks))
        if poison not in {task.subject_id for task in tasks}:
            # Only the poison kills; the others get done once it is not among them.
            await db.change(
                app.org_id, lambda conn, done=tasks: work_queue.finish(conn, app.org_id, "embed", done)
            )
    assert batches[:3] == [20, 20, 20]
    assert set(batches[3:]) == {1}
    assert await queue(admin, "subject_id, error, dead_lettered_at is not null") == [
        (poison, "Unfinished", True)
    ]


async def test_suspects_never_share_a_batch_with_others(app: App, db: Database, admin):
    await app.ingest_batch([message(str(n), f"number {n}") for n in range(9)])
    for _ in range(3):
        await taken_and_lost(db, admin)
    await app.ingest_batch([message(str(n), f"number {n}") for n in range(10, 14)])
    async with db.system_connection() as conn:
        first = await runner._take(conn, embedding(db), None, policy=QUICK)
        second = await runner._take(conn, embedding(db), None, policy=QUICK)
    assert [task.attempts for task in first] == [1] * 4
    assert [task.attempts for task in second] == [4]
