"""Destructive verbs. They show what would be removed and ask, unless --yes or --dry-run is given."""

import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import click

from roomlore.cli.exit import printable
from roomlore.operations import App

Seen = TypeVar("Seen")
Result = TypeVar("Result")
Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class DestructiveAction(Generic[Seen, Result]):
    """An action that cannot be undone, or that can be undone only for a while."""

    #: The dry run. It changes nothing.
    preview: Callable[[App], Awaitable[Seen]]
    #: The function that removes. It gets the result of the dry run, so that it removes exactly what the dry run showed;
    #: None if there was no dry run.
    execute: Callable[[App, Seen | None], Awaitable[Result]]
    #: Returns the lines that show the result of the dry run.
    lines: Callable[[Seen], Sequence[str]]
    question: str = "This cannot be undone. Erase?"
    #: Printed if the answer is no.
    refusal: str = "nothing was erased"


def destructive_options(command: Command) -> Command:
    """Add --dry-run and --yes to a command."""
    dry_run = click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
    yes = click.option("--yes", is_flag=True, help="Do not ask.")
    return dry_run(yes(command))


def check_answerable(*, dry_run: bool, yes: bool) -> None:
    """Raise UsageError if neither option was given and nobody is at a terminal to answer."""
    on_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if not (dry_run or yes or on_terminal):
        raise click.UsageError(
            "this removes data and there is no terminal to ask on:"
            " use --yes to do it, --dry-run to see what it would remove"
        )


async def run_destructive(
    app: App, action: DestructiveAction[Seen, Result], *, dry_run: bool, yes: bool
) -> Seen | Result:
    """Execute an action and return its result. Unless `yes` is set, show a preview and ask first.

    For a dry run, only return the preview.
    """
    if yes and not dry_run:
        return await action.execute(app, None)
    seen = await action.preview(app)
    if dry_run:
        return seen
    for line in action.lines(seen):
        click.echo(printable(line), err=True)
    if not click.confirm(action.question, err=True):
        click.echo(action.refusal, err=True)
        raise click.exceptions.Exit(1)
    return await action.execute(app, seen)
