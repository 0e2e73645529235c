"""Rooms and who is in them, what was said there last, and who read or changed what; read for a viewer."""

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from roomlore.db import audit_log, conversations, directory, messages
from roomlore.domain.errors import BadInput, NotFound
from roomlore.domain.ids import ids_matching
from roomlore.domain.paging import BoundedPage
from roomlore.domain.records import (
    AssignedMessage,
    AuditLine,
    Conversation,
    Message,
    Participant,
    Room,
    Viewer,
)
from roomlore.operations.access import Access, check_limit
from roomlore.search import lookup

if TYPE_CHECKING:
    from roomlore.search.records import Thread


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What there is, as far as viewers may know of it; `App` describes the calls."""

    access: Access

    async def rooms(self, viewer: Viewer) -> list[Room]:
        """Return the rooms the viewer may see, most recently active first."""
        async with self.access.reading(viewer, "list rooms") as reading:
            found = await directory.rooms(reading.conn, viewer)
            reading.record_shown(room.id for room in found)
        return found

    async def participants(self, viewer: Viewer, *, room: str | None) -> list[Participant]:
        """Return the participants the viewer may know of, or those of one room, most talkative first."""
        async with self.access.reading(viewer, "list participants") as reading:
            room_id = await lookup.room(reading.conn, self.access.org_id, room) if room else None
            found = await directory.participants(reading.conn, viewer, room_id)
            reading.record_shown([] if room_id is None else [room_id])
            reading.record_shown(account for participant in found for account in participant.accounts)
        return found

    async def messages(
        self, viewer: Viewer, room: str, *, limit: int, before: lookup.PositionLike, recalls: bool = False
    ) -> BoundedPage[Message]:
        """Return the newest messages of a room, or those before one of them, newest first, as many as one answer holds."""
        check_limit(limit)
        async with self.access.reading(
            viewer, "read room", generic_plan=True, apply_restrictions=recalls
        ) as reading:
            conn, org_id = reading.conn, self.access.org_id
            room_id = await lookup.room(conn, org_id, room)
            place = await lookup.position(conn, org_id, before, room_id=room_id)
            newest = await messages.messages_before(conn, org_id, room_id, place, limit=limit)
            reading.record_shown([room_id, *(message.id for message in newest.items)])
        return newest

    async def timeline(
        self, viewer: Viewer, room: str, *, limit: int, before: lookup.PositionLike
    ) -> BoundedPage[AssignedMessage]:
        """Return the same with the message that each answers, and the conversation it is in."""
        check_limit(limit)
        async with self.access.reading(viewer, "read room") as reading:
            conn, org_id = reading.conn, self.access.org_id
            room_id = await lookup.room(conn, org_id, room)
            place = await lookup.position(conn, org_id, before, room_id=room_id)
            newest = await messages.messages_before(conn, org_id, room_id, place, limit=limit)
            standing = await conversations.room_assignments(conn, org_id, room_id, newest.items)
            said = await conversations.with_assignments(conn, org_id, newest.items, standing)
            reading.record_shown([room_id, *(one.message.id for one in said)])
        return BoundedPage(items=said, is_cut=newest.is_cut)

    async def conversation(
        self, viewer: Viewer, word: str, *, limit: int, before: lookup.PositionLike
    ) -> tuple[Conversation, BoundedPage[AssignedMessage]]:
        """Return a conversation and the newest of what was said in it, or what was before a message, newest first."""
        check_limit(limit)
        async with self.access.reading(viewer, "read conversation") as reading:
            conn, org_id = reading.conn, self.access.org_id
            key = await lookup.conversation(conn, org_id, word)
            found = (await conversations.by_id(conn, org_id, [key])).get(key)
            if found is None:
                raise NotFound("conversation", word)
            place = await lookup.position(conn, org_id, before, room_id=found.room_id)
            newest = await conversations.messages_before(conn, org_id, key, place, limit=limit)
            standing = dict.fromkeys((one.id for one in newest.items), key)
            said = await conversations.with_assignments(conn, org_id, newest.items, standing)
            reading.record_shown([key, *(one.message.id for one in said)])
        return found, BoundedPage(items=said, is_cut=newest.is_cut)

    async def exchanges(
        self, viewer: Viewer, room: str, *, limit: int, before: lookup.PositionLike
    ) -> "BoundedPage[Thread]":
        """Return the newest exchanges of a room, or those that open before a message, newest opening first."""
        # The one read here that needs vectors, and so numpy.
        from roomlore.search.threads import newest_threads  # noqa: PLC0415

        check_limit(limit)
        async with self.access.reading(viewer, "read room", generic_plan=True) as reading:
            conn, org_id = reading.conn, self.access.org_id
            room_id = await lookup.room(conn, org_id, room)
            place = await lookup.position(conn, org_id, before, room_id=room_id)
            newest = await newest_threads(conn, org_id, room_id, limit=limit, before=place)
            reading.record_shown([room_id, *(message.id for one in newest.items for message in one.messages)])
        return newest

    async def log(self, viewer: Viewer, *, subject: UUID | str | None, limit: int) -> list[AuditLine]:
        """Return the newest lines of the activity log that the viewer may see, newest first."""
        check_limit(limit)
        about = None if subject is None else ids_matching(str(subject))
        if subject is not None and about is None:
            raise BadInput("subject", "must be an id, or at least four characters of its beginning or end")
        async with self.access.reading(viewer, "read log") as reading:
            return await audit_log.newest_lines(reading.conn, self.access.org_id, about=about, limit=limit)
