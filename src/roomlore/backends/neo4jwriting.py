"""What is asked of a Neo4j server within one transaction to write nodes with the edges they own, and to count these.

Needs the extra: only what has made sure of it imports this.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from roomlore.backends.neo4jwire import Row, Work, gone, words_of
from roomlore.domain.projected import Edge, EdgeKind, Held, Label, Node

#: The kinds of edges that nodes own before they are written again, as "REPLIED_TO" or "<AUTHORED"; None: not there yet.
_Owned = dict[UUID, Sequence[str] | None]


@dataclass(frozen=True, slots=True)
class _Group:
    """Edges that one statement writes."""

    kind: EdgeKind
    label: Label
    incoming: bool
    #: Whether those who own them were not there before, and so own none yet.
    is_first: bool


async def lock(work: Work, copy: str) -> None:
    """Hold the copy until the transaction ends.

    Raises:
        CopyUnavailable: it is not there, or is being removed.
    """
    if not await work.rows("lock_copy", {"copy": copy}):
        raise gone()


async def put(work: Work, copy: str, nodes: Sequence[Node]) -> None:
    """Write nodes of one version; what is known to be new is made without looking for it again."""
    owned = await _replaced(work, copy, nodes)
    parameters = {"copy": copy, "version": nodes[0].version}
    await _put_nodes(work, parameters, [node for node in nodes if node.id in owned], owned)
    await _put_edges(work, parameters, [node for node in nodes if node.id in owned], owned)
    await sweep(work, copy, await _by_kind(work, "delete_edges", parameters, owned))


async def distrust(work: Work, copy: str, ids: Sequence[str]) -> None:
    """Let any version take the place of nodes, and of the edges that they own."""
    await lock(work, copy)
    rows = await work.rows("distrust_nodes", {"copy": copy, "ids": ids})
    owned = {UUID(row["id"]): row["owned"].split() for row in rows}
    await _by_kind(work, "distrust_edges", {"copy": copy}, owned)


async def held(work: Work, copy: str, after: str, limit: int) -> list[Held]:
    """Return the nodes behind an id, in the order of ids.

    With a node that is removed go edges that others own, which are written with their owners only: so these have no
    digest until then.

    Raises:
        CopyUnavailable: the copy is not there, or is being removed.
    """
    if not await work.rows("find_copy", {"copy": copy}):
        raise gone()
    rows = await work.rows("held", {"copy": copy, "after": after, "limit": limit})
    owned = {UUID(row["id"]): row["owned"].split() for row in rows}
    counts: Counter[str] = Counter()
    for row in await _by_kind(work, "count_edges", {"copy": copy}, owned):
        counts[row["id"]] += row["count"]
    return [
        Held(id=UUID(row["id"]), digest=row["digest"] if row["edges"] in {None, counts[row["id"]]} else "")
        for row in rows
    ]


async def _by_kind(
    work: Work, name: str, parameters: Mapping[str, Any], owned: Mapping[UUID, Sequence[str] | None]
) -> list[Row]:
    """Ask the same of each kind of edges that nodes own, and return all that is answered."""
    owners: dict[str, list[str]] = defaultdict(list)
    for one, kinds in owned.items():
        for kind in kinds or ():
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


async def _replaced(work: Work, copy: str, nodes: Sequence[Node]) -> _Owned:
    """Hold the copy, and return of which nodes it has none or an older one, with the kinds of edges that one owns."""
    ids = [str(node.id) for node in nodes]
    rows = await work.rows("lock_known", {"copy": copy, "ids": ids})
    if not rows:
        raise gone()
    known = {UUID(id_): (version, owned) for id_, version, owned in rows[0]["known"]}
    replaced: _Owned = {}
    for node in nodes:
        version, owned = known.get(node.id, (None, None))
        if version is None:
            replaced[node.id] = None
        elif version < node.version:
            replaced[node.id] = (owned or "").split()
    return replaced


async def _put_nodes(work: Work, parameters: Mapping[str, Any], nodes: Sequence[Node], owned: _Owned) -> None:
    groups: dict[tuple[Label, bool], list[Mapping[str, Any]]] = defaultdict(list)
    for node in nodes:
        groups[node.label, owned[node.id] is None].append(_properties(node))
    for (label, is_new), rows in sorted(groups.items()):
        name = "create_nodes" if is_new else "replace_nodes"
        await work.rows(name, {**parameters, "rows": rows}, words=words_of(label))


async def _put_edges(work: Work, parameters: Mapping[str, Any], nodes: Sequence[Node], owned: _Owned) -> None:
    groups: dict[_Group, list[tuple[str, Edge]]] = defaultdict(list)
    for node in nodes:
        id_, is_first = str(node.id), owned[node.id] is None
        for edge in _distinct(node.edges):
            groups[_Group(edge.kind, edge.label, edge.incoming, is_first)].append((id_, edge))
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


async def sweep(work: Work, copy: str, led: Sequence[Row]) -> None:
    """Delete the stubs that edges led to, if no other edge does."""
    stubs = sorted({row["stub"] for row in led if row["stub"] is not None})
    if stubs:
        await work.rows("delete_stubs", {"copy": copy, "ids": stubs})


def _arrow(kind: str, *, incoming: bool) -> Mapping[str, str]:
    return {"kind": kind, "from": "<-" if incoming else "-", "to": "-" if incoming else "->"}


def _distinct(edges: Sequence[Edge]) -> list[Edge]:
    """Return one edge of each kind between two nodes: the last that is given."""
    return list({(edge.kind, edge.target_id, edge.incoming): edge for edge in edges}.values())


def _properties(node: Node) -> dict[str, Any]:
    owned = sorted({f"<{edge.kind}" if edge.incoming else edge.kind for edge in node.edges})
    return {
        **node.properties,
        "id": str(node.id),
        "digest": node.digest,
        "owned": " ".join(owned),
        "edges": len(_distinct(node.edges)),
    }
