"""What a copy proposes changes nothing about who sees what: the server is real, or the engine of a real one."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import Phase, given, settings

from db.test_visibility import crawl, generated
from db.worlds import World, load, truth, worlds
from ingest.stories import APART, at, author, message, room
from projections.qdrant.conftest import server, shim  # noqa: F401  fixtures
from projections.qdrant.running import Shim
from roomlore.db import projections
from roomlore.db.search import SearchFilter, context_window
from roomlore.domain.records import Viewer
from roomlore.operations import App
from roomlore.operations.candidates import (
    BREAKER_SECONDS,
    UNAVAILABLE,
    CandidateSource,
    CircuitBreaker,
    ProjectionClients,
)
from roomlore.projections.qdrant import open_qdrant
from roomlore.search.message_search import SearchQuery
from roomlore.settings import QdrantSettings
from scenarios.kilnhouse import TOLD


class Clock:
    """Stands still until it is told otherwise."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@asynccontextmanager
async def through(app: App, url: str, key: str | None, clock: Clock | None = None) -> AsyncGenerator[App]:
    """Give the same org with a server for copies, and leave no copies behind."""
    servers = ProjectionClients(breaker=CircuitBreaker(clock=clock or Clock()))
    copied = replace(
        app,
        settings=replace(app.settings, qdrant=QdrantSettings(url=url, key=key)),
        _projection_clients=servers,
    )
    try:
        yield copied
    finally:
        await copied.projections.drop("qdrant")
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
        await copied.projections.rebuild("qdrant")
        assert (await copied.projections.diff("qdrant")).count == 0
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
    async with app.db.read_transaction(app.operator) as conn:
        (held,) = await projections.all_projections(conn, app.org_id)
        ids = await projections.ids_after(conn, app.org_id, None, limit=100)
        points = await projections.points(conn, app.org_id, ids, model=held.model, version=1_000_000)
    writing = open_qdrant(url)
    await writing.put(
        held.index_name,
        [replace(one, kind="message", audience=None, room_id=rooms["general"]) for one in points],
    )
    await writing.close()


def said(found) -> set[str]:
    return {one.body for hit in found.hits for one in hit.messages}


async def test_a_tampered_copy_shows_nobody_what_they_may_not_see(app: App, shim: Shim):  # noqa: F811
    shim.start()
    ana, cy = await settle(app)
    async with through(app, shim.url, None) as copied:
        await copied.projections.rebuild("qdrant")
        assert "the boat is green" in said(await copied.search(ana, "boat"))
        await tamper(copied, shim.url)

        found = await copied.search(cy, "boat")

        assert "the boat is red" in said(found)
        assert not said(found) & {"the boat is green", "the boat is blue"}


async def test_what_went_before_the_copy_was_told_is_not_shown(app: App, shim: Shim):  # noqa: F811
    shim.start()
    ana, _ = await settle(app)
    async with through(app, shim.url, None) as copied:
        await copied.projections.rebuild("qdrant")
        found = await copied.search(ana, "boat")
        red: UUID = next(one.id for hit in found.hits for one in hit.messages if "red" in one.body)
        await app.erasure.message(str(red))

        assert "the boat is red" not in said(await copied.search(ana, "boat"))


async def test_without_the_server_the_database_answers_and_the_result_says_so(app: App, shim: Shim):  # noqa: F811
    shim.start()
    clock = Clock()
    ana, _ = await settle(app)
    async with through(app, shim.url, None, clock) as copied:
        await copied.projections.rebuild("qdrant")
        before = await copied.search(ana, "boat")
        shim.kill()

        found, answer = await copied.search(ana, "boat"), await copied.ask(ana, "what colour is the boat?")

        assert said(found) == said(before)
        assert UNAVAILABLE in found.degraded
        assert UNAVAILABLE in answer.degraded
        await app.ingest_batch(
            [message("9", "the boat is yellow", author=author("ana"), sent_at=at(2 * APART))]
        )
        drained = await copied.drain()
        assert drained.failing == ["qdrant: Qdrant cannot be reached"]
        (state,) = await copied.projections.status()
        assert state.failing_since is not None
        assert state.waiting == 1
        shim.start()
        await copied.drain()
        assert UNAVAILABLE in (await copied.search(ana, "boat")).degraded, "it rests"
        clock.seconds += BREAKER_SECONDS
        assert UNAVAILABLE not in (await copied.search(ana, "boat")).degraded
        assert "the boat is yellow" in said(await copied.search(ana, "boat"))


async def proposed(app: App, viewer: Viewer, text: str) -> SearchQuery:
    """What a copy proposes for a question without a vector, so by its words alone."""
    proposing = CandidateSource(
        access=app.access, settings=app.settings, projection_clients=app._projection_clients
    )
    copy, _ = await proposing.readable_index()
    question = SearchQuery(text=text, vector=None)
    assert copy is not None
    async with app.db.read_transaction(viewer, apply_restrictions=True) as conn:
        seen = await proposing.build_query(conn, question, copy)
    question, degraded = await proposing.add_candidates(
        question, copy, query=seen, search_filters=[SearchFilter()], limit=20
    )
    assert degraded == ()
    return question


async def test_words_are_looked_for_in_the_copy_and_nobody_is_offered_more_than_they_may_read(
    app: App,
    shim: Shim,  # noqa: F811
):
    shim.start()
    ana, cy = await settle(app)
    async with through(app, shim.url, None) as copied:
        await copied.projections.rebuild("qdrant")
        everything = await app.search(ana, "boat", limit=9)
        ids = {one.body: one.id for hit in everything.hits for one in hit.messages}
        for viewer, offered in ((ana, {"red", "green", "blue"}), (cy, {"red"})):
            question = await proposed(copied, viewer, "a boat, a boat!")
            assert question.dense == []
            ((_, found),) = question.lexical
            assert set(found) == {ids[f"the boat is {colour}"] for colour in offered}


@pytest.mark.slow
async def test_words_and_meaning_lead_to_the_same_finds_with_a_copy_and_without(
    house: App,
    server: tuple[str, str | None],  # noqa: F811
):
    async with through(house, *server) as copied:
        await copied.projections.rebuild("qdrant")
        for name in ("mara", "ines", "quill"):
            viewer = await house.viewer(name)
            for question in [one.body for one in TOLD]:
                with_copy = await copied.search(viewer, question, limit=9)
                assert UNAVAILABLE not in with_copy.degraded
                assert with_copy.hits == (await house.search(viewer, question, limit=9)).hits
                assert with_copy.hits, "there is something to compare"


async def test_a_copy_counts_words_as_the_database_does(house: App):
    async with house.db.read_transaction(house.operator) as conn:
        ids = await projections.ids_after(conn, house.org_id, None, limit=100)
        points = await projections.points(conn, house.org_id, ids, model="none", version=1)
        lexemes = sorted({lexeme for one in points for lexeme in one.lexemes})
        rows = await context_window(
            conn, ids, lexemes=lexemes, vector=None, search_filter=SearchFilter(), reach=0
        )
    counted = {
        row.message_id: {key: count for key, count in zip(lexemes, row.counts or (), strict=False) if count}
        for row in rows
    }
    assert counted == {one.id: dict(one.lexemes) for one in points}
    assert {row.message_id: row.size for row in rows} == {one.id: len(one.lexemes) for one in points}


async def test_what_the_copy_was_not_told_yet_is_found_by_its_words(app: App, shim: Shim):  # noqa: F811
    shim.start()
    ana, cy = await settle(app)
    async with through(app, shim.url, None) as copied:
        await copied.projections.rebuild("qdrant")
        attic = room("attic", visibility="members", members=())
        await app.ingest_batch(
            [
                message("11", "the zeppelin is moored", author=author("ana")),
                message("12", "the zeppelin is empty", author=author("bo"), kind="whisper", audience=()),
                message("13", "the zeppelin is in the attic", author=author("ana"), room=attic),
            ]
        )
        aloud, in_the_attic = "the zeppelin is moored", "the zeppelin is in the attic"

        found = await copied.search(cy, "zeppelin")

        assert UNAVAILABLE not in found.degraded
        assert aloud in said(found)
        assert "the zeppelin is empty" not in said(found)
        assert in_the_attic not in said(found)
        assert {aloud, in_the_attic} <= said(await copied.search(ana, "zeppelin"))


async def test_a_copy_that_lacks_more_than_can_be_looked_through_is_not_asked(
    app: App,
    shim: Shim,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
):
    shim.start()
    ana, _ = await settle(app)
    async with through(app, shim.url, None) as copied:
        await copied.projections.rebuild("qdrant")
        proposing = CandidateSource(
            access=copied.access, settings=copied.settings, projection_clients=copied._projection_clients
        )
        monkeypatch.setattr("roomlore.operations.candidates.MAX_UNINDEXED", 2)
        for number, is_asked in ((21, True), (22, True), (23, False)):
            await app.ingest_batch([message(f"{number}", f"zeppelin {number}", author=author("ana"))])
            assert ((await proposing.readable_index())[0] is not None) == is_asked
            assert f"zeppelin {number}" in said(await copied.search(ana, "zeppelin"))
        await copied.drain()
        assert (await proposing.readable_index())[0] is not None


async def test_a_copy_that_lies_about_words_makes_no_reasons(app: App, shim: Shim):  # noqa: F811
    shim.start()
    ana, cy = await settle(app)
    async with through(app, shim.url, None) as copied:
        await copied.projections.rebuild("qdrant")
        async with app.db.read_transaction(app.operator) as conn:
            (held,) = await projections.all_projections(conn, app.org_id)
            ids = await projections.ids_after(conn, app.org_id, None, limit=100)
            points = await projections.points(conn, app.org_id, ids, model=held.model, version=1_000_000)
        writing = open_qdrant(shim.url)
        await writing.put(held.index_name, [replace(one, lexemes={"heron": 9}) for one in points])
        await writing.close()
        for viewer in (ana, cy):
            found = await copied.search(viewer, "heron")
            assert [why.terms for hit in found.hits for why in hit.why.values() if why.terms] == []
            assert said(found) <= said(await app.search(viewer, "heron"))


async def test_a_server_that_hangs_is_waited_for_once_and_left_alone_until_it_has_rested(
    app: App,
    shim: Shim,  # noqa: F811
):
    shim.start()
    clock = Clock()
    ana, _ = await settle(app)
    async with through(app, shim.url, None, clock) as copied:
        await copied.projections.rebuild("qdrant")
        before = said(await copied.search(ana, "boat"))
        shim.restart("--slow", "60")
        assert UNAVAILABLE in (await copied.search(ana, "boat")).degraded
        # It would answer now; but nobody asks.
        shim.restart()
        clock.seconds += BREAKER_SECONDS - 1
        found = await copied.search(ana, "boat")
        assert UNAVAILABLE in found.degraded
        assert UNAVAILABLE in (await copied.ask(ana, "what colour is the boat?")).degraded
        assert said(found) == before
        clock.seconds += 1
        assert UNAVAILABLE not in (await copied.search(ana, "boat")).degraded
        assert UNAVAILABLE not in (await copied.search(ana, "boat")).degraded
