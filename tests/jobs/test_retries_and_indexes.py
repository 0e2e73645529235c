"""What is missing is asked for, what was set aside can come back, and indexes are built where they pay."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from urllib.parse import quote, urlencode
from zlib import crc32

import numpy as np
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from ingest.stories import at, message
from roomlore import doctor
from roomlore.db import search, work_queue
from roomlore.db.cluster import Cluster
from roomlore.db.database import Database
from roomlore.db.search import SearchFilter
from roomlore.db.work_queue import RetrySchedule
from roomlore.domain.errors import DatabaseFull, DatabaseUnavailable
from roomlore.domain.ports import TextEmbeddings
from roomlore.domain.records import Viewer
from roomlore.domain.vectors import Vectors
from roomlore.jobs import runner
from roomlore.jobs.embedding import EmbeddingWorker
from roomlore.models.fake import FakeEmbedder
from roomlore.operations import App
from roomlore.settings import Settings

OpenApp = Callable[[str], Awaitable[App]]

QUICK = replace(
    runner.DRAIN_POLICY,
    retries=RetrySchedule(first_after=timedelta(milliseconds=1), last_attempt=2),
    poll_seconds=0.02,
)
INDEXES = "select tablename from pg_indexes where indexname like 'message_embeddings_%_near_%'"
NAMES = INDEXES.replace("tablename", "indexname")
BEHIND = ("not everything is embedded yet",)


class Other(FakeEmbedder):
    """Another model."""

    @property
    def model_id(self) -> str:
        return f"other-{self.dimensions}"


class Scattered(FakeEmbedder):
    """Sends each text in a direction of its own: bags of words are all equally near to each other, and texts are not."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        drawn = [
            np.random.default_rng(crc32(text.encode())).standard_normal(self.dimensions) for text in texts
        ]
        return np.array([one / np.linalg.norm(one) for one in drawn], np.float32)

    def embed_with_tokens(self, texts: Sequence[str]) -> TextEmbeddings:
        return TextEmbeddings(vectors=self.embed(texts), tokens=None)


class Broken(FakeEmbedder):
    """A model that fails for some texts."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        if any("poison" in text for text in texts):
            raise ValueError(texts[0])
        if any("venom" in text for text in texts):
            raise TypeError(texts[0])
        return super().embed(texts)


async def models(admin: psycopg.AsyncConnection) -> dict[str, list[str]]:
    rows = await admin.execute(
        """select model, array_agg(external_id order by external_id) from message_embeddings as vectors
           join messages using (org_id, room_id) where messages.id = message_id group by model"""
    )
    return dict(await rows.fetchall())


def with_model(app: App, embedder: FakeEmbedder) -> App:
    """Return the app as it is after a restart with another model."""
    return App(db=app.db, org_id=app.org_id, settings=app.settings, _embedder=embedder)


@pytest.mark.slow
async def test_a_new_model_is_filled_in_and_the_old_vectors_stay(app: App, admin):
    await app.ingest_batch([message("1", "apples"), message("2", "pears"), message("3", "plums")])
    await app.erasure.redact("3")
    await app.drain()
    renewed = with_model(app, Other())
    assert (await renewed.search(app.operator, "apples")).degraded == BEHIND
    assert (await renewed.drain()).done == 2
    assert await models(admin) == {"fake-hash-384": ["1", "2"], "other-384": ["1", "2"]}
    assert (await renewed.search(app.operator, "apples")).degraded == ()
    assert (await renewed.drain()).done == 0


@pytest.mark.slow
async def test_only_the_operator_learns_that_vectors_lag_behind(app: App):
    await app.ingest(message("1", "apples"))
    await app.drain()
    ana = await app.viewer("Ana")
    renewed = with_model(app, Other())
    assert (await renewed.search(ana, "apples")).degraded == ()
    await app.ingest(message("2", "pears"))
    assert (await app.search(ana, "apples")).degraded == ()
    assert (await app.search(app.operator, "apples")).degraded == BEHIND


async def test_what_is_said_to_nobody_is_never_missing(app: App, db: Database, admin):
    await app.ingest_batch(
        [
            message("1", "Ana joined", kind="system"),
            message("2", " \n\t "),
            message("3", "the weather is fine", kind="context_injection"),
            message("4", "psst", kind="whisper"),
            message("5", "x", deleted=True),
        ]
    )
    await admin.execute("delete from work_queue")
    await EmbeddingWorker(db=db, embedder=Other()).begin(None)
    rows = await admin.execute("select external_id from work_queue join messages on messages.id = subject_id")
    assert await rows.fetchall() == [("4",)]


async def test_asking_for_what_is_missing_leaves_waiting_work_as_it_is(app: App, db: Database, admin):
    await app.ingest(message("1", "apples"))
    await admin.execute(
        "update work_queue set failures = 1, error = 'OSError', due_at = now() + interval '1 h'"
    )
    await EmbeddingWorker(db=db, embedder=Other()).begin(None)
    rows = await admin.execute(
        "select failures, error, due_at > now(), version from work_queue where queue = 'embed'"
    )
    assert await rows.fetchall() == [(1, "OSError", True, 1)]


@pytest.mark.slow
async def test_a_worker_that_starts_fills_in_what_every_org_misses(open_app: OpenApp, db: Database, admin):
    for name in ("a", "b"):
        one = await open_app(name)
        await one.ingest(message(name, "apples"))
        await one.drain()
    done, stop, enough = 0, asyncio.Event(), asyncio.Event()

    def progress(count: int) -> None:
        nonlocal done
        done += count
        if done == 2:
            enough.set()

    worker = EmbeddingWorker(db=db, embedder=Other())
    running = asyncio.create_task(runner.run(worker, stop=stop, progress=progress, policy=QUICK))
    await asyncio.wait_for(enough.wait(), 60)
    stop.set()
    await running
    assert (await models(admin))["other-384"] == ["a", "b"]


async def dead_lettered(app: App, db: Database) -> EmbeddingWorker:
    """Leave two kinds of work set aside, and return the worker that did it."""
    texts = ["poison one", "poison two", "venom", "fine"]
    await app.ingest_batch([message(str(n), text) for n, text in enumerate(texts)])
    worker = EmbeddingWorker(db=db, embedder=Broken())
    assert (await runner.drain(worker, policy=QUICK)).dead_lettered == 3
    return worker


@pytest.mark.slow
async def test_what_was_set_aside_can_be_tried_again(app: App, db: Database, open_app: OpenApp, admin):
    await dead_lettered(app, db)
    assert await (await open_app("other")).retry() == 0
    assert (await app.drain()).done == 0
    assert await app.retry(every_org=True) == 3
    rows = await admin.execute(
        "select attempts, failures, error, dead_lettered_at from work_queue where queue = 'embed'"
    )
    assert await rows.fetchall() == [(0, 0, None, None)] * 3
    assert (await app.drain()).done == 3
    assert await app.retry() == 0


async def test_set_aside_work_does_not_make_a_search_wait_for_it(app: App, db: Database):
    await dead_lettered(app, db)
    assert (await app.search(app.operator, "fine")).degraded == ()


@pytest.mark.slow
async def test_doctor_names_what_was_set_aside_by_kind_and_the_cure(app: App, db: Database, cluster: Cluster):
    await dead_lettered(app, db)
    [finding] = [one for one in await examined(cluster) if one.name == "work"]
    assert (
        finding.detail == "0 texts to embed, 1 room to disentangle, 3 set aside (2 ValueError, 1 TypeError)"
    )
    assert not finding.is_well
    assert finding.cure.endswith("roomlore worker --drain --retry")
    await app.retry()
    [finding] = [one for one in await examined(cluster) if one.name == "work"]
    assert finding.detail == "3 texts to embed, 1 room to disentangle, 0 set aside"
    assert finding.is_well
    assert finding.cure == "run: roomlore worker --drain"


async def examined(cluster: Cluster) -> Sequence[doctor.CheckResult]:
    parts = urlencode(conninfo_to_dict(cluster.app_dsn), quote_via=quote)
    return await doctor.run_checks(Settings(database=f"postgresql://?{parts}"))


async def test_the_note_of_a_failure_quotes_nobody(app: App, db: Database, admin):
    await dead_lettered(app, db)
    rows = await (
        await admin.execute("select work_queue::text from work_queue where queue = 'embed'")
    ).fetchall()
    assert len(rows) == 3
    assert not any("poison" in row or "venom" in row for (row,) in rows)


async def test_org_ids_are_for_transactions_without_a_viewer(app: App, db: Database):
    async with db.system_connection() as conn:
        assert app.org_id in await work_queue.org_ids(conn)
    for viewer in (app.operator, Viewer(org_id=app.org_id, participant_id=None)):
        async with db.read_transaction(viewer) as conn:
            assert await work_queue.org_ids(conn) == []


@pytest.fixture
async def _unindexed(admin):
    yield
    for (name,) in await (await admin.execute(NAMES)).fetchall():
        await admin.execute(f"drop index {name}")


async def orgs_of_partition(db: Database, admin: psycopg.AsyncConnection, open_app: OpenApp) -> list[App]:
    """Return two apps whose vectors lie in the same partition and one whose vectors lie in another."""
    by_part: dict[str, list[App]] = {}
    for number in range(40):
        app = await open_app(str(number))
        await app.ingest(message("0", "first"))
        await runner.drain(EmbeddingWorker(db=db, embedder=FakeEmbedder()), only_org=app.org_id, policy=QUICK)
        [(part,)] = await (
            await admin.execute(
                "select tableoid::regclass::text from message_embeddings where org_id = %s", [app.org_id]
            )
        ).fetchall()
        by_part.setdefault(part, []).append(app)
        pairs = [apps for apps in by_part.values() if len(apps) > 1]
        others = [apps for apps in by_part.values() if not pairs or apps is not pairs[0]]
        if pairs and others:
            return [*pairs[0][:2], others[0][0]]
    raise AssertionError("forty orgs in one partition")


async def fill(app: App, db: Database, count: int, embedder: FakeEmbedder) -> None:
    await app.ingest_batch([message(str(n), f"word {n}", sent_at=at(n)) for n in range(1, count + 1)])
    worker = EmbeddingWorker(db=db, embedder=embedder, min_index_size=10**9)
    await runner.drain(worker, only_org=app.org_id, policy=QUICK)


async def build(db: Database, worth_it: int) -> int:
    async with db.system_connection() as conn:
        return await work_queue.build_vector_indexes(conn, worth_it=worth_it)


@pytest.mark.slow
@pytest.mark.usefixtures("_unindexed")
async def test_one_call_indexes_one_partition_and_none_that_is_not_worth_it(
    open_app: OpenApp, db: Database, admin
):
    one, neighbour, elsewhere = await orgs_of_partition(db, admin, open_app)
    for app in (one, neighbour, elsewhere):
        await fill(app, db, 20, FakeEmbedder())
    # Two orgs of twenty are not one of thirty.
    assert await build(db, 30) == 0
    assert [await build(db, 20) for _ in range(3)] == [1, 1, 0]
    assert len(await (await admin.execute(INDEXES)).fetchall()) == 2


@pytest.mark.usefixtures("_unindexed")
async def test_each_length_of_vectors_has_an_index_of_its_own(app: App, db: Database, admin):
    for dimensions in (512, 768):
        await fill(app, db, 30, FakeEmbedder(dimensions=dimensions))
    assert [await build(db, 20) for _ in range(3)] == [1, 1, 0]
    names = [name for (name,) in await (await admin.execute(NAMES)).fetchall()]
    assert [name.rpartition("_")[2] for name in sorted(names)] == ["512", "768"]


@pytest.mark.usefixtures("_unindexed")
async def test_vectors_of_an_odd_length_are_not_worth_an_index(app: App, db: Database):
    await fill(app, db, 30, FakeEmbedder(dimensions=500))
    assert await build(db, 20) == 0


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("_unindexed")
@pytest.mark.parametrize("dimensions", [384, 1536, 3072])
async def test_what_an_index_finds_is_what_is_nearest(app: App, db: Database, dimensions: int):
    embedder = Scattered(dimensions=dimensions)
    await fill(app, db, 120, embedder)
    assert await build(db, 100) == 1
    vector = (embedder.model_id, embedder.embed(["Ana: word 7"])[0])
    async with app.db.read_transaction(app.operator) as conn:
        measured = await search.filter_size(conn, None)
        assert measured.indexed_lengths == [dimensions]
        ways = [replace(measured, message_count=count) for count in (1, 1_000_000)]
        exact, walked = [
            await search.dense_candidates(conn, vector, search_filter=SearchFilter(), measure=way, wanted=5)
            for way in ways
        ]
    assert [one.message_id for one in walked] == [one.message_id for one in exact]
    assert walked[0].similarity == pytest.approx(1, abs=0.001)


@pytest.mark.usefixtures("_unindexed")
async def test_vectors_of_two_models_do_not_add_up(app: App, db: Database):
    await fill(app, db, 20, FakeEmbedder())
    await fill(app, db, 20, Other())
    assert await build(db, 30) == 0
    assert await build(db, 20) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("_unindexed")
async def test_a_redaction_in_another_partition_does_not_wait_for_an_index(
    open_app: OpenApp, db: Database, admin
):
    one, _, elsewhere = await orgs_of_partition(db, admin, open_app)
    for app in (one, elsewhere):
        await fill(app, db, 20, FakeEmbedder())
    # The transaction that built an index has not ended: its locks are those of a build that lasts.
    async with db.system_connection() as conn:
        assert await work_queue.build_vector_indexes(conn, worth_it=20) == 1
        [(part,)] = await (await conn.execute(INDEXES)).fetchall()
        rows = await admin.execute(
            "select distinct org_id from message_embeddings where tableoid = %s::regclass", [part]
        )
        locked = {org_id for (org_id,) in await rows.fetchall()}
        free = one if one.org_id not in locked else elsewhere
        await asyncio.wait_for(free.erasure.redact("1"), 60)
        # A second worker builds the other partition's and does not wait for this one.
        assert await asyncio.wait_for(build(db, 20), 60) == 1
        assert await asyncio.wait_for(build(db, 20), 60) == 0


async def test_a_refusal_to_build_takes_no_lock_that_a_writer_minds(app: App, db: Database):
    await fill(app, db, 20, FakeEmbedder())
    async with db.system_connection() as conn:
        assert await work_queue.build_vector_indexes(conn, worth_it=30) == 0
        await asyncio.wait_for(app.erasure.redact("1"), 60)


async def test_an_outage_is_told_from_other_errors_of_the_server():
    for lost in (psycopg.OperationalError("gone"), psycopg.errors.AdminShutdown("bye\nsecond line")):
        with pytest.raises(DatabaseUnavailable) as raised, work_queue.translate_connection_errors():
            raise lost
        assert "\nsecond" not in raised.value.why
    with pytest.raises(DatabaseFull), work_queue.translate_connection_errors():
        raise psycopg.errors.DiskFull
    for other in (psycopg.errors.DeadlockDetected, psycopg.errors.QueryCanceled):
        with pytest.raises(other), work_queue.translate_connection_errors():
            raise other
