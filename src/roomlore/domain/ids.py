"""Identifiers: UUIDv7, which sort by creation time; UUIDv4 if the creation time must stay hidden."""

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
#: The number of trailing digits that identify an id among some billions.
SHORT_DIGITS = 8
HEX_DIGITS = 32


def uuid7() -> UUID:
    """Return a new UUIDv7 (RFC 9562): milliseconds, a fraction in 4096ths (method 3), then 62 random bits."""
    milliseconds, nanoseconds = divmod(time.time_ns(), 1_000_000)
    fraction = nanoseconds * 4096 // 1_000_000
    value = (milliseconds & (2**48 - 1)) << 80 | 0x7 << 76 | fraction << 64
    value |= 0x2 << 62 | int.from_bytes(os.urandom(8), "big") >> 2
    return UUID(int=value)


def random_id() -> UUID:
    """Return a new UUIDv4, which hides its creation time.

    A whisper may be the first message to name a room or participant. The creation time of the room or participant would
    then reveal the time of the whisper.
    """
    return uuid4()


def lowest_id_at(moment: datetime) -> UUID:
    """Return the lower bound of all ids created at or after a moment."""
    milliseconds = max((moment - EPOCH) // timedelta(milliseconds=1), 0)
    return UUID(int=(milliseconds & (2**48 - 1)) << 80)


def id_time(made: UUID) -> datetime:
    """Return the creation time of an id; the end of time if it is out of range."""
    try:
        return EPOCH + timedelta(milliseconds=made.int >> 80)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def prefix_range(prefix: str) -> tuple[UUID, UUID] | None:
    """Return the lowest and highest id with a prefix; None if the prefix is too short or not hexadecimal."""
    digits = prefix.replace("-", "").lower()
    if not MIN_PREFIX <= len(digits) <= HEX_DIGITS or set(digits) - set("0123456789abcdef"):
        return None
    return UUID(digits.ljust(HEX_DIGITS, "0")), UUID(digits.ljust(HEX_DIGITS, "f"))


@dataclass(frozen=True, slots=True, kw_only=True)
class IdRanges:
    """The ids that a partial id may mean: ids with this prefix, and ids with this suffix (digits reversed)."""

    low: UUID
    high: UUID
    end_low: UUID
    end_high: UUID


def ids_matching(word: str) -> IdRanges | None:
    """Return the ranges of ids that begin or end with a word; None if the word is too short or not hexadecimal."""
    digits = word.replace("-", "")
    beginning, end = prefix_range(digits), prefix_range(digits[::-1])
    if beginning is None or end is None:
        return None
    return IdRanges(low=beginning[0], high=beginning[1], end_low=end[0], end_high=end[1])


def short_ids(ids: Iterable[UUID]) -> dict[UUID, str]:
    """Return the shortest unique suffix of each id. It has at least eight digits.

    Ids that are created at the same time have the same prefix, but their suffixes are random.
    """
    known = set(ids)
    for digits in range(SHORT_DIGITS, HEX_DIGITS):
        short = {one: one.hex[-digits:] for one in known}
        if len(set(short.values())) == len(known):
            return short
    return {one: str(one) for one in known}


def short_id(one: UUID) -> str:
    """Return the suffix that people use to name an id."""
    return short_ids([one])[one]
