"""Copies end up as the database is, whatever happens to whom, and when."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest

from ingest.stories import APART, at, author, message
from jobs.copying import Shelf, expected, on
from jobs.rooms import busy_room
from roomlore.db import projections
from roomlore.db.cluster import Cluster
from roomlore.db.projections import NewIndex, Projection
from roomlore.domain.errors import BackendUnavailable
from roomlore.domain.incoming import IncomingMessage
from roomlore.jobs import projection, runner
from roomlore.jobs.projection import ProjectionWorker, index_prefix
from roomlore.models.fake import FakeEmbedder
from roomlore.operations import App

OpenApp = Callable[[str], Awaitable[App]]
MODEL = FakeEmbedder().model_id


def worker_of(app: App, shelf: Shelf) -> ProjectionWorker:
    return ProjectionWorker(db=app.db, projection=shelf, queue="qdrant")


async def build(app: App, shelf: Shelf, name: str) -> str:
    """Say that a copy is to be built, and return what it is called."""
    copy = f"{index_prefix(app.org_id)}{name}"
    await shelf.prepare(copy, dimensions=384)
    planned = NewIndex(index_name=copy, model=MODEL, dimensions=384)
    await app.db.change(
        app.org_id,
        lambda conn: projections.start_rebuild(conn, app.org_id, "qdrant", planned),
    )
    return copy


async def state(app: App) -> Projection:
    async with app.db.read_transaction(app.operator) as conn:
        (held,) = await projections.all_projections(conn, app.org_id)
    return held


async def told(app: App, count: int = 60) -> list[IncomingMessage]:
    said = busy_room(5, count)
    await app.ingest_batch(said)
    await app.drain()
    return said


@pytest.mark.slow
async def test_a_first_copy_is_built_of_what_was_there_and_kept_up_with_what_comes(app: App) -> None:
    await told(app)
    shelf = Shelf()
    copy = await build(app, shelf, "1")

    await projection.drain(worker_of(app, shelf))

    held = await state(app)
    assert (held.index_name, held.next_index_name) == (copy, None)
    assert on(shelf, copy) == await expected(app, MODEL) != {}
    assert any(point.vector is not None for point in shelf.held_copies[copy].values())
    assert any(point.reply_to is not None for point in shelf.held_copies[copy].values())
    assert any(point.conversation_id is not None for point in shelf.held_copies[copy].values())

    await app.ingest_batch(
        [message("late", "one more thing about the boat", author=author("ann"), sent_at=at(9000))]
    )
    await app.drain()
    await projection.drain(worker_of(app, shelf))

    assert on(shelf, copy) == await expected(app, MODEL)


@pytest.mark.slow
async def test_whatever_is_done_to_messages_reaches_the_copy(app: App) -> None:
    said = await told(app)
    shelf = Shelf()
    copy = await build(app, shelf, "1")
    await projection.drain(worker_of(app, shelf))
    before = on(shelf, copy)

    await app.ingest_batch([replace(said[3], body="what I meant was the harbour", edited_at=at(9000))])
    await app.ingest_batch([replace(said[5], body="", deleted=True)])
    await app.ingest_batch(
        [
            replace(
                message("answer", "so it is", author=author("bob"), sent_at=at(9001)),
                reply_to=said[3].external_id,
            )
        ]
    )
    await app.ingest_batch(
        [
            replace(
                message("early", "see below", author=author("bob"), sent_at=at(9002)),
                reply_to="parent still to come",
            )
        ]
    )
    await app.drain()
    await app.ingest_batch(
        [message("parent still to come", "here I am", author=author("cid"), sent_at=at(9003))]
    )
    await app.drain()
    await projection.drain(worker_of(app, shelf))

    after = on(shelf, copy)
    assert after == await expected(app, MODEL)
    assert len(set(before) - set(after)) == 1


@pytest.mark.slow
async def test_a_new_copy_is_built_beside_the_old_one_which_is_read_until_it_is_whole(app: App) -> None:
    await told(app)
    shelf = Shelf()
    first = await build(app, shelf, "1")
    await projection.drain(worker_of(app, shelf))
    second = await build(app, shelf, "2")
    worker = worker_of(app, shelf)

    await worker.begin(app.org_id)
    await app.ingest_batch(
        [message("meanwhile", "said while it is built", author=author("ann"), sent_at=at(9000))]
    )
    await app.drain()

    assert (await state(app)).index_name == first
    assert set(shelf.held_copies) == {first, second}

    await projection.drain(worker)

    assert (await state(app)).index_name == second
    assert set(shelf.held_copies) == {second}
    assert on(shelf, second) == await expected(app, MODEL)


@pytest.mark.slow
async def test_what_a_slow_transaction_adds_that_never_heard_of_the_copy_is_in_it(
    app: App, cluster: Cluster
) -> None:
    await told(app)
    shelf = Shelf()
    worker = worker_of(app, shelf)
    async with await psycopg.AsyncConnection.connect(cluster.admin_dsn) as slow:
        await slow.execute("select pg_current_xact_id()")
        await build(app, shelf, "1")

        await worker.begin(app.org_id)

        assert (await state(app)).next_since is None
        assert (await worker.advance_build(app.org_id)) is not None
        told_of_it = asyncio.Event()
        draining = asyncio.create_task(projection.drain(worker, waiting=told_of_it.set))
        await asyncio.wait_for(told_of_it.wait(), 30)
    await draining
    assert (await state(app)).next_index_name is None


@pytest.mark.slow
async def test_a_subject_that_changes_while_it_is_written_is_written_again_and_never_twice_at_once(
    app: App,
) -> None:
    said = await told(app, 8)
    shelf = Shelf(go=asyncio.Event())
    copy = await build(app, shelf, "1")
    worker = worker_of(app, shelf)
    await worker.begin(app.org_id)
    first = asyncio.create_task(runner.step(worker))
    await shelf.begun.wait()

    await app.ingest_batch([replace(said[2], body="", deleted=True)])
    second = await runner.step(worker)

    assert second.taken == 0
    assert shelf.go is not None
    shelf.go.set()
    await first
    await projection.drain(worker)
    assert on(shelf, copy) == await expected(app, MODEL)
    assert len(on(shelf, copy)) == 7


@pytest.mark.slow
async def test_what_the_server_never_takes_is_set_aside_and_the_rest_goes_through(app: App) -> None:
    await told(app, 20)
    poison = min(await expected(app, MODEL))
    shelf = Shelf(poison={poison})
    copy = await build(app, shelf, "1")

    pace = replace(
        runner.DRAIN_POLICY, retries=runner.RetrySchedule(first_after=timedelta(0), last_attempt=2)
    )
    worker = worker_of(app, shelf)
    await worker.begin(app.org_id)
    await runner.drain(worker, policy=pace)
    await worker.advance_build(app.org_id)

    wanted = await expected(app, MODEL)
    wanted.pop(poison)
    assert on(shelf, copy) == wanted
    async with app.db.read_transaction(app.operator) as conn:
        backlog = await projections.backlog(conn, app.org_id, "qdrant")
    assert (backlog.waiting, backlog.dead_lettered) == (0, 1)
    assert (await state(app)).index_name == copy


@pytest.mark.slow
async def test_while_the_server_is_down_nothing_is_lost_or_blamed_on_what_was_to_be_written(app: App) -> None:
    await told(app, 20)
    shelf = Shelf()
    copy = await build(app, shelf, "1")
    worker = worker_of(app, shelf)
    await projection.drain(worker)
    shelf.is_down = True
    await app.ingest_batch(
        [message("later", "is anybody there?", author=author("ann"), sent_at=at(2 * APART))]
    )
    await app.drain()

    for _ in range(12):
        with pytest.raises(BackendUnavailable):
            await runner.step(worker)

    held = await state(app)
    assert held.failing_since is not None
    assert held.error == "the shelf fell down"
    async with app.db.read_transaction(app.operator) as conn:
        backlog = await projections.backlog(conn, app.org_id, "qdrant")
    assert backlog.waiting == 1
    assert backlog.dead_lettered == 0
    assert backlog.lag_seconds > 0
    shelf.is_down = False
    await projection.drain(worker)
    assert on(shelf, copy) == await expected(app, MODEL)
    assert (await state(app)).failing_since is None


@pytest.mark.slow
async def test_a_server_that_lost_everything_is_filled_anew_even_while_a_copy_is_being_built(
    app: App,
) -> None:
    await told(app, 20)
    shelf = Shelf()
    await build(app, shelf, "1")
    worker = worker_of(app, shelf)
    await projection.drain(worker)
    await build(app, shelf, "2")
    await worker.begin(app.org_id)
    await runner.step(worker)
    shelf.held_copies.clear()

    await worker.advance_build(app.org_id)

    assert (await state(app)).index_name is None, "the database answers until there is a copy again"
    await projection.drain(worker)
    copy = (await state(app)).index_name
    assert copy is not None
    assert on(shelf, copy) == await expected(app, MODEL)


@pytest.mark.slow
async def test_what_is_erased_leaves_the_copy(app: App) -> None:
    await told(app, 30)
    shelf = Shelf()
    copy = await build(app, shelf, "1")
    await projection.drain(worker_of(app, shelf))
    people = await app.participants(app.operator)

    await app.erasure.person(str(people[0].id))
    await app.drain()
    await projection.drain(worker_of(app, shelf))

    assert on(shelf, copy) == await expected(app, MODEL)
    assert people[0].id not in {point.author_id for point in shelf.held_copies[copy].values()}


@pytest.mark.slow
async def test_where_an_org_has_no_copies_nothing_is_asked_for(app: App) -> None:
    await told(app, 10)

    async with app.db.read_transaction(app.operator) as conn:
        assert (await projections.backlog(conn, app.org_id, "qdrant")).waiting == 0
        assert await projections.all_projections(conn, app.org_id) == []


@pytest.mark.slow
async def test_what_killed_its_workers_ten_times_leaves_the_copy_when_it_is_erased(
    app: App, admin: psycopg.AsyncConnection
) -> None:
    await told(app, 10)
    shelf = Shelf()
    copy = await build(app, shelf, "1")
    await projection.drain(worker_of(app, shelf))
    gone = min(on(shelf, copy))
    await admin.execute(
        """
        insert into roomlore.work_queue (org_id, queue, subject_id, attempts, dead_lettered_at)
        values (%s, 'qdrant', %s, 10, now())
        """,
        [app.org_id, gone],
    )

    await app.erasure.message(str(gone))
    await projection.drain(worker_of(app, shelf))

    assert gone not in on(shelf, copy)


@pytest.mark.slow
async def test_what_somebody_else_finished_meanwhile_is_written_once_more(
    app: App, admin: psycopg.AsyncConnection
) -> None:
    said = await told(app, 8)
    shelf = Shelf()
    copy = await build(app, shelf, "1")
    worker = worker_of(app, shelf)
    await projection.drain(worker)
    shelf.go = asyncio.Event()
    shelf.begun.clear()
    await app.ingest_batch([replace(said[2], body="what I meant was the harbour", edited_at=at(9000))])
    late = asyncio.create_task(runner.step(worker))
    await shelf.begun.wait()
    # Its lease ran out: another worker took the message, erased by then, removed it from the copy and finished.
    held = next(point for point in shelf.held_copies[copy].values() if point.sent_at == said[2].sent_at)
    await app.erasure.message(str(held.id))
    await admin.execute(
        "delete from roomlore.work_queue where org_id = %s and queue = 'qdrant'", [app.org_id]
    )
    del shelf.held_copies[copy][held.id]

    shelf.go.set()
    await late
    await projection.drain(worker)

    assert on(shelf, copy) == await expected(app, MODEL)
