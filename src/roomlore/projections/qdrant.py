"""The projection in Qdrant: dense and lexical search for messages, filtered by what the viewer may see.

Each index is one collection with one point per message. A point holds no text. The server replaces a point only by a
newer version.
"""

import asyncio
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from roomlore.domain.errors import BackendUnavailable, BadInput
from roomlore.domain.projections import Candidate, Point, QueryFilter, StoredDigest, VisibilityFilter
from roomlore.projections.server import (
    IndexMissing,
    RequestRefused,
    batches,
    chunks,
    is_encodable,
    is_loopback,
    newest_versions,
    parse_url,
    raise_if_refused,
    write_halving,
    wrong_index,
)

if TYPE_CHECKING:
    from roomlore.projections.qdrant_connection import QdrantConnection

PREFIX = "roomlore_"
#: Points per request.
BATCH = 256
#: Approximate bytes per request; servers accept 32 MiB by default.
BATCH_BYTES = 8 * 1024 * 1024
#: Two requests run at the same time: the next request is serialised while the server works on the first.
_CONCURRENCY = 2
_IDS_PER_DELETE = 1000
_PAGE = 1000
#: Approximate bytes, as JSON, of a vector component, a lexeme, an addressee, and the rest of a point.
_COMPONENT, _LEXEME, _ADDRESSEE, _REST = 22, 34, 40, 800
#: If the server refuses at least this many points and accepts none, the points are not the cause.
_ALL_REFUSED = 16
_LAST_ID = UUID(int=2**128 - 1)


def open_qdrant(url: str, *, key: str | None = None, seconds: float = 30.0) -> "QdrantProjection":
    """Return the projection in a server. It connects on first use.

    Args:
        url: For example http://host:6333; 6333 is also the default port.
        key: The API key, if the server requires one.
        seconds: Timeout of one request.

    Raises:
        BadInput: the extra is not installed, or the address or the key cannot be used.
    """
    parts = parse_url("Qdrant", url, schemes={"http", "https"}, example="http://host:6333")
    if key is not None and not (key and key.isascii() and key.isprintable()):
        raise BadInput("Qdrant key", "must be printable ASCII; is there a line break in it?")
    if key is not None and parts.scheme == "http" and not is_loopback(parts):
        raise BadInput("Qdrant URL", "must be https if you use a key; others on the network could read it")
    if find_spec("qdrant_client") is None:
        raise BadInput("Qdrant", "needs qdrant-client; run: pip install 'roomlore[qdrant]'")
    from roomlore.projections.qdrant_connection import QdrantConnection  # noqa: PLC0415  needs the extra

    return QdrantProjection(QdrantConnection(url.rstrip("/"), key=key, seconds=seconds))


class QdrantProjection:
    """A `Projection` of points and a `PointIndex` in a Qdrant server. Every call may raise `BackendUnavailable`."""

    def __init__(self, wire: "QdrantConnection") -> None:
        self._wire = wire

    def __repr__(self) -> str:
        """Show neither address nor key."""
        return "QdrantProjection()"

    async def prepare(self, index_name: str, *, dimensions: int) -> None:
        """Create an index for vectors of this length, unless it exists.

        Raises:
            BackendUnavailable: the server is too old, or the index is for other vectors.
        """
        await self._wire.check_version()
        name = PREFIX + index_name
        try:
            shape = await self._wire.shape(name)
        except IndexMissing:
            await self._create_collection(name, dimensions)
            shape = await self._wire.shape(name)
        if shape.dimensions != dimensions:
            raise wrong_index(
                "Qdrant", f"is for vectors of {shape.dimensions} numbers, and ours have {dimensions}"
            )
        if not shape.has_lexical_index:
            raise wrong_index("Qdrant", "was not made by Roomlore")
        # The process that created the collection may have been killed before it created all indexes.
        for field in shape.missing_indexes:
            await self._wire.index(name, field)

    async def _create_collection(self, name: str, dimensions: int) -> None:
        try:
            await self._wire.create(name, dimensions=dimensions)
        except RequestRefused:
            # Another process may have created it first.
            if name not in await self._wire.collections():
                raise

    async def put(self, index_name: str, subjects: Sequence[Point]) -> None:
        """Write points. A newer version on the server is not replaced.

        Raises:
            BackendUnavailable: the server failed; some points may have been written.
            BadInput: the server refused some points, which are named; the others were written.
        """
        points = newest_versions(subjects)
        valid = [point for point in points if _is_valid(point)]
        refused = await self._write_all(PREFIX + index_name, _batches(valid))
        if len(refused) == len(valid) >= _ALL_REFUSED:
            raise wrong_index("Qdrant", "takes none of our messages")
        invalid = [point.id for point in points if not _is_valid(point)]
        raise_if_refused("Qdrant", "message", [*invalid, *refused])

    async def _write_all(self, name: str, pending: Iterator[Sequence[Point]]) -> list[UUID]:
        """Write batches, several at a time, and return the ids of refused points.

        After a failure, no further batch is sent.
        """
        refused: list[UUID] = []

        async def write_batches() -> None:
            for batch in pending:
                refused.extend(await self._write(name, batch))

        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(_CONCURRENCY):
                    tasks.create_task(write_batches())
        except* BackendUnavailable as failures:
            raise failures.exceptions[0] from None
        return refused

    async def _write(self, name: str, points: Sequence[Point]) -> list[UUID]:
        async def write(some: Sequence[Point]) -> None:
            await self._wire.upsert(name, some)

        try:
            await write(points)
        except RequestRefused:
            lengths = {len(point.vector) for point in points if point.vector is not None}
            if lengths and (await self._wire.shape(name)).dimensions not in lengths:
                raise wrong_index("Qdrant", "is for vectors of another length") from None
            return await write_halving(write, points)
        return []

    async def drop(self, index_name: str, ids: Sequence[UUID]) -> None:
        """Remove points. Unknown ids are ignored. After a failure, some points may have been removed."""
        for some in chunks(ids, _IDS_PER_DELETE):
            await self._wire.delete(PREFIX + index_name, some)

    async def invalidate(self, index_name: str, ids: Sequence[UUID]) -> None:
        """Mark points as invalid, so that any version may replace them.

        The points are not removed.
        """
        for some in chunks(ids, BATCH):
            await self._wire.invalidate(PREFIX + index_name, some)

    async def stored_digests(self, index_name: str, *, after: UUID | None, limit: int) -> list[StoredDigest]:
        """Return ids and digests of the points after an id, ordered by id."""
        found: list[StoredDigest] = []
        while len(found) < limit and after != _LAST_ID:
            wanted = min(limit - len(found), _PAGE)
            since = None if after is None else UUID(int=after.int + 1)
            page = await self._wire.stored_digests(PREFIX + index_name, since=since, limit=wanted)
            found += page
            if len(page) < wanted:
                break
            after = page[-1].id
        return found

    async def index_names(self) -> list[str]:
        """Return the names of Roomlore's indexes in the server."""
        names = await self._wire.collections()
        return sorted(name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX))

    async def remove(self, index_name: str) -> None:
        """Remove an index, if it exists."""
        try:
            await self._wire.remove(PREFIX + index_name)
        except IndexMissing:
            # Any server may answer 404, but only Qdrant can list its collections.
            if PREFIX + index_name in await self._wire.collections():
                raise

    async def close(self) -> None:
        """Close the connections."""
        await self._wire.close()

    async def search_dense(
        self,
        index_name: str,
        vector: NDArray[np.float32],
        *,
        sight: VisibilityFilter,
        query_filter: QueryFilter,
        wanted: int,
    ) -> list[Candidate]:
        """Return the visible messages with the nearest vectors, nearest first, scored by cosine.

        Raises:
            BadInput: the vector has a number that is not finite.
        """
        if not np.isfinite(vector).all():
            raise BadInput("vector", "must be of finite numbers")
        if wanted < 1:
            return []
        return await self._wire.search_dense(
            PREFIX + index_name, vector, sight=sight, query_filter=query_filter, limit=wanted
        )

    async def search_lexical(
        self,
        index_name: str,
        lexemes: Sequence[str],
        *,
        sight: VisibilityFilter,
        query_filter: QueryFilter,
        wanted: int,
    ) -> list[Candidate]:
        """Return the visible messages that match these lexemes best, best first, scored by BM25."""
        if not lexemes or wanted < 1:
            return []
        return await self._wire.search_lexical(
            PREFIX + index_name, lexemes, sight=sight, query_filter=query_filter, limit=wanted
        )


def _is_valid(point: Point) -> bool:
    """Return whether a point can be written as JSON."""
    return is_encodable(point.author_name) and (point.vector is None or bool(np.isfinite(point.vector).all()))


def _size_of(point: Point) -> int:
    components = 0 if point.vector is None else len(point.vector)
    addressees = len(point.audience or ())
    return components * _COMPONENT + len(point.lexemes) * _LEXEME + addressees * _ADDRESSEE + _REST


def _batches(points: Sequence[Point]) -> Iterator[list[Point]]:
    return batches(points, _size_of, max_items=BATCH, max_size=BATCH_BYTES)
