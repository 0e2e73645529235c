"""Verbs about participants, their accounts, and the audit log."""

from collections.abc import Sequence

import click

from roomlore.cli.derived import OperationCommand
from roomlore.cli.output import Output, minute
from roomlore.cli.session import Session, with_app
from roomlore.domain.phrases import count_phrase
from roomlore.domain.records import Account, AuditLine, Participant
from roomlore.operations import App
from roomlore.operations.responses import person_responses


@click.command()
@click.argument("name", required=False)
@click.pass_obj
def people(session: Session, name: str | None) -> None:
    """List the participants; or the accounts of NAME: a name, an account, or the start of an id."""

    async def use(app: App) -> None:
        viewer = await session.viewer_in(app)
        accounts = await app.people.accounts(viewer, name)
        if name is None:
            show_people(session.output, await app.participants(viewer), accounts)
        elif session.output.as_json:
            session.output.json(accounts)
        else:
            show_accounts(session.output, accounts)

    with_app(session, use)


@click.command(cls=OperationCommand, operation="people.merge")
def merge(output: Output, accounts: Sequence[Account]) -> None:
    """Make ONE and OTHER accounts of one person, who may then read what either of them may."""
    output.chatter.print(f"one person with {count_phrase(len(accounts), 'account')}")
    show_accounts(output, accounts)


@click.command(cls=OperationCommand, operation="people.split")
def split(output: Output, others: Sequence[Account]) -> None:
    """Separate ACCOUNT from the person it was merged with, and list the other accounts of that person."""
    output.chatter.print(f"separated from {count_phrase(len(others), 'account')}")
    show_accounts(output, others)


@click.command("audit-log")
@click.option(
    "--about", metavar="ID", help="Only entries that name this id, or an id that begins or ends so."
)
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many at most."
)
@click.pass_obj
def audit_log(session: Session, about: str | None, limit: int) -> None:
    """Show who read or changed what, newest first: keys, viewers and ids, never message text."""

    async def use(app: App) -> None:
        lines = await app.log(await session.viewer_in(app), subject=about, limit=limit)
        if session.output.as_json:
            session.output.json(lines)
        else:
            show_audit_log(session.output, lines)

    with_app(session, use)


def show_people(output: Output, people: Sequence[Participant], accounts: Sequence[Account]) -> None:
    """Print participants with their accounts."""
    found = person_responses(people, accounts)
    if output.as_json:
        return output.json(found)
    rows = [
        (
            person.name,
            person.kind,
            person.message_count,
            minute(person.last_seen_at),
            ", ".join(f"{one.platform} {one.account_id} {one.persona}".rstrip() for one in person.accounts),
        )
        for person in found
    ]
    return output.table(("name", "kind", "messages", "last seen", "accounts"), rows)


def show_accounts(output: Output, accounts: Sequence[Account]) -> None:
    """Print accounts."""
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
    output.table(("platform", "account", "persona", "name", "kind", "id"), rows)


def show_audit_log(output: Output, lines: Sequence[AuditLine]) -> None:
    """Print entries of the audit log."""
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
    output.table(("at", "viewer", "key", "action", "outcome", "ids"), rows)
