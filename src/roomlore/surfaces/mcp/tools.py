"""The tools: what a language model may ask for. Each reads with the eyes of whoever the App acts for."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from roomlore.app import App
from roomlore.context.render import FORMAT_NOTE, to_text
from roomlore.domain.errors import BadInput
from roomlore.domain.roles import RIGHTS
from roomlore.domain.speech import on_one_line, safe_name
from roomlore.domain.wording import for_whom
from roomlore.retrieval.records import Answer, Hit
from roomlore.surfaces.mcp import arguments
from roomlore.surfaces.mcp.arguments import Arguments
from roomlore.surfaces.mcp.results import AnswerTold, ContextTold, Quoted, Told, fenced, quoted
from roomlore.surfaces.mcp.transcript import NOTE, Cited, Transcript

#: What it had to do without, in words.
DEGRADED: Mapping[str, str] = {
    "no embedding model": "Searched by words alone: there is no embedding model.",
    "one of two embedding models is unavailable": "Of two embedding models one is unavailable; the other one searched.",
    "not everything is embedded yet": "Not everything is embedded yet; what is newest may be missing.",
    "qdrant is unavailable": "Qdrant is unavailable; the database answered alone.",
    "neo4j is unavailable": "Neo4j is unavailable; the database answered alone.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """Something that may be asked for."""

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    result: type[Told]
    call: Callable[[App, Any], Awaitable[Told]]
    writes: bool = False


async def _room_context(app: App, given: arguments.RoomContext) -> ContextTold:
    context = await app.context(app.desk.caller, given.room, given.message, budget=given.budget)
    bots = {line.message.id for line in context.lines if line.message.author_kind == "agent"}
    speakers = {line.message.id: line.speaker for line in context.lines}
    unnamed = {
        line.message.id for line in context.lines if line.message.kind == "system" or line.message.erased_at
    }
    return ContextTold(
        room_id=context.room_id,
        message_id=context.trigger_id,
        tokens=context.tokens,
        budget=context.budget,
        note=FORMAT_NOTE,
        text=to_text(context),
        citations=[
            Cited(
                label=f"#{one.label}",
                message_id=one.message_id,
                author=""
                if one.message_id in unnamed
                else speakers[one.message_id] + (" (bot)" if one.message_id in bots else ""),
                at=one.sent_at,
            )
            for one in context.citations.values()
        ],
        memories={f"#{label}": key for label, key in context.block.citations.items()}
        if context.block
        else {},
    )


async def _room_search(app: App, given: arguments.RoomSearch) -> Quoted:
    found = await app.search(app.desk.caller, given.question, room=given.room, limit=given.limit)
    told = Transcript(budget=given.budget)
    for hit in found.hits:
        _exchange(told, hit)
    read = found.read
    remarks = [DEGRADED[one] for one in found.degraded]
    remarks += [f"Only what was said {narrowed}."] if read and (narrowed := read.told()) else []
    remarks += [remark] if read and (remark := read.remark()) else []
    return quoted(told, nothing="Nothing was found that you may read.", remarks=remarks)


async def _ask(app: App, given: arguments.Ask) -> AnswerTold:
    answer = await app.ask(app.desk.caller, given.question, room=given.room)
    told = _evidence(answer, given.budget)
    remarks = [DEGRADED[one] for one in answer.degraded]
    remarks += [on_one_line(answer.note)] if answer.note else []
    return AnswerTold(
        known=answer.is_known,
        answer=fenced(answer.text),
        tier=answer.tier,
        written_by=answer.written_by,
        note=NOTE,
        text=told.text,
        citations=told.cited,
        memories=told.memories,
        left_out=told.left_out,
        tokens=told.tokens,
        remarks=remarks,
    )


async def _memory_search(app: App, given: arguments.MemorySearch) -> Quoted:
    viewer, told = app.desk.caller, Transcript(budget=given.budget)
    if given.question is not None and (given.room or given.about):
        raise BadInput("question", "leave out room and about beside it; put names into the question itself")
    if given.question is None:
        found = await app.memories.all(viewer, limit=given.limit, room=given.room, about=given.about)
    else:
        recalled = await app.memories.search(viewer, given.question, limit=given.limit)
        found = [one.memory for one in recalled]
    for memory in found:
        told.memory(memory)
    return quoted(told, nothing="Nothing is remembered that you may read.")


async def _memory_why(app: App, given: arguments.MemoryWhy) -> Quoted:
    provenance = await app.memories.why(app.desk.caller, given.memory)
    told = Transcript(budget=given.budget)
    told.memory(provenance.memory)
    if not provenance.sources:
        told.heading("-- rests on no message")
    for room in dict.fromkeys(source.room_name for source in provenance.sources):
        told.section(f"-- rests on what was said in {'a whisper' if room is None else safe_name(room)}")
        told.messages([source.message for source in provenance.sources if source.room_name == room])
    for heading, chain in (
        ("superseded by", provenance.successors),
        ("takes the place of", provenance.predecessors),
    ):
        told.section(f"-- {heading}")
        for memory in chain:
            told.memory(memory)
    return quoted(told, nothing="")


async def _remember(app: App, given: arguments.Remember) -> Quoted:
    details = given.model_dump(exclude={"content"})
    kept = await app.memories.remember(given.content, **details)
    told = Transcript(budget=arguments.DEFAULT_BUDGET)
    told.memory(kept)
    return quoted(told, nothing="", remarks=[f"It is {for_whom(kept)}."])


def _exchange(told: Transcript, hit: Hit) -> None:
    where = f"in {safe_name(hit.room_name)}" if hit.room_name else "in a whisper"
    told.section(f"-- {where}, score {hit.score:.2f}")
    best = sorted(hit.why, key=lambda key: -hit.why[key].score)
    told.messages(hit.messages, first=best)


def _evidence(answer: Answer, budget: int) -> Transcript:
    """Return what an answer rests on, under the labels by which its text cites it."""
    labels = {key: label for label, key in answer.citations.items() if not isinstance(key, str)}
    told = Transcript(budget=budget, labels=labels)
    for one in answer.memories:
        for memory in (one.memory, *one.superseded):
            told.memory(memory)
    for hit in answer.hits:
        _exchange(told, hit)
    for line in answer.lines:
        author = f"[{safe_name(line.author_name)}]: " if line.author_name else ""
        told.words(f"{on_one_line(line.file)}:{line.number} {author}{on_one_line(line.text)}")
    return told


TOOLS: Sequence[Tool] = (
    Tool(
        name="room_context",
        title="Context of a room",
        description="What to read before answering a message of a room: the replies around it, cited.",
        arguments=arguments.RoomContext,
        result=ContextTold,
        call=_room_context,
    ),
    Tool(
        name="room_search",
        title="Search rooms",
        description="Exchanges in which something was said, best first, cited.",
        arguments=arguments.RoomSearch,
        result=Quoted,
        call=_room_search,
    ),
    Tool(
        name="ask",
        title="Ask",
        description="An answer from rooms and memories with what it rests on, or that it is not known.",
        arguments=arguments.Ask,
        result=AnswerTold,
        call=_ask,
    ),
    Tool(
        name="memory_search",
        title="Search memories",
        description="Decisions, preferences, facts and lessons that stand, by question or the newest.",
        arguments=arguments.MemorySearch,
        result=Quoted,
        call=_memory_search,
    ),
    Tool(
        name="memory_why",
        title="Why a memory",
        description="The messages that a memory rests on, and what took its place.",
        arguments=arguments.MemoryWhy,
        result=Quoted,
        call=_memory_why,
    ),
    Tool(
        name="remember",
        title="Remember",
        description="Keep a statement as a memory, seen by those who may read every message it rests on; says who that is.",
        arguments=arguments.Remember,
        result=Quoted,
        call=_remember,
        writes=True,
    ),
)


def tools_of(app: App, *, allow_remember: bool) -> dict[str, Tool]:
    """Return the tools of whoever the App acts for, by name; one that may not be used is not there."""
    caller = app.desk.caller
    may_write = allow_remember and (caller.is_operator or "remember" in RIGHTS[caller.role])
    return {tool.name: tool for tool in TOOLS if may_write or not tool.writes}
