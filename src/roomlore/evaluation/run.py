"""Runs Roomlore on data sets with gold labels, through its public interface, in a database thrown away after.

The system sees rooms and messages only; questions, evidence, links, conversations and contexts are for the scorer.
"""

import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path

from roomlore import app as composition
from roomlore.app import App
from roomlore.app.embedding import load_embedder
from roomlore.config import Settings
from roomlore.domain.errors import BadInput
from roomlore.domain.ports import Embedder
from roomlore.evaluation.asking import selections
from roomlore.evaluation.calibrate import calibrate
from roomlore.evaluation.datasets import check_files, read_gold, read_messages
from roomlore.evaluation.elsewhere import elsewhere
from roomlore.evaluation.feeding import incoming
from roomlore.evaluation.metrics import Report, score_context
from roomlore.evaluation.placing import Bar, answered, placed_messages, placements, untangle
from roomlore.evaluation.replaying import access
from roomlore.evaluation.retrieving import retrieval
from roomlore.evaluation.runs import check_place, write_run
from roomlore.evaluation.trial import Also, Outcome, Trial, silent
from roomlore.evaluation.untangling import score_conversations, score_links

BATCH = 2_000
#: Nothing else is measured.
ALONE = Also()


async def evaluate(
    task: str,
    folder: Path,
    *,
    now: datetime,
    out: Path | None = None,
    also: Also = ALONE,
    bar: Bar = silent,
) -> Report:
    """Return the scores of one task on one data set.

    Args:
        task: One of TASKS.
        folder: The data set.
        now: When rooms that tell no time end.
        out: Where to write the run that was scored.
        also: What else is measured.
        bar: Shows how far each part of the work has come.

    Raises:
        BadInput: the folder is no data set, has not what the task needs, the task is unknown, or the run
            cannot be written.
    """
    _check(task, out, also)
    check_files(folder, task, NEEDS[task])
    messages, gold = read_messages(folder), read_gold(folder, NEEDS[task])
    async with _apps(task, also) as (app, worded, embedder):
        trial = Trial(
            app=app,
            messages=messages,
            gold=gold,
            bar=bar,
            worded=worded,
            embedder=embedder,
            plain=also.plain,
            answers=also.answers,
            stages=also.stages,
            switch=also.switch,
        )
        outcome = await measure(task, trial, now=now)
    if out is not None and outcome.run is not None:
        write_run(out, outcome.run)
    return outcome.report


@asynccontextmanager
async def _apps(task: str, also: Also) -> AsyncGenerator[tuple[App, App | None, Embedder | None]]:
    """Give an App on an empty database and, for tasks that search, the same without its embedding model, and that."""
    with tempfile.TemporaryDirectory(prefix="roomlore-eval-") as folder:
        settings = Settings(data=Path(folder), embeddings=also.embeddings)
        if task not in SEARCHING:
            async with composition.open(settings) as app:
                yield app, None, None
            return
        embedder = await load_embedder(settings)
        without = replace(settings, model=Path(folder) / "no model")
        async with composition.open(settings, embedder=embedder) as app, composition.open(without) as worded:
            yield app, worded, embedder


async def measure(task: str, trial: Trial, *, now: datetime) -> Outcome:
    """Return what a task measures once the messages are in, for an App without any."""
    if task not in REPLAYING:
        await _load(trial, now=now)
    return await TASKS[task](trial, now)


def _check(task: str, out: Path | None, also: Also) -> None:
    if task not in TASKS:
        raise BadInput("task", f"must be one of {', '.join(sorted(TASKS))}")
    if also.answers and task != "retrieval":
        raise BadInput("--answers", f"the task {task} asks no questions to answer; leave it out")
    if also.stages and task != "retrieval":
        raise BadInput("--stages", f"the task {task} does not search in stages; leave it out")
    if also.switch is not None:
        if task != "retrieval":
            raise BadInput("--switch", f"the task {task} compares no searches; leave it out")
        if also.switch not in also.embeddings:
            known = ", ".join(sorted(also.embeddings)) or "none; see ROOMLORE_EMBEDDINGS"
            raise BadInput(f"--switch {also.switch}", f"the embedding models there are: {known}")
    if out is None:
        return
    if task == "bar":
        raise BadInput("--out", "the task bar has no run to write; leave it out")
    check_place(out)


async def _load(trial: Trial, *, now: datetime) -> None:
    records = list(incoming(trial.messages, now=now))
    with trial.bar("storing", len(records)) as progress:
        for start in range(0, len(records), BATCH):
            batch = records[start : start + BATCH]
            accepted = await trial.app.ingest_batch(batch)
            if accepted.skipped:
                raise BadInput(f"message {accepted.skipped[0].where}", accepted.skipped[0].reason)
            progress(len(batch))


async def _embed(trial: Trial) -> None:
    with trial.bar("embedding", (await trial.app.waiting()).waiting) as progress:
        await trial.app.drain(progress)


async def _retrieval(trial: Trial, _: datetime) -> Outcome:
    await _embed(trial)
    return await retrieval(trial)


async def _bar(trial: Trial, _: datetime) -> Outcome:
    await _embed(trial)
    questions = trial.gold.questions
    with trial.bar("asking", len(questions) + len(elsewhere(questions))) as progress:
        return Outcome(report=await calibrate(trial.app, questions, progress), run=None)


async def _context(trial: Trial, _: datetime) -> Outcome:
    await untangle(trial.app, trial.bar)
    items = trial.gold.context
    with trial.bar("building contexts", len(items)) as progress:
        chosen = await selections(trial.app, items, progress)
    run = [choice.conversation for choice in chosen]
    report = score_context(items, trial.messages, run=run)
    report["all lines"] = score_context(items, trial.messages, run=[choice.whole for choice in chosen])
    return Outcome(report=report, run=[asdict(selection) for selection in run])


async def _links(trial: Trial, _: datetime) -> Outcome:
    run = answered(await placed_messages(trial.app, trial.rooms, trial.bar))
    report = score_links(trial.gold.links, trial.gold.conversations, run=run)
    return Outcome(report=report, run=[asdict(link) for link in run])


async def _conversations(trial: Trial, _: datetime) -> Outcome:
    run = placements(await placed_messages(trial.app, trial.rooms, trial.bar))
    report = score_conversations(trial.gold.conversations, run=run)
    return Outcome(report=report, run=[asdict(placement) for placement in run])


#: Each is given what it works with, and the time it is now.
TASKS: dict[str, Callable[[Trial, datetime], Awaitable[Outcome]]] = {
    "retrieval": _retrieval,
    "access": access,
    "context": _context,
    "links": _links,
    "conversations": _conversations,
    "bar": _bar,
}
#: The tasks that search, and so need an embedding model.
SEARCHING = frozenset({"retrieval", "access", "bar"})
#: The tasks that tell the messages themselves, little by little.
REPLAYING = frozenset({"access"})
#: The files that each task needs.
NEEDS = {
    "retrieval": ("messages", "questions"),
    "access": ("messages", "questions"),
    "context": ("messages", "context"),
    "links": ("messages", "links", "conversations"),
    "conversations": ("messages", "conversations"),
    "bar": ("messages", "questions"),
}
