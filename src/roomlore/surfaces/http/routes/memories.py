"""Memories: listed by facets, asserted, explained, put right."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from roomlore.app.asserting import LONGEST_CONTENT, LONGEST_NAME, MOST_NAMED
from roomlore.app.finding import LONGEST_QUESTION
from roomlore.domain.records import AssertedFor, Memory, MemoryKind, MemoryStatus, Provenance
from roomlore.retrieval.records import Recalled
from roomlore.surfaces.http.responses import shown
from roomlore.surfaces.http.signin import Acting
from roomlore.surfaces.http.words import NO_NUL, Body, Limit, Moment, Parameters, Several, Word

ROUTER = APIRouter(prefix="/v1/memories", tags=["memories"])
Content = Annotated[str, Field(min_length=1, max_length=LONGEST_CONTENT, pattern=NO_NUL)]
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME, pattern=NO_NUL)]
Named = Annotated[list[Word], Field(max_length=MOST_NAMED)]


class Statement(Body):
    """A statement, and what it rests on; whatever is left out or null is as by default."""

    content: Content
    kind: MemoryKind | None = None
    #: Who stated it, for whom it is and when it was said: the first two only of what rests on no message.
    by: Word | None = None
    audience: AssertedFor | None = None
    occurred_at: Moment | None = None
    metadata: dict[str, Any] | None = None
    title: Name | None = None
    importance: Annotated[float, Field(ge=1, le=5)] | None = None
    confidence: Annotated[float, Field(ge=0, le=1)] | None = None
    sources: Named | None = None
    room: Word | None = None
    about: Named | None = None
    involving: Named | None = None
    tags: Annotated[list[Name], Field(max_length=MOST_NAMED)] | None = None
    task: Name | None = None
    sensitive: bool | None = None
    supersedes: Word | None = None


class Sought(Body):
    """What to look for among memories, in plain words."""

    question: Annotated[str, Field(min_length=1, max_length=LONGEST_QUESTION, pattern=NO_NUL)]
    limit: Annotated[int, Field(ge=1, le=1_000)] = 10


class Correction(Body):
    """What is right."""

    content: Content


class Facets(Parameters):
    """Which memories are meant; what is left out narrows nothing, and only those that stand are listed."""

    room: Word | None = None
    about: Word | None = None
    by: Word | None = None
    seen_by: Word | None = None
    kinds: list[MemoryKind] = Field(default_factory=list)
    statuses: list[MemoryStatus] = Field(default_factory=list)
    tags: Several = Field(default_factory=list)
    task: Word | None = None
    since: Moment | None = None
    as_of: Moment | None = None
    limit: Limit = 50


@ROUTER.get("", response_model=list[Memory])
async def list_memories(app: Acting, facets: Annotated[Facets, Query()]) -> Response:
    """List the newest memories, newest first: only those that stand, unless `statuses` names others.

    `as_of` lists what stood then, whatever its status is now.
    """
    wanted: dict[str, Any] = {
        name: value for name, value in facets if value is not None and value != [] and name != "limit"
    }
    return shown(await app.memories.all(app.desk.caller, limit=facets.limit, **wanted))


@ROUTER.post("", response_model=Memory)
async def remember(app: Acting, statement: Statement) -> Response:
    """Keep a statement, seen by those who may read every message it rests on; one that says the same is returned instead.

    Without `sources` the `audience` says for whom it is: `org`, by default with an operator's key, or `self`, whoever
    asserts it alone. The memory that is returned says for whom it is.
    """
    details = statement.model_dump(exclude={"content"}, exclude_none=True)
    return shown(await app.memories.remember(statement.content, **details))


@ROUTER.post("/search", response_model=list[Recalled])
async def search_memories(app: Acting, wish: Sought) -> Response:
    """Find memories that fit a question by their words, each as it stands now, best first."""
    return shown(await app.memories.search(app.desk.caller, wish.question, limit=wish.limit))


@ROUTER.get("/{memory}", response_model=Provenance)
async def explain_memory(app: Acting, memory: Word) -> Response:
    """Tell what a memory rests on: messages with their words that count, conversations and rooms; and its history."""
    return shown(await app.memories.why(app.desk.caller, memory))


@ROUTER.post("/{memory}/correct", response_model=Memory)
async def correct_memory(app: Acting, memory: Word, right: Correction) -> Response:
    """Put what is right in the place of a memory, which stays as history."""
    return shown(await app.memories.correct(memory, right.content))


@ROUTER.post("/{memory}/forget", response_model=Memory)
async def forget_memory(app: Acting, memory: Word) -> Response:
    """Put a memory aside: nobody recalls it. What it rests on stays as it was said."""
    return shown(await app.memories.forget(memory))


@ROUTER.post("/{memory}/restore", response_model=Memory)
async def restore_memory(app: Acting, memory: Word) -> Response:
    """Let a memory stand again that was put aside, or whose place another took."""
    return shown(await app.memories.restore(memory))
