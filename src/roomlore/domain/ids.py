"""Identifiers: UUID version 7, so that ids sort by the time they were made."""

import os
import time
from datetime import UTC, datetime, timedelta
from typing import NewType
from uuid import UUID

OrgId = NewType("OrgId", UUID)
RoomId = NewType("RoomId", UUID)
ParticipantId = NewType("ParticipantId", UUID)
MessageId = NewType("MessageId", UUID)
ConversationId = NewType("ConversationId", UUID)
MemoryId = NewType("MemoryId", UUID)
KeyId = NewType("KeyId", UUID)
ReceiptId = NewType("ReceiptId", UUID)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SHORTEST_BEGINNING = 4
HEX_DIGITS = 32


def uuid7() -> UUID:
    """Return a new UUID version 7 (RFC 9562): milliseconds, their 4096ths (its method 3), then 62 random bits."""
    milliseconds, nanoseconds = divmod(time.time_ns(), 1_000_000)
    fraction = nanoseconds * 4096 // 1_000_000
    value = (milliseconds & (2**48 - 1)) << 80 | 0x7 << 76 | fraction << 64
    value |= 0x2 << 62 | int.from_bytes(os.urandom(8), "big") >> 2
    return UUID(int=value)


def id_at(moment: datetime) -> UUID:
    """Return what sorts before every id that was made at a moment or later, and after those made before."""
    milliseconds = max((moment - EPOCH) // timedelta(milliseconds=1), 0)
    return UUID(int=(milliseconds & (2**48 - 1)) << 80)


def time_of(made: UUID) -> datetime:
    """Return when an id was made, as far as it says so; the end of all time for one that lies beyond."""
    try:
        return EPOCH + timedelta(milliseconds=made.int >> 80)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def id_range(beginning: str) -> tuple[UUID, UUID] | None:
    """Return the lowest and the highest id that begin so, or None if no id does or too many do."""
    digits = beginning.replace("-", "").lower()
    if not SHORTEST_BEGINNING <= len(digits) <= HEX_DIGITS or set(digits) - set("0123456789abcdef"):
        return None
    return UUID(digits.ljust(HEX_DIGITS, "0")), UUID(digits.ljust(HEX_DIGITS, "f"))
