"""The task `access`: rooms are told message by message, and each question is asked at its time, by whoever asks.

What was wished, withheld or forgotten by then counts, and nothing that came later does. Requests that are proposed are
accepted at once: measured is what they cover, not whether somebody is asked first.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

from roomlore.domain.errors import BadInput
from roomlore.domain.incoming import IncomingMessage
from roomlore.evaluation.askers import askers_of
from roomlore.evaluation.asking import rankings
from roomlore.evaluation.datasets import Question
from roomlore.evaluation.feeding import incoming
from roomlore.evaluation.metrics import Ranking, score_retrieval
from roomlore.evaluation.placing import Progress
from roomlore.evaluation.trial import Outcome, Trial, silent


async def access(trial: Trial, now: datetime) -> Outcome:
    """Return what search shows whom at the time of each question, of what they may know and of what they may not.

    Args:
        trial: Its App holds nothing yet.
        now: When rooms without times end.
    """
    asked: dict[str | None, list[Question]] = defaultdict(list)
    for question in trial.gold.questions:
        asked[question.as_of_message_id].append(question)
    found: list[Ranking] = []
    part: list[IncomingMessage] = []
    with trial.bar("telling and asking", len(trial.messages)) as progress:
        for message, record in zip(trial.messages, incoming(trial.messages, now=now), strict=True):
            part.append(record)
            if message.id in asked:
                await _tell(trial, part, progress)
                found += await _ask(trial, asked.pop(message.id))
        await _tell(trial, part, progress)
    # What names no time is asked at the end; what names a message that is not there, too.
    found += await _ask(trial, [question for left in asked.values() for question in left])
    by_id = {ranking.question_id: ranking for ranking in found}
    run = [by_id[question.id] for question in trial.gold.questions]
    report = score_retrieval(trial.gold.questions, trial.messages, run=run)
    report["wishes heard"] = len(
        await trial.app.wishes.all(trial.app.operator, limit=len(trial.messages) or 1)
    )
    return Outcome(report=report, run=[asdict(ranking) for ranking in run])


async def _tell(trial: Trial, part: list[IncomingMessage], progress: Progress) -> None:
    """Store what was said since, and do all the work that follows."""
    if part:
        accepted = await trial.app.ingest_batch(part)
        if accepted.skipped:
            raise BadInput(f"message {accepted.skipped[0].where}", accepted.skipped[0].reason)
        # Whoever speaks there stands by what they asked for.
        for wish in await trial.app.wishes.all(trial.app.operator, status="proposed", limit=len(part)):
            await trial.app.wishes.accept(str(wish.id))
        await trial.app.drain()
        progress(len(part))
        part.clear()


async def _ask(trial: Trial, questions: Sequence[Question]) -> list[Ranking]:
    askers = await askers_of(trial.app, questions, trial.messages)
    with silent("asking", len(questions)) as progress:
        return await rankings(trial.app, questions, progress, askers=askers)
