"""The tools: what a language model may ask for. Each reads with the eyes of whoever the App acts for."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from roomlore.context.render import FORMAT_NOTE, to_text
from roomlore.domain.errors import BadInput
from roomlore.domain.ids import MessageId
from roomlore.domain.phrases import memory_audience_phrase
from roomlore.domain.records import RIGHTS, Memory, Right
from roomlore.domain.rendering import as_one_line, safe_name
from roomlore.mcp import arguments
from roomlore.mcp.arguments import Arguments
from roomlore.mcp.results import (
    AnswerResult,
    ContextResult,
    PeopleResult,
    PersonSummary,
    QuotedResult,
    RoomsResult,
    RoomSummary,
    ToolResult,
    WriteResult,
    fenced,
    quoted,
)
from roomlore.mcp.transcript import NOTE, CitedMessage, Transcript, memory_line
from roomlore.operations import App
from roomlore.operations.history import History
from roomlore.operations.timeline import Timeline
from roomlore.search.records import Answer, Hit


async def remember(app: App, given: arguments.Remember) -> QuotedResult:
    """Keep a statement as a memory, and return it."""
    details = given.model_dump(exclude={"content"})
    kept = await app.memories.remember(given.content, **details)
    told = Transcript(budget=arguments.DEFAULT_BUDGET)
    told.memory(kept)
    return quoted(told, nothing="", remarks=[f"It is {memory_audience_phrase(kept)}."])


async def say(app: App, given: arguments.RoomSay) -> WriteResult:
    """Say something in a room, and return which message it is."""
    said = await app.intake.say(given.room, given.text, reply_to=given.reply_to, to=given.to)
    return WriteResult(done="said", message_id=said)


async def forget(app: App, given: arguments.Forget) -> WriteResult:
    """Put a memory aside, or erase a message; return which one."""
    _check_one(given)
    if given.message is not None:
        return WriteResult(done="erased", message_id=(await app.erasure.message(given.message)).message_id)
    return _write_result("put aside", await app.memories.forget(given.memory or ""))


async def correct(app: App, given: arguments.Correct) -> WriteResult:
    """Put what is right in the place of a memory, or edit a message; return which one."""
    _check_one(given)
    if given.message is not None:
        return WriteResult(done="edited", message_id=await app.intake.edit(given.message, given.text))
    return _write_result("replaced", await app.memories.correct(given.memory or "", given.text))


def _check_one(given: arguments.Forget | arguments.Correct) -> None:
    if (given.memory is None) == (given.message is None):
        raise BadInput("memory", "name a memory or a message, and not both")


def _write_result(done: Literal["replaced", "put aside"], memory: Memory) -> WriteResult:
    return WriteResult(done=done, memory_id=memory.id, text=memory_line(memory))


#: What stands in a place before every message of a moment.
FIRST_AT_TIME = (-(2**63), MessageId(UUID(int=0)))
#: What it had to do without, in words.
DEGRADED: Mapping[str, str] = {
    "no embedding model": "Searched by words alone: there is no embedding model.",
    "one of two embedding models is unavailable": "Of two embedding models one is unavailable; the other one searched.",
    "not everything is embedded yet": "Not everything is embedded yet; what is newest may be missing.",
    "qdrant is unavailable": "Qdrant is unavailable; the database answered alone.",
    "neo4j is unavailable": "Neo4j is unavailable; the database answered alone.",
}

#: Characters of a part of a message.
MAX_PART_LENGTH = 6_000
#: Said where messages are so long that fewer were read than asked for.
EARLIER = "These are not all. For what came before them, ask again with before {message}."
#: Said where nothing was asked for that everybody in a room may read.
NOT_POSTABLE_NOTE = "This is for your eyes only: others may not be allowed to read it. To get what may be posted in a room, name the room."


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """Something that may be asked for."""

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    result: type[ToolResult]
    call: Callable[[App, Any], Awaitable[ToolResult]]
    #: What whoever uses it must be allowed; None for a tool that only reads.
    right: Right | None = None
    is_destructive: bool = False


async def _room_list(app: App, given: arguments.RoomList) -> RoomsResult:
    seen = await app.rooms(app.access.principal)
    listed = [
        RoomSummary(
            id=one.id,
            name=safe_name(one.qualified_name),
            platform=one.platform,
            kind=one.kind,
            is_closed=one.visibility == "members",
            messages=one.message_count,
            last_activity_at=one.last_activity_at,
        )
        for one in seen[: given.limit]
    ]
    return RoomsResult(rooms=listed, total=len(seen))


async def _people_list(app: App, given: arguments.PeopleList) -> PeopleResult:
    known = await app.participants(app.access.principal, room=given.room)
    listed = [
        PersonSummary(
            id=one.id,
            name=safe_name(one.name),
            kind=one.kind,
            messages=one.message_count,
            last_seen_at=one.last_seen_at,
        )
        for one in known[: given.limit]
    ]
    return PeopleResult(people=listed, total=len(known))


async def _room_read(app: App, given: arguments.RoomRead) -> QuotedResult:
    if given.before is not None and given.until is not None:
        raise BadInput("before", "leave out until beside it")
    before = given.before if given.until is None else (given.until, *FIRST_AT_TIME)
    found = await History(access=app.access).messages(
        app.access.principal, given.room, limit=given.limit, before=before, recalls=True
    )
    told = Transcript(budget=given.budget)
    said = found.items[::-1]
    begun = told.messages([one for one in said if given.since is None or one.sent_at >= given.since])
    is_cut = found.is_cut and (given.since is None or said[0].sent_at >= given.since)
    remarks = [EARLIER.format(message=begun)] if told.left_out or is_cut else []
    return quoted(told, nothing="Nothing was said then that you may read.", remarks=remarks)


async def _message_read(app: App, given: arguments.MessageRead) -> QuotedResult:
    found = await Timeline(access=app.access).full_message(
        app.access.principal,
        given.room,
        given.message,
        part=given.part,
        stretch=MAX_PART_LENGTH,
        recalls=True,
    )
    # What makes it harmless may make it longer.
    told = Transcript(budget=arguments.MOST_BUDGET, longest=2 * MAX_PART_LENGTH)
    told.messages([found.message])
    more = f"; ask for part {found.part + 1}" if found.part < found.parts else ""
    remarks = [f"Part {found.part} of {found.parts}{more}."] if found.parts > 1 else []
    return quoted(told, nothing="", remarks=remarks)


async def _room_context(app: App, given: arguments.RoomContext) -> ContextResult:
    context = await app.context(
        app.access.principal, given.room, given.message, budget=given.budget, private=given.private
    )
    bots = {line.message.id for line in context.lines if line.message.author_kind == "agent"}
    speakers = {line.message.id: line.speaker for line in context.lines}
    unnamed = {
        line.message.id for line in context.lines if line.message.kind == "system" or line.message.erased_at
    }
    return ContextResult(
        room_id=context.room_id,
        message_id=context.trigger_id,
        tokens=context.tokens,
        budget=context.budget,
        note=FORMAT_NOTE,
        text=to_text(context),
        citations=[
            CitedMessage(
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
        postable=context.postable,
    )


async def _room_search(app: App, given: arguments.RoomSearch) -> QuotedResult:
    found = await app.search(
        app.access.principal, given.question, room=given.room, limit=given.limit, private=given.private
    )
    told = Transcript(budget=given.budget)
    for hit in found.hits:
        _add_thread(told, hit)
    read = found.read
    remarks = [DEGRADED[one] for one in found.degraded]
    remarks += [f"Only what was said {narrowed}."] if read and (narrowed := read.summary()) else []
    remarks += [remark] if read and (remark := read.unknown_names_note()) else []
    remarks += [] if found.postable == "room" else [NOT_POSTABLE_NOTE]
    return quoted(told, nothing="Nothing was found that you may read.", remarks=remarks)


async def _ask(app: App, given: arguments.Ask) -> AnswerResult:
    answer = await app.ask(app.access.principal, given.question, room=given.room, private=given.private)
    told = _evidence(answer, given.budget)
    remarks = [DEGRADED[one] for one in answer.degraded]
    remarks += [as_one_line(answer.note)] if answer.note else []
    remarks += [] if answer.postable == "room" else [NOT_POSTABLE_NOTE]
    remarks += told.remarks
    return AnswerResult(
        postable=answer.postable,
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


async def _memory_search(app: App, given: arguments.MemorySearch) -> QuotedResult:
    viewer, told = app.access.principal, Transcript(budget=given.budget)
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


async def _memory_why(app: App, given: arguments.MemoryWhy) -> QuotedResult:
    provenance = await app.memories.why(app.access.principal, given.memory)
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


def _add_thread(told: Transcript, hit: Hit) -> None:
    where = f"in {safe_name(hit.room_name)}" if hit.room_name else "in a whisper"
    told.section(f"-- {where}, score {hit.score:.2f}")
    best = sorted(hit.why, key=lambda key: -hit.why[key].score)
    after = hit.messages[-1].id
    rest = f"room_read with room {hit.messages[0].room_id} and before {after} reads the room there"
    rest = rest if hit.room_name else "ask with a larger budget"
    told.add_thread(hit, first=best, rest=rest)


def _evidence(answer: Answer, budget: int) -> Transcript:
    """Return what an answer rests on, under the labels by which its text cites it."""
    labels = {key: label for label, key in answer.citations.items() if not isinstance(key, str)}
    told = Transcript(budget=budget, labels=labels)
    for one in answer.memories:
        for memory in (one.memory, *one.superseded):
            told.memory(memory)
    for hit in answer.hits:
        _add_thread(told, hit)
    for line in answer.lines:
        author = f"[{safe_name(line.author_name)}]: " if line.author_name else ""
        told.add_quote(f"{as_one_line(line.file)}:{line.number} {author}{as_one_line(line.text)}")
    return told


TOOLS: Sequence[Tool] = (
    Tool(
        name="room_list",
        title="Rooms",
        description="The rooms you may see, most recently active first.",
        arguments=arguments.RoomList,
        result=RoomsResult,
        call=_room_list,
    ),
    Tool(
        name="people_list",
        title="People",
        description="The people and agents you may know of, or those who spoke in a room.",
        arguments=arguments.PeopleList,
        result=PeopleResult,
        call=_people_list,
    ),
    Tool(
        name="room_read",
        title="Read a room",
        description="What was said in a room in a span of time, oldest first, cited.",
        arguments=arguments.RoomRead,
        result=QuotedResult,
        call=_room_read,
    ),
    Tool(
        name="message_read",
        title="Read a message",
        description="All that one message of a room says, part by part where it is very long.",
        arguments=arguments.MessageRead,
        result=QuotedResult,
        call=_message_read,
    ),
    Tool(
        name="room_context",
        title="Context of a room",
        description="What to read before answering a message of a room: the replies around it, cited.",
        arguments=arguments.RoomContext,
        result=ContextResult,
        call=_room_context,
    ),
    Tool(
        name="room_search",
        title="Search rooms",
        description="Exchanges in which something was said, best first, cited.",
        arguments=arguments.RoomSearch,
        result=QuotedResult,
        call=_room_search,
    ),
    Tool(
        name="ask",
        title="Ask",
        description="An answer from rooms and memories with what it rests on, or that it is not known.",
        arguments=arguments.Ask,
        result=AnswerResult,
        call=_ask,
    ),
    Tool(
        name="memory_search",
        title="Search memories",
        description="Decisions, preferences, facts and lessons that stand, by question or the newest.",
        arguments=arguments.MemorySearch,
        result=QuotedResult,
        call=_memory_search,
    ),
    Tool(
        name="memory_why",
        title="Why a memory",
        description="The messages that a memory rests on, and what took its place.",
        arguments=arguments.MemoryWhy,
        result=QuotedResult,
        call=_memory_why,
    ),
    Tool(
        name="remember",
        title="Remember",
        description="Keep a statement as a memory, seen by those who may read every message it rests on; says who that is.",
        arguments=arguments.Remember,
        result=QuotedResult,
        call=remember,
        right="remember",
    ),
    Tool(
        name="room_say",
        title="Say",
        description="Say something in a room, as yourself.",
        arguments=arguments.RoomSay,
        result=WriteResult,
        call=say,
        right="speak",
    ),
    Tool(
        name="correct",
        title="Correct",
        description="Replace a memory that has to do with you, or edit a message of yours.",
        arguments=arguments.Correct,
        result=WriteResult,
        call=correct,
        right="correct",
    ),
    Tool(
        name="forget",
        title="Forget",
        description="Put aside a memory that has to do with you, or erase a message of yours for good.",
        arguments=arguments.Forget,
        result=WriteResult,
        call=forget,
        right="erase own",
        is_destructive=True,
    ),
)


def tools_for(app: App, *, allow_writes: bool) -> dict[str, Tool]:
    """Return the tools of whoever the App acts for, by name; one that may not be used is not there."""
    rights = RIGHTS[app.access.principal.role] if allow_writes else frozenset[Right]()
    return {tool.name: tool for tool in TOOLS if tool.right is None or tool.right in rights}
