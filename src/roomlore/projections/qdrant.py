"""Copies of messages in Qdrant: searched by meaning and by words, under a filter of what the viewer may read.

One collection per copy, one point per message, without its text. A point is written only in place of an older version of
itself, and the server decides that: so it does not matter which of two writers comes last.
"""

import asyncio
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from roomlore.domain.errors import BackendUnavailable, BadInput
from roomlore.domain.ids import MessageId
from roomlore.domain.projections import Candidate, Point, QueryFilter, StoredDigest, VisibilityFilter
from roomlore.projections.qdrant_positions import QdrantPosition, ThreadPage

if TYPE_CHECKING:
    from qdrant_client.models import Filter

    from roomlore.projections.qdrant_connection import QdrantConnection

PREFIX = "roomlore_"
#: Points of one request: far below what servers take, and enough that the way there does not matter.
BATCH = 256
#: Bytes of one request, about; servers take 32 MiB unless told otherwise.
BATCH_BYTES = 8 * 1024 * 1024
#: So many requests are under way at once: while the server works on one, the next is put into words.
_CONCURRENCY = 2
#: Ids of one request.
_DROPPED_AT_ONCE = 1000
#: Points of one page.
_PAGE = 1000
#: About how many bytes of JSON a number of a vector, a lexeme's place and weight, an addressee and all the rest take.
_NUMBER, _LEXEME, _ADDRESSEE, _REST = 22, 34, 40, 800
#: Where none of so many is taken, it is not their fault.
_TOO_MANY = 16
#: An error names so many messages at most.
_NAMED = 10
_LAST_ID = UUID(int=2**128 - 1)


def open_qdrant(url: str, *, key: str | None = None, seconds: float = 30.0) -> "QdrantProjection":
    """Return the copies in a server; nothing is asked of it yet.

    Args:
        url: Like http://host:6333, which is also the port where the address has none.
        key: Shown to the server, if it wants one.
        seconds: For one request, from connecting to the last byte.

    Raises:
        BadInput: the extra is not installed, or the address or the key cannot be used.
    """
    _check(url, key)
    if find_spec("qdrant_client") is None:
        raise BadInput("Qdrant", "asking it needs qdrant-client; run: pip install 'roomlore[qdrant]'")
    from roomlore.projections.qdrant_connection import QdrantConnection  # noqa: PLC0415  needs the extra

    return QdrantProjection(QdrantConnection(url.rstrip("/"), key=key, seconds=seconds))


class QdrantProjection:
    """A `Projection` of points and a `PointSearch` in a Qdrant server."""

    def __init__(self, wire: "QdrantConnection") -> None:
        self._wire = wire

    def __repr__(self) -> str:
        """Show neither address nor key."""
        return "QdrantPoints()"

    async def prepare(self, copy: str, *, dimensions: int) -> None:
        """Let there be a copy of that name, for vectors so long; one that is there already stays as it is.

        Raises:
            BackendUnavailable: the server fails or is too old, or there is one for other vectors.
        """
        from roomlore.projections import qdrant_connection  # noqa: PLC0415  needs the extra

        await self._wire.check_version()
        name = PREFIX + copy
        try:
            shape = await self._wire.shape(name)
        except qdrant_connection.CollectionMissing:
            await self._create_collection(name, dimensions)
            shape = await self._wire.shape(name)
        if shape.dimensions != dimensions:
            raise qdrant_connection.wrong_collection(
                f"is for vectors of {shape.dimensions} numbers, and ours have {dimensions}"
            )
        if not shape.has_lexical_index:
            raise qdrant_connection.wrong_collection("was not made by Roomlore")
        # Whoever made the collection may have been killed before it had them all.
        for field in qdrant_connection.INDEXES.keys() - shape.indexes:
            await self._wire.index(name, field)

    async def _create_collection(self, name: str, dimensions: int) -> None:
        from roomlore.projections.qdrant_connection import RequestRefused  # noqa: PLC0415  needs the extra

        try:
            await self._wire.create(name, dimensions=dimensions)
        except RequestRefused:
            # Somebody else was quicker, unless it is the server that will not.
            if name not in await self._wire.collections():
                raise

    async def put(self, copy: str, subjects: Sequence[Point]) -> None:
        """Write points, each in place of an older version of it; a newer one that is there stays.

        Raises:
            BackendUnavailable: the server fails; some may have been written.
            BadInput: the server took all but some, which are named.
        """
        newest: dict[MessageId, Point] = {}
        for point in subjects:
            if point.id not in newest or newest[point.id].version < point.version:
                newest[point.id] = point
        sendable = [point for point in newest.values() if _is_valid_point(point)]
        turned_down = await self._write_all(PREFIX + copy, _batches(sendable))
        if len(turned_down) == len(sendable) >= _TOO_MANY:
            from roomlore.projections.qdrant_connection import wrong_collection  # noqa: PLC0415  needs the extra

            raise wrong_collection("takes none of our messages")
        refused = [point.id for point in newest.values() if not _is_valid_point(point)] + turned_down
        if refused:
            names = ", ".join(str(one) for one in refused[:_NAMED])
            more = f" and {len(refused) - _NAMED} more" if len(refused) > _NAMED else ""
            raise BadInput(f"message {names}{more}", "Qdrant does not take it")

    async def _write_all(self, name: str, batches: Iterator[Sequence[Point]]) -> list[MessageId]:
        """Write batches, some at once, and return which points are not taken; after the first failure no more is sent."""
        refused: list[MessageId] = []

        async def go_on() -> None:
            for batch in batches:
                refused.extend(await self._write(name, batch))

        try:
            async with asyncio.TaskGroup() as lanes:
                for _ in range(_CONCURRENCY):
                    lanes.create_task(go_on())
        except* BackendUnavailable as failures:
            raise failures.exceptions[0] from None
        return refused

    async def _write(self, name: str, points: Sequence[Point]) -> list[MessageId]:
        """Write points and return those that are not taken: by halves, until each of them is alone."""
        from roomlore.projections.qdrant_connection import RequestRefused, wrong_collection  # noqa: PLC0415  needs the extra

        try:
            await self._wire.upsert(name, points)
        except RequestRefused:
            lengths = {len(point.vector) for point in points if point.vector is not None}
            if lengths and (await self._wire.shape(name)).dimensions not in lengths:
                raise wrong_collection("is for vectors of another length") from None
            return await self._bisect_write(name, points)
        return []

    async def _bisect_write(self, name: str, points: Sequence[Point]) -> list[MessageId]:
        from roomlore.projections.qdrant_connection import RequestRefused  # noqa: PLC0415  needs the extra

        if len(points) == 1:
            return [points[0].id]
        refused: list[MessageId] = []
        for half in (points[: len(points) // 2], points[len(points) // 2 :]):
            try:
                await self._wire.upsert(name, half)
            except RequestRefused:
                refused += await self._bisect_write(name, half)
        return refused

    async def drop(self, copy: str, ids: Sequence[UUID]) -> None:
        """Remove points; those that the copy does not hold are passed over.

        Raises:
            BackendUnavailable: the server fails; some may have been removed.
        """
        for start in range(0, len(ids), _DROPPED_AT_ONCE):
            await self._wire.delete(PREFIX + copy, ids[start : start + _DROPPED_AT_ONCE])

    async def invalidate(self, copy: str, ids: Sequence[UUID]) -> None:
        """Let whatever is written next of these points take their place; they stay until then.

        Raises:
            BackendUnavailable: the server fails.
        """
        for start in range(0, len(ids), BATCH):
            await self._wire.invalidate(PREFIX + copy, ids[start : start + BATCH])

    async def stored_digests(self, copy: str, *, after: UUID | None, limit: int) -> list[StoredDigest]:
        """Return what the copy holds behind an id, in the order of ids.

        Raises:
            BackendUnavailable: the server fails.
        """
        found: list[StoredDigest] = []
        while len(found) < limit and after != _LAST_ID:
            wanted = min(limit - len(found), _PAGE)
            page = await self._wire.stored_digests(PREFIX + copy, since=_next_id(after), limit=wanted)
            found += page
            if len(page) < wanted:
                break
            after = page[-1].id
        return found

    async def index_names(self) -> list[str]:
        """Return the names of the copies that the server holds.

        Raises:
            BackendUnavailable: the server fails.
        """
        names = await self._wire.collections()
        return sorted(name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX))

    async def remove(self, copy: str) -> None:
        """Remove a whole copy; one that is not there is passed over.

        Raises:
            BackendUnavailable: the server fails.
        """
        from roomlore.projections.qdrant_connection import CollectionMissing  # noqa: PLC0415  needs the extra

        try:
            await self._wire.remove(PREFIX + copy)
        except CollectionMissing:
            # Anything may say so of what it never had; only Qdrant can tell what else there is.
            if PREFIX + copy in await self._wire.collections():
                raise

    async def close(self) -> None:
        """Give up the connections."""
        await self._wire.close()

    async def search_dense(
        self,
        copy: str,
        vector: NDArray[np.float32],
        *,
        sight: VisibilityFilter,
        narrowing: QueryFilter,
        wanted: int,
    ) -> list[Candidate]:
        """Return the messages within sight whose vectors are nearest, nearest first; of length one, scored by cosine.

        Raises:
            BackendUnavailable: the server fails.
            BadInput: the vector is not one of finite numbers.
        """
        if not np.isfinite(vector).all():
            raise BadInput("vector", "must be of finite numbers")
        if wanted < 1:
            return []
        within = _visible_filter(sight, narrowing)
        return await self._wire.search_dense(PREFIX + copy, vector, within=within, limit=wanted)

    async def search_lexical(
        self,
        copy: str,
        lexemes: Sequence[str],
        *,
        sight: VisibilityFilter,
        narrowing: QueryFilter,
        wanted: int,
    ) -> list[Candidate]:
        """Return the messages within sight that share most with these lexemes, by BM25, best first.

        Raises:
            BackendUnavailable: the server fails.
        """
        if not lexemes or wanted < 1:
            return []
        within = _visible_filter(sight, narrowing)
        return await self._wire.search_lexical(PREFIX + copy, lexemes, within=within, limit=wanted)

    async def exchanges(
        self,
        copy: str,
        *,
        sight: VisibilityFilter,
        narrowing: QueryFilter,
        after: QdrantPosition | None,
        limit: int,
    ) -> ThreadPage:
        """Return the exchanges of which something lies within the narrowing, earliest first.

        Each is on the page where the first message of it that lies there has its place, and nowhere else; its messages
        are all that are within sight.

        Raises:
            BackendUnavailable: the server fails.
            BadInput: the limit is below 1.
        """
        from roomlore.projections import qdrant_threads  # noqa: PLC0415  needs the extra

        return await qdrant_threads.thread_page(
            self._wire, PREFIX + copy, sight=sight, narrowing=narrowing, after=after, limit=limit
        )


def _check(url: str, key: str | None) -> None:
    try:
        parts = urlsplit(url)
        is_plain = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise BadInput("Qdrant URL", "is not an address like http://host:6333") from None
    if (
        not is_plain
        or parts.username is not None
        or parts.password is not None
        or parts.query
        or parts.fragment
    ):
        raise BadInput(
            "Qdrant URL", "must be like http://host:6333, without an account, a query or a fragment"
        )
    if key is None:
        return
    if not key or not (key.isascii() and key.isprintable()):
        raise BadInput("Qdrant key", "must be printable ASCII; is there a line break in it?")
    if parts.scheme == "http" and not _is_loopback(parts):
        raise BadInput("Qdrant URL", "must be https where a key is shown: anybody on the way could read it")


def _is_loopback(parts: SplitResult) -> bool:
    host = parts.hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _visible_filter(sight: VisibilityFilter, narrowing: QueryFilter) -> "Filter":
    from roomlore.projections.qdrant_connection import visible_filter  # noqa: PLC0415  needs the extra

    return visible_filter(sight, narrowing)


def _is_valid_point(point: Point) -> bool:
    """Return whether a point can be said in JSON at all."""
    try:
        point.author_name.encode()
    except UnicodeEncodeError:
        return False
    return point.vector is None or bool(np.isfinite(point.vector).all())


def _batches(points: Sequence[Point]) -> Iterator[list[Point]]:
    batch: list[Point] = []
    size = 0
    for point in points:
        numbers = 0 if point.vector is None else len(point.vector)
        addressees = len(point.audience or ())
        bytes_ = numbers * _NUMBER + len(point.lexemes) * _LEXEME + addressees * _ADDRESSEE + _REST
        if batch and (len(batch) == BATCH or size + bytes_ > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(point)
        size += bytes_
    if batch:
        yield batch


def _next_id(after: UUID | None) -> UUID | None:
    return None if after is None else UUID(int=after.int + 1)
