"""Identifiers: UUID version 7, so that ids sort by the time they were made."""

import os
import time
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

SHORTEST_BEGINNING = 4
HEX_DIGITS = 32


def uuid7() -> UUID:
    """Return a new UUID version 7 (RFC 9562): milliseconds, their 4096ths (its method 3), then 62 random bits."""
    milliseconds, nanoseconds = divmod(time.time_ns(), 1_000_000)
    fraction = nanoseconds * 4096 // 1_000_000
    value = (milliseconds & (2**48 - 1)) << 80 | 0x7 << 76 | fraction << 64
    value |= 0x2 << 62 | int.from_bytes(os.urandom(8), "big") >> 2
    return UUID(int=value)


def id_range(beginning: str) -> tuple[UUID, UUID] | None:
    """Return the lowest and the highest id that begin so, or None if no id does or too many do."""
    digits = beginning.replace("-", "").lower()
    if not SHORTEST_BEGINNING <= len(digits) <= HEX_DIGITS or set(digits) - set("0123456789abcdef"):
        return None
    return UUID(digits.ljust(HEX_DIGITS, "0")), UUID(digits.ljust(HEX_DIGITS, "f"))
