"""Erasures of all kinds, in one route. The field `kind` of the body says which kind it is."""

from typing import Annotated, Literal

from fastapi import APIRouter, Body
from pydantic import Field
from starlette.responses import Response

from roomlore.domain.errors import BadInput
from roomlore.http.authentication import AuthenticatedApp
from roomlore.http.field_types import RequestBody, RoomBody, ShortText, UtcTime
from roomlore.http.responses import json_response
from roomlore.operations.responses import ReceiptResponse, receipt_response

ROUTER = APIRouter(prefix="/v1/erasures", tags=["erasures"])


class MessageErasure(RoomBody):
    """Erases a message. A tombstone stays in its place."""

    kind: Literal["message"]
    message: ShortText
    dry_run: bool = False


class RangeErasure(RequestBody):
    """Erases the messages of a room in a time range, without tombstones. For a range without ends, set `everything`."""

    kind: Literal["range"]
    room: ShortText
    since: UtcTime | None = None
    until: UtcTime | None = None
    everything: bool = False
    dry_run: bool = False


class RoomErasure(RequestBody):
    """Erases a room: its messages, everything derived from them, its members and its name.

    The room cannot come back.
    """

    kind: Literal["room"]
    room: ShortText
    dry_run: bool = False


class PersonErasure(RequestBody):
    """Erases a person: all accounts, all messages, and mentions in other people's messages."""

    kind: Literal["person"]
    participant: ShortText
    dry_run: bool = False


ErasureBody = Annotated[
    MessageErasure | RangeErasure | RoomErasure | PersonErasure, Field(discriminator="kind")
]


@ROUTER.post("", response_model=ReceiptResponse)
async def erase(app: AuthenticatedApp, body: Annotated[ErasureBody, Body()]) -> Response:
    """Erase a message, a time range of a room, a room or a person for good, and return the receipt.

    With `dry_run`, nothing is erased, and the receipt says what would be erased.
    """
    erasure, dry_run = app.erasure, body.dry_run
    match body:
        case MessageErasure():
            receipt = await erasure.message(body.message, room=body.room, dry_run=dry_run)
        case RangeErasure():
            # If a request leaves out a field by mistake, it must not erase a whole room.
            if body.everything == bool(body.since or body.until):
                raise BadInput("range", "give since, until or both; or everything")
            receipt = await erasure.range(body.room, since=body.since, until=body.until, dry_run=dry_run)
        case RoomErasure():
            receipt = await erasure.room(body.room, dry_run=dry_run)
        case PersonErasure():
            receipt = await erasure.person(body.participant, dry_run=dry_run)
    return json_response(receipt_response(receipt))
