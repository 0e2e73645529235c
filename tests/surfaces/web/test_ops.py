"""The page of operations: for operators alone, honest about who works and what failed."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

import psycopg
import pytest
from playwright.async_api import Browser

from conftest import OpenApp
from jobs.copying import Shelf
from operations.village import ANA, SQUARE, say, village
from roomlore.db import work_queue
from roomlore.domain.errors import BackendUnavailable
from roomlore.domain.ids import uuid7
from roomlore.jobs import projection
from roomlore.jobs.projection import ProjectionWorker
from roomlore.jobs.scheduler import HeartbeatTask
from roomlore.operations import App, projection_service
from roomlore.web.routes import monitoring
from surfaces.web.conftest import visiting, window

DEEDS = {"/ops/retry": {}, "/ops/embedding": {"room": "square", "policy": "thread"}}


async def key_of(app: App, name: str | None) -> str:
    role = "operator" if name is None else "agent" if name == "pip" else "member"
    return (await app.keys.create(role, name="a key", participant=name)).key


async def seen_at(app: App, worker: UUID, at: timedelta) -> None:
    """Let a worker have been seen so long ago."""
    now = datetime.now(UTC)
    await app.db.change(
        app.org_id, partial(work_queue.record_heartbeat, org_id=app.org_id, worker_id=worker, started_at=now)
    )

    async def age(conn: psycopg.AsyncConnection) -> None:
        await conn.execute("update heartbeats set seen_at = now() - %s where worker_id = %s", [at, worker])

    await app.db.change(app.org_id, age)


@pytest.mark.parametrize("name", ["ana", "pip"])
async def test_it_is_for_operators_alone(app: App, name: str) -> None:
    await village(app)
    async with visiting(app, await key_of(app, name)) as visitor:
        assert 'href="/ops"' not in await visitor.page("/")
        for path in ("/ops", "/ops.json", "/ops?page=2"):
            told = await visitor.get(path)
            assert told.status_code == 403
            assert "cellar" not in told.text
        for path, said in DEEDS.items():
            assert (await visitor.send(path, **said)).status_code == 403
    async with visiting(app, await key_of(app, None)) as visitor:
        assert (await visitor.get(f"/ops?as={name}")).status_code == 403
        assert (await visitor.get(f"/ops.json?as={name}")).status_code == 403
        # The way there is not as another.
        assert 'href="/ops"' in await visitor.page(f"/?as={name}")


@pytest.mark.slow
async def test_each_room_has_its_line_and_the_twin_says_the_same(app: App) -> None:
    await village(app)
    await app.drain()
    async with visiting(app) as visitor:
        page, twin = await visitor.page("/ops"), await visitor.twin("/ops.json")
    numbers = await app.monitoring.statistics()
    assert [room["name"] for room in twin["rooms"]] == [room.name for room in numbers.rooms]
    for room in numbers.rooms:
        row = re.search(rf'href="/r/{room.room_id}".*?</tr>', page, re.DOTALL)
        assert row
        assert f'<td class="number">{room.counts.messages}</td>' in row[0]
        assert "no projection" in row[0]
    assert twin["counts"]["embedded"]["done"] == numbers.counts.vectors == 12


async def test_many_rooms_are_shown_page_by_page(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitoring, "SHOWN", 2)
    await village(app)
    async with visiting(app) as visitor:
        first, second = [await visitor.twin(f"/ops.json?page={number}") for number in (1, 2)]
        assert [len(first["rooms"]), len(second["rooms"])] == [2, 1]
        assert first["counts"]["messages"] == second["counts"]["messages"] == 12
        assert (await visitor.get("/ops?page=none")).status_code == 400


# Copies and models


@pytest.fixture(name="shelf")
def _shelf(monkeypatch: pytest.MonkeyPatch) -> Shelf:
    held = Shelf()
    monkeypatch.setattr(projection_service, "open_projection", lambda _settings, _target: held)
    return held


@pytest.mark.slow
async def test_copies_and_models_are_shown_with_what_waits_and_fails_and_no_address(
    app: App, shelf: Shelf
) -> None:
    await village(app)
    await app.drain()
    await app.projections.rebuild("qdrant")
    [copy] = shelf.held_copies
    async with visiting(app) as visitor:
        page = await visitor.page("/ops")
        assert f"<code>{copy}</code>" in page
        assert page.count("✓ no</span>") == 2
        assert "no projection" not in page
        await app.ingest(say(99, ANA, SQUARE))
        shelf.is_down = True
        worker = ProjectionWorker(db=app.db, projection=shelf, queue="qdrant")
        with pytest.raises(BackendUnavailable):
            await projection.drain(worker, only_org=app.org_id)
        page, twin = await visitor.page("/ops"), await visitor.twin("/ops.json")
    [told] = twin["projections"]
    assert (told["index_name"], told["waiting"], told["error"]) == (copy, 1, "the shelf fell down")
    square = next(room for room in twin["rooms"] if room["name"] == "square")
    assert square["counts"]["projected"][0]["waiting"] == 1
    assert "1 wait" in page
    assert re.search(r"! since <time[^>]*>[^<]*</time>: the shelf fell down", page)
    [current] = twin["embedding"]
    assert (current["state"], current["provider"], current["model"]) == (
        "current",
        "default",
        "fake-hash-384",
    )


@pytest.mark.slow
async def test_a_copy_that_is_being_built_is_shown_to_be(app: App, shelf: Shelf) -> None:
    await village(app)
    await app.drain()
    worker = ProjectionWorker(db=app.db, projection=shelf, queue="qdrant")
    await worker.build(app.org_id, model="fake-hash-384", dimensions=384)
    async with visiting(app) as visitor:
        page = await visitor.page("/ops")
        assert "collecting its content" in page
        assert "none yet; only the database" in page
        await worker.advance_build(app.org_id)
        assert "12 to write" in await visitor.page("/ops")


# Workers


@pytest.mark.slow
async def test_a_worker_is_seen_while_it_works_and_leaves_no_trace(app: App) -> None:
    stop, worker = asyncio.Event(), uuid7()
    pulse = HeartbeatTask(db=app.db, worker_id=worker, started_at=datetime.now(UTC), interval=0.02)
    running = asyncio.create_task(pulse.run(stop))
    async with visiting(app) as visitor, asyncio.timeout(30):
        while not (found := (await visitor.twin("/ops.json"))["workers"]):
            pass
        assert [one["worker"]["worker_id"] for one in found] == [str(worker)]
        assert found[0]["is_alive"]
        first = found[0]["worker"]["seen_at"]
        while (await visitor.twin("/ops.json"))["workers"][0]["worker"]["seen_at"] == first:
            pass
        assert "✓ at work" in await visitor.page("/ops")
        stop.set()
        await running
        assert (await visitor.twin("/ops.json"))["workers"] == []
        assert "No worker was seen" in await visitor.page("/ops")


async def test_a_worker_that_vanished_is_said_to_be_missed_and_forgotten_after_a_day(app: App) -> None:
    gone, lately, long_gone = uuid7(), uuid7(), uuid7()
    await seen_at(app, gone, timedelta(minutes=5))
    async with visiting(app) as visitor:
        twin = await visitor.twin("/ops.json")
        assert [(one["worker"]["worker_id"], one["is_alive"]) for one in twin["workers"]] == [
            (str(gone), False)
        ]
        page = await visitor.page("/ops")
        assert "! not seen" in page
        assert "! none" in page
    await seen_at(app, long_gone, timedelta(hours=25))
    await seen_at(app, lately, timedelta(seconds=1))
    workers = (await app.monitoring.job_state()).workers
    assert [one.worker_id for one in workers] == [lately, gone]


async def test_one_worker_is_seen_by_every_org_and_none_sees_anothers(app: App, open_app: OpenApp) -> None:
    other = await open_app("other")
    await seen_at(other, uuid7(), timedelta(0))
    assert (await app.monitoring.job_state()).workers == []


# What failed


async def fail(admin: psycopg.AsyncConnection, app: App) -> None:
    await admin.execute(
        "update work_queue set dead_lettered_at = now(), error = 'ValueError', failures = 5 where org_id = %s and queue = 'embed'",
        [app.org_id],
    )


async def test_what_was_set_aside_is_told_by_its_kind_and_tried_again(
    app: App, admin: psycopg.AsyncConnection
) -> None:
    await village(app)
    await fail(admin, app)
    async with visiting(app) as visitor:
        [failure] = (await visitor.twin("/ops.json"))["failures"]
        assert (failure["queue"], failure["error"], failure["count"]) == ("embed", "ValueError", 12)
        assert "ValueError" in await visitor.page("/ops")
        told = await visitor.send("/ops/retry", on="/ops")
        assert told.headers["location"] == "/ops?done=retried"
        assert "will run again" in await visitor.page("/ops?done=retried")
        assert (await visitor.twin("/ops.json"))["failures"] == []
    assert (await app.waiting()).waiting == 12


async def test_conversations_that_broke_whoever_went_through_them_are_told_too(
    app: App, admin: psycopg.AsyncConnection
) -> None:
    await village(app)
    await app.drain()
    await admin.execute(
        "update conversations set extraction_error = 'KeyError' where org_id = %s", [app.org_id]
    )
    failures = (await app.monitoring.job_state()).failures
    assert [(one.queue, one.error) for one in failures] == [("extract", "KeyError")]


async def test_what_failed_elsewhere_is_not_told(
    app: App, open_app: OpenApp, admin: psycopg.AsyncConnection
) -> None:
    other = await village(await open_app("other"))
    await fail(admin, other)
    assert (await app.monitoring.job_state()).failures == []


# What rooms embed


@pytest.mark.slow
async def test_an_operator_says_what_a_room_embeds(app: App) -> None:
    await village(app)
    async with visiting(app) as visitor:
        told = await visitor.send("/ops/embedding", on="/ops", room="square", policy="thread")
        assert told.headers["location"] == "/ops?done=embedding"
        rooms = (await visitor.twin("/ops.json"))["rooms"]
        assert {room["name"]: room["embedding_policy"] for room in rooms}["square"] == "thread"
        for said in ({"room": "square", "policy": "none"}, {"policy": "message"}, {"room": "square"}):
            assert (await visitor.send("/ops/embedding", on="/ops", **said)).status_code == 400
        assert (await visitor.send("/ops/embedding", room="x", policy="message")).status_code == 404


# Sizes


async def test_sizes_are_for_whoever_runs_the_database_and_not_for_one_of_its_orgs(app: App) -> None:
    await village(app)
    async with visiting(app) as local, visiting(app, await key_of(app, None)) as operator:
        sizes = (await local.twin("/ops.json"))["sizes"]
        assert sizes[0]["what"] == "database"
        assert "messages" in {size["what"] for size in sizes}
        assert all(size["bytes"] > 0 for size in sizes)
        assert (await operator.twin("/ops.json"))["sizes"] is None
        assert "Sizes" not in await operator.page("/ops")


# For everybody


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_everybody_can_use_the_page_of_operations(
    app: App, browser: Browser, admin: psycopg.AsyncConnection, theme: str
) -> None:
    await village(app)
    async with window(browser, app, theme=theme) as seen:
        await seen.open("/ops")
        assert await seen.violations() == []
        await app.drain()
        await app.search(app.operator, "village")
        await seen_at(app, uuid7(), timedelta(0))
        await seen_at(app, uuid7(), timedelta(hours=1))
        await admin.execute(
            "insert into work_queue (org_id, queue, subject_id, dead_lettered_at, error)"
            " select org_id, 'embed', id, now(), 'ValueError' from messages where org_id = %s",
            [app.org_id],
        )
        page = await seen.open("/ops")
        assert await seen.violations() == []
        assert seen.faults == []
        await page.set_viewport_size({"width": 400, "height": 800})
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        button = page.get_by_role("button", name="Run all again")
        await button.focus()
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/ops?done=retried")
        assert await page.text_content("[role=status]") == "The failed jobs will run again."
