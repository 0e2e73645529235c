"""What an agent says as itself, in a room."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from roomlore.domain.ids import MessageId
from roomlore.surfaces.http.responses import shown
from roomlore.surfaces.http.signin import Acting
from roomlore.surfaces.http.words import Body, Text, Word, Words

ROUTER = APIRouter(prefix="/v1/rooms", tags=["messages"])


class Saying(Body):
    """What the calling agent says; `to` makes it a whisper, `external_id` is the platform's id of it."""

    text: Text
    reply_to: Word | None = None
    to: Words = Field(default_factory=list)
    external_id: Word | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The message that was stored."""

    said: MessageId


@ROUTER.post("/{room}/messages", response_model=Said, status_code=HTTPStatus.CREATED)
async def say(app: Acting, room: Word, saying: Saying) -> Response:
    """Store a message of the calling agent's; it is on disk with the response.

    The same `external_id` with the same text to the same people changes nothing; with another it is refused. An answer to
    a whisper that names nobody in `to` is a whisper to all others who heard that.
    """
    said = await app.intake.say(room, saying.text, **saying.model_dump(exclude={"text"}))
    return shown(Said(said=said), status=HTTPStatus.CREATED)
