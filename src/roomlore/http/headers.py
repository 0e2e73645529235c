"""Request ids, security headers, encoded slashes, and the client addresses that trusted proxies report."""

import re
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import unquote
from uuid import UUID

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roomlore.domain.errors import BadInput
from roomlore.domain.patterns import lazy_pattern

REQUEST_ID = "x-request-id"
FORWARDED_FOR = "x-forwarded-for"
#: Request ids that are accepted from callers, because they are safe in logs and terminals.
REQUEST_ID_PATTERN = lazy_pattern(r"[A-Za-z0-9._-]{1,128}")
#: The API is for programs: browsers must not show, frame, sniff or cache it.
HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
#: Takes the place of an encoded slash within a path segment, because servers decode paths before routing.
SLASH = "\x1f"
_ENCODED = lazy_pattern(r"%2f", re.IGNORECASE)


def preserve_encoded_slashes(scope: Scope) -> None:
    """Replace each encoded slash in the path, as in `acme%2Fgeneral`, by a character that separates no segments."""
    sent = scope.get("raw_path", b"").decode("latin-1")
    if _ENCODED.search(sent) and unquote(sent) == scope["path"]:
        scope["path"] = unquote(_ENCODED.sub(SLASH, sent))


class SecurityHeadersMiddleware:
    """Gives each request an id, and each response the security headers.

    If a request already has a well-formed id, it keeps this id.
    """

    def __init__(self, app: ASGIApp, *, new_id: Callable[[], UUID]) -> None:
        self._app = app
        self._new_id = new_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sent_id = Headers(scope=scope).get(REQUEST_ID, "")
        preserve_encoded_slashes(scope)
        request_id = sent_id if REQUEST_ID_PATTERN.fullmatch(sent_id) else str(self._new_id())
        scope.setdefault("state", {})["request_id"] = request_id

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers[REQUEST_ID] = request_id
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedProxiesMiddleware:
    """Sets the client address of requests that come through a trusted proxy.

    The address is the one that the proxy reports.
    """

    app: ASGIApp
    #: Addresses of the trusted proxies, in the form that `address` returns.
    proxies: AbstractSet[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and _address((scope.get("client") or ("", 0))[0]) in self.proxies:
            # The proxy appends the last address. The caller may have invented the other addresses.
            last = ",".join(Headers(scope=scope).getlist(FORWARDED_FOR)).rpartition(",")[2]
            client = _address(last)
            if client is not None:
                scope["client"] = (client, 0)
        await self.app(scope, receive, send)


def address(word: str) -> str:
    """Return an address in its normal form.

    Raises:
        BadInput: the word is no address.
    """
    normal = _address(word)
    if normal is None:
        raise BadInput("--trusted-proxy", f"{word} is no address; give one such as 127.0.0.1")
    return normal


def _address(word: str) -> str | None:
    try:
        return str(ip_address(word.strip()))
    except ValueError:
        return None
