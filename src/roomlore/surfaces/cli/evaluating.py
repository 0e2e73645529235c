"""The verb that measures Roomlore on conversations with known answers."""

import asyncio
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from roomlore.domain.errors import BadInput
from roomlore.evaluation.metrics import Report
from roomlore.evaluation.run import TASKS, evaluate
from roomlore.evaluation.tables import comparison_table, screen_tables
from roomlore.evaluation.trial import Also
from roomlore.surfaces.cli.output import Output
from roomlore.surfaces.cli.progress import counting
from roomlore.surfaces.cli.session import Session, to_its_end

#: What of a report is told beside its table.
TOLD = frozenset({"questions", "without_a_run_line", "asked for", "answers"})


@click.command("eval")
@click.argument("task", type=click.Choice(sorted(TASKS)))
@click.argument("dataset", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--out",
    metavar="RUN.jsonl",
    type=click.Path(path_type=Path),
    help="Also write what was found, one JSON object a line; packed if it ends in .gz.",
)
@click.option("--answers", is_flag=True, help="Of retrieval: also have each question answered.")
@click.option("--stages", is_flag=True, help="Of retrieval: also leave out one stage of search at a time.")
@click.option(
    "--switch",
    metavar="NAME",
    help="Of retrieval: also measure after a switch to this embedding model of ROOMLORE_EMBEDDINGS.",
)
@click.option("--markdown", is_flag=True, help="Of retrieval: print the comparison as a table of Markdown.")
@click.pass_obj
def eval_(session: Session, task: str, dataset: Path, **options: Any) -> None:
    """Measure TASK on a folder with gold labels, in a database of its own that is thrown away.

    Prints one JSON object; of retrieval, on a terminal, a table.
    """
    if options["markdown"] and task != "retrieval":
        raise BadInput("--markdown", f"the task {task} compares nothing; leave it out")

    also = Also(
        answers=options["answers"],
        stages=options["stages"],
        switch=options["switch"],
        embeddings=session.settings.embeddings,
    )

    def bar(what: str, total: int | None) -> AbstractContextManager[Callable[[int], None]]:
        return counting(session.output, what, total=total)

    async def measured() -> Report:
        running = asyncio.current_task()
        assert running is not None
        # Told to end, we end in order: the database of our own goes with us.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
        return await evaluate(task, dataset, now=datetime.now(UTC), out=options["out"], also=also, bar=bar)

    _print(session.output, to_its_end(measured()), as_markdown=options["markdown"])


def _print(output: Output, report: Report, *, as_markdown: bool) -> None:
    table = comparison_table(report)
    if table is not None and as_markdown:
        print(table.markdown)
    elif table is None or output.as_json:
        output.json(report)
    else:
        for part in screen_tables(report):
            output.table(part.headings, part.rows)
            output.text()
        output.json({name: value for name, value in report.items() if name in TOLD})
