"""Why this context: what somebody reads before they answer a message, and why each candidate is in it or out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from roomlore.app.browsing import Browsing, Place
from roomlore.app.peoplelist import PeopleList
from roomlore.context.limits import DEFAULT_BUDGET
from roomlore.context.walked import Sealed
from roomlore.domain.errors import BadInput, NotAllowed, NotFound
from roomlore.domain.ids import MessageId
from roomlore.domain.records import Viewer
from roomlore.surfaces.documents import ContextGiven, context_given
from roomlore.surfaces.web.candidates import (
    Candidate,
    Line,
    Remembered,
    Spent,
    candidates_of,
    lines_of,
    remembered_of,
    spent_of,
)
from roomlore.surfaces.web.drawing import Picture, drawn
from roomlore.surfaces.web.pages import Pages
from roomlore.surfaces.web.palette import colours
from roomlore.surfaces.web.visits import Visit

PAGES = Pages()
#: Tokens that a form may ask for.
MOST_TOKENS = 200_000
#: That a form offers by name.
MOST_NAMES = 200
#: What those are called who read as themselves.
OPERATOR, YOU = "the operator", "you"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A context as one viewer has it."""

    viewer_name: str
    given: ContextGiven
    lines: Sequence[Line]
    spent: Sequence[Spent]
    candidates: Sequence[Candidate]
    #: What an agent remembers, in or out; empty for those who are no agents.
    memories: Sequence[Remembered]
    sealed: Sequence[Sealed]

    @property
    def colours(self) -> Mapping[Any, int]:
        """The colour of each who speaks."""
        return colours(one.author_id for one in self.candidates)

    @property
    def picture(self) -> Picture:
        """How the candidates hang together."""
        return drawn(self.candidates, self.sealed, self.memories)

    @property
    def included(self) -> Mapping[MessageId, Candidate]:
        """The messages that are in."""
        return {one.message_id: one for one in self.candidates if one.included}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A message of one context that is not in the other, and why it is out there; None: it was no candidate."""

    candidate: Candidate
    #: Whether the first has it, and not the second.
    is_first: bool
    elsewhere: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """How another viewer's context differs; `side` is None where they may not read the message."""

    viewer_name: str
    side: Side | None
    in_both: int
    differences: Sequence[Difference]


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """Why a context is what it is."""

    message_id: MessageId
    external_id: str
    room_name: str
    budget: int
    #: As whom it is read, where an operator says so, and whom it is compared with.
    viewer: str | None
    against: str | None
    #: Whether it is read for their own eyes, and not to be posted.
    is_private: bool
    #: Whom a form offers; empty for those who read as themselves alone.
    names: Sequence[str]
    side: Side
    compared: Against | None


@PAGES.page("/x/{message}", "why.html")
async def why(visit: Visit, message: str) -> Why:
    """Return what is read before a message is answered, and why."""
    viewer_word, against_word = visit.word("viewer"), visit.word("against")
    budget = visit.number("budget", DEFAULT_BUDGET, most=MOST_TOKENS)
    is_private = visit.word("private") is not None
    place = await Browsing(desk=visit.app.desk).message(visit.viewer, message)
    if place.room_name is None:
        raise NotFound("message", message)
    reader = visit.viewer if viewer_word is None else await visit.app.viewer(viewer_word)
    own = OPERATOR if visit.viewer.is_operator else visit.viewing_as or YOU
    side = await _side(visit, reader, place, name=viewer_word or own, budget=budget, private=is_private)
    compared = None
    if against_word is not None:
        compared = await _against(visit, side, place, word=against_word, budget=budget, private=is_private)
    return Why(
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


async def _names(visit: Visit) -> list[str]:
    if not visit.viewer.is_operator:
        return []
    crowd = await PeopleList(desk=visit.app.desk).page(visit.viewer, limit=MOST_NAMES)
    return list(dict.fromkeys(one.name for one in crowd.people if one.kind != "system"))


async def _side(visit: Visit, reader: Viewer, place: Place, *, name: str, budget: int, private: bool) -> Side:
    where = (str(place.message.room_id), str(place.message.id))
    try:
        built = await visit.app.context(reader, *where, budget=budget, private=private)
    except BadInput:
        # Nothing can be posted in answer to it: the page shows what is read for one's own eyes, and says so.
        built = await visit.app.context(reader, *where, budget=budget, private=True)
    return Side(
        viewer_name=name,
        given=context_given(built, explain=True),
        lines=lines_of(built),
        spent=spent_of(built),
        candidates=candidates_of(built),
        memories=remembered_of(built),
        sealed=built.sealed,
    )


async def _against(
    visit: Visit, side: Side, place: Place, *, word: str, budget: int, private: bool
) -> Against:
    """Return how another's context differs.

    Raises:
        NotAllowed: whoever visits is no operator.
    """
    if not visit.viewer.is_operator:
        raise NotAllowed("only an operator compares what others read")
    reader = await visit.app.viewer(word)
    try:
        other = await _side(visit, reader, place, name=word, budget=budget, private=private)
    except NotFound:
        return Against(viewer_name=word, side=None, in_both=0, differences=())
    return Against(
        viewer_name=word,
        side=other,
        in_both=len(side.included.keys() & other.included.keys()),
        differences=[*_missing(side, other, is_first=True), *_missing(other, side, is_first=False)],
    )


def _missing(one: Side, other: Side, *, is_first: bool) -> list[Difference]:
    elsewhere = {candidate.message_id: candidate.reason for candidate in other.candidates}
    return [
        Difference(candidate=candidate, is_first=is_first, elsewhere=elsewhere.get(key))
        for key, candidate in one.included.items()
        if key not in other.included
    ]
