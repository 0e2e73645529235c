"""Viewers: as whom a key reads, and as whom its operator may."""

from fastapi import APIRouter
from starlette.responses import Response

from roomlore.domain.records import Viewer
from roomlore.surfaces.http.responses import shown
from roomlore.surfaces.http.signin import Acting
from roomlore.surfaces.http.words import Word

ROUTER = APIRouter(prefix="/v1", tags=["viewers"])


@ROUTER.get("/viewer", response_model=Viewer)
async def read_viewer(app: Acting) -> Response:
    """Tell as whom this request reads: whom its key names, or the viewer whom its operator names."""
    return shown(app.desk.caller)


@ROUTER.get("/viewers/{participant}", response_model=Viewer)
async def find_viewer(app: Acting, participant: Word) -> Response:
    """Tell whom a name, an account, an id or its beginning means as a viewer; for operators."""
    return shown(await app.viewer(participant))
