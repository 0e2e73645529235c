"""Erasure of messages, time ranges, rooms and persons, with receipts; and retention.

Names are resolved as the caller sees them, so a caller learns nothing about what they may not see.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated
from uuid import UUID

from msgspec import Meta

from roomlore.db import erasure_guard, receipts, room_retention
from roomlore.db.queries import Connection
from roomlore.db.room_retention import OldMessages
from roomlore.domain import retention
from roomlore.domain.errors import BadInput, NotAllowed, NotFound
from roomlore.domain.ids import MessageId, ParticipantId, RoomId
from roomlore.domain.receipts import ErasureKind, Receipt
from roomlore.domain.records import Message, Right, Viewer
from roomlore.domain.retention import RetentionChange
from roomlore.ingest import accept
from roomlore.jobs import expiry
from roomlore.operations.access import Access, check_limit
from roomlore.operations.registry import Limit, operation
from roomlore.privacy import enforcement
from roomlore.privacy.erasure import Erasure, erase, verify
from roomlore.privacy.erasure_receipts import ErasureRequest
from roomlore.search import lookup

LONGEST_KEPT = timedelta(days=366_000)
RetentionPeriod = Annotated[
    timedelta, Meta(gt=0, le=int(LONGEST_KEPT.total_seconds()), description="Seconds.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasures:
    """Erasure in an org. Erased data stays erased, even if somebody imports it again.

    Members may erase their own messages and themselves. Operators may erase everything. With `dry_run` nothing changes:
    the result says what would be erased. Every method raises NotFound if the caller sees nothing by a name, BadInput if
    a name is ambiguous, and NotAllowed if the caller may not erase this.
    """

    access: Access

    @operation(
        "POST", "/messages/{message}/redact", name="redact_message", replay="whole", result_key="redacted"
    )
    async def redact(self, message: str, *, room: str | None = None, dry_run: bool = False) -> MessageId:
        """Remove the content of a message and everything derived from it; return its id.

        The place, author and time of the message stay. A dry run only says which message it is and whether the caller
        may redact it.
        """
        found = await self._message(message, room, "dry run of redact" if dry_run else "redact")

        async def work(conn: Connection) -> tuple[MessageId, Sequence[UUID]]:
            if not dry_run:
                # Otherwise an edit that arrives now would store the text as a revision.
                await erasure_guard.lock_exclusive(conn, self.access.org_id)
            await self._check_owned(conn, found.author_id)
            if not dry_run:
                await accept.redact(conn, self.access.org_id, [found.id], redacted_at=datetime.now(UTC))
                await enforcement.reapply(conn, self.access.org_id, [found.room_id])
            return found.id, [found.id]

        return await self.access.change("erase own", "dry run of redact" if dry_run else "redact", work)

    async def message(self, word: str, *, room: str | None = None, dry_run: bool = False) -> Receipt:
        """Erase a message, leave a tombstone, and return the receipt."""
        found = await self._message(word, room, _action("message", dry_run=dry_run))
        request = ErasureRequest(kind="message", room_id=found.room_id, message_id=found.id)
        return await self._erase(request, own=found.author_id, dry_run=dry_run)

    async def range(
        self,
        room: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        dry_run: bool = False,
    ) -> Receipt:
        """Erase the messages of a room in a time range, and return the receipt. For operators. No tombstones stay.

        Args:
            room: Name, external id or id.
            since: Erase messages from this time on. Default: from the beginning.
            until: Erase messages before this time. Default: until now.
            dry_run: Only return what would be erased.
        """
        await self.access.check("administer", _action("range", dry_run=dry_run))
        since, until, now = _in_utc(since), _in_utc(until), datetime.now(UTC)
        if since is not None and since >= min(until or now, now):
            raise BadInput("time", "ends before it begins" if until else "begins after now")
        async with self.access.resolving(_action("range", dry_run=dry_run)) as conn:
            room_id = await lookup.room(conn, self.access.org_id, room)
        request = ErasureRequest(kind="range", room_id=room_id, since=since, until=until)
        return await self._erase(request, own=None, dry_run=dry_run)

    async def room(self, room: str, *, dry_run: bool = False) -> Receipt:
        """Erase a room: its messages, everything derived from them, its members and its name. For operators.

        From then on, messages of the room are refused.
        """
        await self.access.check("administer", _action("room", dry_run=dry_run))
        async with self.access.resolving(_action("room", dry_run=dry_run)) as conn:
            room_id = await lookup.room(conn, self.access.org_id, room)
        return await self._erase(ErasureRequest(kind="room", room_id=room_id), own=None, dry_run=dry_run)

    async def person(self, word: str, *, dry_run: bool = False) -> Receipt:
        """Erase a person: all accounts, all their messages, and mentions of them in other people's messages."""
        async with self.access.resolving(_action("person", dry_run=dry_run)) as conn:
            participant_id = await lookup.participant(conn, self.access.org_id, word)
        request = ErasureRequest(kind="person", participant_ids=[participant_id])
        return await self._erase(request, own=participant_id, dry_run=dry_run)

    @operation("GET", "/receipts", name="list_receipts")
    async def receipts(self, limit: Limit = 50) -> list[Receipt]:
        """Return the newest receipts, newest first. Operators get all receipts, other viewers their own."""
        check_limit(limit)
        async with self.access.reading(self.access.principal, "list receipts") as reading:
            found = await receipts.newest_receipts(reading.conn, self.access.org_id, limit=limit)
            reading.record_shown(receipt.id for receipt in found)
        return found

    @operation("GET", "/receipts/{receipt}", name="read_receipt")
    async def receipt(self, receipt: str) -> Receipt:
        """Return the receipt of an id or its beginning, and what other servers may still hold."""
        async with self.access.reading(self.access.principal, "read receipt") as reading:
            found = await receipts.find_receipts(reading.conn, self.access.org_id, receipt)
            if len(found) != 1:
                raise NotFound("receipt", receipt)
            reading.record_shown([found[0].id])
        return await self._with_pending_projections(found[0])

    @operation(
        "POST",
        "/receipts/{receipt}/verify",
        name="verify_receipt",
        replay="whole",
        is_repeatable=True,
    )
    async def verify(self, receipt: str) -> Receipt:
        """Verify again that everything on a receipt is gone, and return the receipt with the result."""
        found = await self.receipt(receipt)

        async def work(conn: Connection) -> tuple[Receipt, Sequence[UUID]]:
            return await verify(conn, self.access.org_id, Erasure(receipt=found)), [found.id]

        return await self._with_pending_projections(
            await self.access.change("erase own", "check receipt", work)
        )

    @operation("PUT", "/rooms/{room}/retention", name="set_retention", replay="whole", is_repeatable=True)
    async def set_retention(
        self, room: str, retention_period: RetentionPeriod | None, *, dry_run: bool = False
    ) -> RetentionChange:
        """Set how long a room keeps messages; null is forever. For operators.

        Return when the change begins, and which messages it removes. A shorter period begins after one day. Until then
        the old period applies, and setting forever cancels the change.
        """
        if retention_period is not None and not timedelta(0) < retention_period <= LONGEST_KEPT:
            raise BadInput("time to keep", "must be more than nothing, and at most a thousand years")

        async def work(conn: Connection) -> tuple[RetentionChange, Sequence[UUID]]:
            room_id = await lookup.room(conn, self.access.org_id, room)
            return await self._set_retention(conn, room_id, retention_period, dry_run=dry_run), [room_id]

        return await self.access.change("administer", "dry run of keep" if dry_run else "keep", work)

    @operation("POST", "/erasures/expired", name="erase_expired", replay="whole")
    async def erase_expired(self, now: datetime | None = None) -> list[Receipt]:
        """Erase messages that are older than the retention of their rooms, and return the receipts. For operators.

        Args:
            now: The time to compare with. It must not be in the future. Default: the time of the clock.
        """
        now, clock = _in_utc(now), datetime.now(UTC)
        if now is not None and now > clock:
            raise BadInput("time", "has not come yet")
        await self.access.check("administer", expiry.ACTION)
        return await expiry.expire(
            self.access.db, self.access.org_id, now=now or clock, by=self.access.principal
        )

    async def _set_retention(
        self, conn: Connection, room_id: RoomId, retention_period: timedelta | None, *, dry_run: bool
    ) -> RetentionChange:
        org_id = self.access.org_id
        current, now = await room_retention.retention_now(conn, org_id, room_id)
        policy = retention.change_policy(current, retention_period, now=now, grace=retention.GRACE)
        if not dry_run:
            await room_retention.set_retention(conn, org_id, room_id, policy)
        gone = OldMessages(messages=0, oldest_at=None, newest_at=None)
        if retention_period is not None:
            gone = await room_retention.messages_before(
                conn, org_id, room_id, (policy.starts_at or now) - retention_period
            )
        return RetentionChange(
            room_id=room_id,
            retention_period=retention_period,
            starts_at=policy.starts_at,
            messages=gone.messages,
            oldest_at=gone.oldest_at,
            newest_at=gone.newest_at,
            is_dry_run=dry_run,
        )

    async def _message(self, word: str, room: str | None, action: str) -> Message:
        async with self.access.resolving(action) as conn:
            room_id = await lookup.room(conn, self.access.org_id, room) if room else None
            return await lookup.message(conn, self.access.org_id, word, room_id=room_id)

    async def _check_owned(self, conn: Connection, participant_id: ParticipantId) -> None:
        if not await self.access.is_own(conn, participant_id):
            raise NotAllowed("this is somebody else's, and only an operator erases that")

    async def _erase(self, request: ErasureRequest, *, own: ParticipantId | None, dry_run: bool) -> Receipt:
        """Erase what is requested, and return the receipt.

        `own` is the participant to whom the content belongs. If `own` is None, only operators may erase the content.
        """

        async def work(conn: Connection) -> tuple[Erasure, Sequence[UUID]]:
            if not dry_run:
                await erasure_guard.lock_exclusive(conn, self.access.org_id)
            if own is not None:
                await self._check_owned(conn, own)
            async with erasure_guard.dry_run(conn, self.access.org_id) if dry_run else nullcontext():
                done = await erase(
                    conn, self.access.org_id, request, by=self.access.principal, dry_run=dry_run
                )
            return done, _subject_ids(done.receipt)

        right: Right = "administer" if own is None else "erase own"
        done = await self.access.change(right, _action(request.kind, dry_run=dry_run), work)
        if dry_run:
            return done.receipt
        receipt = await self.access.db.change(
            self.access.org_id, partial(verify, org_id=self.access.org_id, done=done)
        )
        return await self._with_pending_projections(receipt)

    async def _with_pending_projections(self, receipt: Receipt) -> Receipt:
        async with self.access.db.read_transaction(Viewer.operator(self.access.org_id)) as conn:
            copies = await receipts.pending_removals(conn, self.access.org_id, receipt)
        if not self.access.principal.is_operator:
            copies = [replace(copy, error=None) for copy in copies]
        return replace(receipt, pending_projections=tuple(copies))


def _in_utc(time: datetime | None) -> datetime | None:
    if time is None:
        return None
    if time.utcoffset() is None:
        raise BadInput("time", "needs a zone")
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise BadInput("time", "lies outside of all time") from None


def _action(kind: ErasureKind, *, dry_run: bool) -> str:
    return f"dry run of erase {kind}" if dry_run else f"erase {kind}"


def _subject_ids(receipt: Receipt) -> list[UUID]:
    receipt_ids = [] if receipt.is_dry_run else [receipt.id]
    about = [receipt.room_id, receipt.message_id, *receipt.participant_ids]
    return [*receipt_ids, *(key for key in about if key is not None)]
