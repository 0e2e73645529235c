"""Retention periods of rooms, and when a change takes effect.

A shorter period destroys messages. So it takes effect after a grace period; until then the old one applies.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from roomlore.domain.ids import RoomId

#: A shorter retention can be revoked for so long.
GRACE = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    """The retention of a room; None is forever."""

    keep_for: timedelta | None
    #: The period until `starts_at`.
    before: timedelta | None = None
    #: When `keep_for` takes effect; None: it is in effect.
    starts_at: datetime | None = None

    @property
    def effective(self) -> timedelta | None:
        """The current period."""
        return self.keep_for if self.starts_at is None else self.before


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionChange:
    """The new retention of a room, and the messages that it will remove."""

    room_id: RoomId
    #: None is forever.
    keep_for: timedelta | None
    #: When it takes effect; it can be revoked until then. None if nothing gets shorter.
    starts_at: datetime | None
    #: The messages that will be too old by then.
    messages: int
    oldest_at: datetime | None
    newest_at: datetime | None
    is_dry_run: bool = False


def change_policy(
    policy: RetentionPolicy, keep_for: timedelta | None, *, now: datetime, grace: timedelta
) -> RetentionPolicy:
    """Return the policy after a change to `keep_for`."""
    if not _is_shorter(keep_for, policy.effective):
        return RetentionPolicy(keep_for=keep_for)
    waits_already = policy.starts_at is not None and not _is_shorter(keep_for, policy.keep_for)
    starts_at = policy.starts_at if waits_already else now + grace
    return RetentionPolicy(keep_for=keep_for, before=policy.effective, starts_at=starts_at)


def _is_shorter(one: timedelta | None, other: timedelta | None) -> bool:
    if one is None:
        return False
    return other is None or one < other
