"""Rooms and who is in them, what was said there last, and who read or changed what; read for a viewer."""

from dataclasses import dataclass
from uuid import UUID

from roomlore.app.desk import Desk, check_limit
from roomlore.domain.errors import BadInput
from roomlore.domain.ids import named_ids
from roomlore.domain.records import LogLine, Message, Participant, Room, Viewer
from roomlore.retrieval import meant
from roomlore.retrieval.history import newest_exchanges
from roomlore.retrieval.records import Exchange
from roomlore.store import directory, log, messages


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
    ) -> list[Message]:
        """Return the newest messages of a room, or those before one of them, oldest first."""
        check_limit(limit)
        async with self.desk.reading(viewer, "read room", keeps_plans=True, recalls=recalls) as reading:
            conn, org_id = reading.conn, self.desk.org_id
            room_id = await meant.room(conn, org_id, room)
            if before is None:
                newest = await messages.newest_messages(conn, org_id, room_id, limit=limit)
            else:
                place = await meant.place(conn, org_id, before, room_id=room_id)
                newest = await messages.messages_before(conn, org_id, room_id, place, limit=limit)
            reading.shows([room_id, *(message.id for message in newest)])
        return newest[::-1]

    async def exchanges(
        self, viewer: Viewer, room: str, *, limit: int, before: meant.Before
    ) -> list[Exchange]:
        """Return the newest exchanges of a room, or those that open before a message, newest opening first."""
        check_limit(limit)
        async with self.desk.reading(viewer, "read room", keeps_plans=True) as reading:
            conn, org_id = reading.conn, self.desk.org_id
            room_id = await meant.room(conn, org_id, room)
            place = None
            if before is not None:
                place = await meant.place(conn, org_id, before, room_id=room_id)
            newest = await newest_exchanges(conn, org_id, room_id, limit=limit, before=place)
            reading.shows([room_id, *(message.id for one in newest for message in one.messages)])
        return newest

    async def log(self, viewer: Viewer, *, subject: UUID | str | None, limit: int) -> list[LogLine]:
        """Return the newest lines of the activity log that the viewer may see, newest first."""
        check_limit(limit)
        about = None if subject is None else named_ids(str(subject))
        if subject is not None and about is None:
            raise BadInput("subject", "must be an id, or at least four characters of its beginning or end")
        async with self.desk.reading(viewer, "read log") as reading:
            return await log.newest_lines(reading.conn, self.desk.org_id, about=about, limit=limit)
