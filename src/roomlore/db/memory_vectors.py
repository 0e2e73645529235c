"""The vectors of memories. The embedding worker writes them together with the vectors of messages, see `work_queue`."""

from collections.abc import Collection

from roomlore.db.queries import Connection, Queries, RowCount
from roomlore.domain.ids import MemoryId, OrgId
from roomlore.domain.vectors import Vector

QUERIES = Queries("memory_vectors")


@QUERIES.query
async def dense_matches(
    conn: Connection, vector: tuple[str, Vector], *, wanted: int
) -> dict[MemoryId, float]:
    """Return the visible memories nearest to a vector of a model, each with its cosine, nearest first."""
    ...


@QUERIES.query
async def similarities(
    conn: Connection, org_id: OrgId, vector: tuple[str, Vector], ids: Collection[MemoryId]
) -> dict[MemoryId, float]:
    """Return the cosine similarity of each given memory to the vector.

    Memories that are not visible or have no vector of the same model are omitted.
    """
    ...


async def drop_vectors(conn: Connection, org_id: OrgId, ids: Collection[MemoryId]) -> int:
    """Delete the vectors of memories and the embedding work on them; return how many vectors."""
    await drop_work(conn, org_id, ids)
    return await drop_embeddings(conn, org_id, ids)


@QUERIES.query
async def drop_work(conn: Connection, org_id: OrgId, ids: Collection[MemoryId]) -> None:
    """Delete the embedding work on memories."""
    ...


@QUERIES.query
async def drop_embeddings(conn: Connection, org_id: OrgId, ids: Collection[MemoryId]) -> RowCount:
    """Delete the vectors of memories."""
    ...
