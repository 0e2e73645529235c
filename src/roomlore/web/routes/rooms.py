"""The list of rooms, and the management of a room: visibility, name, members, retention and erasure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta

from roomlore.db.timeline import RoomHeader
from roomlore.domain.errors import BadInput, NotAllowed
from roomlore.domain.records import Room, RoomMember
from roomlore.domain.retention import RetentionChange, RetentionPolicy
from roomlore.domain.room_visibility import DIRECT_KINDS
from roomlore.operations.responses import ReceiptResponse, receipt_response
from roomlore.operations.rooms import RoomDirectory, RoomOpening
from roomlore.web.pages import Form, PageRoutes
from roomlore.web.request_context import RequestContext, at_path

PAGES = PageRoutes()
#: Rooms on a page, and the highest page number.
SHOWN, MOST_PAGES = 100, 10_000
FOREVER = "forever"
MOST_DAYS = 36_500
NOTICES: Mapping[str, str] = {
    "opened": "Everybody in the org may read this room now.",
    "closed": "Only members may read this room now.",
    "renamed": "The room has a new name. Later imports keep it.",
    "added": "The member is added.",
    "kept": "The retention period is set.",
    "shortened": "The shorter retention period starts at the time below. Until then you can take it back.",
    "back": "The room has its previous retention period again.",
    "removed": "The membership has ended. Messages until now stay readable for them.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomsPage:
    """Rooms that the viewer may see, most recently active first."""

    #: The part of a name that is searched for; empty for all rooms.
    named: str
    rooms: Sequence[Room]
    number: int
    has_more: bool
    #: Whether the viewer may see no room at all.
    is_empty: bool


@PAGES.page("/", "rooms.html")
async def rooms(visit: RequestContext) -> RoomsPage:
    """Return rooms by a part of their name."""
    named, number = visit.word("named") or "", visit.number("page", 1, most=MOST_PAGES)
    listed = RoomDirectory(access=visit.app.access)
    found, has_more = await listed.page(visit.viewer, named=named, skip=(number - 1) * SHOWN, limit=SHOWN)
    is_empty = not found and not await listed.names(visit.viewer, limit=1)
    return RoomsPage(named=named, rooms=found, number=number, has_more=has_more, is_empty=is_empty)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomManagementPage:
    """A room, for operators."""

    room: RoomHeader
    #: What opening the room would do; None if the room is open already or cannot be opened.
    opening: RoomOpening | None
    members: Sequence[RoomMember]
    #: The retention period, and the period that applies until the retention period takes effect.
    policy: RetentionPolicy
    #: What the retention period removes.
    retention: RetentionChange
    #: What the retention period in the address of the page would remove.
    proposed: RetentionChange | None
    #: The name that has to be typed as confirmation of the erasure.
    called: str
    #: What the erasure would remove; None before the preview.
    receipt: ReceiptResponse | None
    notice: str


@PAGES.page("/r/{room}/manage", "room_manage.html")
async def management_page(visit: RequestContext, room: str) -> RoomManagementPage:
    """Return a room with its members."""
    _check_operator(visit)
    manage = visit.app.room_admin
    place = await RoomDirectory(access=visit.app.access).one(visit.viewer, room)
    policy = await RoomDirectory(access=visit.app.access).retention(visit.viewer, place.id)
    proposed = visit.word("keep")
    can_open = place.visibility != "open" and place.kind not in DIRECT_KINDS
    return RoomManagementPage(
        room=place,
        opening=await manage.open(str(place.id), dry_run=True) if can_open else None,
        members=await manage.members(str(place.id)),
        policy=policy,
        retention=await visit.app.erasure.set_retention(str(place.id), policy.retention_period, dry_run=True),
        proposed=None
        if proposed is None
        else await visit.app.erasure.set_retention(str(place.id), _span(proposed), dry_run=True),
        called=_typed_name(place),
        receipt=None,
        notice=NOTICES.get(visit.word("done") or "", ""),
    )


@PAGES.preview("/r/{room}/manage", "room_manage.html")
async def look(visit: RequestContext, room: str) -> RoomManagementPage:
    """Return what the erasure of a room would remove."""
    page = await management_page(visit, room)
    receipt = await visit.app.erasure.room(str(page.room.id), dry_run=True)
    return replace(page, receipt=receipt_response(receipt))


@PAGES.action("/r/{room}/manage/open")
async def open_(visit: RequestContext, form: Form, room: str) -> str:
    """Let everybody in the org read a room."""
    if not form.is_checked("sure"):
        raise BadInput("sure", "must be ticked; nothing was opened")
    await visit.app.room_admin.open(room)
    return _page_address(visit, room, "opened")


@PAGES.action("/r/{room}/manage/close")
async def close(visit: RequestContext, form: Form, room: str) -> str:
    """Let only members read a room."""
    del form
    await visit.app.room_admin.close(room)
    return _page_address(visit, room, "closed")


@PAGES.action("/r/{room}/manage/rename")
async def rename(visit: RequestContext, form: Form, room: str) -> str:
    """Rename a room."""
    await visit.app.room_admin.rename(room, form.word("name"))
    return _page_address(visit, room, "renamed")


@PAGES.action("/r/{room}/manage/add")
async def add(visit: RequestContext, form: Form, room: str) -> str:
    """Add a member: from now on, from a day on, or for the whole history."""
    day = _day(form.optional("since"))
    always = form.is_checked("always")
    await visit.app.room_admin.add_member(room, form.word("participant"), since=day, always=always)
    return _page_address(visit, room, "added")


@PAGES.action("/r/{room}/manage/remove")
async def remove(visit: RequestContext, form: Form, room: str) -> str:
    """End a membership."""
    await visit.app.room_admin.remove_member(room, form.word("participant"))
    return _page_address(visit, room, "removed")


@PAGES.action("/r/{room}/manage/keep")
async def keep(visit: RequestContext, form: Form, room: str) -> str:
    """Set the retention period of a room. A shorter period needs a confirmation."""
    retention_period = _span(form.word("keep"))
    preview = await visit.app.erasure.set_retention(room, retention_period, dry_run=True)
    if preview.starts_at is not None and not form.is_checked("sure"):
        raise BadInput("sure", "must be ticked; the retention period did not change")
    done = await visit.app.erasure.set_retention(room, retention_period)
    return _page_address(visit, room, "kept" if done.starts_at is None else "shortened")


@PAGES.action("/r/{room}/manage/keep/back")
async def keep_back(visit: RequestContext, form: Form, room: str) -> str:
    """Undo a shorter retention period that has not taken effect yet."""
    del form
    _check_operator(visit)
    place = await RoomDirectory(access=visit.app.access).one(visit.viewer, room)
    policy = await RoomDirectory(access=visit.app.access).retention(visit.viewer, place.id)
    if policy.starts_at is None:
        raise BadInput("retention", "has started; set a new retention period")
    await visit.app.erasure.set_retention(str(place.id), policy.before)
    return _page_address(visit, room, "back")


@PAGES.action("/r/{room}/manage")
async def erase(visit: RequestContext, form: Form, room: str) -> str:
    """Erase a room after its name was typed, and go to the receipt."""
    place = await RoomDirectory(access=visit.app.access).one(visit.viewer, room)
    if " ".join(form.word("name").split()).casefold() != _typed_name(place).casefold():
        raise BadInput("name", "is not the room's; nothing was erased. Type it as shown")
    receipt = await visit.app.erasure.room(str(place.id))
    return visit.address(at_path("receipts", receipt.id), {"done": "erased"})


def _check_operator(visit: RequestContext) -> None:
    if not visit.viewer.is_operator:
        raise NotAllowed("only an operator manages rooms")


def _typed_name(place: RoomHeader) -> str:
    """Return a name of the room that can be typed. Return `erase` if there is none."""
    name = " ".join(place.name.split())
    return name if any(map(str.isalnum, name)) else "erase"


def _span(word: str) -> timedelta | None:
    """Return the duration of a number of days; None for "forever"."""
    if word == FOREVER:
        return None
    is_number = word.isascii() and word.isdigit() and len(word) <= len(str(MOST_DAYS))
    if not (is_number and 1 <= int(word) <= MOST_DAYS):
        raise BadInput("keep", f"must be a number of days up to {MOST_DAYS:,}, or {FOREVER}")
    return timedelta(days=int(word))


def _day(word: str | None) -> datetime | None:
    try:
        return datetime.combine(date.fromisoformat(word), time(), UTC) if word else None
    except ValueError as error:
        raise BadInput("day", "must be a date, as 2024-03-01") from error


def _page_address(visit: RequestContext, room: str, done: str) -> str:
    return visit.address(at_path("r", room, "manage"), {"done": done})
