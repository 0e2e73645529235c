"""What whoever runs it watches: how far the work has come, and who read or changed what."""

from fastapi import APIRouter
from starlette.responses import Response

from roomlore.domain.records import AuditLine
from roomlore.http.authentication import AuthenticatedApp
from roomlore.http.field_types import Limit, ShortText
from roomlore.http.responses import json_response

ROUTER = APIRouter(prefix="/v1", tags=["operations"])


@ROUTER.get("/log", response_model=list[AuditLine])
async def list_log(app: AuthenticatedApp, about: ShortText | None = None, limit: Limit = 50) -> Response:
    """List who read or changed what, newest first: keys, viewers and ids, never what was said."""
    return json_response(await app.log(app.access.principal, subject=about, limit=limit))
