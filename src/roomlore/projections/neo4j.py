"""The projection in Neo4j: a graph of participants, messages and memories.

Each subject is one node. The node is found by index and uuid, whatever its label is. One transaction writes nodes of one
version, each with the changed edges that it owns. If an edge leads to a node that is not written yet, a stub is created
in place of the node. A writer locks the `Copy` node of its index. So there is only one writer at a time, which can
create new nodes without a second lookup.
"""

import hashlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from itertools import groupby
from typing import TYPE_CHECKING, Any, get_args
from uuid import UUID

from roomlore.domain.errors import BadInput
from roomlore.domain.projections import Edge, EdgeKind, Node, NodeLabel, PropertyValue, StoredDigest
from roomlore.projections import server
from roomlore.projections.neo4j_queries import Neo4jQueries

if TYPE_CHECKING:
    from roomlore.projections.neo4j_connection import Neo4jConnection, Row, Transaction

#: Nodes and edges per transaction. A node with more edges has a transaction of its own.
BATCH = 1_000
BATCH_EDGES = 5_000
#: The maximum number of edges that one transaction deletes. More edges might not fit into the server's memory.
MAX_DELETED_EDGES = 10_000
#: The constraints and indexes of the database, in the order in which they are made.
_DEFINITIONS = (
    "drop_old_constraint",
    "constrain_subjects",
    "constrain_copies",
    "index_bots",
    "index_users",
    "index_messages",
)
#: Properties of nodes and edges that only Roomlore itself uses.
RESERVED_PROPERTIES = frozenset({"copy", "uuid", "version", "digest", "owned", "edges", "incoming"})
_SCHEMES = frozenset({"bolt", "bolt+s", "neo4j", "neo4j+s"})
_LARGEST_INTEGER = 2**63 - 1
_LONGEST_NAME = 1_000
_LABELS: Sequence[NodeLabel] = get_args(NodeLabel)

#: For each kind of edge that a node owns ("REPLIED_TO", or "<AUTHORED" for incoming edges), a digest of its edges of
#: this kind.
_EdgeDigests = Mapping[str, str]


def open_neo4j(
    url: str, *, user: str, password: str, database: str | None = None, seconds: float = 30.0
) -> "Neo4jProjection":
    """Return the projection in a server. It connects on first use.

    Args:
        url: For example bolt://127.0.0.1:7687 or neo4j+s://host.
        user: User name.
        password: Password of the user.
        database: The database. None means the user's default database.
        seconds: Timeout of one transaction with all its retries.

    Raises:
        BadInput: the extra is not installed, or the address cannot be used.
    """
    check_server(url, user=user, password=password)
    if not (math.isfinite(seconds) and seconds > 0):
        raise BadInput("Neo4j seconds", "must be more than nothing")
    from roomlore.projections.neo4j_connection import Neo4jConnection  # noqa: PLC0415  needs the extra

    return Neo4jProjection(
        Neo4jConnection(url, user=user, password=password, database=database, seconds=seconds)
    )


def check_server(url: str, *, user: str, password: str) -> None:
    """Check that a server can be named like this, and that the driver is there.

    Raises:
        BadInput: the extra is not installed, or the address cannot be used.
    """
    parts = server.parse_url("Neo4j", url, schemes=_SCHEMES, example="bolt://host:7687")
    if parts.path.strip("/"):
        raise BadInput("Neo4j URL", "must end with host and port; a database is named apart")
    if not parts.scheme.endswith("+s") and not server.is_loopback(parts):
        raise BadInput(
            "Neo4j URL", "must be bolt+s or neo4j+s; others on the network could read the password"
        )
    if not user or not password:
        raise BadInput("Neo4j user and password", "must be given")
    if find_spec("neo4j") is None:
        raise BadInput("Neo4j", "needs the neo4j driver; run: pip install 'roomlore[neo4j]'")


class Neo4jProjection(Neo4jQueries):
    """A `Projection` of nodes in a Neo4j server, and its queries. Every call may raise `BackendUnavailable`."""

    def __init__(self, wire: "Neo4jConnection") -> None:
        super().__init__(wire)
        self._is_constrained = False

    def __repr__(self) -> str:
        """Show neither address nor password."""
        return "Neo4jProjection()"

    async def prepare(self, index_name: str, *, dimensions: int = 0) -> None:
        """Create an index unless it exists.

        `dimensions` is ignored, because a graph has no vectors.
        """
        del dimensions
        if not self._is_constrained:
            for name in _DEFINITIONS:
                await self._wire.define(name)
            # The database sees these indexes as lost, so their orgs get new ones.
            for row in await self._wire.read("old_copies", {}):
                await self.remove(row["name"])
            self._is_constrained = True
        if await self._is_being_removed(index_name):
            # The process that was removing the index may have been killed.
            await self.remove(index_name)
            await self._is_being_removed(index_name)

    async def _is_being_removed(self, index_name: str) -> bool:
        rows = await self._wire.write_transaction(
            lambda work: work.rows("prepare_copy", {"copy": index_name})
        )
        return bool(rows[0]["leaving"])

    async def put(self, index_name: str, subjects: Sequence[Node]) -> None:
        """Write nodes with their edges. A newer version on the server is not replaced.

        Raises:
            BackendUnavailable: the server failed or lost the index; some nodes may have been written.
            BadInput: the server refused some nodes, which are named; the others were written.
        """

        async def write(some: Sequence[Node]) -> None:
            await self._wire.write_transaction(lambda work: write_nodes(work, index_name, some))

        nodes = server.newest_versions(subjects)
        refused = [node.id for node in nodes if not _is_valid_node(node)]
        invalid = set(refused)
        for batch in batches([node for node in nodes if node.id not in invalid]):
            refused += await server.write_halving(write, batch)
        server.raise_if_refused("Neo4j", "subject", refused)

    async def drop(self, index_name: str, ids: Sequence[UUID]) -> None:
        """Remove nodes with all their edges. Unknown ids are ignored.

        After a failure, some nodes may have been removed.
        """
        for some in server.chunks(_distinct(ids), BATCH):
            while not await self._delete_batch(index_name, some, is_leaving=False):
                pass

    async def _delete_batch(self, index_name: str, ids: Sequence[str], *, is_leaving: bool) -> bool:
        """Delete one batch of edges of the nodes. The last batch also deletes the nodes.

        Return whether this was the last batch.
        """

        async def delete(work: "Transaction") -> bool:
            if not is_leaving and not await work.rows("lock_copy", {"copy": index_name}):
                raise server.IndexMissing("Neo4j")
            parameters = {"copy": index_name, "ids": ids, "limit": MAX_DELETED_EDGES, "leaving": is_leaving}
            deleted = await work.rows("cut_nodes", parameters)
            is_last = len(deleted) < MAX_DELETED_EDGES
            if is_last:
                await work.rows("drop_nodes", {"copy": index_name, "ids": ids})
            await _delete_stubs(work, index_name, deleted)
            return is_last

        return await self._wire.write_transaction(delete)

    async def invalidate(self, index_name: str, ids: Sequence[UUID]) -> None:
        """Mark nodes and the edges they own as invalid, so that any version may replace them.

        The nodes and edges are not removed.
        """
        for some in server.chunks(_distinct(ids), BATCH):
            await self._wire.write_transaction(lambda work, some=some: _invalidate(work, index_name, some))

    async def stored_digests(self, index_name: str, *, after: UUID | None, limit: int) -> list[StoredDigest]:
        """Return ids and digests of the nodes after an id, ordered by id.

        The digest of a node that lost an edge is empty.
        """
        since = "" if after is None else str(after)
        return await self._wire.read_transaction(
            lambda work: _stored_digests(work, index_name, since, max(limit, 0))
        )

    async def index_names(self) -> list[str]:
        """Return the names of the indexes in the server, including indexes that are half removed."""
        return [row["name"] for row in await self._wire.read("copies", {})]

    async def remove(self, index_name: str) -> None:
        """Remove an index if it exists.

        If the removal fails midway, the rest of the index is still listed, but no longer written to.
        """
        if not await self._wire.write_transaction(lambda work: work.rows("leave_copy", {"copy": index_name})):
            return
        while await self._delete_old_nodes(index_name):
            pass
        while rows := await self._wire.read("some_of", {"copy": index_name, "limit": BATCH}):
            ids = [row["id"] for row in rows]
            while not await self._delete_batch(index_name, ids, is_leaving=True):
                pass
        await self._wire.write_transaction(lambda work: work.rows("remove_copy", {"copy": index_name}))

    async def _delete_old_nodes(self, index_name: str) -> bool:
        """Delete some nodes that an older version wrote; return whether there were any."""
        if index_name not in [row["name"] for row in await self._wire.read("old_copies", {})]:
            return False
        parameters = {"copy": index_name, "limit": BATCH}
        rows = await self._wire.write_transaction(lambda work: work.rows("drop_old_nodes", parameters))
        return rows[0]["count"] > 0

    async def close(self) -> None:
        """Close the connections."""
        await self._wire.close()


def _distinct(ids: Sequence[UUID]) -> list[str]:
    return sorted({str(key) for key in ids})


# Which nodes can be written, and in which batches


def _is_valid_node(node: Node) -> bool:
    """Return whether the driver can send a node, and no property of the node has a reserved name."""
    return 0 <= node.version <= _LARGEST_INTEGER and all(
        _is_name(name) and _is_value(value)
        for properties in (node.properties, *(edge.properties for edge in node.edges))
        for name, value in properties.items()
    )


@lru_cache
def _is_name(name: str) -> bool:
    is_free = name not in RESERVED_PROPERTIES and "\0" not in name
    return 0 < len(name) <= _LONGEST_NAME and is_free and server.is_encodable(name)


def _is_value(value: PropertyValue) -> bool:
    if isinstance(value, str):
        return value.isascii() or server.is_encodable(value)
    if isinstance(value, tuple):
        return all(map(_is_value, value))
    return isinstance(value, float) or -_LARGEST_INTEGER - 1 <= value <= _LARGEST_INTEGER


def batches(nodes: Sequence[Node]) -> Iterator[list[Node]]:
    """Yield the nodes in batches, one per transaction: nodes of one version each, in the order of their ids."""
    ordered = sorted(nodes, key=lambda node: (node.version, node.id))
    for _, group in groupby(ordered, key=lambda node: node.version):
        yield from server.batches(group, lambda node: len(node.edges), max_items=BATCH, max_size=BATCH_EDGES)


# What happens within one transaction


@dataclass(frozen=True, slots=True)
class _StoredNode:
    """A node as the server has it."""

    version: int
    digest: str | None
    owned_text: str | None

    @property
    def is_whole(self) -> bool:
        """Whether the node is complete: it is no stub, it is not invalidated, and it has not lost an edge."""
        return self.version >= 0 and bool(self.digest)

    @property
    def owned(self) -> _EdgeDigests:
        """The digests of its edges by kind. A digest is empty if some of the edges may be missing."""
        owned = _parse_owned(self.owned_text or "")
        return owned if self.is_whole else dict.fromkeys(owned, "")


@dataclass(frozen=True, slots=True)
class _PendingNode:
    """A node to write."""

    node: Node
    digest: str
    owned: _EdgeDigests
    #: The digests of its edges before this change; None for a new node.
    owned_before: _EdgeDigests | None

    @property
    def is_new(self) -> bool:
        return self.owned_before is None

    @property
    def stale_kinds(self) -> list[str]:
        """The kinds of edges that the server may still have although the node no longer owns them."""
        return [kind for kind, digest in (self.owned_before or {}).items() if digest != self.owned.get(kind)]

    @property
    def changed_edges(self) -> list[Edge]:
        before = self.owned_before or {}
        return [edge for edge in self.node.edges if before.get(_kind(edge)) != self.owned[_kind(edge)]]


async def write_nodes(work: "Transaction", index_name: str, nodes: Sequence[Node]) -> None:
    """Write nodes of one version, each with those of its edges that have changed."""
    due, unchanged = await _changed_nodes(work, index_name, nodes)
    parameters = {"copy": index_name, "version": nodes[0].version}
    if unchanged:
        await work.rows("renew_nodes", {**parameters, "ids": unchanged})
    groups: dict[tuple[Sequence[NodeLabel], bool], list[Mapping[str, Any]]] = defaultdict(list)
    for pending in due:
        groups[pending.node.labels, pending.is_new].append(_properties(pending))
    for (labels, is_new), rows in sorted(groups.items()):
        name = "create_nodes" if is_new else "replace_nodes"
        await work.rows(name, {**parameters, "rows": rows}, words=label_values(*labels))
    await _write_edges(work, parameters, due)
    stale = {pending.node.id: pending.stale_kinds for pending in due}
    await _delete_stubs(work, index_name, await _by_kind(work, "delete_edges", parameters, stale))


async def _changed_nodes(
    work: "Transaction", index_name: str, nodes: Sequence[Node]
) -> tuple[list[_PendingNode], list[str]]:
    """Lock the index. Return the nodes to write, and the ids of unchanged nodes, which only get the new version."""
    rows = await work.rows("lock_known", {"copy": index_name, "ids": [str(node.id) for node in nodes]})
    if not rows:
        raise server.IndexMissing("Neo4j")
    stored_nodes = {UUID(id_): _StoredNode(*rest) for id_, *rest in rows[0]["known"]}
    due: list[_PendingNode] = []
    unchanged: list[str] = []
    for node in nodes:
        stored, digest = stored_nodes.get(node.id), node.digest
        if stored is not None and stored.version >= node.version:
            continue
        if stored is not None and stored.is_whole and stored.digest == digest:
            unchanged.append(str(node.id))
        else:
            due.append(_PendingNode(node, digest, _edge_digests(node), stored.owned if stored else None))
    return due, unchanged


async def _write_edges(
    work: "Transaction", parameters: Mapping[str, Any], due: Sequence[_PendingNode]
) -> None:
    groups: dict[tuple[EdgeKind, NodeLabel, bool, bool], list[tuple[str, Edge]]] = defaultdict(list)
    for pending in due:
        for edge in pending.changed_edges:
            group = (edge.kind, edge.label, edge.incoming, pending.is_new)
            groups[group].append((str(pending.node.id), edge))
    for (kind, label, is_incoming, is_new), owned in groups.items():
        # Nodes are sent as columns, because sending is half of the cost.
        columns = {
            "ids": [owner for owner, _ in owned],
            "targets": [str(edge.target_id) for _, edge in owned],
            "properties": [edge.properties for _, edge in owned]
            if any(e.properties for _, e in owned)
            else [],
        }
        await work.rows(
            "create_edges" if is_new else "merge_edges",
            {**parameters, **columns, "incoming": is_incoming},
            words={"label": label, **_arrow(kind, incoming=is_incoming)},
        )
        if label == "Tag":
            names = [edge.target_name for _, edge in owned]
            await work.rows("name_stubs", {**parameters, "targets": columns["targets"], "names": names})


async def _by_kind(
    work: "Transaction", name: str, parameters: Mapping[str, Any], owned: Mapping[UUID, Iterable[str]]
) -> "list[Row]":
    """Run a query for each kind of edges that these nodes own, and return all rows."""
    owners: dict[str, list[str]] = defaultdict(list)
    for node_id, kinds in owned.items():
        for kind in kinds:
            owners[kind].append(str(node_id))
    rows: list[Row] = []
    for kind, ids in sorted(owners.items()):
        is_incoming = kind.startswith("<")
        rows += await work.rows(
            name,
            {**parameters, "ids": ids, "incoming": is_incoming},
            words=_arrow(kind.removeprefix("<"), incoming=is_incoming),
        )
    return rows


async def _delete_stubs(work: "Transaction", index_name: str, edges: "Sequence[Row]") -> None:
    """Delete the stubs at the ends of these deleted edges, unless another edge leads to the stub."""
    stubs = sorted({row["stub"] for row in edges if row["stub"] is not None})
    if stubs:
        await work.rows("delete_stubs", {"copy": index_name, "ids": stubs})


async def _invalidate(work: "Transaction", index_name: str, ids: Sequence[str]) -> None:
    if not await work.rows("lock_copy", {"copy": index_name}):
        raise server.IndexMissing("Neo4j")
    rows = await work.rows("distrust_nodes", {"copy": index_name, "ids": ids})
    owned = {UUID(row["id"]): _parse_owned(row["owned"]) for row in rows}
    await _by_kind(work, "distrust_edges", {"copy": index_name}, owned)


async def _stored_digests(work: "Transaction", index_name: str, after: str, limit: int) -> list[StoredDigest]:
    if not await work.rows("find_copy", {"copy": index_name}):
        raise server.IndexMissing("Neo4j")
    rows = await work.rows("held", {"copy": index_name, "after": after, "limit": limit})
    owned = {UUID(row["id"]): _parse_owned(row["owned"]) for row in rows}
    counts: Counter[str] = Counter()
    for row in await _by_kind(work, "count_edges", {"copy": index_name}, owned):
        counts[row["id"]] += row["count"]
    return [
        StoredDigest(id=UUID(row["id"]), digest=row["digest"] if row["edges"] == counts[row["id"]] else "")
        for row in rows
    ]


# How nodes and edges are stored


def label_values(*labels: NodeLabel) -> Mapping[str, str]:
    """Return the texts that replace `<label>` and `<other_labels>` in a query."""
    others = [other for other in _LABELS if other not in labels]
    return {"label": ":".join(labels), "other_labels": ":".join(others)}


def _arrow(kind: str, *, incoming: bool) -> Mapping[str, str]:
    return {"kind": kind, "from": "<-" if incoming else "-", "to": "-" if incoming else "->"}


def _kind(edge: Edge) -> str:
    return f"<{edge.kind}" if edge.incoming else edge.kind


def _edge_digests(node: Node) -> _EdgeDigests:
    kinds: dict[str, list[Any]] = defaultdict(list)
    for edge in node.edges:
        kinds[_kind(edge)].append(edge.content)
    return {
        kind: hashlib.sha256(json.dumps(sorted(edges)).encode()).hexdigest()[:16]
        for kind, edges in sorted(kinds.items())
    }


def _parse_owned(text: str) -> _EdgeDigests:
    return dict(part.split(":") for part in text.split())


def _properties(pending: _PendingNode) -> dict[str, Any]:
    return {
        **pending.node.properties,
        "uuid": str(pending.node.id),
        "digest": pending.digest,
        "owned": " ".join(f"{kind}:{digest}" for kind, digest in pending.owned.items()),
        "edges": len(pending.node.edges),
    }
