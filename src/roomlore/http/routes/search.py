"""Searching and asking; what is asked stands in bodies, so that it is in nobody's log."""

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from roomlore.domain.incoming import ParticipantKind
from roomlore.http.authentication import AuthenticatedApp
from roomlore.http.field_types import RoomBody, ShortText, ShortTexts
from roomlore.http.responses import json_response
from roomlore.http.schemas import AnswerGiven, FoundExchanges, answer_given, found_exchanges
from roomlore.operations.registry import NO_NUL
from roomlore.operations.search import LONGEST_QUESTION
from roomlore.search.query_parser import Filters

ROUTER = APIRouter(prefix="/v1", tags=["search"])
Question = Annotated[str, Field(min_length=1, max_length=LONGEST_QUESTION, pattern=NO_NUL)]
Exchanges = Annotated[int, Field(ge=1, le=100)]


class Questioned(RoomBody):
    """A question, and in which room it is asked."""

    question: Question
    #: All that the viewer may read, and not only what everybody in the room may: nothing of it may be posted there.
    private: bool = False


class Narrowed(Questioned):
    """A question, and what of the messages to look through."""

    #: As if this message had been the last.
    as_of: ShortText | None = None
    by: ShortTexts = Field(default_factory=list)
    kinds: list[ParticipantKind] = Field(default_factory=list)
    since: ShortText | None = None
    until: ShortText | None = None
    conversation: ShortText | None = None
    answered: bool | None = None
    literal: bool = False
    near: bool = False

    def filters(self) -> Filters:
        """Return what narrows the question."""
        return Filters(
            by=self.by,
            kinds=self.kinds,
            since=self.since,
            until=self.until,
            conversation=self.conversation,
            answered=self.answered,
            literal=self.literal,
            near=self.near,
        )


class Search(Narrowed):
    """What to search for."""

    limit: Exchanges = 10


class Ask(Narrowed):
    """What to answer; `quote` asks no language model."""

    quote: bool = False


class Similar(Questioned):
    """What the viewer may have asked before."""

    limit: Exchanges = 10


@ROUTER.post("/search", response_model=FoundExchanges)
async def search(app: AuthenticatedApp, wish: Search) -> Response:
    """Find what was said, as whole exchanges, best first, each with its reasons.

    What the question itself says of who said something and when narrows it too, unless it is `literal`. With a room it
    finds what everybody there may read; `private` all that the viewer may, of which nothing may be posted.
    """
    found = await app.search(
        app.access.principal,
        wish.question,
        room=wish.room,
        as_of=wish.as_of,
        filters=wish.filters(),
        limit=wish.limit,
        private=wish.private,
    )
    return json_response(found_exchanges(found))


@ROUTER.post("/search/similar", response_model=FoundExchanges)
async def search_similar(app: AuthenticatedApp, wish: Similar) -> Response:
    """Find exchanges in which the viewer asked something like this before, most alike first."""
    found = await app.similar(
        app.access.principal, wish.question, room=wish.room, limit=wish.limit, private=wish.private
    )
    return json_response(found_exchanges(found))


@ROUTER.post("/ask", response_model=AnswerGiven)
async def ask(app: AuthenticatedApp, wish: Ask) -> Response:
    """Answer from what was said, with sources and what each tier saw, or say that it is not known.

    With a room from what everybody there may read; `private` from all that the viewer may, of which nothing may be posted.
    """
    answer = await app.ask(
        app.access.principal,
        wish.question,
        room=wish.room,
        as_of=wish.as_of,
        filters=wish.filters(),
        quote=wish.quote,
        private=wish.private,
    )
    return json_response(answer_given(answer))
