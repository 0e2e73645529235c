"""Memories get their vectors from the work that gives messages theirs, and lose them with what they were made of."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace

import psycopg
import pytest

from ingest.stories import at, message
from jobs.models import SHORT, SMALL, Moody, served, states, waiting
from jobs.test_embed import Watched, begun
from roomlore.domain.records import Memory
from roomlore.jobs import runner
from roomlore.jobs.embedding import EmbeddingWorker
from roomlore.operations import App

OpenApp = Callable[[str], Awaitable[App]]

OLD, NEW = "fake-hash-384", f"fake-hash-{SHORT}"
TEA, COFFEE = "The skipper prefers tea.", "The skipper prefers coffee."


async def remembered(admin: psycopg.AsyncConnection, app: App) -> dict[str, set[str]]:
    """Return which memories have a vector, by what they say, of which model."""
    rows = await admin.execute(
        """select model, array_agg(content) from memory_embeddings
           join memories on memories.org_id = memory_embeddings.org_id and memories.id = memory_id
           where memories.org_id = %s group by model""",
        [app.org_id],
    )
    return {model: set(contents) for model, contents in await rows.fetchall()}


async def told(app: App) -> App:
    await app.ingest_batch([message(str(number), f"thing number {number}") for number in range(3)])
    await app.drain()
    return app


@pytest.fixture(name="old")
def _old() -> Moody:
    return Moody(384)


@pytest.fixture(name="new")
def _new() -> Moody:
    return Moody()


@pytest.fixture(name="both")
async def _both(app: App, old: Moody, new: Moody) -> App:
    return await told(served(app, old, small=new))


async def held_up(app: App, change: Callable[[], Awaitable[object]]) -> None:
    """Change something after a worker has taken a memory and before it has written its vector."""
    embedder = Watched(go=threading.Event())
    working = asyncio.create_task(runner.step(EmbeddingWorker(db=app.db, embedder=embedder)))
    await begun(embedder)
    await change()
    assert embedder.go is not None
    embedder.go.set()
    await working


async def made(app: App, content: str = TEA, **details) -> Memory:
    return await app.memories.remember(content, sources=["1"], **details)


@pytest.mark.slow
async def test_a_memory_is_embedded_by_what_it_says_and_once(both: App, old: Moody, admin):
    old.seen.clear()
    await made(both, title="A drink", tags=["harbour"])
    assert await waiting(admin, both) == {"embed": 1}

    assert (await both.drain()).done == 1

    assert await remembered(admin, both) == {OLD: {TEA}}
    assert await waiting(admin, both) == {}
    assert (await both.drain()).done == 0
    assert old.seen == [TEA]


@pytest.mark.slow
async def test_what_is_stated_again_asks_for_nothing(both: App, admin):
    await made(both)
    await both.drain()
    await both.memories.remember(TEA, sources=["2"])
    assert await waiting(admin, both) == {}
    assert await remembered(admin, both) == {OLD: {TEA}}


@pytest.mark.slow
async def test_what_is_corrected_keeps_its_vector_as_history(both: App, admin):
    old = await made(both)
    await both.drain()
    await both.memories.correct(str(old.id), COFFEE)
    assert await waiting(admin, both) == {"embed": 1}
    await both.drain()
    assert await remembered(admin, both) == {OLD: {TEA, COFFEE}}


@pytest.mark.slow
async def test_what_is_put_aside_loses_vector_and_work_and_gets_them_back(both: App, admin):
    known = await made(both)
    await both.drain()
    fresh = await made(both, COFFEE)
    assert await waiting(admin, both) == {"embed": 1}

    for one in (known, fresh):
        await both.memories.archive(str(one.id))

    assert (await remembered(admin, both), await waiting(admin, both)) == ({}, {})
    await both.drain()
    assert await remembered(admin, both) == {}, "no sweep asks for it"
    await both.memories.restore(str(known.id))
    await both.drain()
    assert await remembered(admin, both) == {OLD: {TEA}}


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("how", ["message", "redact", "range", "person"])
async def test_an_erasure_leaves_neither_vector_nor_work(both: App, admin, how):
    known = await made(both)
    await both.drain()
    await made(both, COFFEE)
    match how:
        case "message":
            receipt = await both.erasure.message("1")
        case "range":
            receipt = await both.erasure.range("general", until=at(100))
        case "person":
            receipt = await both.erasure.person("ana")
        case _:
            await both.erasure.redact("1")
            receipt = None
    assert (await remembered(admin, both), await waiting(admin, both)) == ({}, {})
    rows = await admin.execute("select 1 from memories where id = %s", [known.id])
    assert await rows.fetchall() == []
    if receipt is not None:
        assert receipt.is_clean
        removed = {one.what: one.count for one in receipt.removed}
        assert (removed["memories"], removed["memory embeddings"]) == (2, 1)


@pytest.mark.slow
async def test_whoever_erases_their_words_is_not_told_how_many_memories_had_vectors(both: App):
    await made(both)
    await both.drain()
    ana = both.impersonate(await both.viewer("ana"))
    receipt = await ana.erasure.message("1")
    assert {one.what for one in receipt.removed} == {"messages", "embeddings"}


@pytest.mark.slow
@pytest.mark.parametrize("how", ["erased", "put aside"])
async def test_what_goes_while_its_vector_is_made_has_none(both: App, admin, how):
    known = await made(both)

    async def change() -> None:
        await (both.erasure.message("1") if how == "erased" else both.memories.archive(str(known.id)))

    await held_up(both, change)
    assert (await remembered(admin, both), await waiting(admin, both)) == ({}, {})


@pytest.mark.slow
async def test_what_is_put_aside_and_restored_while_its_vector_is_made_gets_one_in_the_end(both: App, admin):
    known = await made(both)

    async def change() -> None:
        await both.memories.archive(str(known.id))
        await both.memories.restore(str(known.id))

    await held_up(both, change)
    await both.drain()
    assert await remembered(admin, both) == {OLD: {TEA}}


@pytest.mark.slow
async def test_what_lacks_a_vector_is_found_by_the_sweep(both: App, admin):
    await made(both)
    await both.drain()
    await admin.execute("delete from memory_embeddings where org_id = %s", [both.org_id])
    assert (await both.drain()).done == 1
    assert await remembered(admin, both) == {OLD: {TEA}}


@pytest.mark.slow
async def test_a_switch_takes_memories_along(both: App, admin):
    await made(both)
    await both.drain()

    asked = await both.embedding_versions.switch(SMALL)

    assert asked.waiting == 4
    await made(both, COFFEE)
    assert await waiting(admin, both) == {"embed": 1, "reembed": 5}
    await both.drain()
    assert (await states(admin, both))["current"] == SMALL
    assert await remembered(admin, both) == {OLD: {TEA, COFFEE}, NEW: {TEA, COFFEE}}
    current, previous = await both.embedding_versions.status()
    assert (current.done, current.total, previous.done, previous.total) == (5, 5, 5, 5)
    assert await waiting(admin, both) == {}


@pytest.mark.slow
async def test_giving_a_switch_up_drops_the_vectors_of_memories_too(both: App, admin):
    await made(both)
    await both.drain()
    await both.embedding_versions.switch(SMALL)
    worker = replace(both.embedding_versions._worker, batch=8)
    await runner.step(worker, only_org=both.org_id)
    assert await remembered(admin, both) == {OLD: {TEA}, NEW: {TEA}}
    await both.embedding_versions.back()
    assert await remembered(admin, both) == {OLD: {TEA}}


@pytest.mark.slow
async def test_a_memory_that_the_next_model_refuses_holds_up_nothing(both: App, new: Moody, admin):
    await made(both)
    new.poison = "skipper"
    await both.drain()
    await both.embedding_versions.switch(SMALL)
    drained = await both.drain()
    assert drained.dead_lettered == 1
    assert (await states(admin, both))["current"] == SMALL
    assert await remembered(admin, both) == {OLD: {TEA}}
    new.poison = None
    await both.retry()
    await both.drain()
    assert (await remembered(admin, both))[NEW] == {TEA}


@pytest.mark.slow
async def test_vectors_of_a_model_before_the_one_before_go_with_those_of_messages(both: App, old, new, admin):
    third = served(both, old, small=new, third=Moody(32))
    await made(third)
    for name in (SMALL, "third"):
        await third.embedding_versions.switch(name)
        await third.embedding_versions.finish()
    assert set(await remembered(admin, third)) == {NEW, "fake-hash-32"}


@pytest.mark.slow
async def test_an_org_of_memories_alone_is_behind_until_they_are_embedded(app: App, admin):
    await app.memories.remember(TEA)
    assert "not everything is embedded yet" in (await app.ask(app.operator, "tea")).degraded
    await app.drain()
    assert (await app.ask(app.operator, "tea")).degraded == ()
    assert await remembered(admin, app) == {OLD: {TEA}}
