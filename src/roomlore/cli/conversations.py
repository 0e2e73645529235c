"""Verbs about conversations: list and read them, and put right what is in which."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from roomlore.cli.output import Output, minute
from roomlore.cli.session import Session, with_app
from roomlore.domain.ids import MessageId, short_id, short_ids
from roomlore.domain.phrases import count_phrase
from roomlore.domain.records import AssignedMessage, Conversation, Sensitivity
from roomlore.domain.rendering import as_one_line, render_message, safe_body, safe_name
from roomlore.http.schemas import conversation_read
from roomlore.operations import App
from roomlore.operations.conversations import SENSITIVITIES, shown_conversation

NO_LABEL = "(no label)"
#: Of those who take part, so many are named.
MAX_TALKERS = 3
#: What the platform does not say itself.
INFERRED_METHODS = frozenset({"mention", "inferred"})
SPLIT_REASONS = {
    "first": "nothing was said before",
    "silence": "nobody had spoken for long",
    "topic": "another topic",
    "person": "put together by hand",
}


@click.command("conversations")
@click.argument("room", required=False)
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    help="How many conversations.",
)
@click.pass_obj
def list_(session: Session, room: str | None, limit: int) -> None:
    """List conversations, newest first: of ROOM, or everywhere."""

    async def use(app: App) -> None:
        found = await app.conversations.all(await session.viewer_in(app), room, limit=limit)
        show_conversations(session.output, found, now=datetime.now(UTC))

    with_app(session, use)


@click.group()
def conversation() -> None:
    """Read a conversation, or put right what is in it.

    ID is that of a conversation or its beginning, or message:MESSAGE for the one that a message is in.
    """


@conversation.command()
@click.argument("id_", metavar="ID")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=1_000, show_default=True, help="How many messages."
)
@click.pass_obj
def show(session: Session, id_: str, limit: int) -> None:
    """Show what was said in it, and who answers whom."""

    async def use(app: App) -> None:
        found, said = await app.conversations.read(await session.viewer_in(app), id_, limit=limit)
        show_conversation(session.output, found, said, now=datetime.now(UTC))

    with_app(session, use)


@conversation.command()
@click.argument("message")
@click.argument("id_", metavar="ID")
@click.pass_obj
def move(session: Session, message: str, id_: str) -> None:
    """Put MESSAGE, and with it what answers it, into conversation ID."""
    _change(session, lambda app: app.conversations.move(message, id_))


@conversation.command()
@click.argument("messages", nargs=-1, required=True, metavar="MESSAGE...")
@click.option("--label", default="", metavar="WORDS", help="What it is called. [found like others]")
@click.option("--room", metavar="ROOM", help="Where the messages are.")
@click.pass_obj
def split(session: Session, messages: Sequence[str], **options: Any) -> None:
    """Make a conversation of each MESSAGE, and of what answers it."""
    _change(session, lambda app: app.conversations.split(messages, **options))


@conversation.command()
@click.argument("one")
@click.argument("other")
@click.pass_obj
def merge(session: Session, one: str, other: str) -> None:
    """Put everything of OTHER into ONE; OTHER is gone."""
    _change(session, lambda app: app.conversations.merge(one, other))


@conversation.command()
@click.argument("id_", metavar="ID")
@click.argument("label")
@click.pass_obj
def rename(session: Session, id_: str, label: str) -> None:
    """Call conversation ID LABEL; with "" it is called as found again."""
    _change(session, lambda app: app.conversations.rename(id_, label))


@conversation.command()
@click.argument("id_", metavar="ID")
@click.argument("sensitivity", type=click.Choice(SENSITIVITIES))
@click.pass_obj
def mark(session: Session, id_: str, sensitivity: Sensitivity) -> None:
    """Say how sensitive conversation ID is.

    A sensitive one is only for those who were members of its room when it was said, and those who spoke in it. Operators
    say so, and whoever has spoken in it.
    """
    _change(session, lambda app: app.conversations.mark(id_, sensitivity))


@conversation.command()
@click.argument("id_", metavar="ID")
@click.pass_obj
def close(session: Session, id_: str) -> None:
    """Say that conversation ID is over, so that memories are drawn from it; what is said later opens it again."""
    _change(session, lambda app: app.conversations.close(id_))


def _change(session: Session, change: Callable[[App], Awaitable[Conversation]]) -> None:
    async def use(app: App) -> None:
        changed = await change(await session.acting(app))
        if session.output.as_json:
            session.output.json(shown_conversation(changed))
        else:
            show_heading(session.output, changed, now=datetime.now(UTC))

    with_app(session, use)


def show_conversations(output: Output, found: Sequence[Conversation], *, now: datetime) -> None:
    """Print conversations."""
    if output.as_json:
        return output.json([shown_conversation(one) for one in found])
    short = short_ids(one.id for one in found)
    headings = ("conversation", "id", "who", "messages", "opened", "last", "state", "boundary")
    rows = [
        (
            _label(one),
            short[one.id],
            _talkers(one),
            one.message_count,
            minute(one.opened_at),
            minute(one.last_at),
            _state(one, now),
            one.boundary or "",
        )
        for one in found
    ]
    return output.table(headings, rows) if found else output.text("no conversations")


def show_conversation(
    output: Output, found: Conversation, said: Sequence[AssignedMessage], *, now: datetime
) -> None:
    """Print a conversation: what was said in it, each message with the one that it answers."""
    if output.as_json:
        return output.json(conversation_read(found, said))
    show_heading(output, found, now=now)
    left_out = found.message_count - len(said)
    if left_out > 0:
        output.text(f"  {count_phrase(left_out, 'earlier message')} left out", style="dim")
    numbers = {one.message.id: number for number, one in enumerate(said, start=left_out + 1)}
    for one in said:
        output.text(_line(one, numbers))
    return None


def show_heading(output: Output, one: Conversation, *, now: datetime) -> None:
    """Print what tells a conversation apart, its id first, so that no label passes for it."""
    output.text(f"{short_id(one.id)} {_label(one)}", style="bold")
    span = f"{minute(one.opened_at)} to {minute(one.last_at)}, {_state(one, now)}"
    marks = ", sensitive" if one.sensitivity == "sensitive" else ""
    why = f"; {SPLIT_REASONS[one.boundary]}" if one.boundary else ""
    output.text(f"  {count_phrase(one.message_count, 'message')}, {span}{why}{marks}")
    people = ", ".join(_talker(one, place) for place in range(len(one.talkers)))
    output.text(f"  {people or 'nobody'}", style="dim")


def _line(one: AssignedMessage, numbers: dict[MessageId, int]) -> str:
    message = one.message
    reference = f"#{numbers[message.id]}"
    if one.answers is not None:
        parent = numbers.get(one.answers.parent_id)
        reference += " → elsewhere" if parent is None else f" → #{parent}"
        reference += f" ({one.answers.method})" if one.answers.method in INFERRED_METHODS else ""
    text = " ".join(safe_body(message).split())
    edited = " (edited)" if message.edited_at else ""
    return f"{minute(message.sent_at)} {reference} {render_message(message, text=text)}{edited}  {message.external_id}"


def _label(one: Conversation) -> str:
    return as_one_line(one.label) or NO_LABEL


def _talkers(one: Conversation) -> str:
    named = [_talker(one, place) for place in range(min(MAX_TALKERS, len(one.talkers)))]
    others = len(one.talkers) - len(named)
    return ", ".join(named) + (f" and {others} more" if others else "")


def _talker(one: Conversation, place: int) -> str:
    talker = one.talkers[place]
    bot = " (bot)" if talker.kind == "agent" else ""
    return f"{safe_name(talker.name)}{bot} {talker.message_count}"


def _state(one: Conversation, now: datetime) -> str:
    return "open" if one.is_open_at(now) else "quiet"
