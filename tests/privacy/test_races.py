"""Whoever writes while something is erased comes before it or after it, and brings nothing back."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import psycopg
import pytest

from ingest.stories import at, author, message
from privacy.village import ANA, changes, dump, participant, settle, told
from roomlore.db.database import Database
from roomlore.db.erasure_guard import lock_exclusive
from roomlore.domain.errors import BadInput
from roomlore.domain.vectors import Vectors
from roomlore.ingest import accept as accept_module
from roomlore.ingest.accept import IngestResult, accept
from roomlore.ingest.erasure_filter import ERASED_REASON
from roomlore.jobs import runner
from roomlore.jobs.embedding import EmbeddingWorker
from roomlore.models.fake import FakeEmbedder
from roomlore.operations import App
from roomlore.privacy.erasure import erase
from roomlore.privacy.erasure_receipts import ErasureRequest

WAITING = "select count(*) from pg_locks where locktype = 'advisory' and not granted"


async def until_one_waits(admin: psycopg.AsyncConnection) -> None:
    async with asyncio.timeout(120):
        while await (await admin.execute(WAITING)).fetchone() == (0,):
            pass  # each question gives way to who is to wait


async def around(app: App, admin, first: Callable[..., Awaitable[object]], then: Awaitable[object]):
    """Do one thing in a transaction that ends only once another waits for it; return what both return."""
    task: asyncio.Task[object] | None = None

    async def work(conn) -> object:
        nonlocal task
        result = await first(conn)
        task = asyncio.ensure_future(then)
        await until_one_waits(admin)
        return result

    try:
        done = await app.db.change(app.org_id, work)
    except TimeoutError:
        # Nobody waited: let the other end before the test does.
        assert task is not None
        await asyncio.wait([task], timeout=60)
        raise
    assert task is not None
    return done, await task


async def test_an_erasure_waits_for_what_is_arriving_and_takes_it(app: App, admin):
    await app.ingest(message("0", author=ANA))
    arriving = partial(accept, org_id=app.org_id, batch=[message("1", author=ANA)], received_at=at(9))

    accepted, receipt = await around(app, admin, arriving, app.erasure.person("ana"))

    assert isinstance(accepted, IngestResult)
    assert len(accepted.added) == 1
    assert receipt.is_clean
    assert sum(one.count for one in receipt.removed if one.what == "messages") == 2


async def test_what_arrives_during_an_erasure_waits_and_is_left_out(app: App, admin):
    await app.ingest(message("0", author=ANA))
    asked = ErasureRequest(kind="person", participant_ids=[await participant(app, "ana")])
    erasing = partial(erase, org_id=app.org_id, request=asked, by=app.operator, dry_run=False)
    arriving = app.ingest_batch(
        [message("0", author=ANA), message("1", author=ANA), message("2", author=author("bo"))]
    )

    _, accepted = await around(app, admin, erasing, arriving)

    assert [one.reason for one in accepted.skipped] == [ERASED_REASON, ERASED_REASON]
    assert {one.name for one in await app.participants(app.operator)} == {"Bo"}


async def test_a_range_that_is_being_erased_takes_in_nothing(app: App, admin):
    await app.ingest(message("1"))
    [room] = await app.rooms(app.operator)
    asked = ErasureRequest(kind="range", room_id=room.id, since=at(0), until=at(5))
    erasing = partial(erase, org_id=app.org_id, request=asked, by=app.operator, dry_run=False)

    _, accepted = await around(
        app, admin, erasing, app.ingest_batch([message("1"), message("2"), message("6")])
    )

    assert [one.reason for one in accepted.skipped] == [ERASED_REASON, ERASED_REASON]
    assert [one.external_id for one in await app.messages(app.operator, "general")] == ["6"]


@pytest.mark.slow
async def test_many_writers_and_erasures_at_once_leave_nothing(app: App, admin):
    await settle(app)
    batches: Sequence[Sequence] = [told()[::-1], told(), told()[3:], told()[:9]]

    await asyncio.gather(
        *(app.ingest_batch(batch) for batch in batches),
        app.erasure.person("ana"),
        *(app.ingest_batch(batch) for batch in batches),
        app.erasure.range("general", since=at(7), until=at(9)),
        app.drain(),
    )

    held = await dump(admin, app)
    assert "ana" not in {row["account_id"] for row in held["platform_accounts"].values()}
    assert not [r for r in held["messages"].values() if r["author_name"].startswith("Ana")]
    assert not {"7", "8"} & {row["external_id"] for row in held["messages"].values()}
    assert all(receipt.is_clean for receipt in await app.erasure.receipts())
    await app.ingest_batch(told())
    assert changes(held, await dump(admin, app)).keys() <= {"message_embeddings", "work_queue"}


class Held(FakeEmbedder):
    """Embeds when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go = threading.Event(), threading.Event()

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.begun.set()
        assert self.go.wait(20)
        return super().embed(texts)


async def test_a_vector_that_is_being_made_is_not_written(app: App, db: Database, admin):
    erasures = (
        lambda: app.erasure.message("1"),
        lambda: app.erasure.range("general", since=at(2), until=at(3)),
        lambda: app.erasure.person("bo"),
    )
    await app.ingest_batch(
        [message("1", author=ANA), message("2", author=ANA), message("3", author=author("bo"))]
    )
    await app.ingest(message("4", "stays", author=ANA))
    embedder = Held()
    working = asyncio.create_task(runner.step(EmbeddingWorker(db=db, embedder=embedder)))
    assert await asyncio.to_thread(embedder.begun.wait, 20)
    for one in erasures:
        assert (await one()).is_clean
    embedder.go.set()
    await working
    held = await dump(admin, app)
    stays = [row["id"] for row in held["messages"].values() if row["external_id"] == "4"]
    assert [row["message_id"] for row in held["message_embeddings"].values()] == stays
    assert not [row for row in held["work_queue"].values() if row["queue"] == "embed"]


async def test_an_edit_beside_a_redaction_is_made_before_it_or_refused(app: App, admin):
    """Never acknowledged and dropped."""
    await settle(app)

    async def redact(conn) -> None:
        await lock_exclusive(conn, app.org_id)
        found = next(one for one in await app.messages(app.operator, "general") if one.external_id == "1")
        await accept_module.redact(conn, app.org_id, [found.id], redacted_at=at(100))

    async def edit() -> str:
        try:
            await app.intake.edit("1", "another text")
        except BadInput as error:
            return error.why
        return "made"

    _, became = await around(app, admin, redact, edit())

    assert became == "was removed"


async def test_an_edit_beside_a_redaction_by_the_platform_is_refused(app: App, admin):
    await settle(app)

    async def redact(conn) -> None:
        deleted = message("1", "", sent_at=at(1), deleted=True)
        await accept(conn, app.org_id, [deleted], received_at=at(100))

    async def edit() -> str:
        try:
            await app.intake.edit("1", "another text")
        except BadInput as error:
            return error.why
        return "made"

    _, became = await around(app, admin, redact, edit())

    assert became == "was removed"
