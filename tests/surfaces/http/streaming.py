"""Reads a stream of events from an application, as somebody who may go at any time."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import UUID

from fastapi import FastAPI

from surfaces.http.calling import ELSEWHERE

SOON = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An event as it was told."""

    id: str
    kind: str
    data: dict[str, Any]


@dataclass(slots=True)
class Listening:
    """Somebody who listens."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict[str, str])
    parts: "asyncio.Queue[bytes | None]" = field(default_factory=asyncio.Queue)
    rest: bytes = b""
    #: Cleared, nothing is taken in.
    takes: asyncio.Event = field(default_factory=asyncio.Event)
    sent: int = 0
    #: Set once the application is done.
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def lines(self) -> bytes | None:
        """Return what stands before the next empty line; None at the end."""
        async with asyncio.timeout(SOON):
            while b"\n\n" not in self.rest:
                part = await self.parts.get()
                if part is None:
                    return None
                self.rest += part
        lines, _, self.rest = self.rest.partition(b"\n\n")
        return lines

    async def next(self) -> Told | None:
        """Return the next event; None at the end."""
        while (lines := await self.lines()) is not None:
            facts = dict(line.split(": ", 1) for line in lines.decode().split("\n") if ": " in line)
            if "data" in facts:
                data = json.loads(facts["data"])
                assert (facts["id"], facts["event"]) == (data["id"], data["kind"])
                return Told(id=facts["id"], kind=facts["event"], data=data)
        return None


def subjects(told: Told | None) -> set[UUID]:
    assert told is not None
    return {UUID(one) for one in told.data["subjects"]}


@asynccontextmanager
async def listening(
    api: FastAPI, key: str | None, address: str = "/v1/events", **headers: str
) -> AsyncGenerator[Listening]:
    """Give somebody who listens until the block ends."""
    heard, gone, began = Listening(), asyncio.Event(), asyncio.Event()
    heard.takes.set()
    asked = False
    place = urlsplit(address)
    shown = {"host": "roomlore.test"} | ({"authorization": f"Bearer {key}"} if key else {})
    shown |= {name.replace("_", "-"): value for name, value in headers.items()}
    scope = {
        "type": "http", "method": "GET", "path": unquote(place.path), "raw_path": place.path.encode(),
        "query_string": place.query.encode(), "http_version": "1.1", "scheme": "http", "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in shown.items()],
        "client": (ELSEWHERE, 1), "server": ("roomlore.test", 80),
    }  # fmt: skip

    async def receive() -> dict[str, Any]:
        nonlocal asked
        if not asked:
            asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            heard.status = message["status"]
            heard.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            began.set()
            return
        await heard.takes.wait()
        heard.sent += 1
        await heard.parts.put(message.get("body", b""))
        if not message.get("more_body", False):
            await heard.parts.put(None)

    serving = asyncio.create_task(api(scope, receive, send))
    serving.add_done_callback(lambda _: heard.ended.set())
    try:
        async with asyncio.timeout(SOON):
            await began.wait()
        yield heard
    finally:
        gone.set()
        heard.takes.set()
        async with asyncio.timeout(SOON):
            await serving
