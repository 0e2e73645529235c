"""Over HTTP: a request is answered by itself, in one piece, by whichever process it comes to.

It stands where the API stands, behind its keys and limits. No session is kept and no stream held open, so that nothing
outlives the key that was shown.
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
    """Return what answers at `PATH`, behind what signs in: it reads on behalf of whoever's key was shown.

    Args:
        allow_writes: Whether anything may be written, by those whose key has the right.
    """
    server = build(_app_of, allow_writes=allow_writes)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"]["route"] = PATH
        if scope["method"] != "POST":
            await problem_response(scope, POST_ONLY, "send each message with POST")(scope, receive, send)
            return
        if not _is_allowed_origin(Headers(scope=scope).getlist("origin")):
            await problem_response(scope, FOREIGN_ORIGIN, "web pages may not ask")(scope, receive, send)
            return
        # Read here, so that one that is too large is told as everywhere.
        body = await Request(scope, receive).body()
        # One for each request: nothing has to be started before, nor is left behind.
        manager = StreamableHTTPSessionManager(
            server, json_response=True, stateless=True, max_request_body_size=len(body) + 1
        )
        async with manager.run():
            await manager.handle_request(scope, _replay_body(body, receive), send)

    return _AsgiApp(answer)


class _AsgiApp:
    """What is no function is mounted as it is."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._app(scope, receive, send)


def _app_of(call: Call) -> App:
    request: Any = call.request
    return request.scope["state"]["app"]


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a way to receive a body that was read already, and then whatever comes."""
    is_told = False

    async def again() -> Message:
        nonlocal is_told
        if is_told:
            return await receive()
        is_told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _is_allowed_origin(origins: list[str]) -> bool:
    """Whether a request is of no web page, or of one of this machine's.

    Browsers always say what page a POST is from. A page elsewhere might have its name lead to this machine, so names
    tell nothing; programs say no origin, by whatever name they reach us.
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
