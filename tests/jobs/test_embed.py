"""Everything gets its vector, nothing twice, and nothing keeps the vector of what is gone."""

import asyncio
import contextlib
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import psycopg
import pytest

from ingest.stories import at, author, message
from roomlore.db import work_queue
from roomlore.db.cluster import Cluster
from roomlore.db.database import Database
from roomlore.db.work_queue import RetrySchedule
from roomlore.domain.errors import ModelUnavailable
from roomlore.domain.ports import TextEmbeddings
from roomlore.domain.vectors import Vectors
from roomlore.jobs import runner
from roomlore.jobs.embedding import EmbeddingWorker
from roomlore.models.fake import FakeEmbedder
from roomlore.operations import App

OpenApp = Callable[[str], Awaitable[App]]

QUICK = replace(
    runner.DRAIN_POLICY,
    retries=RetrySchedule(first_after=timedelta(milliseconds=1), last_attempt=3),
    poll_seconds=0.02,
)


@dataclass
class Watched:
    """A fake that counts what it embeds and can be held up, or fail for some texts."""

    poison: str | None = None
    error: type[Exception] = ValueError
    #: Set once a batch has begun; the batch goes on when `go` is set.
    begun: threading.Event = field(default_factory=threading.Event)
    go: threading.Event | None = None
    seen: Counter[str] = field(default_factory=Counter)
    batches: list[int] = field(default_factory=list)
    fake: FakeEmbedder = field(default_factory=FakeEmbedder)

    @property
    def model_id(self) -> str:
        return self.fake.model_id

    @property
    def dimensions(self) -> int:
        return self.fake.dimensions

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.begun.set()
        if self.go is not None:
            assert self.go.wait(20)
        if self.poison is not None and any(self.poison in text for text in texts):
            raise self.error("cannot")
        self.seen.update(texts)
        self.batches.append(len(texts))
        return self.fake.embed(texts)

    @property
    def has_token_vectors(self) -> bool:
        return self.fake.has_token_vectors

    def embed_with_tokens(self, texts: Sequence[str]) -> TextEmbeddings:
        return replace(self.fake.embed_with_tokens(texts), vectors=self.embed(texts))


async def embedded(admin: psycopg.AsyncConnection, app: App) -> dict[str, str]:
    """Return the vectors of an org by external id."""
    rows = await admin.execute(
        """select external_id, embedding::text from message_embeddings as vectors
           join messages using (org_id, room_id) where messages.id = message_id and org_id = %s""",
        [app.org_id],
    )
    return dict(await rows.fetchall())


async def begun(embedder: Watched) -> None:
    assert await asyncio.to_thread(embedder.begun.wait, 20)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    while not await holds():  # noqa: ASYNC110  the server has no event to wait for
        await asyncio.sleep(0.01)


def said(count: int, **fields) -> list:
    return [message(str(number), f"thing number {number}", **fields) for number in range(count)]


@pytest.mark.slow
async def test_draining_embeds_everything_once(app: App, admin):
    await app.ingest_batch(said(300))
    assert (await app.drain()).done == 300
    vectors = await embedded(admin, app)
    assert len(vectors) == 300
    assert (await app.drain()).done == 0
    assert await embedded(admin, app) == vectors
    assert (await app.waiting()).waiting == 0


@pytest.mark.slow
async def test_notices_and_silence_get_no_vector(app: App, admin):
    await app.ingest_batch(
        [
            message("1", "Ana joined", kind="system"),
            message("2", "  \n"),
            message("3", "the weather is fine", kind="context_injection"),
            message("4", "psst", kind="whisper"),
        ]
    )
    await app.drain()
    assert set(await embedded(admin, app)) == {"4"}


@pytest.mark.slow
async def test_an_edit_is_embedded_again(app: App, admin):
    await app.ingest(message("1", "apples"))
    await app.drain()
    before = await embedded(admin, app)
    await app.ingest(message("1", "pears", edited_at=at(5)))
    assert await embedded(admin, app) == {}
    await app.drain()
    after = await embedded(admin, app)
    assert set(after) == {"1"}
    assert after != before


@pytest.mark.slow
async def test_an_edit_that_leaves_nothing_drops_vector_and_work(app: App, admin):
    await app.ingest(message("1", "apples"))
    await app.drain()
    await app.ingest_batch([message("1", "pears", edited_at=at(5)), message("1", " ", edited_at=at(6))])
    assert (await app.waiting()).waiting == 0
    assert await embedded(admin, app) == {}


@pytest.mark.slow
async def test_a_redaction_drops_the_vector(app: App, admin):
    await app.ingest(message("1", "apples"))
    await app.drain()
    await app.erasure.redact("1")
    assert await embedded(admin, app) == {}
    assert (await app.waiting()).waiting == 0


async def test_a_redaction_while_the_vector_is_made_leaves_none(app: App, db: Database, admin):
    await app.ingest_batch(said(2))
    embedder = Watched(go=threading.Event())
    working = asyncio.create_task(runner.step(EmbeddingWorker(db=db, embedder=embedder)))
    await begun(embedder)
    await app.erasure.redact("0")
    embedder.go.set()
    await working
    assert set(await embedded(admin, app)) == {"1"}
    assert (await app.waiting()).waiting == 0


async def test_an_edit_while_the_vector_is_made_leaves_none_of_the_old_text(app: App, db: Database, admin):
    await app.ingest(message("1", "apples"))
    embedder = Watched(go=threading.Event())
    working = asyncio.create_task(runner.step(EmbeddingWorker(db=db, embedder=embedder)))
    await begun(embedder)
    await app.ingest(message("1", "pears", edited_at=at(5)))
    embedder.go.set()
    await working
    assert await embedded(admin, app) == {}
    await runner.drain(EmbeddingWorker(db=db, embedder=embedder), policy=QUICK)
    assert embedder.seen == {"Ana: apples": 1, "Ana: pears": 1}
    assert set(await embedded(admin, app)) == {"1"}


async def test_a_change_waits_for_a_vector_that_is_being_written_and_drops_it(app: App, db: Database, admin):
    await app.ingest(message("1", "apples"))
    async with db.system_connection() as conn:
        tasks = await work_queue.take(conn, "embed", None, per_org=9, total=9, lease=timedelta(minutes=1))
    vector = FakeEmbedder().embed(["apples"])
    writing, written = asyncio.Event(), asyncio.Event()

    async def write(conn) -> None:
        await work_queue.finish(conn, app.org_id, "embed", tasks)
        await work_queue.put_embeddings(conn, app.org_id, "fake", [tasks[0].subject_id], vectors=vector)
        writing.set()
        await written.wait()

    worker = asyncio.create_task(db.change(app.org_id, write))
    await writing.wait()
    redaction = asyncio.create_task(app.erasure.redact("1"))
    await until(lambda: waits_for_a_lock(admin))
    written.set()
    await worker
    await redaction
    assert await embedded(admin, app) == {}


async def waits_for_a_lock(admin: psycopg.AsyncConnection) -> bool:
    row = await (
        await admin.execute("select count(*) from pg_stat_activity where wait_event_type = 'Lock'")
    ).fetchone()
    return bool(row and row[0])


@pytest.mark.slow
async def test_poison_is_set_aside_and_the_others_get_through(app: App, db: Database, admin):
    await app.ingest_batch([*said(20), message("77", "poison")])
    worker = EmbeddingWorker(db=db, embedder=Watched(poison="poison"))
    drained = await runner.drain(worker, policy=QUICK)
    assert (drained.done, drained.dead_lettered) == (20, 1)
    assert len(await embedded(admin, app)) == 20
    row = await (
        await admin.execute(
            "select failures, error, dead_lettered_at is null from work_queue where org_id = %s and queue = 'embed'",
            [app.org_id],
        )
    ).fetchone()
    assert row == (3, "ValueError", False)
    # Once the text is another, it is tried again.
    await app.ingest(message("77", "harmless", edited_at=at(100)))
    assert (await runner.drain(worker, policy=QUICK)).dead_lettered == 0
    assert len(await embedded(admin, app)) == 21


async def test_a_missing_model_stops_the_worker_and_costs_no_attempt(app: App, db: Database, admin):
    class Missing(Watched):
        def embed(self, texts: Sequence[str]) -> Vectors:
            raise ModelUnavailable(f"no files for {len(texts)}", cure="install them")

    await app.ingest_batch(said(3))
    with pytest.raises(ModelUnavailable):
        await runner.drain(EmbeddingWorker(db=db, embedder=Missing()), policy=QUICK)
    rows = await (
        await admin.execute(
            "select attempts, due_at <= now() from work_queue where org_id = %s and queue = 'embed'",
            [app.org_id],
        )
    ).fetchall()
    assert rows == [(0, True)] * 3


@pytest.mark.slow
async def test_two_workers_share_the_work_and_do_nothing_twice(app: App, db: Database, admin):
    await app.ingest_batch(said(600))
    embedders = [Watched(), Watched()]
    drained = await asyncio.gather(
        *(runner.drain(EmbeddingWorker(db=db, embedder=one, batch=32), policy=QUICK) for one in embedders)
    )
    assert sum(one.done for one in drained) == 600
    assert set((embedders[0].seen + embedders[1].seen).values()) == {1}
    assert len(await embedded(admin, app)) == 600


KILLED = """
import asyncio, sys, time
from datetime import timedelta
from dataclasses import replace
from roomlore.models.fake import FakeEmbedder
from roomlore.db.database import Database
from roomlore.jobs import runner
from roomlore.jobs.embedding import EmbeddingWorker

class Slow(FakeEmbedder):
    def embed(self, texts):
        print("begun", flush=True)
        if slow := any("number 40" in text for text in texts):
            time.sleep(60)
        return super().embed(texts)

async def main():
    db = await Database.connect(sys.argv[1], size=2)
    pace = replace(runner.DRAIN_POLICY, lease=timedelta(seconds=0.5))
    await runner.drain(EmbeddingWorker(db=db, embedder=Slow(), batch=16), policy=pace)

asyncio.run(main())
"""


@pytest.mark.slow
async def test_a_worker_killed_in_the_middle_loses_nothing(app: App, db: Database, cluster: Cluster, admin):
    await app.ingest_batch(said(200))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED, cluster.app_dsn, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"begun\n"
    row = (0,)
    while not row[0]:
        await asyncio.sleep(0.01)
        row = await (
            await admin.execute(
                "select count(*) from work_queue where attempts > 0 and org_id = %s", [app.org_id]
            )
        ).fetchone() or (0,)
    process.send_signal(signal.SIGKILL)
    await process.communicate()
    await runner.drain(EmbeddingWorker(db=db, embedder=FakeEmbedder()), policy=QUICK)
    assert len(await embedded(admin, app)) == 200
    assert (await app.waiting()).waiting == 0


@pytest.mark.slow
async def test_a_busy_org_starves_nobody(open_app: OpenApp, db: Database, admin):
    busy, *small = [await open_app(name) for name in ("busy", "a", "b", "c", "d", "e")]
    await busy.ingest_batch(said(5000))
    for one in small:
        await one.ingest_batch(said(3))
    worker = EmbeddingWorker(db=db, embedder=FakeEmbedder())
    await runner.step(worker)
    assert [len(await embedded(admin, one)) for one in small] == [3] * 5
    # The rest of the batch was not left empty.
    assert len(await embedded(admin, busy)) == worker.batch - 15


async def test_a_worker_wakes_at_once_and_stops_at_once(app: App, db: Database):
    embedder, stop, woken = Watched(), asyncio.Event(), asyncio.Event()
    patient = replace(runner.DEFAULT_POLICY, poll_seconds=30.0)
    worker = asyncio.create_task(
        runner.run(
            EmbeddingWorker(db=db, embedder=embedder),
            stop=stop,
            progress=lambda _: woken.set(),
            policy=patient,
        )
    )
    await until(lambda: listens(db))
    await app.ingest(message("1", "wake up"))
    await asyncio.wait_for(woken.wait(), 60)
    began = time.monotonic()
    stop.set()
    await asyncio.wait_for(worker, 60)
    assert time.monotonic() - began < 2


async def listens(db: Database) -> bool:
    async with db.system_connection() as conn:
        row = await (
            await conn.execute("select count(*) from pg_stat_activity where query like 'listen%%'")
        ).fetchone()
    return bool(row and row[0])


async def test_a_missed_notification_is_made_up_for_by_the_poll(app: App, db: Database, admin):
    await app.ingest(message("1", "later"))
    # Not due yet when the worker looks first, and no notification says when it is.
    await admin.execute(
        "update work_queue set due_at = now() + interval '0.3 seconds' where org_id = %s", [app.org_id]
    )
    stop, woken = asyncio.Event(), asyncio.Event()
    worker = runner.run(
        EmbeddingWorker(db=db, embedder=FakeEmbedder()),
        stop=stop,
        progress=lambda _: woken.set(),
        policy=QUICK,
    )
    running = asyncio.create_task(worker)
    await asyncio.wait_for(woken.wait(), 60)
    stop.set()
    await running
    assert set(await embedded(admin, app)) == {"1"}


async def test_cancelling_gives_everything_back_at_once(open_app: OpenApp, db: Database, admin):
    apps = [await open_app(name) for name in ("a", "b")]
    for one in apps:
        await one.ingest_batch(said(10, author=author("bo")))
    embedder = Watched(go=threading.Event())
    working = asyncio.create_task(runner.step(EmbeddingWorker(db=db, embedder=embedder)))
    await begun(embedder)
    working.cancel()
    embedder.go.set()
    with contextlib.suppress(asyncio.CancelledError):
        await working
    assert working.cancelled()
    rows = await (
        await admin.execute("select attempts, due_at <= now() from work_queue where queue = 'embed'")
    ).fetchall()
    assert rows == [(0, True)] * 20


@pytest.mark.slow
async def test_a_large_partition_gets_its_index_once_nothing_is_waiting(app: App, db: Database, admin):
    await app.ingest_batch([message(f"m{i}", body=f"word {i}") for i in range(30)])
    await runner.drain(EmbeddingWorker(db=db, embedder=FakeEmbedder(), min_index_size=20), policy=QUICK)
    indexes = "select indexname from pg_indexes where indexname like 'message_embeddings_%_near_%'"
    try:
        assert len(await (await admin.execute(indexes)).fetchall()) >= 1
        found = await app.search(app.operator, "word 7", limit=5)
        assert found.hits[0].best.external_id == "m7"
    finally:
        for (name,) in await (await admin.execute(indexes)).fetchall():
            await admin.execute(f"drop index {name}")


@pytest.mark.slow
async def test_a_drain_of_one_org_leaves_the_work_of_others(open_app: OpenApp):
    mine, other = await open_app("mine"), await open_app("other")
    for app in (mine, other):
        await app.ingest(message("m1", body="something said"))
    assert (await mine.drain()).done == 1
    assert (await other.waiting()).waiting == 1
    assert (await mine.drain(every_org=True)).done >= 1
    assert (await other.waiting()).waiting == 0
