"""Verbs that read what was said: rooms, their messages, contexts, finds and answers."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from roomlore.cli.output import Output, dated
from roomlore.cli.session import Session, with_app
from roomlore.context.limits import DEFAULT_BUDGET
from roomlore.domain.words import LAST
from roomlore.operations import App
from roomlore.search.query_parser import NO_FILTERS, PARTICIPANT_KINDS, Filters
from roomlore.search.records import Thread

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


@click.command()
@click.argument("room")
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=30,
    show_default=True,
    help="How many messages, or exchanges.",
)
@click.option("--before", metavar="MESSAGE", help="Only messages before this one, or exchanges that open so.")
@click.option(
    "--exchanges", "by_exchange", is_flag=True, help="Whole exchanges, the one that opened last first."
)
@click.pass_obj
def show(session: Session, room: str, limit: int, before: str | None, *, by_exchange: bool) -> None:
    """Show the newest messages of ROOM: name, id or external id."""

    async def use(app: App) -> None:
        viewer = await session.viewer_in(app)
        if by_exchange:
            show_threads(session.output, await app.exchanges(viewer, room, limit=limit, before=before))
            return
        messages = await app.messages(viewer, room, limit=limit, before=before)
        withheld = await app.wishes.withheld(viewer, [message.id for message in messages])
        session.output.room(room, messages, await app.participants(viewer, room=room), withheld)

    with_app(session, use)


def show_threads(output: Output, exchanges: Sequence[Thread]) -> None:
    """Print exchanges, what was replied set in under what opened them."""
    if output.as_json:
        from roomlore.http.schemas import exchange_said  # noqa: PLC0415  texts do without

        return output.json({"exchanges": [exchange_said(exchange) for exchange in exchanges]})
    for exchange in exchanges:
        opening = exchange.root
        others = [message for message in exchange.messages if message.id != opening.id]
        first, *rest = dated([opening, *others])
        output.text(first, style="bold")
        for line in rest:
            output.text(f"    {line}")
        if exchange.shortened_to is not None:
            output.text(f"    of each text the first {exchange.shortened_to} characters", style="dim")
    return None


PRIVATE = click.option(
    "--private",
    is_flag=True,
    help="All that the viewer may read, not only what everybody in the room may: for their own eyes.",
)


@click.command()
@click.argument("room")
@click.option(
    "--at",
    "trigger",
    metavar="MESSAGE",
    default=LAST,
    show_default=True,
    help="The message to answer.",
)
@click.option(
    "--budget",
    type=click.IntRange(min=1),
    default=DEFAULT_BUDGET,
    show_default=True,
    help="Tokens.",
)
@click.option("--articles", is_flag=True, help="Also read what the messages link to, over the network.")
@click.option("--explain", is_flag=True, help="Also say why each candidate is in or out.")
@PRIVATE
@click.pass_obj
def context(session: Session, room: str, **options: Any) -> None:
    """Print what an agent should read before it answers a message of ROOM, with sources.

    It holds nothing that not everybody in ROOM may read, or of a whisper, not all who hear it.
    """

    async def use(app: App) -> None:
        viewer = await session.viewer_in(app)
        wish = {name: options[name] for name in ("budget", "articles", "private")}
        built = await app.context(viewer, room, options["trigger"], **wish)
        session.output.context(built, explain=options["explain"])

    with_app(session, use)


def filter_options(command: Decorated) -> Decorated:
    """Add the options that say what of the messages to look through."""
    options = (
        click.option(
            "--by",
            multiple=True,
            metavar="WHO",
            help="Only what WHO said: name, account or id, or me. Repeatable: any of them.",
        ),
        click.option(
            "--kind",
            "kinds",
            multiple=True,
            type=click.Choice(PARTICIPANT_KINDS),
            help="Only what such participants said. Repeatable.",
        ),
        click.option(
            "--since",
            metavar="TIME",
            help="Only from then on: 2024-03-05, 2024-03-05T14:30, yesterday, 'last week', '3 days ago'. Days are those of UTC.",
        ),
        click.option("--until", metavar="TIME", help="Only until then; a day, week or month counts whole."),
        click.option(
            "--in",
            "conversation",
            metavar="CONVERSATION",
            help="Only in this conversation: id, or message:ID for the one that a message is in.",
        ),
        click.option(
            "--answered/--unanswered", default=None, help="Only what somebody answered, or nobody. [both]"
        ),
        click.option(
            "--literal",
            is_flag=True,
            help="Look for the question as it stands; do not read out of it who said something and when.",
        ),
        click.option(
            "--near",
            is_flag=True,
            help="Rank higher what you said, what people you talk to most said, and what memories about you rest on.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@click.argument("question", nargs=-1, required=True)
@click.option("--room", metavar="ROOM", help="Only in this room.")
@PRIVATE
@filter_options
@click.option("--like-mine", is_flag=True, help="Only what you asked before and is like QUESTION.")
@click.option(
    "--limit", type=click.IntRange(1, 100), default=10, show_default=True, help="How many exchanges."
)
@click.pass_obj
def search(
    session: Session,
    question: tuple[str, ...],
    room: str | None,
    *,
    like_mine: bool,
    limit: int,
    private: bool,
    **options: Any,
) -> None:
    """Find what was said, as whole exchanges with their sources.

    "What did Ana say last week about the ferry" looks only at what Ana said last week. What was read so is told
    first; --literal switches it off.
    """
    filters = Filters(**options)
    if like_mine and filters != NO_FILTERS:
        raise click.UsageError("--like-mine goes with --room, --private and --limit only")

    async def use(app: App) -> None:
        viewer, words = await session.viewer_in(app), " ".join(question)
        if like_mine:
            found = await app.similar(viewer, words, room=room, limit=limit, private=private)
        else:
            found = await app.search(viewer, words, room=room, filters=filters, limit=limit, private=private)
        session.output.found(found)
        session.output.postable_note(found.postable, room=room)

    with_app(session, use, will_search=True)


@click.command()
@click.argument("question", nargs=-1, required=True)
@click.option("--room", metavar="ROOM", help="Look in this room first.")
@PRIVATE
@filter_options
@click.option("--quote", is_flag=True, help="Quote, also where a language model is configured.")
@click.pass_obj
def ask(
    session: Session,
    question: tuple[str, ...],
    room: str | None,
    *,
    quote: bool,
    private: bool,
    **options: Any,
) -> None:
    """Answer from what was said, with sources, or say that it is not known.

    With --room the answer rests on nothing that not everybody in ROOM may read.
    """

    async def use(app: App) -> None:
        viewer = await session.viewer_in(app)
        filters, words = Filters(**options), " ".join(question)
        answer = await app.ask(viewer, words, room=room, filters=filters, quote=quote, private=private)
        session.output.answer(answer)
        session.output.postable_note(answer.postable, room=room)

    with_app(session, use, will_search=True)
