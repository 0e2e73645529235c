"""Repeats erasures in a database that was filled from an older backup, before anybody reads it.

Everything runs in the transaction that fills the database. If something erased is left at the end, the transaction is
rolled back.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from roomlore.db import disentanglement, kept_erasures, memory_writes
from roomlore.db.backup import acting_as_operator
from roomlore.db.queries import Connection
from roomlore.db.receipts import residuals
from roomlore.domain.errors import Conflict
from roomlore.domain.ids import OrgId
from roomlore.domain.receipts import Receipt
from roomlore.ingest import accept
from roomlore.privacy import enforcement, erasure
from roomlore.privacy.erasure import BATCH_SIZE


async def repeat_erasures(conn: Connection) -> Counter[str]:
    """Repeat what `kept_erasures` has kept; return how much was removed or hidden, by kind.

    Raises:
        Conflict: something erased is left.
    """
    counts = Counter[str]()
    receipts = {org_id: await _new_receipts(conn, org_id) for org_id in await kept_erasures.orgs(conn)}
    for org_id, new in receipts.items():
        for receipt in new:
            async with acting_as_operator(conn, org_id):
                counts += await _repeat(conn, org_id, receipt)
        counts["messages"] += await _erase_messages(conn, org_id)
        counts["redactions"] += await _redact_messages(conn, org_id)
    counts.update(await kept_erasures.keep_rest(conn))
    for org_id, new in receipts.items():
        counts["restrictions"] += await _restrict(conn, org_id)
        async with acting_as_operator(conn, org_id):
            await _verify(conn, org_id, new)
    await kept_erasures.drop_idle_requests(conn)
    return +counts


async def _new_receipts(conn: Connection, org_id: OrgId) -> Sequence[Receipt]:
    """Return the receipts to repeat. Of the expiries of a room, the one that reaches furthest covers all others."""
    found = await kept_erasures.new_receipts(conn, org_id)
    last = {each.room_id: each for each in sorted(found, key=_until) if each.kind == "expiry"}
    return [each for each in found if each.kind != "expiry" or last[each.room_id] is each]


def _until(receipt: Receipt) -> datetime:
    return receipt.until or datetime.min.replace(tzinfo=UTC)


async def _repeat(conn: Connection, org_id: OrgId, receipt: Receipt) -> Counter[str]:
    if receipt.kind == "person":
        known = await memory_writes.participants_by_id(conn, org_id, receipt.participant_ids)
        if not known:
            return Counter()
        counts, _ = await erasure.erase_person(conn, org_id, list(known), at=receipt.at)
        return Counter(messages=counts["messages"], persons=1)
    room_id = receipt.room_id
    if (
        receipt.kind == "message"
        or room_id is None
        or not await kept_erasures.has_room(conn, org_id, room_id)
    ):
        # The tombstones say which messages.
        return Counter()
    if receipt.kind == "room":
        counts = await erasure.erase_room(conn, org_id, room_id, at=receipt.at)
        return Counter(messages=counts["messages"], rooms=1)
    assert receipt.until is not None
    counts = await erasure.delete_range(
        conn,
        org_id,
        room_id,
        since=receipt.since,
        until=receipt.until,
        leaves_tombstones=receipt.kind == "expiry",
    )
    return Counter(messages=counts["messages"])


async def _erase_messages(conn: Connection, org_id: OrgId) -> int:
    count = 0
    while to_erase := await kept_erasures.new_tombstones(conn, org_id, limit=BATCH_SIZE):
        async with acting_as_operator(conn, org_id):
            # The times of the first erasures are set later.
            await erasure.erase_messages(conn, org_id, to_erase, at=datetime.now(UTC))
        count += len(to_erase)
    return count


async def _redact_messages(conn: Connection, org_id: OrgId) -> int:
    count = 0
    while to_redact := await kept_erasures.new_redactions(conn, org_id, limit=BATCH_SIZE):
        async with acting_as_operator(conn, org_id):
            ids = [message.id for message in to_redact]
            await accept.redact(conn, org_id, ids, redacted_at=datetime.now(UTC))
            await enforcement.reapply(conn, org_id, {message.room_id for message in to_redact})
        count += len(to_redact)
    return count


async def _restrict(conn: Connection, org_id: OrgId) -> int:
    hidden = await kept_erasures.keep_restrictions(conn, org_id)
    async with acting_as_operator(conn, org_id):
        # Titles and memories were made from messages that are hidden now.
        await disentanglement.mark_messages_dirty(conn, org_id, hidden)
    return len(set(hidden))


async def _verify(conn: Connection, org_id: OrgId, receipts: Sequence[Receipt]) -> None:
    for receipt in receipts:
        left = await residuals(conn, org_id, replace(receipt, viewer_id=None))
        if any(one.found for one in left):
            what = ", ".join(f"{one.found} {one.what}" for one in left if one.found)
            raise Conflict("restore", f"what was erased would come back ({what}); nothing was restored")
