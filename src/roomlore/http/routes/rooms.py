"""Rooms: what was said in them, what to read before answering, and how they are kept."""

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter
from starlette.responses import Response

from roomlore.context.limits import DEFAULT_BUDGET
from roomlore.domain.records import AssignedMessage, Message, Room
from roomlore.domain.words import LAST
from roomlore.http.authentication import AuthenticatedApp
from roomlore.http.cursors import PageParameter
from roomlore.http.field_types import Budget, ShortText
from roomlore.http.responses import json_response
from roomlore.http.schemas import ContextGiven, ExchangeSaid, Person, context_given, exchange_said, persons
from roomlore.operations.history import History

ROUTER = APIRouter(prefix="/v1/rooms", tags=["rooms"])


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesPage:
    """Messages of a room, oldest first, and where those before them are; None where there are none."""

    messages: Sequence[Message]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelinePage:
    """Messages of a room with what they answer and their conversations, oldest first, and where earlier ones are."""

    messages: Sequence[AssignedMessage]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangesPage:
    """Exchanges of a room, newest opening first, and where those that opened before are."""

    exchanges: Sequence[ExchangeSaid]
    next: str | None


@ROUTER.get("", response_model=list[Room])
async def list_rooms(app: AuthenticatedApp) -> Response:
    """List the rooms, most recently active first."""
    return json_response(await app.rooms(app.access.principal))


@ROUTER.get("/{room}/messages", response_model=MessagesPage)
async def list_messages(
    app: AuthenticatedApp, room: ShortText, page: PageParameter, *, recalls: bool = False
) -> Response:
    """List the newest messages of a room, oldest first, or those before a message.

    `room` is its name, id or external id, here and everywhere. `next` is the cursor of the page before. A page ends before
    `limit` with the message that brings its texts to 2 MiB; `next` goes on from there. With `recalls` none that a wish
    keeps from the viewer.
    """
    found = await History(access=app.access).messages(
        app.access.principal, room, limit=page.limit, before=page.before, recalls=recalls
    )
    following = page.next([one.position for one in found.items], is_cut=found.is_cut)
    return json_response(MessagesPage(messages=found.items[::-1], next=following))


@ROUTER.get("/{room}/timeline", response_model=TimelinePage)
async def list_timeline(app: AuthenticatedApp, room: ShortText, page: PageParameter) -> Response:
    """List the newest messages of a room, each with the message it answers and its conversation, oldest first."""
    found = await History(access=app.access).timeline(
        app.access.principal, room, limit=page.limit, before=page.before
    )
    following = page.next([one.message.position for one in found.items], is_cut=found.is_cut)
    return json_response(TimelinePage(messages=found.items[::-1], next=following))


@ROUTER.get("/{room}/exchanges", response_model=ExchangesPage)
async def list_exchanges(app: AuthenticatedApp, room: ShortText, page: PageParameter) -> Response:
    """List the newest exchanges of a room, each whole, newest opening first, or such as open before a message."""
    found = await History(access=app.access).exchanges(
        app.access.principal, room, limit=page.limit, before=page.before
    )
    following = page.next([one.root.position for one in found.items], is_cut=found.is_cut)
    return json_response(ExchangesPage(exchanges=[exchange_said(one) for one in found.items], next=following))


@ROUTER.get("/{room}/participants", response_model=list[Person])
async def list_members(app: AuthenticatedApp, room: ShortText) -> Response:
    """List who takes part in a room, most talkative first, with their accounts."""
    people = await app.participants(app.access.principal, room=room)
    return json_response(persons(people, await app.people.accounts(app.access.principal)))


@ROUTER.get("/{room}/context", response_model=ContextGiven)
async def read_context(
    app: AuthenticatedApp,
    room: ShortText,
    trigger: ShortText = LAST,
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
    built = await app.context(app.access.principal, room, trigger, budget=budget, private=private)
    return json_response(context_given(built, explain=explain))
