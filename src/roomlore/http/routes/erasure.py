"""Erasures, and receipts of what is gone."""

from typing import Annotated, Literal

from fastapi import APIRouter
from fastapi import Body as Given
from pydantic import Field
from starlette.responses import Response

from roomlore.domain.errors import BadInput
from roomlore.http.authentication import AuthenticatedApp
from roomlore.http.field_types import Limit, RequestBody, RoomBody, ShortText, UtcTime
from roomlore.http.responses import json_response
from roomlore.http.schemas import ReceiptGiven, receipt_given

ROUTER = APIRouter(prefix="/v1", tags=["forgetting"])


class OfMessage(RoomBody):
    """A message to be erased: a hole stays in its place."""

    kind: Literal["message"]
    message: ShortText
    dry_run: bool = False


class OfRange(RequestBody):
    """A stretch of a room to be erased, place and all; `everything` where neither end is named."""

    kind: Literal["range"]
    room: ShortText
    since: UtcTime | None = None
    until: UtcTime | None = None
    everything: bool = False
    dry_run: bool = False


class OfRoom(RequestBody):
    """A room to be erased whole: all that was said in it and made of it, its members and its name; it stays out."""

    kind: Literal["room"]
    room: ShortText
    dry_run: bool = False


class OfPerson(RequestBody):
    """A person to be erased: all accounts, all they wrote, and their traces in what others said."""

    kind: Literal["person"]
    participant: ShortText
    dry_run: bool = False


class Expired(RequestBody):
    """When old is old: by default now."""

    now: UtcTime | None = None


Wish = Annotated[OfMessage | OfRange | OfRoom | OfPerson, Field(discriminator="kind")]


@ROUTER.post("/erasures", response_model=ReceiptGiven)
async def erase(app: AuthenticatedApp, wish: Annotated[Wish, Given()]) -> Response:
    """Erase for good a message, a stretch of a room, a room or a person, and return the receipt.

    With `dry_run` nothing goes, and the receipt tells what would.
    """
    erasure, dry_run = app.erasure, wish.dry_run
    match wish:
        case OfMessage():
            receipt = await erasure.message(wish.message, room=wish.room, dry_run=dry_run)
        case OfRange():
            _check(wish)
            receipt = await erasure.range(wish.room, since=wish.since, until=wish.until, dry_run=dry_run)
        case OfRoom():
            receipt = await erasure.room(wish.room, dry_run=dry_run)
        case OfPerson():
            receipt = await erasure.person(wish.participant, dry_run=dry_run)
    return json_response(receipt_given(receipt))


@ROUTER.post("/erasures/expired", response_model=list[ReceiptGiven])
async def erase_expired(app: AuthenticatedApp, time: Expired) -> Response:
    """Erase what is older than its room keeps, as a worker does, and return a receipt for each portion that went."""
    return json_response([receipt_given(one) for one in await app.erasure.expire(time.now)])


def _check(wish: OfRange) -> None:
    """Refuse to erase a whole room by leaving something out."""
    if wish.everything == bool(wish.since or wish.until):
        raise BadInput("range", "say since, until or both; or everything")


@ROUTER.get("/receipts", response_model=list[ReceiptGiven])
async def list_receipts(app: AuthenticatedApp, limit: Limit = 50) -> Response:
    """List the newest receipts, newest first: an operator's all, everybody else's own."""
    return json_response([receipt_given(one) for one in await app.erasure.receipts(limit)])


@ROUTER.get("/receipts/{receipt}", response_model=ReceiptGiven)
async def read_receipt(app: AuthenticatedApp, receipt: ShortText) -> Response:
    """Read a receipt: by id or the beginning of it."""
    return json_response(receipt_given(await app.erasure.receipt(receipt)))


@ROUTER.post("/receipts/{receipt}/check", response_model=ReceiptGiven)
async def check_receipt(app: AuthenticatedApp, receipt: ShortText) -> Response:
    """Look once more whether everything that a receipt names is gone."""
    return json_response(receipt_given(await app.erasure.check(receipt)))
