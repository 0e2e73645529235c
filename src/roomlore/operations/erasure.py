"""Erasure: messages, stretches of rooms and persons gone for good, with receipts.

What is meant is looked up as the caller, so that nobody can ask about what they may not see.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated
from uuid import UUID

from msgspec import Meta

from roomlore.db import erased, receipts
from roomlore.db.erased import OldMessages
from roomlore.db.queries import Connection
from roomlore.domain import retention
from roomlore.domain.errors import BadInput, NotAllowed, NotFound
from roomlore.domain.ids import MessageId, ParticipantId, RoomId
from roomlore.domain.receipts import ErasureKind, Receipt
from roomlore.domain.records import Message, Right, Viewer
from roomlore.domain.retention import RetentionChange
from roomlore.ingest import accept
from roomlore.jobs import expiry
from roomlore.operations.access import Access, check_limit
from roomlore.operations.registry import operation
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
    """What was said, and who said it, made to go and to stay gone."""

    access: Access

    @operation(
        "POST", "/messages/{message}/redact", name="redact_message", replay="whole", result_key="redacted"
    )
    async def redact(self, message: str, *, room: str | None = None, dry_run: bool = False) -> MessageId:
        """Remove a message's content and all that was derived from it, and keep place and author; return its id.

        On a dry run nothing changes: it only tells which message is meant, and whether the caller may.

        Raises:
            NotFound: there is no such message, or the caller may not see it.
            NotAllowed: it is somebody else's, and the caller is no operator.
        """
        action = "dry run of redact" if dry_run else "redact"
        found = await self._message(message, room, action)

        async def work(conn: Connection) -> tuple[MessageId, Sequence[UUID]]:
            if dry_run:
                await self._check_owned(conn, found.author_id)
                return found.id, [found.id]
            # An edit that is just arriving would otherwise keep the text as history.
            await erased.lock_exclusive(conn, self.access.org_id)
            await self._check_owned(conn, found.author_id)
            await accept.redact(conn, self.access.org_id, [found.id], redacted_at=datetime.now(UTC))
            await enforcement.reapply(conn, self.access.org_id, [found.room_id])
            return found.id, [found.id]

        return await self.access.change("erase own", action, work)

    async def message(self, word: str, *, room: str | None = None, dry_run: bool = False) -> Receipt:
        """Erase a message and leave a hole in its place; return the receipt.

        Raises:
            NotFound: there is no such message, or the caller may not see it.
            NotAllowed: it is somebody else's, and the caller is no operator.
        """
        found = await self._message(word, room, _action("message", dry_run=dry_run))
        asked = ErasureRequest(kind="message", room_id=found.room_id, message_id=found.id)
        return await self._erase(asked, own=found.author_id, dry_run=dry_run)

    async def range(
        self,
        room: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        dry_run: bool = False,
    ) -> Receipt:
        """Erase the messages that were sent in a room in a time, place and all; return the receipt.

        Args:
            room: Name, external id or id.
            since: From this moment on; from the beginning by default.
            until: Up to this moment, which stays; until now by default.
            dry_run: Only tell what would go.

        Raises:
            NotFound: there is no such room.
            BadInput: the time is none.
            NotAllowed: the caller is no operator.
        """
        await self.access.check("administer", _action("range", dry_run=dry_run))
        since, until = _in_utc(since), _in_utc(until)
        now = datetime.now(UTC)
        if since is not None and since >= min(until or now, now):
            raise BadInput("time", "ends before it begins" if until else "begins after now")
        async with self.access.resolving(_action("range", dry_run=dry_run)) as conn:
            room_id = await lookup.room(conn, self.access.org_id, room)
        asked = ErasureRequest(kind="range", room_id=room_id, since=since, until=until)
        return await self._erase(asked, own=None, dry_run=dry_run)

    async def room(self, room: str, *, dry_run: bool = False) -> Receipt:
        """Erase a room whole: all that was said in it and made of it, its members, its name; return the receipt.

        Nothing of it is taken in again.

        Raises:
            NotFound: there is no such room.
            BadInput: several are meant.
            NotAllowed: the caller is no operator.
        """
        await self.access.check("administer", _action("room", dry_run=dry_run))
        async with self.access.resolving(_action("room", dry_run=dry_run)) as conn:
            room_id = await lookup.room(conn, self.access.org_id, room)
        return await self._erase(ErasureRequest(kind="room", room_id=room_id), own=None, dry_run=dry_run)

    async def person(self, word: str, *, dry_run: bool = False) -> Receipt:
        """Erase a person: all accounts, all they wrote, and their traces in what others said.

        Raises:
            NotFound: there is nobody of that name, or the caller may not know of them.
            BadInput: several are meant.
            NotAllowed: it is somebody else, and the caller is no operator.
        """
        async with self.access.resolving(_action("person", dry_run=dry_run)) as conn:
            found = await lookup.participant(conn, self.access.org_id, word)
        asked = ErasureRequest(kind="person", participant_ids=[found])
        return await self._erase(asked, own=found, dry_run=dry_run)

    async def receipts(self, limit: int = 50) -> list[Receipt]:
        """Return the newest receipts: an operator's all, everybody else's own, newest first."""
        check_limit(limit)
        async with self.access.reading(self.access.principal, "list receipts") as reading:
            found = await receipts.newest_receipts(reading.conn, self.access.org_id, limit=limit)
            reading.record_shown(receipt.id for receipt in found)
        return found

    async def receipt(self, receipt_id: str) -> Receipt:
        """Return the receipt that an id or its beginning means, with what copies may hold still.

        Raises:
            NotFound: no receipt has that id, several begin with it, or it is not the caller's.
        """
        async with self.access.reading(self.access.principal, "read receipt") as reading:
            found = await receipts.find_receipts(reading.conn, self.access.org_id, receipt_id)
            if len(found) != 1:
                raise NotFound("receipt", receipt_id)
            reading.record_shown([found[0].id])
        return await self._with_pending_projections(found[0])

    async def check(self, receipt_id: str) -> Receipt:
        """Look once more whether everything that a receipt names is gone; return it with what was found.

        Raises:
            NotFound: no receipt has that id, several begin with it, or it is not the caller's.
        """
        found = await self.receipt(receipt_id)

        async def work(conn: Connection) -> tuple[Receipt, Sequence[UUID]]:
            return await verify(conn, self.access.org_id, Erasure(receipt=found)), [found.id]

        return await self._with_pending_projections(
            await self.access.change("erase own", "check receipt", work)
        )

    @operation("PUT", "/rooms/{room}/retention", name="set_retention", replay="whole", is_repeatable=True)
    async def keep(
        self, room: str, keep_for: RetentionPeriod | None, *, dry_run: bool = False
    ) -> RetentionChange:
        """Say how long a room keeps what was said in it, None being forever; return when that begins and what goes.

        A shorter time than before begins after a day of grace. Until then the room keeps what it kept before, and to keep
        it forever takes this back.

        Raises:
            NotFound: there is no such room.
            BadInput: the time is none, or longer than a thousand years.
            NotAllowed: the caller is no operator.
        """
        if keep_for is not None and not timedelta(0) < keep_for <= LONGEST_KEPT:
            raise BadInput("time to keep", "must be more than nothing, and at most a thousand years")

        async def work(conn: Connection) -> tuple[RetentionChange, Sequence[UUID]]:
            room_id = await lookup.room(conn, self.access.org_id, room)
            told = await self._set_retention(conn, room_id, keep_for, dry_run=dry_run)
            return told, [room_id]

        return await self.access.change("administer", "dry run of keep" if dry_run else "keep", work)

    async def expire(self, now: datetime | None = None) -> list[Receipt]:
        """Erase what is older than its room keeps, and return a receipt for each portion that went.

        Args:
            now: What is old is old at this time, which has come; the clock's by default.

        Raises:
            BadInput: the time has not come yet, or has no zone.
            NotAllowed: the caller is no operator.
        """
        now, clock = _in_utc(now), datetime.now(UTC)
        if now is not None and now > clock:
            raise BadInput("time", "has not come yet")
        await self.access.check("administer", expiry.ACTION)
        return await expiry.expire(
            self.access.db, self.access.org_id, now=now or clock, by=self.access.principal
        )

    async def _set_retention(
        self, conn: Connection, room_id: RoomId, keep_for: timedelta | None, *, dry_run: bool
    ) -> RetentionChange:
        org_id = self.access.org_id
        held, now = await erased.retention_now(conn, org_id, room_id)
        keeping = retention.change_policy(held, keep_for, now=now, grace=retention.GRACE)
        if not dry_run:
            await erased.set_retention(conn, org_id, room_id, keeping)
        gone = OldMessages(messages=0, oldest_at=None, newest_at=None)
        if keep_for is not None:
            gone = await erased.messages_before(conn, org_id, room_id, (keeping.starts_at or now) - keep_for)
        return RetentionChange(
            room_id=room_id,
            keep_for=keep_for,
            starts_at=keeping.starts_at,
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
        """Refuse what is not the caller's, by the accounts of now; an operator's is everything."""
        if not await self.access.is_own(conn, participant_id):
            raise NotAllowed("this is somebody else's, and only an operator erases that")

    async def _erase(self, asked: ErasureRequest, *, own: ParticipantId | None, dry_run: bool) -> Receipt:
        """Erase what is somebody's own; None is nobody's, and an operator's to erase."""

        async def work(conn: Connection) -> tuple[Erasure, Sequence[UUID]]:
            if not dry_run:
                await erased.lock_exclusive(conn, self.access.org_id)
            if own is not None:
                await self._check_owned(conn, own)
            async with erased.dry_run(conn, self.access.org_id) if dry_run else nullcontext():
                done = await erase(conn, self.access.org_id, asked, by=self.access.principal, dry_run=dry_run)
            return done, _subject_ids(done.receipt)

        right: Right = "administer" if own is None else "erase own"
        done = await self.access.change(right, _action(asked.kind, dry_run=dry_run), work)
        if dry_run:
            return done.receipt
        receipt = await self.access.db.change(
            self.access.org_id, partial(verify, org_id=self.access.org_id, done=done)
        )
        return await self._with_pending_projections(receipt)

    async def _with_pending_projections(self, receipt: Receipt) -> Receipt:
        """Return a receipt with what copies may hold still, as the work that waits tells."""
        async with self.access.db.read_transaction(Viewer.operator(self.access.org_id)) as conn:
            copies = await receipts.pending_removals(conn, self.access.org_id, receipt)
        if not self.access.principal.is_operator:
            copies = [replace(one, error=None) for one in copies]
        return replace(receipt, copies=tuple(copies))


def _in_utc(time: datetime | None) -> datetime | None:
    if time is not None and time.utcoffset() is None:
        raise BadInput("time", "needs a zone")
    try:
        return time.astimezone(UTC) if time is not None else None
    except OverflowError:
        raise BadInput("time", "lies outside of all time") from None


def _action(kind: ErasureKind, *, dry_run: bool) -> str:
    return f"dry run of erase {kind}" if dry_run else f"erase {kind}"


def _subject_ids(receipt: Receipt) -> list[UUID]:
    of_receipt = [] if receipt.is_dry_run else [receipt.id]
    about = [receipt.room_id, receipt.message_id, *receipt.participant_ids]
    return [*of_receipt, *(one for one in about if one is not None)]
