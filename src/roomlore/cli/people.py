"""Verbs about who takes part, whose accounts they are, and who read what."""

from collections.abc import Sequence

import click

from roomlore.cli.output import Output, minute
from roomlore.cli.session import Session, with_app
from roomlore.domain.phrases import count_phrase
from roomlore.domain.records import Account, AuditLine, Participant
from roomlore.http.schemas import persons
from roomlore.operations import App


@click.command()
@click.argument("name", required=False)
@click.pass_obj
def people(session: Session, name: str | None) -> None:
    """List who takes part, or the accounts of NAME: a name, an account, an id or the beginning of an id."""

    async def use(app: App) -> None:
        viewer = await session.viewer_in(app)
        accounts = await app.people.accounts(viewer, name)
        if name is not None:
            show_accounts(session.output, accounts)
        else:
            show_people(session.output, await app.participants(viewer), accounts)

    with_app(session, use)


@click.command()
@click.argument("one")
@click.argument("other")
@click.pass_obj
def merge(session: Session, one: str, other: str) -> None:
    """Say that ONE and OTHER are accounts of one person, who then reads what either may."""

    async def use(app: App) -> None:
        accounts = await (await session.acting(app)).people.merge(one, other)
        session.output.chatter.print(f"one person with {count_phrase(len(accounts), 'account')}")
        show_accounts(session.output, accounts)

    with_app(session, use)


@click.command()
@click.argument("account")
@click.pass_obj
def split(session: Session, account: str) -> None:
    """Take ACCOUNT away from the person it was merged with, and show whom it was parted from."""

    async def use(app: App) -> None:
        others = await (await session.acting(app)).people.split(account)
        session.output.chatter.print(f"parted from {count_phrase(len(others), 'account')}")
        show_accounts(session.output, others)

    with_app(session, use)


@click.command()
@click.option("--about", metavar="ID", help="Only lines that name this id, or one that begins or ends so.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many lines."
)
@click.pass_obj
def log(session: Session, about: str | None, limit: int) -> None:
    """Show who read or changed what, newest first: keys, viewers and ids, never what was said."""

    async def use(app: App) -> None:
        viewer = await session.viewer_in(app)
        show_log(session.output, await app.log(viewer, subject=about, limit=limit))

    with_app(session, use)


def show_people(output: Output, people: Sequence[Participant], accounts: Sequence[Account]) -> None:
    """Print persons with their accounts."""
    found = persons(people, accounts)
    if output.as_json:
        return output.json(found)
    rows = [
        (
            person.name,
            person.kind,
            person.message_count,
            minute(person.last_seen_at),
            ", ".join(_account_text(account) for account in person.accounts),
        )
        for person in found
    ]
    return output.table(("name", "kind", "messages", "last seen", "accounts"), rows)


def show_accounts(output: Output, accounts: Sequence[Account]) -> None:
    """Print accounts."""
    if output.as_json:
        return output.json(accounts)
    rows = [
        (
            account.platform,
            account.account_id,
            f"{account.persona}{' (bridged)' if account.bridged else ''}",
            account.name,
            account.kind,
            str(account.participant_id),
        )
        for account in accounts
    ]
    return output.table(("platform", "account", "speaks as", "name", "kind", "id"), rows)


def show_log(output: Output, lines: Sequence[AuditLine]) -> None:
    """Print lines of the activity log."""
    if output.as_json:
        return output.json(lines)
    rows = [
        (
            f"{line.at:%Y-%m-%d %H:%M:%S}",
            str(line.viewer_id or "operator"),
            str(line.key_id or "none"),
            line.action,
            line.outcome,
            len(line.subject_ids),
        )
        for line in lines
    ]
    return output.table(("at", "viewer", "key", "action", "outcome", "ids"), rows)


def _account_text(account: Account) -> str:
    return f"{account.platform} {account.account_id} {account.persona}".rstrip()
