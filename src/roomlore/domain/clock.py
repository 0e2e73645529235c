"""The clock, for what takes one as an argument and is given none, and whether it can be right."""

from datetime import UTC, datetime, timedelta

from roomlore.domain.wording import counted

#: More than this between two clocks, and between a message and now, is told.
CLOCKS_APART = timedelta(minutes=1)
MESSAGES_AHEAD = timedelta(hours=1)
CLOCK_CURE = "set the clock of this machine, by NTP for example; if it is right, a platform's or the database's is wrong"


def utc_now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


def disagreements(now: datetime, *, database: datetime, newest: datetime | None) -> list[str]:
    """Return how this clock disagrees with that of the database and with when the newest message was sent."""
    apart = abs(database - now)
    ahead = timedelta(0) if newest is None else newest - now
    return [
        *([f"{_span(apart)} apart from the database's"] if apart > CLOCKS_APART else ()),
        *([f"a message is dated {_span(ahead)} from now"] if ahead > MESSAGES_AHEAD else ()),
    ]


def _span(time: timedelta) -> str:
    """Return a time in days where it is long, else in minutes."""
    return (
        counted(time.days, "day")
        if time >= timedelta(days=2)
        else counted(round(time.total_seconds() / 60), "minute")
    )
