"""Loads the messages of a data set into Roomlore: what the data set states, and nothing more."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from evaluation.benchmark import BenchmarkRun
from evaluation.datasets import DatasetMessage
from roomlore.domain.errors import BadInput
from roomlore.domain.incoming import IncomingAuthor, IncomingMessage, IncomingRoom, TimestampPrecision
from roomlore.jobs import embedding
from roomlore.jobs.embedding import EmbeddingVersionWorker
from roomlore.operations import App

PLATFORM = "evaluation"
BATCH = 2_000
#: The pace of messages in rooms without times.
_PACE = timedelta(seconds=20)
_WEEK = timedelta(weeks=1)


@dataclass(slots=True, kw_only=True)
class _Clock:
    """The times of one room."""

    precision: TimestampPrecision
    #: The newest time so far; at first the first time that the room states, None where it states none.
    newest: datetime | None


async def load(run: BenchmarkRun, *, now: datetime) -> None:
    """Store all messages of the data set."""
    records = list(incoming(run.messages, now=now))
    with run.progress("storing", len(records)) as progress:
        for start in range(0, len(records), BATCH):
            batch = records[start : start + BATCH]
            await ingest(run.app, batch)
            progress(len(batch))


async def prepare_search(run: BenchmarkRun) -> None:
    """Do the work that search needs after loading: assign messages to conversations and embed messages."""
    app = run.app
    await app.disentangle()
    worker = EmbeddingVersionWorker(db=app.db, models=app.embedding_versions.models, queue="embed")
    with run.progress("embedding", (await app.waiting()).waiting) as progress:
        await embedding.drain(worker, only_org=app.org_id, progress=progress)


async def do_all_work(run: BenchmarkRun) -> None:
    """Do all work that waits after loading, also extract memories."""
    with run.progress("embedding", (await run.app.waiting()).waiting) as progress:
        await run.app.drain(progress)


async def ingest(app: App, batch: Sequence[IncomingMessage]) -> None:
    """Store a batch of messages; raise BadInput if one is refused."""
    accepted = await app.ingest_batch(batch)
    if accepted.skipped:
        raise BadInput(f"message {accepted.skipped[0].where}", accepted.skipped[0].reason)


def incoming(messages: Sequence[DatasetMessage], *, now: datetime) -> Iterator[IncomingMessage]:
    """Yield the messages of a data set as a platform would send them, in the order of the data set.

    The order of the data set is the order of the room: a time that goes back, or is missing, becomes that of the
    message before. In a room without times a message comes every 20 seconds. A data set from the future moves
    into the past by whole weeks, because Roomlore refuses messages from the future.

    Rooms may be mixed. Rooms without times end at `now`, and no message is later.
    """
    clocks = _clocks(messages)
    ahead = max((message.timestamp for message in messages if message.timestamp), default=now) - now
    moved = max(-(-ahead // _WEEK), 0) * _WEEK
    start = now - _PACE * (len(messages) + 1)
    for place, message in enumerate(messages):
        clock = clocks[message.room]
        if clock.newest is None:
            sent_at = start + _PACE * place
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


def _precision(times: Iterable[datetime]) -> TimestampPrecision:
    """Return the precision of the times of a room."""
    if any(time.microsecond % 1000 for time in times):
        return "us"
    if any(time.microsecond for time in times):
        return "ms"
    return "s" if any(time.second for time in times) else "min"


def _record(
    message: DatasetMessage, place: int, *, sent_at: datetime, precision: TimestampPrecision
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
