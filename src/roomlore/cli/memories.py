"""Verbs about what is durably known: remember, correct, restore, memories, why."""

import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import click

from roomlore.cli.output import Output, message_line
from roomlore.cli.param_types import TIME, SpanType, in_utc
from roomlore.cli.session import Session, with_app
from roomlore.domain.ids import short_id
from roomlore.domain.phrases import memory_audience_phrase
from roomlore.domain.records import Memory, Provenance
from roomlore.domain.rendering import as_one_line, safe_name
from roomlore.operations import App
from roomlore.operations.explicit_memories import KINDS
from roomlore.operations.memories import STATUSES

ROLE_NAMES = {
    "author": "stated by",
    "subject": "about",
    "involved": "from what was said by",
    "perspective": "as seen by",
}


@click.command()
@click.argument("text")
@click.option(
    "--from", "sources", multiple=True, metavar="MESSAGE", help="A message it rests on. Repeatable."
)
@click.option("--room", metavar="ROOM", help="Where these messages are, and where it is asserted.")
@click.option("--about", multiple=True, metavar="NAME", help="Whom it is about. Repeatable.")
@click.option("--involving", multiple=True, metavar="NAME", help="Who else has to do with it. Repeatable.")
@click.option("--by", metavar="NAME", help="Who stated it, where it rests on no message.")
@click.option(
    "--for",
    "audience",
    type=click.Choice(["org", "self"]),
    help="Who sees what rests on no message: everybody in the org, or whoever remembers it alone. An operator's is for"
    " the org by default.",
)
@click.option("--occurred-at", type=TIME, help="When it was said or became true, UTC.")
@click.option("--metadata", metavar="JSON", help="What else to keep with it: an object.")
@click.option("--kind", type=click.Choice(KINDS), default="fact", show_default=True, help="What it is.")
@click.option("--title", metavar="WORDS", help="What it is called, in a few words.")
@click.option("--importance", type=click.FloatRange(1, 5), help="By default what its kind has.")
@click.option("--confidence", type=click.FloatRange(0, 1), help="How likely it is so; 1 by default.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="What it is found under. Repeatable.")
@click.option("--task", metavar="TASK", help="The work it belongs to.")
@click.option(
    "--sensitive", is_flag=True, help="Only for those who were members when the messages were said."
)
@click.option(
    "--supersedes", metavar="MEMORY", help="A memory of which it takes the place; it stays readable as such."
)
@click.pass_obj
def remember(session: Session, text: str, **options: Any) -> None:
    """Keep TEXT as a memory, seen by those who may read every message it rests on, and say who that is.

    One that says the same of the same is not kept twice: it rests on these messages as well then.
    """
    details = {name: value for name, value in options.items() if value is not None}
    if "occurred_at" in details:
        details["occurred_at"] = in_utc(details["occurred_at"])
    if "metadata" in details:
        details["metadata"] = _object(details["metadata"])
    change(session, lambda app: app.memories.remember(text, **details))


@click.command()
@click.argument("memory")
@click.argument("text")
@click.pass_obj
def correct(session: Session, memory: str, text: str) -> None:
    """Put TEXT in the place of MEMORY; the old one stays as history, marked as such."""
    change(session, lambda app: app.memories.correct(memory, text))


@click.command()
@click.argument("memory")
@click.pass_obj
def restore(session: Session, memory: str) -> None:
    """Let MEMORY stand again, which was forgotten or superseded; beside what took its place, if anything did."""
    change(session, lambda app: app.memories.restore(memory))


@click.command()
@click.option(
    "--room", metavar="ROOM", help="Only what rests on something said there, or was asserted there."
)
@click.option("--about", metavar="NAME", help="Only what is about this participant.")
@click.option("--by", metavar="NAME", help="Only what this participant stated.")
@click.option("--seen-by", metavar="AGENT", help="Only what this agent remembers as its own experience.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(KINDS), help="Only such. Repeatable.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only with one of these tags. Repeatable.")
@click.option("--task", metavar="TASK", help="Only what belongs to this work.")
@click.option(
    "--status", "statuses", multiple=True, type=click.Choice(STATUSES), help="Only such; active by default."
)
@click.option("--history", is_flag=True, help="Whatever its status.")
@click.option("--age", type=SpanType(), help="Only what is true since no longer than that, like 30d.")
@click.option("--as-of", type=TIME, help="What stood then, UTC.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many memories."
)
@click.pass_obj
def memories(session: Session, *, history: bool, age: timedelta | None, limit: int, **options: Any) -> None:
    """List what is remembered and stands, newest first."""
    wanted = {name: value for name, value in options.items() if value}
    if history and "statuses" in wanted:
        raise click.UsageError("--history means every status; leave it or --status out")
    if history:
        wanted["statuses"] = STATUSES
    if "as_of" in wanted:
        wanted["as_of"] = in_utc(wanted["as_of"])
    if age is not None:
        wanted["since"] = datetime.now(UTC) - age

    async def use(app: App) -> None:
        found = await app.memories.all(await session.viewer_in(app), limit=limit, **wanted)
        show_memories(session.output, found)

    with_app(session, use)


@click.command()
@click.argument("memory")
@click.option("--message", is_flag=True, help="It is a message: show the memories that rest on it.")
@click.option("--room", metavar="ROOM", help="Where the message is.")
@click.pass_obj
def why(session: Session, memory: str, *, message: bool, room: str | None) -> None:
    """Show what MEMORY rests on: an id, or the beginning of one."""
    if room is not None and not message:
        raise click.UsageError("--room says where a message is; give --message, or leave it out")

    async def use(app: App) -> None:
        viewer = await session.viewer_in(app)
        if message:
            show_memories(session.output, await app.memories.resting_on(viewer, memory, room=room))
        else:
            show_provenance(session.output, await app.memories.why(viewer, memory))

    with_app(session, use)


def change(session: Session, how: Callable[[App], Awaitable[Memory]]) -> None:
    """Change memories on behalf of whoever is named, and print the one that comes of it."""

    async def use(app: App) -> None:
        memory = await how(await session.acting(app))
        if session.output.as_json:
            session.output.json(memory)
        else:
            show_memory(session.output, memory)

    with_app(session, use)


def _object(text: str) -> dict[str, Any]:
    """Return what stands in a JSON object."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise click.BadParameter("must be a JSON object, like '{\"ticket\": 12}'", param_hint="--metadata")
    return cast("dict[str, Any]", value)


def show_memories(output: Output, found: Sequence[Memory]) -> None:
    """Print memories."""
    if output.as_json:
        return output.json(found)
    for memory in found:
        show_memory(output, memory)
    return None if found else output.text("nothing is remembered")


def show_provenance(output: Output, provenance: Provenance) -> None:
    """Print a memory and every message it rests on, each with its room."""
    if output.as_json:
        return output.json(provenance)
    show_memory(output, provenance.memory)
    if provenance.memory.extractor is None:
        output.text(f"  {_asserted(provenance)}", style="dim")
    for source in provenance.sources:
        where = "a whisper" if source.room_name is None else safe_name(source.room_name)
        output.text(f"  {where}, {source.message.sent_at:%Y-%m-%d %H:%M} {message_line(source.message)}")
        if source.quote is not None:
            output.text(f"    rests on: {as_one_line(source.quote)}", style="dim")
        if source.conversation_id is not None:
            output.text(
                f"    in conversation {source.conversation_id} {safe_name(source.conversation_label)}".rstrip(),
                style="dim",
            )
    if not provenance.sources:
        output.text("  rests on no message", style="dim")
    for heading, chain in (
        ("superseded by", provenance.successors),
        ("takes the place of", provenance.predecessors),
    ):
        for memory in chain:
            output.text(f"  {heading}", style="dim")
            show_memory(output, memory)
    return None


def _asserted(provenance: Provenance) -> str:
    """Return in words who asserted a memory, where and when, as far as the viewer may know."""
    by = provenance.asserted_by_name
    where = provenance.asserted_in_name
    parts = ["asserted"]
    parts += [f"by {safe_name(by)}"] if by else []
    parts += [f"in {safe_name(where)}"] if where else []
    return f"{' '.join(parts)}, {provenance.memory.recorded_at:%Y-%m-%d %H:%M}"


def show_memory(output: Output, memory: Memory) -> None:
    """Print a memory: what tells it apart first, so that no content passes for it."""
    marks = [memory.kind.replace("_", " ")]
    marks += ["sensitive"] if memory.sensitivity == "sensitive" else []
    marks += ["superseded"] if memory.status == "deprecated" else []
    marks += ["forgotten"] if memory.status == "archived" else []
    marks += ["outdated: a message it rests on was edited"] if memory.is_outdated else []
    content = as_one_line(memory.content)
    output.text(f"{short_id(memory.id)} {memory.valid_from:%Y-%m-%d} ({', '.join(marks)}) {content}")
    for line in (people(memory), _nature(memory)):
        if line:
            output.text(f"    {line}", style="dim")


def people(memory: Memory) -> str:
    """Return in words whom a memory names, and as what."""
    names = {
        role: [safe_name(person.name) for person in memory.participants if person.role == role]
        for role in ROLE_NAMES
    }
    return "; ".join(f"{ROLE_NAMES[role]} {', '.join(of_role)}" for role, of_role in names.items() if of_role)


def _nature(memory: Memory) -> str:
    """Return in words where a memory is from, how sure it is, and under what it is found."""
    parts = [f"drawn by {memory.extractor}" if memory.extractor else "asserted"]
    parts += [f"confidence {memory.confidence:.2f}", f"importance {memory.importance:g}"]
    parts += [f"recorded {memory.recorded_at:%Y-%m-%d}", memory_audience_phrase(memory)]
    parts += [f"task {safe_name(memory.task_id)}"] if memory.task_id else []
    parts += [f"tags {', '.join(safe_name(tag) for tag in memory.tags)}"] if memory.tags else []
    parts += (
        [f"with {as_one_line(json.dumps(dict(memory.metadata), ensure_ascii=False))}"]
        if memory.metadata
        else []
    )
    return "; ".join(parts)
