"""Rooms and who is in them, what was said there last, and who read or changed what; read for a viewer."""

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from roomlore.app.desk import Desk, check_limit
from roomlore.domain.errors import BadInput, NotFound
from roomlore.domain.ids import named_ids
from roomlore.domain.listing import Listed
from roomlore.domain.records import Conversation, LogLine, Message, Participant, Placed, Room, Viewer
from roomlore.retrieval import meant
from roomlore.store import conversations, directory, log, messages

if TYPE_CHECKING:
    from roomlore.retrieval.records import Exchange


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What there is, as far as viewers may know of it; `App` describes the calls."""

    desk: Desk

    async def rooms(self, viewer: Viewer) -> list[Room]:
        """Return the rooms the viewer may see, most recently active first."""
        async with self.desk.reading(viewer, "list rooms") as reading:
            found = await directory.rooms(reading.conn, viewer)
            reading.shows(room.id for room in found)
        return found

    async def participants(self, viewer: Viewer, *, room: str | None) -> list[Participant]:
        """Return the participants the viewer may know of, or those of one room, most talkative first."""
        async with self.desk.reading(viewer, "list participants") as reading:
            room_id = await meant.room(reading.conn, self.desk.org_id, room) if room else None
            found = await directory.participants(reading.conn, viewer, room_id)
            reading.shows([] if room_id is None else [room_id])
            reading.shows(account for participant in found for account in participant.accounts)
        return found

    async def messages(
        self, viewer: Viewer, room: str, *, limit: int, before: meant.Before, recalls: bool = False
    ) -> Listed[Message]:
        """Return the newest messages of a room, or those before one of them, newest first, as many as one answer holds."""
        check_limit(limit)
        async with self.desk.reading(viewer, "read room", keeps_plans=True, recalls=recalls) as reading:
            conn, org_id = reading.conn, self.desk.org_id
            room_id = await meant.room(conn, org_id, room)
            place = await meant.place(conn, org_id, before, room_id=room_id)
            newest = await messages.messages_before(conn, org_id, room_id, place, limit=limit)
            reading.shows([room_id, *(message.id for message in newest.items)])
        return newest

    async def timeline(
        self, viewer: Viewer, room: str, *, limit: int, before: meant.Before
    ) -> Listed[Placed]:
        """Return the same with the message that each answers, and the conversation it is in."""
        check_limit(limit)
        async with self.desk.reading(viewer, "read room") as reading:
            conn, org_id = reading.conn, self.desk.org_id
            room_id = await meant.room(conn, org_id, room)
            place = await meant.place(conn, org_id, before, room_id=room_id)
            newest = await messages.messages_before(conn, org_id, room_id, place, limit=limit)
            standing = await conversations.standing_in_room(conn, org_id, room_id, newest.items)
            said = await conversations.placed(conn, org_id, newest.items, standing)
            reading.shows([room_id, *(one.message.id for one in said)])
        return Listed(items=said, is_cut=newest.is_cut)

    async def conversation(
        self, viewer: Viewer, word: str, *, limit: int, before: meant.Before
    ) -> tuple[Conversation, Listed[Placed]]:
        """Return a conversation and the newest of what was said in it, or what was before a message, newest first."""
        check_limit(limit)
        async with self.desk.reading(viewer, "read conversation") as reading:
            conn, org_id = reading.conn, self.desk.org_id
            key = await meant.conversation(conn, org_id, word)
            found = (await conversations.by_id(conn, org_id, [key])).get(key)
            if found is None:
                raise NotFound("conversation", word)
            place = await meant.place(conn, org_id, before, room_id=found.room_id)
            newest = await conversations.messages_before(conn, org_id, key, place, limit=limit)
            standing = dict.fromkeys((one.id for one in newest.items), key)
            said = await conversations.placed(conn, org_id, newest.items, standing)
            reading.shows([key, *(one.message.id for one in said)])
        return found, Listed(items=said, is_cut=newest.is_cut)

    async def exchanges(
        self, viewer: Viewer, room: str, *, limit: int, before: meant.Before
    ) -> "Listed[Exchange]":
        """Return the newest exchanges of a room, or those that open before a message, newest opening first."""
        # The one read here that needs vectors, and so numpy.
        from roomlore.retrieval.history import newest_exchanges  # noqa: PLC0415

        check_limit(limit)
        async with self.desk.reading(viewer, "read room", keeps_plans=True) as reading:
            conn, org_id = reading.conn, self.desk.org_id
            room_id = await meant.room(conn, org_id, room)
            place = await meant.place(conn, org_id, before, room_id=room_id)
            newest = await newest_exchanges(conn, org_id, room_id, limit=limit, before=place)
            reading.shows([room_id, *(message.id for one in newest.items for message in one.messages)])
        return newest

    async def log(self, viewer: Viewer, *, subject: UUID | str | None, limit: int) -> list[LogLine]:
        """Return the newest lines of the activity log that the viewer may see, newest first."""
        check_limit(limit)
        about = None if subject is None else named_ids(str(subject))
        if subject is not None and about is None:
            raise BadInput("subject", "must be an id, or at least four characters of its beginning or end")
        async with self.desk.reading(viewer, "read log") as reading:
            return await log.newest_lines(reading.conn, self.desk.org_id, about=about, limit=limit)
