"""kill -9 at any moment: what was acknowledged is there once, what was not is there whole or not at all.

A process that writes is killed, or PostgreSQL under it. The server waits for the disk as it does everywhere
(`fsync` is on). A killed process leaves the system's own buffers untouched, though, so that nothing here
shows what a loss of power does.
"""

import asyncio
import random
from collections.abc import Generator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import psycopg
import pytest

from crash.deeds import MARKS, MESSAGES, WRITERS, Delivery, Erasure, current_texts, delivery, erasures
from crash.killing import VICTIMS, Place, do_until_killed
from crash.tales import Teller, in_batches
from crash.whole import everything, faults, unlike, whole
from roomlore.db.cluster import Cluster, start_cluster, stop_cluster
from roomlore.domain.incoming import IncomingMessage
from roomlore.operations import App

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="finds the server's processes in /proc"),
]
#: What a worker does at its own pace, and a receipt counts as far as it has come.
AT_LEISURE = {
    *(
        "work_queue",
        "message_embeddings",
        "receipts",
        "conversations",
        "conversation_messages",
        "interactions",
    ),
    *("memories", "memory_sources", "memory_participants", "memory_tags", "memory_embeddings"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cluster]:
    """A claim on a server with the usual settings, so that it is stopped only once."""
    data = tmp_path_factory.mktemp("killed")
    cluster = asyncio.run(start_cluster(data))
    yield cluster
    asyncio.run(cluster.close())
    asyncio.run(stop_cluster(data, force=True))


@pytest.fixture(autouse=True)
def _empty(server: Cluster) -> Generator[None]:
    """Leave nothing to the next test, whose worker would look into every org."""
    yield
    with psycopg.connect(server.admin_dsn, autocommit=True) as conn:
        conn.execute("truncate roomlore.orgs, roomlore.work_queue cascade")


async def rows(admin: psycopg.AsyncConnection, query: str, app: App) -> list[tuple]:
    return await (await admin.execute(query.encode(), [app.org_id])).fetchall()


async def stored_texts(admin: psycopg.AsyncConnection, app: App) -> list[tuple[tuple[str, str], str]]:
    found = await rows(
        admin,
        """
        select rooms.external_id, messages.external_id, body
        from messages
        join rooms on rooms.org_id = messages.org_id and rooms.id = room_id
        where messages.org_id = %s""",
        app,
    )
    return sorted(((room, message), body) for room, message, body in found)


def expected_there(story: Delivery, acknowledged: Sequence[int]) -> tuple[set[int], set[int]]:
    """Return which batches must be there and which may be: one more of each writer."""
    must = set(acknowledged)
    may = set(must)
    for writer in range(WRITERS):
        mine = [number for number, _ in story.of_writer(writer)]
        done = [number for number in mine if number in must]
        # A writer brings one batch after the other.
        assert done == mine[: len(done)]
        may.update(mine[len(done) : len(done) + 1])
    return must, may


async def undisturbed(app: App) -> App:
    """Return the App of another org on the same server, where everything goes its way."""
    org = f"{app.settings.org} undisturbed"
    return replace(app, org_id=await app.db.ensure_org(org), settings=replace(app.settings, org=org))


async def bring_again(app: App, records: Sequence[IncomingMessage], seed: int) -> None:
    """Deliver everything once more, in another order."""
    shuffled = random.Random(seed).sample(records, len(records))
    for batch in in_batches(shuffled, 100):
        await app.ingest_batch(batch)


async def finish_work(admin: psycopg.AsyncConnection, *apps: App) -> None:
    """Do all that is waiting, as if the leases of those who died had ended."""
    for app in apps:
        await admin.execute("update work_queue set due_at = now() where org_id = %s", [app.org_id])
        drained = await app.drain()
        assert drained.dead_lettered == 0
        assert await rows(admin, "select * from work_queue where org_id = %s", app) == []


async def contrast(
    admin: psycopg.AsyncConnection, app: App, other: App, *, but: frozenset[str] | set[str] = frozenset()
) -> dict[str, object]:
    """Return what two orgs do not have in common, but for some tables; edges are found as messages are placed."""
    found, wanted = await whole(admin, app.org_id), await whole(admin, other.org_id)
    if "conversation_messages" in but:
        for rows_of in (found, wanted):
            rows_of["replies"] = [
                row for row in rows_of["replies"] if '"parent_external_id": null' not in row
            ]
    return {table: rows for table, rows in unlike(found, wanted).items() if table not in but}


@pytest.mark.parametrize(
    ("what", "victim", "seed"),
    [(what, victim, seed) for seed, what in enumerate(("ingest", "edit")) for victim in VICTIMS],
)
async def test_after_a_kill_what_was_acknowledged_is_there_and_the_rest_whole_or_not_at_all(
    what: str, victim: str, seed: int, server: Cluster
):
    place = Place(server=server, org=f"{what} {victim} {seed}")
    story = delivery(what, seed)
    async with place.open() as (app, _):
        await app.ingest_batch(story.before)
        await app.drain()

    acknowledged = await do_until_killed(place, what, victim, seed=seed, deeds=len(story.batches))

    async with place.open() as (app, admin):
        assert await (await admin.execute("show fsync")).fetchone() == ("on",)
        texts = await stored_texts(admin, app)
        there = {int(message) for (room, message), _ in texts if room == MARKS}
        must, may = expected_there(story, acknowledged)
        assert must <= there <= may
        assert texts == sorted(current_texts(story.records(there)).items())
        assert await faults(admin, app.org_id) == {}

        other = await undisturbed(app)
        await other.ingest_batch(story.records(there))
        assert await contrast(admin, app, other, but=AT_LEISURE) == {}

        await bring_again(app, story.records(), seed)
        await other.ingest_batch(story.records())
        await finish_work(admin, app, other)
        assert await contrast(admin, app, other) == {}
        assert await faults(admin, app.org_id) == {}


def traces(records: Sequence[IncomingMessage], gone: Sequence[Erasure]) -> list[str]:
    """Return words that stand in what was erased and nowhere else."""
    taken = {record.order for record in records if any(erasure.takes(record) for erasure in gone)}
    words = chain.from_iterable((f"unique{n:04}", f"raw{n:04}", f"picture{n:04}") for n in sorted(taken))
    return [*words, *(erasure.word for erasure in gone if erasure.kind == "person")]


async def left_of(
    admin: psycopg.AsyncConnection, app: App, records: Sequence[IncomingMessage], gone: Sequence[Erasure]
) -> list[str]:
    """Return which traces of what was erased are anywhere in the database."""
    held = await everything(admin, app.org_id)
    return [word for word in traces(records, gone) if word in held]


@pytest.mark.parametrize(("seed", "victim"), list(enumerate(VICTIMS)))
async def test_after_a_kill_an_erasure_has_happened_altogether_or_not_at_all(
    victim: str, seed: int, server: Cluster
):
    place = Place(server=server, org=f"erase {victim} {seed}")
    records, to_erase = Teller(MESSAGES, seed).records(), erasures(seed)
    async with place.open() as (app, admin):
        await app.ingest_batch(records)
        assert len(await left_of(admin, app, records, to_erase)) > 50

    acknowledged = await do_until_killed(place, "erase", victim, seed=seed, deeds=len(to_erase))

    async with place.open() as (app, admin):
        receipts = await rows(
            admin, "select id, checks is not null from receipts where org_id = %s order by id", app
        )
        gone, to_come = to_erase[: len(receipts)], to_erase[len(receipts) :]
        assert acknowledged == list(range(len(acknowledged)))
        assert len(acknowledged) <= len(gone) <= len(acknowledged) + 1
        assert all(is_checked for _, is_checked in receipts[: len(acknowledged)])
        assert await left_of(admin, app, records, gone) == []
        assert await faults(admin, app.org_id) == {}

        other = await undisturbed(app)
        await other.ingest_batch(records)
        for erasure in gone:
            await erasure.carry_out(other)
        assert await contrast(admin, app, other, but=AT_LEISURE) == {}

        for receipt_id, _ in receipts:
            assert (await app.erasure.verify(str(receipt_id))).is_clean
        await bring_again(app, records, seed)
        assert await left_of(admin, app, records, gone) == []
        assert await contrast(admin, app, other, but=AT_LEISURE) == {}

        for erasure in to_come:
            assert (await erasure.carry_out(app)).is_clean
            await erasure.carry_out(other)
        await finish_work(admin, app, other)
        assert await contrast(admin, app, other, but={"receipts"}) == {}
        assert await left_of(admin, app, records, to_erase) == []
        assert await faults(admin, app.org_id) == {}
