"""The command `python -m evaluation TASK FOLDER`."""

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from evaluation.benchmark import Options
from evaluation.comparison import markdown_table
from evaluation.metrics import Report
from evaluation.runner import TASKS, evaluate
from roomlore.domain.errors import BadInput, RoomloreError
from roomlore.settings import from_environment


@click.command()
@click.argument("task", type=click.Choice(sorted(TASKS)))
@click.argument("dataset", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--out",
    metavar="PREDICTIONS.jsonl",
    type=click.Path(path_type=Path),
    help="Also write what was found, one JSON object a line; compressed if it ends in .gz.",
)
@click.option("--answers", is_flag=True, help="Of retrieval: also answer each question.")
@click.option("--ablations", is_flag=True, help="Of retrieval: also leave out one stage of search at a time.")
@click.option(
    "--switch",
    metavar="NAME",
    help="Of retrieval: also measure after a switch to this embedding model of ROOMLORE_EMBEDDINGS.",
)
@click.option("--markdown", is_flag=True, help="Of retrieval: print the comparison as a table, not JSON.")
def main(
    *,
    task: str,
    dataset: Path,
    out: Path | None,
    answers: bool,
    ablations: bool,
    switch: str | None,
    markdown: bool,
) -> None:
    """Measure TASK on the data set in a folder, in a temporary database; print one JSON object."""
    try:
        if markdown and task != "retrieval":
            raise BadInput("--markdown", f"the task {task} compares nothing; leave it out")
        options = Options(
            answers=answers, ablations=ablations, switch=switch, embeddings=from_environment().embeddings
        )
        report = asyncio.run(_measured(task, dataset, out, options))
    except RoomloreError as error:
        click.echo(f"evaluation: {error}", err=True)
        sys.exit(1)
    except asyncio.CancelledError:
        sys.exit(128 + signal.SIGTERM)
    table = markdown_table(report) if markdown else None
    click.echo(table or json.dumps(report, ensure_ascii=False, indent=2))


async def _measured(task: str, dataset: Path, out: Path | None, options: Options) -> Report:
    running = asyncio.current_task()
    assert running is not None
    # A cancelled task stops its database; a killed process would leave it running.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    return await evaluate(
        task, dataset, now=datetime.now(UTC), out=out, options=options, progress=_progress_bar
    )


@contextmanager
def _progress_bar(step: str, total: int | None) -> Generator[Callable[[int], None]]:
    columns = (TextColumn(step), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(step, total=total)
        yield lambda done: bar.advance(task, done)


if __name__ == "__main__":
    main()
