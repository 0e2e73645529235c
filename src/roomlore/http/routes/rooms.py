"""Rooms, participants, viewers and conversations, as lists and pages with cursors; and the audit log."""

from fastapi import APIRouter
from starlette.responses import Response

from roomlore.context.limits import DEFAULT_BUDGET
from roomlore.domain.records import AuditLine, Room, Viewer
from roomlore.domain.words import LAST
from roomlore.http.authentication import AuthenticatedApp
from roomlore.http.cursors import LongPageParameter, PageParameter
from roomlore.http.field_types import Budget, Limit, ShortText
from roomlore.http.responses import json_response
from roomlore.operations import App
from roomlore.operations.history import History
from roomlore.operations.responses import (
    ContextResponse,
    ConversationResponse,
    MessagesPage,
    PersonResponse,
    ThreadsPage,
    TimelinePage,
    context_response,
    conversation_response,
    person_responses,
    thread_response,
)

ROUTER = APIRouter(prefix="/v1")


@ROUTER.get("/rooms", response_model=list[Room], tags=["rooms"])
async def list_rooms(app: AuthenticatedApp) -> Response:
    """List the rooms, most recently active first."""
    return json_response(await app.rooms(app.access.principal))


@ROUTER.get("/rooms/{room}/messages", response_model=MessagesPage, tags=["rooms"])
async def list_messages(
    app: AuthenticatedApp, room: ShortText, page: PageParameter, *, apply_restrictions: bool = False
) -> Response:
    """List the newest messages of a room, or the messages before a given message, oldest first.

    `room` is a name, id or external id, here and everywhere. `next` is the cursor of the page with earlier messages. A
    page may end before `limit`: it ends with the message that brings its texts to 2 MiB, and `next` continues there.
    `apply_restrictions` leaves out messages that a privacy request restricts for the viewer.
    """
    found = await History(access=app.access).messages(
        app.access.principal,
        room,
        limit=page.limit,
        before=page.before,
        apply_restrictions=apply_restrictions,
    )
    cursor = page.next([one.position for one in found.items], is_cut=found.is_truncated)
    return json_response(MessagesPage(messages=found.items[::-1], next=cursor))


@ROUTER.get("/rooms/{room}/timeline", response_model=TimelinePage, tags=["rooms"])
async def list_timeline(app: AuthenticatedApp, room: ShortText, page: PageParameter) -> Response:
    """List the newest messages of a room, oldest first.

    Each comes with the message that it answers and its conversation.
    """
    found = await History(access=app.access).timeline(
        app.access.principal, room, limit=page.limit, before=page.before
    )
    cursor = page.next([one.message.position for one in found.items], is_cut=found.is_truncated)
    return json_response(TimelinePage(messages=found.items[::-1], next=cursor))


@ROUTER.get("/rooms/{room}/threads", response_model=ThreadsPage, tags=["rooms"])
async def list_exchanges(app: AuthenticatedApp, room: ShortText, page: PageParameter) -> Response:
    """List the newest threads of a room, newest root first, or the threads that start before a message.

    Each thread is whole.
    """
    found = await History(access=app.access).threads(
        app.access.principal, room, limit=page.limit, before=page.before
    )
    cursor = page.next([one.root.position for one in found.items], is_cut=found.is_truncated)
    return json_response(ThreadsPage(threads=[thread_response(one) for one in found.items], next=cursor))


@ROUTER.get("/rooms/{room}/participants", response_model=list[PersonResponse], tags=["rooms"])
async def list_members(app: AuthenticatedApp, room: ShortText) -> Response:
    """List the participants of a room, the most messages first, with their accounts."""
    return await _people(app, room)


@ROUTER.get("/rooms/{room}/context", response_model=ContextResponse, tags=["rooms"])
async def read_context(
    app: AuthenticatedApp,
    room: ShortText,
    trigger: ShortText = LAST,
    budget: Budget = DEFAULT_BUDGET,
    *,
    explain: bool = False,
    private: bool = False,
) -> Response:
    """Return what the viewer should read before answering a message of a room, with citations.

    `trigger` is the message to answer. By default, it is the newest message that everybody in the room may read.
    `explain` also says why each candidate is in or out. The context contains only what everybody who reads the answer
    may read. With `private`, it contains everything that the viewer may read, and may not be posted.
    """
    context = await app.context(app.access.principal, room, trigger, budget=budget, private=private)
    return json_response(context_response(context, explain=explain))


@ROUTER.get("/participants", response_model=list[PersonResponse], tags=["participants"])
async def list_participants(app: AuthenticatedApp) -> Response:
    """List the participants that the viewer may know of, the most messages first, with their accounts."""
    return await _people(app, None)


async def _people(app: App, room: str | None) -> Response:
    viewer = app.access.principal
    people = await app.participants(viewer, room=room)
    return json_response(person_responses(people, await app.people.accounts(viewer)))


@ROUTER.get("/viewer", response_model=Viewer, tags=["viewers"])
async def read_viewer(app: AuthenticatedApp) -> Response:
    """Return the viewer of this request: the holder of the key, or the viewer that an operator's request names."""
    return json_response(app.access.principal)


@ROUTER.get("/viewers/{participant}", response_model=Viewer, tags=["viewers"])
async def find_viewer(app: AuthenticatedApp, participant: ShortText) -> Response:
    """Return the viewer for a name, an account, an id or its beginning. For operators."""
    return json_response(await app.viewer(participant))


@ROUTER.get("/conversations/{conversation}", response_model=ConversationResponse, tags=["conversations"])
async def read_conversation(
    app: AuthenticatedApp, conversation: ShortText, page: LongPageParameter
) -> Response:
    """Read a conversation and its newest messages, oldest first, with who answers whom.

    `conversation` is an id or its beginning, or `message:` and a message of the conversation, here and everywhere.
    `next` is the cursor of earlier messages.
    """
    found, messages = await History(access=app.access).conversation(
        app.access.principal, conversation, limit=page.limit, before=page.before
    )
    cursor = page.next([one.message.position for one in messages.items], is_cut=messages.is_truncated)
    return json_response(conversation_response(found, messages.items[::-1], cursor=cursor))


@ROUTER.get("/audit-log", response_model=list[AuditLine], tags=["operations"])
async def list_log(app: AuthenticatedApp, about: ShortText | None = None, limit: Limit = 50) -> Response:
    """List who read or changed what, newest first. The list has keys, viewers and ids, never message texts."""
    return json_response(await app.log(app.access.principal, subject=about, limit=limit))
