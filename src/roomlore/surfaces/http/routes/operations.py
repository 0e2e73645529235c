"""What whoever runs it watches: how far the work has come, and who read or changed what."""

from fastapi import APIRouter
from starlette.responses import Response

from roomlore.domain.records import LogLine
from roomlore.surfaces.http.responses import shown
from roomlore.surfaces.http.signin import Acting
from roomlore.surfaces.http.words import Limit, Word

ROUTER = APIRouter(prefix="/v1", tags=["operations"])


@ROUTER.get("/log", response_model=list[LogLine])
async def list_log(app: Acting, about: Word | None = None, limit: Limit = 50) -> Response:
    """List who read or changed what, newest first: keys, viewers and ids, never what was said."""
    return shown(await app.log(app.desk.caller, subject=about, limit=limit))
