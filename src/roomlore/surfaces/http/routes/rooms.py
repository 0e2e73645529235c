"""Rooms: what was said in them, what to read before answering, and how they are kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from roomlore.app.erasures import LONGEST_KEPT
from roomlore.app.history import History
from roomlore.context.limits import DEFAULT_BUDGET
from roomlore.domain.names import LAST
from roomlore.domain.records import Message, Placed, Room
from roomlore.domain.retention import Retention
from roomlore.store.work import EmbeddingPolicy, PolicyChange
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
from roomlore.surfaces.http.words import Body, Budget, Word

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """From when on what agents were given counts as new again."""

    compacted_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Embeds:
    """What a room embeds now, and what that changed."""

    room: str
    policy: EmbeddingPolicy
    change: PolicyChange


class KeepFor(Body):
    """How long to keep what was said, in seconds; null is forever."""

    keep_for: Annotated[float, Field(gt=0, le=LONGEST_KEPT.total_seconds())] | None
    dry_run: bool = False


class Embedding(Body):
    """What a room embeds: each message, or of an exchange only what opens it."""

    policy: EmbeddingPolicy


class Injecting(Body):
    """Whether the agents of a room are given unasked what they may know."""

    on: bool


class Replied(Body):
    """An answer of an agent's, stored already, and the message it answers: ids or external ids."""

    trigger: Word
    reply: Word


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


@ROUTER.post("/{room}/replies", status_code=204)
async def note_reply(app: Acting, room: Word, said: Replied) -> Response:
    """Have an answer of the calling agent's remembered, if it is worth it; a worker sees to that later."""
    await app.agents.note_reply(room, trigger=said.trigger, reply=said.reply)
    return Response(status_code=204)


@ROUTER.post("/{room}/compact", response_model=Compacted)
async def compact_room(app: Acting, room: Word) -> Response:
    """Say that the agents of a room begin anew there: what they were given may be given again."""
    return shown(Compacted(compacted_at=await app.agents.compact(room)))


@ROUTER.put("/{room}/injecting", status_code=204)
async def set_injecting(app: Acting, room: Word, switch: Injecting) -> Response:
    """Say whether the agents of a room are given unasked what they may know."""
    await app.agents.inject(room, is_on=switch.on)
    return Response(status_code=204)


@ROUTER.put("/{room}/retention", response_model=Retention)
async def set_retention(app: Acting, room: Word, wanted: KeepFor) -> Response:
    """Say how long a room keeps what was said in it, in seconds; null is forever. A worker erases what is older.

    A shorter time than before begins after a day, at `starts_at`; until then it can be taken back with null. The answer
    tells how many messages are older by then, and of which times. With `dry_run` it only tells.
    """
    keep_for = None if wanted.keep_for is None else timedelta(seconds=wanted.keep_for)
    return shown(await app.erasure.keep(room, keep_for, dry_run=wanted.dry_run))


@ROUTER.put("/{room}/embedding", response_model=Embeds)
async def set_embedding(app: Acting, room: Word, wish: Embedding) -> Response:
    """Say what a room embeds: each message, or of an exchange only what opens it."""
    change = await app.operations.embed(room, wish.policy)
    return shown(Embeds(room=room, policy=wish.policy, change=change))
