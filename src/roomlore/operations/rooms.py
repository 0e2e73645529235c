"""Rooms as operators arrange them: who may read one, what it is called, and who its members are."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, TypeVar
from uuid import UUID

from msgspec import Meta

from roomlore.db import directory, erased, rooms
from roomlore.db import timeline as store
from roomlore.db.queries import Connection
from roomlore.db.rooms import RoomState
from roomlore.db.timeline import RoomHeader
from roomlore.domain.errors import BadInput, NotFound
from roomlore.domain.ids import RoomId
from roomlore.domain.incoming import Visibility
from roomlore.domain.records import Room, RoomMember, Viewer
from roomlore.domain.retention import RetentionPolicy
from roomlore.domain.room_visibility import DIRECT_KINDS
from roomlore.ingest.clean import MAX_NAME, storable
from roomlore.operations.access import Access
from roomlore.operations.registry import NO_NUL, operation
from roomlore.search import lookup

Result = TypeVar("Result")
RoomName = Annotated[str, Meta(min_length=1, max_length=MAX_NAME, pattern=NO_NUL)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomOpening:
    """The effect of opening a room, or of a dry run of it."""

    room_id: RoomId
    workspace: str
    name: str
    #: How many messages the whole org may read then and not before; none where it was open.
    messages: int
    is_dry_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomManagement:
    """Who may read a room, what it is called, who its members are; for operators.

    What is said here stays, whatever exports and records say later; only that a room has become private is believed.
    """

    access: Access

    @operation("POST", "/rooms/{room}/open", name="open_room", replay="once")
    async def open(self, room: str, *, dry_run: bool = False) -> RoomOpening:
        """Let the whole org read a room, and return how much that is; on a dry run only that.

        Raises:
            NotFound: there is no such room.
            BadInput: several are meant, or it is a direct room, which is never open.
            NotAllowed: the caller is no operator.
        """

        async def work(conn: Connection, found: RoomState) -> RoomOpening:
            if found.kind in DIRECT_KINDS:
                raise BadInput(f"room {room!r}", "is a direct room, which is never open")
            if not dry_run:
                await rooms.set_visibility(conn, self.access.org_id, [found.id], "open")
            return RoomOpening(
                room_id=found.id,
                workspace=found.workspace,
                name=found.name,
                messages=0 if found.visibility == "open" else found.messages,
                is_dry_run=dry_run,
            )

        return await self._change(room, "dry run of open room" if dry_run else "open room", work)

    @operation("POST", "/rooms/{room}/close", name="close_room", replay="whole", result_key="room")
    async def close(self, room: str) -> RoomId:
        """Let only its members read a room, and return its id.

        Raises:
            NotFound: there is no such room.
            BadInput: several are meant.
            NotAllowed: the caller is no operator.
        """

        async def work(conn: Connection, found: RoomState) -> RoomId:
            closed: Visibility = "members"
            await rooms.set_visibility(conn, self.access.org_id, [found.id], closed)
            return found.id

        return await self._change(room, "close room", work)

    @operation("PUT", "/rooms/{room}/name", name="rename_room", replay="whole", result_key="room")
    async def rename(self, room: str, name: RoomName) -> RoomId:
        """Call a room by another name, which stays whatever its platform calls it; return its id.

        Raises:
            NotFound: there is no such room.
            BadInput: several are meant, or the name is empty or too long.
            NotAllowed: the caller is no operator.
        """
        called = storable(" ".join(name.split()))
        if not 1 <= len(called) <= MAX_NAME:
            raise BadInput("name", f"must have at least 1 and at most {MAX_NAME} characters")

        async def work(conn: Connection, found: RoomState) -> RoomId:
            await rooms.rename(conn, self.access.org_id, found.id, called)
            return found.id

        return await self._change(room, "rename room", work)

    @operation("GET", "/rooms/{room}/members", name="list_memberships")
    async def members(self, room: str) -> list[RoomMember]:
        """Return who is and was a member of a room, those who are first.

        Raises:
            NotFound: there is no such room.
            BadInput: several are meant.
            NotAllowed: the caller is no operator.
        """
        await self.access.check("administer", "list members")
        async with self.access.reading(self.access.principal, "list members") as reading:
            room_id = await lookup.room(reading.conn, self.access.org_id, room)
            found = await rooms.members(reading.conn, self.access.org_id, room_id)
            reading.record_shown([room_id, *dict.fromkeys(member.participant_id for member in found)])
        return found

    @operation("POST", "/rooms/{room}/members", replay="once")
    async def add_member(
        self, room: str, participant: str, *, since: datetime | None = None, always: bool = False
    ) -> list[RoomMember]:
        """Make somebody a member of a room and return who its members are then.

        Args:
            room: Name, external id or id.
            participant: Name, account or id.
            since: From when on they may read what is said; now by default.
            always: They may read all that was ever said.

        Raises:
            NotFound: there is no such room or participant.
            BadInput: several are meant, or the time has no zone.
            NotAllowed: the caller is no operator.
        """
        if since is not None and (always or since.utcoffset() is None):
            raise BadInput("time", "is given twice" if always else "needs a zone")
        begins = None if always else (since or datetime.now(UTC))

        async def work(conn: Connection, found: RoomState) -> list[RoomMember]:
            who = await lookup.participant(conn, self.access.org_id, participant)
            await rooms.add_member(conn, self.access.org_id, found.id, who, since=begins)
            return await rooms.members(conn, self.access.org_id, found.id)

        return await self._change(room, "add member", work)

    @operation("DELETE", "/rooms/{room}/members/{participant}", replay="once")
    async def remove_member(self, room: str, participant: str) -> list[RoomMember]:
        """End somebody's membership of a room, by all their accounts; return who its members are then.

        What was said while they were there they may still read.

        Raises:
            NotFound: there is no such room or participant, or they are no member of it.
            BadInput: several are meant.
            NotAllowed: the caller is no operator.
        """

        async def work(conn: Connection, found: RoomState) -> list[RoomMember]:
            org_id = self.access.org_id
            who = await lookup.participant(conn, org_id, participant)
            accounts = [one.id for one in await directory.accounts(conn, org_id, who)]
            if not await rooms.remove_member(conn, org_id, found.id, accounts, at=datetime.now(UTC)):
                raise NotFound("member", participant)
            return await rooms.members(conn, org_id, found.id)

        return await self._change(room, "remove member", work)

    async def _change(
        self, room: str, action: str, work: Callable[[Connection, RoomState], Awaitable[Result]]
    ) -> Result:
        async def changed(conn: Connection) -> tuple[Result, Sequence[UUID]]:
            # Whatever is erased just now is gone before it is arranged, or after.
            await erased.lock_shared(conn, self.access.org_id)
            room_id = await lookup.room(conn, self.access.org_id, room)
            await directory.lock_rooms(conn, [room_id])
            return await work(conn, await rooms.room_state(conn, self.access.org_id, room_id)), [room_id]

        return await self.access.change("administer", action, changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomDirectory:
    """Reads rooms."""

    access: Access

    async def page(
        self, viewer: Viewer, *, named: str = "", skip: int = 0, limit: int = 100
    ) -> tuple[list[Room], bool]:
        """Return rooms with a part of a name, most recently active first, and whether there are others after them."""
        async with self.access.reading(viewer, "list rooms") as reading:
            found = await store.rooms(reading.conn, viewer, named=named, skip=skip, limit=limit + 1)
            reading.record_shown(room.id for room in found[:limit])
        return found[:limit], len(found) > limit

    async def one(self, viewer: Viewer, room: str) -> RoomHeader:
        """Return a room.

        Raises:
            NotFound: there is no such room, or the viewer may not see it.
            BadInput: several are meant.
        """
        async with self.access.reading(viewer, "read room") as reading:
            room_id = await lookup.room(reading.conn, self.access.org_id, room)
            reading.record_shown([room_id])
            found = await store.room(reading.conn, self.access.org_id, room_id)
        if found is None:
            raise NotFound("room", room)
        return found

    async def retention(self, viewer: Viewer, room_id: RoomId) -> RetentionPolicy:
        """Return how long a room keeps what was said.

        Raises:
            NotFound: there is no such room, or the viewer may not see it.
        """
        async with self.access.reading(viewer, "read room") as reading:
            reading.record_shown([room_id])
            return await erased.retention_of(reading.conn, self.access.org_id, room_id)

    async def names(self, viewer: Viewer, *, limit: int) -> Sequence[RoomHeader]:
        """Return rooms by name, without going through what was said in them."""
        async with self.access.reading(viewer, "list rooms") as reading:
            found = await store.room_headers(reading.conn, self.access.org_id, limit=limit)
            reading.record_shown(room.id for room in found)
        return found
