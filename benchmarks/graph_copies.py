"""Indexes in Neo4j: writing speed beside the bare driver, and rebuilding speed.

    python -m benchmarks.graph_copies put [--messages N] [--rounds N]
    python -m benchmarks.graph_copies rebuild [--messages N]

The server is started for the benchmark (tests/projections/neo4j/running.py, on the same cores), or --url names one, with
user and password in NEO4J_USER and NEO4J_PASSWORD. Compared runs alternate; figures are medians.

put: Roomlore beside the official driver, which merges the same nodes and edges with the same constraint: ready-made rows,
the same batches, a transaction for each, a statement for each label and kind of edge; without versions, digests, owners of
edges, stubs, or locks. First into an empty index, then the same nodes again, then with one property of each node and one
edge of each message and person changed; the bare driver leaves old edges.
rebuild: an index of N messages of an org in an embedded database, from the first query until it is ready.
"""

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from operator import truediv
from pathlib import Path
from statistics import median
from typing import Any, LiteralString, cast
from uuid import UUID

from neo4j import AsyncDriver, AsyncGraphDatabase, AsyncManagedTransaction, NotificationMinimumSeverity

from benchmarks.copied import PEOPLE, ROOMS, START, filled, opened, seconds
from roomlore.domain.ids import uuid7
from roomlore.domain.projections import Edge, Node, NodeLabel, PropertyValue
from roomlore.operations.candidates import ProjectionClients
from roomlore.projections.neo4j import Neo4jProjection, batches, open_neo4j
from roomlore.settings import Neo4jSettings

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from projections.neo4j.running import Server, class_path

COPY = "put"
#: Rows of statements, by their text.
Rows = Mapping[str, list[dict[str, Any]]]
#: Messages per conversation, and messages per memory.
CONVERSATION, MEMORY = 20, 20
TAGS = 40
REPLYING = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a Neo4j is."""

    url: str
    user: str
    password: str

    def driver(self) -> AsyncDriver:
        """Return the bare driver."""
        return cast("Any", AsyncGraphDatabase).driver(
            self.url,
            auth=(self.user, self.password),
            notifications_min_severity=NotificationMinimumSeverity.OFF,
            warn_notification_severity=NotificationMinimumSeverity.OFF,
            telemetry_disabled=True,
        )


@asynccontextmanager
async def server(given: argparse.Namespace) -> AsyncGenerator[Address]:
    if given.url:
        yield Address(
            url=given.url,
            user=os.environ.get("NEO4J_USER", "neo4j"),
            password=os.environ.get("NEO4J_PASSWORD", ""),
        )
        return
    with tempfile.TemporaryDirectory(prefix="roomlore-benchmark-") as folder:
        own = Server(Path(folder) / "neo4j", class_path(Path(folder)))
        own.start()
        try:
            yield Address(url=own.url, user=own.user, password=own.password)
        finally:
            own.kill()


async def put(given: argparse.Namespace, at: Address) -> dict[str, Any]:
    """Return how many nodes a second are written, by us and by the bare driver, in turns."""
    nodes = story(given.messages, random.Random(7))
    again = [replace(node, version=2) for node in nodes]
    changed = [changed_from(node) for node in again]
    told = {"first": nodes, "again": again, "changed": changed}
    ready = {when: [rows_of(batch) for batch in batches(some)] for when, some in told.items()}
    ours = open_neo4j(at.url, user=at.user, password=at.password, seconds=120)
    bare = at.driver()
    ways: dict[str, Callable[[str], Awaitable[None]]] = {
        "ours": lambda when: ours.put(COPY, told[when]),
        "bare": lambda when: bare_put(bare, ready[when]),
    }
    rates: dict[str, dict[str, list[float]]] = {when: {name: [] for name in ways} for when in told}
    for turn in range(given.rounds + 1):
        for name in list(ways)[:: 1 if turn % 2 else -1]:
            await ours.prepare(COPY)
            for when in told:
                took = await seconds(ways[name](when))
                # The first turn warms up.
                rates[when][name] += [len(nodes) / took] if turn else []
            await remove(ours, bare, name)
    await ours.close()
    await bare.close()
    edges = sum(len(node.edges) for node in nodes)
    return {"nodes": len(nodes), "edges": edges} | {when: compared(some) for when, some in rates.items()}


def compared(rates: Mapping[str, list[float]]) -> dict[str, Any]:
    return {
        "nodes/s": {name: round(median(some)) for name, some in rates.items()},
        "all": {name: [round(rate) for rate in some] for name, some in rates.items()},
        # Of turns, for both sides of one meet the same neighbours.
        "ours of bare": round(median(map(truediv, rates["ours"], rates["bare"])), 2),
    }


async def remove(ours: Neo4jProjection, bare: AsyncDriver, name: str) -> None:
    """Remove what was written, once it is sure that all of it was."""
    counted = await bare.execute_query(
        "MATCH (n:Subject {copy: $copy}) OPTIONAL MATCH (n)-[r]->() "
        "RETURN count(DISTINCT n) AS nodes, count(r) AS edges",
        copy=COPY,
    )
    print(name, counted.records[0].data(), file=sys.stderr, flush=True)
    await ours.remove(COPY)


async def bare_put(bare: AsyncDriver, ready: Sequence[Rows]) -> None:
    async def write(work: AsyncManagedTransaction, statements: Rows) -> None:
        for text, rows in statements.items():
            await (await work.run(cast("LiteralString", text), rows=rows, copy=COPY)).consume()

    async with bare.session() as session:
        for statements in ready:
            await session.execute_write(write, statements)


def rows_of(nodes: Sequence[Node]) -> Rows:
    """Return statements that write nodes and their edges, with their rows."""
    statements: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for node in nodes:
        row = {"id": str(node.id), "properties": {**node.properties, "copy": COPY, "uuid": str(node.id)}}
        statements[
            f"UNWIND $rows AS row MERGE (n:Subject {{copy: $copy, uuid: row.id}}) SET n += row.properties, n:{node.label}"
        ].append(row)
    for node in nodes:
        for edge in node.edges:
            begin, end = ("<-", "-") if edge.incoming else ("-", "->")
            row = {"id": str(node.id), "target": str(edge.target_id), "properties": dict(edge.properties)}
            statements[
                f"UNWIND $rows AS row MATCH (n:Subject {{copy: $copy, uuid: row.id}}) "
                f"MERGE (t:Subject {{copy: $copy, uuid: row.target}}) SET t:{edge.label} "
                f"MERGE (n){begin}[r:{edge.kind}]{end}(t) SET r += row.properties"
            ].append(row)
    return statements


def changed_from(node: Node) -> Node:
    """Return a node as it is when a message comes into another conversation, and a person has talked once more."""
    edges = list(node.edges)
    if edges and node.label in {"Message", "User"}:
        last = edges[-1]
        moved = {"target_id": UUID(int=last.target_id.int ^ 1)} if node.label == "Message" else {}
        counted = {"properties": {**last.properties, "count": 100}} if node.label == "User" else {}
        edges[-1] = replace(last, **moved, **counted)
    return replace(node, version=3, properties={**node.properties, "revised": True}, edges=edges)


def story(count: int, chance: random.Random) -> list[Node]:
    """Return so many messages, their people, rooms and conversations, and memories of them, as the database has them."""
    people, rooms = [uuid7() for _ in range(PEOPLE)], [uuid7() for _ in range(ROOMS)]
    tags = [UUID(int=chance.getrandbits(128)) for _ in range(TAGS)]
    made = [_node(key, "Room", [], is_open=bool(place % 2)) for place, key in enumerate(rooms)]
    for key in people:
        edges = [_edge("MEMBER_OF", "Room", room, joined_at=_at(0)) for room in rooms]
        others = chance.sample(people, PEOPLE // 3)
        edges += [
            _edge("TALKED_TO", "User", one, count=chance.randint(1, 99), last=_at(count)) for one in others
        ]
        made.append(_node(key, "User", edges, is_bot=False, kind="human"))
    said: list[UUID] = []
    for number in range(count):
        room = rooms[number // CONVERSATION % ROOMS]
        if number % CONVERSATION == 0:
            conversation = uuid7()
            made.append(_node(conversation, "Conversation", [], room_uuid=str(room)))
        made.append(_message(number, uuid7(), chance.choice(people), room, conversation, said, chance))
        said.append(made[-1].id)
        if number % MEMORY == MEMORY - 1:
            made.append(_memory(number, room, people, tags, said[-MEMORY:], chance))
    return made


def _message(  # noqa: PLR0917  a line of a made-up world
    number: int,
    key: UUID,
    author: UUID,
    room: UUID,
    conversation: UUID,
    said: Sequence[UUID],
    chance: random.Random,
) -> Node:
    edges = [_edge("AUTHORED", "User", author, incoming=True)]
    place = number % CONVERSATION
    if place and chance.random() < REPLYING:
        edges.append(_edge("REPLIED_TO", "Message", chance.choice(said[-place:])))
    edges.append(_edge("IN_CONVERSATION", "Conversation", conversation))
    return _node(
        key,
        "Message",
        edges,
        room_uuid=str(room),
        sent_at=_at(number),
        sequence=number,
        author_uuid=str(author),
        kind="message",
    )


def _memory(  # noqa: PLR0917  a line of a made-up world
    number: int,
    room: UUID,
    people: Sequence[UUID],
    tags: Sequence[UUID],
    said: Sequence[UUID],
    chance: random.Random,
) -> Node:
    edges = [_edge("HAS_MEMORY", "User", chance.choice(people), incoming=True)]
    edges += [_edge("ABOUT", "User", chance.choice(people))]
    edges += [_edge("TAGGED", "Tag", one) for one in chance.sample(tags, 2)]
    edges += [_edge("RESTS_ON", "Message", one) for one in chance.sample(said, 2)]
    return _node(
        uuid7(), "Memory", edges, kind="fact", is_active=True, recorded_at=_at(number), room_uuid=str(room)
    )


def _node(key: UUID, label: NodeLabel, edges: Sequence[Edge], **properties: PropertyValue) -> Node:
    return Node(id=key, version=1, label=label, properties=properties, edges=edges)


def _edge(
    kind: Any, label: NodeLabel, target: UUID, *, incoming: bool = False, **properties: PropertyValue
) -> Edge:
    return Edge(kind=kind, label=label, target_id=target, incoming=incoming, properties=properties)


def _at(number: int) -> str:
    return (START + timedelta(seconds=number)).isoformat(timespec="microseconds")


async def rebuild(given: argparse.Namespace, at: Address) -> dict[str, Any]:
    """Return how long a copy takes to be built."""
    neo4j = Neo4jSettings(url=at.url, user=at.user, password=at.password)
    servers = ProjectionClients(_neo4j=open_neo4j(at.url, user=at.user, password=at.password))
    async with opened(servers, neo4j=neo4j) as app:
        await filled(app, given.messages, replying=REPLYING)
        took = await seconds(app.projections.rebuild("neo4j"))
        (state,) = await app.projections.status()
        assert state.is_ready
        comparing = await seconds(app.projections.diff("neo4j"))
        await app.projections.drop("neo4j")
    return {
        "messages": given.messages,
        "rebuilt in s": round(took, 1),
        "messages/s": round(given.messages / took),
        "compared in s": round(comparing, 1),
    }


PARTS: dict[str, Callable[[argparse.Namespace, Address], Awaitable[dict[str, Any]]]] = {
    "put": put,
    "rebuild": rebuild,
}


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=PARTS)
    parser.add_argument(
        "--url", help="a real server, whose user and password are in NEO4J_USER and NEO4J_PASSWORD"
    )
    parser.add_argument("--messages", type=int)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    given.messages = given.messages or {"put": 5_000, "rebuild": 20_000}[given.part]
    async with server(given) as at:
        print(json.dumps({given.part: await PARTS[given.part](given, at)}, indent=2))


if __name__ == "__main__":
    asyncio.run(main())
