"""Wishes that were heard in rooms: reviewed, undone, and counting again."""

from fastapi import APIRouter
from starlette.responses import Response

from roomlore.app.wishes import SpokenWish
from roomlore.surfaces.http.responses import shown
from roomlore.surfaces.http.signin import Acting
from roomlore.surfaces.http.words import Limit, Word

ROUTER = APIRouter(prefix="/v1/wishes", tags=["wishes"])


@ROUTER.get("", response_model=list[SpokenWish])
async def list_wishes(app: Acting, room: Word | None = None, limit: Limit = 50) -> Response:
    """List the newest wishes, newest first, with what they cover: everybody's own, an operator's all."""
    return shown(await app.wishes.all(app.desk.caller, room=room, limit=limit))


@ROUTER.post("/{wish}/undo", response_model=SpokenWish)
async def undo_wish(app: Acting, wish: Word) -> Response:
    """Let a wish count no more: what it covered is recalled again."""
    return shown(await app.wishes.undo(wish))


@ROUTER.post("/{wish}/keep", response_model=SpokenWish)
async def keep_wish(app: Acting, wish: Word) -> Response:
    """Let a wish count again that was undone."""
    return shown(await app.wishes.keep(wish))
