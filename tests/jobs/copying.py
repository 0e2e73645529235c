"""A server of copies that lives in a dictionary, and can fail in the ways that servers do."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from roomlore.db import graph_nodes, projections
from roomlore.domain.errors import BackendUnavailable, BadInput
from roomlore.domain.projections import Edge, GraphTexts, Node, StoredDigest
from roomlore.operations import App


@dataclass
class Shelf:
    """Copies by name, each a dictionary of points, or of nodes."""

    held_copies: dict[str, dict[UUID, Any]] = field(default_factory=dict)
    #: Ids that are never taken.
    poison: set[UUID] = field(default_factory=set)
    #: Copies that are not written to.
    refusing: set[str] = field(default_factory=set)
    is_down: bool = False
    #: Set once something is to be written; it goes on when `go` is set.
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event | None = None
    written: int = 0

    def _copy(self, name: str) -> dict[UUID, Any]:
        if self.is_down:
            raise BackendUnavailable("the shelf fell down", cure="put it up again")
        if name in self.refusing:
            raise BackendUnavailable("this copy is not for you", cure="ask for it")
        if name not in self.held_copies:
            raise BackendUnavailable(f"the copy {name} is gone", cure="rebuild it")
        return self.held_copies[name]

    async def prepare(self, copy: str, *, dimensions: int) -> None:
        assert dimensions in {0, 384}
        if self.is_down:
            raise BackendUnavailable("the shelf fell down", cure="put it up again")
        self.held_copies.setdefault(copy, {})

    async def put(self, copy: str, subjects: Sequence[Any]) -> None:
        self.begun.set()
        if self.go is not None:
            await self.go.wait()
        held = self._copy(copy)
        for point in subjects:
            if point.id not in self.poison and (
                point.id not in held or held[point.id].version < point.version
            ):
                held[point.id] = point
                self.written += 1
        refused = [point.id for point in subjects if point.id in self.poison]
        if refused:
            raise BadInput(f"point {refused[0]}", "is not to the shelf's taste")

    async def drop(self, copy: str, ids: Sequence[UUID]) -> None:
        held = self._copy(copy)
        for one in ids:
            held.pop(one, None)

    async def invalidate(self, copy: str, ids: Sequence[UUID]) -> None:
        held = self._copy(copy)
        for one in held.keys() & set(ids):
            held[one] = replace(held[one], version=-1)

    async def stored_digests(self, copy: str, *, after: UUID | None, limit: int) -> list[StoredDigest]:
        ids = sorted(one for one in self._copy(copy) if after is None or one > after)
        return [StoredDigest(id=one, digest=self.held_copies[copy][one].digest) for one in ids[:limit]]

    async def index_names(self) -> list[str]:
        if self.is_down:
            raise BackendUnavailable("the shelf fell down", cure="put it up again")
        return list(self.held_copies)

    async def remove(self, copy: str) -> None:
        self.held_copies.pop(copy, None)

    async def close(self) -> None:
        """Have nothing to close."""


async def expected(app: App, model: str) -> dict[UUID, str]:
    """Return the digest of everything that a copy is to hold."""
    async with app.db.read_transaction(app.operator) as conn:
        ids = await projections.ids_after(conn, app.org_id, None, limit=100_000)
        points = await projections.points(conn, app.org_id, ids, model=model, version=0)
    return {point.id: point.digest for point in points}


def on(shelf: Shelf, copy: str) -> dict[UUID, str]:
    """Return the digest of everything that a copy holds."""
    return {key: point.digest for key, point in shelf.held_copies[copy].items()}


async def expected_nodes(app: App, texts: GraphTexts = "none") -> dict[UUID, Node]:
    """Return everything that a graph is to hold."""
    async with app.db.read_transaction(app.operator) as conn:
        ids = await graph_nodes.ids_after(conn, app.org_id, None, limit=100_000)
        assert ids == sorted(set(ids))
        found = await graph_nodes.nodes(conn, app.org_id, ids, version=0, texts=texts)
        return {node.id: node for node in found}


@dataclass
class Graph(Shelf):
    """Copies whose edges go with either end, as those of a server do, whatever a digest says."""

    edges: dict[str, set[str]] = field(default_factory=dict)
    #: Something is removed once this is set.
    may_drop: asyncio.Event | None = None

    async def put(self, copy: str, subjects: Sequence[Node]) -> None:
        written = [one for one in subjects if one.id not in self.poison and self._is_news(copy, one)]
        await super().put(copy, subjects)
        for node in written:
            lines = {line for line in self.edges.get(copy, set()) if not line.startswith(f"{node.id} ")}
            self.edges[copy] = lines | lines_of(node)

    def _is_news(self, copy: str, node: Node) -> bool:
        held = self.held_copies.get(copy, {}).get(node.id)
        return held is None or held.version < node.version

    async def stored_digests(self, copy: str, *, after: UUID | None, limit: int) -> list[StoredDigest]:
        found = await super().stored_digests(copy, after=after, limit=limit)
        lines = self.edges.get(copy, set())
        return [
            one if lines_of(self.held_copies[copy][one.id]) <= lines else replace(one, digest="")
            for one in found
        ]

    async def drop(self, copy: str, ids: Sequence[UUID]) -> None:
        self.begun.set()
        if self.may_drop is not None:
            await self.may_drop.wait()
        await super().drop(copy, ids)
        gone = {str(one) for one in ids}
        lines = self.edges.get(copy, set())
        self.edges[copy] = {line for line in lines if gone.isdisjoint(line.split(" "))}


def lines_of(node: Node) -> set[str]:
    """Return the edges that a node owns, each as its owner, the other end and all that is said of it."""
    return {_line(node.id, edge) for edge in node.edges}


def _line(owner: UUID, edge: Edge) -> str:
    about = ",".join(f"{name}={value}" for name, value in sorted(edge.properties.items()))
    return f"{owner} {edge.target_id} {'<' if edge.incoming else '>'}{edge.kind}:{edge.label}({about})"


async def assert_same(app: App, graph: Graph, copy: str) -> None:
    """A graph holds what it is to hold, and its edges lead to what it holds; only tags have no node of their own."""
    wanted = await expected_nodes(app)
    assert on(graph, copy) == {key: node.digest for key, node in wanted.items()}
    assert graph.edges.get(copy, set()) == {line for node in wanted.values() for line in lines_of(node)}
    led = {edge.target_id for node in wanted.values() for edge in node.edges if edge.label != "Tag"}
    assert led <= wanted.keys()
    labels = {key: node.label for key, node in wanted.items()}
    assert all(
        labels[edge.target_id] == edge.label
        for node in wanted.values()
        for edge in node.edges
        if edge.label != "Tag"
    )
