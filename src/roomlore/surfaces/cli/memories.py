"""Verbs about what is durably known: remember, memories, why."""

from collections.abc import Sequence
from typing import Any

import click

from roomlore.app import App
from roomlore.app.memories import KINDS
from roomlore.domain.records import Memory, Provenance
from roomlore.domain.speech import safe_name, safe_text
from roomlore.surfaces.cli.output import Output, said
from roomlore.surfaces.cli.session import Session, with_app

ROLES = {
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
@click.option("--room", metavar="ROOM", help="Where these messages are.")
@click.option("--about", multiple=True, metavar="NAME", help="Whom it is about. Repeatable.")
@click.option("--kind", type=click.Choice(KINDS), default="fact", show_default=True, help="What it is.")
@click.option(
    "--sensitive", is_flag=True, help="Only for those who were members when the messages were said."
)
@click.option(
    "--supersedes", metavar="MEMORY", help="A memory of which it takes the place; it stays readable as such."
)
@click.pass_obj
def remember(session: Session, text: str, **options: Any) -> None:
    """Keep TEXT as a memory, seen by those who may read every message it rests on."""

    async def use(app: App) -> None:
        memory = await (await session.acting(app)).memories.remember(text, **options)
        if session.output.as_json:
            session.output.json(memory)
        else:
            show_memory(session.output, memory)

    with_app(session, use)


@click.command()
@click.option("--about", metavar="NAME", help="Only what is about this participant.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many memories."
)
@click.pass_obj
def memories(session: Session, about: str | None, limit: int) -> None:
    """List what is remembered, newest first."""

    async def use(app: App) -> None:
        found = await app.memories.all(await session.viewed_by(app), about=about, limit=limit)
        show_all(session.output, found)

    with_app(session, use)


@click.command()
@click.argument("memory")
@click.pass_obj
def why(session: Session, memory: str) -> None:
    """Show what MEMORY rests on: an id, or the beginning of one."""

    async def use(app: App) -> None:
        show_provenance(session.output, await app.memories.why(await session.viewed_by(app), memory))

    with_app(session, use)


def show_all(output: Output, found: Sequence[Memory]) -> None:
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
    for source in provenance.sources:
        where = "a whisper" if source.room_name is None else safe_name(source.room_name)
        output.text(f"  {where}, {source.message.sent_at:%Y-%m-%d} {said(source.message)}")
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


def show_memory(output: Output, memory: Memory) -> None:
    """Print a memory: what tells it apart first, so that no content passes for it."""
    marks = [memory.kind.replace("_", " ")]
    marks += ["sensitive"] if memory.sensitivity == "sensitive" else []
    marks += ["superseded"] if memory.superseded_by is not None else []
    marks += ["outdated: a message it rests on was edited"] if memory.is_outdated else []
    content = " ".join(safe_text(memory.content).split())
    output.text(f"{memory.id} {memory.recorded_at:%Y-%m-%d} ({', '.join(marks)}) {content}")
    named = people(memory)
    if named:
        output.text(f"    {named}", style="dim")


def people(memory: Memory) -> str:
    """Return in words whom a memory names, and as what."""
    names = {
        role: [safe_name(person.name) for person in memory.participants if person.role == role]
        for role in ROLES
    }
    return "; ".join(f"{ROLES[role]} {', '.join(of_role)}" for role, of_role in names.items() if of_role)


VERBS = (remember, memories, why)
