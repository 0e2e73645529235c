"""Rooms as operators arrange them: who may read one, what it is called, and who its members are."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from roomlore.app.rooms import RoomOpening
from roomlore.domain.ids import RoomId
from roomlore.domain.members import RoomMember
from roomlore.ingest.clean import LONGEST_NAME
from roomlore.surfaces.http.responses import shown
from roomlore.surfaces.http.signin import Acting
from roomlore.surfaces.http.words import NO_NUL, Body, Moment, Word

ROUTER = APIRouter(prefix="/v1/rooms", tags=["rooms"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Arranged:
    """The room that was closed or renamed."""

    room: RoomId


class Opening(Body):
    """Whether only to tell how many messages the whole org could read then."""

    dry_run: bool = False


class Naming(Body):
    """What a room is to be called, whatever its platform calls it."""

    name: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME, pattern=NO_NUL)]


class Joining(Body):
    """Who becomes a member, and from when on they may read: now, a time, or always."""

    participant: Word
    since: Moment | None = None
    always: bool = False


@ROUTER.post("/{room}/open", response_model=RoomOpening)
async def open_room(app: Acting, room: Word, wish: Opening) -> Response:
    """Let the whole org read a room, and tell how many messages that are; with `dry_run` only that."""
    return shown(await app.room_management.open(room, dry_run=wish.dry_run))


@ROUTER.post("/{room}/close", response_model=Arranged)
async def close_room(app: Acting, room: Word) -> Response:
    """Let only its members read a room."""
    return shown(Arranged(room=await app.room_management.close(room)))


@ROUTER.put("/{room}/name", response_model=Arranged)
async def rename_room(app: Acting, room: Word, wish: Naming) -> Response:
    """Call a room by another name, which stays whatever its platform calls it."""
    return shown(Arranged(room=await app.room_management.rename(room, wish.name)))


@ROUTER.get("/{room}/members", response_model=list[RoomMember])
async def list_memberships(app: Acting, room: Word) -> Response:
    """List who is and was a member of a room, from when to when, those who are first; for operators."""
    return shown(await app.room_management.members(room))


@ROUTER.post("/{room}/members", response_model=list[RoomMember])
async def add_member(app: Acting, room: Word, wish: Joining) -> Response:
    """Make somebody a member of a room, whatever lists of its platform say later."""
    found = await app.room_management.add_member(room, wish.participant, since=wish.since, always=wish.always)
    return shown(found)


@ROUTER.delete("/{room}/members/{participant}", response_model=list[RoomMember])
async def remove_member(app: Acting, room: Word, participant: Word) -> Response:
    """End somebody's membership of a room, by all their accounts, whatever lists of its platform say later."""
    return shown(await app.room_management.remove_member(room, participant))
