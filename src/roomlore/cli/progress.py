"""Progress on the error stream, for work that takes more than a moment."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from roomlore.cli.output import Output


class ImportProgress:
    """How far an export has been read, as a bar that gives way to a question."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("reading", total=None, records=0)

    def __call__(self, read: int, total: int, records: int) -> None:
        """Show how far it is."""
        self._bar.update(self._task, completed=read, total=total, records=records)

    @contextmanager
    def paused(self) -> Generator[None]:
        """Show no bar while somebody is asked."""
        self._bar.stop()
        yield
        self._bar.start()


@contextmanager
def import_progress(output: Output) -> Generator[ImportProgress]:
    """Show how far an export has been read: bytes, and records so far."""
    columns = (
        TextColumn("reading"),
        BarColumn(),
        TextColumn("{task.fields[records]} records"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=output.chatter, disable=output.quiet, transient=True) as bar:
        yield ImportProgress(bar)


@contextmanager
def count_progress(output: Output, what: str, *, total: int | None) -> Generator[Callable[[int], None]]:
    """Show how many of something are done."""
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=output.chatter, disable=output.quiet, transient=True) as bar:
        task = bar.add_task(what, total=total)

        def advance(done: int) -> None:
            bar.advance(task, done)

        yield advance


@contextmanager
def job_progress(
    output: Output, *, waiting: int
) -> Generator[tuple[Callable[[int], None], Callable[[int], None]]]:
    """Show how many messages are untangled, and how many of those waiting are embedded; yields both, in this order."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=output.chatter, disable=output.quiet, transient=True) as bar:
        untangling = bar.add_task("untangling", total=None)
        embedding = bar.add_task("embedding", total=waiting or None)
        yield partial(bar.advance, untangling), partial(bar.advance, embedding)
