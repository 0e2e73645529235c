"""Searching and asking; what is asked stands in bodies, so that it is in nobody's log."""

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from roomlore.app.finding import LONGEST_QUESTION
from roomlore.domain.incoming import ParticipantKind
from roomlore.retrieval.asked import Filters
from roomlore.surfaces.documents import AnswerGiven, FoundExchanges, answer_given, found_exchanges
from roomlore.surfaces.http.responses import shown
from roomlore.surfaces.http.signin import Acting
from roomlore.surfaces.http.words import NO_NUL, InRoom, Word, Words

ROUTER = APIRouter(prefix="/v1", tags=["search"])
Question = Annotated[str, Field(min_length=1, max_length=LONGEST_QUESTION, pattern=NO_NUL)]
Exchanges = Annotated[int, Field(ge=1, le=100)]


class Narrowed(InRoom):
    """A question, and what of the messages to look through."""

    question: Question
    #: As if this message had been the last.
    as_of: Word | None = None
    by: Words = Field(default_factory=list)
    kinds: list[ParticipantKind] = Field(default_factory=list)
    since: Word | None = None
    until: Word | None = None
    conversation: Word | None = None
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


class Similar(InRoom):
    """What the viewer may have asked before."""

    question: Question
    limit: Exchanges = 10


@ROUTER.post("/search", response_model=FoundExchanges)
async def search(app: Acting, wish: Search) -> Response:
    """Find what was said, as whole exchanges, best first, each with its reasons.

    What the question itself says of who said something and when narrows it too, unless it is `literal`.
    """
    found = await app.search(
        app.desk.caller,
        wish.question,
        room=wish.room,
        as_of=wish.as_of,
        filters=wish.filters(),
        limit=wish.limit,
    )
    return shown(found_exchanges(found))


@ROUTER.post("/search/similar", response_model=FoundExchanges)
async def search_similar(app: Acting, wish: Similar) -> Response:
    """Find exchanges in which the viewer asked something like this before, most alike first."""
    found = await app.similar(app.desk.caller, wish.question, room=wish.room, limit=wish.limit)
    return shown(found_exchanges(found))


@ROUTER.post("/ask", response_model=AnswerGiven)
async def ask(app: Acting, wish: Ask) -> Response:
    """Answer from what was said, with sources and what each tier saw, or say that it is not known."""
    answer = await app.ask(
        app.desk.caller,
        wish.question,
        room=wish.room,
        as_of=wish.as_of,
        filters=wish.filters(),
        quote=wish.quote,
    )
    return shown(answer_given(answer))
