"""Authentication by key. Every path needs a key, except the paths below `/health/`.

A key belongs to one org. With an operator's key, the header `Roomlore-Viewer` may name a participant. The request then
reads and acts on behalf of this participant.
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
    scheme_name="key", description="A key that `roomlore keys create` printed.", auto_error=False
)


class AuthenticationMiddleware:
    """Authenticates requests by their key, and gives each the App of the key's holder."""

    def __init__(self, app: ASGIApp, *, served: App) -> None:
        self._app = app
        self._served = served

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["path"].startswith(HEALTH):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            for name in (VIEWER, "authorization"):
                # If a header occurs more than once, a proxy and this server may each read another value.
                if len(headers.getlist(name)) > 1:
                    raise BadInput(name, "is there more than once")
            key = key_of(headers)
            if key is None:
                response = problem_response(scope, NO_KEY, "send a key as Authorization: Bearer rlk_…")
                await response(scope, receive, send)
                return
            app = await authenticate(self._served, key, viewer=headers.get(VIEWER))
        except RoomloreError as error:
            await error_response(scope, error)(scope, receive, send)
            return
        scope["state"].update(app=app, key=key)
        await self._app(scope, receive, send)


async def authenticate(rooms_app: App, key: str, *, viewer: str | None) -> App:
    """Return the App on behalf of a key's holder, or of the viewer that an operator names.

    An App of a named org accepts only the keys of this org. Any other App accepts the keys of every org of its
    database.

    Raises:
        KeyRefused: the key does not exist, has expired or was revoked.
        NotAllowed: a viewer is named, and the key is no operator's.
        NotFound, BadInput: the viewer's name means nobody, or several participants.
    """
    home = rooms_app if rooms_app.settings.org is not None else replace(rooms_app, org_id=org_of(key))
    app = await home.sign_in(key)
    return app if viewer is None else app.impersonate(await app.viewer(unquote(viewer)))


async def _authenticated_app(request: Request, documented: Annotated[object, Security(SCHEME)]) -> App:
    del documented
    return request.state.app


#: The App on behalf of the caller.
AuthenticatedApp = Annotated[App, Depends(_authenticated_app)]
