"""The clock, for what takes one as an argument and is given none."""

from datetime import UTC, datetime


def utc_now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)
