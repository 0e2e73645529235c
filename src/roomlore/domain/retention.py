"""How long a room keeps what was said in it, and when a change of that takes effect.

Whoever shortens it destroys something: it begins after a time of grace, and until then the room keeps what it kept before.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from roomlore.domain.ids import RoomId

#: How long a shorter retention can be taken back before anything goes.
GRACE = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    """How long a room keeps what was said; None is forever."""

    keep_for: timedelta | None
    #: What it keeps until `starts_at`.
    before: timedelta | None = None
    #: From when on it keeps what `keep_for` says; None where it does so already.
    starts_at: datetime | None = None

    @property
    def effective(self) -> timedelta | None:
        """How long it keeps what was said until the time of grace is over."""
        return self.keep_for if self.starts_at is None else self.before


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionChange:
    """How long a room keeps what was said from now on, and what goes for it."""

    room_id: RoomId
    #: None is forever.
    keep_for: timedelta | None
    #: When this begins; until then it can be taken back. None where nothing is shortened.
    starts_at: datetime | None
    #: How many messages are older than that, once it begins, and of which times.
    messages: int
    oldest_at: datetime | None
    newest_at: datetime | None
    is_dry_run: bool = False


def change_policy(
    policy: RetentionPolicy, keep_for: timedelta | None, *, now: datetime, grace: timedelta
) -> RetentionPolicy:
    """Return what a room keeps once it is told to keep what was said for so long."""
    if not _is_shorter(keep_for, policy.effective):
        return RetentionPolicy(keep_for=keep_for)
    waits_already = policy.starts_at is not None and not _is_shorter(keep_for, policy.keep_for)
    starts_at = policy.starts_at if waits_already else now + grace
    return RetentionPolicy(keep_for=keep_for, before=policy.effective, starts_at=starts_at)


def _is_shorter(one: timedelta | None, other: timedelta | None) -> bool:
    if one is None:
        return False
    return other is None or one < other
