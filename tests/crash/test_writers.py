"""However many writers deliver the same story, in whatever order: the database of one who delivers it once.

What "the same" leaves out is said in `crash.whole`, and in `crash.tales` which stories have no say in the order.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace

import psycopg
import pytest

from crash import writer
from crash.tales import Teller, in_batches
from crash.whole import faults, unlike, whole
from ingest.stories import at, author, message
from roomlore.db.cluster import Cluster
from roomlore.operations import App

OpenApp = Callable[[str], Awaitable[App]]


async def told_in_order(open_app: OpenApp, teller: Teller) -> App:
    app = await open_app("in order")
    for batch in in_batches(teller.records(), 500):
        accepted = await app.ingest_batch(batch)
        assert not accepted.skipped
    return app


async def write_beside_others(cluster: Cluster, org: str, *, count: int, seed: int, order: int) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "crash.writer", cluster.app_dsn, org, str(count), str(seed), str(order)),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, complaints = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    assert (process.returncode, complaints.decode()) == (0, "")


def test_a_story_has_everything_that_may_arrive():
    records = Teller(300, 1).records()
    assert records == Teller(300, 1).records() != Teller(300, 2).records()
    assert len({(one.room.external_id, one.external_id) for one in records}) == 300
    assert {one.kind for one in records} == {"message", "whisper", "system", "context_injection"}
    edited, removed = [one for one in records if one.edited_at], [one for one in records if one.deleted]
    assert len(edited) > 50
    assert len(removed) > 5
    places = {(one.room.external_id, one.external_id): one.sent_at for one in records}
    answered = [
        places.get((one.room.external_id, one.reply_to), one.sent_at) - one.sent_at
        for one in records
        if one.reply_to
    ]
    assert min(answered) < max(answered)
    assert len({(one.author.account_id, one.author.name) for one in records}) > 20
    assert {len(one.room.members) for one in records if one.room.external_id == "den"} == {0, 2, 3}


@pytest.mark.slow
async def test_four_writers_beside_a_worker_end_in_the_database_of_one(
    app: App, open_app: OpenApp, cluster: Cluster, admin: psycopg.AsyncConnection
):
    wanted = await told_in_order(open_app, Teller(300, 1))
    records = Teller(300, 1).records()

    async def keep_working() -> None:
        while True:
            await app.drain()

    worker = asyncio.create_task(keep_working())
    async with asyncio.TaskGroup() as writers:
        for order in range(4):
            writers.create_task(writer.deliver(cluster.app_dsn, app.settings.org, records, order=order))
    worker.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await worker
    for one in (app, wanted):
        await one.drain()
    assert unlike(await whole(admin, app.org_id), await whole(admin, wanted.org_id)) == {}
    assert await faults(admin, app.org_id) == {}


@pytest.mark.slow
async def test_a_message_whose_author_is_named_as_at_first_is_embedded_anew(
    app: App, open_app: OpenApp, admin: psycopg.AsyncConnection
):
    first = message("1", "tea", author=author(name="Anabel"))
    edit = replace(first, body="tea again", edited_at=at(5), author=author(name="Bel"))
    wanted = await open_app("in order")
    for one, records in ((wanted, [first, edit]), (app, [edit, first])):
        for record in records:
            await one.ingest(record)
            await one.drain()
    found = await whole(admin, app.org_id)
    assert unlike(found, await whole(admin, wanted.org_id)).get("message_embeddings") is None
    assert found["work_queue"] == []


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_eight_processes_that_redeliver_five_thousand_messages_end_in_the_database_of_one(
    app: App, open_app: OpenApp, cluster: Cluster, admin: psycopg.AsyncConnection
):
    wanted = await told_in_order(open_app, Teller(5000, 8))
    async with asyncio.TaskGroup() as writers:
        for order in range(8):
            writers.create_task(
                write_beside_others(cluster, app.settings.org, count=5000, seed=8, order=order)
            )
    assert unlike(await whole(admin, app.org_id), await whole(admin, wanted.org_id)) == {}
    assert await faults(admin, app.org_id) == {}
    found = await (
        await admin.execute("select count(*) from messages where org_id = %s", [app.org_id])
    ).fetchone()
    assert found == (5000,)
