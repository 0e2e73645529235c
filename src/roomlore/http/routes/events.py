"""Events: what changes, told as it happens, for as long as somebody listens."""

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
#: Seconds of silence after which a line says that somebody is still there.
HEARTBEAT = 15.0
#: Whoever takes in nothing for so many seconds is not there any more.
PATIENCE = 30.0
#: Milliseconds after which a reader that was cut off comes again.
RETRY = b"retry: 2000\n\n"
#: Whatever stands between is to pass on each line as it comes.
HEADERS = {"x-accel-buffering": "no"}
LONGEST_ID = 100
DESCRIBED: Mapping[int | str, dict[str, object]] = {
    200: {
        "description": (
            "Events as they happen: `id`, `event` with its kind, `data` with the event as JSON; comments in between."
        ),
        "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
    }
}
EventId = Annotated[str, Query(max_length=LONGEST_ID)]


class Telling(Response):
    """Tells what a stream brings, a line at a time, as fast as it is taken in."""

    media_type = MEDIA_TYPE

    def __init__(self, stream: EventStream, *, stop: asyncio.Event) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._stream = stream
        self._stop = stop

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Tell until the reader goes, the process is to end, or the key is no longer valid."""
        del scope
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        tasks = [asyncio.create_task(part) for part in (self._tell(send), _gone(receive), self._stop.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        told = tasks[0]
        if not told.cancelled() and (error := told.exception()) is not None:
            raise error

    async def _tell(self, send: Send) -> None:
        async def put(lines: bytes) -> None:
            async with asyncio.timeout(PATIENCE):
                await send({"type": "http.response.body", "body": lines, "more_body": True})

        # A reader that is too slow, or whose key is no longer valid, is cut off; it may come again, and is told why.
        with suppress(TimeoutError, RoomloreError):
            await put(RETRY)
            while True:
                coming = asyncio.ensure_future(anext(self._stream))
                try:
                    while not (await asyncio.wait([coming], timeout=HEARTBEAT))[0]:
                        await put(b":\n\n")
                finally:
                    coming.cancel()
                await put(written(coming.result()))


def written(event: Event) -> bytes:
    """Return an event as the lines that tell of it."""
    data = pydantic_core.to_json(public_value(event))
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (str(event.id).encode(), event.kind.encode(), data)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue


@ROUTER.get("", response_class=Response, responses={**DESCRIBED})
async def read_events(
    app: AuthenticatedApp,
    request: Request,
    *,
    room: ShortText | None = None,
    after: EventId | None = None,
    last_event_id: Annotated[str | None, Header(max_length=LONGEST_ID)] = None,
) -> Response:
    """Tell what changes as it happens, in every room or in one, as far as the viewer may see it (server-sent events).

    From now on, or from after the event that `Last-Event-ID` names, or else `after`. One that is not there any more, or
    is not for the viewer, is gone on from by its time, and some events may come again: an event has the same `id` then.
    """
    stream = app.events(app.access.principal, room=room, after=last_event_id or after)
    await stream.start()
    return Telling(stream, stop=request.app.state.stop)
