"""Verbs about requests that were spoken in rooms: what is heard, what it keeps from whom, and what is to become of it."""

from collections.abc import Mapping, Sequence
from typing import get_args

import click

from roomlore.cli.output import Output
from roomlore.cli.session import Session, with_app
from roomlore.domain.ids import short_ids
from roomlore.domain.phrases import count_phrase
from roomlore.domain.rendering import as_one_line, safe_name
from roomlore.operations import App
from roomlore.operations.privacy import PrivacyRequestView, RequestMode, RequestStatus

#: What hears most wishes; anything else is named.
RULES = "rules"
#: What each mode does with the requests that are heard.
MODE_TEXTS: Mapping[RequestMode, str] = {
    "on": "plain requests are carried out, the others proposed",
    "propose": "requests are proposed, and none carried out unasked",
    "off": "no request is heard, and nothing is withheld",
}
#: Of each wish so many of the messages it covers are shown.
SHOWN = 5


@click.group(invoke_without_command=True)
@click.option("--room", help="Only those voiced in this room.")
@click.option("--status", type=click.Choice(get_args(RequestStatus)), help="Only those of which this became.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many wishes."
)
@click.pass_context
def wishes(context: click.Context, room: str | None, status: RequestStatus | None, limit: int) -> None:
    """List the requests heard in rooms, newest first, with what they cover and for whom.

    Everybody sees their own, an operator all of them. Those that are proposed hide nothing until their author or an
    operator accepts them.
    """
    if context.invoked_subcommand is not None:
        return
    session: Session = context.obj

    async def use(app: App) -> None:
        viewer = await session.viewer_in(app)
        show_requests(session.output, await app.wishes.all(viewer, room=room, status=status, limit=limit))

    with_app(session, use)


@wishes.command()
@click.argument("wish")
@click.pass_obj
def accept(session: Session, wish: str) -> None:
    """Carry WISH out, which was proposed, or dismissed before."""

    async def use(app: App) -> None:
        accepted = await (await session.acting(app)).wishes.accept(wish)
        session.output.chatter.print("carried out")
        show_requests(session.output, [accepted])

    with_app(session, use)


@wishes.command()
@click.argument("wish")
@click.pass_obj
def dismiss(session: Session, wish: str) -> None:
    """Let WISH not count: what it covered is recalled again."""

    async def use(app: App) -> None:
        dismissed = await (await session.acting(app)).wishes.dismiss(wish)
        session.output.chatter.print("dismissed")
        show_requests(session.output, [dismissed])

    with_app(session, use)


@wishes.command()
@click.argument("mode", required=False, type=click.Choice(list(MODE_TEXTS)))
@click.pass_obj
def mode(session: Session, mode: RequestMode | None) -> None:
    """Print what becomes of the requests that are heard, or set it: on, propose, off.

    on carries plain requests out and proposes the others; propose proposes all that are heard from now on; off hears
    none, and what was withheld is recalled, until it is on or propose again. For operators.
    """

    async def use(app: App) -> None:
        acting = await session.acting(app)
        now = await acting.wishes.mode() if mode is None else await acting.wishes.set_mode(mode)
        if session.output.as_json:
            session.output.json({"mode": now})
        else:
            session.output.text(f"{now}: {MODE_TEXTS[now]}")

    with_app(session, use)


def show_requests(output: Output, found: Sequence[PrivacyRequestView]) -> None:
    """Print wishes: what each means first, then who voiced it, then what it covers."""
    if output.as_json:
        return output.json(found)
    if not found:
        output.text("no wish was heard", style="dim")
    short = short_ids(wish.id for wish in found)
    for wish in found:
        when = "" if wish.said_at is None else f" {wish.said_at:%Y-%m-%d %H:%M}"
        heard = "" if wish.heard_by == RULES else f", heard by {safe_name(wish.heard_by)}"
        output.text(f"{short[wish.id]} ({_status_text(wish)}{request_text(wish)}{heard})")
        said = f"[{safe_name(wish.author_name)}]: {as_one_line(wish.body)}"
        who = "by somebody who is gone" if wish.message_id is None else said
        output.text(f"  {safe_name(wish.room_name)}{when} {who}")
        if wish.status == "proposed":
            output.text(
                f"  proposed, since {wish.doubt or 'the mode is propose'}: accept or dismiss it",
                style="yellow",
            )
        covered = [one for one in wish.covers if one.id != wish.message_id]
        if covered:
            covers = "would cover" if wish.status == "proposed" else "covers"
            output.text(f"  {covers} {count_phrase(len(covered), 'other message')}", style="dim")
        for one in covered[:SHOWN]:
            text = as_one_line(one.body)
            output.text(f"    {one.sent_at:%Y-%m-%d} [{safe_name(one.author_name)}]: {text}", style="dim")
    return None


def _status_text(wish: PrivacyRequestView) -> str:
    """Return in words whether a wish counts, where it does not."""
    if wish.status == "proposed":
        return "proposed, hides nothing; "
    when = "" if wish.decided_at is None else f" {wish.decided_at:%Y-%m-%d}"
    return f"dismissed{when}; " if wish.status == "dismissed" else ""


def request_text(wish: PrivacyRequestView) -> str:
    """Return in words what a wish means."""
    if wish.kind == "forget":
        return "forgotten: shown to nobody"
    if wish.kind == "confide":
        return f"off the record: shown to {_joined(wish.spared_names)} only"
    about = f", but {_joined(wish.permits)}" if wish.permits else ""
    about = f": what is about {_joined(wish.denies)}" if wish.denies else about
    return f"kept from {_joined(wish.from_names or ())}{about}"


def _joined(words: Sequence[str]) -> str:
    return ", ".join(safe_name(word) for word in words) or "nobody"
