"""Verbs that ask what people, messages and memories have to do with each other."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import click

from roomlore.cli.memories import show_memory
from roomlore.cli.output import Output, message_line, minute
from roomlore.cli.session import Session, with_app
from roomlore.domain.records import Memory, Message, Viewer
from roomlore.operations import App
from roomlore.operations.graph import Counterpart, GraphAnswer, MemoriesOfKind, NearbyNode

Item = TypeVar("Item")
GraphCall = Callable[[App, Viewer], Awaitable[GraphAnswer[Item]]]
ShowItems = Callable[[Output, Sequence[Item]], None]

_LABELS = {"User": "person", "Memory": "memory", "Tag": "tag"}
_limit = click.option(
    "--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many."
)


@click.group()
def graph() -> None:
    """Ask who said what, who talked to whom, and who knows what about whom.

    Answered by the copy in Neo4j where one is read, and by the database otherwise, alike: only what the viewer may see.
    """


@graph.command("said-by-bots")
@_limit
@click.pass_obj
def said_by_bots(session: Session, limit: int) -> None:
    """Show what agents said, newest first."""
    _run_query(session, lambda app, viewer: app.graph.said_by_bots(viewer, limit=limit), _messages)


@graph.command("said-by")
@click.argument("who")
@_limit
@click.pass_obj
def said_by(session: Session, who: str, limit: int) -> None:
    """Show what WHO said, newest first."""
    _run_query(session, lambda app, viewer: app.graph.said_by(viewer, who, limit=limit), _messages)


@graph.command("known-by-bots")
@_limit
@click.pass_obj
def known_by_bots(session: Session, limit: int) -> None:
    """Show what agents stated or remember as their own experience, newest first."""
    _run_query(session, lambda app, viewer: app.graph.known_by_bots(viewer, limit=limit), _memories)


@graph.command("known-by")
@click.argument("who")
@_limit
@click.pass_obj
def known_by(session: Session, who: str, limit: int) -> None:
    """Show what WHO stated or remembers as their own experience, newest first."""
    _run_query(session, lambda app, viewer: app.graph.known_by(viewer, who, limit=limit), _memories)


@graph.command()
@click.argument("who")
@_limit
@click.pass_obj
def about(session: Session, who: str, limit: int) -> None:
    """Show what is remembered about WHO, newest first."""
    _run_query(session, lambda app, viewer: app.graph.known_about(viewer, who, limit=limit), _memories)


@graph.command("talked-to")
@click.argument("who")
@_limit
@click.pass_obj
def talked_to(session: Session, who: str, limit: int) -> None:
    """Show whom WHO answered or was answered by, and how often."""
    _run_query(session, lambda app, viewer: app.graph.talked_to(viewer, who, limit=limit), _people("replies"))


@graph.command()
@click.argument("who")
@_limit
@click.pass_obj
def near(session: Session, who: str, limit: int) -> None:
    """Show the people, memories and tags near WHO."""
    _run_query(session, lambda app, viewer: app.graph.near(viewer, who, limit=limit), _nearby)


@graph.command()
@click.argument("conversation")
@_limit
@click.pass_obj
def present(session: Session, conversation: str, limit: int) -> None:
    """Show who wrote in CONVERSATION: its id, how that begins, or message:ID."""
    _run_query(
        session,
        lambda app, viewer: app.graph.present_in(viewer, conversation, limit=limit),
        _people("messages"),
    )


@graph.command("for")
@click.argument("conversation")
@_limit
@click.pass_obj
def for_(session: Session, conversation: str, limit: int) -> None:
    """Show the memories that bear on CONVERSATION, by kind: they rest on it, or name those present."""
    _run_query(
        session, lambda app, viewer: app.graph.memories_for(viewer, conversation, limit=limit), _show_by_kind
    )


def _run_query(session: Session, asked: GraphCall[Item], shown: ShowItems[Item]) -> None:
    async def use(app: App) -> None:
        told = await asked(app, await session.viewer_in(app))
        if session.output.as_json:
            return session.output.json(told)
        if told.found:
            shown(session.output, told.found)
        else:
            session.output.text("nothing found")
        return session.output.degraded(told.degraded)

    with_app(session, use)


def _messages(output: Output, found: Sequence[Message]) -> None:
    for message in found:
        output.text(f"{minute(message.sent_at)} {message_line(message)}")


def _memories(output: Output, found: Sequence[Memory]) -> None:
    for memory in found:
        show_memory(output, memory)


def _people(counted: str) -> ShowItems[Counterpart]:
    def show(output: Output, found: Sequence[Counterpart]) -> None:
        rows = [(one.name, one.kind, one.count, minute(one.last), str(one.participant_id)) for one in found]
        output.table(("name", "kind", counted, "last", "id"), rows)

    return show


def _nearby(output: Output, found: Sequence[NearbyNode]) -> None:
    rows: list[tuple[Any, ...]] = [
        (_LABELS.get(one.label, one.label), f"{one.score:.2f}", one.text, str(one.id)) for one in found
    ]
    output.table(("what", "near", "called", "id"), rows)


def _show_by_kind(output: Output, found: Sequence[MemoriesOfKind]) -> None:
    for of in found:
        output.text(of.kind.replace("_", " "), style="bold")
        _memories(output, of.memories)
