"""How long a room keeps what was said in it."""

from collections.abc import Sequence
from datetime import timedelta

import click

from roomlore.cli.confirmation import (
    DestructiveAction,
    check_answerable,
    destructive_options,
    run_destructive,
)
from roomlore.cli.output import minute, retention
from roomlore.cli.param_types import SpanType
from roomlore.cli.session import Session, with_app
from roomlore.domain.phrases import count_phrase
from roomlore.domain.retention import RetentionChange
from roomlore.operations import App

FOREVER = "forever"


@click.command()
@click.argument("room")
@click.argument("span", metavar=f"90d|12h|4w|{FOREVER}")
@destructive_options
@click.pass_context
def keep(ctx: click.Context, room: str, span: str, **options: bool) -> None:
    """Say how long ROOM keeps what was said; the worker erases what is older.

    A shorter time than before begins after a day, and until then `keep ROOM forever` takes it back.
    """
    session: Session = ctx.obj
    keep_for = None if span == FOREVER else SpanType(minutes=False).convert(span, None, ctx)

    async def use(app: App) -> RetentionChange:
        return await _set_retention(await session.acting(app), room, keep_for, **options)

    told = with_app(session, use)
    if session.output.as_json:
        session.output.json(told)
    else:
        for line in lines(room, told):
            session.output.text(line)


async def _set_retention(app: App, room: str, keep_for: timedelta | None, **options: bool) -> RetentionChange:
    seen = await app.erasure.keep(room, keep_for, dry_run=True)
    # Whoever keeps more than before destroys nothing, and is not asked.
    if seen.starts_at is None and not options["dry_run"]:
        return await app.erasure.keep(room, keep_for)
    check_answerable(**options)

    async def look(_app: App) -> RetentionChange:
        return seen

    async def destroy(app: App, _seen: RetentionChange | None) -> RetentionChange:
        return await app.erasure.keep(str(seen.room_id), keep_for)

    shortening = DestructiveAction(
        preview=look,
        execute=destroy,
        lines=lambda seen: lines(room, seen),
        question="Keep no more than that?",
        refusal="the room keeps what it kept before",
    )
    return await run_destructive(app, shortening, **options)


def lines(room: str, told: RetentionChange) -> Sequence[str]:
    """Return how long a room keeps what was said, when that begins, and what goes for it."""
    head = "dry run, nothing was changed" if told.is_dry_run else None
    span = retention(told.keep_for, told.starts_at)
    kept = f"{room} keeps what was said {span if told.keep_for is None else f'for {span}'}"
    gone = f"  goes    {count_phrase(told.messages, 'message')}"
    if told.oldest_at is not None and told.newest_at is not None:
        gone += f", sent from {minute(told.oldest_at)} to {minute(told.newest_at)} UTC"
    back = None
    if told.starts_at is not None and not told.is_dry_run:
        back = f"  until then `roomlore keep {room} {FOREVER}` takes this back"
    told_of = gone if told.messages or told.starts_at is not None else None
    return [line for line in (head, kept, told_of, back) if line is not None]
