"""The vectors of memories: memories are found by them, and they go with what they were made of.

The embedding worker writes them with those of messages, asked for by the same stages of work: `work` has that.
"""

from collections.abc import Collection
from dataclasses import dataclass

from pgvector import HalfVector

from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import MemoryId, OrgId
from roomlore.domain.vectors import Vector

QUERIES = Queries("memory_vectors")


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseMatch:
    """How near a memory is to a question: the cosine of their vectors."""

    memory_id: MemoryId
    similarity: float


async def dense_matches(
    conn: Connection, vector: tuple[str, Vector], *, wanted: int
) -> dict[MemoryId, float]:
    """Return how near the visible memories are whose vectors are nearest, nearest first.

    Args:
        conn: Reads for the viewer.
        vector: The question's, after the name of the vector space it lies in.
        wanted: How many at most; each vector of the model is looked at.
    """
    model, values = vector
    params = {"vector": HalfVector(values), "model": model, "wanted": wanted}
    return {row.memory_id: row.similarity for row in await QUERIES.all(conn, "nearest", DenseMatch, params)}


async def similarities(
    conn: Connection, org_id: OrgId, vector: tuple[str, Vector], ids: Collection[MemoryId]
) -> dict[MemoryId, float]:
    """Return how near these memories are to a question, as far as they are visible and have a vector of its model."""
    model, values = vector
    params = {"org_id": org_id, "vector": HalfVector(values), "model": model, "memory_ids": list(ids)}
    return {
        row.memory_id: row.similarity for row in await QUERIES.all(conn, "similarities", DenseMatch, params)
    }


async def drop_vectors(conn: Connection, org_id: OrgId, ids: Collection[MemoryId]) -> int:
    """Remove the vectors of memories and what is asked of models for them; return how many vectors."""
    params = {"org_id": org_id, "memory_ids": list(ids)}
    await QUERIES.run(conn, "drop_work", params)
    return await QUERIES.run(conn, "drop", params)
