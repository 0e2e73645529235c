"""Verbs about wishes that were spoken in rooms: what is heard, and what it keeps from whom."""

from collections.abc import Sequence

import click

from roomlore.app import App
from roomlore.app.wishes import SpokenWish
from roomlore.domain.speech import on_one_line, safe_name
from roomlore.domain.wording import counted
from roomlore.surfaces.cli.output import Output
from roomlore.surfaces.cli.session import Session, with_app

#: What hears most wishes; anything else is named.
RULES = "rules"
#: Of each wish so many of the messages it covers are shown.
SHOWN = 5


@click.group(invoke_without_command=True)
@click.option("--room", help="Only those voiced in this room.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many wishes."
)
@click.pass_context
def wishes(context: click.Context, room: str | None, limit: int) -> None:
    """List the wishes heard in rooms, newest first, with what they cover and for whom.

    Everybody sees their own, an operator all of them.
    """
    if context.invoked_subcommand is not None:
        return
    session: Session = context.obj

    async def use(app: App) -> None:
        viewer = await session.viewed_by(app)
        show_wishes(session.output, await app.wishes.all(viewer, room=room, limit=limit))

    with_app(session, use)


@wishes.command()
@click.argument("wish")
@click.pass_obj
def undo(session: Session, wish: str) -> None:
    """Let WISH count no more, so that what it covered is recalled again."""

    async def use(app: App) -> None:
        undone = await (await session.acting(app)).wishes.undo(wish)
        session.output.chatter.print("undone")
        show_wishes(session.output, [undone])

    with_app(session, use)


@wishes.command()
@click.argument("wish")
@click.pass_obj
def keep(session: Session, wish: str) -> None:
    """Let WISH count again, after it was undone."""

    async def use(app: App) -> None:
        kept = await (await session.acting(app)).wishes.keep(wish)
        session.output.chatter.print("counts again")
        show_wishes(session.output, [kept])

    with_app(session, use)


def show_wishes(output: Output, found: Sequence[SpokenWish]) -> None:
    """Print wishes: what each means first, then who voiced it, then what it covers."""
    if output.as_json:
        return output.json(found)
    if not found:
        output.text("no wish was heard", style="dim")
    for wish in found:
        when = "" if wish.said_at is None else f" {wish.said_at:%Y-%m-%d %H:%M}"
        undone = "" if wish.undone_at is None else f", undone {wish.undone_at:%Y-%m-%d}"
        heard = "" if wish.heard_by == RULES else f", heard by {safe_name(wish.heard_by)}"
        output.text(f"{wish.id} ({meaning(wish)}{heard}{undone})")
        said = f"[{safe_name(wish.author_name)}]: {on_one_line(wish.body)}"
        who = "by somebody who is gone" if wish.message_id is None else said
        output.text(f"  {safe_name(wish.room_name)}{when} {who}")
        covered = [one for one in wish.covers if one.id != wish.message_id]
        if covered:
            output.text(f"  covers {counted(len(covered), 'other message')}", style="dim")
        for one in covered[:SHOWN]:
            text = on_one_line(one.body)
            output.text(f"    {one.sent_at:%Y-%m-%d} [{safe_name(one.author_name)}]: {text}", style="dim")
    return None


def meaning(wish: SpokenWish) -> str:
    """Return in words what a wish means."""
    if wish.kind == "forget":
        return "forgotten: shown to nobody"
    if wish.kind == "confide":
        return f"off the record: shown to {_list(wish.spared_names)} only"
    about = f", but {_list(wish.permits)}" if wish.permits else ""
    about = f": what is about {_list(wish.denies)}" if wish.denies else about
    return f"kept from {_list(wish.from_names or ())}{about}"


def _list(words: Sequence[str]) -> str:
    return ", ".join(safe_name(word) for word in words) or "nobody"


VERBS = (wishes,)
