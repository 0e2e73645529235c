"""An org is switched from one embedding model to another while people go on talking, and nothing is lost on the way."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ingest.stories import at, author, message
from jobs.models import SHORT, SMALL, Moody, served, states, vectors, waiting
from roomlore.db.cluster import Cluster
from roomlore.domain.errors import BadInput, Conflict, ModelUnavailable, NotAllowed
from roomlore.jobs import runner
from roomlore.jobs.embedding import BACKOFF_SECONDS, EmbeddingVersionWorker
from roomlore.operations import App

OpenApp = Callable[[str], Awaitable[App]]

OLD, NEW = "fake-hash-384", f"fake-hash-{SHORT}"
ONE_AWAY = "one of two embedding models is unavailable"
BODIES = ["apples are red", "pears are green", "plums are blue", "figs are brown"]


@pytest.fixture(name="old")
def _old() -> Moody:
    return Moody(384)


@pytest.fixture(name="new")
def _new() -> Moody:
    return Moody()


@pytest.fixture(name="both")
def _both(app: App, old: Moody, new: Moody) -> App:
    return served(app, old, small=new)


async def told(app: App, count: int = 4) -> None:
    await app.ingest_batch([message(str(number), BODIES[number % 4]) for number in range(count)])
    await app.drain()


def renewing(app: App, **fields) -> EmbeddingVersionWorker:
    return EmbeddingVersionWorker(db=app.db, models=app.embedding_versions.models, queue="reembed", **fields)


def embedding(app: App, **fields) -> EmbeddingVersionWorker:
    return EmbeddingVersionWorker(db=app.db, models=app.embedding_versions.models, queue="embed", **fields)


async def found(app: App, question: str) -> tuple[list[str], tuple[str, ...]]:
    answer = await app.search(app.operator, question)
    return [hit.best.external_id for hit in answer.hits], tuple(answer.degraded)


@pytest.mark.slow
async def test_a_switch_to_other_dimensions_embeds_everything_and_then_is_searched_by(both: App, admin):
    await told(both)

    asked = await both.embedding_versions.switch(SMALL)

    assert (asked.provider, asked.is_done, asked.waiting) == (SMALL, False, 4)
    assert await states(admin, both) == {"current": "default", "next": SMALL}
    assert (await found(both, "red apples"))[0][0] == "0"
    await both.drain()
    assert await states(admin, both) == {"current": SMALL, "previous": "default"}
    everything = {"0", "1", "2", "3"}
    assert await vectors(admin, both) == {OLD: everything, NEW: everything}
    assert await waiting(admin, both) == {}
    hits, degraded = await found(both, "red apples")
    assert (hits[0], degraded) == ("0", ())


@pytest.mark.slow
async def test_going_on_with_a_switch_by_hand_tells_how_far_it_has_come(both: App):
    await told(both)
    await both.embedding_versions.switch(SMALL)
    batches: list[int] = []

    done = await both.embedding_versions.finish(batches.append)

    assert (done.provider, done.is_done, done.waiting) == (SMALL, True, 0)
    assert sum(batches) == 4
    current, previous = await both.embedding_versions.status()
    assert (current.state, current.provider, current.model, current.dimensions) == (
        "current",
        SMALL,
        NEW,
        SHORT,
    )
    assert (previous.state, previous.provider, previous.done, previous.total) == (
        "previous",
        "default",
        4,
        4,
    )


async def test_nothing_to_embed_is_a_switch_at_once(both: App, admin):
    asked = await both.embedding_versions.switch(SMALL)
    assert asked.is_done
    assert await states(admin, both) == {"current": SMALL, "previous": "default"}


@pytest.mark.slow
async def test_the_same_again_changes_nothing_and_another_one_is_refused(both: App, admin, old, new):
    third = served(both, old, small=new, third=Moody(32))
    await told(third)
    await third.embedding_versions.switch(SMALL)
    assert (await third.embedding_versions.switch(SMALL)).waiting == 4
    with pytest.raises(Conflict, match="model revert"):
        await third.embedding_versions.switch("third")
    with pytest.raises(BadInput, match="default, small, third"):
        await third.embedding_versions.switch("fourth")
    assert await states(admin, third) == {"current": "default", "next": SMALL}


@pytest.mark.slow
async def test_a_model_that_cannot_be_had_is_not_switched_to(app: App, admin, tmp_path):
    await told(app)
    app.settings = replace(app.settings, embeddings={"empty": tmp_path})
    with pytest.raises(ModelUnavailable, match=r"model\.onnx"):
        await app.embedding_versions.switch("empty")
    assert await states(admin, app) == {}


@pytest.mark.slow
async def test_only_an_operator_chooses(both: App):
    await told(both)
    ana = both.impersonate(await both.viewer("ana"))
    for call in (
        ana.embedding_versions.switch(SMALL),
        ana.embedding_versions.back(),
        ana.embedding_versions.status(),
    ):
        with pytest.raises(NotAllowed):
            await call


@pytest.mark.slow
async def test_what_is_said_and_edited_meanwhile_is_embedded_by_both(both: App, admin):
    await told(both)
    await both.embedding_versions.switch(SMALL)
    await both.ingest(message("7", "cherries are dark"))
    await both.ingest(message("0", "apples are yellow", edited_at=at(50)))
    assert await waiting(admin, both) == {"embed": 2, "reembed": 5}

    await both.drain()

    assert await states(admin, both) == {"current": SMALL, "previous": "default"}
    everything = {"0", "1", "2", "3", "7"}
    assert await vectors(admin, both) == {OLD: everything, NEW: everything}


@pytest.mark.slow
async def test_what_went_meanwhile_has_no_vector_of_either(both: App, admin):
    await told(both)
    await both.embedding_versions.switch(SMALL)
    worker = renewing(both, batch=1)
    await runner.step(worker, only_org=both.org_id)
    await both.erasure.redact("0")
    await both.erasure.redact("3")
    await both.ingest(message("1", " ", edited_at=at(50)))
    assert (await waiting(admin, both)).get("reembed", 0) <= 1

    await both.drain()

    assert await vectors(admin, both) == {OLD: {"2"}, NEW: {"2"}}


@pytest.mark.slow
async def test_an_erasure_while_the_next_vector_is_made_leaves_none(both: App, admin, new: Moody):
    await told(both)
    await both.embedding_versions.switch(SMALL)
    begun, go = asyncio.Event(), asyncio.Event()
    ready = asyncio.get_running_loop()
    plain = new.embed

    def held_up(texts):
        ready.call_soon_threadsafe(begun.set)
        asyncio.run_coroutine_threadsafe(go.wait(), ready).result(60)
        return plain(texts)

    new.embed = held_up  # ty: ignore
    working = asyncio.create_task(runner.step(renewing(both), only_org=both.org_id))
    await begun.wait()
    await both.erasure.redact("0")
    go.set()
    await working
    assert (await vectors(admin, both))[NEW] == {"1", "2", "3"}


@pytest.mark.slow
async def test_a_vector_of_a_model_that_was_given_up_meanwhile_is_not_written(both: App, admin):
    await told(both)
    await both.embedding_versions.switch(SMALL)
    worker = renewing(both)
    held = await worker._current_version(both.org_id)
    assert held is not None
    embedder = await worker._worker(both.org_id, held)
    async with both.db.system_connection() as conn:
        tasks = await runner._take(conn, worker, both.org_id, policy=runner.DRAIN_POLICY)
    await both.embedding_versions.back()

    await embedder.do(both.org_id, tasks)

    assert set(await vectors(admin, both)) == {OLD}
    assert await waiting(admin, both) == {}


@pytest.mark.slow
async def test_an_old_vector_that_comes_after_the_switch_is_left_out_and_made_anew(both: App, admin):
    await told(both)
    await both.embedding_versions.switch(SMALL)
    await both.ingest(message("7", "cherries are dark"))
    late = embedding(both)
    held = await late._current_version(both.org_id)
    assert held is not None
    embedder = await late._worker(both.org_id, held)
    async with both.db.system_connection() as conn:
        tasks = await runner._take(conn, late, both.org_id, policy=runner.DRAIN_POLICY)
    await both.embedding_versions.finish()
    assert (await states(admin, both))["current"] == SMALL

    await embedder.do(both.org_id, tasks)

    assert await vectors(admin, both) == {OLD: {"0", "1", "2", "3"}, NEW: {"0", "1", "2", "3", "7"}}
    await both.drain()
    assert await waiting(admin, both) == {}


@pytest.mark.slow
async def test_back_while_it_is_filled_gives_it_up_and_drops_its_vectors(both: App, admin):
    await told(both)
    await both.embedding_versions.switch(SMALL)
    await runner.step(renewing(both, batch=2), only_org=both.org_id)

    gone = await both.embedding_versions.back()

    assert gone.provider is None
    assert await states(admin, both) == {"current": "default"}
    assert set(await vectors(admin, both)) == {OLD}
    assert await waiting(admin, both) == {}
    with pytest.raises(Conflict, match="none to go back to"):
        await both.embedding_versions.back()


@pytest.mark.slow
async def test_back_after_a_switch_fills_what_the_model_before_lacks(both: App, admin):
    await told(both)
    await both.embedding_versions.switch(SMALL)
    await both.embedding_versions.finish()
    await both.ingest(message("7", "cherries are dark"))
    await both.drain()
    assert "7" not in (await vectors(admin, both))[OLD]

    asked = await both.embedding_versions.back()

    assert (asked.provider, asked.waiting) == ("default", 1)
    await both.drain()
    assert await states(admin, both) == {"current": "default", "previous": SMALL}
    assert "7" in (await vectors(admin, both))[OLD]
    assert (await found(both, "dark cherries"))[0][0] == "7"


@pytest.mark.slow
async def test_giving_up_to_go_back_keeps_the_vectors_of_the_model_before(both: App, admin):
    await told(both)
    await both.embedding_versions.switch(SMALL)
    await both.embedding_versions.finish()
    await both.ingest(message("7", "cherries are dark"))
    await both.drain()
    await both.embedding_versions.back()

    await both.embedding_versions.back()

    assert await states(admin, both) == {"current": SMALL, "previous": "default"}
    assert (await vectors(admin, both))[OLD] == {"0", "1", "2", "3"}


@pytest.mark.slow
async def test_the_model_before_the_one_before_goes_with_its_vectors(both: App, admin, old, new):
    third = served(both, old, small=new, third=Moody(32))
    await told(third)
    for name in (SMALL, "third"):
        await third.embedding_versions.switch(name)
        await third.embedding_versions.finish()
    assert await states(admin, third) == {"current": "third", "previous": SMALL}
    assert set(await vectors(admin, third)) == {NEW, "fake-hash-32"}


@pytest.mark.slow
async def test_a_model_by_another_name_is_switched_to_at_once_and_finds_the_same(both: App, admin, old):
    twin = served(both, old, twin=Moody(384))
    await told(twin, 12)
    questions = ["red apples", "what is blue?", "figs"]
    before = [(await twin.search(twin.operator, one)).hits for one in questions]

    assert (await twin.embedding_versions.switch("twin")).is_done

    assert [(await twin.search(twin.operator, one)).hits for one in questions] == before
    assert set(await vectors(admin, twin)) == {OLD}
    await twin.embedding_versions.back()
    assert set(await vectors(admin, twin)) == {OLD}
    assert [(await twin.search(twin.operator, one)).hits for one in questions] == before


@pytest.mark.slow
async def test_while_the_next_model_is_away_the_current_one_goes_on(both: App, admin, new: Moody):
    await told(both)
    await both.embedding_versions.switch(SMALL)
    new.is_away = True
    await both.ingest(message("7", "cherries are dark"))

    drained = await both.drain()

    assert drained.unembedded == ["small: embedding model: the connection failed"]
    assert "7" in (await vectors(admin, both))[OLD]
    hits, degraded = await found(both, "dark cherries")
    assert (hits[0], degraded) == ("7", (ONE_AWAY,))
    status = {one.state: one for one in await both.embedding_versions.status()}
    assert status["next"].failing_since is not None
    assert status["next"].error == "embedding model: the connection failed"
    assert status["next"].waiting == 5
    new.is_away = False
    await both.drain()
    assert (await states(admin, both))["current"] == SMALL


@pytest.mark.slow
async def test_while_the_current_model_is_away_the_next_one_fills_and_finds(both: App, admin, old: Moody):
    await told(both)
    await both.embedding_versions.switch(SMALL)
    await runner.step(renewing(both), only_org=both.org_id)
    old.is_away = True
    await both.ingest(message("7", "cherries are dark"))
    await runner.step(renewing(both), only_org=both.org_id)

    hits, degraded = await found(both, "dark cherries")

    assert hits[0] == "7"
    assert degraded == (ONE_AWAY, "not everything is embedded yet")
    await both.drain()
    assert (await states(admin, both))["current"] == SMALL, "an outage is a reason to switch"
    assert await waiting(admin, both) == {}


@pytest.mark.slow
async def test_what_only_the_next_model_knows_is_found_by_meaning_beside_the_rest(both: App, old: Moody):
    await told(both)
    await both.embedding_versions.switch(SMALL)
    old.poison = "Ana: cherries"
    await both.ingest(message("7", "cherries are dark"))
    await runner.drain(embedding(both), only_org=both.org_id)
    await runner.step(renewing(both), only_org=both.org_id)

    hits = (await both.search(both.operator, "cherries dark")).hits

    assert hits[0].best.external_id == "7"
    assert hits[0].why[hits[0].best.id].similarity is not None


@pytest.mark.slow
async def test_what_the_next_model_cannot_embed_holds_up_nothing_and_is_told(both: App, admin, new: Moody):
    new.poison = "Ana: plums"
    await told(both)
    await both.embedding_versions.switch(SMALL)

    drained = await both.drain()

    assert drained.dead_lettered == 1
    assert await states(admin, both) == {"current": SMALL, "previous": "default"}
    current, _ = await both.embedding_versions.status()
    assert (current.done, current.total, current.dead_lettered) == (3, 4, 1)
    assert (await found(both, "plums are blue"))[0][0] == "2", "it is still found by its words"
    new.poison = None
    assert await both.retry() == 1
    await both.drain()
    assert (await vectors(admin, both))[NEW] == {"0", "1", "2", "3"}


@pytest.mark.slow
async def test_a_model_that_refuses_most_of_what_is_said_does_not_take_over(both: App, admin, new: Moody):
    new.poison = "s are"
    await told(both)
    await both.embedding_versions.switch(SMALL)

    await both.drain()

    assert await states(admin, both) == {"current": "default", "next": SMALL}
    assert (await found(both, "red apples"))[0][0] == "0"
    _, coming = await both.embedding_versions.status()
    assert coming.error == "it embedded 0 of 4 texts"
    new.poison = None
    await both.retry()
    await both.drain()
    assert await states(admin, both) == {"current": SMALL, "previous": "default"}


@pytest.mark.slow
async def test_a_worker_with_another_default_takes_no_vectors_before_it_has_made_others(both: App, admin):
    await told(both)
    await both.embedding_versions.switch(SMALL)
    await both.embedding_versions.finish()
    await both.embedding_versions.back()
    await both.drain()
    other = served(both, Moody(32), small=Moody())

    await embedding(other).begin(both.org_id)

    assert (await vectors(admin, both))[OLD] == {"0", "1", "2", "3"}
    assert (await found(both, "red apples"))[0][0] == "0"


@pytest.mark.slow
async def test_a_switch_that_is_asked_for_again_while_it_ends_keeps_what_was_before(both: App, admin):
    await told(both)
    await both.embedding_versions.switch(SMALL)
    models = both.embedding_versions.models
    looked = await models.versions(both.org_id)
    await both.embedding_versions.finish()

    # What was read before the switch ended is written after it.
    class Late(type(models)):
        """Tells once what was there a moment ago."""

        async def generations(self, org_id):
            if asked:
                return await super().versions(org_id)
            asked.append(org_id)
            return looked

    asked: list[object] = []
    late = replace(
        both.embedding_versions, models=Late(**{key: getattr(models, key) for key in models.__slots__})
    )
    again = await late.switch(SMALL)

    assert again.is_done
    assert await states(admin, both) == {"current": SMALL, "previous": "default"}
    assert set(await vectors(admin, both)) == {OLD, NEW}

    asked.clear()
    assert (await late.back()).provider == "default"


@pytest.mark.slow
async def test_one_worker_serves_orgs_by_different_models_and_waits_for_none(open_app: OpenApp, admin):
    old, new = Moody(384), Moody()
    first, second = [served(await open_app(name), old, small=new) for name in ("first", "second")]
    await told(first)
    await told(second)
    await second.embedding_versions.switch(SMALL)
    await second.embedding_versions.finish()
    old.is_away = True
    for one in (first, second):
        await one.ingest(message("7", "cherries are dark"))

    worker = embedding(first)
    await runner.drain(worker)

    assert worker.failing == ["default: embedding model: the connection failed"]
    assert await waiting(admin, first) == {"embed": 1}
    assert await waiting(admin, second) == {}
    assert "7" in (await vectors(admin, second))[NEW]


@pytest.mark.slow
async def test_a_running_worker_takes_up_what_waited_for_a_model_once_it_is_back(both: App, admin, old):
    await told(both)
    old.is_away = True
    seconds = [0.0]
    worker = embedding(both, clock=lambda: seconds[0])
    await both.ingest(message("7", "cherries are dark"))
    await runner.step(worker, only_org=both.org_id)
    assert worker.orgs_backing_off() == [both.org_id]
    await worker._watch_org(both.org_id)
    assert worker.orgs_backing_off() == [both.org_id], "it is left in peace for a while"
    old.is_away = False
    seconds[0] += BACKOFF_SECONDS
    await worker._watch_org(both.org_id)
    assert worker.orgs_backing_off() == []
    await runner.step(worker, only_org=both.org_id)
    assert await waiting(admin, both) == {}


@pytest.mark.slow
async def test_a_running_worker_switches_by_itself(both: App, admin):
    await told(both)
    stop = asyncio.Event()
    running = asyncio.create_task(both.run_worker(stop))
    try:
        await both.embedding_versions.switch(SMALL)
        async with asyncio.timeout(60):
            while (await states(admin, both)).get("current") != SMALL:  # noqa: ASYNC110  the server has no event
                await asyncio.sleep(0.02)
    finally:
        stop.set()
        await running
    assert (await vectors(admin, both))[NEW] == {"0", "1", "2", "3"}


KILLED = """
import asyncio, sys, time, uuid
from roomlore.operations import App
from roomlore.operations.embedding_models import ModelCache
from roomlore.models.fake import FakeEmbedder
from roomlore.settings import Settings
from roomlore.db.database import Database
from roomlore.jobs import runner
from roomlore.jobs.embedding import EmbeddingVersionWorker

class Slow(FakeEmbedder):
    seen = 0
    def embed(self, texts):
        Slow.seen += len(texts)
        if Slow.seen > 40:
            print("begun", flush=True)
            time.sleep(60)
        return super().embed(texts)

async def main():
    db = await Database.connect(sys.argv[1], size=4)
    app = App(db=db, org_id=uuid.UUID(sys.argv[2]), settings=Settings(), _embedder=FakeEmbedder(),
              _model_cache=ModelCache(provided={"small": Slow(64)}))
    worker = EmbeddingVersionWorker(db=db, models=app.embedding_versions.models, queue="reembed", batch=16)
    await runner.drain(worker, only_org=app.org_id)

asyncio.run(main())
"""


@pytest.mark.slow
async def test_a_worker_killed_in_the_middle_of_a_switch_loses_nothing(
    both: App, cluster: Cluster, admin: psycopg.AsyncConnection
):
    await told(both, 100)
    await both.embedding_versions.switch(SMALL)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED, cluster.app_dsn, str(both.org_id), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"begun\n"
    process.send_signal(signal.SIGKILL)
    await process.communicate()
    assert (await states(admin, both))["current"] == "default"
    assert (await found(both, "red apples"))[0]
    # Leases end by themselves; the test does not wait for that.
    await admin.execute("update work_queue set due_at = now() where queue = 'reembed'")

    await both.drain()

    assert await states(admin, both) == {"current": SMALL, "previous": "default"}
    assert len((await vectors(admin, both))[NEW]) == 100


DEEDS = ["say", "edit", "redact", "step", "embed", "switch", "back", "finish"]


@pytest.mark.slow
@settings(
    max_examples=8,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(story=st.lists(st.tuples(st.sampled_from(DEEDS), st.integers(0, 7)), max_size=14))
@pytest.mark.slow
async def test_at_every_moment_a_search_finds_what_it_found_before(
    story: list[tuple[str, int]], open_app: OpenApp, admin
):
    app = served(await open_app("story"), Moody(384), small=Moody())
    await app.ingest_batch([message(f"m{n}", f"{BODIES[n % 4]} word{n}", sent_at=at(n)) for n in range(6)])
    await app.drain()
    said, gone = {f"m{n}": f"{BODIES[n % 4]} word{n}" for n in range(6)}, set[str]()
    for place, (deed, which) in enumerate(story):
        name = f"m{which}"
        if name in gone and deed in {"say", "edit"}:
            continue
        if deed in {"say", "edit"}:
            said[name] = f"{BODIES[which % 4]} word{which} turn{place}"
            await app.ingest(
                message(name, said[name], sent_at=at(which), edited_at=at(100 + place), author=author("ana"))
            )
        elif deed == "redact" and name in said:
            await app.erasure.redact(name)
            del said[name]
            # What is redacted comes back no more.
            gone.add(name)
        elif deed == "step":
            await runner.step(renewing(app, batch=2), only_org=app.org_id)
        elif deed == "embed":
            await runner.step(embedding(app, batch=2), only_org=app.org_id)
        else:
            with suppress(Conflict):
                await _deed(app, deed)
        for key, body in said.items():
            assert key in (await found(app, body))[0], (deed, key)
    await app.drain()
    held = await states(admin, app)
    assert "next" not in held
    model = NEW if held.get("current") == SMALL else OLD
    kept = await vectors(admin, app)
    assert kept.get(model, set()) >= set(said)
    for ids in kept.values():
        assert ids <= set(said)


async def _deed(app: App, deed: str) -> None:
    match deed:
        case "switch":
            await app.embedding_versions.switch(SMALL)
        case "back":
            await app.embedding_versions.back()
        case _:
            await app.embedding_versions.finish()
