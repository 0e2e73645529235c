"""What is asked of a Neo4j server within one transaction to write nodes with the edges they own, and to count these.

Needs the extra: only what has made sure of it imports this.
"""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from roomlore.domain.projections import Edge, EdgeKind, Node, NodeLabel, StoredDigest
from roomlore.projections.neo4j_connection import Row, Transaction, label_values, missing_copy

#: The kinds of edges that a node owns, as "REPLIED_TO" or "<AUTHORED", and of those of each kind a digest.
_EdgeDigests = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _StoredNode:
    """What is there of a node."""

    version: int
    digest: str | None
    #: What it owns, as text.
    text: str | None

    @property
    def is_whole(self) -> bool:
        """Whether all is as it was written: it is neither a stub nor distrusted, and has lost no edge."""
        return self.version >= 0 and bool(self.digest)

    @property
    def owned(self) -> _EdgeDigests:
        """What it owns, by empty digests if that is not sure to be there."""
        owned = _deserialise(self.text or "")
        return owned if self.is_whole else dict.fromkeys(owned, "")


@dataclass(frozen=True, slots=True)
class _PendingNode:
    """A node that is to be written, with its digest and what it owns."""

    node: Node
    digest: str
    owned: _EdgeDigests
    #: What it owned before; None: the node was not there.
    owned_before: _EdgeDigests | None

    @property
    def stale_kinds(self) -> list[str]:
        """The kinds of which there may be edges that it does not own any more."""
        return [kind for kind, digest in (self.owned_before or {}).items() if digest != self.owned.get(kind)]

    def is_written(self, kind: str) -> bool:
        """Return whether the edges of a kind are there as they are to be."""
        return self.owned_before is not None and self.owned_before.get(kind) == self.owned[kind]


@dataclass(frozen=True, slots=True)
class _EdgeGroup:
    """Edges that one statement writes."""

    kind: EdgeKind
    label: NodeLabel
    incoming: bool
    #: Whether those who own them were not there before, and so own none yet.
    is_first: bool


async def lock_copy(work: Transaction, copy: str) -> None:
    """Hold the copy until the transaction ends.

    Raises:
        CopyUnavailable: it is not there, or is being removed.
    """
    if not await work.rows("lock_copy", {"copy": copy}):
        raise missing_copy()


async def write_nodes(work: Transaction, copy: str, nodes: Sequence[Node]) -> None:
    """Write nodes of one version: what is new without looking for it again, of the rest what differs."""
    due, unchanged = await _changed_nodes(work, copy, nodes)
    parameters = {"copy": copy, "version": nodes[0].version}
    if unchanged:
        await work.rows("renew_nodes", {**parameters, "ids": unchanged})
    await _write_nodes(work, parameters, due)
    await _write_edges(work, parameters, due)
    stale = {one.node.id: one.stale_kinds for one in due}
    await delete_stubs(work, copy, await _by_kind(work, "delete_edges", parameters, stale))


async def invalidate(work: Transaction, copy: str, ids: Sequence[str]) -> None:
    """Let any version take the place of nodes, and of the edges that they own."""
    await lock_copy(work, copy)
    rows = await work.rows("distrust_nodes", {"copy": copy, "ids": ids})
    owned = {UUID(row["id"]): _deserialise(row["owned"]) for row in rows}
    await _by_kind(work, "distrust_edges", {"copy": copy}, owned)


async def stored_digests(work: Transaction, copy: str, after: str, limit: int) -> list[StoredDigest]:
    """Return the nodes behind an id, in the order of ids; those that do not have all their edges have no digest.

    Raises:
        CopyUnavailable: the copy is not there, or is being removed.
    """
    if not await work.rows("find_copy", {"copy": copy}):
        raise missing_copy()
    rows = await work.rows("held", {"copy": copy, "after": after, "limit": limit})
    owned = {UUID(row["id"]): _deserialise(row["owned"]) for row in rows}
    counts: Counter[str] = Counter()
    for row in await _by_kind(work, "count_edges", {"copy": copy}, owned):
        counts[row["id"]] += row["count"]
    return [
        StoredDigest(id=UUID(row["id"]), digest=row["digest"] if row["edges"] == counts[row["id"]] else "")
        for row in rows
    ]


async def _changed_nodes(
    work: Transaction, copy: str, nodes: Sequence[Node]
) -> tuple[list[_PendingNode], list[str]]:
    """Hold the copy, and return what is to be written, and which nodes only need their version."""
    rows = await work.rows("lock_known", {"copy": copy, "ids": [str(node.id) for node in nodes]})
    if not rows:
        raise missing_copy()
    known = {UUID(id_): _StoredNode(*rest) for id_, *rest in rows[0]["known"]}
    due: list[_PendingNode] = []
    unchanged: list[str] = []
    for node in nodes:
        held, digest = known.get(node.id), node.digest
        if held is None:
            due.append(_PendingNode(node, digest, _edge_digests(node), owned_before=None))
        elif held.version >= node.version:
            continue
        elif held.is_whole and held.digest == digest:
            unchanged.append(str(node.id))
        else:
            due.append(_PendingNode(node, digest, _edge_digests(node), owned_before=held.owned))
    return due, unchanged


async def _write_nodes(work: Transaction, parameters: Mapping[str, Any], due: Sequence[_PendingNode]) -> None:
    groups: dict[tuple[NodeLabel, bool], list[Mapping[str, Any]]] = defaultdict(list)
    for one in due:
        groups[one.node.label, one.owned_before is None].append(_properties(one))
    for (label, is_new), rows in sorted(groups.items()):
        name = "create_nodes" if is_new else "replace_nodes"
        await work.rows(name, {**parameters, "rows": rows}, words=label_values(label))


async def _write_edges(work: Transaction, parameters: Mapping[str, Any], due: Sequence[_PendingNode]) -> None:
    groups: dict[_EdgeGroup, list[tuple[str, Edge]]] = defaultdict(list)
    for one in due:
        id_, is_first = str(one.node.id), one.owned_before is None
        for edge in one.node.edges:
            if not one.is_written(_kind(edge)):
                groups[_EdgeGroup(edge.kind, edge.label, edge.incoming, is_first)].append((id_, edge))
    for group, some in groups.items():
        # By columns, for what is sent is half of what this costs.
        columns = {
            "ids": [id_ for id_, _ in some],
            "targets": [str(edge.target_id) for _, edge in some],
            "properties": [edge.properties for _, edge in some] if any(e.properties for _, e in some) else [],
        }
        await work.rows(
            "create_edges" if group.is_first else "merge_edges",
            {**parameters, **columns, "incoming": group.incoming},
            words={"label": group.label, **_arrow(group.kind, incoming=group.incoming)},
        )


async def _by_kind(
    work: Transaction, name: str, parameters: Mapping[str, Any], owned: Mapping[UUID, Iterable[str]]
) -> list[Row]:
    """Ask the same of each kind of edges that nodes own, and return all that is answered."""
    owners: dict[str, list[str]] = defaultdict(list)
    for one, kinds in owned.items():
        for kind in kinds:
            owners[kind].append(str(one))
    rows: list[Row] = []
    for kind, ids in sorted(owners.items()):
        is_incoming = kind.startswith("<")
        rows += await work.rows(
            name,
            {**parameters, "ids": ids, "incoming": is_incoming},
            words=_arrow(kind.removeprefix("<"), incoming=is_incoming),
        )
    return rows


async def delete_stubs(work: Transaction, copy: str, led: Sequence[Row]) -> None:
    """Delete the stubs that edges led to, if no other edge does."""
    stubs = sorted({row["stub"] for row in led if row["stub"] is not None})
    if stubs:
        await work.rows("delete_stubs", {"copy": copy, "ids": stubs})


def _arrow(kind: str, *, incoming: bool) -> Mapping[str, str]:
    return {"kind": kind, "from": "<-" if incoming else "-", "to": "-" if incoming else "->"}


def _edge_digests(node: Node) -> _EdgeDigests:
    """Return the kinds of edges that a node owns, and of those of each kind a digest: equal for equal edges."""
    kinds: dict[str, list[Any]] = defaultdict(list)
    for edge in node.edges:
        kinds[_kind(edge)].append([str(edge.target_id), edge.label, sorted(edge.properties.items())])
    return {kind: _digest(sorted(kinds[kind])) for kind in sorted(kinds)}


def _digest(edges: Sequence[Any]) -> str:
    return hashlib.sha256(json.dumps(edges).encode()).hexdigest()[:16]


def _serialise(owned: _EdgeDigests) -> str:
    return " ".join(f"{kind}:{digest}" for kind, digest in owned.items())


def _deserialise(text: str) -> _EdgeDigests:
    return dict(one.split(":") for one in text.split())


def _kind(edge: Edge) -> str:
    return f"<{edge.kind}" if edge.incoming else edge.kind


def _properties(due: _PendingNode) -> dict[str, Any]:
    return {
        **due.node.properties,
        "id": str(due.node.id),
        "digest": due.digest,
        "owned": _serialise(due.owned),
        "edges": len(due.node.edges),
    }
