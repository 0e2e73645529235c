"""MCP over HTTP. Each request gets one complete answer, from any process.

The transport is behind the keys and limits of the API. It has no sessions and no streams, so nothing outlives a revoked
key.
"""

import ipaddress
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roomlore.http.problems import ProblemKind, problem_response
from roomlore.mcp.server import Call, build
from roomlore.operations import App

PATH = "/mcp"
POST_ONLY = ProblemKind(
    name="method-not-allowed",
    status=HTTPStatus.METHOD_NOT_ALLOWED,
    title=HTTPStatus.METHOD_NOT_ALLOWED.phrase,
    headers={"allow": "POST"},
)
FOREIGN_ORIGIN = ProblemKind(name="not-allowed", status=HTTPStatus.FORBIDDEN, title="Not allowed")


def mcp_app(*, allow_writes: bool) -> ASGIApp:
    """Return the ASGI app for `PATH`. It acts as the holder of the key, which the API has already checked."""
    server = build(_app_of, allow_writes=allow_writes)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"]["route"] = PATH
        if scope["method"] != "POST":
            await problem_response(scope, POST_ONLY, "send each message with POST")(scope, receive, send)
            return
        if not _is_allowed_origin(Headers(scope=scope).getlist("origin")):
            await problem_response(scope, FOREIGN_ORIGIN, "web pages may not call this")(scope, receive, send)
            return
        # The body is read here, so that a body that is too large gets the same error as elsewhere.
        body = await Request(scope, receive).body()
        # Each request has its own manager. So nothing needs a start or an end outside of the request.
        manager = StreamableHTTPSessionManager(
            server, json_response=True, stateless=True, max_request_body_size=len(body) + 1
        )
        async with manager.run():
            await manager.handle_request(scope, _replay_body(body, receive), send)

    return _AsgiApp(answer)


class _AsgiApp:
    """An ASGI app as an object, because Starlette would treat a function as an endpoint."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._app(scope, receive, send)


def _app_of(call: Call) -> App:
    request: Any = call.request
    return request.scope["state"]["app"]


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that first returns the body that was already read, then the later messages."""
    is_sent = False

    async def again() -> Message:
        nonlocal is_sent
        if is_sent:
            return await receive()
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _is_allowed_origin(origins: list[str]) -> bool:
    """Return whether a request comes from a program, or from a web page of this machine.

    Browsers send the origin of every POST, but programs send none. The name of a host proves nothing, because any name
    may resolve to this machine.
    """
    return all(_is_local_origin(origin) for origin in origins)


def _is_local_origin(origin: str) -> bool:
    try:
        host = urlsplit(origin).hostname or ""
    except ValueError:
        return False
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
