"""Conversations: what was said by topic, read and put right."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from roomlore.app.conversations import MOST_NAMED
from roomlore.app.history import History
from roomlore.app.marking import LONGEST_LABEL
from roomlore.domain.records import Conversation, Sensitivity
from roomlore.surfaces.documents import (
    ConversationFound,
    ConversationRead,
    conversation_found,
    conversation_read,
)
from roomlore.surfaces.http.cursors import PagedLong
from roomlore.surfaces.http.responses import shown
from roomlore.surfaces.http.signin import Acting
from roomlore.surfaces.http.words import NO_NUL, Body, InRoom, Limit, Word

#: As sent; what counts is shorter.
Called = Annotated[str, Field(max_length=10 * LONGEST_LABEL, pattern=NO_NUL)]

ROUTER = APIRouter(prefix="/v1/conversations", tags=["conversations"])


class Move(Body):
    """A message, and the conversation it is put into."""

    message: Word
    to: Word


class Split(InRoom):
    """Messages of one room that are a conversation of their own."""

    messages: Annotated[list[Word], Field(min_length=1, max_length=MOST_NAMED)]
    label: Called = ""


class Other(Body):
    """The conversation that is gone then."""

    other: Word


class Label(Body):
    """What a conversation is called; empty as it is found."""

    label: Called


class Mark(Body):
    """How sensitive a conversation is."""

    sensitivity: Sensitivity


@ROUTER.get("", response_model=list[ConversationFound])
async def list_conversations(app: Acting, room: Word | None = None, limit: Limit = 50) -> Response:
    """List the conversations, in one room or everywhere, newest first."""
    now = datetime.now(UTC)
    found = await app.conversations.all(app.desk.caller, room, limit=limit)
    return shown([conversation_found(one, now=now) for one in found])


@ROUTER.get("/{conversation}", response_model=ConversationRead)
async def read_conversation(app: Acting, conversation: Word, page: PagedLong) -> Response:
    """Read a conversation and the newest of what was said in it, oldest first, with who answers whom.

    `conversation` is an id or the beginning of one, or `message:` and a message in it, here and everywhere. `next` is the
    cursor of what was said before.
    """
    found, said = await History(desk=app.desk).conversation(
        app.desk.caller, conversation, limit=page.limit, before=page.before
    )
    following = page.next([one.message.position for one in said.items], is_cut=said.is_cut)
    told = conversation_read(found, said.items[::-1], following=following, now=datetime.now(UTC))
    return shown(told)


@ROUTER.post("/move", response_model=ConversationFound)
async def move_message(app: Acting, move: Move) -> Response:
    """Put a message, and with it what answers it, into another conversation of its room."""
    return _changed(await app.conversations.move(move.message, move.to))


@ROUTER.post("/split", response_model=ConversationFound)
async def split_conversation(app: Acting, split: Split) -> Response:
    """Make a conversation of messages of one room, each with what answers it."""
    return _changed(await app.conversations.split(split.messages, split.label, room=split.room))


@ROUTER.post("/{conversation}/merge", response_model=ConversationFound)
async def merge_conversations(app: Acting, conversation: Word, merge: Other) -> Response:
    """Put everything of another conversation into this one; the other is gone."""
    return _changed(await app.conversations.merge(conversation, merge.other))


@ROUTER.put("/{conversation}/label", response_model=ConversationFound)
async def rename_conversation(app: Acting, conversation: Word, label: Label) -> Response:
    """Say what a conversation is called."""
    return _changed(await app.conversations.rename(conversation, label.label))


@ROUTER.put("/{conversation}/sensitivity", response_model=ConversationFound)
async def mark_conversation(app: Acting, conversation: Word, mark: Mark) -> Response:
    """Say how sensitive a conversation is: an operator does, or somebody who has spoken in it."""
    return _changed(await app.conversations.mark(conversation, mark.sensitivity))


@ROUTER.post("/{conversation}/close", response_model=ConversationFound)
async def close_conversation(app: Acting, conversation: Word) -> Response:
    """Say that a conversation is over; what is said in it later opens it again."""
    return _changed(await app.conversations.close(conversation))


def _changed(one: Conversation) -> Response:
    return shown(conversation_found(one, now=datetime.now(UTC)))
