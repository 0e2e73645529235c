"""Callers of the protocol, with the SDK's own client: beside the App, over HTTP, and from another process."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from psycopg.conninfo import conninfo_to_dict

from roomlore.db.cluster import Cluster
from roomlore.http import runtime
from roomlore.http.limits import RequestLimits
from roomlore.mcp.http_transport import PATH, mcp_app
from roomlore.mcp.server import build
from roomlore.operations import App

#: How long an answer may take on a busy machine.
PATIENCE = 60.0
GENEROUS = RequestLimits(rate=10_000, burst=100_000)


@asynccontextmanager
async def beside(app: App, *, allow_writes: bool = False, mode: str = "auto") -> AsyncGenerator[Client]:
    """A client of an App in this very process."""
    server = build(lambda _: app, allow_writes=allow_writes)
    async with Client(server, mode=mode, read_timeout_seconds=PATIENCE) as client:
        yield client


@asynccontextmanager
async def listening(app: App, *, allow_writes: bool = False) -> AsyncGenerator[str]:
    """An App that is served on a socket; gives the address."""
    stop = asyncio.Event()
    with runtime.listen("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        beside_api = {PATH: mcp_app(allow_writes=allow_writes)}
        serving = asyncio.create_task(
            runtime.serve(app, sock, limits=GENEROUS, workers=False, stop=stop, mounted=beside_api)
        )
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            stop.set()
            await asyncio.wait_for(serving, PATIENCE)


@asynccontextmanager
async def over_http(
    url: str, key: str | None, *, mode: str = "auto", **headers: str
) -> AsyncGenerator[Client]:
    """A client that comes over HTTP with a key."""
    shown = headers if key is None else {"authorization": f"Bearer {key}", **headers}
    async with (
        httpx2.AsyncClient(headers=shown, timeout=PATIENCE) as http,
        Client(
            streamable_http_client(f"{url}{PATH}", http_client=http), mode=mode, read_timeout_seconds=PATIENCE
        ) as client,
    ):
        yield client


def command(cluster: Cluster, *words: str, **environment: str) -> StdioServerParameters:
    """Return how a client starts `roomlore mcp`, with the words before and after the verb."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ROOMLORE_")}
    database = f"postgresql:///?{urlencode(conninfo_to_dict(cluster.app_dsn))}"
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "roomlore", "--database", database, *words],
        env=clean | environment,
    )


@asynccontextmanager
async def over_pipes(parameters: StdioServerParameters, *, mode: str = "auto") -> AsyncGenerator[Client]:
    """A client that starts a process of its own."""
    async with Client(parameters, mode=mode, read_timeout_seconds=PATIENCE) as client:
        yield client


async def error_of(call: Any) -> str:
    """Return the text of the error that a call ends in, of the protocol or of a tool."""
    try:
        result = await call
    except MCPError as error:
        return f"{error.code} {error.message}"
    assert result.is_error, result
    assert result.structured_content is None
    return text_of(result)


def text_of(result: Any) -> str:
    """Return what a tool, a resource or a prompt tells, as text."""
    parts = getattr(result, "content", None) or getattr(result, "contents", None)
    if parts is None:
        parts = [message.content for message in result.messages]
    return "\n".join(part.text for part in parts)
