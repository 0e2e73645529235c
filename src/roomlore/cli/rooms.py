"""Verbs about rooms: list, open, close, rename and delete them, and change their members."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from roomlore.cli.confirmation import (
    DestructiveAction,
    check_answerable,
    destructive_options,
    run_destructive,
)
from roomlore.cli.derived import OperationCommand
from roomlore.cli.output import Output, minute
from roomlore.cli.param_types import TimeType
from roomlore.cli.session import Session, with_app
from roomlore.domain.phrases import count_phrase
from roomlore.domain.words import qualified_room_name
from roomlore.operations import App

if TYPE_CHECKING:
    from roomlore.db.work_queue import PolicyChange
    from roomlore.domain.ids import RoomId
    from roomlore.domain.receipts import Receipt
    from roomlore.domain.records import RoomMember
    from roomlore.operations.rooms import RoomOpening

ALWAYS = "always"


@click.group(invoke_without_command=True)
@click.pass_context
def rooms(ctx: click.Context) -> None:
    """List the rooms, most recently active first; or open, close, rename or delete one, or change its members."""
    if ctx.invoked_subcommand is not None:
        return
    session: Session = ctx.obj

    async def use(app: App) -> None:
        session.output.rooms(await app.rooms(await session.viewer_in(app)))

    with_app(session, use)


@rooms.command("open")
@click.argument("room")
@destructive_options
@click.pass_obj
def open_(session: Session, room: str, *, dry_run: bool, yes: bool) -> None:
    """Let the whole org read ROOM, with its whole history but without whispers.

    Shows how many messages become readable, and asks.
    """
    check_answerable(dry_run=dry_run, yes=yes)

    async def look(app: App) -> RoomOpening:
        return await app.room_admin.open(room, dry_run=True)

    async def execute(app: App, seen: RoomOpening | None) -> RoomOpening:
        return await app.room_admin.open(room if seen is None else str(seen.room_id))

    opening = DestructiveAction(
        preview=look,
        execute=execute,
        lines=lambda seen: [_opening_text(seen)],
        question="People may read it before you close the room again. Open?",
        refusal="nothing was opened",
    )

    async def use(app: App) -> None:
        found = await run_destructive(await session.impersonate(app), opening, dry_run=dry_run, yes=yes)
        session.output.result(found, _opening_text(found))

    with_app(session, use)


@rooms.command(cls=OperationCommand, operation="room_admin.close")
def close(output: Output, room_id: RoomId) -> None:
    """Let only the members of ROOM read it, each of them the messages from their time as a member."""
    output.text(f"only members may read room {room_id}")


@rooms.command(cls=OperationCommand, operation="room_admin.rename")
def rename(output: Output, room_id: RoomId) -> None:
    """Set the NAME of ROOM; later imports do not change it."""
    output.text(f"renamed room {room_id}")


@rooms.command(cls=OperationCommand, operation="room_admin.set_context")
def context(output: Output, room_id: RoomId) -> None:
    """Set the project or issue that ROOM belongs to; without --context, it belongs to none."""
    output.text(f"set the context of room {room_id}")


@rooms.command(cls=OperationCommand, operation="monitoring.set_embedding_policy")
def embedding(output: Output, change: PolicyChange) -> None:
    """Set what ROOM embeds: each message, or only the first message of a thread with the replies to it."""
    dropped, wanted = count_phrase(change.dropped, "vector"), count_phrase(change.wanted, "message")
    output.text(f"{dropped} dropped, {wanted} to be embedded by the worker")


@rooms.command()
@click.argument("room")
@destructive_options
@click.pass_obj
def delete(session: Session, room: str, *, dry_run: bool, yes: bool) -> None:
    """Erase ROOM for good: its messages, everything derived from them, its members and its name. Prints a receipt.

    Later imports do not bring it back.
    """
    check_answerable(dry_run=dry_run, yes=yes)

    async def look(app: App) -> Receipt:
        return await app.erasure.room(room, dry_run=True)

    async def execute(app: App, seen: Receipt | None) -> Receipt:
        return await app.erasure.room(room if seen is None else str(seen.room_id))

    from roomlore.cli.erasure import (  # noqa: PLC0415  a list of rooms needs no receipts
        exit_unless_verified,
        receipt_lines,
        show_receipt,
    )

    erasing = DestructiveAction(preview=look, execute=execute, lines=receipt_lines)

    async def use(app: App) -> Receipt:
        receipt = await run_destructive(await session.impersonate(app), erasing, dry_run=dry_run, yes=yes)
        show_receipt(session.output, receipt)
        return receipt

    exit_unless_verified(with_app(session, use))


@rooms.command()
@click.argument("room")
@click.option("--add", metavar="NAME", help="Make NAME a member from now on.")
@click.option("--remove", metavar="NAME", help="End the membership of NAME, for all their accounts.")
@click.option(
    "--since", metavar=f"TIME|{ALWAYS}", help="With --add: from this time on, UTC; or the whole history."
)
@click.pass_context
def members(ctx: click.Context, room: str, *, add: str | None, remove: str | None, since: str | None) -> None:
    """List the present and past members of ROOM; or add or remove one.

    Later imports do not change a membership that you set here.
    """
    if (add and remove) or (since and not add):
        raise click.UsageError("give --add or --remove, not both; --since goes with --add")
    times: dict[str, Any] = {"always": since == ALWAYS}
    if since and since != ALWAYS:
        moment: datetime = TimeType().convert(since, None, ctx)
        times["since"] = moment
    session: Session = ctx.obj

    async def use(app: App) -> None:
        manage = (await session.impersonate(app)).room_admin
        if add:
            found = await manage.add_member(room, add, **times)
        elif remove:
            found = await manage.remove_member(room, remove)
        else:
            found = await manage.members(room)
        show_members(session.output, found)

    with_app(session, use)


def show_members(output: Output, found: Sequence[RoomMember]) -> None:
    """Print the present and past members of a room."""
    if output.as_json:
        return output.json(found)
    known = {"platform": "the platform", "wrote": "a message there", "operator": "an operator"}
    rows = [
        (
            one.name,
            one.kind,
            minute(one.joined_at) or ALWAYS,
            minute(one.left_at),
            known[one.known_by],
            str(one.participant_id),
        )
        for one in found
    ]
    return output.table(("name", "kind", "from", "to", "known by", "id"), rows)


def _opening_text(opening: RoomOpening) -> str:
    name = qualified_room_name(opening.workspace, opening.name)
    if not opening.messages:
        return f"{name}: nothing more became readable"
    verb = "would become readable" if opening.is_dry_run else "became readable"
    return f"{name}: {count_phrase(opening.messages, 'message')} {verb} to everybody in the org"
