"""The default clock, and checks that it agrees with other clocks."""

from datetime import UTC, datetime, timedelta

from roomlore.domain.phrases import count_phrase

#: Larger differences are reported: between two clocks, or between now and the newest message.
MAX_CLOCK_SKEW = timedelta(minutes=1)
MAX_MESSAGE_LEAD = timedelta(hours=1)
CLOCK_REMEDY = "set the clock of this machine, by NTP for example; if it is right, a platform's or the database's is wrong"


def utc_now() -> datetime:
    """Return the current time."""
    return datetime.now(UTC)


def clock_problems(now: datetime, *, database: datetime, newest: datetime | None) -> list[str]:
    """Return phrases that describe the problems of the clock; the list is empty if there is none.

    The clock may differ from the database's clock, or it may be behind the time of the newest message.
    """
    apart = abs(database - now)
    ahead = timedelta(0) if newest is None else newest - now
    return [
        *([f"{_duration_text(apart)} apart from the database's"] if apart > MAX_CLOCK_SKEW else ()),
        *([f"a message is dated {_duration_text(ahead)} from now"] if ahead > MAX_MESSAGE_LEAD else ()),
    ]


def _duration_text(time: timedelta) -> str:
    return (
        count_phrase(time.days, "day")
        if time >= timedelta(days=2)
        else count_phrase(round(time.total_seconds() / 60), "minute")
    )
