"""Nodes for tests, a plain model of an index, and direct access to the server."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from neo4j import AsyncGraphDatabase, NotificationMinimumSeverity

from roomlore.domain.projections import Edge, Node, StoredDigest

#: Kind, where it begins, where it ends, who owns it, and its properties.
Line = tuple[str, str, str, str, tuple[tuple[str, Any], ...]]


def uid(number: int) -> UUID:
    return UUID(int=number)


def user(number: int, *, version: int = 1, is_bot: bool = False, edges: Sequence[Edge] = ()) -> Node:
    properties = {"name": f"user {number}", "is_bot": is_bot}
    return Node(id=uid(number), version=version, label="User", properties=properties, edges=edges)


def message(
    number: int, *, author: int, room: int = 900, reply_to: int | None = None, version: int = 1
) -> Node:
    edges = [Edge(kind="AUTHORED", label="User", target_id=uid(author), incoming=True)]
    if reply_to is not None:
        edges.append(Edge(kind="REPLIED_TO", label="Message", target_id=uid(reply_to)))
    sent_at = f"2026-03-01T10:{number % 60:02}:00Z"
    properties = {"sent_at": sent_at, "kind": "message", "room_uuid": str(uid(room))}
    return Node(id=uid(number), version=version, label="Message", properties=properties, edges=edges)


@dataclass(slots=True)
class Model:
    """A copy as it should be, in the plainest way."""

    nodes: dict[UUID, Node] = field(default_factory=dict)
    #: By kind, target, direction and owner.
    edges: dict[tuple[str, UUID, bool, UUID], Edge] = field(default_factory=dict)

    def put(self, nodes: Sequence[Node]) -> None:
        for node in sorted(nodes, key=lambda one: -one.version):
            if node.id in self.nodes and self.nodes[node.id].version >= node.version:
                continue
            self.nodes[node.id] = node
            self.edges = {key: edge for key, edge in self.edges.items() if key[3] != node.id}
            for edge in node.edges:
                self.edges[edge.kind, edge.target_id, edge.incoming, node.id] = edge

    def drop(self, ids: Sequence[UUID]) -> None:
        for one in ids:
            self.nodes.pop(one, None)
            self.edges = {key: edge for key, edge in self.edges.items() if one not in (key[1], key[3])}

    def invalidate(self, ids: Sequence[UUID]) -> None:
        for one in self.nodes.keys() & set(ids):
            self.nodes[one] = replace(self.nodes[one], version=-1)

    def renewed(self, ids: Sequence[UUID]) -> list[Node]:
        """Return nodes as they are, of newer versions."""
        there = [self.nodes[one] for one in sorted(self.nodes.keys() & set(ids))]
        return [replace(node, version=node.version + 1) for node in there]

    def held(self) -> list[StoredDigest]:
        """Return what the copy says that it holds: no digest goes with edges that are lost."""
        found: list[StoredDigest] = []
        for one, node in sorted(self.nodes.items()):
            is_whole = all(
                (edge.kind, edge.target_id, edge.incoming, one) in self.edges for edge in node.edges
            )
            found.append(StoredDigest(id=one, digest=node.digest if is_whole else ""))
        return found

    def seen(self) -> tuple[dict[str, tuple[str, int, Mapping[str, Any]]], set[str], list[Line]]:
        nodes = {str(one.id): (one.label, one.version, dict(one.properties)) for one in self.nodes.values()}
        stubs = {str(one) for key in self.edges for one in (key[1], key[3])} - nodes.keys()
        return nodes, stubs, sorted(self._line(*key) for key in self.edges)

    def _line(self, kind: str, target: UUID, incoming: bool, owner: UUID) -> Line:  # noqa: FBT001
        begin, end = (target, owner) if incoming else (owner, target)
        properties = self.edges[kind, target, incoming, owner].properties
        return kind, str(begin), str(end), str(owner), tuple(sorted(properties.items()))


class Raw:
    """A server past Roomlore."""

    def __init__(self, server: tuple[str, str, str]) -> None:
        url, name, password = server
        self._driver = AsyncGraphDatabase.driver(
            url,
            auth=(name, password),
            notifications_min_severity=NotificationMinimumSeverity.OFF,
            warn_notification_severity=NotificationMinimumSeverity.OFF,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._driver.close()

    async def ask(self, text: str, **parameters: Any) -> list[dict[str, Any]]:
        found = await self._driver.execute_query(text, parameters)
        return [record.data() for record in found.records]

    async def plan(self, text: str, **parameters: Any) -> list[str]:
        """Return the names of the steps of a plan."""
        found = await self._driver.execute_query(f"EXPLAIN {text}", parameters)
        steps: list[str] = []
        waiting = [found.summary.plan]
        while waiting:
            step = waiting.pop()
            steps.append(f"{step['operatorType'].split('@')[0]} {step['args'].get('Details', '')}")
            waiting += step.get("children", [])
        return steps

    async def seen(
        self, copy: str
    ) -> tuple[dict[str, tuple[str, int, Mapping[str, Any]]], set[str], list[Line]]:
        """Return the nodes, stubs and edges of a copy, as a model shows them."""
        nodes: dict[str, tuple[str, int, Mapping[str, Any]]] = {}
        stubs: set[str] = set()
        asked = "MATCH (n:Subject {copy: $copy}) RETURN labels(n) AS labels, properties(n) AS properties"
        for row in await self.ask(asked, copy=copy):
            properties = row["properties"]
            assert properties.pop("copy") == copy
            id_ = properties.pop("uuid")
            assert id_ not in nodes.keys() | stubs, "a subject has two nodes"
            version = properties.pop("version")
            (label,) = set(row["labels"]) - {"Subject", "Entity"}
            if properties.pop("digest", None) is None:
                assert version == -1
                assert properties.keys() <= {"name"}
                stubs.add(id_)
            else:
                properties.pop("owned")
                properties.pop("edges")
                nodes[id_] = (label, version, properties)
        return nodes, stubs, await self._lines(copy)

    async def _lines(self, copy: str) -> list[Line]:
        asked = """MATCH (a:Subject {copy: $copy})-[r]->(b) RETURN type(r) AS kind, a.uuid AS begin, b.uuid AS end,
            properties(r) AS properties"""
        lines: list[Line] = []
        for row in await self.ask(asked, copy=copy):
            properties = row["properties"]
            properties.pop("version")
            owner = row["end"] if properties.pop("incoming") else row["begin"]
            lines.append((row["kind"], row["begin"], row["end"], owner, tuple(sorted(properties.items()))))
        return sorted(lines)
