"""Agents: what they remember, and what they make of whom they met."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from roomlore.agents.deciding import Decision
from roomlore.context.memoryblock import DEFAULT_BUDGET
from roomlore.domain.names import LAST
from roomlore.domain.records import Memory, MemoryKind
from roomlore.surfaces.documents import BlockGiven, block_given
from roomlore.surfaces.http.responses import shown
from roomlore.surfaces.http.signin import Acting
from roomlore.surfaces.http.words import Body, Limit, Parameters, Several, Text, Word, Words

ROUTER = APIRouter(prefix="/v1/agents/{agent}", tags=["agents"])


class Looked(Parameters):
    """Which memories of an agent are meant; what is left out narrows nothing."""

    kinds: list[MemoryKind] = Field(default_factory=list)
    tags: Several = Field(default_factory=list)
    task: Word | None = None
    present: Several = Field(default_factory=list)
    newest: bool = False
    limit: Limit = 50


class Occasion(Body):
    """What a block is for."""

    room: Word
    trigger: Word = LAST
    topic: Text | None = None
    present: Words = Field(default_factory=list)
    budget: Annotated[int, Field(ge=1, le=1_000_000)] = DEFAULT_BUDGET
    explain: bool = False
    #: All that the agent remembers: nothing of it may be posted.
    private: bool = False


@ROUTER.get("/memories", response_model=list[Memory])
async def list_agent_memories(app: Acting, agent: Word, looked: Annotated[Looked, Query()]) -> Response:
    """List what an agent remembers as its own experience, what weighs most first: importance, less the older it is."""
    wanted = looked.model_dump(exclude={"limit"})
    return shown(await app.agents.memories(app.desk.caller, agent, limit=looked.limit, **wanted))


@ROUTER.get("/decision", response_model=Decision)
async def read_decision(app: Acting, agent: Word, room: Word, trigger: Word = LAST) -> Response:
    """Tell whether an agent should answer a message of a room, and why."""
    reader = await app.agents.reader(agent)
    return shown(await app.agents.should_answer(reader, room, trigger))


@ROUTER.post("/block", response_model=BlockGiven)
async def read_block(app: Acting, agent: Word, occasion: Occasion) -> Response:
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
    return shown(block_given(block, explain=occasion.explain))
