"""The task `access`: messages arrive one by one, and each question is asked at its time by its asker.

Only privacy requests until then count. Privacy requests that are only proposed are
accepted at once: the task measures what they cover, not whether somebody confirms them.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

from evaluation.benchmark import BenchmarkRun, Outcome, Progress, no_progress
from evaluation.datasets import Question
from evaluation.loading import incoming, ingest
from evaluation.metrics import Ranking, score_retrieval
from evaluation.retrieval import rankings, viewers_of
from roomlore.domain.incoming import IncomingMessage


async def access(run: BenchmarkRun, *, now: datetime) -> Outcome:
    """Return how much of what each asker may and must not see is found at the time of each question.

    The App of the run is empty at first. Rooms without times end at `now`.
    """
    due: dict[str | None, list[Question]] = defaultdict(list)
    for question in run.gold.questions:
        due[question.as_of_message_id].append(question)
    found: list[Ranking] = []
    batch: list[IncomingMessage] = []
    with run.progress("replaying", len(run.messages)) as progress:
        for message, record in zip(run.messages, incoming(run.messages, now=now), strict=True):
            batch.append(record)
            if message.id in due:
                await _replay(run, batch, progress)
                found += await _ask(run, due.pop(message.id))
        await _replay(run, batch, progress)
    # Asked at the end, as is what names a message that does not exist.
    found += await _ask(run, [question for left in due.values() for question in left])
    by_id = {ranking.question_id: ranking for ranking in found}
    predicted = [by_id[question.id] for question in run.gold.questions]
    report = score_retrieval(run.gold.questions, run.messages, predicted=predicted)
    report["privacy requests"] = len(
        await run.app.privacy_requests.all(run.app.operator, limit=len(run.messages) or 1)
    )
    return Outcome(report=report, predictions=[asdict(ranking) for ranking in predicted])


async def _replay(run: BenchmarkRun, batch: list[IncomingMessage], progress: Progress) -> None:
    """Store the next messages and do all work that follows; empties the batch."""
    if batch:
        await ingest(run.app, batch)
        await run.app.drain()
        # The authors would confirm what they asked for.
        for wish in await run.app.privacy_requests.all(run.app.operator, status="proposed", limit=len(batch)):
            await run.app.privacy_requests.apply(str(wish.id))
        progress(len(batch))
        batch.clear()


async def _ask(run: BenchmarkRun, questions: Sequence[Question]) -> list[Ranking]:
    viewers = await viewers_of(run.app, questions, run.messages)
    with no_progress("asking", len(questions)) as progress:
        return await rankings(run.app, questions, progress, viewers=viewers)
