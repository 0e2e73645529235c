"""kill -9 of a process that builds and writes an index: the next process completes it, and nothing is lost."""

import asyncio
import os
import random
import signal
import sys
import time
from dataclasses import replace

import psycopg
import pytest

from ingest.stories import at, author, message
from jobs.rooms import busy_room
from memories.drafts import kept
from projections.neo4j.comparing import assert_alike
from projections.neo4j.stories import Raw
from roomlore.db.cluster import Cluster
from roomlore.jobs.projection import index_prefix
from roomlore.operations import App
from roomlore.projections.neo4j import Neo4jProjection
from roomlore.settings import Neo4jSettings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

#: Begins another copy, asks for all that it is to hold, writes it and changes over; tells of each batch.
WRITER = """
import asyncio, os, sys, uuid
from roomlore.projections.neo4j import open_neo4j
from roomlore.db.database import Database
from roomlore.jobs import projection
from roomlore.jobs.projection import ProjectionWorker

async def main():
    dsn, org, url, user = sys.argv[1:]
    db = await Database.connect(dsn, size=4)
    graph = open_neo4j(url, user=user, password=os.environ["PASSWORD"])
    worker = ProjectionWorker(db=db, projection=graph, queue="neo4j", batch=8, chunk_size=30)
    print("begun", flush=True)
    await worker.build(uuid.UUID(org))
    await projection.drain(worker, only_org=uuid.UUID(org), progress=lambda done: print("written", flush=True))

asyncio.run(main())
"""
#: Fewer than there are batches, so that it is killed before it is done.
LINES, ROUNDS, PACE = 12, 6, 0.05


async def write_until_killed(app: App, dsn: str, server: tuple[str, str, str], chance: random.Random) -> int:
    """Start a process that writes, kill it at a moment that chance names, and return how many batches it had told of."""
    url, user, password = server
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", WRITER, dsn, str(app.org_id), url, user),
        env={**os.environ, "PASSWORD": password, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        assert await process.stdout.readline() == b"begun\n"
        told, began = 0, time.monotonic()
        for _ in range(chance.randrange(LINES)):
            assert await process.stdout.readline() == b"written\n"
            told += 1
        pace = (time.monotonic() - began) / told if told else PACE
        # In the midst of the next one, wherever that is.
        await asyncio.sleep(chance.uniform(0, pace))
    finally:
        if process.returncode is None:
            process.kill()
        _, complaints = await process.communicate()
    assert process.returncode == -signal.SIGKILL, complaints.decode()
    return told


async def test_a_worker_killed_at_any_moment_leaves_what_another_one_finishes(  # noqa: PLR0917  fixtures
    app: App,
    cluster: Cluster,
    admin: psycopg.AsyncConnection,
    server: tuple[str, str, str],
    graph: Neo4jProjection,
    raw: Raw,
) -> None:
    url, user, password = server
    settings = replace(app.settings, neo4j=Neo4jSettings(url=url, user=user, password=password))
    app, chance = replace(app, settings=settings), random.Random(23)
    said = busy_room(7, 150)
    await app.ingest_batch(said)
    await app.drain()
    for who in ("ana", "bo"):
        await kept(app, f"{who} likes tea", "m1", "m2", by=who, about=(who,), tags=frozenset({"tea"}))

    told: list[int] = []
    for number in range(ROUNDS):
        told.append(await write_until_killed(app, cluster.app_dsn, server, chance))
        # Leases end by themselves; the test does not wait for that.
        await admin.execute("update roomlore.work_queue set due_at = now() where org_id = %s", [app.org_id])
        await change(app, said[20 * number : 20 * (number + 1)], number)
        if number % 3 == 2:
            # The next ones are killed while they write to the copy that is read, too, and remove it.
            drained = await app.drain()
            assert (drained.failing, drained.dead_lettered) == ([], 0)
            await assert_alike(app, raw)

    assert len(set(told)) > 2, "they were all killed at one place"
    for copy in await graph.index_names():
        # What was begun and never told of is left alone for some minutes.
        if copy.startswith(index_prefix(app.org_id)):
            await graph.remove(copy)


async def change(app: App, said: list, number: int) -> None:
    """Let what was written be no longer so: an answer comes, one message is told otherwise, and one is erased."""
    late = message(f"late{number}", "so it is", author=author("cy"), sent_at=at(9000 + number), reply_to="m3")
    await app.ingest_batch([late, replace(said[3], body="no", edited_at=at(9000 + number))])
    await app.disentangle()
    await app.erasure.message(said[7].external_id)
