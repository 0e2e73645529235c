"""Identifiers: UUID version 7, which sort by the time they were made; version 4 where that time is nobody's business."""

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NewType
from uuid import UUID, uuid4

OrgId = NewType("OrgId", UUID)
RoomId = NewType("RoomId", UUID)
ParticipantId = NewType("ParticipantId", UUID)
MessageId = NewType("MessageId", UUID)
ConversationId = NewType("ConversationId", UUID)
MemoryId = NewType("MemoryId", UUID)
KeyId = NewType("KeyId", UUID)
ReceiptId = NewType("ReceiptId", UUID)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MIN_PREFIX = 4
#: Digits of the end of an id that tell it apart from some thousand million others.
SHORT_DIGITS = 8
HEX_DIGITS = 32


def uuid7() -> UUID:
    """Return a new UUID version 7 (RFC 9562): milliseconds, their 4096ths (its method 3), then 62 random bits."""
    milliseconds, nanoseconds = divmod(time.time_ns(), 1_000_000)
    fraction = nanoseconds * 4096 // 1_000_000
    value = (milliseconds & (2**48 - 1)) << 80 | 0x7 << 76 | fraction << 64
    value |= 0x2 << 62 | int.from_bytes(os.urandom(8), "big") >> 2
    return UUID(int=value)


def random_id() -> UUID:
    """Return a new UUID version 4, which says nothing: rooms and participants may first come up in a whisper."""
    return uuid4()


def lowest_id_at(moment: datetime) -> UUID:
    """Return what sorts before every id that was made at a moment or later, and after those made before."""
    milliseconds = max((moment - EPOCH) // timedelta(milliseconds=1), 0)
    return UUID(int=(milliseconds & (2**48 - 1)) << 80)


def id_time(made: UUID) -> datetime:
    """Return when an id was made, as far as it says so; the end of all time for one that lies beyond."""
    try:
        return EPOCH + timedelta(milliseconds=made.int >> 80)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def prefix_range(prefix: str) -> tuple[UUID, UUID] | None:
    """Return the lowest and the highest id that begin so, or None if no id does or too many do."""
    digits = prefix.replace("-", "").lower()
    if not MIN_PREFIX <= len(digits) <= HEX_DIGITS or set(digits) - set("0123456789abcdef"):
        return None
    return UUID(digits.ljust(HEX_DIGITS, "0")), UUID(digits.ljust(HEX_DIGITS, "f"))


@dataclass(frozen=True, slots=True, kw_only=True)
class IdRanges:
    """The ids that a word may name: those that begin so, and those that end so when read from the end."""

    low: UUID
    high: UUID
    end_low: UUID
    end_high: UUID


def ids_matching(word: str) -> IdRanges | None:
    """Return the ids that begin or end with a word, or None if no id does or too many do."""
    digits = word.replace("-", "")
    beginning, end = prefix_range(digits), prefix_range(digits[::-1])
    if beginning is None or end is None:
        return None
    return IdRanges(low=beginning[0], high=beginning[1], end_low=end[0], end_high=end[1])


def short_ids(ids: Iterable[UUID]) -> dict[UUID, str]:
    """Return for each of some ids the shortest end that names it among them, of eight digits or more.

    Ids that were made together begin alike, and end at random.
    """
    known = set(ids)
    for digits in range(SHORT_DIGITS, HEX_DIGITS):
        short = {one: one.hex[-digits:] for one in known}
        if len(set(short.values())) == len(known):
            return short
    return {one: str(one) for one in known}


def short_id(one: UUID) -> str:
    """Return the end of an id that people name it by."""
    return short_ids([one])[one]
