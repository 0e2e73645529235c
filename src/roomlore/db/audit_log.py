"""The activity log: lines are added and read, never changed."""

from collections.abc import Sequence
from uuid import UUID

from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import IdRanges, OrgId
from roomlore.domain.records import AuditLine, AuditOutcome, Viewer

QUERIES = Queries("audit_log")


@QUERIES.query
async def append(
    conn: Connection,
    viewer: Viewer,
    action: str,
    *,
    line_id: UUID,
    outcome: AuditOutcome,
    subject_ids: Sequence[UUID],
    took_ms: float | None = None,
) -> None:
    """Add a line with the viewer, the action and its subjects.

    The database dates the lines; their ids give the order.
    """
    ...


@QUERIES.query
async def newest_lines(
    conn: Connection, org_id: OrgId, *, about: IdRanges | None, limit: int
) -> list[AuditLine]:
    """Return the newest visible lines, newest first.

    `about` limits them to keys, viewers or subjects in these id ranges.
    """
    ...
