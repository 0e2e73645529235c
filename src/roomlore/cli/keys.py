"""Verbs about API keys."""

from collections.abc import Sequence
from datetime import UTC, datetime

import click

from roomlore.cli.derived import OperationCommand
from roomlore.cli.output import Output, minute
from roomlore.domain.ids import KeyId, short_id, short_ids
from roomlore.domain.records import ApiKey
from roomlore.operations.keys import NewKey


@click.group()
def keys() -> None:
    """Create, list and revoke API keys."""


@keys.command(
    cls=OperationCommand, operation="keys.create", spellings={"role": "--role", "lasts": "--valid-for"}
)
def create(output: Output, made: NewKey) -> None:
    """Create a key for an operator, an agent or a member.

    The key is shown only now. With --text nothing else is on standard output, so that a script can capture it.
    """
    until = minute(made.expires_at)
    output.chatter.print(
        f"key {short_id(made.id)}, valid {f'until {until} UTC' if until else 'until revoked'}; it is not shown again",
        soft_wrap=True,
    )
    output.text(made.key)


@keys.command("list", cls=OperationCommand, operation="keys.all")
def list_(output: Output, keys: Sequence[ApiKey]) -> None:
    """List every key, newest first, without the secrets."""
    short, now = short_ids(key.id for key in keys), datetime.now(UTC)
    rows = [(short[key.id], _state(key, now), key.role, key.name, key.participant_name or "") for key in keys]
    output.table(("id", "state", "role", "name", "reads as"), rows)


@keys.command(cls=OperationCommand, operation="keys.revoke", spellings={"key": "ID"})
def revoke(output: Output, key_id: KeyId) -> None:
    """Revoke the key with this ID, as `keys list` shows it."""
    output.text(f"revoked {key_id}")


def _state(key: ApiKey, now: datetime) -> str:
    if key.revoked_at is not None:
        return f"revoked {minute(key.revoked_at)}"
    if key.expires_at is None:
        return "valid"
    return f"{'valid until' if now < key.expires_at else 'expired'} {minute(key.expires_at)}"
