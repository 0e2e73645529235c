"""Search, and answers with sources."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args
from uuid import UUID

from roomlore.db.timeline import RoomHeader
from roomlore.domain.errors import BadInput
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.patterns import lazy_pattern
from roomlore.operations.responses import (
    AnswerResponse,
    FoundThread,
    SearchResponse,
    answer_response,
    search_response,
)
from roomlore.operations.rooms import RoomDirectory
from roomlore.search.query_parser import Filters
from roomlore.search.records import Answer, SearchResult
from roomlore.web.pages import PageRoutes
from roomlore.web.request_context import RequestContext
from roomlore.web.rows import colours

PAGES = PageRoutes()
#: Threads on a page: by default, and at most.
SHOWN, MOST = 10, 50
#: The maximum number of characters of a matching message, and of its neighbours. It is a little more than the page
#: shows.
MAX_LENGTH, MAX_NEIGHBOUR_LENGTH = 1_600, 700
#: The maximum number of rooms that the form offers.
MOST_ROOMS = 200
KINDS = get_args(ParticipantKind)
ANSWERED_CHOICES: Mapping[str, bool | None] = {"": None, "yes": True, "no": False}
ACTIONS = ("search", "ask")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchForm:
    """The fields of the form."""

    question: str
    room: str | None
    by: str | None
    kind: str | None
    since: str | None
    until: str | None
    answered: str
    as_of: str | None
    is_literal: bool
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPiece:
    """A part of an answer's text; a citation links to its source."""

    text: str
    #: The id of the cited message or memory, or the position of a log line; None for plain text.
    cites: UUID | str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPage:
    """A question, and its results or answer."""

    asking: SearchForm
    #: The requested action, "search" or "ask"; None without a question.
    deed: str | None
    rooms: Sequence[RoomHeader]
    found: SearchResponse | None = None
    answer: AnswerResponse | None = None
    pieces: Sequence[TextPiece] = ()

    @property
    def threads(self) -> Sequence[FoundThread]:
        """The threads found, or the threads that the answer cites."""
        if self.found is not None:
            return self.found.hits
        return () if self.answer is None else self.answer.sources

    @property
    def colours(self) -> Mapping[Any, int]:
        """The colour of each author."""
        return colours(message.author_id for one in self.threads for message in one.messages)


@PAGES.page("/search", "search.html")
async def search(visit: RequestContext) -> SearchPage:
    """Return the results or the answer of a question."""
    asking, deed = _read_form(visit), _action(visit)
    rooms = await RoomDirectory(access=visit.app.access).names(visit.viewer, limit=MOST_ROOMS)
    if not asking.question:
        return SearchPage(asking=asking, deed=None, rooms=rooms)
    if deed == "ask":
        answer = await _run_ask(visit, asking)
        return SearchPage(
            asking=asking,
            deed=deed,
            rooms=rooms,
            answer=_shortened_answer(answer_response(answer)),
            pieces=pieces(answer.text, answer.citations),
        )
    found = await _run_search(visit, asking)
    return SearchPage(asking=asking, deed=deed, rooms=rooms, found=_shortened_results(search_response(found)))


def pieces(text: str, citations: Mapping[str, UUID | str]) -> list[TextPiece]:
    """Return the pieces of a text. The text is split at its citations."""
    if not citations:
        return [TextPiece(text=text)]
    longest_first = sorted(map(re.escape, citations), key=len, reverse=True)
    parts = lazy_pattern(f"({'|'.join(longest_first)})").split(text)
    return [TextPiece(text=part, cites=citations.get(part)) for part in parts if part]


def _shortened_results(found: SearchResponse) -> SearchResponse:
    return replace(found, hits=[_shortened_thread(one) for one in found.hits])


def _shortened_answer(answer: AnswerResponse) -> AnswerResponse:
    return replace(
        answer,
        sources=[_shortened_thread(one) for one in answer.sources],
        lines=[replace(line, text=line.text[:MAX_LENGTH]) for line in answer.lines],
    )


def _shortened_thread(one: FoundThread) -> FoundThread:
    """Return a thread with only the beginning of each message. The page of the room has the whole messages."""
    return replace(
        one,
        messages=[
            replace(message, body=message.body[: MAX_NEIGHBOUR_LENGTH if message.why is None else MAX_LENGTH])
            for message in one.messages
        ],
    )


async def _run_search(visit: RequestContext, asking: SearchForm) -> SearchResult:
    return await visit.app.search(
        visit.viewer,
        asking.question,
        room=asking.room,
        as_of=asking.as_of,
        filters=_filters(asking),
        limit=asking.limit,
        private=True,
    )


async def _run_ask(visit: RequestContext, asking: SearchForm) -> Answer:
    return await visit.app.ask(
        visit.viewer,
        asking.question,
        room=asking.room,
        as_of=asking.as_of,
        filters=_filters(asking),
        private=True,
    )


def _read_form(visit: RequestContext) -> SearchForm:
    answered = visit.word("answered") or ""
    if answered not in ANSWERED_CHOICES:
        raise BadInput("answered", "must be yes or no")
    return SearchForm(
        question=visit.word("q") or "",
        room=visit.word("room"),
        by=visit.word("by"),
        kind=visit.word("kind"),
        since=visit.word("since"),
        until=visit.word("until"),
        answered=answered,
        as_of=visit.word("as_of"),
        is_literal=visit.word("literal") is not None,
        limit=visit.number("limit", SHOWN, most=MOST),
    )


def _action(visit: RequestContext) -> str:
    deed = visit.word("do") or ACTIONS[0]
    if deed not in ACTIONS:
        raise BadInput("do", f"must be {' or '.join(ACTIONS)}")
    return deed


def _filters(asking: SearchForm) -> Filters:
    kinds = [kind for kind in KINDS if kind == asking.kind]
    if asking.kind is not None and not kinds:
        raise BadInput("kind", f"must be one of {', '.join(KINDS)}")
    return Filters(
        by=() if asking.by is None else (asking.by,),
        kinds=kinds,
        since=asking.since,
        until=asking.until,
        answered=ANSWERED_CHOICES[asking.answered],
        literal=asking.is_literal,
    )
