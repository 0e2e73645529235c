"""The explanation of a context: what a viewer reads before answering a message, and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from roomlore.context.expansion import TimeBoundary
from roomlore.context.limits import DEFAULT_BUDGET
from roomlore.domain.errors import BadInput, NotAllowed, NotFound
from roomlore.domain.ids import MessageId
from roomlore.domain.records import Viewer
from roomlore.operations.memories import MemoryBrowser, MessagePlace
from roomlore.operations.people import PeopleDirectory
from roomlore.operations.responses import ContextResponse, context_response
from roomlore.web.context_view import (
    Candidate,
    ContextGraph,
    ContextTextLine,
    MemoryCandidate,
    TokenShare,
    candidates_of,
    context_graph,
    lines_of,
    memory_candidates_of,
    token_shares_of,
)
from roomlore.web.pages import PageRoutes
from roomlore.web.request_context import RequestContext
from roomlore.web.rows import colours

PAGES = PageRoutes()
MOST_TOKENS = 200_000
#: The maximum number of names that a form offers.
MOST_NAMES = 200
OPERATOR, YOU = "the operator", "you"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSide:
    """The context of one viewer."""

    viewer_name: str
    given: ContextResponse
    lines: Sequence[ContextTextLine]
    spent: Sequence[TokenShare]
    candidates: Sequence[Candidate]
    #: The memories of an agent that were considered, whether or not they are in the context.
    memories: Sequence[MemoryCandidate]
    boundaries: Sequence[TimeBoundary]

    @property
    def colours(self) -> Mapping[Any, int]:
        """The colour of each author."""
        return colours(one.author_id for one in self.candidates)

    @property
    def picture(self) -> ContextGraph:
        """The drawing of the candidates."""
        return context_graph(self.candidates, self.boundaries, self.memories)

    @property
    def included(self) -> Mapping[MessageId, Candidate]:
        """The messages in the context, by id."""
        return {one.message_id: one for one in self.candidates if one.included}


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateDifference:
    """A message that only one of two contexts has.

    `elsewhere` is the reason why the other context leaves the message out. It is None if the other context did not
    consider the message.
    """

    candidate: Candidate
    #: Whether the first context has the message.
    is_first: bool
    elsewhere: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextComparison:
    """The differences to another viewer's context.

    `side` is None if this viewer may not read the message to answer.
    """

    viewer_name: str
    side: ContextSide | None
    in_both: int
    differences: Sequence[CandidateDifference]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextExplanationPage:
    """The explanation of a context."""

    message_id: MessageId
    external_id: str
    room_name: str
    budget: int
    #: The viewer that an operator chose, and the viewer to compare with.
    viewer: str | None
    against: str | None
    #: Whether the context is private. A private context may not be posted.
    is_private: bool
    #: Names that the form offers. Only operators get them.
    names: Sequence[str]
    side: ContextSide
    compared: ContextComparison | None


@PAGES.page("/x/{message}", "why.html")
async def explain_context(visit: RequestContext, message: str) -> ContextExplanationPage:
    """Return the context of a message, with explanations."""
    viewer_word, against_word = visit.word("viewer"), visit.word("against")
    budget = visit.number("budget", DEFAULT_BUDGET, most=MOST_TOKENS)
    is_private = visit.word("private") is not None
    place = await MemoryBrowser(access=visit.app.access).message(visit.viewer, message)
    if place.room_name is None:
        raise NotFound("message", message)
    reader = visit.viewer if viewer_word is None else await visit.app.viewer(viewer_word)
    own = OPERATOR if visit.viewer.is_operator else visit.viewing_as or YOU
    side = await _side(visit, reader, place, name=viewer_word or own, budget=budget, private=is_private)
    compared = None
    if against_word is not None:
        compared = await _compare(visit, side, place, word=against_word, budget=budget, private=is_private)
    return ContextExplanationPage(
        message_id=place.message.id,
        external_id=place.message.external_id,
        room_name=place.room_name,
        budget=budget,
        viewer=viewer_word,
        against=against_word,
        is_private=is_private,
        names=await _names(visit),
        side=side,
        compared=compared,
    )


async def _names(visit: RequestContext) -> list[str]:
    if not visit.viewer.is_operator:
        return []
    page = await PeopleDirectory(access=visit.app.access).page(visit.viewer, limit=MOST_NAMES)
    return list(dict.fromkeys(one.name for one in page.people if one.kind != "system"))


async def _side(
    visit: RequestContext, reader: Viewer, place: MessagePlace, *, name: str, budget: int, private: bool
) -> ContextSide:
    where = (str(place.message.room_id), str(place.message.id))
    try:
        built = await visit.app.context(reader, *where, budget=budget, private=private)
    except BadInput:
        # An answer to this message cannot be posted in the room, so the page shows the private context and says so.
        built = await visit.app.context(reader, *where, budget=budget, private=True)
    return ContextSide(
        viewer_name=name,
        given=context_response(built, explain=True),
        lines=lines_of(built),
        spent=token_shares_of(built),
        candidates=candidates_of(built),
        memories=memory_candidates_of(built),
        boundaries=built.boundaries,
    )


async def _compare(
    visit: RequestContext, side: ContextSide, place: MessagePlace, *, word: str, budget: int, private: bool
) -> ContextComparison:
    if not visit.viewer.is_operator:
        raise NotAllowed("only an operator compares what others read")
    reader = await visit.app.viewer(word)
    try:
        other = await _side(visit, reader, place, name=word, budget=budget, private=private)
    except NotFound:
        return ContextComparison(viewer_name=word, side=None, in_both=0, differences=())
    return ContextComparison(
        viewer_name=word,
        side=other,
        in_both=len(side.included.keys() & other.included.keys()),
        differences=[*_differences(side, other, is_first=True), *_differences(other, side, is_first=False)],
    )


def _differences(one: ContextSide, other: ContextSide, *, is_first: bool) -> list[CandidateDifference]:
    reasons = {candidate.message_id: candidate.reason for candidate in other.candidates}
    return [
        CandidateDifference(candidate=candidate, is_first=is_first, elsewhere=reasons.get(key))
        for key, candidate in one.included.items()
        if key not in other.included
    ]
