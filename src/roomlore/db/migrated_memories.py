"""Reads which memories came from which rows of another store."""

from dataclasses import dataclass

from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import MemoryId, OrgId
from roomlore.domain.records import AssertionAudience, MemoryStatus

QUERIES = Queries("migrated_memories")


@dataclass(frozen=True, slots=True, kw_only=True)
class MigratedMemory:
    """A memory, and a row from which it came."""

    #: The key in the metadata that names the row.
    key: str
    id: MemoryId
    status: MemoryStatus
    audience: AssertionAudience


@QUERIES.query
async def by_legacy_key(conn: Connection, org_id: OrgId, *, prefix: str) -> list[MigratedMemory]:
    """Return the memories whose metadata has keys that begin with `prefix`, once for each key."""
    ...
