"""The activity log: lines are added and read, never changed."""

from collections.abc import Sequence
from uuid import UUID

from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import IdRanges, OrgId, uuid7
from roomlore.domain.records import AuditLine, AuditOutcome, Viewer

QUERIES = Queries("audit_log")


async def append(
    conn: Connection,
    viewer: Viewer,
    action: str,
    *,
    outcome: AuditOutcome,
    subject_ids: Sequence[UUID],
    took_ms: float | None = None,
    line_id: UUID | None = None,
) -> None:
    """Add a line: who did what to which rows, and how long it took where that is watched.

    Lines stand in the order of their ids; the time of one is when it was written, whatever anybody says.
    """
    params = {
        "org_id": viewer.org_id,
        "id": line_id or uuid7(),
        "key_id": viewer.key_id,
        "viewer_id": viewer.participant_id,
        "action": action,
        "outcome": outcome,
        "subject_ids": list(subject_ids),
        "took_ms": took_ms,
    }
    await QUERIES.run(conn, "append", params)


async def newest_lines(
    conn: Connection, org_id: OrgId, *, about: IdRanges | None, limit: int
) -> list[AuditLine]:
    """Return the newest lines that the viewer may see, newest first; only those that name one of some ids, if asked."""
    params = {
        "org_id": org_id,
        "low": about and about.low,
        "high": about and about.high,
        "end_low": about and about.end_low,
        "end_high": about and about.end_high,
        "limit": limit,
    }
    return await QUERIES.all(conn, "newest_lines", AuditLine, params)
