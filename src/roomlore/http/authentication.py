"""Who calls: the key that a request shows decides, and nothing that the request says of itself.

Nothing but health is there without a key: what is to be served is let in here, by path, so that no route can forget to.
A key names its org. An operator's key may read and act as a participant whom the header `Roomlore-Viewer` names;
nobody else's may.
"""

from dataclasses import replace
from typing import Annotated
from urllib.parse import unquote

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from roomlore.domain.errors import BadInput, RoomloreError
from roomlore.http.limits import HEALTH, key_of
from roomlore.http.problems import NO_KEY, error_response, problem_response
from roomlore.operations import App
from roomlore.operations.keys import org_of

VIEWER = "roomlore-viewer"
SCHEME = HTTPBearer(
    scheme_name="key", description="A key as `roomlore keys new` prints it.", auto_error=False
)


class AuthenticationMiddleware:
    """Signs in whoever shows a key; everybody else gets no further."""

    def __init__(self, app: ASGIApp, *, served: App) -> None:
        self._app = app
        self._served = served

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or say why not."""
        if scope["type"] != "http" or scope["path"].startswith(HEALTH):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        twice = next((name for name in (VIEWER, "authorization") if len(headers.getlist(name)) > 1), None)
        if twice is not None:
            # Of two, somebody on the way may have read the other.
            await error_response(scope, BadInput(twice, "is there more than once"))(scope, receive, send)
            return
        key = key_of(headers)
        if key is None:
            refused = problem_response(scope, NO_KEY, "show a key as Authorization: Bearer rlk_…")
            await refused(scope, receive, send)
            return
        try:
            acting = await authenticate(self._served, key, viewer=headers.get(VIEWER))
        except RoomloreError as error:
            await error_response(scope, error)(scope, receive, send)
            return
        scope["state"].update(app=acting, key=key)
        await self._app(scope, receive, send)


async def authenticate(rooms_app: App, key: str, *, viewer: str | None) -> App:
    """Return the App on behalf of whoever holds a key, or of the viewer whom an operator names.

    An App of a named org lets in that org's keys alone; any other those of every org of its database.

    Raises:
        KeyRefused: there is no such key, or it has expired or was revoked.
        NotAllowed: a viewer is named, and the key is no operator's.
        NotFound, BadInput: nobody is meant by the viewer's name, or several are.
    """
    home = rooms_app if rooms_app.settings.org is not None else replace(rooms_app, org_id=org_of(key))
    acting = await home.sign_in(key)
    return acting if viewer is None else acting.acting(await acting.viewer(unquote(viewer)))


async def _authenticated_app(request: Request, shown: Annotated[object, Security(SCHEME)]) -> App:
    del shown  # what is to be documented; it was looked at long before
    return request.state.app


#: The App on behalf of whoever asks.
AuthenticatedApp = Annotated[App, Depends(_authenticated_app)]
