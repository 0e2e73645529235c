"""Erasure behind a server, with its receipts."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from roomlore.client import codec
from roomlore.client.codec import format_time, segment
from roomlore.client.session import Session, check_page
from roomlore.domain.fields import field_values
from roomlore.domain.ids import KeyId, MessageId, ParticipantId, ReceiptId, RoomId, uuid7
from roomlore.domain.receipts import (
    ErasureKind,
    PendingRemoval,
    Receipt,
    RemovedCount,
    RetainedCount,
    VerificationCheck,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReceiptResponse:
    """A receipt as a server tells it: one of a dry run has no id, since there is nothing to look up."""

    id: ReceiptId | None
    at: datetime
    kind: ErasureKind
    room_id: RoomId | None
    message_id: MessageId | None
    participant_ids: list[ParticipantId]
    since: datetime | None
    until: datetime | None
    key_id: KeyId | None
    viewer_id: ParticipantId | None
    removed: list[RemovedCount]
    kept: list[RetainedCount]
    checks: list[VerificationCheck] | None
    checked_at: datetime | None
    is_dry_run: bool
    copies: list[PendingRemoval] | None

    def receipt(self) -> Receipt:
        """Return the receipt; one of a dry run gets an id that is nobody's, as an App gives it."""
        values = field_values(self)
        values["id"] = self.id or ReceiptId(uuid7())
        return Receipt(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientErasures:
    """What is to be gone, and receipts of what is; the calls are those of `app.erasures.Erasures`."""

    session: Session

    async def message(self, word: str, *, room: str | None = None, dry_run: bool = False) -> Receipt:
        """Erase a message and leave a hole in its place; return the receipt."""
        return await self._erase({"kind": "message", "message": word, "room": room, "dry_run": dry_run})

    async def range(
        self,
        room: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        dry_run: bool = False,
    ) -> Receipt:
        """Erase the messages that were sent in a room in a time, place and all; return the receipt."""
        asked = {
            "kind": "range",
            "room": room,
            "since": format_time("time", since),
            "until": format_time("time", until),
            "everything": since is None and until is None,
            "dry_run": dry_run,
        }
        return await self._erase(asked)

    async def room(self, room: str, *, dry_run: bool = False) -> Receipt:
        """Erase a room whole: all that was said in it and made of it, its members, its name; return the receipt."""
        return await self._erase({"kind": "room", "room": room, "dry_run": dry_run})

    async def person(self, word: str, *, dry_run: bool = False) -> Receipt:
        """Erase a person: all accounts, all they wrote, and their traces in what others said."""
        return await self._erase({"kind": "person", "participant": word, "dry_run": dry_run})

    async def receipts(self, limit: int = 50) -> list[Receipt]:
        """Return the newest receipts: an operator's all, everybody else's own, newest first."""
        check_page(limit)
        found = await self.session.read(list[_ReceiptResponse], "receipts", query=codec.query(limit=limit))
        return [one.receipt() for one in found]

    async def receipt(self, receipt_id: str) -> Receipt:
        """Return the receipt that an id or its beginning means."""
        return (
            await self.session.read(_ReceiptResponse, f"receipts/{segment('receipt', receipt_id)}")
        ).receipt()

    async def check(self, receipt_id: str) -> Receipt:
        """Look once more whether everything that a receipt names is gone; return it with what was found."""
        path = f"receipts/{segment('receipt', receipt_id)}/check"
        return (await self.session.change(_ReceiptResponse, "POST", path)).receipt()

    async def expire(self, now: datetime | None = None) -> list[Receipt]:
        """Erase what is older than its room keeps, and return a receipt for each portion that went."""
        asked = {"now": format_time("time", now)}
        found = await self.session.change(list[_ReceiptResponse], "POST", "erasures/expired", asked)
        return [one.receipt() for one in found]

    async def _erase(self, asked: dict[str, Any]) -> Receipt:
        return (await self.session.change(_ReceiptResponse, "POST", "erasures", asked)).receipt()
