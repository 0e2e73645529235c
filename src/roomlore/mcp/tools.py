"""The tools that a language model may call. Each acts as the viewer of its App.

A tool is a function. The client sees its name, docstring and annotated arguments.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar, get_type_hints
from uuid import UUID

from roomlore.context.render import format_note, to_text
from roomlore.domain.errors import BadInput
from roomlore.domain.ids import MessageId
from roomlore.domain.phrases import memory_audience_phrase
from roomlore.domain.records import RIGHTS, MemoryKind, Right
from roomlore.domain.rendering import as_one_line, safe_name
from roomlore.mcp import arguments
from roomlore.mcp.arguments import (
    DEFAULT_BUDGET,
    Arguments,
    Budget,
    Limit,
    ListLimit,
    LongText,
    Part,
    ShortText,
    ShortTexts,
    UtcTime,
    arguments_model,
)
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
from roomlore.operations.registry import summary
from roomlore.operations.timeline import Timeline
from roomlore.search.records import Answer, Hit

Function = TypeVar("Function", bound=Callable[..., Awaitable[ToolResult]])

#: A position before all messages of a time.
FIRST_AT_TIME = (-(2**63), MessageId(UUID(int=0)))
#: Why a result may be incomplete, in sentences.
DEGRADED: Mapping[str, str] = {
    "no embedding model": "Only words were compared: there is no embedding model.",
    "one of two embedding models is unavailable": "One of two embedding models is unavailable; the other one searched.",
    "not everything is embedded yet": "Not everything is embedded yet; the newest messages may be missing.",
    "qdrant is unavailable": "Qdrant is unavailable; the database answered alone.",
    "neo4j is unavailable": "Neo4j is unavailable; the database answered alone.",
}
#: The maximum number of characters of one part of a message.
MAX_PART_LENGTH = 6_000
EARLIER = "There are earlier messages. To read them, call again with before {message}."
NOT_POSTABLE_NOTE = (
    "Only you may read all of this: do not post it. To get what may be posted in a room, name the room."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool as a client sees it."""

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    result: type[ToolResult]
    call: Callable[..., Awaitable[ToolResult]]
    #: The right that the caller needs; None for a tool that only reads.
    right: Right | None
    is_destructive: bool


TOOLS: list[Tool] = []


def tool(
    title: str, *, right: Right | None = None, is_destructive: bool = False
) -> Callable[[Function], Function]:
    """Make a tool of a function: its arguments after the App, its docstring and its result."""

    def add(function: Function) -> Function:
        TOOLS.append(
            Tool(
                name=function.__name__,
                title=title,
                description=summary(function),
                arguments=arguments_model(function),
                result=get_type_hints(function)["return"],
                call=function,
                right=right,
                is_destructive=is_destructive,
            )
        )
        return function

    return add


def tools_for(app: App, *, allow_writes: bool) -> dict[str, Tool]:
    """Return the tools that the viewer may use, by name. Other tools do not exist for the viewer."""
    rights = RIGHTS[app.access.principal.role] if allow_writes else frozenset[Right]()
    return {one.name: one for one in TOOLS if one.right is None or one.right in rights}


@tool("Rooms")
async def room_list(app: App, *, limit: ListLimit = 50) -> RoomsResult:
    """The rooms you may see, most recently active first."""
    rooms = await app.rooms(app.access.principal)
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
        for one in rooms[:limit]
    ]
    return RoomsResult(rooms=listed, total=len(rooms))


@tool("People")
async def people_list(app: App, *, room: ShortText | None = None, limit: ListLimit = 50) -> PeopleResult:
    """The people and agents you may know of, or those who wrote in a room.

    Args:
        room: Only people who wrote there; everybody by default.
    """
    people = await app.participants(app.access.principal, room=room)
    listed = [
        PersonSummary(
            id=one.id,
            name=safe_name(one.name),
            kind=one.kind,
            messages=one.message_count,
            last_seen_at=one.last_seen_at,
        )
        for one in people[:limit]
    ]
    return PeopleResult(people=listed, total=len(people))


@tool("Read a room")
async def room_read(
    app: App,
    room: ShortText,
    *,
    since: UtcTime | None = None,
    until: UtcTime | None = None,
    before: ShortText | None = None,
    limit: ListLimit = 50,
    budget: Budget = DEFAULT_BUDGET,
) -> QuotedResult:
    """The messages of a room in a time range, oldest first, with citations.

    Args:
        before: Id of a message; only messages before it.
        limit: How many at most, the newest of the range.
    """
    if before is not None and until is not None:
        raise BadInput("before", "leave out until beside it")
    page = await History(access=app.access).messages(
        app.access.principal,
        room,
        limit=limit,
        before=before if until is None else (until, *FIRST_AT_TIME),
        apply_restrictions=True,
    )
    transcript, messages = Transcript(budget=budget), page.items[::-1]
    first = transcript.messages([one for one in messages if since is None or one.sent_at >= since])
    is_cut = page.is_truncated and (since is None or messages[0].sent_at >= since)
    remarks = [EARLIER.format(message=first)] if transcript.omitted or is_cut else []
    return quoted(transcript, nothing="There are no messages that you may read.", notes=remarks)


@tool("Read a message")
async def message_read(app: App, room: ShortText, message: ShortText, *, part: Part = 1) -> QuotedResult:
    """The whole text of one message, in parts if it is very long.

    Args:
        message: Id of the message.
        part: Which part of its text.
    """
    found = await Timeline(access=app.access).full_message(
        app.access.principal, room, message, part=part, stretch=MAX_PART_LENGTH, apply_restrictions=True
    )
    # Escaping may make a part longer.
    transcript = Transcript(budget=arguments.MOST_BUDGET, longest=2 * MAX_PART_LENGTH)
    transcript.messages([found.message])
    more = f"; ask for part {found.part + 1}" if found.part < found.parts else ""
    remarks = [f"Part {found.part} of {found.parts}{more}."] if found.parts > 1 else []
    return quoted(transcript, nothing="", notes=remarks)


@tool("Context of a room")
async def room_context(
    app: App,
    room: ShortText,
    *,
    message: ShortText = "last",
    budget: Budget = DEFAULT_BUDGET,
    private: bool = False,
) -> ContextResult:
    """What to read before you answer a message of a room: the replies around it, with citations.

    Args:
        message: Id of the message to answer.
    """
    context = await app.context(app.access.principal, room, message, budget=budget, private=private)
    authors = {
        line.message.id: ""
        if line.message.kind == "system" or line.message.erased_at
        else f"{line.speaker} (bot)"
        if line.message.author_kind == "agent"
        else line.speaker
        for line in context.lines
    }
    return ContextResult(
        room_id=context.room_id,
        message_id=context.trigger_id,
        tokens=context.tokens,
        budget=context.budget,
        note=format_note(context),
        text=to_text(context),
        citations=[
            CitedMessage(
                label=f"#{one.label}",
                message_id=one.message_id,
                author=authors[one.message_id],
                at=one.sent_at,
            )
            for one in context.citations.values()
        ],
        memories={f"#{label}": key for label, key in context.memory_section.citations.items()}
        if context.memory_section
        else {},
        postable=context.postable,
    )


@tool("Search rooms")
async def room_search(
    app: App,
    question: LongText,
    *,
    room: ShortText | None = None,
    limit: Limit = 5,
    budget: Budget = DEFAULT_BUDGET,
    private: bool = False,
) -> QuotedResult:
    """Threads that match a question, best first, with citations.

    Args:
        question: In plain words; it may name people and times.
        room: Only in this room, and only what everybody there may read; everywhere by default.
    """
    found = await app.search(app.access.principal, question, room=room, limit=limit, private=private)
    transcript, filters = Transcript(budget=budget), found.applied_filters
    for hit in found.hits:
        _add_thread(transcript, hit)
    remarks = [DEGRADED[one] for one in found.degraded]
    remarks += [f"Only messages {summed}."] if filters and (summed := filters.summary()) else []
    remarks += [note] if filters and (note := filters.unknown_names_note()) else []
    remarks += [] if found.postable == "room" else [NOT_POSTABLE_NOTE]
    return quoted(transcript, nothing="Nothing was found that you may read.", notes=remarks)


@tool("Ask")
async def ask(
    app: App,
    question: LongText,
    *,
    room: ShortText | None = None,
    budget: Budget = DEFAULT_BUDGET,
    private: bool = False,
) -> AnswerResult:
    """An answer from rooms and memories with its sources, or that the answer is not known.

    Args:
        question: In plain words.
        room: Where you answer: look there first, and use what everybody there may read.
    """
    answer = await app.ask(app.access.principal, question, room=room, private=private)
    transcript = _evidence(answer, budget)
    remarks = [DEGRADED[one] for one in answer.degraded]
    remarks += [as_one_line(answer.note)] if answer.note else []
    remarks += [] if answer.postable == "room" else [NOT_POSTABLE_NOTE]
    return AnswerResult(
        postable=answer.postable,
        is_answered=answer.is_answered,
        answer=fenced(answer.text),
        stage=answer.stage,
        written_by=answer.written_by,
        note=NOTE,
        text=transcript.text,
        citations=transcript.cited,
        memories=transcript.memories,
        omitted=transcript.omitted,
        tokens=transcript.tokens,
        notes=[*remarks, *transcript.notes],
    )


@tool("Search memories")
async def memory_search(
    app: App,
    *,
    question: LongText | None = None,
    room: ShortText | None = None,
    about: ShortText | None = None,
    limit: Limit = 10,
    budget: Budget = DEFAULT_BUDGET,
) -> QuotedResult:
    """Active decisions, preferences, facts and lessons: those that match a question, or the newest.

    Args:
        question: What it is about; the newest by default.
        room: Only from this room; not with a question.
        about: Only about this participant; not with a question.
    """
    viewer, transcript = app.access.principal, Transcript(budget=budget)
    if question is None:
        found = await app.memories.all(viewer, limit=limit, room=room, about=about)
    elif room or about:
        raise BadInput("question", "leave out room and about beside it; put names into the question itself")
    else:
        found = [one.memory for one in await app.memories.search(viewer, question, limit=limit)]
    for memory in found:
        transcript.memory(memory)
    return quoted(transcript, nothing="There are no memories that you may read.")


@tool("Digest of a room")
async def room_digest(
    app: App,
    room: ShortText,
    *,
    since: UtcTime | None = None,
    limit: Limit = 50,
    budget: Budget = DEFAULT_BUDGET,
) -> QuotedResult:
    """New memories of a room since you last wrote there (decisions, promises, facts about people), and open questions.

    Args:
        since: Only memories and questions from this time on.
    """
    found = await app.memories.digest(app.access.principal, room, since=since, limit=limit)
    transcript = Transcript(budget=budget)
    personal = {memory.id: memory for person in found.people for memory in person.memories}
    for memory in (*(one for section in found.sections for one in section.memories), *personal.values()):
        transcript.memory(memory)
    if found.open_questions:
        transcript.section("Open questions")
        transcript.messages(found.open_questions)
    return quoted(transcript, nothing=f"Nothing new since {found.since:%Y-%m-%d %H:%M} UTC.")


@tool("Provenance of a memory")
async def memory_provenance(app: App, memory: ShortText, *, budget: Budget = DEFAULT_BUDGET) -> QuotedResult:
    """The source messages of a memory, and the memories that it replaced or was replaced by.

    Args:
        memory: Id of a memory, or the start of it.
    """
    provenance = await app.memories.provenance(app.access.principal, memory)
    transcript = Transcript(budget=budget)
    transcript.memory(provenance.memory)
    if not provenance.sources:
        transcript.heading("-- no source message")
    for room in dict.fromkeys(source.room_name for source in provenance.sources):
        transcript.section(f"-- sources in {'a whisper' if room is None else safe_name(room)}")
        transcript.messages([source.message for source in provenance.sources if source.room_name == room])
    for heading, chain in (("superseded by", provenance.successors), ("supersedes", provenance.predecessors)):
        transcript.section(f"-- {heading}")
        for one in chain:
            transcript.memory(one)
    return quoted(transcript, nothing="")


@tool("Remember", right="remember")
async def remember(
    app: App,
    content: LongText,
    *,
    sources: ShortTexts = (),  # pyright: ignore[reportArgumentType]  a list would be shared by all calls
    room: ShortText | None = None,
    about: ShortTexts = (),  # pyright: ignore[reportArgumentType]  as above
    kind: MemoryKind = "fact",
    occurred_at: UtcTime | None = None,
) -> QuotedResult:
    """Store a statement as a memory for those who may read all its sources; the result says who that is.

    Args:
        content: One statement.
        sources: Ids of source messages; none: only you see it.
        about: Who it is about.
        occurred_at: A day, or a time with zone.
    """
    stored = await app.memories.remember(
        content, sources=sources, room=room, about=about, kind=kind, occurred_at=occurred_at
    )
    transcript = Transcript(budget=DEFAULT_BUDGET)
    transcript.memory(stored)
    return quoted(transcript, nothing="", notes=[f"It is {memory_audience_phrase(stored)}."])


@tool("Send a message", right="speak")
async def message_send(
    app: App,
    room: ShortText,
    text: LongText,
    *,
    reply_to: ShortText | None = None,
    to: ShortTexts = (),  # pyright: ignore[reportArgumentType]  as above
) -> WriteResult:
    """Send a message to a room, as yourself.

    Args:
        reply_to: Id of the message it answers.
        to: Whisper to these people only; to the whole room by default.
    """
    message_id = await app.intake.send(room, text, reply_to=reply_to, to=to)
    return WriteResult(action="sent", message_id=message_id)


@tool("Correct", right="correct")
async def correct(
    app: App, text: LongText, *, memory: ShortText | None = None, message: ShortText | None = None
) -> WriteResult:
    """Replace a memory that involves you, or edit a message of yours.

    Args:
        text: The correct text.
        memory: Id of a memory to replace.
        message: Id of a message of yours to edit.
    """
    _check_one(memory, message)
    if message is not None:
        return WriteResult(action="edited", message_id=await app.intake.edit(message, text))
    replaced = await app.memories.correct(memory or "", text)
    return WriteResult(action="replaced", memory_id=replaced.id, text=memory_line(replaced))


@tool("Forget", right="erase own", is_destructive=True)
async def forget(
    app: App, *, memory: ShortText | None = None, message: ShortText | None = None
) -> WriteResult:
    """Archive a memory that involves you, or erase a message of yours for good.

    Args:
        memory: Id of a memory to archive.
        message: Id of a message of yours to erase for good.
    """
    _check_one(memory, message)
    if message is not None:
        return WriteResult(action="erased", message_id=(await app.erasure.message(message)).message_id)
    archived = await app.memories.archive(memory or "")
    return WriteResult(action="archived", memory_id=archived.id, text=memory_line(archived))


def _check_one(memory: str | None, message: str | None) -> None:
    if (memory is None) == (message is None):
        raise BadInput("memory", "name a memory or a message, and not both")


def _add_thread(transcript: Transcript, hit: Hit) -> None:
    where = f"in {safe_name(hit.room_name)}" if hit.room_name else "in a whisper"
    transcript.section(f"-- {where}, score {hit.score:.2f}")
    best = sorted(hit.why, key=lambda key: -hit.why[key].score)
    after = hit.messages[-1].id
    rest = f"call room_read with room {hit.messages[0].room_id} and before {after} to read them"
    rest = rest if hit.room_name else "call again with a larger budget"
    transcript.add_thread(hit, first=best, rest=rest)


def _evidence(answer: Answer, budget: int) -> Transcript:
    """Return the sources of an answer, with the labels that its text cites."""
    labels = {key: label for label, key in answer.citations.items() if not isinstance(key, str)}
    transcript = Transcript(budget=budget, labels=labels)
    for one in answer.memories:
        for memory in (one.memory, *one.superseded):
            transcript.memory(memory)
    for hit in answer.hits:
        _add_thread(transcript, hit)
    for line in answer.lines:
        author = f"[{safe_name(line.author_name)}]: " if line.author_name else ""
        transcript.add_quote(f"{as_one_line(line.file)}:{line.number} {author}{as_one_line(line.text)}")
    return transcript
