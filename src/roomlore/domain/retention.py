"""Retention periods of rooms, and when a change takes effect.

A shorter period destroys messages. So it takes effect after a grace period. Until then, the old period applies.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from roomlore.domain.ids import RoomId

#: For so long, a shorter retention can be revoked.
GRACE = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    """The retention of a room. None means forever."""

    retention_period: timedelta | None
    #: The period that applies until `starts_at`.
    before: timedelta | None = None
    #: When `retention_period` takes effect. None means that it is in effect.
    starts_at: datetime | None = None

    @property
    def effective(self) -> timedelta | None:
        """The current period."""
        return self.retention_period if self.starts_at is None else self.before


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionChange:
    """The new retention of a room, and the messages that it will remove."""

    room_id: RoomId
    #: None means forever.
    retention_period: timedelta | None
    #: When the change takes effect. Until then, it can be revoked. None if the retention does not get shorter.
    starts_at: datetime | None
    #: The messages that will be too old when the change takes effect.
    messages: int
    oldest_at: datetime | None
    newest_at: datetime | None
    is_dry_run: bool = False


def change_policy(
    policy: RetentionPolicy, retention_period: timedelta | None, *, now: datetime, grace: timedelta
) -> RetentionPolicy:
    """Return the policy after a change to `retention_period`."""
    if not _is_shorter(retention_period, policy.effective):
        return RetentionPolicy(retention_period=retention_period)
    waits_already = policy.starts_at is not None and not _is_shorter(
        retention_period, policy.retention_period
    )
    starts_at = policy.starts_at if waits_already else now + grace
    return RetentionPolicy(retention_period=retention_period, before=policy.effective, starts_at=starts_at)


def _is_shorter(one: timedelta | None, other: timedelta | None) -> bool:
    if one is None:
        return False
    return other is None or one < other
