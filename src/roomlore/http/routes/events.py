"""The stream of events, as server-sent events."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated

import pydantic_core
from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from roomlore.domain.errors import RoomloreError
from roomlore.http.authentication import AuthenticatedApp
from roomlore.http.field_types import ShortText
from roomlore.http.json_values import public_value
from roomlore.operations.events import Event, EventStream

ROUTER = APIRouter(prefix="/v1/events", tags=["events"])
MEDIA_TYPE = "text/event-stream"
#: Seconds without an event after which a comment line shows that the connection works.
HEARTBEAT = 15.0
#: Seconds after which a client that does not read is disconnected.
PATIENCE = 30.0
#: The milliseconds after which a disconnected client reconnects.
RETRY = b"retry: 2000\n\n"
#: Tells proxies not to buffer the response.
HEADERS = {"x-accel-buffering": "no"}
LONGEST_ID = 100
RESPONSES: Mapping[int | str, dict[str, object]] = {
    200: {
        "description": (
            "Events as they happen: `id`, `event` with its kind, `data` with the event as JSON; comments in between."
        ),
        "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
    }
}
EventId = Annotated[str, Query(max_length=LONGEST_ID)]


class EventStreamResponse(Response):
    """A response that sends the events of a stream as they occur."""

    media_type = MEDIA_TYPE

    def __init__(self, stream: EventStream, *, stop: asyncio.Event) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._stream = stream
        self._stop = stop

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the client disconnects, the process stops, or the key is no longer valid."""
        del scope
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        parts = (self._send_events(send), _disconnected(receive), self._stop.wait())
        tasks = [asyncio.create_task(part) for part in parts]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        if not tasks[0].cancelled() and (error := tasks[0].exception()) is not None:
            raise error

    async def _send_events(self, send: Send) -> None:
        async def put(lines: bytes) -> None:
            async with asyncio.timeout(PATIENCE):
                await send({"type": "http.response.body", "body": lines, "more_body": True})

        # If a client reads too slowly, or its key is no longer valid, it is disconnected. When it reconnects, it gets
        # the reason.
        with suppress(TimeoutError, RoomloreError):
            await put(RETRY)
            while True:
                coming = asyncio.ensure_future(anext(self._stream))
                try:
                    while not (await asyncio.wait([coming], timeout=HEARTBEAT))[0]:
                        await put(b":\n\n")
                finally:
                    coming.cancel()
                await put(event_lines(coming.result()))


def event_lines(event: Event) -> bytes:
    """Return an event in the format of server-sent events."""
    data = pydantic_core.to_json(public_value(event))
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (str(event.id).encode(), event.kind.encode(), data)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue


@ROUTER.get("", response_class=Response, responses={**RESPONSES})
async def read_events(
    app: AuthenticatedApp,
    request: Request,
    *,
    room: ShortText | None = None,
    after: EventId | None = None,
    last_event_id: Annotated[str | None, Header(max_length=LONGEST_ID)] = None,
) -> Response:
    """Stream the changes that the viewer may see as they happen, of all rooms or of one room (server-sent events).

    The stream starts now, or after the event that `Last-Event-ID` or `after` names. If this event is gone or the viewer
    may not see it, the stream starts at its time. Some events may then come again with the same `id`.
    """
    stream = app.events(app.access.principal, room=room, after=last_event_id or after)
    await stream.start()
    return EventStreamResponse(stream, stop=request.app.state.stop)
