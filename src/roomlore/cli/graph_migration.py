"""The verb that takes over the graph of another system."""

import asyncio
from collections.abc import Sequence
from typing import Any

import click

from roomlore.cli.exit import printable
from roomlore.cli.output import Output, plain
from roomlore.cli.session import Session, with_app
from roomlore.domain.phrases import count_phrase
from roomlore.operations import App
from roomlore.operations.graph_migration import PLATFORM, GraphMigration, GraphReport, open_graph, preview

#: The number of differences and skipped records that the text names.
_MOST_NAMED = 10


def _pairs(_: click.Context, __: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    pairs = [value.partition("=") for value in values]
    if not all(name and who for name, _, who in pairs):
        raise click.BadParameter("must be like NAME=WHO")
    return {name: who for name, _, who in pairs}


@click.command()
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
    default=PLATFORM,
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
        _show(session.output, report)
    if not report.is_equal:
        raise click.exceptions.Exit(1)


def _show(output: Output, report: GraphReport) -> None:
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
