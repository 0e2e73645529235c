"""Receipts of erasures, and the verification that completes them."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from roomlore.db.erasure_guard import account_digest
from roomlore.db.queries import ROW_FACTORIES, Connection, Queries
from roomlore.domain.ids import IdRanges, OrgId, ReceiptId, ids_matching
from roomlore.domain.receipts import (
    PendingRemoval,
    Receipt,
    RemovedCount,
    RetainedCount,
    VerificationCheck,
)

QUERIES = Queries("receipts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual:
    """How many rows of one kind an erasure left."""

    what: str
    found: int


def _receipt(
    *,
    removed: Sequence[dict[str, Any]],
    kept: Sequence[dict[str, Any]],
    checks: Sequence[dict[str, Any]] | None,
    **columns: Any,
) -> Receipt:
    return Receipt(
        **columns,
        removed=tuple(RemovedCount(**part) for part in removed),
        kept=tuple(RetainedCount(**part) for part in kept),
        checks=None if checks is None else tuple(VerificationCheck(**part) for part in checks),
    )


ROW_FACTORIES[Receipt] = _receipt


async def add(conn: Connection, org_id: OrgId, receipt: Receipt) -> None:
    """Add a receipt before its verification."""
    await add_receipt(
        conn, org_id, receipt, removed_json=_json(receipt.removed), kept_json=_json(receipt.kept)
    )


@QUERIES.query
async def add_receipt(
    conn: Connection, org_id: OrgId, receipt: Receipt, *, removed_json: str, kept_json: str
) -> None:
    """Add a receipt."""
    ...


async def record_checks(
    conn: Connection,
    org_id: OrgId,
    receipt_id: ReceiptId,
    *,
    checks: Sequence[VerificationCheck],
    checked_at: datetime,
) -> None:
    """Store the result of a verification."""
    await set_checks(conn, org_id, receipt_id, checks=_json(checks), checked_at=checked_at)


@QUERIES.query
async def set_checks(
    conn: Connection, org_id: OrgId, receipt_id: ReceiptId, *, checks: str, checked_at: datetime
) -> None:
    """Store the result of a verification, as JSON."""
    ...


def _json(parts: Sequence[RemovedCount | RetainedCount | VerificationCheck]) -> str:
    return json.dumps([asdict(part) for part in parts])


@QUERIES.query
async def newest_receipts(conn: Connection, org_id: OrgId, *, limit: int) -> list[Receipt]:
    """Return the newest receipts that the viewer may see, newest first."""
    ...


async def find_receipts(conn: Connection, org_id: OrgId, word: str) -> list[Receipt]:
    """Return up to ten receipts whose ids begin or end with a word."""
    ids = ids_matching(word)
    return await receipts_in_ranges(conn, org_id, ids) if ids else []


@QUERIES.query
async def receipts_in_ranges(conn: Connection, org_id: OrgId, ids: IdRanges) -> list[Receipt]:
    """Return up to ten receipts whose ids are in these ranges."""
    ...


async def residuals(conn: Connection, org_id: OrgId, receipt: Receipt) -> list[Residual]:
    """Return how much is left of the content that a receipt says is erased. Every count must be 0."""
    match receipt.kind:
        case "message":
            return await left_of_message(conn, org_id, receipt)
        case "range" | "expiry":
            return await left_of_range(conn, org_id, receipt)
        case "room":
            return await left_of_room(conn, org_id, receipt)
        case "person":
            left = await left_of_person(conn, org_id, receipt)
            return left + await left_in_tombstones(conn, org_id)


@QUERIES.query
async def left_of_message(conn: Connection, org_id: OrgId, receipt: Receipt) -> list[Residual]:
    """Return what is left of an erased message."""
    ...


@QUERIES.query
async def left_of_range(conn: Connection, org_id: OrgId, receipt: Receipt) -> list[Residual]:
    """Return what is left of an erased range of a room."""
    ...


@QUERIES.query
async def left_of_room(conn: Connection, org_id: OrgId, receipt: Receipt) -> list[Residual]:
    """Return what is left of an erased room."""
    ...


@QUERIES.query
async def left_of_person(conn: Connection, org_id: OrgId, receipt: Receipt) -> list[Residual]:
    """Return what is left of erased participants."""
    ...


@QUERIES.query
async def left_in_tombstones(conn: Connection, org_id: OrgId) -> list[Residual]:
    """Return what is left in any tombstone of the org."""
    ...


async def accounts_still_mentioned(conn: Connection, org_id: OrgId, *, at: datetime) -> int:
    """Return how many of the accounts erased at a time are still mentioned.

    Only mentions in messages that were received up to this time count.
    """
    digests = await erased_digests(conn, org_id, at=at)
    mentioned = await mentioned_accounts(conn, org_id, at=at)
    return sum(account_digest(org_id, (*account, "")) in digests for account in mentioned)


@QUERIES.query
async def erased_digests(conn: Connection, org_id: OrgId, *, at: datetime) -> set[bytes]:
    """Return the digests of the accounts erased at a time."""
    ...


@QUERIES.query
async def mentioned_accounts(conn: Connection, org_id: OrgId, *, at: datetime) -> set[tuple[str, str]]:
    """Return the accounts in mentions and reactions of messages received up to a time, as pairs of platform and id."""
    ...


@QUERIES.query
async def pending_removals(conn: Connection, org_id: OrgId, receipt: Receipt) -> list[PendingRemoval]:
    """Return what projections still have to delete or rewrite. For the operator."""
    ...
