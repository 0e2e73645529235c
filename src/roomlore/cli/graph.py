"""Verbs that query the graph of people, messages and memories."""

from collections.abc import Callable, Sequence
from typing import Any

import click

from roomlore.cli.derived import OperationCommand
from roomlore.cli.memories import show_memory
from roomlore.cli.output import Output, message_line, minute
from roomlore.domain.records import Memory, Message
from roomlore.operations.graph import Counterpart, GraphAnswer, MemoriesOfKind, NearbyNode

_LABELS = {"User": "person", "Memory": "memory", "Tag": "tag"}


@click.group()
def graph() -> None:
    """Ask who wrote what, who talks to whom, and who knows what about whom.

    PostgreSQL answers. An index in Neo4j, if there is one, finds messages, and memories of agents, faster. Only what the
    viewer may see is shown.
    """


def _messages(output: Output, found: Sequence[Message]) -> None:
    for message in found:
        output.text(f"{minute(message.sent_at)} {message_line(message)}")


def _memories(output: Output, found: Sequence[Memory]) -> None:
    for memory in found:
        show_memory(output, memory)


def _people(counted: str) -> Callable[[Output, Sequence[Counterpart]], None]:
    def show(output: Output, found: Sequence[Counterpart]) -> None:
        rows = [(one.name, one.kind, one.count, minute(one.last), str(one.participant_id)) for one in found]
        output.table(("name", "kind", counted, "last", "id"), rows)

    return show


def _nearby(output: Output, found: Sequence[NearbyNode]) -> None:
    rows = [(_LABELS.get(one.label, one.label), f"{one.score:.2f}", one.text, str(one.id)) for one in found]
    output.table(("what", "score", "name", "id"), rows)


def _by_kind(output: Output, found: Sequence[MemoriesOfKind]) -> None:
    for of in found:
        output.text(of.kind.replace("_", " "), style="bold")
        _memories(output, of.memories)


#: The name of the verb, the method, the format of its items, and the help.
_QUERIES: Sequence[tuple[str, str, Callable[[Output, Any], None], str]] = (
    ("messages-by-agents", "messages_by_agents", _messages, "List messages by agents, newest first."),
    ("messages-by", "said_by", _messages, "List messages by WHO, newest first."),
    (
        "memories-by-agents",
        "memories_of_agents",
        _memories,
        "List memories that agents stated or that are their own experience, newest first.",
    ),
    (
        "memories-by",
        "known_by",
        _memories,
        "List memories that WHO stated or that are WHO's own experience, newest first.",
    ),
    ("memories-about", "memories_about", _memories, "List memories about WHO, newest first."),
    (
        "conversation-partners",
        "conversation_partners",
        _people("replies"),
        "List the people WHO replied to or got replies from, with counts.",
    ),
    ("nearby", "near", _nearby, "List people, memories and tags close to WHO in the graph."),
    (
        "participants",
        "participants_of",
        _people("messages"),
        "List who wrote in CONVERSATION: an id, the start of one, or message:ID.",
    ),
    (
        "memories-for",
        "memories_for",
        _by_kind,
        "List memories relevant to CONVERSATION, by kind: extracted from it, or about its participants.",
    ),
)


def _show(show_items: Callable[[Output, Any], None]) -> Callable[[Output, GraphAnswer[Any]], None]:
    def show(output: Output, answer: GraphAnswer[Any]) -> None:
        if answer.items:
            show_items(output, answer.items)
        else:
            output.text("nothing found")
        output.degraded(answer.degraded)

    return show


for _name, _method, _show_items, _help in _QUERIES:
    graph.add_command(
        OperationCommand(_name, callback=_show(_show_items), operation=f"graph.{_method}", help=_help)
    )
