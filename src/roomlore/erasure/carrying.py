"""An erasure is one transaction with its receipt; a second look follows in another and completes it.

A dry run does the very same and takes it back.
"""

from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from roomlore.domain.errors import NotFound
from roomlore.domain.ids import OrgId, RoomId
from roomlore.domain.receipts import VerificationCheck, Receipt
from roomlore.domain.records import Viewer
from roomlore.erasure import accounting, others, person, rooms
from roomlore.erasure.accounting import ErasureRequest
from roomlore.erasure.messages import BATCH_SIZE, RoomRange, delete_range, erase_messages
from roomlore.erasure.others import IdentifiersByPlatform
from roomlore.store import directory, erased, messages, receipts
from roomlore.store.erasing import MessageToErase
from roomlore.store.queries import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """An erasure carried out: its receipt, and what only the second look right after it may know."""

    receipt: Receipt
    #: The same for the operator, where somebody else asked, who may not know all of it.
    operator_receipt: Receipt | None = None
    traces: IdentifiersByPlatform | None = None


async def erase(conn: Connection, org_id: OrgId, asked: ErasureRequest, *, by: Viewer, dry_run: bool) -> Erasure:
    """Erase what is asked for and keep the receipt, or on a dry run nothing of it all."""
    async with conn.transaction(force_rollback=dry_run):
        if not dry_run:
            # Looking keeps nobody waiting: what is written meanwhile is not in what would go.
            await erased.lock_exclusive(conn, org_id)
            await _lock_accounts(conn, org_id, asked)
        at = datetime.now(UTC)
        asked = await _completed(conn, org_id, asked, at=at)
        tally, traces = await _remove(conn, org_id, asked, at=at)
        told = accounting.visible_counts(by, tally)
        receipt = accounting.build_receipt(asked, told, at=at, by=by, is_dry_run=dry_run)
        in_full = None
        if not (by.is_operator or dry_run):
            operator = Viewer.operator(org_id, key_id=by.key_id)
            in_full = accounting.build_receipt(asked, tally, at=at, by=operator, is_dry_run=False)
            await receipts.add(conn, org_id, in_full)
        if not dry_run:
            await receipts.add(conn, org_id, receipt)
    return Erasure(receipt=receipt, operator_receipt=in_full, traces=traces)


async def expire(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, now: datetime, by: Viewer
) -> Erasure | None:
    """Erase some of what is older than a room keeps, oldest first; None where nothing is."""
    await erased.lock_exclusive(conn, org_id)
    for room in await erased.rooms_with_retention(conn, org_id, room_id, now=now):
        stretch = RoomRange(room_id=room_id, since=None, until=room.kept_since)
        tally = await delete_range(conn, org_id, stretch, at_most=BATCH_SIZE, leaves_tombstones=True)
        if not tally["messages"]:
            return None
        asked = ErasureRequest(kind="expiry", room_id=room_id, until=room.kept_since)
        receipt = accounting.build_receipt(asked, tally, at=datetime.now(UTC), by=by, is_dry_run=False)
        await receipts.add(conn, org_id, receipt)
        return Erasure(receipt=receipt)
    return None


async def verify(conn: Connection, org_id: OrgId, done: Erasure) -> Receipt:
    """Read once more whatever should be gone, and return the receipt with what was found."""
    receipt = done.receipt
    checks = [
        VerificationCheck(store="postgresql", what=left.what, found=left.found)
        for left in await receipts.residuals(conn, org_id, receipt)
    ]
    if receipt.kind == "person":
        named = await receipts.accounts_still_mentioned(conn, org_id, at=receipt.at)
        checks.append(VerificationCheck(store="postgresql", what="accounts in others' mentions", found=named))
    if done.traces is not None:
        found = await others.count_remaining(conn, org_id, done.traces)
        checks.append(VerificationCheck(store="postgresql", what="traces in others' messages", found=found))
    checked_at = datetime.now(UTC)
    for one in (receipt, done.operator_receipt):
        if one is not None:
            await receipts.record_checks(conn, org_id, one.id, checks=checks, checked_at=checked_at)
    return replace(receipt, checks=tuple(checks), checked_at=checked_at)


async def _lock_accounts(conn: Connection, org_id: OrgId, asked: ErasureRequest) -> None:
    """Let nobody get another account, or lose one, nor a room come back, while one is erased."""
    if asked.kind in {"person", "room"}:
        await directory.lock_directory(conn, org_id)


async def _completed(conn: Connection, org_id: OrgId, asked: ErasureRequest, *, at: datetime) -> ErasureRequest:
    """Return what is asked for with what only the erasure itself can know: its time, all accounts of a person."""
    if asked.kind == "range":
        # What will be said later is not asked for, and would be kept out unseen.
        return replace(asked, until=at if asked.until is None else min(asked.until, at))
    if asked.kind == "person":
        accounts = await directory.accounts(conn, org_id, asked.participant_ids[0])
        if not accounts:
            raise NotFound("participant", str(asked.participant_ids[0]))
        return replace(asked, participant_ids=[account.id for account in accounts])
    return asked


async def _remove(
    conn: Connection, org_id: OrgId, asked: ErasureRequest, *, at: datetime
) -> tuple[Counter[str], IdentifiersByPlatform | None]:
    match asked.kind:
        case "person":
            gone = await person.erase_person(conn, org_id, asked.participant_ids, at=at)
            return gone.tally, gone.traces
        case "message":
            assert asked.message_id is not None
            found = await messages.messages_by_id(conn, org_id, [asked.message_id])
            doomed = [MessageToErase(id=one.id, room_id=one.room_id, author_id=one.author_id) for one in found]
            return await erase_messages(conn, org_id, doomed, at=at), None
        case "range":
            assert asked.room_id is not None
            assert asked.until is not None
            stretch = RoomRange(room_id=asked.room_id, since=asked.since, until=asked.until)
            await erased.add_range(
                conn, org_id, stretch.room_id, since=stretch.since, until=stretch.until, at=at
            )
            return await delete_range(conn, org_id, stretch), None
        case "room":
            assert asked.room_id is not None
            return await rooms.erase_room(conn, org_id, asked.room_id, at=at), None
        case "expiry":
            raise AssertionError("is carried out in portions")
