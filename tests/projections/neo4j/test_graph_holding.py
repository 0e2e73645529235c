"""An index in Neo4j has the newest version of every node, for any order and number of writes."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from projections.neo4j.stories import Model, Raw, message, uid, user
from roomlore.domain.errors import BackendUnavailable, BadInput
from roomlore.domain.ids import uuid7
from roomlore.domain.projections import Edge, Node, StoredDigest, VisibilityFilter
from roomlore.projections import neo4j as graphs
from roomlore.projections.neo4j import Neo4jProjection, label_values
from roomlore.projections.neo4j_connection import LAYOUT, load_queries

pytestmark = pytest.mark.slow

IDS = st.integers(1, 5).map(uid)
# Two kinds that run both ways between the same few nodes, so that they meet.
EDGES = st.builds(
    Edge,
    kind=st.sampled_from(["AUTHORED", "REPLIED_TO"]),
    label=st.sampled_from(["User", "Message"]),
    target_id=IDS,
    incoming=st.booleans(),
    properties=st.dictionaries(st.sampled_from(["a", "b"]), st.integers(0, 3), max_size=1),
)
NODES = st.builds(
    Node,
    id=IDS,
    version=st.integers(0, 4),
    label=st.sampled_from(["User", "Message"]),
    properties=st.dictionaries(st.sampled_from(["a", "b"]), st.booleans() | st.text(max_size=2), max_size=2),
    edges=st.lists(EDGES, max_size=3, unique_by=lambda one: (one.kind, one.target_id, one.incoming)),
)
PUTS = st.lists(NODES, min_size=1, max_size=4, unique_by=lambda one: one.id)
SOME = st.lists(IDS, max_size=2)
STEPS = st.lists(
    st.tuples(st.just("put"), PUTS) | st.tuples(st.sampled_from(["drop", "invalidate", "again"]), SOME),
    max_size=8,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
async def test_a_copy_equals_the_plainest_model_of_it(graph: Neo4jProjection, raw: Raw, steps):
    model = Model()
    copy = f"test-{uuid7().hex}"
    await graph.prepare(copy, dimensions=0)
    for step, some in steps:
        what, about = ("put", model.renewed(some)) if step == "again" else (step, some)
        getattr(model, what)(about)
        await getattr(graph, what)(copy, about)
        assert await raw.seen(copy) == model.seen()
        assert await graph.stored_digests(copy, after=None, limit=10) == model.held()
    await graph.remove(copy)


async def test_an_older_version_never_replaces_a_newer_one(graph: Neo4jProjection, copy: str):
    newer, older = message(2, author=1, version=5), message(2, author=3, version=4)
    await graph.put(copy, [newer])
    await graph.put(copy, [older])
    assert await graph.stored_digests(copy, after=None, limit=9) == [
        StoredDigest(id=uid(2), digest=newer.digest)
    ]


async def test_the_newest_of_a_batch_counts(graph: Neo4jProjection, copy: str):
    newest = replace(user(1, version=3), properties={"name": "newest"})
    await graph.put(copy, [user(1, version=1), newest, user(1, version=2)])
    assert await graph.stored_digests(copy, after=None, limit=9) == [
        StoredDigest(id=uid(1), digest=newest.digest)
    ]


async def test_a_property_that_is_no_longer_given_goes(graph: Neo4jProjection, raw: Raw, copy: str):
    await graph.put(copy, [user(1)])
    await graph.put(copy, [replace(user(1, version=2), properties={"is_bot": True})])
    nodes, _, _ = await raw.seen(copy)
    assert nodes[str(uid(1))] == ("User", 2, {"is_bot": True})


async def test_what_is_written_again_leaves_the_same(graph: Neo4jProjection, raw: Raw, copy: str):
    nodes = [user(1), user(2), *(message(n, author=1 + n % 2, reply_to=n - 1) for n in range(10, 60))]
    await graph.put(copy, nodes)
    before = await raw.seen(copy)
    await graph.put(copy, nodes)
    await graph.put(copy, [replace(one, version=2) for one in nodes])
    after = await raw.seen(copy)
    assert after[1:] == before[1:]
    assert after[0].keys() == before[0].keys()


async def test_only_what_differs_is_written_again(graph: Neo4jProjection, raw: Raw, copy: str):
    talked = [Edge(kind="TALKED_TO", label="User", target_id=uid(2), properties={"count": 1})]
    member = [Edge(kind="MEMBER_OF", label="Room", target_id=uid(900))]
    await graph.put(copy, [user(1, edges=[*talked, *member]), user(2), message(10, author=1)])
    talked = [replace(talked[0], properties={"count": 2})]
    await graph.put(copy, [user(1, version=2, edges=[*talked, *member]), message(10, author=1, version=2)])

    found = await raw.ask(
        "MATCH ({copy: $copy})-[r]->() RETURN type(r) AS kind, r.version AS version", copy=copy
    )

    assert {row["kind"]: row["version"] for row in found} == {"TALKED_TO": 2, "MEMBER_OF": 1, "AUTHORED": 1}
    nodes, _, lines = await raw.seen(copy)
    assert (nodes[str(uid(10))][1], len(lines)) == (2, 3)


async def test_an_author_need_not_be_written_anew_for_a_message(graph: Neo4jProjection, raw: Raw, copy: str):
    await graph.put(copy, [user(1), message(10, author=1)])
    await graph.put(copy, [user(1, version=2), message(11, author=1)])
    _, _, lines = await raw.seen(copy)
    assert [(kind, begin, end) for kind, begin, end, _, _ in lines] == [
        ("AUTHORED", str(uid(1)), str(uid(10))),
        ("AUTHORED", str(uid(1)), str(uid(11))),
    ]


async def test_what_is_not_written_yet_is_not_held(graph: Neo4jProjection, raw: Raw, copy: str):
    await graph.put(copy, [message(10, author=1, reply_to=9)])
    assert [one.id for one in await graph.stored_digests(copy, after=None, limit=9)] == [uid(10)]
    await graph.drop(copy, [uid(10)])
    assert await raw.seen(copy) == ({}, set(), [])


async def test_what_is_distrusted_stays_until_any_version_is_written(
    graph: Neo4jProjection, raw: Raw, copy: str, monkeypatch
):
    monkeypatch.setattr(graphs, "BATCH", 2)
    talked = Edge(kind="TALKED_TO", label="User", target_id=uid(2))
    said = [message(n, author=1, version=9) for n in range(10, 14)]
    await graph.put(copy, [user(1, version=9, edges=[talked]), user(2, version=9), *said])
    before = await raw.seen(copy)

    await graph.invalidate(copy, [uid(1), *(one.id for one in said[:2]), uid(99)])

    after = await raw.seen(copy)
    assert (after[0].keys(), *after[1:]) == (before[0].keys(), *before[1:])
    await graph.put(copy, [user(1, version=3), *(message(n, author=2, version=3) for n in range(10, 14))])
    _, _, lines = await raw.seen(copy)
    authored = {end: begin for kind, begin, end, _, _ in lines if kind == "AUTHORED"}
    assert authored == {str(uid(n)): str(uid(2 if n < 12 else 1)) for n in range(10, 14)}
    assert len(lines) == 4, "what it owned is no longer written"


async def test_what_is_distrusted_is_written_whole_though_it_seems_to_be_there(
    graph: Neo4jProjection, raw: Raw, copy: str
):
    said = message(10, author=1, version=5)
    await graph.put(copy, [said])
    before = await raw.seen(copy)
    await raw.ask("MATCH ({copy: $copy})-[r:AUTHORED]->() DELETE r", copy=copy)
    assert await graph.stored_digests(copy, after=None, limit=9) == [StoredDigest(id=said.id, digest="")]

    await graph.invalidate(copy, [said.id])
    await graph.put(copy, [said])

    assert await raw.seen(copy) == before


async def test_a_drop_that_was_broken_off_is_undone_by_writing_the_same_again(
    graph: Neo4jProjection, raw: Raw, copy: str, monkeypatch
):
    member = [Edge(kind="MEMBER_OF", label="Room", target_id=uid(n)) for n in (900, 901)]
    await graph.put(copy, [user(1, edges=member), message(10, author=1)])
    before = await raw.seen(copy)
    monkeypatch.setattr(graphs, "MAX_DELETED_EDGES", 1)
    assert not await graph._delete_batch(copy, [str(uid(1))], is_leaving=False)
    assert await raw.seen(copy) != before

    await graph.put(copy, [user(1, version=2, edges=member), message(10, author=1, version=2)])

    assert (await raw.seen(copy))[1:] == before[1:]


async def test_who_lost_an_edge_has_no_digest_until_it_is_written_again(graph: Neo4jProjection, copy: str):
    said = [message(10, author=1), message(11, author=2, reply_to=10)]
    await graph.put(copy, [user(1), user(2), *said])
    await graph.drop(copy, [uid(1)])
    await graph.put(copy, [user(1, version=2)])

    held = {one.id.int: one.digest for one in await graph.stored_digests(copy, after=None, limit=9)}

    assert held == {1: user(1).digest, 2: user(2).digest, 10: "", 11: said[1].digest}
    await graph.put(copy, [replace(said[0], version=3)])
    assert [one.digest for one in await graph.stored_digests(copy, after=uid(9), limit=1)] == [said[0].digest]


async def test_what_is_held_comes_in_the_order_of_ids(graph: Neo4jProjection, copy: str):
    ids = sorted(uuid7() for _ in range(7))
    await graph.put(copy, [Node(id=one, version=1, label="Tag") for one in reversed(ids)])
    found, after = [], None
    while page := await graph.stored_digests(copy, after=after, limit=3):
        found += [one.id for one in page]
        after = page[-1].id
    assert found == ids
    assert await graph.stored_digests(copy, after=None, limit=0) == []


async def test_copies_do_not_touch_each_other(graph: Neo4jProjection, raw: Raw, copy: str):
    other = f"test-{uuid7().hex}"
    await graph.prepare(other, dimensions=0)
    await graph.put(copy, [message(10, author=1)])
    await graph.put(other, [message(10, author=2)])
    before = await raw.seen(copy)
    await graph.drop(other, [uid(10)])
    assert {copy, other} <= set(await graph.index_names())
    await graph.remove(other)
    assert other not in await graph.index_names()
    assert await raw.seen(copy) == before


async def test_preparing_again_changes_nothing(graph: Neo4jProjection, raw: Raw, copy: str):
    await graph.put(copy, [message(10, author=1)])
    before = await raw.seen(copy)
    await graph.prepare(copy, dimensions=0)
    assert await raw.seen(copy) == before


async def test_writers_at_once_leave_no_duplicate(graph: Neo4jProjection, raw: Raw, copy: str):
    batches = [
        [user(1), user(2), *(message(100 * batch + n, author=1 + n % 2) for n in range(20))]
        for batch in range(1, 21)
    ]
    await asyncio.gather(*(graph.put(copy, batch) for batch in batches))
    nodes, stubs, lines = await raw.seen(copy)
    assert (len(nodes), len(stubs), len(lines)) == (402, 0, 400)


@pytest.mark.parametrize(
    "properties",
    [{"": 1}, {"a\0": 1}, {"version": 1}, {"edges": 1}, {"big": 2**63}, {"broken": "\ud800"}],
    ids=["no-name", "null-name", "our-name", "our-other-name", "big", "surrogate"],
)
async def test_what_is_never_taken_is_named_and_the_rest_goes_through(
    graph: Neo4jProjection, copy: str, properties
):
    poison = replace(user(3), properties={"secret": "quoted by nobody", **properties})
    with pytest.raises(BadInput) as caught:
        await graph.put(copy, [user(1), poison, user(4)])
    assert str(uid(3)) in str(caught.value)
    assert "quoted" not in str(caught.value)
    assert [one.id for one in await graph.stored_digests(copy, after=None, limit=9)] == [uid(1), uid(4)]


async def test_what_the_server_itself_refuses_is_found_by_halves(graph: Neo4jProjection, copy: str):
    poison = replace(user(3), properties={"nested": {"a": 1}})  # pyright: ignore[reportArgumentType]
    real, graphs._is_valid_node = graphs._is_valid_node, lambda _: True
    try:
        with pytest.raises(BadInput, match=str(uid(3))):
            await graph.put(copy, [user(n) for n in (1, 2)] + [poison] + [user(n) for n in (4, 5)])
    finally:
        graphs._is_valid_node = real
    assert [one.id.int for one in await graph.stored_digests(copy, after=None, limit=9)] == [1, 2, 4, 5]


async def test_a_copy_that_nobody_prepared_is_gone(graph: Neo4jProjection):
    for asked in (
        graph.put("never", [user(1)]),
        graph.drop("never", [uid(1)]),
        graph.invalidate("never", [uid(1)]),
        graph.stored_digests("never", after=None, limit=1),
        graph.view_for("never", VisibilityFilter(is_operator=True)).messages_by_agents(limit=1),
    ):
        with pytest.raises(BackendUnavailable, match="gone; run: roomlore index rebuild neo4j"):
            await asked
    await graph.remove("never")


async def test_removing_goes_on_where_it_was_broken_off(
    graph: Neo4jProjection, raw: Raw, copy: str, monkeypatch
):
    monkeypatch.setattr(graphs, "BATCH", 10)
    monkeypatch.setattr(graphs, "MAX_DELETED_EDGES", 15)
    await graph.put(copy, [user(1), *(message(n, author=1, reply_to=n - 1) for n in range(11, 60))])
    cut, rounds = graph._delete_batch, 0

    async def break_off(*args, **more):
        nonlocal rounds
        rounds += 1
        if rounds == 3:
            raise BackendUnavailable("Neo4j cannot be reached", cure="wait")
        return await cut(*args, **more)

    monkeypatch.setattr(graph, "_delete_batch", break_off)
    with pytest.raises(BackendUnavailable):
        await graph.remove(copy)
    assert copy in await graph.index_names()
    with pytest.raises(BackendUnavailable, match="gone"):
        await graph.put(copy, [user(1)])
    assert await raw.ask("MATCH (n:Subject {copy: $copy}) RETURN n.uuid", copy=copy)
    await graph.prepare(copy, dimensions=0)
    assert rounds > 5, "one transaction must not take it all"
    assert await raw.seen(copy) == ({}, set(), [])


async def test_a_node_with_many_edges_is_dropped_by_and_by(
    graph: Neo4jProjection, raw: Raw, copy: str, monkeypatch
):
    monkeypatch.setattr(graphs, "MAX_DELETED_EDGES", 7)
    await graph.put(copy, [user(1), *(message(n, author=1) for n in range(10, 40))])
    await graph.drop(copy, [uid(1)])
    nodes, stubs, lines = await raw.seen(copy)
    assert (len(nodes), stubs, lines) == (30, set(), [])


@pytest.mark.parametrize(
    "name",
    [
        "lock_known",
        "create_nodes",
        "renew_nodes",
        "replace_nodes",
        "create_edges",
        "merge_edges",
        "delete_edges",
        "distrust_nodes",
        "distrust_edges",
        "count_edges",
        "delete_stubs",
        "cut_nodes",
        "drop_nodes",
        "held",
        "some_of",
    ],
)
async def test_every_write_finds_its_nodes_by_the_index(raw: Raw, copy: str, name: str):
    text = load_queries()[name]
    for word, meant in {**label_values("User"), "kind": "AUTHORED", "from": "<-", "to": "-"}.items():
        text = text.replace(f"<{word}>", meant)
    rows, edges = [{"uuid": "1"}], {"targets": ["2"], "properties": [], "incoming": True, "version": 1}
    plan = await raw.plan(
        text, copy=copy, rows=rows, ids=["1"], limit=5, after="", leaving=False, layout=LAYOUT, **edges
    )
    assert name == "create_nodes" or any("Index" in step for step in plan), plan
    assert not name.endswith("_edges") or sum("Index" in step for step in plan) == 1 + (
        name in {"create_edges", "merge_edges"}
    ), plan
    assert not any("AllNodesScan" in step or "ByLabelScan" in step for step in plan), plan
    if name == "held":
        assert not any(step.startswith(("Sort", "Top")) for step in plan), plan
