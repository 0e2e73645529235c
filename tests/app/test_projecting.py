"""Copies as an operator keeps them, and what a search makes of what they propose."""

from dataclasses import replace

import psycopg
import pytest

from ingest.stories import at, author, message, room
from roomlore.app import App
from roomlore.app import projecting as composition
from roomlore.app.projecting import Projecting
from roomlore.app.proposing import Proposing, Servers
from roomlore.config import QdrantSettings
from roomlore.domain.errors import BackendUnavailable, BadInput, NotAllowed, NotFound
from roomlore.domain.ids import MessageId, uuid7
from roomlore.workers import project
from roomlore.workers.project import ProjectWorker
from workers.copying import Shelf, expected, on
from workers.rooms import busy_room


@pytest.fixture(name="shelf")
def _shelf(monkeypatch: pytest.MonkeyPatch) -> Shelf:
    held = Shelf()
    monkeypatch.setattr(composition, "open_projection", lambda _settings, _target: held)
    return held


async def told(app: App) -> Projecting:
    await app.ingest_batch(busy_room(7, 40))
    await app.drain()
    return app.projecting


@pytest.mark.usefixtures("shelf")
async def test_a_rebuilt_copy_is_read_and_differs_in_nothing(app: App) -> None:
    projecting = await told(app)

    built = await projecting.rebuild("qdrant")

    assert (built.is_ready, built.is_building, built.waiting, built.set_aside) == (True, False, 0, 0)
    assert built.model == "fake-hash-384"
    found = await projecting.diff("qdrant")
    assert found.count == 0
    assert found.compared == len(await expected(app, "fake-hash-384")) > 0


async def test_a_difference_is_found_and_repaired(app: App, shelf: Shelf) -> None:
    projecting = await told(app)
    await projecting.rebuild("qdrant")
    (copy,) = shelf.held_copies
    held = shelf.held_copies[copy]
    first, second, third, *_ = sorted(held)
    stray = replace(held[first], id=MessageId(uuid7()))
    held[second] = replace(held[second], author_name="Somebody else")
    held[stray.id] = stray
    del held[third]

    found = await projecting.diff("qdrant")

    assert (found.missing, found.extra, found.different) == ([third], [stray.id], [second])
    assert not found.is_repaired
    repaired = await projecting.diff("qdrant", repair=True)
    assert repaired.is_repaired
    assert (await projecting.diff("qdrant")).count == 0, "what is asked for does not differ, it waits"
    await project.drain(ProjectWorker(db=app.db, projection=shelf, stage="qdrant"), only_org=app.org_id)
    assert on(shelf, copy) == await expected(app, "fake-hash-384")


async def test_a_copy_that_was_wiped_is_told_of_and_built_anew(app: App, shelf: Shelf) -> None:
    projecting = await told(app)
    await projecting.rebuild("qdrant")
    shelf.held_copies.clear()

    with pytest.raises(BackendUnavailable, match="gone"):
        await projecting.diff("qdrant")

    await projecting.rebuild("qdrant")
    assert (await projecting.diff("qdrant")).count == 0


async def test_dropped_copies_are_gone_and_nothing_is_asked_for_any_more(app: App, shelf: Shelf) -> None:
    projecting = await told(app)
    await projecting.rebuild("qdrant")
    await app.ingest_batch([message("later", "one more", author=author("ann"), sent_at=at(9000))])

    await projecting.drop("qdrant")

    assert shelf.held_copies == {}
    assert await projecting.status() == []
    with pytest.raises(NotFound):
        await projecting.diff("qdrant")


async def test_another_orgs_copies_stay(app: App, shelf: Shelf) -> None:
    shelf.held_copies["0190aaaabbbbccccddddeeeeffff0000-1"] = {}
    projecting = await told(app)
    await projecting.rebuild("qdrant")
    await projecting.rebuild("qdrant")

    await projecting.drop("qdrant")

    assert list(shelf.held_copies) == ["0190aaaabbbbccccddddeeeeffff0000-1"]


async def test_copies_are_the_operators(app: App, shelf: Shelf) -> None:
    await app.ingest_batch([message("1", "hello", room=room(visibility="open"))])
    member = app.acting(await app.viewer("Ana"))

    for call in (
        member.projecting.status(),
        member.projecting.rebuild("qdrant"),
        member.projecting.diff("qdrant"),
        member.projecting.drop("qdrant"),
    ):
        with pytest.raises(NotAllowed):
            await call
    assert shelf.held_copies == {}


async def test_a_server_nobody_configured_is_told_of(app: App) -> None:
    with pytest.raises(BadInput, match="ROOMLORE_QDRANT_URL"):
        await app.projecting.rebuild("qdrant")
    with pytest.raises(BadInput, match="must be one of"):
        await app.projecting.rebuild("excel")


@pytest.mark.usefixtures("shelf")
async def test_a_copy_that_lags_or_lacks_something_is_not_asked(
    app: App, admin: psycopg.AsyncConnection
) -> None:
    projecting = await told(app)
    await projecting.rebuild("qdrant")
    settings = replace(app.settings, qdrant=QdrantSettings(url="http://127.0.0.1:9"))
    proposing = Proposing(desk=app.desk, settings=settings, servers=Servers())
    assert await proposing.copy() is not None

    await app.ingest_batch([message("later", "one more", author=author("ann"), sent_at=at(9000))])
    assert await proposing.copy() is not None, "for half a minute"
    await admin.execute(
        "update roomlore.work set asked_at = now() - interval '31 seconds' where org_id = %s", [app.org_id]
    )
    assert await proposing.copy() is None
    await admin.execute(
        "update roomlore.work set asked_at = now(), set_aside_at = now() where org_id = %s", [app.org_id]
    )
    assert await proposing.copy() is None
