"""A stream of events from a server. After an interruption, it resumes where it was interrupted."""

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

#: Seconds without data after which a connection counts as lost. A server sends a heartbeat every fifteen seconds.
SILENCE = 45.0
#: The maximum number of consecutive attempts to reconnect. With the pauses between them, they take about five minutes.
MAX_RECONNECTS = 15
#: Seconds. A longer Retry-After ends the stream.
LONGEST_REST = 300.0
MEDIA_TYPE = "text/event-stream"
#: The maximum number of bytes of one event.
MAX_EVENT_BYTES = 4 * 1024 * 1024
#: The number of events that are remembered, so that no event is delivered twice.
REMEMBERED = 1_000
#: Version and variant of a UUIDv7.
UUID7_BITS = 0x7 << 76 | 0x2 << 62


class _StreamInterrupted(Exception):
    """Raised if a stream ends and may be resumed. `error` is None if the server closed the stream properly."""

    def __init__(self, error: RoomloreError | None) -> None:
        super().__init__()
        self.error = error


class EventStream:
    """The events that a viewer may see, read over one connection after another."""

    def __init__(self, session: Session, *, viewer: Viewer, room: str | None, after: str | None) -> None:
        self._session = session
        self._viewer = viewer
        self._room = room
        #: The id of the last event; None if the stream begins now.
        self._after = after
        self._delivered: deque[tuple[UUID, int]] = deque(maxlen=REMEMBERED)
        #: The number of failures since the last good connection, and whether there was a good connection.
        self._failures = 0
        self._has_begun = False
        #: The retry interval that the stream states, and the Retry-After of the last refusal.
        self._retry = 0.0
        self._retry_after = 0.0

    async def events(self) -> AsyncGenerator[Event]:
        """Yield events in order.

        Raises:
            RoomloreError: the server refuses the key, the viewer, the room or the event id.
            ServerUnavailable: the server was lost and did not come back.
        """
        transport = self._session.transport
        while True:
            try:
                async with aclosing(self._until_interrupted()) as events:
                    async for event in events:
                        # Events are recognised by id and not by time, because commits may be out of order. If an event
                        # that is sent in parts is sent again, it may be split differently.
                        identity = (event.id, hash(tuple(event.subjects)))
                        if identity not in self._delivered:
                            yield event
                        self._delivered.append(identity)
                        self._after = str(event.id)
            except _StreamInterrupted as cut:
                self._failures += 1
                most = MAX_RECONNECTS if self._has_begun else transport.server.attempts
                if cut.error is not None and self._failures >= most:
                    raise cut.error from None
            pause = max(self._retry_after, min(self._retry, LONGEST_PAUSE))
            await transport.back_off(self._failures, at_least=pause)
            self._retry_after = 0.0

    async def _until_interrupted(self) -> AsyncGenerator[Event]:
        import httpx2  # noqa: PLC0415  needs the extra

        transport = self._session.transport
        try:
            async with transport.stream(self._request(), key=self._session.key, silence=SILENCE) as response:
                await self._begin(response)
                async for line in httpx2.EventSource(response, max_event_size=MAX_EVENT_BYTES):
                    self._retry = self._retry if line.retry is None else line.retry / 1000
                    if line.data:
                        yield codec.decode(line.data.encode(), Event)
        except httpx2.SSEError:
            why = f"an event has more than {MAX_EVENT_BYTES:,} bytes"
            raise ServerUnavailable(
                why, cure="start without `after`, and list what changed until then"
            ) from None
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError) as error:
            raise _StreamInterrupted(transport.connection_error(error)) from None
        raise _StreamInterrupted(None)

    def _request(self) -> ServerRequest:
        query = codec.query(room=self._room, after=self._after)
        return ServerRequest(
            method="GET", path="/v1/events", query=query, viewer=self._session.viewer_header(self._viewer)
        )

    async def _begin(self, response: "httpx2.Response") -> None:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.status_code != HTTPStatus.OK or kind != MEDIA_TYPE:
            error, wanted = await self._session.transport.error_of(response)
            status = response.status_code
            is_temporary = (
                status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR
            )
            if not is_temporary or wanted > LONGEST_REST:
                raise error
            self._retry_after = wanted
            raise _StreamInterrupted(error)
        self._has_begun, self._failures = True, 0
        now = _date(response.headers.get("date", ""))
        if self._after is None and now is not None:
            # If the stream breaks before its first event, it resumes from this time. The server starts a little
            # earlier. So some older events may be sent, too, but no event is missed.
            self._after = str(UUID(int=lowest_id_at(now).int | UUID7_BITS))


def _date(header: str) -> datetime | None:
    try:
        return parsedate_to_datetime(header).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
