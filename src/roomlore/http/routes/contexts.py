"""What somebody reads before they answer, as records: whole, and for an occasion that is described in the body."""

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from roomlore.context.limits import DEFAULT_BUDGET, DEFAULT_LIMITS, ExpansionLimits
from roomlore.context.records import Context
from roomlore.domain.words import LAST
from roomlore.http.authentication import AuthenticatedApp
from roomlore.http.field_types import RequestBody, ShortText
from roomlore.http.responses import json_response

ROUTER = APIRouter(prefix="/v1/rooms/{room}", tags=["rooms"])
#: In seconds; a longer pause than a year is none.
LONGEST_GAP = 366 * 24 * 3600.0
Budget = Annotated[int, Field(ge=1, le=1_000_000)]
Count = Annotated[int, Field(ge=0, le=1_000)]
Share = Annotated[float, Field(ge=0, le=1)]


class Reach(RequestBody):
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

    def limits(self) -> ExpansionLimits:
        """Return the limits of the walk."""
        facts: dict[str, Any] = self.model_dump()
        facts["gap"] = timedelta(seconds=self.gap)
        return ExpansionLimits(**facts)


class Answering(RequestBody):
    """The message to answer, by default the last, and how much may be read before."""

    trigger: ShortText = LAST
    budget: Budget = DEFAULT_BUDGET
    limits: Reach = Field(default_factory=Reach)
    #: All that the viewer may read: nothing of it may be posted.
    private: bool = False


@ROUTER.post("/context", response_model=Context)
async def build_context(app: AuthenticatedApp, room: ShortText, wish: Answering) -> Response:
    """Tell what the viewer should read before answering a message of a room, with every message whole."""
    built = await app.context(
        app.access.principal,
        room,
        wish.trigger,
        budget=wish.budget,
        limits=wish.limits.limits(),
        private=wish.private,
    )
    return json_response(built)
