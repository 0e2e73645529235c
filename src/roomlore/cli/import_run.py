"""The verb that imports exports, one after the other, with questions and a report for each."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

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

EVIDENCE_NAMES: dict[VisibilityBasis, str] = {
    "export": "the export",
    "assumed": "assumed",
    "chosen": "chosen",
    "before": "an earlier import",
}


def not_empty(_: click.Context, __: click.Parameter, value: Sequence[str]) -> Sequence[Path]:
    """Return the paths.

    Refuse an empty path, which would mean the current folder (perhaps because a variable is unset).
    """
    if not all(value):
        raise click.BadParameter("must not be empty")
    return [Path(one) for one in value]


@click.command("import")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, callback=not_empty)
@click.option(
    "--format",
    "name",
    type=click.Choice([reader.name for reader in READERS]),
    help="Format of the export. [detected]",
)
@click.option("--dry-run", is_flag=True, help="Only report the contents.")
@click.option(
    "--agent", "agents", multiple=True, metavar="NAME", help="This account or name is an agent. Repeatable."
)
@click.option(
    "--day", type=click.DateTime(["%Y-%m-%d"]), help="Day of the first line of a log that has only hours."
)
@click.option("--timezone", type=ZoneType(), help="Zone of times that have none. [UTC]")
@click.option(
    "--members",
    multiple=True,
    metavar="ROOM",
    help="Only members may read this room, or the rooms of this category: name or id. Repeatable.",
)
@click.option(
    "--open",
    "opened",
    multiple=True,
    metavar="ROOM",
    help="The whole org may read this room: name or id. Repeatable.",
)
@click.option(
    "--assume",
    type=click.Choice(["members", "open"]),
    help="Visibility of rooms for which the export has none. [open, unless the name suggests otherwise]",
)
@click.option(
    "--workspace", metavar="NAME", default="", help="Server, workspace or network of rooms that name none."
)
@click.option("--embed/--no-embed", default=True, help="Also disentangle and embed the messages. [embed]")
@click.pass_obj
def import_(session: Session, paths: Sequence[Path], **options: Any) -> None:
    """Import exports: Discord, Slack (folder or zip), Telegram, WhatsApp, IRC, mail, or JSON lines.

    You can repeat an import: it adds only what is missing and never opens a closed room. The report says who may read
    each room, and why. Unless you give --no-embed, the import also applies the retention of rooms.
    """
    day: datetime | None = options["day"]
    import_options = ImportOptions(
        format=options["name"],
        options=ReadOptions(
            day=day.date() if day else None, zone=options["timezone"], workspace=options["workspace"]
        ),
        agents=frozenset(options["agents"]),
        audience=VisibilityOptions(
            members=frozenset(options["members"]),
            open=frozenset(options["opened"]),
            assume=options["assume"],
            workspace=options["workspace"],
        ),
    )
    imports = ImportRun(session.output, paths, import_options)

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
    """Imports one export after the other. An error in one export does not stop the next."""

    def __init__(self, output: Output, paths: Sequence[Path], options: ImportOptions) -> None:
        self.output = output
        self.paths = paths
        self.options = check_rooms(paths, options)
        self.documents: list[Any] = []
        self.failed = 0

    async def run(self, app: App | None) -> None:
        """Import every path and show a report for each. Without an App, only preview.

        If there is only one path, its error is raised.
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
        """Exit with 1 if a path was not imported."""
        if self.failed:
            click.echo(f"{self.failed} of {len(self.paths)} paths were not imported", err=True)
            raise click.exceptions.Exit(1)

    async def _one(self, app: App | None, path: Path) -> ImportReport:
        with import_progress(self.output) as progress:
            if app is None:
                return await preview(path, options=self.options, progress=progress)
            on_terminal = sys.stdin.isatty() and sys.stderr.isatty()
            audience = replace(self.options.audience, ask=_ask_about_room(progress) if on_terminal else None)
            return await app.import_path(
                path, options=replace(self.options, audience=audience), progress=progress
            )

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
    """Print who may read each room, and why."""
    output.table(
        ("room", "messages", "read by", "source", "reason"),
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
        output.text("To set what is assumed: import --open ROOM or --members ROOM; rooms open, rooms close.")


def _ask_about_room(progress: ImportProgress) -> AskVisibility:
    """Return a callback that asks about a room whose name suggests that it is private."""

    def ask(room: IncomingRoom) -> Visibility:
        under = f" (under {room.category})" if room.category else ""
        with progress.paused():
            click.echo(
                f"{printable(qualified_name(room) + under)}: the export does not say who may read it.",
                err=True,
            )
            return "members" if click.confirm("Only for its members?", default=True, err=True) else "open"

    return ask
