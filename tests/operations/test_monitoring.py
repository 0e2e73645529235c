"""What the operator watches, and rooms that embed threads: one rule says which messages have a vector."""

import asyncio
import threading
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings

from jobs.copying import Shelf
from jobs.models import Moody, served
from jobs.test_embed import QUICK, Watched, begun, embedded
from roomlore.db import work_queue
from roomlore.db.database import Database
from roomlore.db.messages import AFTER_ALL
from roomlore.domain.errors import BackendUnavailable, BadInput, NotAllowed, NotFound
from roomlore.domain.records import Role
from roomlore.jobs import projection, runner
from roomlore.jobs.embedding import EmbeddingWorker
from roomlore.jobs.projection import ProjectionWorker
from roomlore.operations import App, projection_service
from roomlore.operations.embedding_models import ModelCache
from roomlore.search.threads import newest_threads
from search.telling import ANA, BO, CY, all_ids, at, find, message, room, tell
from search.test_threads import Edges, graph, reply_graphs

SLOW = [HealthCheck.function_scoped_fixture]


async def vectors(admin: psycopg.AsyncConnection, app: App) -> list[str]:
    return sorted(await embedded(admin, app), key=int)


async def wanted(admin: psycopg.AsyncConnection, app: App) -> list[str]:
    """Return what the rule says, as a superuser sees it."""
    rows = await admin.execute(
        """select external_id from embeddable_messages join messages using (org_id, room_id, id)
           where org_id = %s order by external_id::integer""",
        [app.org_id],
    )
    return [name for (name,) in await rows.fetchall()]


async def signed_in_as(app: App, role: Role) -> App:
    return await app.sign_in((await app.keys.create(role, name="a key", participant="ana")).key)


async def settle(app: App, *external_ids: str) -> None:
    """Do what follows from having gone through these messages."""
    told = await app.messages(app.operator, "general", limit=100)
    ids = [one.id for one in told if one.external_id in external_ids]
    room_id = told[0].room_id
    await app.db.change(app.org_id, lambda conn: work_queue.reconcile_vectors(conn, app.org_id, room_id, ids))


TOLD = (
    message("1", "who has the lantern?"),
    message("2", "under the stairs", author=BO),
    message("3", "thanks", reply_to="2"),
    message("4", "and the ladder?", author=CY),
)


# What a room embeds


@pytest.mark.slow
async def test_a_room_of_exchanges_embeds_what_opens_one_and_back_again_everything(app: App, admin):
    await tell(app, *TOLD)
    assert await vectors(admin, app) == ["1", "2", "3", "4"]
    change = await app.monitoring.set_embedding_policy("general", "thread")
    assert (change.dropped, change.wanted) == (2, 0)
    assert await vectors(admin, app) == await wanted(admin, app) == ["1", "4"]
    change = await app.monitoring.set_embedding_policy("general", "message")
    assert (change.dropped, change.wanted) == (0, 2)
    await app.drain()
    assert await vectors(admin, app) == ["1", "2", "3", "4"]


async def test_answers_are_found_with_their_question_and_words_still_find_each(app: App):
    await app.ingest_batch(TOLD)
    await app.monitoring.set_embedding_policy("general", "thread")
    await app.drain()
    found = await app.search(app.operator, "thanks")
    assert ["1", "2", "3"] in all_ids(found.hits)
    by_words = next(hit for hit in found.hits if hit.best.external_id == "3")
    assert by_words.why[by_words.best.id].similarity is None
    assert by_words.why[by_words.best.id].terms == ("thank",)
    assert found.degraded == ()


async def test_an_answer_that_is_found_later_loses_its_vector_and_one_that_is_none_any_more_gets_it(
    app: App, admin
):
    await tell(app, *TOLD)
    await app.monitoring.set_embedding_policy("general", "thread")
    await find(admin, app, "2", "1")
    await settle(app, "2")
    assert await vectors(admin, app) == await wanted(admin, app) == ["1", "4"]
    await admin.execute("delete from replies where org_id = %s and method = 'mention'", [app.org_id])
    await settle(app, "2")
    assert (await app.waiting()).waiting == 1
    await app.drain()
    assert await vectors(admin, app) == ["1", "2", "4"]


@pytest.mark.slow
async def test_what_answers_a_message_that_has_changed_is_settled_with_it(app: App, admin):
    await tell(app, *TOLD)
    await app.monitoring.set_embedding_policy("general", "thread")
    assert await vectors(admin, app) == ["1", "4"]
    await app.ingest(replace(TOLD[0], body="We had soup yesterday.", edited_at=at(9)))
    await app.drain()
    assert await vectors(admin, app) == await wanted(admin, app) == ["1", "2", "4"]


@pytest.mark.slow
async def test_in_a_room_of_messages_nothing_is_settled(app: App, admin):
    await tell(app, *TOLD)
    await find(admin, app, "2", "1")
    await settle(app, "1", "2", "3", "4")
    assert await vectors(admin, app) == ["1", "2", "3", "4"]
    assert (await app.waiting()).waiting == 0


async def test_a_vector_that_is_being_made_is_not_written_once_its_message_is_found_to_answer(
    app: App, db: Database, admin
):
    await app.ingest_batch(TOLD)
    await app.monitoring.set_embedding_policy("general", "thread")
    embedder = Watched(go=threading.Event())
    working = asyncio.create_task(runner.step(EmbeddingWorker(db=db, embedder=embedder)))
    await begun(embedder)
    await find(admin, app, "2", "1")
    await settle(app, "2")
    assert embedder.go is not None
    embedder.go.set()
    await working
    assert await vectors(admin, app) == ["1", "4"]
    assert (await app.waiting()).waiting == 0


async def test_a_message_that_was_passed_over_while_its_edge_went_is_embedded(app: App, db: Database, admin):
    await app.ingest_batch(TOLD)
    await app.monitoring.set_embedding_policy("general", "thread")
    await find(admin, app, "2", "1")
    embedder = Watched(go=threading.Event())
    await app.ingest_batch([replace(TOLD[1], body="in the cellar", edited_at=at(9))])
    working = asyncio.create_task(runner.step(EmbeddingWorker(db=db, embedder=embedder)))
    await begun(embedder)
    await admin.execute("delete from replies where org_id = %s and method = 'mention'", [app.org_id])
    await settle(app, "2")
    assert embedder.go is not None
    embedder.go.set()
    await working
    assert await vectors(admin, app) == ["1", "4"]
    await runner.drain(EmbeddingWorker(db=db, embedder=embedder), only_org=app.org_id, policy=QUICK)
    assert await vectors(admin, app) == ["1", "2", "4"]


async def test_nothing_is_carried_by_what_has_no_words_or_others_hear(app: App, admin):
    whisper = {"kind": "whisper", "audience": (ANA,), "author": BO}
    told = [
        message("1", " "),
        message("2", "a picture of what?", reply_to="1"),
        message("3", "psst", **whisper, reply_to="2"),
        message("4", "psst psst", **whisper, reply_to="3"),
        message("5", "aloud", reply_to="3"),
        message("6", "taken back", deleted=True),
        message("7", "why?", reply_to="6"),
    ]
    await tell(app, *told)
    await app.monitoring.set_embedding_policy("general", "thread")
    assert await vectors(admin, app) == ["2", "3", "5", "7"]


@pytest.mark.slow
@settings(max_examples=5, deadline=None, suppress_health_check=SLOW)
@given(edges=reply_graphs())
async def test_in_any_reply_graph_each_message_has_a_vector_or_stands_in_an_exchange_with_one_earlier(
    edges: Edges, open_app, admin
):
    app = await open_app("carried")
    await app.ingest_batch(list(graph(edges)))
    await app.monitoring.set_embedding_policy("general", "thread")
    await app.drain()
    held = await vectors(admin, app)
    assert held == await wanted(admin, app)
    async with app.db.read_transaction(app.operator) as conn:
        room_id = (await app.rooms(app.operator))[0].id
        told = (await newest_threads(conn, app.org_id, room_id, limit=100, before=AFTER_ALL)).items
    for one in told:
        first = min(one.messages, key=lambda said: said.position)
        assert first.external_id in held
    answered = [
        next((end for end in ends if end is not None and end != number and end < len(edges)), number)
        for number, ends in enumerate(edges)
    ]
    assert held == [str(number) for number, end in enumerate(answered) if end >= number]


async def test_only_an_operator_says_what_a_room_embeds_and_the_log_has_it(app: App):
    await tell(app, *TOLD)
    member = await signed_in_as(app, "member")
    with pytest.raises(NotAllowed):
        await member.monitoring.set_embedding_policy("general", "thread")
    with pytest.raises(BadInput, match="must be one of message, thread"):
        await app.monitoring.set_embedding_policy("general", "nothing")  # pyright: ignore[reportArgumentType]
    with pytest.raises(NotFound):
        await app.monitoring.set_embedding_policy("attic", "thread")
    await app.monitoring.set_embedding_policy("general", "thread")
    line, *_ = await app.log(app.operator, limit=1)
    [general] = await app.rooms(app.operator)
    assert (line.action, line.outcome, list(line.subject_ids)) == ("set embedding", "done", [general.id])


# Numbers


@pytest.mark.slow
async def test_numbers_tell_of_each_room_and_of_all_how_messages_stand_and_how_far_work_has_come(
    app: App,
):
    attic = room("attic")
    old = {"metadata": {"platform": {"legacy_pair": "7"}}}
    told = [message("7", "first", room=attic, **old), message("8", "second", room=attic, reply_to="7", **old)]
    await tell(app, *TOLD, *told, message("9", "third", room=attic, author=CY))
    await app.monitoring.set_embedding_policy("attic", "thread")
    numbers = await app.monitoring.statistics()
    general, attic_numbers = numbers.rooms
    assert (general.name, general.embedding_policy, general.counts.messages) == ("general", "message", 4)
    assert (general.counts.share_in_threads, general.counts.mean_thread_size) == (0.75, 3.0)
    assert (general.counts.vectors, general.counts.vectors_saved, general.counts.legacy_share) == (4, 0, 0.0)
    assert (attic_numbers.counts.vectors, attic_numbers.counts.vectors_saved) == (2, 1)
    assert attic_numbers.counts.legacy_share == pytest.approx(2 / 3)
    assert numbers.counts.messages == numbers.counts.sampled == 7
    assert numbers.counts.share_in_threads == pytest.approx(5 / 7)
    assert (numbers.counts.vectors, numbers.counts.vectors_saved) == (6, 1)
    assert (numbers.counts.embedded.done, numbers.counts.embedded.waiting) == (6, 0)
    assert numbers.counts.disentangled.done == 7
    assert numbers.counts.embedded.oldest_at is None


async def test_the_numbers_of_nothing_are_nothing(app: App):
    numbers = await app.monitoring.statistics()
    assert (numbers.counts.messages, numbers.rooms, numbers.latencies) == (0, [], [])
    assert numbers.counts.share_in_threads is None
    assert numbers.counts.mean_thread_size is None


async def test_a_stopped_worker_is_seen_by_what_waits_and_since_when(app: App, admin):
    await app.ingest_batch(TOLD)
    await admin.execute(
        "update work_queue set asked_at = now() - interval '3 hours' where org_id = %s and queue = 'embed'",
        [app.org_id],
    )
    await app.ingest(message("5", "later"))
    counts = (numbers := await app.monitoring.statistics()).counts
    assert (counts.embedded.done, counts.embedded.waiting, counts.disentangled.waiting) == (0, 5, 1)
    assert counts.embedded.oldest_at is not None
    assert numbers.at - counts.embedded.oldest_at >= timedelta(hours=3)
    assert counts.disentangled.oldest_at is not None
    assert numbers.at - counts.disentangled.oldest_at < timedelta(hours=1)
    await admin.execute("update work_queue set dead_lettered_at = now() where org_id = %s", [app.org_id])
    counts = (await app.monitoring.statistics()).counts
    assert (counts.embedded.waiting, counts.embedded.dead_lettered, counts.embedded.oldest_at) == (0, 5, None)


@pytest.mark.slow
async def test_how_long_reads_take_is_told_by_what_the_room_embeds(app: App, admin):
    attic = room("attic")
    await tell(app, *TOLD, message("9", "third", room=attic))
    await app.monitoring.set_embedding_policy("attic", "thread")
    for _ in range(3):
        await app.search(app.operator, "lantern", room="general")
    await app.search(app.operator, "third", room="attic")
    await app.search(app.operator, "no such thing")
    await app.ask(app.operator, "lantern")
    await app.context(app.operator, "general")
    await app.messages(app.operator, "general")
    found = (await app.monitoring.statistics()).latencies
    assert [(one.action, one.format, one.reads) for one in found] == [
        ("ask", "several", 1),
        ("context", "message", 1),
        ("search", "message", 3),
        ("search", "several", 1),
        ("search", "thread", 1),
    ]
    assert all(0 < one.p50_ms <= one.p95_ms for one in found)
    await admin.execute(
        "update audit_log set took_ms = 7 where org_id = %s and took_ms is not null", [app.org_id]
    )
    found = (await app.monitoring.statistics()).latencies
    assert {(one.p50_ms, one.p95_ms) for one in found} == {(7.0, 7.0)}


async def test_numbers_are_the_operators_alone_and_of_one_org(app: App, open_app):
    await tell(app, *TOLD)
    other = await open_app("other")
    assert (await other.monitoring.statistics()).counts.messages == 0
    member = await signed_in_as(app, "member")
    with pytest.raises(NotAllowed):
        await member.monitoring.statistics()


# Copies and embedding models


@pytest.fixture(name="shelf")
def _shelf(monkeypatch: pytest.MonkeyPatch) -> Shelf:
    held = Shelf()
    monkeypatch.setattr(projection_service, "open_projection", lambda _settings, _target: held)
    return held


def writer(app: App, shelf: Shelf) -> ProjectionWorker:
    return ProjectionWorker(db=app.db, projection=shelf, queue="qdrant")


@pytest.mark.slow
async def test_each_room_tells_how_many_of_its_messages_wait_for_each_copy(app: App, shelf: Shelf, admin):
    await tell(app, *TOLD)
    numbers = await app.monitoring.statistics()
    assert (numbers.projections, numbers.counts.projected) == ([], [])
    await app.projections.rebuild("qdrant")
    [copied] = (await app.monitoring.statistics()).counts.projected
    assert (copied.target, copied.done, copied.waiting, copied.oldest_at) == ("qdrant", 4, 0, None)
    await tell(app, message("7", "first", room=room("attic")), message("8", "second", room=room("attic")))
    await admin.execute(
        "update work_queue set asked_at = now() - interval '3 hours' where org_id = %s and queue = 'qdrant'",
        [app.org_id],
    )
    numbers = await app.monitoring.statistics()
    by_room = {one.name: one.counts.projected for one in numbers.rooms}
    [attic], [general] = by_room["attic"], by_room["general"]
    assert (attic.done, attic.waiting) == (0, 2)
    assert (general.done, general.waiting, general.oldest_at) == (4, 0, None)
    assert attic.oldest_at is not None
    assert numbers.at - attic.oldest_at >= timedelta(hours=3)
    [every] = numbers.counts.projected
    assert (every.done, every.waiting, every.oldest_at) == (4, 2, attic.oldest_at)
    [copy] = numbers.projections
    assert (copy.index_name, copy.next_index_name) == (next(iter(shelf.held_copies)), None)
    assert (copy.is_ready, copy.is_building, copy.waiting, copy.remaining) == (True, False, 2, None)
    assert copy.lag_seconds >= 3 * 3600
    await projection.drain(writer(app, shelf), only_org=app.org_id)
    assert (await app.monitoring.statistics()).counts.projected[0].waiting == 0


@pytest.mark.slow
async def test_a_hole_that_is_still_to_go_from_a_copy_makes_no_message_less_written(app: App, shelf: Shelf):
    await tell(app, *TOLD)
    await app.projections.rebuild("qdrant")
    # Nothing answers it, so nothing else is to be written anew.
    await app.erasure.message("4")
    numbers = await app.monitoring.statistics()
    [projected] = numbers.counts.projected
    assert (numbers.counts.messages, projected.done, projected.waiting) == (3, 3, 1)
    assert numbers.rooms[0].counts.projected == [projected]
    await app.erasure.redact("3")
    # A message it stays, and is counted as one.
    numbers = await app.monitoring.statistics()
    [projected] = numbers.counts.projected
    assert numbers.counts.messages == 3
    assert projected.done == 3 - (projected.waiting - 1)
    await projection.drain(writer(app, shelf), only_org=app.org_id)
    [projected] = (await app.monitoring.statistics()).counts.projected
    assert (projected.done, projected.waiting) == (3, 0)


@pytest.mark.slow
async def test_a_copy_that_is_being_built_tells_how_far_it_is(app: App, shelf: Shelf):
    await tell(app, *TOLD)
    worker = writer(app, shelf)
    await worker.build(app.org_id, model="fake-hash-384", dimensions=384)
    numbers = await app.monitoring.statistics()
    [copy], [projected] = numbers.projections, numbers.counts.projected
    assert (copy.is_ready, copy.is_building, copy.remaining) == (False, True, None)
    assert copy.next_index_name in shelf.held_copies
    # What it is to hold was not even asked for.
    assert (projected.done, projected.waiting) == (None, 0)
    await worker.advance_build(app.org_id)
    numbers = await app.monitoring.statistics()
    [copy], [projected] = numbers.projections, numbers.counts.projected
    assert (copy.remaining, projected.done, projected.waiting) == (4, 0, 4)
    await projection.drain(worker, only_org=app.org_id)
    [copy] = (await app.monitoring.statistics()).projections
    assert (copy.is_ready, copy.next_index_name, copy.remaining) == (True, None, None)


@pytest.mark.slow
async def test_a_server_that_fails_is_seen_with_since_when_and_what_it_would_not_take(app: App, shelf: Shelf):
    await tell(app, *TOLD)
    await app.projections.rebuild("qdrant")
    told_of = await app.ingest(message("5", "later"))
    shelf.is_down = True
    with pytest.raises(BackendUnavailable):
        await projection.drain(writer(app, shelf), only_org=app.org_id)
    [copy] = (await app.monitoring.statistics()).projections
    assert (copy.error, copy.waiting) == ("the shelf fell down", 1)
    assert copy.failing_since is not None
    shelf.is_down, shelf.poison = False, {told_of}
    await projection.drain(writer(app, shelf), only_org=app.org_id)
    numbers = await app.monitoring.statistics()
    assert (numbers.projections[0].failing_since, numbers.projections[0].dead_lettered) == (None, 1)
    assert (numbers.counts.projected[0].waiting, numbers.counts.projected[0].dead_lettered) == (0, 1)


@pytest.mark.slow
async def test_numbers_tell_of_the_models_by_which_is_searched_and_of_how_they_fail(app: App, admin):
    old, new = Moody(384), Moody()
    both = served(app, old, small=new)
    await both.ingest_batch(TOLD)
    [current] = (await both.monitoring.statistics()).embedding
    assert (current.state, current.provider, current.model, current.dimensions) == (
        "current", "default", "fake-hash-384", 384,
    )  # fmt: skip
    assert (current.total, current.done, current.waiting, current.since) == (4, 0, 4, None)
    old.is_away = True
    await both.drain()
    [current] = (await both.monitoring.statistics()).embedding
    assert (current.error, current.since) == ("embedding model: the connection failed", None)
    assert current.failing_since is not None
    old.is_away = False
    await both.drain()
    [current] = (await both.monitoring.statistics()).embedding
    assert (current.failing_since, current.done, current.waiting) == (None, 4, 0)
    # Nobody chose it, and nothing says so.
    rows = await admin.execute("select count(*) from embedding_versions where org_id = %s", [app.org_id])
    assert await rows.fetchall() == [(0,)]
    await both.embedding_versions.switch("small")
    current, coming = (await both.monitoring.statistics()).embedding
    assert (current.state, current.done, coming.state, coming.provider) == ("current", 4, "next", "small")
    assert (coming.dimensions, coming.done, coming.waiting) == (64, 0, 4)


async def test_a_default_that_nobody_chose_nor_loaded_here_is_known_by_the_vectors_there_are(app: App):
    await app.ingest_batch(TOLD)
    await app.drain()
    # As another process sees it.
    fresh = replace(app, _embedder=None, _model_cache=ModelCache())
    [current] = (await fresh.monitoring.statistics()).embedding
    assert (current.model, current.dimensions) == ("fake-hash-384", 384)
    assert (current.total, current.done, current.waiting) == (4, 4, 0)


@pytest.mark.slow
async def test_a_switch_away_from_a_default_that_fails_keeps_what_it_was(app: App):
    old, new = Moody(384), Moody()
    both = served(app, old, small=new)
    await both.ingest_batch(TOLD)
    await both.drain()
    old.is_away = True
    await both.ingest(message("5", "later"))
    await both.drain()
    await both.embedding_versions.switch("small")
    await both.drain()
    current, before = await both.embedding_versions.status()
    assert (current.provider, current.done) == ("small", 5)
    assert (before.state, before.provider, before.model, before.dimensions) == (
        "previous", "default", "fake-hash-384", 384,
    )  # fmt: skip
