"""The page of a room: its messages or threads, page by page, with new messages as they arrive."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from roomlore.db.timeline import RoomHeader, WhisperRecipient
from roomlore.domain.errors import BadInput
from roomlore.domain.ids import MessageId, ParticipantId, RoomId
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.records import Message, ReplyMethod
from roomlore.http.routes.events import EventStreamResponse
from roomlore.operations.privacy import restrictions_on
from roomlore.operations.timeline import FullMessage, RoomThreads, Speaker, Timeline, WindowRequest
from roomlore.search.records import RestrictedResult, Thread
from roomlore.web.pages import PageRoutes
from roomlore.web.request_context import RequestContext
from roomlore.web.rows import Row, colour_of, colours_of, rows

PAGES = PageRoutes()
#: Messages and threads on a page.
LINES, THREADS_PER_PAGE = 50, 10
MOST_PARTS = 1_000
KINDS: Mapping[str, tuple[ParticipantKind, ...] | None] = {
    "everybody": None,
    "humans": ("human",),
    "agents": ("agent",),
}
#: The maximum number of levels by which replies are indented.
MAX_DEPTH = 4
VIEWS = ("messages", "threads")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineFilters:
    """The filters in the address of the page."""

    author: str | None
    kind: str
    memory: bool

    @property
    def is_everything(self) -> bool:
        """Return whether there are no filters."""
        return self == NO_FILTERS

    @property
    def query(self) -> dict[str, object]:
        """The query parameters of the filters."""
        kind = None if self.kind == "everybody" else self.kind
        return {"author": self.author, "kind": kind, "memory": 1 if self.memory else None}


NO_FILTERS = TimelineFilters(author=None, kind="everybody", memory=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadMessage:
    """A message of a thread."""

    #: The message, with only the beginning of a long text.
    message: Message
    is_truncated: bool
    #: The recipients of a whisper that are known.
    recipients: Sequence[WhisperRecipient]
    #: The number of levels below the root.
    depth: int
    #: The message that it answers, and how this is known; None for the root.
    parent_id: MessageId | None
    method: ReplyMethod | None
    colour: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadView:
    """A thread, its root first."""

    said: Sequence[ThreadMessage]
    omitted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomPage:
    """A page of a room."""

    room: RoomHeader
    view: str
    filters: TimelineFilters
    #: The authors of the messages, by first appearance.
    speakers: Sequence[Speaker]
    rows: Sequence[Row]
    #: The threads, newest first, if the page shows threads. In this case, `rows` is empty.
    threads: Sequence[ThreadView]
    #: The message that the address of the page names.
    target: MessageId | None
    #: The cursors of the pages before and after this one.
    earlier: MessageId | None
    later: MessageId | None
    #: Whether new messages are appended to this page.
    is_newest: bool
    day: date | None
    first_at: datetime | None
    last_at: datetime | None
    as_of: UUID
    #: Messages that are restricted, with their privacy requests. An operator gets all requests, other viewers their
    #: own.
    restrictions: Sequence[RestrictedResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsFragment:
    """New messages to append to a page that is already open."""

    room_id: RoomId
    rows: Sequence[Row]
    restrictions: Sequence[RestrictedResult]


@PAGES.page("/r/{room}", "timeline.html")
async def timeline(visit: RequestContext, room: str) -> RoomPage:
    """Return the newest messages of a room, the messages around a message, or the messages from a day on."""
    view = visit.word("view") or VIEWS[0]
    if view not in VIEWS:
        raise BadInput("view", f"must be one of {', '.join(VIEWS)}")
    return await (_threads_page(visit, room) if view == "threads" else _messages(visit, room))


@PAGES.page("/r/{room}/message/{message}", "message.html")
async def message(visit: RequestContext, room: str, message: str) -> FullMessage:
    """Return one message with its whole text, or a part of a very long message."""
    part = visit.number("part", 1, most=MOST_PARTS)
    return await Timeline(access=visit.app.access).full_message(visit.viewer, room, message, part=part)


@PAGES.fragment("/r/{room}/lines", "timeline_lines.html")
async def lines(visit: RequestContext, room: str) -> RowsFragment:
    """Return messages of a room by their ids, as rows."""
    ids = _ids(visit.word("ids") or "")
    place, found, voices = await Timeline(access=visit.app.access).lines(visit.viewer, room, ids)
    restrictions = await restrictions_on(visit.app.access, visit.viewer, [one.message.id for one in found])
    return RowsFragment(room_id=place, rows=rows(found, voices), restrictions=restrictions)


async def _events(request: Request) -> Response:
    visit: RequestContext = request.state.visit
    after = request.headers.get("last-event-id") or visit.word("after")
    stream = visit.app.events(visit.viewer, room=request.path_params["room"], after=after)
    await stream.start()
    return EventStreamResponse(stream, stop=request.app.state.stop())


PAGES.raw("/r/{room}/events", _events)


async def _messages(visit: RequestContext, room: str) -> RoomPage:
    filters, day = _filters(visit), _day(visit)
    part = WindowRequest(
        around=visit.word("at"),
        before=visit.word("before"),
        after=visit.word("after"),
        day=day,
        author=filters.author,
        kinds=KINDS[filters.kind],
        is_remembered=filters.memory,
    )
    window = await Timeline(access=visit.app.access).window(visit.viewer, room, part, limit=LINES)
    shown = [line.message.id for line in window.lines]
    return RoomPage(
        room=window.room,
        view="messages",
        filters=filters,
        speakers=window.speakers,
        rows=rows(window.lines, window.speakers),
        threads=(),
        target=window.target,
        earlier=window.earlier,
        later=window.later,
        is_newest=window.later is None and filters.is_everything,
        day=day,
        first_at=window.first_at,
        last_at=window.last_at,
        as_of=window.as_of,
        restrictions=await restrictions_on(visit.app.access, visit.viewer, shown),
    )


async def _threads_page(visit: RequestContext, room: str) -> RoomPage:
    before = visit.word("before")
    found = await Timeline(access=visit.app.access).threads(
        visit.viewer, room, limit=THREADS_PER_PAGE + 1, before=before
    )
    threads, colours = found.threads[:THREADS_PER_PAGE], colours_of(found.speakers)
    shown = [message.id for one in threads for message in one.messages]
    return RoomPage(
        room=found.room,
        view="threads",
        filters=NO_FILTERS,
        speakers=found.speakers,
        rows=(),
        threads=[_to_thread_view(one, found, colours) for one in threads],
        target=None,
        earlier=threads[-1].root.id if len(found.threads) > THREADS_PER_PAGE else None,
        later=None,
        is_newest=before is None,
        day=None,
        first_at=None,
        last_at=None,
        as_of=found.as_of,
        restrictions=await restrictions_on(visit.app.access, visit.viewer, shown),
    )


def _to_thread_view(thread: Thread, found: RoomThreads, colours: Mapping[ParticipantId, int]) -> ThreadView:
    above = {edge.child_id: edge for edge in thread.replies}
    depths: dict[MessageId, int] = {}
    shown: list[ThreadMessage] = []
    for message in thread.messages:
        edge = above.get(message.id)
        depths[message.id] = 0 if edge is None else min(depths.get(edge.parent_id, 0) + 1, MAX_DEPTH)
        shown.append(
            ThreadMessage(
                message=message,
                is_truncated=message.id in found.cut,
                recipients=found.recipients.get(message.id, ()),
                depth=depths[message.id],
                parent_id=None if edge is None else edge.parent_id,
                method=None if edge is None else edge.method,
                colour=colour_of(colours, message.author_id),
            )
        )
    return ThreadView(said=shown, omitted=thread.omitted)


def _filters(visit: RequestContext) -> TimelineFilters:
    kind = visit.word("kind") or "everybody"
    if kind not in KINDS:
        raise BadInput("kind", f"must be one of {', '.join(KINDS)}")
    return TimelineFilters(author=visit.word("author"), kind=kind, memory=visit.word("memory") is not None)


def _day(visit: RequestContext) -> date | None:
    word = visit.word("day")
    try:
        return None if word is None else date.fromisoformat(word)
    except ValueError as error:
        raise BadInput("day", "must be a date, as 2024-03-01") from error


def _ids(word: str) -> list[MessageId]:
    try:
        return [MessageId(UUID(one)) for one in word.split(",") if one]
    except ValueError as error:
        raise BadInput("ids", "must be ids of messages, with commas between") from error
