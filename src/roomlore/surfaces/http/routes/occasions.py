"""What somebody reads before they answer, as records: whole, and for an occasion that is described in the body."""

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from roomlore.agents.deciding import USUAL, Decision, Limits
from roomlore.context.limits import DEFAULT_BUDGET, DEFAULT_LIMITS, WalkLimits
from roomlore.context.memoryblock import DEFAULT_BUDGET as BLOCK_BUDGET
from roomlore.context.memoryblock import MemoryBlock
from roomlore.context.records import Context
from roomlore.domain.names import LAST
from roomlore.surfaces.http.responses import shown
from roomlore.surfaces.http.signin import Acting
from roomlore.surfaces.http.words import Body, Text, Word, Words

ROUTER = APIRouter(prefix="/v1/rooms/{room}", tags=["rooms"])
#: In seconds; a longer pause than a year is none.
LONGEST_GAP = 366 * 24 * 3600.0
Budget = Annotated[int, Field(ge=1, le=1_000_000)]
Count = Annotated[int, Field(ge=0, le=1_000)]
Share = Annotated[float, Field(ge=0, le=1)]


class Reach(Body):
    """How far a walk through a room goes, within what one request may cost; whatever is left out is as by default."""

    min_recent: Count = DEFAULT_LIMITS.min_recent
    max_messages: Annotated[int, Field(ge=1, le=200)] = DEFAULT_LIMITS.max_messages
    #: In seconds.
    gap: Annotated[float, Field(ge=0, le=LONGEST_GAP)] = DEFAULT_LIMITS.gap.total_seconds()
    min_confidence: Share = DEFAULT_LIMITS.min_confidence
    min_confidence_across_silence: Share = DEFAULT_LIMITS.min_confidence_across_silence
    near: Annotated[int, Field(ge=0, le=500)] = DEFAULT_LIMITS.near
    page: Annotated[int, Field(ge=1, le=100)] = DEFAULT_LIMITS.page
    max_replies: Annotated[int, Field(ge=1, le=256)] = DEFAULT_LIMITS.max_replies

    def limits(self) -> WalkLimits:
        """Return the limits of the walk."""
        facts: dict[str, Any] = self.model_dump()
        facts["gap"] = timedelta(seconds=self.gap)
        return WalkLimits(**facts)


class Restraint(Body):
    """Where an agent holds its tongue; whatever is left out is as by default."""

    longest_run: Count = USUAL.longest_run
    most_rounds: Count = USUAL.most_rounds
    window: Count = USUAL.window
    most_own: Count = USUAL.most_own
    bar: Share = USUAL.bar


class Answering(Body):
    """The message to answer, by default the last, and how much may be read before."""

    trigger: Word = LAST
    budget: Budget = DEFAULT_BUDGET
    limits: Reach = Field(default_factory=Reach)
    #: All that the viewer may read: nothing of it may be posted.
    private: bool = False


class Remembering(Body):
    """What a memory block is for; by default the room's last message, its conversation and who takes part in it."""

    trigger: Word = LAST
    topic: Text | None = None
    present: Words | None = None
    budget: Budget = BLOCK_BUDGET
    #: All that the viewer remembers: nothing of it may be posted.
    private: bool = False


class Called(Body):
    """The message in question, by default the last."""

    trigger: Word = LAST
    limits: Restraint = Field(default_factory=Restraint)


@ROUTER.post("/context", response_model=Context)
async def build_context(app: Acting, room: Word, wish: Answering) -> Response:
    """Tell what the viewer should read before answering a message of a room, with every message whole."""
    built = await app.context(
        app.desk.caller,
        room,
        wish.trigger,
        budget=wish.budget,
        limits=wish.limits.limits(),
        private=wish.private,
    )
    return shown(built)


@ROUTER.post("/block", response_model=MemoryBlock)
async def build_block(app: Acting, room: Word, wish: Remembering) -> Response:
    """Tell what the viewer, an agent, remembers that may matter in a room, each line with its memory."""
    block = await app.agents.block(
        app.desk.caller,
        room,
        wish.trigger,
        topic=wish.topic,
        present=wish.present,
        budget=wish.budget,
        private=wish.private,
    )
    return shown(block)


@ROUTER.post("/decision", response_model=Decision)
async def decide(app: Acting, room: Word, called: Called) -> Response:
    """Tell whether the viewer, an agent, should answer a message of a room, and why."""
    limits = Limits(**called.limits.model_dump())
    return shown(await app.agents.should_answer(app.desk.caller, room, called.trigger, limits=limits))
