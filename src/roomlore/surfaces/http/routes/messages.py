"""Messages: taken in batches, edited, redacted; and what is remembered of them."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from roomlore.app.intake import MOST_RECORDS, BatchTaken
from roomlore.domain.ids import MessageId
from roomlore.domain.records import Memory
from roomlore.surfaces.http.responses import shown
from roomlore.surfaces.http.signin import Acting
from roomlore.surfaces.http.words import Body, InRoom, Limit, Text, Word

ROUTER = APIRouter(prefix="/v1/messages", tags=["messages"])


class Batch(Body):
    """Messages as objects of `roomlore.message/1`, the format of the JSON lines that are imported."""

    messages: Annotated[
        list[Any],
        Field(
            min_length=1,
            max_length=MOST_RECORDS,
            description="Each needs `id`, `room`, `author` and `sent_at`; most have `platform` and `text`.",
        ),
    ]


class Edit(InRoom):
    """What a message says from now on."""

    text: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """The message that has another text now."""

    edited: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class Redacted:
    """The message whose content is gone, or on a dry run would be."""

    redacted: MessageId
    is_dry_run: bool


class Redaction(InRoom):
    """Where the message is, and whether only to tell."""

    dry_run: bool = False


@ROUTER.post("", response_model=BatchTaken)
async def add_messages(app: Acting, batch: Batch) -> Response:
    """Store a batch of messages, and tell what became of each; they are on disk with the response.

    What cannot be stored is named with its reason, and the rest goes in. The same again changes nothing; the same id
    with another text and an `edited_at` is an edit, with `deleted` a redaction.
    """
    return shown(await app.intake.records(batch.messages))


@ROUTER.patch("/{message}", response_model=Edited)
async def edit_message(app: Acting, message: Word, edit: Edit) -> Response:
    """Put another text in the place of a message's; the earlier one stays as a revision."""
    return shown(Edited(edited=await app.intake.edit(message, edit.text, room=edit.room)))


@ROUTER.post("/{message}/redact", response_model=Redacted)
async def redact_message(app: Acting, message: Word, wanted: Redaction) -> Response:
    """Remove a message's content and all that was derived from it; its place and author stay.

    With `dry_run` it only tells which message is meant.
    """
    redacted = await app.erasure.redact(message, room=wanted.room, dry_run=wanted.dry_run)
    return shown(Redacted(redacted=redacted, is_dry_run=wanted.dry_run))


@ROUTER.get("/{message}/memories", response_model=list[Memory])
async def list_memories_resting_on(
    app: Acting, message: Word, room: Word | None = None, limit: Limit = 50
) -> Response:
    """List the memories that rest on a message, whatever became of them, newest first."""
    found = await app.memories.resting_on(app.desk.caller, message, room=room, limit=limit)
    return shown(found)
