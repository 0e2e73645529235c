"""What every request and response carries: an id to ask after it by, and headers that keep browsers out."""

import re
from collections.abc import Callable
from urllib.parse import unquote
from uuid import UUID

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roomlore.domain.patterns import lazy_pattern

REQUEST_ID = "x-request-id"
#: What is taken as an id from outside: nothing that could pass for a line of a log, or steer anything.
REQUEST_ID_PATTERN = lazy_pattern(r"[A-Za-z0-9._-]{1,128}")
#: The API is for programs: nothing of it is shown, framed, sniffed or kept.
HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


#: Stands for a slash within one part of a path, which servers decode before anybody takes the path apart.
SLASH = "\x1f"
_ENCODED = lazy_pattern(r"%2f", re.IGNORECASE)


def preserve_encoded_slashes(scope: Scope) -> None:
    """Put a sign that separates nothing in the place of each slash that was sent encoded, as in `acme%2Fgeneral`."""
    sent = scope.get("raw_path", b"").decode("latin-1")
    if _ENCODED.search(sent) and unquote(sent) == scope["path"]:
        scope["path"] = unquote(_ENCODED.sub(SLASH, sent))


class SecurityHeadersMiddleware:
    """Gives each request an id, its caller's where that is well-formed, and each response its headers."""

    def __init__(self, app: ASGIApp, *, new_id: Callable[[], UUID]) -> None:
        self._app = app
        self._new_id = new_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(REQUEST_ID, "")
        preserve_encoded_slashes(scope)
        request_id = given if REQUEST_ID_PATTERN.fullmatch(given) else str(self._new_id())
        scope.setdefault("state", {})["request_id"] = request_id

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers[REQUEST_ID] = request_id
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, sealed)
