"""A server on this machine that speaks chat completions, and misbehaves as it is told."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

#: What goes over the wire, at once or bit by bit, or how long nothing does.
Reply = bytes | Iterable[bytes] | float
Script = Callable[[dict[str, Any]], Reply]


def http(body: str | bytes, *, status: str = "200 OK", **headers: str) -> bytes:
    body = body.encode() if isinstance(body, str) else body
    fields = {"Content-Type": "application/json", "Content-Length": str(len(body)), "Connection": "close"}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


def completion(content: Any) -> bytes:
    """A chat completion that says this."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}
    return http(json.dumps({"id": "1", "object": "chat.completion", "choices": [choice]}))


def titled(title: Any) -> bytes:
    """A chat completion that gives a conversation this title."""
    return completion(json.dumps({"title": title}))


class ChatServer:
    """Answers each request as `says` tells, and remembers what it was asked."""

    def __init__(self) -> None:
        self.port = 0
        self.heads: list[str] = []
        self.asked: list[dict[str, Any]] = []
        self.says: Script = lambda _: titled("Printer toner")
        #: Requests that are being answered.
        self.busy = 0
        self.busiest = 0
        self.arrived = asyncio.Event()
        self.tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        self.busy += 1
        self.busiest = max(self.busy, self.busiest)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, TimeoutError):
                await self._answer(reader, writer)
        finally:
            self.busy -= 1
            self.tasks.discard(task)
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        lengths = [line for line in head.lower().splitlines() if line.startswith("content-length:")]
        self.asked.append(json.loads(await reader.readexactly(int(lengths[0].partition(":")[2]))))
        self.arrived.set()
        reply = self.says(self.asked[-1])
        if isinstance(reply, float):
            # Until the client has had enough.
            await asyncio.wait_for(reader.read(1), reply)
            return
        for part in [reply] if isinstance(reply, bytes) else reply:
            writer.write(part)
            await writer.drain()
            if not isinstance(reply, bytes):
                await asyncio.sleep(0.05)
        writer.write_eof()
        await asyncio.wait_for(reader.read(1), 5)


@asynccontextmanager
async def chat_server() -> AsyncGenerator[ChatServer]:
    chat = ChatServer()
    server = await asyncio.start_server(chat.serve, "127.0.0.1", 0)
    chat.port = server.sockets[0].getsockname()[1]
    try:
        yield chat
    finally:
        server.close()
        for task in list(chat.tasks):
            task.cancel()
        await asyncio.gather(*chat.tasks, return_exceptions=True)
        await asyncio.sleep(0)
