"""Rooms: what was said in them, what to read before answering, and how they are kept."""

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter
from starlette.responses import Response

from roomlore.app.history import History
from roomlore.context.limits import DEFAULT_BUDGET
from roomlore.domain.names import LAST
from roomlore.domain.records import Message, Placed, Room
from roomlore.surfaces.documents import (
    ContextGiven,
    ExchangeSaid,
    Person,
    context_given,
    exchange_said,
    persons,
)
from roomlore.surfaces.http.cursors import Paged
from roomlore.surfaces.http.responses import shown
from roomlore.surfaces.http.signin import Acting
from roomlore.surfaces.http.words import Budget, Word

ROUTER = APIRouter(prefix="/v1/rooms", tags=["rooms"])


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesPage:
    """Messages of a room, oldest first, and where those before them are; None where there are none."""

    messages: Sequence[Message]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelinePage:
    """Messages of a room with what they answer and their conversations, oldest first, and where earlier ones are."""

    messages: Sequence[Placed]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangesPage:
    """Exchanges of a room, newest opening first, and where those that opened before are."""

    exchanges: Sequence[ExchangeSaid]
    next: str | None


@ROUTER.get("", response_model=list[Room])
async def list_rooms(app: Acting) -> Response:
    """List the rooms, most recently active first."""
    return shown(await app.rooms(app.desk.caller))


@ROUTER.get("/{room}/messages", response_model=MessagesPage)
async def list_messages(app: Acting, room: Word, page: Paged, *, recalls: bool = False) -> Response:
    """List the newest messages of a room, oldest first, or those before a message.

    `room` is its name, id or external id, here and everywhere. `next` is the cursor of the page before. A page ends before
    `limit` with the message that brings its texts to 2 MiB; `next` goes on from there. With `recalls` none that a wish
    keeps from the viewer.
    """
    found = await History(desk=app.desk).messages(
        app.desk.caller, room, limit=page.limit, before=page.before, recalls=recalls
    )
    following = page.next([one.position for one in found.items], is_cut=found.is_cut)
    return shown(MessagesPage(messages=found.items[::-1], next=following))


@ROUTER.get("/{room}/timeline", response_model=TimelinePage)
async def list_timeline(app: Acting, room: Word, page: Paged) -> Response:
    """List the newest messages of a room, each with the message it answers and its conversation, oldest first."""
    found = await History(desk=app.desk).timeline(app.desk.caller, room, limit=page.limit, before=page.before)
    following = page.next([one.message.position for one in found.items], is_cut=found.is_cut)
    return shown(TimelinePage(messages=found.items[::-1], next=following))


@ROUTER.get("/{room}/exchanges", response_model=ExchangesPage)
async def list_exchanges(app: Acting, room: Word, page: Paged) -> Response:
    """List the newest exchanges of a room, each whole, newest opening first, or such as open before a message."""
    found = await History(desk=app.desk).exchanges(
        app.desk.caller, room, limit=page.limit, before=page.before
    )
    following = page.next([one.opening.position for one in found.items], is_cut=found.is_cut)
    return shown(ExchangesPage(exchanges=[exchange_said(one) for one in found.items], next=following))


@ROUTER.get("/{room}/participants", response_model=list[Person])
async def list_members(app: Acting, room: Word) -> Response:
    """List who takes part in a room, most talkative first, with their accounts."""
    people = await app.participants(app.desk.caller, room=room)
    return shown(persons(people, await app.people.accounts(app.desk.caller)))


@ROUTER.get("/{room}/context", response_model=ContextGiven)
async def read_context(
    app: Acting,
    room: Word,
    trigger: Word = LAST,
    budget: Budget = DEFAULT_BUDGET,
    *,
    explain: bool = False,
    private: bool = False,
) -> Response:
    """Tell what the viewer should read before answering a message of a room, with citations.

    `trigger` is the message to answer, by default the last. `explain` also tells why each candidate is in or out.
    There is nothing in it that not everybody who reads the answer may read; `private` gives all that the viewer may read,
    of which nothing may be posted.
    """
    built = await app.context(app.desk.caller, room, trigger, budget=budget, private=private)
    return shown(context_given(built, explain=explain))
