"""One way for every verb that destroys: it shows what goes and asks, or is told by options what to do."""

import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import click

from roomlore.cli.exit import printable
from roomlore.operations import App

#: What a dry run tells.
Seen = TypeVar("Seen")
#: What carrying it out tells.
Result = TypeVar("Result")
Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class DestructiveAction(Generic[Seen, Result]):
    """Something that cannot be undone, or not for long."""

    #: Tells what would go, and changes nothing.
    preview: Callable[[App], Awaitable[Seen]]
    #: Carries it out; gets what was shown if anything was, so that just that goes.
    execute: Callable[[App, Seen | None], Awaitable[Result]]
    #: What was seen, in lines.
    lines: Callable[[Seen], Sequence[str]]
    question: str = "This cannot be undone. Erase?"
    #: What a no is answered with.
    refusal: str = "nothing was erased"


def destructive_options(command: Command) -> Command:
    """Give a command the options that everything has which destroys."""
    dry_run = click.option("--dry-run", is_flag=True, help="Only show what would go.")
    yes = click.option("--yes", is_flag=True, help="Do not ask.")
    return dry_run(yes(command))


def check_answerable(*, dry_run: bool, yes: bool) -> None:
    """Do nothing if it was said what to do, or if somebody is there to be asked.

    Raises:
        UsageError: neither is so; the command ends with 2.
    """
    on_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if not (dry_run or yes or on_terminal):
        raise click.UsageError(
            "this destroys something and nobody is there to be asked:"
            " --yes carries it out, --dry-run shows what would go"
        )


async def run_destructive(
    app: App, action: DestructiveAction[Seen, Result], *, dry_run: bool, yes: bool
) -> Seen | Result:
    """Show what would go and ask before it goes; return what was seen on a dry run, else what was done."""
    if yes and not dry_run:
        return await action.execute(app, None)
    seen = await action.preview(app)
    if dry_run:
        return seen
    confirm(action.lines(seen), action.question, refusal=action.refusal)
    return await action.execute(app, seen)


def confirm(lines: Sequence[str], question: str, *, refusal: str) -> None:
    """Show what would go and ask; whoever says no ends the command."""
    for line in lines:
        click.echo(printable(line), err=True)
    if not click.confirm(question, err=True):
        click.echo(refusal, err=True)
        raise click.exceptions.Exit(1)
