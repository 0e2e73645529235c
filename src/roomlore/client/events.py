"""What changes behind a server, told as it happens: a stream that is gone on with wherever it was cut off."""

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING
from uuid import UUID

from roomlore.client import codec
from roomlore.client.session import Session
from roomlore.client.transport import LONGEST_PAUSE, ServerRequest
from roomlore.domain.errors import RoomloreError, ServerUnavailable
from roomlore.domain.ids import lowest_id_at
from roomlore.domain.records import Viewer
from roomlore.operations.events import Event

if TYPE_CHECKING:
    import httpx2

#: A server says every fifteen seconds that it is there; whoever says nothing for so long is not.
SILENCE = 45.0
#: So often in a row a server is tried that is lost; with the pauses between, that is about five minutes.
MAX_RECONNECTS = 15
#: Seconds that a server may want to be left alone; whoever wants more is not waited for.
LONGEST_REST = 300.0
MEDIA_TYPE = "text/event-stream"
#: Bytes of one event.
MAX_EVENT_BYTES = 4 * 1024 * 1024
#: Events that are remembered, to tell none of them twice.
REMEMBERED = 1_000
#: What makes the id of a time one of version 7.
UUID7_BITS = 0x7 << 76 | 0x2 << 62


class _StreamInterrupted(Exception):
    """A stream ended that may be gone on with; `error` says why, or is None where the server ended it in order."""

    def __init__(self, error: RoomloreError | None) -> None:
        super().__init__()
        self.error = error


class EventStream:
    """The events that a viewer may see, from a place on, without end; connections come and go beneath it."""

    def __init__(self, session: Session, *, viewer: Viewer, room: str | None, after: str | None) -> None:
        self._session = session
        self._viewer = viewer
        self._room = room
        #: After which it is gone on; None: from now on.
        self._after = after
        self._delivered: deque[tuple[UUID, int]] = deque(maxlen=REMEMBERED)
        #: What was lost since a connection last stood, and whether one ever did.
        self._failures = 0
        self._has_begun = False
        #: Seconds after which the server wants whoever was cut off to come again; and this once, as it is full.
        self._retry = 0.0
        self._first_after = 0.0

    async def events(self) -> AsyncGenerator[Event]:
        """Yield what changes, in order.

        Raises:
            RoomloreError: what the server refuses: the key, the viewer, the room or the place.
            ServerUnavailable: it was lost, and did not come back.
        """
        wire = self._session.transport
        while True:
            try:
                async with aclosing(self._until_interrupted()) as events:
                    async for event in events:
                        # Whatever its time is: what was noted earlier may have been kept later.
                        # And of what comes in parts, the parts may be others when they come again.
                        told = (event.id, hash(tuple(event.subjects)))
                        if told not in self._delivered:
                            yield event
                        self._delivered.append(told)
                        self._after = str(event.id)
            except _StreamInterrupted as cut:
                self._failures += 1
                most = MAX_RECONNECTS if self._has_begun else wire.server.attempts
                if cut.error is not None and self._failures >= most:
                    raise cut.error from None
            await wire.back_off(
                self._failures, at_least=max(self._first_after, min(self._retry, LONGEST_PAUSE))
            )
            self._first_after = 0.0

    async def _until_interrupted(self) -> AsyncGenerator[Event]:
        """Yield events for as long as one connection tells them."""
        import httpx2  # noqa: PLC0415  needs the extra

        wire = self._session.transport
        try:
            async with wire.stream(self._request(), key=self._session.key, silence=SILENCE) as response:
                await self._begin(response)
                async for told in httpx2.EventSource(response, max_event_size=MAX_EVENT_BYTES):
                    self._retry = self._retry if told.retry is None else told.retry / 1000
                    if told.data:
                        yield codec.decode(told.data.encode(), Event)
        except httpx2.SSEError:
            why = f"an event has more than {MAX_EVENT_BYTES:,} bytes"
            raise ServerUnavailable(
                why, cure="begin without `after`, and list what changed until then"
            ) from None
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError) as error:
            raise _StreamInterrupted(wire.connection_error(error)) from None
        raise _StreamInterrupted(None)

    def _request(self) -> ServerRequest:
        query = codec.query(room=self._room, after=self._after)
        return ServerRequest(
            method="GET", path="/v1/events", query=query, viewer=self._session.viewer_header(self._viewer)
        )

    async def _begin(self, response: "httpx2.Response") -> None:
        """Note that a connection stands, or raise why it does not."""
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.status_code != HTTPStatus.OK or kind != MEDIA_TYPE:
            error, wanted = await self._session.transport.error_of(response)
            status = response.status_code
            is_passing = status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR
            if not is_passing or wanted > LONGEST_REST:
                raise error
            self._first_after = wanted
            raise _StreamInterrupted(error)
        self._has_begun, self._failures = True, 0
        now = _date(response.headers.get("date", ""))
        if self._after is None and now is not None:
            # So that nothing is missed that happens before the first event, should the stream be cut off until then.
            # The server goes on from a while before it, and what is of that while is told, too: better than missed.
            self._after = str(UUID(int=lowest_id_at(now).int | UUID7_BITS))


def _date(header: str) -> datetime | None:
    try:
        return parsedate_to_datetime(header).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
