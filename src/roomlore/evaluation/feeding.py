"""Turns the messages of a data set into what ingest accepts: what the data set states, and nothing more."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from roomlore.domain.incoming import IncomingAuthor, IncomingMessage, IncomingRoom, Precision
from roomlore.evaluation.datasets import DatasetMessage

PLATFORM = "evaluation"
#: Where a room has no times, its messages follow each other at this pace.
PACE = timedelta(seconds=20)
WEEK = timedelta(weeks=1)


@dataclass(slots=True, kw_only=True)
class _Clock:
    """The times of one room."""

    precision: Precision
    #: The newest so far; before that the first that the room states, None where it states none.
    newest: datetime | None


def incoming(messages: Sequence[DatasetMessage], *, now: datetime) -> Iterator[IncomingMessage]:
    """Yield the messages of a data set as records of a platform, in the order of the data set.

    The order of the data set is the order of the room: a time that goes back is taken for that of the message before,
    and so is one that is missing. In a room without any time messages follow each other at a pace of 20
    seconds. A data set from the future is moved into the past by whole weeks, or nothing would take it in.

    Args:
        messages: Rooms may be mixed.
        now: When rooms without times end, and what no time is later than.
    """
    clocks = _clocks(messages)
    ahead = max((message.timestamp for message in messages if message.timestamp), default=now) - now
    moved = max(-(-ahead // WEEK), 0) * WEEK
    start = now - PACE * (len(messages) + 1)
    for place, message in enumerate(messages):
        clock = clocks[message.room]
        if clock.newest is None:
            sent_at = start + PACE * place
        else:
            sent_at = clock.newest = max(message.timestamp or clock.newest, clock.newest)
            sent_at -= moved
        yield _record(message, place, sent_at=sent_at, precision=clock.precision)


def _clocks(messages: Iterable[DatasetMessage]) -> dict[str, _Clock]:
    times: dict[str, list[datetime]] = defaultdict(list)
    for message in messages:
        times[message.room] += [message.timestamp] if message.timestamp else []
    return {
        room: _Clock(precision=_precision(stated), newest=stated[0] if stated else None)
        for room, stated in times.items()
    }


def _precision(times: Iterable[datetime]) -> Precision:
    """Return how finely the times of a room are told."""
    if any(time.microsecond % 1000 for time in times):
        return "us"
    if any(time.microsecond for time in times):
        return "ms"
    return "s" if any(time.second for time in times) else "min"


def _record(
    message: DatasetMessage, place: int, *, sent_at: datetime, precision: Precision
) -> IncomingMessage:
    return IncomingMessage(
        platform=PLATFORM,
        room=IncomingRoom(external_id=message.room, name=message.room, visibility="open"),
        external_id=message.id,
        author=IncomingAuthor(
            account_id=message.author_id,
            name=message.author_name,
            kind="agent" if message.is_bot else "human",
        ),
        body=message.text,
        kind="system" if message.system else "message",
        sent_at=sent_at,
        precision=precision,
        order=place,
        reply_to=message.reply_to,
    )
