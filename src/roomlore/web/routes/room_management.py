"""A room as operators arrange it: who may read it, what it is called, who its members are, and that it goes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta

from roomlore.db.timeline import RoomHeader
from roomlore.domain.errors import BadInput, NotAllowed
from roomlore.domain.records import RoomMember
from roomlore.domain.retention import RetentionChange, RetentionPolicy
from roomlore.domain.room_visibility import DIRECT_KINDS
from roomlore.http.schemas import ReceiptGiven, receipt_given
from roomlore.operations.rooms import RoomDirectory, RoomOpening
from roomlore.web.pages import Form, PageRoutes
from roomlore.web.request_context import RequestContext, at_path

PAGES = PageRoutes()
FOREVER = "forever"
#: Of a retention; more is as good as forever.
MOST_DAYS = 36_500
NOTICES: Mapping[str, str] = {
    "opened": "Everybody in the org may read this room now.",
    "closed": "This room is for its members now.",
    "renamed": "The room has another name now, which later imports leave as it is.",
    "added": "There is another member now.",
    "kept": "That is how long the room keeps what was said now.",
    "shortened": "The room keeps less from the time on that is told below; until then it can be taken back.",
    "back": "The room keeps what it kept before.",
    "removed": "The membership has ended. What was said until now they may still read.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomManagementPage:
    """A room and what an operator can do with it."""

    room: RoomHeader
    #: What opening it would do; None where it is open, or never can be.
    opening: RoomOpening | None
    members: Sequence[RoomMember]
    #: How long it keeps what was said, and what it keeps until that begins.
    keeping: RetentionPolicy
    #: What goes for that.
    retention: RetentionChange
    #: What would go for the time that the address says; None where it says none.
    proposed: RetentionChange | None
    #: What has to be typed to erase it.
    called: str
    #: What would go with it; None before it was looked for.
    receipt: ReceiptGiven | None
    notice: str


@PAGES.page("/r/{room}/manage", "room_manage.html")
async def management_page(visit: RequestContext, room: str) -> RoomManagementPage:
    """Return a room, what opening it would do, and its members."""
    _check_operator(visit)
    manage = visit.app.room_management
    place = await RoomDirectory(access=visit.app.access).one(visit.viewer, room)
    keeping = await RoomDirectory(access=visit.app.access).retention(visit.viewer, place.id)
    proposed = visit.word("keep")
    can_open = place.visibility != "open" and place.kind not in DIRECT_KINDS
    return RoomManagementPage(
        room=place,
        opening=await manage.open(str(place.id), dry_run=True) if can_open else None,
        members=await manage.members(str(place.id)),
        keeping=keeping,
        retention=await visit.app.erasure.keep(str(place.id), keeping.keep_for, dry_run=True),
        proposed=None
        if proposed is None
        else await visit.app.erasure.keep(str(place.id), _span(proposed), dry_run=True),
        called=_typed_name(place),
        receipt=None,
        notice=NOTICES.get(visit.word("done") or "", ""),
    )


@PAGES.preview("/r/{room}/manage", "room_manage.html")
async def look(visit: RequestContext, room: str) -> RoomManagementPage:
    """Return what would go with a room; nothing does yet."""
    page = await management_page(visit, room)
    receipt = await visit.app.erasure.room(str(page.room.id), dry_run=True)
    return replace(page, receipt=receipt_given(receipt))


@PAGES.action("/r/{room}/manage/open")
async def open_(visit: RequestContext, form: Form, room: str) -> str:
    """Let everybody in the org read a room, by whoever was told how much that is."""
    if not form.is_checked("sure"):
        raise BadInput("sure", "must be ticked; nothing was opened")
    await visit.app.room_management.open(room)
    return _page_address(visit, room, "opened")


@PAGES.action("/r/{room}/manage/close")
async def close(visit: RequestContext, form: Form, room: str) -> str:
    """Let only its members read a room."""
    del form
    await visit.app.room_management.close(room)
    return _page_address(visit, room, "closed")


@PAGES.action("/r/{room}/manage/rename")
async def rename(visit: RequestContext, form: Form, room: str) -> str:
    """Call a room by another name."""
    await visit.app.room_management.rename(room, form.word("name"))
    return _page_address(visit, room, "renamed")


@PAGES.action("/r/{room}/manage/add")
async def add(visit: RequestContext, form: Form, room: str) -> str:
    """Make somebody a member of a room: from now on, from a day on, or since ever."""
    day = _day(form.optional("since"))
    always = form.is_checked("always")
    await visit.app.room_management.add_member(room, form.word("participant"), since=day, always=always)
    return _page_address(visit, room, "added")


@PAGES.action("/r/{room}/manage/remove")
async def remove(visit: RequestContext, form: Form, room: str) -> str:
    """End somebody's membership of a room."""
    await visit.app.room_management.remove_member(room, form.word("participant"))
    return _page_address(visit, room, "removed")


@PAGES.action("/r/{room}/manage/keep")
async def keep(visit: RequestContext, form: Form, room: str) -> str:
    """Say how long a room keeps what was said, by whoever was told what goes for it."""
    keep_for = _span(form.word("keep"))
    seen = await visit.app.erasure.keep(room, keep_for, dry_run=True)
    if seen.starts_at is not None and not form.is_checked("sure"):
        raise BadInput("sure", "must be ticked; the room keeps what it kept before")
    done = await visit.app.erasure.keep(room, keep_for)
    return _page_address(visit, room, "kept" if done.starts_at is None else "shortened")


@PAGES.action("/r/{room}/manage/keep/back")
async def keep_back(visit: RequestContext, form: Form, room: str) -> str:
    """Let a room keep what it kept before, as long as less has not begun."""
    del form
    _check_operator(visit)
    place = await RoomDirectory(access=visit.app.access).one(visit.viewer, room)
    keeping = await RoomDirectory(access=visit.app.access).retention(visit.viewer, place.id)
    if keeping.starts_at is None:
        raise BadInput("retention", "has begun; say how long the room is to keep what is said from now on")
    await visit.app.erasure.keep(str(place.id), keeping.before)
    return _page_address(visit, room, "back")


@PAGES.action("/r/{room}/manage")
async def erase(visit: RequestContext, form: Form, room: str) -> str:
    """Erase a room whose name was typed to say so, and go to the receipt."""
    place = await RoomDirectory(access=visit.app.access).one(visit.viewer, room)
    if " ".join(form.word("name").split()).casefold() != _typed_name(place).casefold():
        raise BadInput("name", "is not the room's; nothing was erased. Type it as it is shown")
    receipt = await visit.app.erasure.room(str(place.id))
    return visit.address(at_path("receipts", receipt.id), {"done": "erased"})


def _check_operator(visit: RequestContext) -> None:
    if not visit.viewer.is_operator:
        raise NotAllowed("only an operator arranges rooms")


def _typed_name(place: RoomHeader) -> str:
    """Return a name of a room that can be typed."""
    name = " ".join(place.name.split())
    return name if any(map(str.isalnum, name)) else "erase"


def _span(word: str) -> timedelta | None:
    """Return a number of days; None is forever."""
    if word == FOREVER:
        return None
    # No more digits are looked at than a number can have.
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
