"""The verb that reads exports: what it asks, shows and does with several of them."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from roomlore.cli.exit import printable
from roomlore.cli.output import Output
from roomlore.cli.param_types import ZoneType
from roomlore.cli.progress import ImportProgress, import_progress
from roomlore.cli.session import Session, with_app
from roomlore.cli.worker import drain
from roomlore.domain.errors import RoomloreError
from roomlore.domain.incoming import IncomingRoom, Visibility
from roomlore.domain.ports import ReadOptions
from roomlore.domain.words import qualified_room_name
from roomlore.ingest.imports import ImportOptions, ImportReport
from roomlore.ingest.visibility import (
    AskVisibility,
    ImportedRoom,
    VisibilityBasis,
    VisibilityOptions,
    qualified_name,
)
from roomlore.operations import READERS, App
from roomlore.operations.imports import check_rooms, preview

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
EVIDENCE_NAMES: dict[VisibilityBasis, str] = {
    "export": "known from the export",
    "assumed": "assumed",
    "chosen": "chosen",
    "before": "known before",
}


def audience_options(command: Decorated) -> Decorated:
    """Add the options that say who may read what is imported."""
    options = (
        click.option(
            "--members",
            multiple=True,
            metavar="ROOM",
            help="This room, or every room of this category, is for its members: name or id. Repeatable.",
        ),
        click.option(
            "--open",
            "opened",
            multiple=True,
            metavar="ROOM",
            help="The whole org may read this room: name or id. Repeatable.",
        ),
        click.option(
            "--assume",
            type=click.Choice(["members", "open"]),
            help="Who may read rooms of which the export does not tell. [open, unless a name suggests otherwise]",
        ),
        click.option(
            "--workspace",
            metavar="NAME",
            default="",
            help="The server, workspace or network of rooms that name none.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def audience_options_of(options: dict[str, Any]) -> VisibilityOptions:
    """Return what the options say about who may read what is imported."""
    return VisibilityOptions(
        members=frozenset(options["members"]),
        open=frozenset(options["opened"]),
        assume=options["assume"],
        workspace=options["workspace"],
    )


def not_empty(_: click.Context, __: click.Parameter, value: Sequence[str]) -> Sequence[Path]:
    """Return the paths; an empty one, perhaps of an unset variable, would mean the current folder."""
    if not all(value):
        raise click.BadParameter("must not be empty")
    return [Path(one) for one in value]


@click.command("import")
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
@click.option("--timezone", type=ZoneType(), help="The zone of times that name none. [UTC]")
@audience_options
@click.option("--embed/--no-embed", default=True, help="Also untangle and embed what was imported. [embed]")
@click.pass_obj
def import_(session: Session, paths: Sequence[Path], **options: Any) -> None:
    """Read exports: Discord, Slack (folder or zip), Telegram, IRC, or our own JSON lines.

    Safe to repeat: only what is missing is added, and nothing that is closed is opened. The report says who may read
    each room and what that rests on. Embedding it also empties rooms that keep what was said for a time of what is
    older.
    """
    day: datetime | None = options["day"]
    wish = ImportOptions(
        format=options["name"],
        options=ReadOptions(
            day=day.date() if day else None, zone=options["timezone"], workspace=options["workspace"]
        ),
        agents=frozenset(options["agents"]),
        audience=audience_options_of(options),
    )
    imports = ImportRun(session.output, paths, wish)

    async def use(app: App) -> None:
        await imports.run(app)
        if options["embed"]:
            await drain(app, session.output)

    if options["dry_run"]:
        asyncio.run(imports.run(None))
    else:
        with_app(session, use, create_org=True)
    imports.exit_if_failed()


class ImportRun:
    """Imports one export after the other; what is wrong with one keeps no other out."""

    def __init__(self, output: Output, paths: Sequence[Path], wish: ImportOptions) -> None:
        self.output = output
        self.paths = paths
        self.wish = check_rooms(paths, wish)
        self.documents: list[Any] = []
        self.failed = 0

    async def run(self, app: App | None) -> None:
        """Import every path, or only look without an App, and show each report.

        Raises:
            RoomloreError: the only path there is cannot be imported.
        """
        for path in self.paths:
            try:
                report = await self._one(app, path)
            except RoomloreError as error:
                if len(self.paths) == 1:
                    raise
                self._note_failed(path, error)
            else:
                self._show(path, report)
        if self.output.as_json:
            self.output.json(self.documents if len(self.paths) > 1 else self.documents[0])

    def exit_if_failed(self) -> None:
        """Do nothing if all went in.

        Raises:
            Exit: a path could not be imported.
        """
        if self.failed:
            click.echo(f"{self.failed} of {len(self.paths)} paths were not imported", err=True)
            raise click.exceptions.Exit(1)

    async def _one(self, app: App | None, path: Path) -> ImportReport:
        with import_progress(self.output) as progress:
            if app is None:
                return await preview(path, wish=self.wish, progress=progress)
            on_terminal = sys.stdin.isatty() and sys.stderr.isatty()
            audience = replace(self.wish.audience, ask=_ask_about_room(progress) if on_terminal else None)
            return await app.import_path(path, wish=replace(self.wish, audience=audience), progress=progress)

    def _show(self, path: Path, report: ImportReport) -> None:
        if self.output.as_json:
            self.output.skipped(report)
            self.documents.append(report.as_json() | ({"path": str(path)} if len(self.paths) > 1 else {}))
            return
        if len(self.paths) > 1:
            self.output.text(str(path), style="bold")
        self.output.report(report)
        show_audiences(self.output, report.audiences)

    def _note_failed(self, path: Path, error: RoomloreError) -> None:
        self.failed += 1
        self.documents.append({"path": str(path), "error": str(error)})
        click.echo(f"roomlore: {printable(str(path))}: {printable(str(error))}", err=True)


def show_audiences(output: Output, rooms: Sequence[ImportedRoom]) -> None:
    """Print each room with who may read it and what that rests on."""
    output.table(
        ("room", "messages", "read by", "which is", "because"),
        [
            (
                qualified_room_name(room.workspace, room.name),
                room.messages,
                "everybody" if room.audience == "open" else "members",
                EVIDENCE_NAMES[room.rests_on],
                room.why,
            )
            for room in rooms
        ],
    )
    if any(room.rests_on == "assumed" for room in rooms):
        output.text(
            "What is assumed can be decided: import --open ROOM, --members ROOM; rooms open, rooms close."
        )


def _ask_about_room(progress: ImportProgress) -> AskVisibility:
    """Return what asks about a room whose name suggests a closed circle."""

    def ask(room: IncomingRoom) -> Visibility:
        under = f" (under {room.category})" if room.category else ""
        with progress.paused():
            click.echo(
                f"{printable(qualified_name(room) + under)}: the export does not say who may read it.",
                err=True,
            )
            return "members" if click.confirm("For its members only?", default=True, err=True) else "open"

    return ask
