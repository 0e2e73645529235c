"""Management of rooms: visibility, name and members. Also lists of rooms for the pages."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, TypeVar
from uuid import UUID

from msgspec import Meta

from roomlore.db import directory, erasure_guard, room_retention, rooms
from roomlore.db import timeline as store
from roomlore.db.queries import Connection
from roomlore.db.rooms import RoomState
from roomlore.db.timeline import RoomHeader
from roomlore.domain.errors import BadInput, NotFound
from roomlore.domain.ids import RoomId
from roomlore.domain.records import Room, RoomMember, Viewer
from roomlore.domain.retention import RetentionPolicy
from roomlore.domain.room_visibility import DIRECT_KINDS
from roomlore.ingest.clean import MAX_ID, MAX_NAME, storable
from roomlore.operations.access import Access
from roomlore.operations.registry import NO_NUL, operation
from roomlore.search import lookup

Result = TypeVar("Result")
ContextId = Annotated[str, Meta(max_length=MAX_ID, pattern=NO_NUL)]
RoomName = Annotated[str, Meta(min_length=1, max_length=MAX_NAME, pattern=NO_NUL)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomOpening:
    """The effect of opening a room, or of a dry run of it."""

    room_id: RoomId
    workspace: str
    name: str
    #: The number of messages that become visible to the whole org.
    messages: int
    is_dry_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomManagement:
    """The visibility, name and members of rooms, for operators.

    Later imports do not undo these changes, with one exception: if a room became private on its platform, it is closed.
    A room is named by name, external id or id. Every method raises NotFound if there is no such room or participant. It
    raises BadInput if the name is ambiguous or an argument is invalid, and NotAllowed unless the caller is an operator.
    """

    access: Access

    @operation("POST", "/rooms/{room}/open", name="open_room", replay="once")
    async def open(self, room: str, *, dry_run: bool = False) -> RoomOpening:
        """Make a room visible to the whole org, and return the effect. A dry run only returns the effect.

        Direct rooms cannot be opened.
        """

        async def work(conn: Connection, state: RoomState) -> RoomOpening:
            if state.kind in DIRECT_KINDS:
                raise BadInput(f"room {room!r}", "is a direct room, which is never open")
            if not dry_run:
                await rooms.set_visibility(conn, self.access.org_id, [state.id], "open")
            return RoomOpening(
                room_id=state.id,
                workspace=state.workspace,
                name=state.name,
                messages=0 if state.visibility == "open" else state.messages,
                is_dry_run=dry_run,
            )

        return await self._change(room, "dry run of open room" if dry_run else "open room", work)

    @operation("POST", "/rooms/{room}/close", name="close_room", replay="whole", result_key="room")
    async def close(self, room: str) -> RoomId:
        """Make a room visible to its members only, and return its id."""

        async def work(conn: Connection, state: RoomState) -> RoomId:
            await rooms.set_visibility(conn, self.access.org_id, [state.id], "members")
            return state.id

        return await self._change(room, "close room", work)

    @operation("PUT", "/rooms/{room}/name", name="rename_room", replay="whole", result_key="room")
    async def rename(self, room: str, name: RoomName) -> RoomId:
        """Set the name of a room, and return the id of the room. Later imports do not change the name."""
        cleaned = storable(" ".join(name.split()))
        if not 1 <= len(cleaned) <= MAX_NAME:
            raise BadInput("name", f"must have at least 1 and at most {MAX_NAME} characters")

        async def work(conn: Connection, state: RoomState) -> RoomId:
            await rooms.rename(conn, self.access.org_id, state.id, cleaned)
            return state.id

        return await self._change(room, "rename room", work)

    @operation("PUT", "/rooms/{room}/context", name="set_room_context", replay="whole", result_key="room")
    async def set_context(self, room: str, context: ContextId = "") -> RoomId:
        """Set the project or issue that a room belongs to, and return the id of the room.

        Several rooms may have the same context. An import that states another context for the room replaces it.

        Args:
            room: The room.
            context: The project or issue: an id from another system. Default: the room belongs to none.
        """
        cleaned = storable(context.strip())

        async def work(conn: Connection, state: RoomState) -> RoomId:
            await rooms.set_context(conn, self.access.org_id, state.id, cleaned)
            return state.id

        return await self._change(room, "set room context", work)

    @operation("GET", "/rooms/{room}/members", name="list_memberships")
    async def members(self, room: str) -> list[RoomMember]:
        """Return the members of a room, then the former members."""
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
        """Add a member to a room and return the members.

        Args:
            room: The room.
            participant: Name, account or id.
            since: The member may read messages from this time on. Default: from now on.
            always: The member may read all messages.
        """
        if since is not None and (always or since.utcoffset() is None):
            raise BadInput("time", "is given twice" if always else "needs a zone")
        begins = None if always else (since or datetime.now(UTC))

        async def work(conn: Connection, state: RoomState) -> list[RoomMember]:
            participant_id = await lookup.participant(conn, self.access.org_id, participant)
            await rooms.add_member(conn, self.access.org_id, state.id, participant_id, since=begins)
            return await rooms.members(conn, self.access.org_id, state.id)

        return await self._change(room, "add member", work)

    @operation("DELETE", "/rooms/{room}/members/{participant}", replay="once")
    async def remove_member(self, room: str, participant: str) -> list[RoomMember]:
        """Remove a member from a room and return the members.

        The former member may still read the messages of the time of their membership.
        """

        async def work(conn: Connection, state: RoomState) -> list[RoomMember]:
            org_id = self.access.org_id
            accounts = [account.id for account in await lookup.accounts(conn, org_id, participant)]
            if not await rooms.remove_member(conn, org_id, state.id, accounts, at=datetime.now(UTC)):
                raise NotFound("member", participant)
            return await rooms.members(conn, org_id, state.id)

        return await self._change(room, "remove member", work)

    async def _change(
        self, room: str, action: str, work: Callable[[Connection, RoomState], Awaitable[Result]]
    ) -> Result:
        async def change(conn: Connection) -> tuple[Result, Sequence[UUID]]:
            # A running erasure either comes before this call or after it.
            await erasure_guard.lock_shared(conn, self.access.org_id)
            room_id = await lookup.room(conn, self.access.org_id, room)
            await directory.lock_rooms(conn, [room_id])
            return await work(conn, await rooms.room_state(conn, self.access.org_id, room_id)), [room_id]

        return await self.access.change("administer", action, change)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomDirectory:
    """The rooms of an org as the pages list them."""

    access: Access

    async def page(
        self, viewer: Viewer, *, named: str = "", skip: int = 0, limit: int = 100
    ) -> tuple[list[Room], bool]:
        """Return rooms whose name contains `named`, the most recently active first, and whether there are more."""
        async with self.access.reading(viewer, "list rooms") as reading:
            found = await store.rooms(reading.conn, viewer, named=named, skip=skip, limit=limit + 1)
            reading.record_shown(room.id for room in found[:limit])
        return found[:limit], len(found) > limit

    async def one(self, viewer: Viewer, room: str) -> RoomHeader:
        """Return a room.

        Raises:
            NotFound: there is no such room, or the viewer may not see it.
            BadInput: the name is ambiguous.
        """
        async with self.access.reading(viewer, "read room") as reading:
            room_id = await lookup.room(reading.conn, self.access.org_id, room)
            reading.record_shown([room_id])
            found = await store.room(reading.conn, self.access.org_id, room_id)
        if found is None:
            raise NotFound("room", room)
        return found

    async def retention(self, viewer: Viewer, room_id: RoomId) -> RetentionPolicy:
        """Return how long a room keeps messages. Raise NotFound if the viewer may not see the room."""
        async with self.access.reading(viewer, "read room") as reading:
            reading.record_shown([room_id])
            return await room_retention.retention_of(reading.conn, self.access.org_id, room_id)

    async def names(self, viewer: Viewer, *, limit: int) -> Sequence[RoomHeader]:
        """Return rooms by name, without their message counts."""
        async with self.access.reading(viewer, "list rooms") as reading:
            found = await store.room_headers(reading.conn, self.access.org_id, limit=limit)
            reading.record_shown(room.id for room in found)
        return found
