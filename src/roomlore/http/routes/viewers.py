"""Viewers: as whom a key reads, and as whom its operator may."""

from fastapi import APIRouter
from starlette.responses import Response

from roomlore.domain.records import Viewer
from roomlore.http.authentication import AuthenticatedApp
from roomlore.http.field_types import ShortText
from roomlore.http.responses import json_response

ROUTER = APIRouter(prefix="/v1", tags=["viewers"])


@ROUTER.get("/viewer", response_model=Viewer)
async def read_viewer(app: AuthenticatedApp) -> Response:
    """Tell as whom this request reads: whom its key names, or the viewer whom its operator names."""
    return json_response(app.access.principal)


@ROUTER.get("/viewers/{participant}", response_model=Viewer)
async def find_viewer(app: AuthenticatedApp, participant: ShortText) -> Response:
    """Tell whom a name, an account, an id or its beginning means as a viewer; for operators."""
    return json_response(await app.viewer(participant))
