"""What a restore keeps of the database that it replaces: erasures, redactions, restrictions, revoked keys, retention.

The record of a source goes to temporary tables, which end with the transaction. After the tables are filled from a
backup, the statements here compare both. They run as the owner, and cover all orgs unless an org is an argument.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from roomlore.db.erasure import MessageToErase
from roomlore.db.queries import Connection, Queries, RowCount
from roomlore.domain.ids import MessageId, OrgId, RoomId
from roomlore.domain.receipts import Receipt

QUERIES = Queries("kept_erasures")

_KEPT = (
    *(
        "receipts",
        "accounts",
        "names",
        "ranges",
        "rooms",
        "tombstones",
        "redactions",
        "requests",
        "restrictions",
    ),
    *("revoked_keys", "retention"),
)
#: Kept only from the database that is filled.
_OWN = ("audit_log", "projections")
#: The statements that read what is kept, by temporary table.
READS: Mapping[str, str] = {f"kept_{name}": f"read_{name}" for name in _KEPT}
OWN_READS: Mapping[str, str] = {f"kept_{name}": f"read_{name}" for name in _OWN}
#: The statements that make the temporary tables.
MAKES = tuple(f"make_{name}" for name in (*_KEPT, *_OWN))


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageToRedact:
    """A message to redact."""

    id: MessageId
    room_id: RoomId


async def make_tables(conn: Connection) -> None:
    """Make the temporary tables."""
    for name in MAKES:
        await conn.execute(QUERIES.by_name[name])


@QUERIES.query
async def has_common_org(conn: Connection) -> bool:
    """Return whether the record is about an org of the database."""
    ...


@QUERIES.query
async def orgs(conn: Connection) -> list[OrgId]:
    """Return all orgs."""
    ...


@QUERIES.query
async def new_receipts(conn: Connection, org_id: OrgId) -> list[Receipt]:
    """Return the receipts that the database does not have, oldest first."""
    ...


@QUERIES.query
async def new_tombstones(conn: Connection, org_id: OrgId, *, limit: int) -> list[MessageToErase]:
    """Return messages that were erased and still have their content."""
    ...


@QUERIES.query
async def new_redactions(conn: Connection, org_id: OrgId, *, limit: int) -> list[MessageToRedact]:
    """Return messages that were redacted and still have their content."""
    ...


@QUERIES.query
async def has_room(conn: Connection, org_id: OrgId, room_id: RoomId) -> bool:
    """Return whether the database has a room."""
    ...


async def keep_rest(conn: Connection) -> Mapping[str, int]:
    """Keep everything that needs no erasure; return how many keys were revoked.

    These are times of erasures, digests, ranges, receipts, revoked keys, retention, and audit lines.
    """
    await date_tombstones(conn)
    await date_redactions(conn)
    await keep_accounts(conn)
    await keep_names(conn)
    await keep_rooms(conn)
    await keep_ranges(conn)
    await keep_receipts(conn)
    await keep_retention(conn)
    await keep_audit_log(conn)
    await keep_projections(conn)
    await activate_requests(conn)
    await keep_requests(conn)
    return {"keys": await revoke_keys(conn)}


@QUERIES.query
async def date_tombstones(conn: Connection) -> None:
    """Give tombstones the times of the first erasure."""
    ...


@QUERIES.query
async def date_redactions(conn: Connection) -> None:
    """Give redacted messages the times of the first redaction."""
    ...


@QUERIES.query
async def keep_accounts(conn: Connection) -> None:
    """Keep the digests of erased accounts."""
    ...


@QUERIES.query
async def keep_names(conn: Connection) -> None:
    """Keep the digests of erased names."""
    ...


@QUERIES.query
async def keep_rooms(conn: Connection) -> None:
    """Keep the digests of erased rooms."""
    ...


@QUERIES.query
async def keep_ranges(conn: Connection) -> None:
    """Keep the erased ranges."""
    ...


@QUERIES.query
async def keep_receipts(conn: Connection) -> None:
    """Keep the receipts."""
    ...


@QUERIES.query
async def keep_retention(conn: Connection) -> None:
    """Keep how long rooms keep their messages."""
    ...


@QUERIES.query
async def revoke_keys(conn: Connection) -> RowCount:
    """Revoke keys that were revoked; return how many."""
    ...


@QUERIES.query
async def activate_requests(conn: Connection) -> None:
    """Apply privacy requests that were applied."""
    ...


@QUERIES.query
async def keep_requests(conn: Connection) -> None:
    """Keep privacy requests that hide messages."""
    ...


@QUERIES.query
async def keep_restrictions(conn: Connection, org_id: OrgId) -> list[MessageId]:
    """Hide the messages that were hidden; return those that were not hidden before."""
    ...


@QUERIES.query
async def drop_idle_requests(conn: Connection) -> None:
    """Remove privacy requests that hide nothing and have no message."""
    ...


@QUERIES.query
async def keep_audit_log(conn: Connection) -> None:
    """Keep the lines of the audit log."""
    ...


@QUERIES.query
async def keep_projections(conn: Connection) -> None:
    """Keep the indexes in other servers."""
    ...
