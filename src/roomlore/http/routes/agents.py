"""Agents: what they remember, and what they make of whom they met."""

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
from roomlore.http.schemas import BlockGiven, block_given

ROUTER = APIRouter(prefix="/v1/agents/{agent}", tags=["agents"])


class Looked(QueryParameters):
    """Which memories of an agent are meant; what is left out narrows nothing."""

    kinds: list[MemoryKind] = Field(default_factory=list)
    tags: QueryTexts = Field(default_factory=list)
    task: ShortText | None = None
    present: QueryTexts = Field(default_factory=list)
    newest: bool = False
    limit: Limit = 50


class Occasion(RequestBody):
    """What a block is for."""

    room: ShortText
    trigger: ShortText = LAST
    topic: LongText | None = None
    present: ShortTexts = Field(default_factory=list)
    budget: Annotated[int, Field(ge=1, le=1_000_000)] = DEFAULT_SECTION_BUDGET
    explain: bool = False
    #: All that the agent remembers: nothing of it may be posted.
    private: bool = False


@ROUTER.get("/memories", response_model=list[Memory])
async def list_agent_memories(
    app: AuthenticatedApp, agent: ShortText, looked: Annotated[Looked, Query()]
) -> Response:
    """List what an agent remembers as its own experience, what weighs most first: importance, less the older it is."""
    wanted = looked.model_dump(exclude={"limit"})
    return json_response(await app.agents.memories(app.access.principal, agent, limit=looked.limit, **wanted))


@ROUTER.get("/decision", response_model=Decision)
async def read_decision(
    app: AuthenticatedApp, agent: ShortText, room: ShortText, trigger: ShortText = LAST
) -> Response:
    """Tell whether an agent should answer a message of a room, and why."""
    reader = await app.agents.reader(agent)
    return json_response(await app.agents.should_answer(reader, room, trigger))


@ROUTER.post("/block", response_model=BlockGiven)
async def read_block(app: AuthenticatedApp, agent: ShortText, occasion: Occasion) -> Response:
    """Tell what an agent remembers that may matter in a room, as it reads it before it answers."""
    block = await app.agents.block(
        await app.agents.reader(agent),
        occasion.room,
        occasion.trigger,
        topic=occasion.topic,
        present=occasion.present or None,
        budget=occasion.budget,
        private=occasion.private,
    )
    return json_response(block_given(block, explain=occasion.explain))
