"""Verbs about rooms: which there are, who may read one, what it is called, who its members are, and that it goes."""

from __future__ import annotations

import sys
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
from roomlore.cli.output import Output, minute
from roomlore.cli.param_types import TIME, in_utc
from roomlore.cli.session import Session, with_app
from roomlore.domain.phrases import count_phrase
from roomlore.domain.words import qualified_room_name
from roomlore.operations import App

if TYPE_CHECKING:
    from roomlore.domain.receipts import Receipt
    from roomlore.domain.records import RoomMember
    from roomlore.operations.rooms import RoomOpening

ALWAYS = "always"


@click.group(invoke_without_command=True)
@click.pass_context
def rooms(ctx: click.Context) -> None:
    """List the rooms, most recently active first; or open, close, rename or delete one, or see to its members."""
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
    """Let the whole org read ROOM: all that was said in it, but for whispers.

    Says how many messages that are, and asks.
    """
    check_answerable(dry_run=dry_run, yes=yes)

    async def look(app: App) -> RoomOpening:
        return await app.room_management.open(room, dry_run=True)

    async def carry(app: App, seen: RoomOpening | None) -> RoomOpening:
        return await app.room_management.open(room if seen is None else str(seen.room_id))

    opening = DestructiveAction(
        preview=look,
        execute=carry,
        lines=lambda seen: [_opening_text(seen)],
        question="What was read cannot be taken back. Open?",
        refusal="nothing was opened",
    )

    async def use(app: App) -> None:
        acting = await session.acting(app)
        found = await run_destructive(acting, opening, dry_run=dry_run, yes=yes)
        session.output.json(found) if session.output.as_json else session.output.text(_opening_text(found))

    with_app(session, use)


@rooms.command()
@click.argument("room")
@click.pass_obj
def close(session: Session, room: str) -> None:
    """Let only its members read ROOM: each what was said while they were there."""

    async def use(app: App) -> None:
        room_id = await (await session.acting(app)).room_management.close(room)
        _done(session.output, {"closed": room_id}, f"{room} is for its members")

    with_app(session, use)


@rooms.command()
@click.argument("room")
@click.argument("name")
@click.pass_obj
def rename(session: Session, room: str, name: str) -> None:
    """Call ROOM by another NAME, which stays whatever later imports call it."""

    async def use(app: App) -> None:
        room_id = await (await session.acting(app)).room_management.rename(room, name)
        _done(session.output, {"renamed": room_id, "name": name}, f"{room} is called {name}")

    with_app(session, use)


@rooms.command()
@click.argument("room")
@destructive_options
@click.pass_obj
def delete(session: Session, room: str, *, dry_run: bool, yes: bool) -> None:
    """Erase ROOM whole: all that was said in it and made of it, its members and its name. Ends with a receipt.

    Nothing of it is taken in again, whatever is imported.
    """
    check_answerable(dry_run=dry_run, yes=yes)

    async def look(app: App) -> Receipt:
        return await app.erasure.room(room, dry_run=True)

    async def carry(app: App, seen: Receipt | None) -> Receipt:
        return await app.erasure.room(room if seen is None else str(seen.room_id))

    from roomlore.cli.erasure import lines, show_receipt  # noqa: PLC0415  listing rooms takes no receipts

    erasing = DestructiveAction(preview=look, execute=carry, lines=lines)

    async def use(app: App) -> Receipt:
        receipt = await run_destructive(await session.acting(app), erasing, dry_run=dry_run, yes=yes)
        show_receipt(session.output, receipt)
        return receipt

    receipt = with_app(session, use)
    if not (dry_run or receipt.is_clean):
        sys.exit(1)


@rooms.command()
@click.argument("room")
@click.option("--add", metavar="NAME", help="Make NAME a member from now on.")
@click.option("--remove", metavar="NAME", help="End the membership of NAME, by all their accounts.")
@click.option(
    "--since",
    metavar=f"TIME|{ALWAYS}",
    help="With --add: from this time on, UTC; or all that was ever said.",
)
@click.pass_context
def members(ctx: click.Context, room: str, *, add: str | None, remove: str | None, since: str | None) -> None:
    """List who is and was a member of ROOM, from when to when; or add and remove one.

    What is said here of somebody stays, whatever lists later imports bring.
    """
    if (add and remove) or (since and not add):
        raise click.UsageError("--add or --remove, not both; --since goes with --add")
    times: dict[str, Any] = {"always": since == ALWAYS}
    if since and since != ALWAYS:
        moment: datetime = TIME.convert(since, None, ctx)
        times["since"] = in_utc(moment)
    session: Session = ctx.obj

    async def use(app: App) -> None:
        manage = (await session.acting(app)).room_management
        if add:
            found = await manage.add_member(room, add, **times)
        elif remove:
            found = await manage.remove_member(room, remove)
        else:
            found = await manage.members(room)
        show_members(session.output, found)

    with_app(session, use)


def show_members(output: Output, found: Sequence[RoomMember]) -> None:
    """Print who is and was a member of a room."""
    if output.as_json:
        return output.json(found)
    known = {"platform": "listed by the platform", "wrote": "wrote there", "operator": "an operator"}
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
    named = qualified_room_name(opening.workspace, opening.name)
    if not opening.messages:
        return f"{named}: nothing more is readable than before"
    verb = "would become readable" if opening.is_dry_run else "became readable"
    return f"{named}: {count_phrase(opening.messages, 'message')} {verb} to everybody in the org"


def _done(output: Output, document: dict[str, Any], text: str) -> None:
    if output.as_json:
        output.json(document)
    else:
        output.text(text)
