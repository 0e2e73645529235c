"""Which workers were there lately.

All of it runs for the operator.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from roomlore.domain.ids import OrgId
from roomlore.store.queries import Connection, Queries

QUERIES = Queries("heartbeats")
#: A worker that was not seen for so long is forgotten.
HEARTBEAT_TTL = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A worker: a process that does what waits, of every stage and every org."""

    worker_id: UUID
    started_at: datetime
    #: When it last came by.
    seen_at: datetime


async def record_heartbeat(conn: Connection, org_id: OrgId, worker_id: UUID, *, started_at: datetime) -> None:
    """Note that a worker came by, and forget those that have not for long."""
    params = {"org_id": org_id, "worker_id": worker_id, "started_at": started_at, "kept": HEARTBEAT_TTL}
    await QUERIES.run(conn, "beat", params)
    await QUERIES.run(conn, "drop_stale", params)


async def remove_heartbeat(conn: Connection, org_id: OrgId, worker_id: UUID) -> None:
    """Forget a worker that ended in order."""
    await QUERIES.run(conn, "end", {"org_id": org_id, "worker_id": worker_id})


async def newest_heartbeats(conn: Connection, org_id: OrgId, *, limit: int) -> list[Heartbeat]:
    """Return the workers that were seen last, newest first."""
    return await QUERIES.all(conn, "newest", Heartbeat, {"org_id": org_id, "limit": limit})
