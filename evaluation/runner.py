"""Runs a task on a data set, through Roomlore's public interface, in a temporary database.

The system under test sees messages only; questions, evidence, links, conversations and contexts are for the scorer.
"""

import gzip
import json
import os
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from evaluation.access import access
from evaluation.benchmark import (
    DEFAULT_OPTIONS,
    BenchmarkRun,
    Line,
    Options,
    Outcome,
    ProgressBar,
    no_progress,
)
from evaluation.conversations import context, conversations, links
from evaluation.datasets import check_files, has_file, read_gold, read_messages
from evaluation.exchanges import exchanges
from evaluation.loading import load
from evaluation.memories import memories
from evaluation.metrics import Report
from evaluation.retrieval import retrieval
from evaluation.threshold import threshold
from roomlore import operations as composition
from roomlore.domain.errors import BadInput
from roomlore.domain.ports import Embedder
from roomlore.operations import App
from roomlore.operations.embedding_models import load_embedder
from roomlore.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One kind of measurement."""

    #: Measures it once the messages are stored; None for the task that stores them itself.
    measure: Callable[[BenchmarkRun], Awaitable[Outcome]] | None
    #: The files with gold labels that it needs.
    needs: tuple[str, ...]
    #: The files with gold labels that it uses if they are there.
    uses: tuple[str, ...] = ()
    #: Whether it searches, and so needs an embedding model.
    searches: bool = False


TASKS = {
    "retrieval": Task(measure=retrieval, needs=("questions",), searches=True),
    "access": Task(measure=None, needs=("questions",), searches=True),
    "context": Task(measure=context, needs=("context",)),
    "links": Task(measure=links, needs=("links", "conversations")),
    "conversations": Task(measure=conversations, needs=("conversations",)),
    "memories": Task(measure=memories, needs=("questions",)),
    "exchanges": Task(measure=exchanges, needs=("conversations",), uses=("links",)),
    "threshold": Task(measure=threshold, needs=("questions",), searches=True),
}


async def evaluate(
    task: str,
    folder: Path,
    *,
    now: datetime,
    out: Path | None = None,
    options: Options = DEFAULT_OPTIONS,
    progress: ProgressBar = no_progress,
) -> Report:
    """Return the scores of one task on one data set.

    Rooms without times end at `now`; `out` is the file for the predictions that were scored.

    Raises:
        BadInput: The folder is no data set or lacks what the task needs, the task is unknown, or the predictions
            cannot be written.
    """
    _check(task, out, options)
    check_files(folder, task, ("messages", *TASKS[task].needs))
    used = [name for name in TASKS[task].uses if has_file(folder, name)]
    messages, gold = read_messages(folder), read_gold(folder, (*TASKS[task].needs, *used))
    async with temporary_apps(options, searches=TASKS[task].searches) as (app, lexical_app, embedder):
        run = BenchmarkRun(
            app=app,
            messages=messages,
            gold=gold,
            options=options,
            progress=progress,
            lexical_app=lexical_app,
            embedder=embedder,
        )
        outcome = await measure(task, run, now=now)
    if out is not None and outcome.predictions is not None:
        write_predictions(out, outcome.predictions)
    return outcome.report


async def measure(task: str, run: BenchmarkRun, *, now: datetime) -> Outcome:
    """Load the messages into an empty App and return what a task measures."""
    measures = TASKS[task].measure
    if measures is None:
        return await access(run, now=now)
    await load(run, now=now)
    return await measures(run)


@asynccontextmanager
async def temporary_apps(
    options: Options, *, searches: bool
) -> AsyncGenerator[tuple[App, App | None, Embedder | None]]:
    """Give an App on an empty database; for search also one without an embedding model, and the model."""
    with tempfile.TemporaryDirectory(prefix="roomlore-evaluation-") as folder:
        settings = Settings(data=Path(folder), embeddings=options.embeddings)
        if not searches:
            async with composition.open(settings) as app:
                yield app, None, None
            return
        embedder = await load_embedder(settings)
        lexical = replace(settings, model=Path(folder) / "no model")
        async with (
            composition.open(settings, embedder=embedder) as app,
            composition.open(lexical) as lexical_app,
        ):
            yield app, lexical_app, embedder


def _check(task: str, out: Path | None, options: Options) -> None:
    if task not in TASKS:
        raise BadInput("task", f"must be one of {', '.join(sorted(TASKS))}")
    wanted = {"--answers": options.answers, "--ablations": options.ablations, "--switch": options.switch}
    for option, value in wanted.items():
        if value and task != "retrieval":
            raise BadInput(option, f"is for the task retrieval; leave it out of {task}")
    if options.switch is not None and options.switch not in options.embeddings:
        known = ", ".join(sorted(options.embeddings)) or "none; see ROOMLORE_EMBEDDINGS"
        raise BadInput(f"--switch {options.switch}", f"the embedding models are: {known}")
    if out is None:
        return
    if task in {"exchanges", "threshold"}:
        raise BadInput("--out", f"the task {task} has no predictions to write; leave it out")
    check_place(out)


def check_place(out: Path) -> None:
    """Raise BadInput if predictions cannot be written there."""
    if not out.parent.is_dir():
        raise BadInput(
            str(out), f"there is no folder {str(out.parent)!r}; make it first, or name another place"
        )
    if out.exists() and not out.is_file():
        raise BadInput(str(out), "is there already and is not a file; name another place")
    if not os.access(out.parent, os.W_OK):
        raise BadInput(str(out), f"the folder {str(out.parent)!r} may not be written to; name another place")


def write_predictions(out: Path, lines: Iterable[Line]) -> None:
    """Write one JSON object a line, compressed where the name ends in .gz; a failure leaves what was there.

    Raises:
        BadInput: The file cannot be written.
    """
    check_place(out)
    content = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
    if out.suffix == ".gz":
        # The same predictions give the same file, which else holds the time.
        content = gzip.compress(content, mtime=0)
    unfinished = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(out)
    except OSError as error:
        raise BadInput(str(out), f"cannot be written ({error.strerror})") from error
    finally:
        unfinished.unlink(missing_ok=True)
