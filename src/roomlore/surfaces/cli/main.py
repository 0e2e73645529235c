"""The verbs of the command line."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from roomlore import app as composition
from roomlore import doctor as examination
from roomlore.app import READERS, App
from roomlore.domain.errors import RoomloreError
from roomlore.domain.ports import ReadOptions
from roomlore.domain.wording import counted
from roomlore.ingest.importing import ImportWish
from roomlore.surfaces.cli import (
    agents,
    conversations,
    embedding,
    extracting,
    forgetting,
    graph,
    importing,
    keeping,
    keys,
    mcpserving,
    memories,
    operations,
    people,
    projecting,
    reading,
    rooms,
    serving,
    wishes,
)
from roomlore.surfaces.cli import demo as story
from roomlore.surfaces.cli.globaloptions import GlobalOptions
from roomlore.surfaces.cli.output import Output, printable
from roomlore.surfaces.cli.progress import counting, working
from roomlore.surfaces.cli.session import Session, with_app
from roomlore.surfaces.cli.spans import Zone

INTERRUPTED, TERMINATED, UNREAD = 130, 143, 141


def run() -> None:
    """Run the command line; a user's mistake ends in one readable line, never in a traceback."""
    # The driver's own remarks on lost connections would stand between ours.
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]  closed by whoever started us
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123  ends with the process
    try:
        # Outside standalone mode an early exit comes back as its code.
        sys.exit(cli.main(standalone_mode=False) or 0)
    except (click.exceptions.Abort, KeyboardInterrupt, asyncio.CancelledError) as end:
        click.echo("interrupted; what was stored so far stays, and it is safe to run this again", err=True)
        sys.exit(TERMINATED if isinstance(end, asyncio.CancelledError) else INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except RoomloreError as error:
        click.echo(f"roomlore: {printable(str(error))}", err=True)
        sys.exit(1)
    except BrokenPipeError:
        # Whoever read our output has gone; what is left of it goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(UNREAD)
    except OSError as error:
        click.echo(f"roomlore: {error.strerror or type(error).__name__}", err=True)
        sys.exit(1)
    except Exception as error:
        # The last resort: a fault of ours. Its text may quote what somebody said, so its kind alone is shown.
        if os.environ.get("ROOMLORE_TRACEBACK"):
            raise
        click.echo(
            f"roomlore: unexpected {type(error).__name__}, which is a fault in Roomlore; nothing was left"
            " half-written. ROOMLORE_TRACEBACK=1 shows where it came from",
            err=True,
        )
        sys.exit(1)


def not_empty(_: click.Context, __: click.Parameter, value: Sequence[str]) -> Sequence[Path]:
    """Return the paths; an empty one, perhaps of an unset variable, would mean the current folder."""
    if not all(value):
        raise click.BadParameter("must not be empty")
    return [Path(one) for one in value]


@click.group(
    cls=GlobalOptions, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="roomlore")
def cli() -> None:
    """Conversation memory for rooms full of people and agents.

    The options stand before the verb or after it.
    """


@cli.command()
@click.pass_obj
def demo(session: Session) -> None:
    """Load a small story and show what an agent gets: context, search, a refusal, an honest no.

    Its rooms live in an org of their own, "demo".
    """
    settings = replace(session.settings, org=story.ORG)
    with_app(
        replace(session, settings=settings), lambda app: story.tell(app, session.output), create_org=True
    )


@cli.command("import")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, callback=not_empty)
@click.option(
    "--format",
    "name",
    type=click.Choice([reader.name for reader in READERS]),
    help="Do not guess the format.",
)
@click.option("--dry-run", is_flag=True, help="Only report what the export holds.")
@click.option(
    "--agent", "agents", multiple=True, metavar="NAME", help="This account or name is an agent. Repeatable."
)
@click.option(
    "--day",
    type=click.DateTime(["%Y-%m-%d"]),
    help="The day of the first line of a log that names only hours.",
)
@click.option("--timezone", type=Zone(), help="The zone of times that name none. [UTC]")
@importing.audience_options
@click.option("--embed/--no-embed", default=True, help="Also untangle and embed what was imported. [embed]")
@click.pass_obj
def import_(session: Session, paths: Sequence[Path], **options: Any) -> None:
    """Read exports: Discord, Slack (folder or zip), Telegram, IRC, or our own JSON lines.

    Safe to repeat: only what is missing is added, and nothing that is closed is opened. The report says who may read
    each room and what that rests on. Embedding it also empties rooms that keep what was said for a time of what is
    older.
    """
    day: datetime | None = options["day"]
    wish = ImportWish(
        format=options["name"],
        options=ReadOptions(
            day=day.date() if day else None, zone=options["timezone"], workspace=options["workspace"]
        ),
        agents=frozenset(options["agents"]),
        audience=importing.audience_wish(options),
    )
    imports = importing.Imports(session.output, paths, wish)

    async def use(app: App) -> None:
        await imports.run(app)
        if options["embed"]:
            await drain(app, session.output)

    if options["dry_run"]:
        asyncio.run(imports.run(None))
    else:
        with_app(session, use, create_org=True)
    imports.end()


@cli.command()
@click.option("--drain", "until_done", is_flag=True, help="Exit when nothing is left to do.")
@click.option("--retry", is_flag=True, help="First let what was set aside be tried again.")
@click.pass_obj
def worker(session: Session, until_done: bool, retry: bool) -> None:  # noqa: FBT001  click passes flags by name
    """Untangle messages and embed them and memories as they arrive, in every org of the database.

    Rooms that keep what was said for a time are emptied of what is older.
    """

    async def use(app: App) -> None:
        if retry:
            again = await app.retry(every_org=True)
            session.output.chatter.print(
                f"{counted(again, 'piece')} of work that had been set aside: tried again"
            )
        if until_done:
            await drain(app, session.output, every_org=True)
            return
        stop = asyncio.Event()
        for name in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(name, stop.set)
        session.output.chatter.print("waiting for work; Ctrl-C stops")
        with counting(session.output, "embedded", total=None) as advance:
            await app.run_worker(stop, progress=advance, expired=partial(tell_expired, session.output))

    with_app(session, use)


async def drain(app: App, output: Output, *, every_org: bool = False) -> None:
    """Untangle and embed what is waiting, with bars, and erase what rooms no longer keep.

    In every org also what is missing: what was embedded with another model, or never untangled.
    """
    rooms = (await app.waiting("untangle", every_org=every_org)).waiting
    waiting = (await app.waiting(every_org=every_org)).waiting
    if not (rooms or waiting or every_org):
        return
    with working(output, waiting=waiting) as (untangled, embedded):
        drained = await app.drain(embedded, untangled=untangled, every_org=every_org)
    output.chatter.print(
        f"untangled {counted(drained.untangled, 'message')}, drew {counted(drained.remembered, 'memory', 'memories')},"
        f" embedded {counted(drained.done, 'text')}"
    )
    if drained.expired:
        tell_expired(output, drained.expired)
    for what in drained.failing:
        output.chatter.print(f"not copied: {what}; the worker tries again", style="yellow", markup=False)
    for what in drained.unembedded:
        output.chatter.print(f"waits to be embedded: {what}", style="yellow", markup=False)
    if drained.set_aside:
        output.chatter.print(
            f"{counted(drained.set_aside, 'piece')} of work ended in errors and went aside;"
            " roomlore worker --drain --retry tries them again",
            style="yellow",
        )


def tell_expired(output: Output, count: int) -> None:
    """Say how much retention erased: nothing goes in silence."""
    output.chatter.print(f"erased {counted(count, 'message')} that rooms no longer keep")


@cli.command()
@click.option("--stop", is_flag=True, help="Stop the embedded database of the data folder.")
@click.option("--force", is_flag=True, help="With --stop: even while another process uses it.")
@click.pass_obj
def doctor(session: Session, stop: bool, force: bool) -> None:  # noqa: FBT001  click passes flags by name
    """Look whether everything needed is there, and say how to mend what is not."""
    if stop:
        stopped = asyncio.run(examination.stop(session.settings, force=force))
        session.output.chatter.print("stopped" if stopped else "was not running")
        return
    findings = asyncio.run(examination.examine(session.settings))
    session.output.findings(findings)
    if not all(finding.is_well for finding in findings):
        raise click.exceptions.Exit(1)


@cli.command()
@click.pass_obj
def migrate(session: Session) -> None:
    """Bring the database to the schema of this version."""
    applied = asyncio.run(composition.prepare(session.settings))
    if session.output.as_json:
        session.output.json({"applied": applied})
    else:
        session.output.text(f"applied: {', '.join(applied)}" if applied else "nothing to do")


for verb in (
    *rooms.VERBS,
    *reading.VERBS,
    *conversations.VERBS,
    *memories.VERBS,
    *agents.VERBS,
    *extracting.VERBS,
    *people.VERBS,
    *graph.VERBS,
    *wishes.VERBS,
    *keys.VERBS,
    *forgetting.VERBS,
    *keeping.VERBS,
    *operations.VERBS,
    *embedding.VERBS,
    *projecting.VERBS,
    *serving.VERBS,
    *mcpserving.VERBS,
):
    cli.add_command(verb)
