"""Identifiers: UUID version 7, so that ids sort by the time they were made."""

import os
import time
from typing import NewType
from uuid import UUID

OrgId = NewType("OrgId", UUID)
RoomId = NewType("RoomId", UUID)
ParticipantId = NewType("ParticipantId", UUID)
MessageId = NewType("MessageId", UUID)


def uuid7() -> UUID:
    """Return a new UUID version 7 (RFC 9562): 48 bits of Unix milliseconds, then 74 random bits."""
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds & (2**48 - 1)) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return UUID(int=value)
