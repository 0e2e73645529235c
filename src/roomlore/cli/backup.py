"""Verbs that back up the database and restore it."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from roomlore.cli.confirmation import check_answerable
from roomlore.cli.exit import Terminated, printable
from roomlore.cli.output import minute
from roomlore.cli.progress import phase_progress
from roomlore.cli.session import Session
from roomlore.domain.phrases import count_phrase
from roomlore.operations.backups import (
    BackupReport,
    RestoreOptions,
    RestorePlan,
    RestoreReport,
    restore_backup,
    write_backup,
)

Result = TypeVar("Result")


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--overwrite", is_flag=True, help="Replace FILE if it exists.")
@click.option("--erasures", is_flag=True, help="Write only the record of what was erased.")
@click.pass_obj
def backup(session: Session, file: Path, *, overwrite: bool, erasures: bool) -> None:
    """Write everything in the database, of all orgs, to FILE, and check it. The database may be in use."""
    _refuse_viewer(session)

    async def write() -> BackupReport:
        with phase_progress(session.output) as on_progress:
            return await write_backup(
                session.settings, file, overwrite=overwrite, erasures_only=erasures, on_progress=on_progress
            )

    report = _run(write, interrupted="nothing was backed up")
    what = "the record of erasures" if erasures else _contents(report)
    text = f"{report.file}: {what} of {minute(report.created_at)}, {report.size_bytes:,} bytes, checked"
    session.output.result(report, text)


@click.command()
@click.argument("source", metavar="SOURCE")
@click.option("--replace", is_flag=True, help="Replace everything in a database that is not empty.")
@click.option(
    "--keep-erasures-from",
    "erasures_from",
    metavar="PLACE",
    help="Erase again what was erased there since: a data folder, a URL, or a file of `backup --erasures`.",
)
@click.option("--dry-run", is_flag=True, help="Only check SOURCE, and say what would happen.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def restore(session: Session, source: str, *, yes: bool, **options: Any) -> None:
    """Fill an empty database from SOURCE: a backup, or the data folder or URL of another database."""
    _refuse_viewer(session)
    if options["replace"]:
        check_answerable(dry_run=options["dry_run"], yes=yes)

    async def fill() -> RestoreReport | None:
        with phase_progress(session.output) as on_progress:

            def confirm(plan: RestorePlan) -> bool:
                with on_progress.paused():
                    return yes or _confirmed(plan)

            settings = RestoreOptions(confirm=confirm, **options)
            return await restore_backup(session.settings, source, settings, on_progress=on_progress)

    report = _run(fill, interrupted="nothing was restored")
    if report is None:
        click.echo("nothing was restored", err=True)
        raise click.exceptions.Exit(1)
    session.output.result(report, "\n".join(_restore_lines(report)))
    if not report.is_dry_run and report.erased_again is None:
        session.output.chatter.print(
            f"What was erased after {minute(report.plan.created_at)} is back. If anything was, restore again with"
            " --keep-erasures-from.",
            markup=False,
        )


def _confirmed(plan: RestorePlan) -> bool:
    for line in _plan_lines(plan):
        click.echo(printable(line), err=True)
    return click.confirm("This cannot be undone. Replace everything in it?", err=True)


def _restore_lines(report: RestoreReport) -> list[str]:
    if report.is_dry_run:
        return ["dry run, nothing was restored", *_plan_lines(report.plan)]
    counts = (report.erased_again or {}).items()
    again = ", ".join(count_phrase(count, what.removesuffix("s")) for what, count in counts)
    return [
        f"restored {_contents(report.plan)} of {minute(report.plan.created_at)} to {report.plan.target}",
        *([f"erased again: {again}"] if again else []),
    ]


def _plan_lines(plan: RestorePlan) -> list[str]:
    return [
        f"  backup  {_contents(plan)} of {minute(plan.created_at)}, whole",
        f"  to      {plan.target}, {'empty' if plan.is_empty else 'not empty: everything in it is replaced'}",
    ]


def _contents(counted: BackupReport | RestorePlan) -> str:
    return (
        f"{count_phrase(counted.messages, 'message')} of {count_phrase(counted.orgs, 'org')}"
        f" ({count_phrase(counted.rows, 'row')})"
    )


def _refuse_viewer(session: Session) -> None:
    if session.viewer is not None:
        raise click.UsageError("a backup has no viewer: it holds everything; leave out --as")


def _run(work: Callable[[], Awaitable[Result]], *, interrupted: str) -> Result:
    async def run() -> Result:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await work()

    try:
        return asyncio.run(run())
    except asyncio.CancelledError as end:
        click.echo(interrupted, err=True)
        raise Terminated from end
    except KeyboardInterrupt:
        click.echo(interrupted, err=True)
        raise
