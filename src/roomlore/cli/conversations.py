"""Verbs about conversations: list and read them, and correct which messages belong to which."""

from collections.abc import Sequence
from datetime import UTC, datetime

import click

from roomlore.cli.derived import OperationCommand
from roomlore.cli.output import Output, minute
from roomlore.cli.session import Session, with_app
from roomlore.domain.ids import MessageId, short_id, short_ids
from roomlore.domain.phrases import count_phrase
from roomlore.domain.records import AssignedMessage, Conversation
from roomlore.domain.rendering import as_one_line, render_message, safe_body, safe_name
from roomlore.operations import App

NO_LABEL = "(no label)"
#: The maximum number of participants that a list names.
MAX_TALKERS = 3
#: The methods that find a reply if the platform does not state it.
INFERRED_METHODS = frozenset({"mention", "inferred"})
SPLIT_REASONS = {
    "first": "the first of its room",
    "idle": "after a long silence",
    "topic": "another topic",
    "person": "set by hand",
}


@click.command(cls=OperationCommand, operation="conversations.all")
def conversations(output: Output, found: Sequence[Conversation]) -> None:
    """List conversations, newest first: of ROOM, or of every room."""
    short, now = short_ids(one.id for one in found), datetime.now(UTC)
    headings = ("conversation", "id", "who", "messages", "opened", "last", "state", "split")
    rows = [
        (
            _label(one),
            short[one.id],
            _talkers(one),
            one.message_count,
            minute(one.opened_at),
            minute(one.last_at),
            _state(one, now),
            one.split_reason or "",
        )
        for one in found
    ]
    return output.table(headings, rows) if found else output.text("no conversations")


@click.group()
def conversation() -> None:
    """Read a conversation, or correct which messages belong to it.

    CONVERSATION is an id, the start of one, or message:MESSAGE for the conversation of a message.
    """


@conversation.command()
@click.argument("conversation")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=1_000, show_default=True, help="How many at most."
)
@click.pass_obj
def show(session: Session, conversation: str, limit: int) -> None:
    """Show the messages of CONVERSATION, and which message each of them answers."""

    async def use(app: App) -> None:
        found, messages = await app.conversations.read(
            await session.viewer_in(app), conversation, limit=limit
        )
        show_conversation(session.output, found, messages)

    with_app(session, use)


@conversation.command(cls=OperationCommand, operation="conversations.move", spellings={"to": "CONVERSATION"})
def move(output: Output, changed: Conversation) -> None:
    """Move MESSAGE and the replies to it into CONVERSATION."""
    show_heading(output, changed)


@conversation.command(cls=OperationCommand, operation="conversations.split")
def split(output: Output, changed: Conversation) -> None:
    """Make a new conversation of each MESSAGE and the replies to it."""
    show_heading(output, changed)


@conversation.command(cls=OperationCommand, operation="conversations.merge")
def merge(output: Output, changed: Conversation) -> None:
    """Move all messages of OTHER into CONVERSATION; OTHER no longer exists then."""
    show_heading(output, changed)


@conversation.command(cls=OperationCommand, operation="conversations.rename")
def rename(output: Output, changed: Conversation) -> None:
    """Set the label of CONVERSATION; with "" it is labelled automatically again."""
    show_heading(output, changed)


@conversation.command(cls=OperationCommand, operation="conversations.set_sensitivity")
def mark(output: Output, changed: Conversation) -> None:
    """Set how sensitive CONVERSATION is.

    Only its speakers, and those who were members of its room at that time, may read a sensitive conversation. Operators
    and speakers may set this.
    """
    show_heading(output, changed)


@conversation.command(cls=OperationCommand, operation="conversations.close")
def close(output: Output, changed: Conversation) -> None:
    """Close CONVERSATION so that memories are extracted from it; a later message opens it again."""
    show_heading(output, changed)


def show_conversation(output: Output, found: Conversation, messages: Sequence[AssignedMessage]) -> None:
    """Print a conversation and its messages, each with the message that it answers."""
    if output.as_json:
        from roomlore.operations.responses import conversation_response  # noqa: PLC0415  text output does not need it

        return output.json(conversation_response(found, messages))
    show_heading(output, found)
    omitted = found.message_count - len(messages)
    if omitted > 0:
        output.text(f"  {count_phrase(omitted, 'earlier message')} omitted", style="dim")
    numbers = {one.message.id: number for number, one in enumerate(messages, start=omitted + 1)}
    for one in messages:
        output.text(_line(one, numbers))
    return None


def show_heading(output: Output, one: Conversation) -> None:
    """Print the facts of a conversation. Its id comes first, so that no label can imitate the id."""
    output.text(f"{short_id(one.id)} {_label(one)}", style="bold")
    span = f"{minute(one.opened_at)} to {minute(one.last_at)}, {_state(one, datetime.now(UTC))}"
    sensitive = ", sensitive" if one.sensitivity == "sensitive" else ""
    reason = f"; {SPLIT_REASONS[one.split_reason]}" if one.split_reason else ""
    output.text(f"  {count_phrase(one.message_count, 'message')}, {span}{reason}{sensitive}")
    people = ", ".join(_talker(one, place) for place in range(len(one.participants)))
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
    named = [_talker(one, place) for place in range(min(MAX_TALKERS, len(one.participants)))]
    others = len(one.participants) - len(named)
    return ", ".join(named) + (f" and {others} more" if others else "")


def _talker(one: Conversation, place: int) -> str:
    talker = one.participants[place]
    bot = " (bot)" if talker.kind == "agent" else ""
    return f"{safe_name(talker.name)}{bot} {talker.message_count}"


def _state(one: Conversation, now: datetime) -> str:
    return "open" if one.is_open_at(now) else "quiet"
