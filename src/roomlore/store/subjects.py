"""What each server holds copies of: points of messages, or nodes of everything."""

from collections.abc import Sequence
from uuid import UUID

from roomlore.domain.ids import OrgId
from roomlore.domain.projected import Node, Point
from roomlore.store import nodes, projections
from roomlore.store.projections import Target
from roomlore.store.queries import Connection


async def read_subjects(
    conn: Connection, org_id: OrgId, target: Target, ids: Sequence[UUID], *, model: str | None, version: int
) -> Sequence[Point | Node]:
    """Return those of these subjects that are to have a copy, as they are by now; points with vectors of a model."""
    if target == "neo4j":
        return await nodes.nodes(conn, org_id, ids, version=version)
    assert model is not None
    return await projections.points(conn, org_id, ids, model=model, version=version)


async def subject_ids_after(
    conn: Connection, org_id: OrgId, target: Target, after: UUID | None, *, limit: int
) -> list[UUID]:
    """Return which subjects are to have a copy, in the order of their ids."""
    what = nodes if target == "neo4j" else projections
    return await what.ids_after(conn, org_id, after, limit=limit)
