"""Receipts of erasures, and the second look that completes them."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from roomlore.db.erased import account_digest
from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import KeyId, MessageId, OrgId, ParticipantId, ReceiptId, RoomId, ids_matching
from roomlore.domain.receipts import (
    ErasureKind,
    PendingRemoval,
    Receipt,
    RemovedCount,
    RetainedCount,
    VerificationCheck,
)

QUERIES = Queries("receipts")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptRow:
    """A receipt as it is stored, with its parts as JSON."""

    id: ReceiptId
    at: datetime
    kind: ErasureKind
    room_id: RoomId | None
    message_id: MessageId | None
    participant_ids: Sequence[ParticipantId]
    since: datetime | None
    until: datetime | None
    key_id: KeyId | None
    viewer_id: ParticipantId | None
    removed: Sequence[dict[str, Any]]
    kept: Sequence[dict[str, Any]]
    checks: Sequence[dict[str, Any]] | None
    checked_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual:
    """How much a second look found of one thing."""

    what: str
    found: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MentionedAccount:
    """An account that others' messages name."""

    platform: str
    account_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountDigest:
    """What an erased account is recognised by."""

    digest: bytes


async def add(conn: Connection, org_id: OrgId, receipt: Receipt) -> None:
    """Keep a receipt, whose second look is still to come."""
    params = {name: getattr(receipt, name) for name in ReceiptRow.__slots__}
    params["participant_ids"] = list(receipt.participant_ids)
    params["removed"] = json.dumps([asdict(part) for part in receipt.removed])
    params["kept"] = json.dumps([asdict(part) for part in receipt.kept])
    await QUERIES.run(conn, "add_receipt", {"org_id": org_id, **params})


async def record_checks(
    conn: Connection,
    org_id: OrgId,
    receipt_id: ReceiptId,
    *,
    checks: Sequence[VerificationCheck],
    checked_at: datetime,
) -> None:
    """Keep what a second look found."""
    written = json.dumps([asdict(check) for check in checks])
    params = {"org_id": org_id, "id": receipt_id, "checks": written, "checked_at": checked_at}
    await QUERIES.run(conn, "note_checks", params)


async def newest_receipts(conn: Connection, org_id: OrgId, *, limit: int) -> list[Receipt]:
    """Return the newest receipts that the viewer may see, newest first."""
    rows = await QUERIES.all(conn, "newest_receipts", ReceiptRow, {"org_id": org_id, "limit": limit})
    return [_receipt(row) for row in rows]


async def find_receipts(conn: Connection, org_id: OrgId, word: str) -> list[Receipt]:
    """Return the receipts that an id, its beginning or its end means."""
    ids = ids_matching(word)
    if ids is None:
        return []
    params = {"org_id": org_id, **asdict(ids)}
    rows = await QUERIES.all(conn, "find_receipts", ReceiptRow, params)
    return [_receipt(row) for row in rows]


async def residuals(conn: Connection, org_id: OrgId, receipt: Receipt) -> list[Residual]:
    """Return how much is left of what a receipt says is gone."""
    params = {
        "org_id": org_id,
        "at": receipt.at,
        "kind": receipt.kind,
        "room_id": receipt.room_id,
        "message_id": receipt.message_id,
        "participant_ids": list(receipt.participant_ids),
        "since": receipt.since,
        "until": receipt.until,
    }
    match receipt.kind:
        case "message":
            return await QUERIES.all(conn, "left_of_message", Residual, params)
        case "range" | "expiry":
            return await QUERIES.all(conn, "left_of_range", Residual, params)
        case "room":
            return await QUERIES.all(conn, "left_of_room", Residual, params)
        case "person":
            found = await QUERIES.all(conn, "left_of_person", Residual, params)
            return found + await QUERIES.all(conn, "left_in_holes", Residual, params)


async def accounts_still_mentioned(conn: Connection, org_id: OrgId, *, at: datetime) -> int:
    """Return how many of the accounts erased at a time are named by messages that were there by then."""
    params = {"org_id": org_id, "at": at}
    digests = {row.digest for row in await QUERIES.all(conn, "digests_of", AccountDigest, params)}
    named = await QUERIES.all(conn, "accounts_named", MentionedAccount, params)
    return sum(account_digest(org_id, (one.platform, one.account_id, "")) in digests for one in named)


async def pending_removals(conn: Connection, org_id: OrgId, receipt: Receipt) -> list[PendingRemoval]:
    """Return what is still to be brought about in copies, to the operator; of somebody's own receipt what is their own."""
    params = {
        "org_id": org_id,
        "at": receipt.at,
        "checked_at": receipt.checked_at,
        "message_id": receipt.message_id,
        "participant_ids": list(receipt.participant_ids),
        "is_own": receipt.is_own,
    }
    return await QUERIES.all(conn, "still_copied", PendingRemoval, params)


def _receipt(row: ReceiptRow) -> Receipt:
    fields = {name: getattr(row, name) for name in ReceiptRow.__slots__}
    fields["removed"] = tuple(RemovedCount(**part) for part in row.removed)
    fields["kept"] = tuple(RetainedCount(**part) for part in row.kept)
    fields["checks"] = None if row.checks is None else tuple(VerificationCheck(**part) for part in row.checks)
    return Receipt(**fields)
