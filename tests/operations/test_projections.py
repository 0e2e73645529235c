"""Copies as an operator keeps them, and what a search makes of what they propose."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import psycopg
import pytest

from ingest.stories import at, author, message, room
from jobs.copying import Graph, Shelf, assert_same, expected, expected_nodes, on
from jobs.rooms import busy_room
from jobs.test_outages import until
from roomlore.db import projections
from roomlore.db.projections import Target
from roomlore.domain.errors import BackendUnavailable, BadInput, NotAllowed, NotFound
from roomlore.domain.ids import MessageId, uuid7
from roomlore.domain.projections import Node
from roomlore.jobs import projection
from roomlore.jobs.projection import ProjectionWorker
from roomlore.operations import App, projection_service
from roomlore.operations import projection_service as composition
from roomlore.operations.candidates import CandidateSource, ProjectionClients
from roomlore.operations.projection_service import Projections
from roomlore.settings import Neo4jSettings, QdrantSettings, Settings


@pytest.fixture(name="shelf")
def _shelf(monkeypatch: pytest.MonkeyPatch) -> Shelf:
    held = Shelf()
    monkeypatch.setattr(composition, "open_projection", lambda _settings, _target: held)
    return held


async def told(app: App) -> Projections:
    await app.ingest_batch(busy_room(7, 40))
    await app.drain()
    return app.projections


@pytest.mark.slow
@pytest.mark.usefixtures("shelf")
async def test_a_rebuilt_copy_is_read_and_differs_in_nothing(app: App) -> None:
    projecting = await told(app)

    built = await projecting.rebuild("qdrant")

    assert (built.is_ready, built.is_building, built.waiting, built.dead_lettered) == (True, False, 0, 0)
    assert built.model == "fake-hash-384"
    found = await projecting.diff("qdrant")
    assert found.count == 0
    assert found.compared == len(await expected(app, "fake-hash-384")) > 0


@pytest.mark.slow
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
    await projection.drain(ProjectionWorker(db=app.db, projection=shelf, queue="qdrant"), only_org=app.org_id)
    assert on(shelf, copy) == await expected(app, "fake-hash-384")


@pytest.mark.slow
async def test_a_copy_that_was_wiped_is_told_of_and_built_anew(app: App, shelf: Shelf) -> None:
    projecting = await told(app)
    await projecting.rebuild("qdrant")
    shelf.held_copies.clear()

    with pytest.raises(BackendUnavailable, match="gone"):
        await projecting.diff("qdrant")

    await projecting.rebuild("qdrant")
    assert (await projecting.diff("qdrant")).count == 0


@pytest.mark.slow
async def test_dropped_copies_are_gone_and_nothing_is_asked_for_any_more(app: App, shelf: Shelf) -> None:
    projecting = await told(app)
    await projecting.rebuild("qdrant")
    await app.ingest_batch([message("later", "one more", author=author("ann"), sent_at=at(9000))])

    await projecting.drop("qdrant")

    assert shelf.held_copies == {}
    assert await projecting.status() == []
    with pytest.raises(NotFound):
        await projecting.diff("qdrant")


@pytest.mark.slow
async def test_copies_dropped_while_they_are_rebuilt_are_not_found(
    app: App, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    projecting = await told(app)
    drain = projection.drain

    async def drain_and_drop(*args: Any, **more: Any) -> None:
        await drain(*args, **more)
        await projecting.drop("qdrant")

    monkeypatch.setattr(projection, "drain", drain_and_drop)

    with pytest.raises(NotFound, match="qdrant"):
        await projecting.rebuild("qdrant")
    assert shelf.held_copies == {}


@pytest.mark.slow
async def test_another_orgs_copies_stay(app: App, shelf: Shelf) -> None:
    shelf.held_copies["0190aaaabbbbccccddddeeeeffff0000-1"] = {}
    projecting = await told(app)
    await projecting.rebuild("qdrant")
    await projecting.rebuild("qdrant")

    await projecting.drop("qdrant")

    assert list(shelf.held_copies) == ["0190aaaabbbbccccddddeeeeffff0000-1"]


@pytest.fixture(name="both")
def _both(monkeypatch: pytest.MonkeyPatch) -> tuple[Shelf, Graph]:
    """Both kinds of servers."""
    shelf, graph = Shelf(), Graph()
    servers = {"qdrant": shelf, "neo4j": graph}
    monkeypatch.setattr(composition, "open_projection", lambda _settings, target: servers[target])
    return shelf, graph


def naming_both(app: App) -> Settings:
    return replace(
        app.settings,
        qdrant=QdrantSettings(url="http://127.0.0.1:9"),
        neo4j=Neo4jSettings(url="bolt://127.0.0.1:9", password="not shown"),
    )


@pytest.mark.slow
async def test_a_graph_is_rebuilt_compared_repaired_and_dropped(app: App, both: tuple[Shelf, Graph]) -> None:
    _, graph = both
    projecting = await told(app)

    built = await projecting.rebuild("neo4j")

    assert (built.target, built.is_ready, built.model, built.waiting) == ("neo4j", True, None, 0)
    (copy,) = graph.held_copies
    await assert_same(app, graph, copy)
    found = await projecting.diff("neo4j")
    assert (found.count, found.compared) == (0, len(graph.held_copies[copy]))
    lost, stray = min(graph.held_copies[copy]), uuid7()
    held = graph.held_copies[copy].pop(lost)
    graph.held_copies[copy][stray] = replace(held, id=stray)
    repaired = await projecting.diff("neo4j", repair=True)
    assert (repaired.missing, repaired.extra) == ([lost], [stray])
    assert await projection_service.write_pending(app.db, naming_both(app), app.org_id) == []
    await assert_same(app, graph, copy)
    await projecting.drop("neo4j")
    assert (graph.held_copies, await projecting.status()) == ({}, [])


@pytest.mark.slow
async def test_a_repaired_graph_has_all_its_edges_and_is_never_without_one(
    app: App, both: tuple[Shelf, Graph]
) -> None:
    _, graph = both
    projecting = await told(app)
    await projecting.rebuild("neo4j")
    (copy,) = graph.held_copies
    user, lost, message_id, stray = await damaged(app, graph, copy)
    edges = set(graph.edges[copy])

    found = await projecting.diff("neo4j", repair=True)

    assert (found.missing, found.extra) == (sorted([lost, message_id]), [stray])
    wrote = {key for key, node in (await expected_nodes(app)).items() if leads_to(node, lost)}
    assert {user, *wrote} - {message_id} <= set(found.different)
    assert graph.edges[copy] == edges, "nothing is taken away before it can be written"
    assert (await projecting.diff("neo4j")).count == 0, "what is asked for does not differ, it waits"
    assert await projection_service.write_pending(app.db, naming_both(app), app.org_id) == []
    await assert_same(app, graph, copy)


async def damaged(app: App, graph: Graph, copy: str) -> tuple[UUID, UUID, UUID, UUID]:
    """Let one user differ under a number from before a backup, another one and a message be lost, and one be too many."""
    wanted, held = await expected_nodes(app), graph.held_copies[copy]
    told_of = {key for key, node in wanted.items() if node.label == "User" and node.edges}
    user, lost, *_ = sorted(told_of, key=lambda one: -sum(leads_to(node, one) for node in wanted.values()))
    message_id = max(key for key, node in wanted.items() if node.label == "Message")
    await graph.drop(copy, [lost, message_id])
    await graph.put(copy, [replace(held[user], version=10**9, properties={"kind": "other"})])
    stray = uuid7()
    await graph.put(copy, [replace(held[user], id=stray)])
    return user, lost, message_id, stray


def leads_to(node: Node, target_id: UUID) -> bool:
    return any(edge.target_id == target_id for edge in node.edges)


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("target", ["qdrant", "neo4j"])
async def test_a_repair_that_is_killed_before_anything_is_asked_for_takes_nothing_away(
    app: App, both: tuple[Shelf, Graph], monkeypatch: pytest.MonkeyPatch, target: Target
) -> None:
    shelf = both[0] if target == "qdrant" else both[1]
    projecting = await told(app)
    await projecting.rebuild(target)
    (copy,) = shelf.held_copies
    held = shelf.held_copies[copy]
    first, second, *_ = sorted(held)
    lost = held.pop(first)
    stray = uuid7()
    held |= {stray: replace(lost, id=stray), second: replace(lost, id=second, version=10**9)}
    before, edges = on(shelf, copy), {name: set(lines) for name, lines in both[1].edges.items()}
    found = await projecting.diff(target)
    ask_in = projections.enqueue_for

    def die(*_args: Any, **_more: Any) -> None:
        raise SystemExit

    monkeypatch.setattr(projections, "enqueue_for", die)
    with pytest.raises(SystemExit):
        await projecting.diff(target, repair=True)

    assert (on(shelf, copy), both[1].edges) == (before, edges)
    again = await projecting.diff(target)
    assert again == found
    monkeypatch.setattr(projections, "enqueue_for", ask_in)
    await projecting.diff(target, repair=True)
    await projection.drain(ProjectionWorker(db=app.db, projection=shelf, queue=target), only_org=app.org_id)
    assert (await projecting.diff(target)).count == 0
    assert on(shelf, copy).keys() == (before.keys() | {first}) - {stray}


@pytest.mark.slow
async def test_one_server_is_written_to_while_the_other_is_away(app: App, both: tuple[Shelf, Graph]) -> None:
    shelf, graph = both
    projecting = await told(app)
    await projecting.rebuild("qdrant")
    await projecting.rebuild("neo4j")
    (points,), (nodes,) = shelf.held_copies, graph.held_copies
    settings = naming_both(app)
    shelf.is_down = True
    await app.ingest_batch([message("later", "one more", author=author("ann"), sent_at=at(9000))])
    await app.drain()

    failing = await projection_service.write_pending(app.db, settings, app.org_id)

    assert failing == ["qdrant: the shelf fell down"]
    await assert_same(app, graph, nodes)
    ways = {one.target: (one.waiting > 0, one.error) for one in await projecting.status()}
    assert ways == {"neo4j": (False, None), "qdrant": (True, "the shelf fell down")}
    shelf.is_down = False
    assert await projection_service.write_pending(app.db, settings, app.org_id) == []
    assert on(shelf, points) == await expected(app, "fake-hash-384")


@pytest.mark.slow
async def test_copies_of_other_orgs_are_written_while_those_of_one_fail(
    open_app: Callable[[str], Awaitable[App]], both: tuple[Shelf, Graph]
) -> None:
    _, graph = both
    names = {}
    for name in ("first", "second", "third"):
        app = await open_app(name)
        await (await told(app)).rebuild("neo4j")
        (copy,) = graph.held_copies.keys() - set(names)
        names[copy] = app
        await app.ingest_batch([message("later", "one more", author=author("ann"), sent_at=at(9000))])
    refusing, *others = names
    graph.refusing.add(refusing)
    app = names[refusing]

    failing = await projection_service.write_pending(app.db, naming_both(app), None)

    assert failing == ["neo4j: this copy is not for you"]
    for copy in others:
        await assert_same(names[copy], graph, copy)


@pytest.mark.slow
async def test_what_comes_is_written_for_other_orgs_while_the_copies_of_one_fail(
    open_app: Callable[[str], Awaitable[App]], both: tuple[Shelf, Graph]
) -> None:
    _, graph = both
    names = {}
    for name in ("first", "second"):
        app = await open_app(name)
        await (await told(app)).rebuild("neo4j")
        (copy,) = graph.held_copies.keys() - set(names)
        names[copy] = app
    refusing, other = names
    graph.refusing.add(refusing)
    stop = asyncio.Event()
    keeping = asyncio.create_task(projection_service.follow_changes(app.db, naming_both(app), stop))

    for one in names.values():
        await one.ingest_batch([message("later", "one more", author=author("ann"), sent_at=at(9000))])

    await until(lambda: has_none_waiting(names[other]))
    assert await waiting_in(names[refusing])
    await assert_same(names[other], graph, other)
    stop.set()
    await keeping


async def has_none_waiting(app: App) -> bool:
    return not await waiting_in(app)


async def waiting_in(app: App) -> int:
    return sum([one.waiting for one in await app.projections.status()])


async def test_copies_are_the_operators(app: App, shelf: Shelf) -> None:
    await app.ingest_batch([message("1", "hello", room=room(visibility="open"))])
    member = app.impersonate(await app.viewer("Ana"))

    for call in (
        member.projections.status(),
        member.projections.rebuild("qdrant"),
        member.projections.diff("qdrant"),
        member.projections.drop("qdrant"),
    ):
        with pytest.raises(NotAllowed):
            await call
    assert shelf.held_copies == {}


async def test_a_server_nobody_configured_is_told_of(app: App) -> None:
    with pytest.raises(BadInput, match="ROOMLORE_QDRANT_URL"):
        await app.projections.rebuild("qdrant")
    with pytest.raises(BadInput, match="ROOMLORE_NEO4J_URL"):
        await app.projections.rebuild("neo4j")
    with pytest.raises(BadInput, match="must be one of"):
        await app.projections.rebuild("excel")


@pytest.mark.slow
@pytest.mark.usefixtures("shelf")
async def test_a_copy_that_lags_or_lacks_something_is_not_asked(
    app: App, admin: psycopg.AsyncConnection
) -> None:
    projecting = await told(app)
    await projecting.rebuild("qdrant")
    settings = replace(app.settings, qdrant=QdrantSettings(url="http://127.0.0.1:9"))
    proposing = CandidateSource(access=app.access, settings=settings, projection_clients=ProjectionClients())
    assert (await proposing.readable_index())[0] is not None

    await app.ingest_batch([message("later", "one more", author=author("ann"), sent_at=at(9000))])
    assert (await proposing.readable_index())[0] is not None, "for half a minute"
    await admin.execute(
        "update roomlore.work_queue set asked_at = now() - interval '31 seconds' where org_id = %s",
        [app.org_id],
    )
    assert (await proposing.readable_index())[0] is None
    await admin.execute(
        "update roomlore.work_queue set asked_at = now(), dead_lettered_at = now() where org_id = %s",
        [app.org_id],
    )
    assert (await proposing.readable_index())[0] is None
