"""Progress bars on standard error."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from roomlore.cli.output import Output


class ImportProgress:
    """A progress bar for an import. It can pause while a question is asked."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("reading", total=None, records=0)

    def __call__(self, read: int, total: int, records: int) -> None:
        """Update the bar."""
        self._bar.update(self._task, completed=read, total=total, records=records)

    @contextmanager
    def paused(self) -> Generator[None]:
        """Hide the bar while a question is asked."""
        self._bar.stop()
        yield
        self._bar.start()


@contextmanager
def import_progress(output: Output) -> Generator[ImportProgress]:
    """Show the bytes and records read from an export."""
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
    with _counting(output) as bar:
        yield partial(bar.advance, bar.add_task(what, total=total))


@contextmanager
def job_progress(
    output: Output, *, waiting: int
) -> Generator[tuple[Callable[[int], None], Callable[[int], None]]]:
    """Show how many messages are disentangled, and how many of the pending messages are embedded.

    Yields both callbacks.
    """
    with _counting(output) as bar:
        disentangling = bar.add_task("disentangling", total=None)
        embedding = bar.add_task("embedding", total=waiting or None)
        yield partial(bar.advance, disentangling), partial(bar.advance, embedding)


class PhaseProgress:
    """A progress bar for each phase of some work. It can pause while a question is asked."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._tasks = dict[str, TaskID]()

    def __call__(self, phase: str, done: int, total: int) -> None:
        """Update the bar of a phase."""
        if phase not in self._tasks:
            self._tasks[phase] = self._bar.add_task(phase)
        self._bar.update(self._tasks[phase], completed=done, total=total or None)

    @contextmanager
    def paused(self) -> Generator[None]:
        """Hide the bars while a question is asked."""
        self._bar.stop()
        yield
        self._bar.start()


@contextmanager
def phase_progress(output: Output) -> Generator[PhaseProgress]:
    """Show how much of each phase is done."""
    with _counting(output) as bar:
        yield PhaseProgress(bar)


def _counting(output: Output) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=output.chatter, disable=output.quiet, transient=True)
