"""Verbs about keys: who may come in, and with whose eyes they then read."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click

from roomlore.cli.output import Output, minute
from roomlore.cli.param_types import SpanType
from roomlore.cli.session import Session, with_app
from roomlore.domain.ids import short_id, short_ids
from roomlore.domain.records import RIGHTS, ApiKey, Role
from roomlore.operations import App
from roomlore.operations.keys import NewKey


@click.group()
def keys() -> None:
    """Make, list and revoke keys, which let others in."""


@keys.command()
@click.option(
    "--role", type=click.Choice(list(RIGHTS)), required=True, help="What the key lets its holder do."
)
@click.option("--name", required=True, metavar="WHAT", help="What it is for, to tell keys apart.")
@click.option(
    "--for",
    "participant",
    metavar="NAME",
    help="With whose eyes an agent or member reads: name, account or id.",
)
@click.option(
    "--lasts", type=SpanType(), metavar="SPAN", help="How long it is valid: 90d, 12h. [without an end]"
)
@click.pass_obj
def new(session: Session, role: Role, **options: Any) -> None:
    """Make a key.

    It is printed this once: alone with --text, so that it can be captured.
    """

    async def use(app: App) -> None:
        acting = await session.acting(app)
        show_new(session.output, await acting.keys.make(role, **options))

    with_app(session, use)


@keys.command("list")
@click.pass_obj
def list_(session: Session) -> None:
    """List every key, newest first.

    Never the keys themselves, but what is kept of them.
    """

    async def use(app: App) -> None:
        acting = await session.acting(app)
        show_keys(session.output, await acting.keys.all(), now=datetime.now(UTC))

    with_app(session, use)


@keys.command()
@click.argument("key_id", metavar="ID")
@click.pass_obj
def revoke(session: Session, key_id: str) -> None:
    """Make a key invalid from now on.

    ID is what the list shows.
    """

    async def use(app: App) -> None:
        acting = await session.acting(app)
        revoked = await acting.keys.revoke(key_id)
        if session.output.as_json:
            session.output.json({"revoked": revoked})
        else:
            session.output.text(f"revoked {revoked}")

    with_app(session, use)


def show_new(output: Output, made: NewKey) -> None:
    """Print a key, this once."""
    if output.as_json:
        return output.json(made)
    until = minute(made.expires_at)
    output.chatter.print(
        f"key {short_id(made.id)}, valid {f'until {until} UTC' if until else 'until revoked'}; it is not shown again",
        soft_wrap=True,
    )
    return output.text(made.key)


def show_keys(output: Output, keys: Sequence[ApiKey], *, now: datetime) -> None:
    """Print what is kept of keys."""
    if output.as_json:
        return output.json(keys)
    short = short_ids(key.id for key in keys)
    rows = [(short[key.id], _state(key, now), key.role, key.name, key.participant_name or "") for key in keys]
    return output.table(("id", "state", "role", "name", "reads as"), rows)


def _state(key: ApiKey, now: datetime) -> str:
    if key.revoked_at is not None:
        return f"revoked {minute(key.revoked_at)}"
    if key.expires_at is None:
        return "valid"
    return f"{'valid until' if now < key.expires_at else 'expired'} {minute(key.expires_at)}"
