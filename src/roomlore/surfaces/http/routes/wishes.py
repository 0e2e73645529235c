"""Requests that were heard in rooms: reviewed, accepted and dismissed, and how many an org wants carried out."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from starlette.responses import Response

from roomlore.app.wishes import SpokenWish, WishCounts, WishMode, WishSetting, WishStatus
from roomlore.domain.ids import MessageId
from roomlore.retrieval.records import Withheld
from roomlore.surfaces.http.responses import shown
from roomlore.surfaces.http.signin import Acting
from roomlore.surfaces.http.words import MOST_WORDS, Body, Limit, Word

ROUTER = APIRouter(prefix="/v1/wishes", tags=["wishes"])
Ids = Annotated[list[UUID], Query(alias="message", min_length=1, max_length=MOST_WORDS)]


class Setting(Body):
    """What an org is to do with the requests it hears."""

    mode: WishMode


@ROUTER.get("", response_model=list[SpokenWish])
async def list_wishes(
    app: Acting, room: Word | None = None, status: WishStatus | None = None, limit: Limit = 50
) -> Response:
    """List the newest wishes, newest first, with what they cover: everybody's own, an operator's all.

    A `proposed` one hides nothing until its author or an operator accepts it.
    """
    return shown(await app.wishes.all(app.desk.caller, room=room, status=status, limit=limit))


@ROUTER.get("/counts", response_model=WishCounts)
async def count_wishes(app: Acting) -> Response:
    """Tell how many wishes were carried out, proposed and dismissed: everybody's own, an operator's all."""
    return shown(await app.wishes.counts(app.desk.caller))


@ROUTER.get("/withheld", response_model=list[Withheld])
async def list_withheld(app: Acting, message_ids: Ids) -> Response:
    """Tell which of these messages recall leaves out, and for which request; everybody of their own, an operator of all."""
    ids = [MessageId(one) for one in message_ids]
    return shown(await app.wishes.withheld(app.desk.caller, ids))


@ROUTER.get("/mode", response_model=WishSetting)
async def read_mode(app: Acting) -> Response:
    """Tell what the org does with the requests it hears; operators alone."""
    return shown(WishSetting(mode=await app.wishes.mode()))


@ROUTER.put("/mode", response_model=WishSetting)
async def set_mode(app: Acting, setting: Setting) -> Response:
    """Say what the org does with the requests it hears: carry plain ones out, propose all, or hear none; operators alone."""
    return shown(WishSetting(mode=await app.wishes.set_mode(setting.mode)))


@ROUTER.post("/{wish}/accept", response_model=SpokenWish)
async def accept_wish(app: Acting, wish: Word) -> Response:
    """Carry a wish out that was proposed, or dismissed before."""
    return shown(await app.wishes.accept(wish))


@ROUTER.post("/{wish}/dismiss", response_model=SpokenWish)
async def dismiss_wish(app: Acting, wish: Word) -> Response:
    """Let a wish count no more, or never: what it covered is recalled again."""
    return shown(await app.wishes.dismiss(wish))
