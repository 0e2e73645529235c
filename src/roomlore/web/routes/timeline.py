"""A room: what was said in it, window by window or exchange by exchange, and as it is being said."""

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
from roomlore.http.routes.events import Telling
from roomlore.operations.privacy import restrictions_on
from roomlore.operations.speakers import Speaker
from roomlore.operations.timeline import FullMessage, RoomThreads, Timeline, WindowRequest
from roomlore.search.records import RestrictedResult, Thread
from roomlore.web.pages import PageRoutes
from roomlore.web.request_context import RequestContext
from roomlore.web.rows import Row, colour_of, colours_of, rows

PAGES = PageRoutes()
#: Messages of a window, and exchanges of a page.
LINES, THREADS_PER_PAGE = 50, 10
#: Parts of a message that an address may name.
MOST_PARTS = 1_000
KINDS: Mapping[str, tuple[ParticipantKind, ...] | None] = {
    "everybody": None,
    "humans": ("human",),
    "agents": ("agent",),
}
#: Of answers below each other as shown; of those further down as deep.
MAX_DEPTH = 4
VIEWS = ("messages", "exchanges")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineFilters:
    """Which messages are shown, as the address says it."""

    author: str | None
    kind: str
    memory: bool

    @property
    def is_everything(self) -> bool:
        """Whether nothing is left out."""
        return self == NO_FILTERS

    @property
    def query(self) -> dict[str, object]:
        """How the address of another page says it."""
        kind = None if self.kind == "everybody" else self.kind
        return {"author": self.author, "kind": kind, "memory": 1 if self.memory else None}


NO_FILTERS = TimelineFilters(author=None, kind="everybody", memory=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadMessage:
    """A message of an exchange."""

    #: Of its words the beginning, where they are many.
    message: Message
    is_cut: bool
    #: To whom it was whispered, as far as known; empty where it was no whisper.
    hearers: Sequence[WhisperRecipient]
    #: How deep it stands under the opening.
    depth: int
    #: What it answers, and how that is known; None for the opening.
    parent_id: MessageId | None
    method: ReplyMethod | None
    colour: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadView:
    """An exchange, its opening first."""

    said: Sequence[ThreadMessage]
    omitted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomPage:
    """A part of a room."""

    room: RoomHeader
    view: str
    filters: TimelineFilters
    #: In the order in which they first spoke.
    voices: Sequence[Speaker]
    rows: Sequence[Row]
    #: Instead of rows, where exchanges are looked at; newest first.
    exchanges: Sequence[ThreadView]
    #: The message that was asked for.
    sought: MessageId | None
    #: The messages before and after which the neighbouring pages are; None where nothing is there.
    earlier: MessageId | None
    later: MessageId | None
    #: Whether nothing that was said later is left out, so that what is said from now on belongs below it.
    is_newest: bool
    day: date | None
    first_at: datetime | None
    last_at: datetime | None
    as_of: UUID
    #: What of it recall leaves out, and for which request: an operator is told of all, others of their own.
    withheld: Sequence[RestrictedResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsFragment:
    """Some messages of a room, to be put into a page that is there already."""

    room_id: RoomId
    rows: Sequence[Row]
    withheld: Sequence[RestrictedResult]


@PAGES.page("/r/{room}", "timeline.html")
async def timeline(visit: RequestContext, room: str) -> RoomPage:
    """Return a part of a room: its newest messages, those around one, or those from a day on."""
    view = visit.word("view") or VIEWS[0]
    if view not in VIEWS:
        raise BadInput("view", f"must be one of {', '.join(VIEWS)}")
    return await (_threads_page(visit, room) if view == "exchanges" else _messages(visit, room))


@PAGES.page("/r/{room}/message/{message}", "message.html")
async def message(visit: RequestContext, room: str, message: str) -> FullMessage:
    """Return one message with all its words, of very many a part."""
    part = visit.number("part", 1, most=MOST_PARTS)
    return await Timeline(access=visit.app.access).full_message(visit.viewer, room, message, part=part)


@PAGES.fragment("/r/{room}/lines", "timeline_lines.html")
async def lines(visit: RequestContext, room: str) -> RowsFragment:
    """Return messages of a room by their ids, as rows that follow each other."""
    ids = _ids(visit.word("ids") or "")
    place, found, voices = await Timeline(access=visit.app.access).lines(visit.viewer, room, ids)
    withheld = await restrictions_on(visit.app.access, visit.viewer, [one.message.id for one in found])
    return RowsFragment(room_id=place, rows=rows(found, voices), withheld=withheld)


async def _events(request: Request) -> Response:
    """Tell what changes in a room as it happens, as far as the viewer may see it."""
    visit: RequestContext = request.state.visit
    after = request.headers.get("last-event-id") or visit.word("after")
    stream = visit.app.events(visit.viewer, room=request.path_params["room"], after=after)
    await stream.start()
    return Telling(stream, stop=request.app.state.stop())


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
        voices=window.voices,
        rows=rows(window.lines, window.voices),
        exchanges=(),
        sought=window.sought,
        earlier=window.earlier,
        later=window.later,
        is_newest=window.later is None and filters.is_everything,
        day=day,
        first_at=window.first_at,
        last_at=window.last_at,
        as_of=window.as_of,
        withheld=await restrictions_on(visit.app.access, visit.viewer, shown),
    )


async def _threads_page(visit: RequestContext, room: str) -> RoomPage:
    before = visit.word("before")
    found = await Timeline(access=visit.app.access).threads(
        visit.viewer, room, limit=THREADS_PER_PAGE + 1, before=before
    )
    told, colours = found.exchanges, colours_of(found.voices)
    shown = [message.id for one in told[:THREADS_PER_PAGE] for message in one.messages]
    return RoomPage(
        room=found.room,
        view="exchanges",
        filters=NO_FILTERS,
        voices=found.voices,
        rows=(),
        exchanges=[_to_thread_view(one, found, colours) for one in told[:THREADS_PER_PAGE]],
        sought=None,
        earlier=told[THREADS_PER_PAGE - 1].root.id if len(told) > THREADS_PER_PAGE else None,
        later=None,
        is_newest=before is None,
        day=None,
        first_at=None,
        last_at=None,
        as_of=found.as_of,
        withheld=await restrictions_on(visit.app.access, visit.viewer, shown),
    )


def _to_thread_view(exchange: Thread, found: RoomThreads, colours: Mapping[ParticipantId, int]) -> ThreadView:
    above = {edge.child_id: edge for edge in exchange.replies}
    depths: dict[MessageId, int] = {}
    said: list[ThreadMessage] = []
    for message in exchange.messages:
        edge = above.get(message.id)
        depths[message.id] = 0 if edge is None else min(depths.get(edge.parent_id, 0) + 1, MAX_DEPTH)
        said.append(
            ThreadMessage(
                message=message,
                is_cut=message.id in found.cut,
                hearers=found.hearers.get(message.id, ()),
                depth=depths[message.id],
                parent_id=None if edge is None else edge.parent_id,
                method=None if edge is None else edge.method,
                colour=colour_of(colours, message.author_id),
            )
        )
    return ThreadView(said=said, omitted=exchange.omitted)


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
