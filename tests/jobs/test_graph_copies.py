"""Graphs of people, rooms, conversations, messages and memories end up as the database is, whatever happens and when."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import psycopg
import pytest
from hypothesis import given, settings

from db.test_visibility import generated
from db.worlds import World, load, worlds
from ingest.stories import Story, at, author, message, room, stories
from jobs.copying import Graph, Shelf, assert_same, expected, expected_nodes, on
from jobs.rooms import busy_room
from memories.drafts import kept
from privacy.village import remember
from roomlore.db import graph_nodes, projections
from roomlore.db.projections import NewIndex
from roomlore.domain.errors import BackendUnavailable
from roomlore.domain.incoming import IncomingMembership
from roomlore.domain.projections import GraphTexts, Node, tag_id
from roomlore.jobs import projection, runner
from roomlore.jobs.projection import ProjectionWorker, index_prefix
from roomlore.operations import App

OpenApp = Callable[[str], Awaitable[App]]


def worker_of(app: App, graph: Graph) -> ProjectionWorker:
    return ProjectionWorker(db=app.db, projection=graph, queue="neo4j")


async def build(app: App, graph: Graph, name: str = "1") -> str:
    """Say that a copy is to be built, and return what it is called."""
    copy = f"{index_prefix(app.org_id)}{name}"
    await graph.prepare(copy, dimensions=0)
    await app.db.change(
        app.org_id,
        lambda conn: projections.start_rebuild(conn, app.org_id, "neo4j", NewIndex(index_name=copy)),
    )
    return copy


async def drained(app: App, graph: Graph) -> None:
    await projection.drain(worker_of(app, graph), only_org=app.org_id)


async def of_label(app: App, label: str) -> list[Node]:
    return [node for node in (await expected_nodes(app)).values() if node.label == label]


async def participant(app: App, account_id: str) -> UUID:
    viewer = await app.viewer(account_id)
    assert viewer.participant_id is not None
    return viewer.participant_id


@pytest.mark.slow
async def test_a_graph_holds_who_said_what_where_to_whom_and_what_is_remembered(app: App) -> None:
    ana, pip = author("ana"), author("pip", kind="agent")
    attic = room("attic", visibility="members", members=(IncomingMembership(author=ana),))
    await app.ingest_batch(
        [
            message("1", "the ferry leaves at nine", author=ana, order=7, sent_at=at(0)),
            message("2", "thanks", author=pip, reply_to="1", sent_at=at(1)),
            message("3", "no, at ten", author=ana, reply_to="2", sent_at=at(2)),
            message("4", "only for you", author=ana, kind="whisper", audience=(pip,), sent_at=at(3)),
            message("5", "behind the door", author=ana, room=attic, sent_at=at(4)),
            message("6", "ana opened a poll", author=ana, kind="system", reply_to="1", sent_at=at(5)),
        ]
    )
    await app.drain()
    ferry = await kept(app, "The ferry leaves at nine", "1", by="ana", tags=frozenset({"ferry"}))
    assert ferry is not None

    graph = await expected_nodes(app)

    ana_id, pip_id = await participant(app, "ana"), await participant(app, "pip")
    account = {"platform": "test", "id": "ana", "name": "Ana"}
    assert graph[ana_id].properties == {"is_bot": False, "kind": "human", **account}
    assert graph[pip_id].properties["is_bot"] is True
    [talk] = [edge for edge in graph[ana_id].edges if edge.kind == "TALKED_TO"]
    assert (talk.target_id, dict(talk.properties)) == (pip_id, {"count": 1, "last": iso(2)})
    rooms = {node.id: node.properties["is_open"] for node in graph.values() if node.label == "Room"}
    assert sorted(rooms.values()) == [False, True]
    assert {edge.target_id for edge in graph[ana_id].edges if edge.kind == "MEMBER_OF"} == rooms.keys()
    said = {node.properties["sent_at"]: node for node in graph.values() if node.label == "Message"}
    first, second, whisper = said[iso(0)], said[iso(1)], said[iso(3)]
    assert first.properties["sequence"] == 7
    assert (first.properties["platform"], first.properties["id"]) == ("test", "1")
    assert first.properties["author_uuid"] == str(ana_id)
    assert whisper.properties["audience"] == (str(pip_id),)
    assert "audience" not in first.properties
    [reply] = [edge for edge in second.edges if edge.kind == "REPLIED_TO"]
    assert reply.target_id == first.id
    notice = said[iso(5)]
    assert (notice.properties["kind"], notice.properties["author_uuid"]) == ("system", str(ana_id))
    assert not notice.edges, "nobody said it, and it answers nothing"
    memory = graph[ferry.memory_id]
    assert memory.properties["is_active"] is True
    assert memory.labels == ("Memory", "Entity")
    assert memory.properties["room_uuid"] == first.properties["room_uuid"]
    assert {(edge.kind, edge.target_id, edge.incoming) for edge in memory.edges} == {
        ("HAS_MEMORY", ana_id, True),
        ("FACT", ana_id, True),
        ("RESTS_ON", first.id, False),
        ("TAGGED", tag_id(app.org_id, "ferry"), False),
    }
    assert {node.label for node in graph.values()} == {"User", "Room", "Conversation", "Message", "Memory"}


def iso(minutes: float) -> str:
    return at(minutes).astimezone(UTC).isoformat(timespec="microseconds")


def everything_in(node: Node) -> str:
    return repr((node.properties, [(edge.properties, edge.target_name) for edge in node.edges]))


async def told_secrets(app: App) -> None:
    """Let somebody say things that only some settings let into a graph, and others that none does."""
    ana, pip = author("ana"), author("pip", kind="agent")
    await app.ingest_batch(
        [
            message("1", "the ferry leaves at nine", author=ana, sent_at=at(0)),
            message(
                "2", "my password is swordfish", author=ana, kind="whisper", audience=(pip,), sent_at=at(1)
            ),
            message("3", "I am ill", author=ana, sent_at=at(2)),
        ]
    )
    await app.drain()
    await kept(app, "Ana takes the ferry", "1", by="ana", about=("ana",), tags=frozenset({"travel"}))
    await kept(app, "Ana likes swordfish", "2", by="ana", about=("ana",), tags=frozenset({"swordfish"}))
    await kept(
        app, "Ana is ill", "3", by="ana", about=("ana",), tags=frozenset({"illness"}), sensitivity="sensitive"
    )


SAID = {
    "none": [],
    "memories": ["takes the ferry", "travel"],
    "all": ["takes the ferry", "travel", "leaves at nine"],
}


@pytest.mark.parametrize("texts", ["none", "memories", "all"])
async def test_a_graph_has_only_the_texts_that_the_setting_allows(app: App, texts: GraphTexts) -> None:
    await told_secrets(app)

    held = " ".join(everything_in(node) for node in (await expected_nodes(app, texts)).values())

    found = [text for text in ("takes the ferry", "travel", "leaves at nine") if text in held]
    assert found == SAID[texts]
    assert "swordfish" not in held
    assert "is ill" not in held
    assert "illness" not in held


async def test_a_restricted_text_leaves_the_graph_and_comes_back_when_the_restriction_is_lifted(
    app: App,
) -> None:
    await told_secrets(app)
    graph = Graph()
    copy = await build(app, graph)
    worker = replace(worker_of(app, graph), texts="all")
    await projection.drain(worker, only_org=app.org_id)
    assert "ferry" in " ".join(map(everything_in, graph.held_copies[copy].values()))
    await app.ingest_batch(
        [message("4", "please forget that", author=author("ana"), reply_to="1", sent_at=at(3))]
    )
    await app.drain()
    [request] = await app.privacy_requests.all(app.operator)
    await projection.drain(worker, only_org=app.org_id)

    held = " ".join(map(everything_in, graph.held_copies[copy].values()))
    assert "ferry" not in held

    await app.privacy_requests.dismiss(str(request.id))
    await projection.drain(worker, only_org=app.org_id)
    held = " ".join(map(everything_in, graph.held_copies[copy].values()))
    assert "leaves at nine" in held
    assert "takes the ferry" in held

    # Nothing else changes now that would write them again.
    await app.privacy_requests.apply(str(request.id))
    await projection.drain(worker, only_org=app.org_id)
    held = " ".join(map(everything_in, graph.held_copies[copy].values()))
    assert "ferry" not in held


async def test_a_new_name_reaches_the_graph_also_if_nobody_wrote_anything_under_it(app: App) -> None:
    await app.ingest_batch([message("1", "hello", author=author("ana"), sent_at=at(0))])
    await app.drain()
    graph = Graph()
    copy = await build(app, graph)
    await drained(app, graph)
    renamed = IncomingMembership(author=replace(author("ana"), name="Ana Maria"))
    await app.ingest_batch(
        [message("2", "hi", author=author("bo"), room=room("hall", members=(renamed,)), sent_at=at(9))]
    )
    await drained(app, graph)

    await assert_same(app, graph, copy)
    async with app.db.read_transaction(app.operator) as conn:
        people = await participant(app, "ana")
        [node] = await graph_nodes.nodes(conn, app.org_id, [people], version=0)
    assert graph.held_copies[copy][people].properties["name"] == node.properties["name"]


@pytest.mark.slow
@pytest.mark.timeout(300)
@given(story=stories())
@settings(generated, max_examples=5)
async def test_a_copy_kept_up_with_any_story_is_what_a_fresh_one_would_be(
    story: Story, open_app: OpenApp
) -> None:
    app, graph = await open_app("told"), Graph()
    copy = await build(app, graph)
    await drained(app, graph)

    for number, batch in enumerate(story.batches):
        await app.ingest_batch(batch)
        if number % 2:
            await app.disentangle()
            await drained(app, graph)
    await app.drain()
    await drained(app, graph)

    await assert_same(app, graph, copy)
    again = await build(app, graph, "2")
    await drained(app, graph)
    await assert_same(app, graph, again)
    assert set(graph.held_copies) == {again}


@pytest.mark.timeout(300)
@given(world=worlds())
@settings(generated, max_examples=3)
@pytest.mark.slow
async def test_a_fresh_copy_of_any_world_leads_nowhere_but_to_what_is_there(
    world: World, open_app: OpenApp
) -> None:
    app, graph = await open_app("world"), Graph()
    await load(app, world)
    copy = await build(app, graph)

    await drained(app, graph)

    await assert_same(app, graph, copy)


NOTICE = message("notice", "Ana opened a poll", author=author("ana"), kind="system", sent_at=at(70))


async def lived(app: App, seed: int) -> None:
    """Let an org with a memory of everybody be as busy as they come."""
    await app.ingest_batch([*busy_room(seed, 50), NOTICE])
    await app.drain()
    await kept(app, "Ana's poll is about printers", "notice", by="bo", tags=frozenset({"polls"}))
    for number, who in enumerate(("ana", "bo", "cy")):
        await kept(
            app,
            f"{who} knows {number} things about printers",
            f"m{number}",
            by=who,
            about=("dee", who),
            tags=frozenset({"printers", who}),
        )


async def revise(app: App, chance: random.Random, said: list) -> None:
    one = chance.choice(said)
    await app.ingest_batch([replace(one, body=chance.choice(["why?", "no"]), edited_at=at(9000))])


async def redact(app: App, chance: random.Random, said: list) -> None:
    await app.ingest_batch([replace(chance.choice(said), body="", deleted=True)])


async def tell_notices(app: App, _chance: random.Random, _said: list) -> None:
    """A notice is told, and another one is told otherwise."""
    another = replace(NOTICE, external_id="another", sent_at=at(9000))
    await app.ingest_batch([another, replace(NOTICE, body="Ana closed it", edited_at=at(9000))])


async def take_back_a_notice(app: App, _chance: random.Random, _said: list) -> None:
    await app.ingest_batch([replace(NOTICE, body="", deleted=True)])


async def answer(app: App, chance: random.Random, said: list) -> None:
    number, to = chance.randrange(10**6), chance.choice(said)
    one = message(
        f"n{number}", "so it is", author=to.author, sent_at=at(9001), reply_to=chance.choice(said).external_id
    )
    await app.ingest_batch([one])


async def close_door(app: App, _chance: random.Random, said: list) -> None:
    closed = replace(said[0].room, visibility="members")
    await app.ingest_batch(
        [message("closing", "now among us", room=closed, author=said[0].author, sent_at=at(9002))]
    )


async def join_and_leave(app: App, chance: random.Random, said: list) -> None:
    who = chance.choice(said).author
    stay = IncomingMembership(author=who, joined_at=at(-9), left_at=at(chance.randrange(1, 99)))
    where = room("attic", visibility="members", members=(stay,))
    await app.ingest_batch(
        [message(f"in{chance.randrange(10**6)}", "hello in here", room=where, sent_at=at(9003))]
    )


async def turn_out_a_bot(app: App, chance: random.Random, said: list) -> None:
    who = replace(chance.choice(said).author, kind="agent")
    await app.ingest_batch([message("beep", "beep", author=who, sent_at=at(9004))])


async def whisper_to_a_bot(app: App, chance: random.Random, said: list) -> None:
    """Somebody known by now turns out to be a bot, and says nothing."""
    bot = replace(chance.choice(said).author, kind="agent")
    whisper = message("psst", "look", author=author("zoe"), kind="whisper", audience=(bot,), sent_at=at(9005))
    await app.ingest_batch([whisper])


async def erase_message(app: App, chance: random.Random, _said: list) -> None:
    async with app.db.read_transaction(app.operator) as conn:
        rows = await conn.execute("select id from messages where redacted_at is null order by id")
        ids = [row[0] for row in await rows.fetchall()]
    await app.erasure.message(str(chance.choice(ids)))


async def erase_person(app: App, chance: random.Random, _said: list) -> None:
    people = await app.participants(app.operator)
    if len(people) > 2:
        await app.erasure.person(str(chance.choice([one.id for one in people])))


async def erase_stretch(app: App, _chance: random.Random, said: list) -> None:
    [where] = [one for one in await app.rooms(app.operator) if one.name == said[0].room.name]
    await app.erasure.range(str(where.id), since=None, until=said[10].sent_at)


async def put_aside(app: App, _chance: random.Random, _said: list) -> None:
    for node in sorted(await of_label(app, "Memory"), key=lambda node: node.id)[:1]:
        if node.properties["is_active"]:
            await app.memories.archive(str(node.id))
        else:
            await app.memories.restore(str(node.id))


async def marry(app: App, _chance: random.Random, _said: list) -> None:
    people = [str(one.id) for one in await app.participants(app.operator) if one.kind == "human"][:2]
    if len(people) > 1:
        await app.people.merge(people[0], people[1])


async def correct(app: App, _chance: random.Random, _said: list) -> None:
    for node in sorted(await of_label(app, "Memory"), key=lambda node: node.id)[:1]:
        if node.properties["is_active"]:
            await app.memories.correct(str(node.id), "knows nothing about printers at all")


DEEDS = (
    correct,
    revise,
    redact,
    tell_notices,
    take_back_a_notice,
    answer,
    close_door,
    join_and_leave,
    turn_out_a_bot,
    whisper_to_a_bot,
    erase_message,
    erase_person,
    erase_stretch,
    put_aside,
    marry,
)


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.__name__)
async def test_whatever_is_done_reaches_the_graph(app: App, deed) -> None:
    said, graph = busy_room(3, 50), Graph()
    await lived(app, 3)
    copy = await build(app, graph)
    await drained(app, graph)
    await assert_same(app, graph, copy)

    await deed(app, random.Random(7), said)
    await drained(app, graph)

    await assert_same(app, graph, copy)
    await app.drain()
    await drained(app, graph)
    await assert_same(app, graph, copy)


@pytest.mark.timeout(300)
@pytest.mark.slow
async def test_one_deed_after_the_other_reaches_the_graph(app: App) -> None:
    said, graph, chance = busy_room(11, 50), Graph(), random.Random(2)
    await lived(app, 11)
    copy = await build(app, graph)

    for deed in chance.sample(DEEDS, len(DEEDS)):
        await deed(app, chance, said)
        if chance.random() < 0.5:
            await app.disentangle()
            await runner.step(worker_of(app, graph))
    await app.drain()
    await drained(app, graph)

    await assert_same(app, graph, copy)


@pytest.mark.slow
async def test_who_answered_what_only_came_later_talked_to_whoever_wrote_it(app: App) -> None:
    early = message("early", "so it is", author=author("bo"), sent_at=at(9), reply_to="late")
    await app.ingest_batch([early])
    graph = Graph()
    copy = await build(app, graph)
    await drained(app, graph)

    await app.ingest_batch([message("late", "is it?", author=author("ana"), sent_at=at(1))])
    await drained(app, graph)

    await assert_same(app, graph, copy)
    assert any(">TALKED_TO" in line for line in graph.edges[copy])


@pytest.mark.slow
async def test_of_an_erased_person_nothing_is_left_in_the_graph_not_even_an_end_of_an_edge(app: App) -> None:
    await lived(app, 3)
    graph = Graph()
    # Names somebody without a word of theirs, and so outlives them.
    kept_on = await remember(app, "Bo met many", roles=[("bo", "subject"), ("ana", "involved")])
    copy = await build(app, graph)
    await drained(app, graph)
    gone = await participant(app, "ana")
    wrote = [
        node.id for node in await of_label(app, "Message") if node.properties["author_uuid"] == str(gone)
    ]
    assert any(str(gone) in line for line in graph.edges[copy])

    await app.erasure.person(str(gone))
    await drained(app, graph)

    assert kept_on in graph.held_copies[copy]
    traces = {str(one) for one in (gone, *wrote)}
    held = json.dumps(
        [
            [str(node.id), dict(node.properties), [str(edge) for edge in node.edges]]
            for node in graph.held_copies[copy].values()
        ]
    )
    assert wrote
    assert not [one for one in traces if one in held]
    assert not [line for line in graph.edges[copy] if traces & set(line.split(" "))]
    await assert_same(app, graph, copy)


@pytest.mark.slow
async def test_whoever_always_writes_holds_up_no_copy(app: App) -> None:
    await app.ingest_batch([message("0", "good morning", author=author("bot"), sent_at=at(0))])
    await app.drain()

    class Busy(Graph):
        """Something is said each time that something is written."""

        async def put(self, copy: str, subjects: Sequence[Node]) -> None:
            number = self.written + 1
            await app.ingest(message(f"n{number}", "tick", author=author("bot"), sent_at=at(number)))
            await super().put(copy, subjects)
            self.written = number

    graph = Busy()
    await build(app, graph)
    worker = worker_of(app, graph)

    for _ in range(10):
        await runner.step(worker)
        await worker.advance_build(app.org_id)

    (held,) = await app.db.change(app.org_id, lambda conn: projections.all_projections(conn, app.org_id))
    assert (held.index_name is not None, held.next_index_name) == (True, None)
    backlog = await app.db.change(app.org_id, lambda conn: projections.backlog(conn, app.org_id, "neo4j"))
    assert backlog.waiting, "there is always something left to write"


@pytest.mark.slow
async def test_a_conversation_that_comes_back_while_it_is_removed_keeps_its_messages(app: App) -> None:
    await app.ingest_batch(busy_room(5, 12, whispers=False))
    await app.drain()
    graph = Graph()
    copy = await build(app, graph)
    await drained(app, graph)
    one = min(await of_label(app, "Conversation"), key=lambda node: node.id)
    graph.may_drop = asyncio.Event()
    graph.begun.clear()
    held = await take_apart(app, one.id)
    removing = asyncio.create_task(runner.step(worker_of(app, graph)))
    await graph.begun.wait()

    await put_together(app, one.id, held)
    await runner.step(worker_of(app, graph))
    graph.may_drop.set()
    await removing
    await drained(app, graph)

    await assert_same(app, graph, copy)


async def take_apart(app: App, conversation_id: UUID) -> list[tuple]:
    """Take a conversation away, and return what it takes to bring it back."""
    held: list[tuple] = []

    async def work(conn: psycopg.AsyncConnection) -> None:
        rows = await conn.execute(
            "delete from conversation_messages where conversation_id = %s returning message_id",
            [conversation_id],
        )
        ids = [row[0] for row in await rows.fetchall()]
        rows = await conn.execute(
            "delete from conversations where id = %s returning room_id, opened_at, last_at, idle_timeout",
            [conversation_id],
        )
        held.extend([(ids,), *await rows.fetchall()])
        await projections.enqueue_nodes(conn, app.org_id, [conversation_id])

    await app.db.change(app.org_id, work)
    return held


async def put_together(app: App, conversation_id: UUID, held: list[tuple]) -> None:
    (ids,), facts = held

    async def work(conn: psycopg.AsyncConnection) -> None:
        await conn.execute(
            "insert into conversations (org_id, id, split_reason, room_id, opened_at, last_at, idle_timeout)"
            " values (%s, %s, 'first', %s, %s, %s, %s)",
            [app.org_id, conversation_id, *facts],
        )
        await conn.execute(
            "insert into conversation_messages (org_id, message_id, conversation_id) select %s, unnest(%s::uuid[]), %s",
            [app.org_id, ids, conversation_id],
        )
        await projections.enqueue_nodes(conn, app.org_id, [conversation_id])
        await projections.enqueue(conn, app.org_id, ids)

    await app.db.change(app.org_id, work)


async def overlap(graph: Graph, first: asyncio.Task, second: runner.StepResult) -> bool:
    assert graph.go is not None
    graph.go.set()
    return (await first).taken > 0 and second.done > 0


@pytest.mark.slow
async def test_a_worker_killed_in_the_middle_loses_nothing(app: App, admin: psycopg.AsyncConnection) -> None:
    await lived(app, 5)
    graph = Graph(go=asyncio.Event())
    copy = await build(app, graph)
    worker = worker_of(app, graph)
    await worker.begin(app.org_id)
    killed = asyncio.create_task(runner.step(worker))
    await graph.begun.wait()
    killed.cancel()
    await asyncio.gather(killed, return_exceptions=True)
    # As if it had not even given back what it had taken, and its lease had run out.
    await admin.execute("update roomlore.work_queue set due_at = now() where org_id = %s", [app.org_id])
    graph.go = None

    await drained(app, graph)

    await assert_same(app, graph, copy)


@pytest.mark.slow
async def test_everything_is_asked_for_in_portions_and_goes_on_where_somebody_was_killed(app: App) -> None:
    await lived(app, 5)
    graph = Graph()
    copy = await build(app, graph)
    careful = replace(worker_of(app, graph), chunk_size=10)
    await app.db.change(
        app.org_id, lambda conn: projections.publish_rebuild(conn, org_id=app.org_id, target="neo4j")
    )
    # Two portions, and then it is killed.
    assert await app.db.change(app.org_id, lambda conn: careful._enqueue_chunk(conn, app.org_id))
    assert await app.db.change(app.org_id, lambda conn: careful._enqueue_chunk(conn, app.org_id))
    async with app.db.read_transaction(app.operator) as conn:
        [held] = await projections.all_projections(conn, app.org_id)
        assert held.next_since is None
        assert (await projections.backlog(conn, app.org_id, "neo4j")).waiting == 20
        asked = await conn.execute("select count(*) from work_queue where queue = 'neo4j' and version = 0")
        assert await asked.fetchone() is not None

    await careful.advance_build(app.org_id)
    await projection.drain(careful, only_org=app.org_id)

    await assert_same(app, graph, copy)
    async with app.db.read_transaction(app.operator) as conn:
        [held] = await projections.all_projections(conn, app.org_id)
    assert (held.index_name, held.next_index_name) == (copy, None)


@pytest.mark.slow
async def test_where_an_org_has_points_only_nobody_asks_for_nodes_and_the_other_way_round(app: App) -> None:
    graph = Graph()
    await build(app, graph)
    await drained(app, graph)

    await lived(app, 5)

    async with app.db.read_transaction(app.operator) as conn:
        rows = await conn.execute("select distinct queue from work_queue where queue in ('qdrant', 'neo4j')")
        assert [queue for (queue,) in await rows.fetchall()] == ["neo4j"]


@pytest.mark.slow
async def test_points_are_written_while_the_graph_is_away(app: App) -> None:
    await app.ingest_batch(busy_room(5, 20))
    await app.drain()
    graph, shelf = Graph(), Shelf()
    copy = await build(app, graph)
    points = f"{index_prefix(app.org_id)}points"
    await shelf.prepare(points, dimensions=384)
    planned = NewIndex(index_name=points, model="fake-hash-384", dimensions=384)
    await app.db.change(
        app.org_id, lambda conn: projections.start_rebuild(conn, app.org_id, "qdrant", planned)
    )
    await drained(app, graph)
    graph.is_down = True
    await app.ingest_batch([message("later", "is anybody there?", author=author("ana"), sent_at=at(9000))])
    await app.drain()

    with pytest.raises(BackendUnavailable):
        await drained(app, graph)
    await projection.drain(ProjectionWorker(db=app.db, projection=shelf, queue="qdrant"), only_org=app.org_id)

    assert on(shelf, points) == await expected(app, "fake-hash-384")
    graph.is_down = False
    await drained(app, graph)
    await assert_same(app, graph, copy)


@pytest.mark.slow
async def test_an_older_reading_never_takes_the_place_of_a_newer_one(app: App) -> None:
    await app.ingest_batch([message("1", "hello")])
    await app.drain()
    graph = Graph()
    copy = await build(app, graph)
    await drained(app, graph)
    node = min(graph.held_copies[copy].values(), key=lambda one: one.id)

    await graph.put(copy, [replace(node, version=node.version - 1, properties={"kind": "older"})])

    await assert_same(app, graph, copy)
    assert node.version > 0
    assert datetime.now(UTC) > at(0)
