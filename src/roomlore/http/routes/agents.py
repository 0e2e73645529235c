"""Routes that return what a named agent remembers."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from roomlore.agents.reply_policy import Decision
from roomlore.context.memory_section import DEFAULT_SECTION_BUDGET
from roomlore.domain.records import Memory, MemoryKind
from roomlore.domain.words import LAST
from roomlore.http.authentication import AuthenticatedApp
from roomlore.http.field_types import (
    Limit,
    LongText,
    QueryParameters,
    QueryTexts,
    RequestBody,
    ShortText,
    ShortTexts,
)
from roomlore.http.responses import json_response
from roomlore.operations.responses import MemorySectionResponse, memory_section_response

ROUTER = APIRouter(prefix="/v1/agents/{agent}", tags=["agents"])


class MemoryQuery(QueryParameters):
    """Filters of an agent's memories."""

    kinds: list[MemoryKind] = Field(default_factory=list)
    tags: QueryTexts = Field(default_factory=list)
    task: ShortText | None = None
    present: QueryTexts = Field(default_factory=list)
    newest: bool = False
    limit: Limit = 50


class MemorySectionRequest(RequestBody):
    """The message that an agent answers, and the budget of its memory section."""

    room: ShortText
    trigger: ShortText = LAST
    topic: LongText | None = None
    present: ShortTexts = Field(default_factory=list)
    budget: Annotated[int, Field(ge=1, le=1_000_000)] = DEFAULT_SECTION_BUDGET
    explain: bool = False
    #: Whether the section may contain everything that the agent remembers. The section may then not be posted.
    private: bool = False


@ROUTER.get("/memories", response_model=list[Memory])
async def list_agent_memories(
    app: AuthenticatedApp, agent: ShortText, query: Annotated[MemoryQuery, Query()]
) -> Response:
    """List the memories of an agent's own experience. The most important come first; importance falls with age."""
    return json_response(await app.agents.memories(app.access.principal, agent, **query.model_dump()))


@ROUTER.get("/decision", response_model=Decision)
async def read_decision(
    app: AuthenticatedApp, agent: ShortText, room: ShortText, trigger: ShortText = LAST
) -> Response:
    """Tell whether an agent should answer a message of a room, and why."""
    reader = await app.agents.reader(agent)
    return json_response(await app.agents.should_answer(reader, room, trigger))


@ROUTER.post("/memory-section", response_model=MemorySectionResponse)
async def read_block(app: AuthenticatedApp, agent: ShortText, body: MemorySectionRequest) -> Response:
    """Return the memories that an agent should read before it answers in a room."""
    section = await app.agents.memory_section(
        await app.agents.reader(agent),
        body.room,
        body.trigger,
        topic=body.topic,
        present=body.present or None,
        budget=body.budget,
        private=body.private,
    )
    return json_response(memory_section_response(section, explain=body.explain))
