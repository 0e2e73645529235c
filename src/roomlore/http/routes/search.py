"""Search, questions and contexts. The question is in the body, so that no access log holds it."""

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from roomlore.context.limits import DEFAULT_BUDGET, DEFAULT_LIMITS, ExpansionLimits
from roomlore.context.records import Context
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.words import LAST
from roomlore.http.authentication import AuthenticatedApp
from roomlore.http.field_types import RequestBody, RoomBody, ShortText, ShortTexts
from roomlore.http.responses import json_response
from roomlore.operations.registry import NO_NUL
from roomlore.operations.responses import AnswerResponse, SearchResponse, answer_response, search_response
from roomlore.operations.search import LONGEST_QUESTION
from roomlore.search.query_parser import Filters

ROUTER = APIRouter(prefix="/v1")
Question = Annotated[str, Field(min_length=1, max_length=LONGEST_QUESTION, pattern=NO_NUL)]
ResultLimit = Annotated[int, Field(ge=1, le=100)]
#: The maximum of a gap, in seconds. Longer pauses than a year are not accepted.
LONGEST_GAP = 366 * 24 * 3600.0
Count = Annotated[int, Field(ge=0, le=1_000)]
Share = Annotated[float, Field(ge=0, le=1)]
FILTERS = {"by", "kinds", "since", "until", "conversation", "answered", "literal"}


class QuestionRequest(RoomBody):
    """A question, and the room where it is asked."""

    question: Question
    #: Whether to use everything that the viewer may read, rather than only what everybody in the room may read. The
    #: result may then not be posted in the room.
    private: bool = False


class FilteredRequest(QuestionRequest):
    """A question, and filters of the messages to search."""

    #: The message that is treated as the last one. Later messages are ignored.
    as_of: ShortText | None = None
    by: ShortTexts = Field(default_factory=list)
    kinds: list[ParticipantKind] = Field(default_factory=list)
    since: ShortText | None = None
    until: ShortText | None = None
    conversation: ShortText | None = None
    answered: bool | None = None
    literal: bool = False

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that `search` and `ask` share."""
        filters = Filters(**self.model_dump(include=FILTERS))
        return {"room": self.room, "as_of": self.as_of, "filters": filters, "private": self.private}


class SearchRequest(FilteredRequest):
    """A search."""

    limit: ResultLimit = 10


class AskRequest(FilteredRequest):
    """A question to answer. With `quote`, no language model is called."""

    quote: bool = False


class SimilarRequest(QuestionRequest):
    """A question that the viewer may have asked before."""

    limit: ResultLimit = 10


class ExpansionBody(RequestBody):
    """Limits of the messages that a context collects. Missing fields get their defaults."""

    min_recent: Count = DEFAULT_LIMITS.min_recent
    max_messages: Annotated[int, Field(ge=1, le=200)] = DEFAULT_LIMITS.max_messages
    #: The gap in seconds.
    gap: Annotated[float, Field(ge=0, le=LONGEST_GAP)] = DEFAULT_LIMITS.gap.total_seconds()
    min_confidence: Share = DEFAULT_LIMITS.min_confidence
    min_confidence_across_silence: Share = DEFAULT_LIMITS.min_confidence_across_silence
    near: Annotated[int, Field(ge=0, le=500)] = DEFAULT_LIMITS.near
    page: Annotated[int, Field(ge=1, le=100)] = DEFAULT_LIMITS.page
    max_replies: Annotated[int, Field(ge=1, le=256)] = DEFAULT_LIMITS.max_replies


class ContextRequest(RequestBody):
    """The message to answer, and the budget of its context.

    Default: the newest message that everybody in the room may read.
    """

    trigger: ShortText = LAST
    budget: Annotated[int, Field(ge=1, le=1_000_000)] = DEFAULT_BUDGET
    limits: ExpansionBody = Field(default_factory=ExpansionBody)
    #: Whether to use everything that the viewer may read. The context may then not be posted.
    private: bool = False


@ROUTER.post("/search", response_model=SearchResponse, tags=["search"])
async def search(app: AuthenticatedApp, body: SearchRequest) -> Response:
    """Find messages, as whole threads, best first, each with its reasons.

    Authors and times that the question itself names also filter the messages, unless the request is `literal`. If the
    request names a room, it finds what everybody in the room may read. With `private`, it finds everything that the
    viewer may read, and the result may not be posted.
    """
    viewer = app.access.principal
    found = await app.search(viewer, body.question, limit=body.limit, **body.arguments())
    return json_response(search_response(found))


@ROUTER.post("/search/similar", response_model=SearchResponse, tags=["search"])
async def search_similar(app: AuthenticatedApp, body: SimilarRequest) -> Response:
    """Find threads in which the viewer asked a similar question before, most similar first."""
    found = await app.similar(
        app.access.principal, body.question, room=body.room, limit=body.limit, private=body.private
    )
    return json_response(search_response(found))


@ROUTER.post("/ask", response_model=AnswerResponse, tags=["search"])
async def ask(app: AuthenticatedApp, body: AskRequest) -> Response:
    """Answer from messages, with sources and the trace of each stage, or say that the answer is not known.

    If the request names a room, the answer uses what everybody in the room may read. With `private`, it uses everything
    that the viewer may read, and may not be posted.
    """
    viewer = app.access.principal
    answer = await app.ask(viewer, body.question, quote=body.quote, **body.arguments())
    return json_response(answer_response(answer))


@ROUTER.post("/rooms/{room}/context", response_model=Context, tags=["rooms"])
async def build_context(app: AuthenticatedApp, room: ShortText, body: ContextRequest) -> Response:
    """Return what the viewer should read before answering a message of a room. Every message is whole."""
    limits: dict[str, Any] = body.limits.model_dump() | {"gap": timedelta(seconds=body.limits.gap)}
    context = await app.context(
        app.access.principal,
        room,
        body.trigger,
        budget=body.budget,
        limits=ExpansionLimits(**limits),
        private=body.private,
    )
    return json_response(context)
