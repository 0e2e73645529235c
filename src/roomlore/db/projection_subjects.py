"""What each server holds copies of: points of messages, or nodes of everything."""

from collections.abc import Sequence
from uuid import UUID

from roomlore.db import graph_nodes, projections
from roomlore.db.projections import Target
from roomlore.db.queries import Connection
from roomlore.domain.ids import OrgId
from roomlore.domain.projections import Node, Point


async def read_subjects(
    conn: Connection, org_id: OrgId, target: Target, ids: Sequence[UUID], *, model: str | None, version: int
) -> Sequence[Point | Node]:
    """Return those of these subjects that are to have a copy, as they are by now; points with vectors of a model."""
    if target == "neo4j":
        return await graph_nodes.nodes(conn, org_id, ids, version=version)
    assert model is not None
    return await projections.points(conn, org_id, ids, model=model, version=version)


async def subject_ids_after(
    conn: Connection, org_id: OrgId, target: Target, after: UUID | None, *, limit: int
) -> list[UUID]:
    """Return which subjects are to have a copy, in the order of their ids."""
    what = graph_nodes if target == "neo4j" else projections
    return await what.ids_after(conn, org_id, after, limit=limit)
