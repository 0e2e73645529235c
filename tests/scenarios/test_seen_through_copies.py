"""What a copy proposes changes nothing about who sees what: the server is real, or the engine of a real one."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import Phase, given, settings

from backends.qdrant.conftest import server, shim  # noqa: F401  fixtures
from backends.qdrant.running import Shim
from ingest.stories import author, message, room
from roomlore.app import App
from roomlore.app.proposing import UNAVAILABLE, Servers
from roomlore.backends.qdrant import open_qdrant
from roomlore.config import QdrantSettings
from roomlore.domain.records import Viewer
from roomlore.store import projections
from store.test_visibility import crawl, generated
from store.worlds import World, load, truth, worlds


@asynccontextmanager
async def through(app: App, url: str, key: str | None) -> AsyncGenerator[App]:
    """Give the same org with a server for copies, and leave no copies behind."""
    servers = Servers()
    copied = replace(
        app, settings=replace(app.settings, qdrant=QdrantSettings(url=url, key=key)), _servers=servers
    )
    yield copied
    await copied.projecting.drop("qdrant")
    await servers.close()


async def answers(app: App, viewer: Viewer, world: World) -> dict[str, str]:
    answers = await crawl(app, viewer, world)
    # Asking twice leaves two lines.
    del answers["log"]
    # A copy knows no places in a room: it proposes more than stands before one, and so may find more.
    return {key: repr(answer) for key, answer in answers.items() if not key.startswith("as of")}


@pytest.mark.slow
@settings(parent=generated, max_examples=2, phases=[Phase.generate])
@given(world=worlds())
async def test_every_answer_is_the_same_with_a_copy_and_without(world: World, open_app, admin, server):  # noqa: F811
    app = await open_app("copied")
    await load(app, world)
    await app.drain()
    held = await truth(admin, app)
    async with through(app, *server) as copied:
        await copied.projecting.rebuild("qdrant")
        assert (await copied.projecting.diff("qdrant")).count == 0
        for account in sorted(held.accounts)[:4]:
            viewer = await app.viewer(account)
            with_copy = await answers(copied, viewer, world)
            without = await answers(app, viewer, world)
            assert {key: one for key, one in with_copy.items() if one != without[key]} == {}


async def settle(app: App) -> tuple[Viewer, Viewer]:
    """Say something aloud, in a closed room and in a whisper; return who hears all, and who only the first."""
    attic = room("attic", visibility="members", members=())
    ana, bo, cy = author("ana"), author("bo"), author("cy")
    await app.ingest_batch(
        [
            message("1", "the boat is red", author=ana),
            message("2", "the boat is green", author=bo, kind="whisper", audience=(ana,)),
            message("3", "the boat is blue", author=ana, room=attic),
            message("4", "good morning", author=cy),
        ]
    )
    await app.drain()
    return await app.viewer("ana"), await app.viewer("cy")


async def tamper(app: App, url: str) -> None:
    """Let the copy say that everything was said aloud in an open room."""
    rooms = {one.name: one.id for one in await app.rooms(app.operator)}
    async with app.db.reading(app.operator) as conn:
        (held,) = await projections.all_of(conn, app.org_id)
        ids = await projections.ids_after(conn, app.org_id, None, limit=100)
        points = await projections.points(conn, app.org_id, ids, model=held.model, version=1_000_000)
    writing = open_qdrant(url)
    await writing.put(
        held.copy,
        [replace(one, kind="message", audience=None, room_id=rooms["general"]) for one in points],
    )
    await writing.close()


def said(found) -> set[str]:
    return {one.body for hit in found.hits for one in hit.messages}


async def test_a_tampered_copy_shows_nobody_what_they_may_not_see(app: App, shim: Shim):  # noqa: F811
    shim.start()
    ana, cy = await settle(app)
    async with through(app, shim.url, None) as copied:
        await copied.projecting.rebuild("qdrant")
        assert "the boat is green" in said(await copied.search(ana, "boat"))
        await tamper(copied, shim.url)

        found = await copied.search(cy, "boat")

        assert "the boat is red" in said(found)
        assert not said(found) & {"the boat is green", "the boat is blue"}


async def test_what_went_before_the_copy_was_told_is_not_shown(app: App, shim: Shim):  # noqa: F811
    shim.start()
    ana, _ = await settle(app)
    async with through(app, shim.url, None) as copied:
        await copied.projecting.rebuild("qdrant")
        found = await copied.search(ana, "boat")
        red: UUID = next(one.id for hit in found.hits for one in hit.messages if "red" in one.body)
        await app.erasure.message(str(red))

        assert "the boat is red" not in said(await copied.search(ana, "boat"))


async def test_without_the_server_the_database_answers_and_the_result_says_so(app: App, shim: Shim):  # noqa: F811
    shim.start()
    ana, _ = await settle(app)
    async with through(app, shim.url, None) as copied:
        await copied.projecting.rebuild("qdrant")
        before = await copied.search(ana, "boat")
        shim.kill()

        found, answer = await copied.search(ana, "boat"), await copied.ask(ana, "what colour is the boat?")

        assert said(found) == said(before)
        assert UNAVAILABLE in found.degraded
        assert UNAVAILABLE in answer.degraded
        await app.ingest_batch([message("9", "the boat is yellow", author=author("ana"))])
        drained = await copied.drain()
        assert drained.failing == ["qdrant: Qdrant cannot be reached"]
        (state,) = await copied.projecting.status()
        assert state.failing_since is not None
        assert state.waiting == 1
        shim.start()
        await copied.drain()
        assert UNAVAILABLE not in (await copied.search(ana, "boat")).degraded
        assert "the boat is yellow" in said(await copied.search(ana, "boat"))
