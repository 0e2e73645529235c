"""Copies in Neo4j, walked as a graph: who said what, who answered whom, who knows what about whom.

One node per subject, found by copy and id, whatever its label. A node is written only in place of an older version of
itself, with those edges of its own that differ, in one transaction; what an edge leads to and is not written yet stands
there as a stub. Whoever writes to a copy holds its node of the label Copy, so writers take turns; and so what is not there
when a transaction begins can be made, with its edges, without being looked for again.
"""

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from importlib.util import find_spec
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit
from uuid import UUID

from roomlore.domain.errors import BadInput
from roomlore.domain.projections import Node, PropertyValue, StoredDigest
from roomlore.projections.neo4j_queries import Neo4jQueries

if TYPE_CHECKING:
    from roomlore.projections.neo4j_connection import Neo4jConnection, Transaction

#: Nodes and edges of one transaction; a node with more edges has one to itself.
BATCH = 1_000
BATCH_EDGES = 5_000
#: Edges that one transaction deletes, with a mark on who owns each: more would have to fit the server's memory.
MAX_DELETED_EDGES = 10_000
#: What we keep with a node and an edge ourselves.
RESERVED_PROPERTIES = frozenset({"copy", "id", "version", "digest", "owned", "edges", "incoming"})
_SCHEMES = frozenset({"bolt", "bolt+s", "neo4j", "neo4j+s"})
_LARGEST_INTEGER = 2**63 - 1
_LONGEST_NAME = 1_000
#: An error names so many subjects at most.
_NAMED = 10


def open_neo4j(
    url: str, *, user: str, password: str, database: str | None = None, seconds: float = 30.0
) -> "Neo4jProjection":
    """Return the copies in a server; nothing is asked of it yet.

    Args:
        url: Like bolt://127.0.0.1:7687 or neo4j+s://host.
        user: Who we are there.
        password: Shown to the server, and to nobody else.
        database: None: the one that the server has for us.
        seconds: For one transaction, with all its repetitions.

    Raises:
        BadInput: the extra is not installed, or the address cannot be used.
    """
    _check(url)
    if not user or not password:
        raise BadInput("Neo4j user and password", "must be given")
    if not (math.isfinite(seconds) and seconds > 0):
        raise BadInput("Neo4j seconds", "must be more than nothing")
    if find_spec("neo4j") is None:
        raise BadInput("Neo4j", "asking it needs neo4j; run: pip install 'roomlore[neo4j]'")
    from roomlore.projections.neo4j_connection import Neo4jConnection  # noqa: PLC0415  needs the extra

    return Neo4jProjection(
        Neo4jConnection(url, user=user, password=password, database=database, seconds=seconds)
    )


class Neo4jProjection(Neo4jQueries):
    """A `Projection` of nodes in a Neo4j server, and what can be asked of it."""

    def __init__(self, wire: "Neo4jConnection") -> None:
        super().__init__(wire)
        self._is_constrained = False

    def __repr__(self) -> str:
        """Show neither address nor password."""
        return "Neo4jGraph()"

    async def prepare(self, copy: str, *, dimensions: int = 0) -> None:
        """Let there be a copy of that name; one that is there already stays as it is.

        Args:
            copy: Its name.
            dimensions: Of vectors, of which a graph has none.

        Raises:
            BackendUnavailable: the server fails, or holds what does not go with ours.
        """
        del dimensions
        if not self._is_constrained:
            for name in ("constrain_subjects", "constrain_copies", "index_bots"):
                await self._wire.define(name)
            self._is_constrained = True
        if await self._is_being_removed(copy):
            # Somebody began to remove it and was killed.
            await self.remove(copy)
            await self._is_being_removed(copy)

    async def _is_being_removed(self, copy: str) -> bool:
        async def ask(work: "Transaction") -> bool:
            return bool((await work.rows("prepare_copy", {"copy": copy}))[0]["leaving"])

        return await self._wire.write_transaction(ask)

    async def put(self, copy: str, subjects: Sequence[Node]) -> None:
        """Write nodes with their edges, each in place of an older version of it; a newer one that is there stays.

        Raises:
            BackendUnavailable: the server fails, or has lost the copy; some may have been written.
            BadInput: the server took all but some, which are named.
        """
        newest: dict[UUID, Node] = {}
        for node in subjects:
            if node.id not in newest or newest[node.id].version < node.version:
                newest[node.id] = node
        refused = [node.id for node in newest.values() if not _is_valid_node(node)]
        unsendable = set(refused)
        for batch in batches([node for node in newest.values() if node.id not in unsendable]):
            refused += await self._write(copy, batch)
        if refused:
            names = ", ".join(str(one) for one in refused[:_NAMED])
            more = f" and {len(refused) - _NAMED} more" if len(refused) > _NAMED else ""
            raise BadInput(f"subject {names}{more}", "Neo4j does not take it")

    async def _write(self, copy: str, nodes: Sequence[Node]) -> list[UUID]:
        """Write nodes and return those that are not taken: by halves, until each of them is alone."""
        from roomlore.projections.neo4j_connection import WriteRefused  # noqa: PLC0415  needs the extra
        from roomlore.projections.neo4j_writes import write_nodes  # noqa: PLC0415  needs the extra

        async def ask(work: "Transaction") -> None:
            await write_nodes(work, copy, nodes)

        try:
            await self._wire.write_transaction(ask)
        except WriteRefused:
            if len(nodes) == 1:
                return [nodes[0].id]
            middle = len(nodes) // 2
            return [*await self._write(copy, nodes[:middle]), *await self._write(copy, nodes[middle:])]
        return []

    async def drop(self, copy: str, ids: Sequence[UUID]) -> None:
        """Remove nodes with all edges from and to them; those that the copy does not hold are passed over.

        Raises:
            BackendUnavailable: the server fails, or has lost the copy; some may have been removed.
        """
        wanted = sorted({str(one) for one in ids})
        for start in range(0, len(wanted), BATCH):
            some = wanted[start : start + BATCH]
            while not await self._delete_batch(copy, some, is_leaving=False):
                pass

    async def _delete_batch(self, copy: str, ids: Sequence[str], *, is_leaving: bool) -> bool:
        """Delete as many edges of nodes as may be deleted at once, and the nodes with the last; return whether it was."""
        from roomlore.projections.neo4j_writes import delete_stubs, lock_copy  # noqa: PLC0415  needs the extra

        async def ask(work: "Transaction") -> bool:
            if not is_leaving:
                await lock_copy(work, copy)
            asked = {"copy": copy, "ids": ids, "limit": MAX_DELETED_EDGES, "leaving": is_leaving}
            led = await work.rows("cut_nodes", asked)
            is_last = len(led) < MAX_DELETED_EDGES
            if is_last:
                await work.rows("drop_nodes", {"copy": copy, "ids": ids})
            await delete_stubs(work, copy, led)
            return is_last

        return await self._wire.write_transaction(ask)

    async def invalidate(self, copy: str, ids: Sequence[UUID]) -> None:
        """Let whatever is written next of these nodes take their place; they stay until then, with all edges.

        Raises:
            BackendUnavailable: the server fails, or has lost the copy.
        """
        from roomlore.projections.neo4j_writes import invalidate  # noqa: PLC0415  needs the extra

        wanted = sorted({str(one) for one in ids})
        for start in range(0, len(wanted), BATCH):
            some = wanted[start : start + BATCH]
            await self._wire.write_transaction(partial(invalidate, copy=copy, ids=some))

    async def stored_digests(self, copy: str, *, after: UUID | None, limit: int) -> list[StoredDigest]:
        """Return what the copy holds behind an id, in the order of ids; what lost an edge has no digest.

        Raises:
            BackendUnavailable: the server fails, or has lost the copy.
        """
        from roomlore.projections.neo4j_writes import stored_digests  # noqa: PLC0415  needs the extra

        since = "" if after is None else str(after)
        return await self._wire.read_transaction(
            partial(stored_digests, copy=copy, after=since, limit=max(limit, 0))
        )

    async def index_names(self) -> list[str]:
        """Return the names of the copies that the server holds, also of those that are half removed.

        Raises:
            BackendUnavailable: the server fails.
        """
        return [row["name"] for row in await self._wire.read("copies", {})]

    async def remove(self, copy: str) -> None:
        """Remove a whole copy; one that is not there is passed over, and one half removed is removed.

        Raises:
            BackendUnavailable: the server fails; what is left is still among the copies, and nothing is written to it.
        """
        if not await self._wire.write_transaction(lambda work: work.rows("leave_copy", {"copy": copy})):
            return
        while rows := await self._wire.read("some_of", {"copy": copy, "limit": BATCH}):
            ids = [row["id"] for row in rows]
            while not await self._delete_batch(copy, ids, is_leaving=True):
                pass
        await self._wire.write_transaction(lambda work: work.rows("remove_copy", {"copy": copy}))

    async def close(self) -> None:
        """Give up the connections."""
        await self._wire.close()


def _is_valid_node(node: Node) -> bool:
    """Return whether a node can be said to a server at all, and takes the name of nothing that is ours."""
    return 0 <= node.version <= _LARGEST_INTEGER and all(
        _is_name(name) and _is_value(value)
        for properties in (node.properties, *(edge.properties for edge in node.edges))
        for name, value in properties.items()
    )


@lru_cache
def _is_name(name: str) -> bool:
    return (
        0 < len(name) <= _LONGEST_NAME
        and name not in RESERVED_PROPERTIES
        and "\0" not in name
        and _is_value(name)
    )


def _is_value(value: PropertyValue) -> bool:
    if isinstance(value, str):
        return value.isascii() or _is_text(value)
    if isinstance(value, tuple):
        return all(_is_value(one) for one in value)
    return isinstance(value, float) or -_LARGEST_INTEGER - 1 <= value <= _LARGEST_INTEGER


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def batches(nodes: Sequence[Node]) -> Iterator[list[Node]]:
    """Return nodes as transactions take them: each of one version, and in the order of their ids."""
    batch: list[Node] = []
    edges = 0
    for node in sorted(nodes, key=lambda node: (node.version, node.id)):
        is_full = len(batch) == BATCH or edges + len(node.edges) > BATCH_EDGES
        if batch and (is_full or batch[0].version != node.version):
            yield batch
            batch, edges = [], 0
        batch.append(node)
        edges += len(node.edges)
    if batch:
        yield batch


def _check(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_plain = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise BadInput("Neo4j URL", "is not an address like bolt://host:7687") from None
    if not is_plain or parts.username is not None or parts.password is not None:
        raise BadInput("Neo4j URL", "must be like bolt://host:7687 or neo4j+s://host, without an account")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise BadInput("Neo4j URL", "must end with host and port; a database is named apart")
    if not parts.scheme.endswith("+s") and not _is_loopback(parts):
        raise BadInput("Neo4j URL", "must be bolt+s or neo4j+s: anybody on the way could read the password")


def _is_loopback(parts: SplitResult) -> bool:
    host = parts.hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
