"""Runs Roomlore on data sets with gold labels, through its public interface, in a database thrown away after.

The system sees rooms and messages only; questions, evidence and gold contexts are for the scorer.
"""

import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from roomlore import app as composition
from roomlore.app import App
from roomlore.config import Settings
from roomlore.domain.errors import BadInput
from roomlore.domain.incoming import IncomingAuthor, IncomingMessage, IncomingRoom
from roomlore.evaluation.calibrate import calibrate
from roomlore.evaluation.datasets import (
    ContextItem,
    DatasetMessage,
    Question,
    read_context,
    read_messages,
    read_questions,
)
from roomlore.evaluation.metrics import Ranking, Report, Selection, score_context, score_retrieval
from roomlore.retrieval.cascade import evidence
from roomlore.retrieval.records import Hit

Progress = Callable[[int], None]

#: Deep enough for the largest cut-off of the scores.
EXCHANGES = 50
#: Room enough that the walk alone decides what is in a context.
WHOLE_WALK = 1_000_000
#: Where a data set has no times, its messages follow each other at this pace.
PACE = timedelta(seconds=20)
BATCH = 2_000


async def evaluate(task: str, folder: Path, *, progress: Progress, now: datetime) -> Report:
    """Return the scores of one task on one data set.

    Raises:
        BadInput: the folder is no data set, or the task is unknown.
    """
    if task not in TASKS:
        raise BadInput("task", f"must be one of {', '.join(sorted(TASKS))}")
    messages = read_messages(folder)
    with tempfile.TemporaryDirectory(prefix="roomlore-eval-") as data:
        async with composition.open(Settings(data=Path(data))) as app:
            await _load(app, messages, now=now)
            return await TASKS[task](app, folder, messages, progress)


async def _load(app: App, messages: Sequence[DatasetMessage], *, now: datetime) -> None:
    records = list(_incoming(messages, now=now))
    for start in range(0, len(records), BATCH):
        accepted = await app.ingest_batch(records[start : start + BATCH])
        if accepted.skipped:
            raise BadInput(accepted.skipped[0].where, accepted.skipped[0].reason)


def _incoming(messages: Sequence[DatasetMessage], *, now: datetime) -> Iterator[IncomingMessage]:
    start = now - PACE * (len(messages) + 1)
    newest: dict[str, datetime] = {}
    for place, message in enumerate(messages):
        kind = "agent" if message.is_bot else "human"
        # Some sets give one time to a whole sitting; the order of the room is what counts.
        sent_at = message.timestamp or start + PACE * place
        if message.room in newest:
            sent_at = max(sent_at, newest[message.room] + composition.MOMENT)
        newest[message.room] = sent_at
        yield IncomingMessage(
            platform="evaluation",
            room=IncomingRoom(external_id=message.room, name=message.room),
            external_id=message.id,
            author=IncomingAuthor(account_id=message.author_id, name=message.author_name, kind=kind),
            body=message.text,
            kind="system" if message.system else "message",
            sent_at=sent_at,
            order=place,
            reply_to=message.reply_to,
        )


async def _retrieval(
    app: App, folder: Path, messages: Sequence[DatasetMessage], progress: Progress
) -> Report:
    await app.drain(progress)
    questions = read_questions(folder)
    run: list[Ranking] = []
    for question in questions:
        run.append(await _ranking(app, question))
        progress(1)
    return score_retrieval(questions, messages, run=run)


async def _ranking(app: App, question: Question) -> Ranking:
    found = await app.search(
        app.operator,
        question.question,
        room=question.room,
        limit=EXCHANGES,
        as_of=question.as_of_message_id,
    )
    ranked = list(dict.fromkeys(external_id for hit in found.hits for external_id in _in_order(hit)))
    sure = max((evidence(why) for hit in found.hits for why in hit.why.values()), default=0.0)
    return Ranking(question_id=question.id, ranked=ranked, score=sure)


def _in_order(hit: Hit) -> Iterator[str]:
    """Yield the external ids of an exchange: what matched first, best first, then what came with it."""
    matched = sorted(
        (message for message in hit.messages if message.id in hit.why),
        key=lambda message: (-hit.why[message.id].score, message.position),
    )
    yield from (message.external_id for message in matched)
    yield from (message.external_id for message in hit.messages if message.id not in hit.why)


async def _context(app: App, folder: Path, messages: Sequence[DatasetMessage], progress: Progress) -> Report:
    items = read_context(folder)
    run: list[Selection] = []
    for item in items:
        run.append(await _selection(app, item))
        progress(1)
    return score_context(items, messages, run=run)


async def _selection(app: App, item: ContextItem) -> Selection:
    built = await app.context(app.operator, item.room, item.trigger_message_id, budget=WHOLE_WALK)
    selected = [line.message.external_id for line in built.lines if line.message.id != built.trigger_id]
    return Selection(trigger_message_id=item.trigger_message_id, selected=selected)


async def _bar(app: App, folder: Path, _: Sequence[DatasetMessage], progress: Progress) -> Report:
    await app.drain(progress)
    return await calibrate(app, read_questions(folder), progress)


Task = Callable[[App, Path, Sequence[DatasetMessage], Progress], Awaitable[Report]]

TASKS: dict[str, Task] = {"retrieval": _retrieval, "context": _context, "bar": _bar}
