"""Verbs about memories: store, list, correct, archive and extract them."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from roomlore.cli.derived import DerivedCommand, OperationCommand, given_arguments
from roomlore.cli.output import Output, dated, message_line, minute
from roomlore.cli.param_types import SpanType
from roomlore.cli.session import Session, with_app
from roomlore.db.llm_calls import LlmCall
from roomlore.domain.ids import short_id
from roomlore.domain.phrases import count_phrase, memory_audience_phrase
from roomlore.domain.records import Memory, Provenance
from roomlore.domain.rendering import as_one_line, safe_name, safe_text
from roomlore.operations import App
from roomlore.operations.digest import Digest
from roomlore.operations.jobs import ExtractionResult
from roomlore.operations.memories import STATUSES

ROLE_NAMES = {
    "author": "stated by",
    "subject": "about",
    "involved": "involving",
    "perspective": "experience of",
}


@click.command(cls=OperationCommand, operation="memories.remember", spellings={"content": "TEXT"})
def remember(output: Output, memory: Memory) -> None:
    """Store TEXT as a memory. Only those who may read all its source messages see it; the result says who.

    If the same memory exists already, these sources are added to it.
    """
    show_memory(output, memory)


@click.command(cls=DerivedCommand, operation="memories.all", spellings={"statuses": "--status"})
@click.option("--history", is_flag=True, help="With every status.")
@click.option("--age", type=SpanType(), help="Only those that became true within this time, like 30d.")
@click.pass_obj
def memories(session: Session, *, history: bool, age: timedelta | None, **options: Any) -> None:
    """List active memories, newest first."""
    options = given_arguments(options)
    if history and "statuses" in options:
        raise click.UsageError("--history means every status; leave it or --status out")
    if age is not None and "since" in options:
        raise click.UsageError("--age or --since, not both")
    if history:
        options["statuses"] = STATUSES
    if age is not None:
        options["since"] = datetime.now(UTC) - age

    async def use(app: App) -> None:
        found = await app.memories.all(await session.viewer_in(app), **options)
        session.output.json(found) if session.output.as_json else show_memories(session.output, found)

    with_app(session, use)


@click.command(cls=OperationCommand, operation="memories.digest", spellings={"room": "ROOM"})
def digest(output: Output, found: Digest) -> None:
    """Show what a room learned since you last wrote there.

    Memories are listed by kind and by person, then questions that nobody answered. --since begins at another time.
    """
    output.text(f"{safe_name(found.room_name)}, since {found.since:%Y-%m-%d %H:%M}", style="bold")
    for section in found.sections:
        output.text(section.kind.replace("_", " "), style="bold")
        show_memories(output, section.memories)
    for person in found.people:
        output.text(f"about {safe_name(person.name)}", style="bold")
        show_memories(output, person.memories)
    if found.open_questions:
        output.text("open questions", style="bold")
        for line in dated(found.open_questions):
            output.text(f"  {line}")
    if not found.sections and not found.people and not found.open_questions:
        output.text("nothing new")
    if found.is_truncated:
        output.text("There are older memories, too; raise --limit or use --since.", style="dim")


@click.group()
def memory() -> None:
    """Correct, archive or restore a memory, or show where it comes from.

    MEMORY is an id or the start of one.
    """


@memory.command(cls=OperationCommand, operation="memories.correct", spellings={"content": "TEXT"})
def correct(output: Output, memory: Memory) -> None:
    """Replace MEMORY with TEXT; the old memory stays in the history as superseded."""
    show_memory(output, memory)


@memory.command(cls=OperationCommand, operation="memories.archive")
def archive(output: Output, memory: Memory) -> None:
    """Archive MEMORY: it is not used any more, and not extracted again from its messages.

    The messages stay. `memory restore` undoes this.
    """
    show_memory(output, memory)


@memory.command(cls=OperationCommand, operation="memories.restore")
def restore(output: Output, memory: Memory) -> None:
    """Make MEMORY active again after it was archived or superseded; its successor stays active too."""
    show_memory(output, memory)


@memory.command()
@click.argument("memory")
@click.option("--message", is_flag=True, help="MEMORY is a message: list the memories extracted from it.")
@click.option("--room", metavar="ROOM", help="The room of the message.")
@click.pass_obj
def provenance(session: Session, memory: str, *, message: bool, room: str | None) -> None:
    """Show the source messages of MEMORY, and which memories it replaced or was replaced by."""
    if room is not None and not message:
        raise click.UsageError("--room goes with --message")

    async def use(app: App) -> None:
        viewer, output = await session.viewer_in(app), session.output
        if message:
            found = await app.memories.derived_from(viewer, memory, room=room)
            output.json(found) if output.as_json else show_memories(output, found)
        else:
            show_provenance(output, await app.memories.provenance(viewer, memory))

    with_app(session, use)


@click.command(cls=OperationCommand, operation="extraction.extract", spellings={"where": "ROOM|CONVERSATION"})
def extract(output: Output, extracted: ExtractionResult) -> None:
    """Extract memories now, also from open conversations: of one room, one conversation, or all.

    CONVERSATION is an id, the start of one, or message:MESSAGE for the conversation of a message.
    """
    done = f"{count_phrase(extracted.conversations, 'conversation')}, {count_phrase(extracted.messages, 'message')}"
    came = f"{count_phrase(extracted.added, 'memory', 'memories')} added, {extracted.released} removed"
    output.text(f"{done}: {came}")
    if extracted.llm_extracted or extracted.llm_failed:
        requests = (
            f", {count_phrase(extracted.privacy_requests, 'privacy request')} found"
            if extracted.privacy_requests
            else ""
        )
        output.text(
            f"by a language model: {extracted.llm_extracted} done, {extracted.llm_failed} left{requests}"
        )


@click.command("llm-calls")
@click.argument("conversation", required=False)
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many at most."
)
@click.pass_obj
def llm_calls(session: Session, conversation: str | None, limit: int) -> None:
    """Show calls to the language model for extraction: the prompt, the answer, and what was stored of it.

    CONVERSATION is an id, the start of one, or message:MESSAGE for the conversation of a message.
    """

    async def use(app: App) -> None:
        found = await (await session.impersonate(app)).extraction.llm_calls(conversation, limit=limit)
        show_llm_calls(session.output, found, whole=conversation is not None)

    with_app(session, use)


def show_llm_calls(output: Output, found: Sequence[LlmCall], *, whole: bool) -> None:
    """Print calls: one line for each call, or one whole prompt with its results."""
    if output.as_json:
        return output.json(found)
    if not found:
        return output.text("no calls")
    for one in found:
        output.text(
            f"{minute(one.asked_at)} {one.conversation_id} {_outcome_text(one)}",
            style="bold" if whole else "",
        )
        if whole:
            output.text(_indented(one.prompt))
        for result in one.results if whole else ():
            reason = str(result["reason"])
            outcome = (reason or "stored") if result["is_kept"] else f"rejected: {reason}"
            output.text(f"  {outcome}  {_indented(str(result['stated']))}")
    return None


def _outcome_text(one: LlmCall) -> str:
    if one.answer is None:
        return f"{one.language_model}: {one.error or 'no answer yet'}"
    stored = sum(bool(result["is_kept"]) for result in one.results)
    tokens = ""
    if one.sent_tokens is not None:
        tokens = f", {one.sent_tokens:,} + {count_phrase(one.answer_tokens or 0, 'token')}"
    cached = ", same answer as before" if one.is_repeated else ""
    return f"{one.language_model}: {stored} of {count_phrase(len(one.results), 'statement')} stored{tokens}{cached}"


def _indented(text: str) -> str:
    return safe_text(text).replace("\n", "\n  | ")


def show_memories(output: Output, found: Sequence[Memory]) -> None:
    """Print memories."""
    for memory in found:
        show_memory(output, memory)
    if not found:
        output.text("no memories")


def show_provenance(output: Output, provenance: Provenance) -> None:
    """Print a memory, its source messages with their rooms, and the memories before and after it."""
    if output.as_json:
        return output.json(provenance)
    show_memory(output, provenance.memory)
    if provenance.memory.extractor is None:
        output.text(f"  {_asserted(provenance)}", style="dim")
    for source in provenance.sources:
        where = "a whisper" if source.room_name is None else safe_name(source.room_name)
        output.text(f"  {where}, {source.message.sent_at:%Y-%m-%d %H:%M} {message_line(source.message)}")
        if source.quote is not None:
            output.text(f"    quote: {as_one_line(source.quote)}", style="dim")
        if source.conversation_id is not None:
            output.text(
                f"    in conversation {source.conversation_id} {safe_name(source.conversation_label)}".rstrip(),
                style="dim",
            )
    if not provenance.sources:
        output.text("  no source message", style="dim")
    for heading, chain in (("superseded by", provenance.successors), ("supersedes", provenance.predecessors)):
        for memory in chain:
            output.text(f"  {heading}", style="dim")
            show_memory(output, memory)
    return None


def _asserted(provenance: Provenance) -> str:
    by, room = provenance.asserted_by_name, provenance.asserted_in_name
    parts = ["asserted"]
    parts += [f"by {safe_name(by)}"] if by else []
    parts += [f"in {safe_name(room)}"] if room else []
    return f"{' '.join(parts)}, {provenance.memory.recorded_at:%Y-%m-%d %H:%M}"


def show_memory(output: Output, memory: Memory) -> None:
    """Print a memory. Its id and status come first, so that its content cannot imitate them."""
    marks = [memory.kind.replace("_", " ")]
    marks += ["sensitive"] if memory.sensitivity == "sensitive" else []
    marks += ["superseded"] if memory.status == "deprecated" else []
    marks += ["archived"] if memory.status == "archived" else []
    marks += ["outdated: a source message was edited"] if memory.is_outdated else []
    content = as_one_line(memory.content)
    output.text(f"{short_id(memory.id)} {memory.valid_from:%Y-%m-%d} ({', '.join(marks)}) {content}")
    for line in (people(memory), _nature(memory)):
        if line:
            output.text(f"    {line}", style="dim")


def people(memory: Memory) -> str:
    """Return the participants that a memory names, with their roles, in words."""
    names = {
        role: [safe_name(person.name) for person in memory.participants if person.role == role]
        for role in ROLE_NAMES
    }
    return "; ".join(f"{ROLE_NAMES[role]} {', '.join(of_role)}" for role, of_role in names.items() if of_role)


def _nature(memory: Memory) -> str:
    parts = [f"extracted by {memory.extractor}" if memory.extractor else "asserted"]
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
