"""What whoever runs it watches: how far the work has come, and who read or changed what."""

from fastapi import APIRouter
from starlette.responses import Response

from roomlore.app.operations import Numbers, State
from roomlore.domain.records import LogLine
from roomlore.surfaces.http.responses import shown
from roomlore.surfaces.http.signin import Acting
from roomlore.surfaces.http.words import Limit, Word

ROUTER = APIRouter(prefix="/v1", tags=["operations"])


@ROUTER.get("/operations", response_model=Numbers)
async def read_numbers(app: Acting) -> Response:
    """Tell how far the work has come in each room, how messages stand in exchanges, how long reads take."""
    return shown(await app.operations.numbers())


@ROUTER.get("/operations/state", response_model=State)
async def read_state(app: Acting) -> Response:
    """Tell which workers there are, what was set aside, and why."""
    return shown(await app.operations.state())


@ROUTER.get("/log", response_model=list[LogLine])
async def list_log(app: Acting, about: Word | None = None, limit: Limit = 50) -> Response:
    """List who read or changed what, newest first: keys, viewers and ids, never what was said."""
    return shown(await app.log(app.desk.caller, subject=about, limit=limit))
