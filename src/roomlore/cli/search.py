"""Verbs that read rooms: messages, context for a reply, search and answers."""

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
    help="How many messages, or threads.",
)
@click.option(
    "--before", metavar="MESSAGE", help="Only messages before this one, or threads that start before it."
)
@click.option(
    "--threads", "by_thread", is_flag=True, help="Whole threads; the one that started last comes first."
)
@click.pass_obj
def messages(session: Session, room: str, limit: int, before: str | None, *, by_thread: bool) -> None:
    """Show the newest messages of ROOM: a name, id or external id."""

    async def use(app: App) -> None:
        viewer = await session.viewer_in(app)
        if by_thread:
            show_threads(session.output, await app.threads(viewer, room, limit=limit, before=before))
            return
        found = await app.messages(viewer, room, limit=limit, before=before)
        restricted = await app.privacy_requests.restrictions_on(viewer, [message.id for message in found])
        session.output.room(room, found, await app.participants(viewer, room=room), restricted)

    with_app(session, use)


def show_threads(output: Output, threads: Sequence[Thread]) -> None:
    """Print threads, with the replies indented below the first message."""
    if output.as_json:
        from roomlore.operations.responses import thread_response  # noqa: PLC0415  text output does not need it

        return output.json({"threads": [thread_response(thread) for thread in threads]})
    for thread in threads:
        replies = [message for message in thread.messages if message.id != thread.root.id]
        first, *rest = dated([thread.root, *replies])
        output.text(first, style="bold")
        for line in rest:
            output.text(f"    {line}")
        if thread.shortened_to is not None:
            output.text(f"    the first {thread.shortened_to} characters of each text", style="dim")
    return None


PRIVATE = click.option(
    "--private",
    is_flag=True,
    help="Everything that the viewer may read, not only what everybody in the room may: do not post it.",
)


@click.command()
@click.argument("room")
@click.option(
    "--at", "trigger", metavar="MESSAGE", default=LAST, show_default=True, help="The message to answer."
)
@click.option(
    "--budget", type=click.IntRange(min=1), default=DEFAULT_BUDGET, show_default=True, help="Tokens."
)
@click.option(
    "--articles", is_flag=True, help="Also fetch the pages that the messages link to, over the network."
)
@click.option("--explain", is_flag=True, help="Also say why each candidate is in or out.")
@PRIVATE
@click.pass_obj
def context(session: Session, room: str, *, explain: bool, **options: Any) -> None:
    """Print the context that an agent needs to answer a message of ROOM, with sources.

    Everybody in ROOM may read all of it; for a whisper, all its recipients may.
    """

    async def use(app: App) -> None:
        viewer = await session.viewer_in(app)
        built = await app.context(viewer, room, **options)
        session.output.context(built, explain=explain)

    with_app(session, use)


def filter_options(command: Decorated) -> Decorated:
    """Add the options that filter messages."""
    options = (
        click.option(
            "--by",
            multiple=True,
            metavar="WHO",
            help="Only messages by WHO: a name, account or id, or me. Repeatable.",
        ),
        click.option(
            "--kind",
            "kinds",
            multiple=True,
            type=click.Choice(PARTICIPANT_KINDS),
            help="Only messages by such participants. Repeatable.",
        ),
        click.option(
            "--since",
            metavar="TIME",
            help="From this time on, UTC: 2024-03-05, 2024-03-05T14:30, yesterday, 'last week', '3 days ago'.",
        ),
        click.option(
            "--until", metavar="TIME", help="Up to this time; a day, week or month includes its end."
        ),
        click.option(
            "--in",
            "conversation",
            metavar="CONVERSATION",
            help="Only in this conversation: an id, or message:ID for the conversation of a message.",
        ),
        click.option(
            "--answered/--unanswered",
            default=None,
            help="Only messages with replies, or questions without. [all]",
        ),
        click.option(
            "--literal",
            is_flag=True,
            help="Search for exactly these words; do not take names and times in the question as filters.",
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
@click.option(
    "--like-mine", is_flag=True, help="Only earlier questions of yours that are similar to QUESTION."
)
@click.option(
    "--limit", type=click.IntRange(1, 100), default=10, show_default=True, help="How many threads at most."
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
    """Search messages; results are whole threads with sources.

    "What did Ana say last week about the ferry" searches only messages that Ana wrote last week. The first line of the
    result says how the question was understood; --literal turns this off.
    """
    filters = Filters(**options)
    if like_mine and filters != NO_FILTERS:
        raise click.UsageError("--like-mine goes only with --room, --private and --limit")

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
@click.option(
    "--extractive", is_flag=True, help="Answer with quotes, even if a language model is configured."
)
@click.pass_obj
def ask(
    session: Session,
    question: tuple[str, ...],
    room: str | None,
    *,
    extractive: bool,
    private: bool,
    **options: Any,
) -> None:
    """Answer a question from messages and memories, with sources, or say that the answer is not known.

    With --room, the answer uses only what everybody in ROOM may read.
    """

    async def use(app: App) -> None:
        viewer = await session.viewer_in(app)
        filters, words = Filters(**options), " ".join(question)
        answer = await app.ask(viewer, words, room=room, filters=filters, quote=extractive, private=private)
        session.output.answer(answer)
        session.output.postable_note(answer.postable, room=room)

    with_app(session, use, will_search=True)
