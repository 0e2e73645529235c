"""Rooms behind a server as operators arrange them."""

from dataclasses import dataclass
from datetime import datetime

from roomlore.app.rooms import RoomOpening
from roomlore.client.line import Line
from roomlore.client.written import moment, segment
from roomlore.domain.ids import RoomId
from roomlore.domain.members import RoomMember


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arranged:
    """The room that was closed or renamed."""

    room: RoomId


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRoomManagement:
    """Who may read a room, what it is called, who its members are; the calls are those of `app.rooms.RoomManagement`."""

    line: Line

    async def open(self, room: str, *, dry_run: bool = False) -> RoomOpening:
        """Let the whole org read a room, and return how much that is; on a dry run only that."""
        return await self.line.change(RoomOpening, "POST", _path(room, "open"), {"dry_run": dry_run})

    async def close(self, room: str) -> RoomId:
        """Let only its members read a room, and return its id."""
        return (await self.line.change(_Arranged, "POST", _path(room, "close"))).room

    async def rename(self, room: str, name: str) -> RoomId:
        """Call a room by another name, which stays; return its id."""
        return (await self.line.change(_Arranged, "PUT", _path(room, "name"), {"name": name})).room

    async def members(self, room: str) -> list[RoomMember]:
        """Return who is and was a member of a room, those who are first."""
        return await self.line.read(list[RoomMember], _path(room, "members"))

    async def add_member(
        self, room: str, participant: str, *, since: datetime | None = None, always: bool = False
    ) -> list[RoomMember]:
        """Make somebody a member of a room and return who its members are then."""
        wish = {"participant": participant, "since": moment("time", since), "always": always}
        return await self.line.change(list[RoomMember], "POST", _path(room, "members"), wish)

    async def remove_member(self, room: str, participant: str) -> list[RoomMember]:
        """End somebody's membership of a room; return who its members are then."""
        path = _path(room, f"members/{segment('participant', participant)}")
        return await self.line.change(list[RoomMember], "DELETE", path)


def _path(room: str, what: str) -> str:
    return f"rooms/{segment('room', room)}/{what}"
