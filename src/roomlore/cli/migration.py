"""Verbs that migrate: the schema of the database, and stores of other programs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from roomlore import operations as composition
from roomlore.cli.exit import printable
from roomlore.cli.output import Output, plain
from roomlore.cli.progress import count_progress
from roomlore.cli.session import Session, with_app
from roomlore.domain.phrases import count_phrase

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from roomlore.legacy.parity import ParityReport
    from roomlore.operations import App
    from roomlore.operations.graph_migration import GraphReport
    from roomlore.operations.migrations import MigrationReport, ProjectsReport

#: The number of differences and skipped records of a graph that the text names.
_MOST_NAMED = 10
#: The number of missing memories that are named.
_NAMED_MISSING = 10


@click.group(invoke_without_command=True)
@click.pass_context
def migrate(ctx: click.Context) -> None:
    """Update the database to the schema of this version; or migrate the store of another program."""
    if ctx.invoked_subcommand is not None:
        return
    session: Session = ctx.obj
    applied = asyncio.run(composition.prepare(session.settings))
    text = f"applied: {', '.join(applied)}" if applied else "nothing to do"
    session.output.result({"applied": applied}, text)


@migrate.command("chat-history")
@click.argument("dsn")
@click.option(
    "--agents",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="TOML or CSV with the account of each character on the platform.",
)
@click.option("--dry-run", is_flag=True, help="Only report the contents.")
@click.option(
    "--add-columns",
    is_flag=True,
    help="Migrate nothing: add author columns to the table itself, and fill them.",
)
@click.pass_obj
def chat_history(
    session: Session, dsn: str, agents: Path | None, *, dry_run: bool, add_columns: bool
) -> None:
    """Migrate the table v2_chat_history of the PostgreSQL database DSN, and compare both.

    You can repeat a migration: it adds only what is missing. Exits with 1 if a difference between both is not
    explained.
    """
    if dry_run and add_columns:
        raise click.UsageError("--dry-run and --add-columns exclude each other")
    from roomlore.legacy.characters import read_characters

    characters: Mapping[str, str] = {} if agents is None else read_characters(agents)
    if add_columns:
        _add_columns(session, dsn, characters)
    else:
        _migrate(session, dsn, characters, dry_run=dry_run)


def _add_columns(session: Session, dsn: str, characters: Mapping[str, str]) -> None:
    from roomlore.operations.migrations import add_author_columns

    with count_progress(session.output, "filled", total=None) as advance:
        report = asyncio.run(add_author_columns(dsn, characters, progress=advance))
    columns = ", ".join(report.added) or "nothing"
    text = f"added: {columns}; filled {count_phrase(report.filled, 'row')}, {report.unknown} have no known author"
    session.output.result(report.as_json(), text)


def _migrate(session: Session, dsn: str, characters: Mapping[str, str], *, dry_run: bool) -> None:
    from roomlore.operations.migrations import migrate_chat_history

    async def use(app: App | None) -> MigrationReport:
        with count_progress(session.output, "rows", total=None) as advance:
            return await migrate_chat_history(app, dsn, characters=characters, progress=advance)

    report = asyncio.run(use(None)) if dry_run else with_app(session, use, create_org=True)
    session.output.skipped(report.skipped)
    if session.output.as_json:
        session.output.json(report.as_json())
    else:
        _show(session.output, report)
    if report.parity is not None and not report.parity.is_equal:
        raise click.exceptions.Exit(1)


@migrate.command("projects")
@click.argument("dsn")
@click.option("--source-org", metavar="ID", help="The org of the store, if it has several.")
@click.option("--dry-run", is_flag=True, help="Only report the contents.")
@click.pass_obj
def projects(session: Session, dsn: str, source_org: str | None, *, dry_run: bool) -> None:
    """Migrate the chat and the memories of the project store in the PostgreSQL database DSN.

    You can repeat a migration: it adds only what is missing. Exits with 1 if a memory is missing afterwards.
    """
    from roomlore.operations.migrations import migrate_project_store

    async def use(app: App | None) -> ProjectsReport:
        with count_progress(session.output, "rows", total=None) as advance:
            return await migrate_project_store(app, dsn, org=source_org, progress=advance)

    report = asyncio.run(use(None)) if dry_run else with_app(session, use, create_org=True)
    session.output.skipped(report.skipped)
    if session.output.as_json:
        session.output.json(report.as_json())
    else:
        _show_projects(session.output, report)
    if report.missing:
        raise click.exceptions.Exit(1)


def _show_projects(output: Output, report: ProjectsReport) -> None:
    note = " (dry run, nothing stored)" if report.stored is None else ""
    output.text(f"{report.source}{note}", style="bold")
    output.text(f"  {count_phrase(report.rooms, 'room')}, {count_phrase(report.messages, 'message')}")
    if report.stored is not None:
        output.text(f"  stored: {_counts(report.stored)}")
    for table, counts in report.memories.items():
        output.text(f"  {table}: {_counts(counts)}")
    if report.private:
        output.text(f"  {count_phrase(report.private, 'memory', 'memories')} only for their agent")
    if report.replaced:
        output.text(f"  {count_phrase(report.replaced, 'memory', 'memories')} replaced by others")
    skipped: Mapping[str, Any] = report.as_json()["skipped"]
    if skipped:
        output.text(f"  left out: {_counts(skipped)}")
    if report.missing:
        output.text(f"  missing: {', '.join(report.missing[:_NAMED_MISSING])}", style="red")


def _show(output: Output, report: MigrationReport) -> None:
    note = " (dry run, nothing stored)" if report.stored is None else ""
    output.text(f"{report.source}{note}", style="bold")
    output.text(f"  {count_phrase(report.rows, 'row')}, {count_phrase(report.messages, 'message')}")
    output.text(f"  rooms: {_counts(report.rooms)}; authors: {_counts(report.authors)}")
    output.text(f"  replies: {report.replies}")
    if report.channels_as_users:
        output.text(f"  {count_phrase(report.channels_as_users, 'row')} had a channel in place of the user")
    for character, missing in report.characters_without_id.items():
        stated = f"; other rows state {', '.join(missing['stated'])}" if missing["stated"] else ""
        rows = count_phrase(missing["rows"], "row")
        output.text(f"  no id for {character} ({rows}), so its name is its account{stated}", style="yellow")
    skipped: Mapping[str, Any] = report.as_json()["skipped"]
    if skipped:
        output.text(f"  left out: {_counts(skipped)}")
    if report.stored is not None:
        output.text(f"  stored: {_counts(report.stored)}")
    if report.parity is not None:
        _show_parity(output, report.parity)


def _show_parity(output: Output, parity: ParityReport) -> None:
    verdict = "equal" if parity.is_equal else "NOT EQUAL"
    output.text(f"compared: {verdict}", style="bold" if parity.is_equal else "bold red")
    values = ", ".join(f"{count} {name}s" for name, count in parity.values.items())
    output.text(f"  counted {count_phrase(parity.compared, 'row')} of {parity.rows} in both stores: {values}")
    output.text(f"  compared field by field: {count_phrase(parity.sampled, 'message')}")
    if parity.explained:
        output.text(f"  not counted: {_counts(parity.explained)}")
    if parity.other_messages:
        output.text(f"  the same rooms have {count_phrase(parity.other_messages, 'message')} from elsewhere")
    for reason, count in parity.unexplained.items():
        output.text(f"  {count_phrase(count, 'row')} {reason}", style="red")
    if parity.unexplained_rows:
        output.text(f"  ids of such rows: {', '.join(parity.unexplained_rows)}", style="red")
    for one in parity.counts:
        output.text(f"  {one.dimension} {one.value}: {one.source} there, {one.roomlore} here", style="red")
    for one in parity.fields:
        output.text(f"  row {one.row}, {one.field}: {one.why}", style=None if one.is_expected else "red")


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "none"


def _pairs(_: click.Context, __: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    pairs = [value.partition("=") for value in values]
    if not all(name and who for name, _, who in pairs):
        raise click.BadParameter("must be like NAME=WHO")
    return {name: who for name, _, who in pairs}


@migrate.command()
@click.argument("url", metavar="BOLT_URI")
@click.option("--user", default="neo4j", show_default=True, help="User of the Neo4j server.")
@click.option(
    "--password",
    envvar="ROOMLORE_MIGRATE_PASSWORD",
    prompt=True,
    hide_input=True,
    help="Password of the user. Better: set ROOMLORE_MIGRATE_PASSWORD, or type it when asked.",
)
@click.option("--graph-database", metavar="NAME", help="Database in the server. [the user's default]")
@click.option(
    "--platform",
    default="graph",
    show_default=True,
    help="Platform of the ids that users have in the graph.",
)
@click.option(
    "--audience",
    type=click.Choice(["self", "org"]),
    default="self",
    show_default=True,
    help="Who may read the memories: the agent whose memory it is, or the whole org.",
)
@click.option(
    "--person",
    "people",
    multiple=True,
    metavar="NAME=WHO",
    callback=_pairs,
    help="NAME in the graph is WHO here: a name, account or id. Repeatable. [an account of its own]",
)
@click.option("--dry-run", is_flag=True, help="Only report the contents.")
@click.pass_obj
def graph(session: Session, url: str, **options: Any) -> None:
    """Take over agent memories, facts and relationships from a Neo4j graph.

    The graph is only read. You can repeat the command: it adds only what is missing. The report compares the database
    with the graph; if they differ, the exit status is 1.
    """
    from roomlore.operations.graph_migration import GraphMigration, open_graph, preview

    user, password, database = options["user"], options["password"], options["graph_database"]

    async def show_contents() -> GraphReport:
        async with open_graph(url, user=user, password=password, database=database) as pages:
            return await preview(pages)

    async def take_over(app: App) -> GraphReport:
        migration = GraphMigration(
            access=app.access,
            platform=options["platform"],
            audience=options["audience"],
            people=options["people"],
        )
        async with open_graph(url, user=user, password=password, database=database) as pages:
            return await migration.run(pages)

    if options["dry_run"]:
        report = asyncio.run(show_contents())
    else:
        report = with_app(session, take_over, create_org=True)
    if session.output.as_json:
        session.output.json(plain(report) | {"is_equal": report.is_equal})
    else:
        _show_graph(session.output, report)
    if not report.is_equal:
        raise click.exceptions.Exit(1)


def _show_graph(output: Output, report: GraphReport) -> None:
    is_dry = report.groups is None
    output.text(f"graph{' (dry run, nothing stored)' if is_dry else ''}", style="bold")
    read = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in report.read.items())
    output.text(f"  read: {read or 'nothing'}")
    if report.kinds:
        output.text(
            f"  kinds: {', '.join(f'{count} {kind}' for kind, count in sorted(report.kinds.items()))}"
        )
    for reason, count in sorted(report.skipped_by_reason.items()):
        output.text(f"  {count} times: {reason}")
    for skipped in report.skipped[:_MOST_NAMED]:
        output.text(printable(f"    {skipped.where}: {skipped.reason}"))
    if is_dry:
        return
    output.text(f"  stored: {report.added} new, {report.existing} from earlier")
    if report.trusts:
        output.text(f"  stated trust: {count_phrase(report.trusts, 'relationship')}")
    output.text(
        f"  compared: {count_phrase(report.groups or 0, 'group')} by holder, kind and day,"
        f" {count_phrase(len(report.count_differences), 'difference')};"
        f" {count_phrase(report.compared, 'record')} field by field,"
        f" {count_phrase(len(report.field_differences), 'difference')}"
    )
    for group in report.count_differences[:_MOST_NAMED]:
        counts = f"{group.in_graph} in the graph, {group.in_database} in the database"
        output.text(printable(f"    {group.holder}, {group.kind}, {group.day or 'no day'}: {counts}"))
    for one in report.field_differences[:_MOST_NAMED]:
        output.text(f"    memory {one.memory_id}: {', '.join(one.fields)}")
