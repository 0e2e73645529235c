"""Lists of rooms, participants, messages, threads and audit lines, each as one viewer sees it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from roomlore.db import audit_log, conversations, messages, people_pages, timeline
from roomlore.db.people_pages import PeopleFilter
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
    convert,
)
from roomlore.operations.access import Access, check_limit
from roomlore.search import lookup

if TYPE_CHECKING:
    from roomlore.search.records import Thread


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Implements the reads of `App`, whose docstrings describe them.

    A page holds the newest items first and may be cut.
    """

    access: Access

    async def rooms(self, viewer: Viewer) -> list[Room]:
        """Return the rooms, the most recently active first."""
        async with self.access.reading(viewer, "list rooms") as reading:
            found = await timeline.rooms(reading.conn, viewer)
            reading.record_shown(room.id for room in found)
        return found

    async def participants(self, viewer: Viewer, *, room: str | None) -> list[Participant]:
        """Return the participants, or the participants of one room, those with the most messages first."""
        async with self.access.reading(viewer, "list participants") as reading:
            room_id = await lookup.room(reading.conn, self.access.org_id, room) if room else None
            people = await people_pages.list_people(reading.conn, viewer, PeopleFilter(room_id=room_id))
            found = [convert(Participant, person) for person in people]
            reading.record_shown([] if room_id is None else [room_id])
            reading.record_shown(account for participant in found for account in participant.accounts)
        return found

    async def messages(
        self,
        viewer: Viewer,
        room: str,
        *,
        limit: int,
        before: lookup.PositionLike,
        apply_restrictions: bool = False,
    ) -> BoundedPage[Message]:
        """Return the newest messages of a room, or the messages before a position.

        With `apply_restrictions`, messages that privacy requests hide are left out.
        """
        check_limit(limit)
        async with self.access.reading(
            viewer, "read room", generic_plan=True, apply_restrictions=apply_restrictions
        ) as reading:
            conn, org_id = reading.conn, self.access.org_id
            room_id = await lookup.room(conn, org_id, room)
            position = await lookup.position(conn, org_id, before, room_id=room_id)
            page = await messages.messages_before(conn, org_id, room_id, position, limit=limit)
            reading.record_shown([room_id, *(message.id for message in page.items)])
        return page

    async def timeline(
        self, viewer: Viewer, room: str, *, limit: int, before: lookup.PositionLike
    ) -> BoundedPage[AssignedMessage]:
        """Return the same as `messages`, with the parent and the conversation of each message."""
        check_limit(limit)
        async with self.access.reading(viewer, "read room") as reading:
            conn, org_id = reading.conn, self.access.org_id
            room_id = await lookup.room(conn, org_id, room)
            position = await lookup.position(conn, org_id, before, room_id=room_id)
            page = await messages.messages_before(conn, org_id, room_id, position, limit=limit)
            assigned = await conversations.room_assignments(conn, org_id, room_id, page.items)
            items = await conversations.with_assignments(conn, org_id, page.items, assigned)
            reading.record_shown([room_id, *(item.message.id for item in items)])
        return BoundedPage(items=items, is_truncated=page.is_truncated)

    async def conversation(
        self, viewer: Viewer, word: str, *, limit: int, before: lookup.PositionLike
    ) -> tuple[Conversation, BoundedPage[AssignedMessage]]:
        """Return a conversation with its newest messages, newest first, or with the messages before a position."""
        check_limit(limit)
        async with self.access.reading(viewer, "read conversation") as reading:
            conn, org_id = reading.conn, self.access.org_id
            key = await lookup.conversation(conn, org_id, word)
            conversation = (await conversations.by_id(conn, org_id, [key])).get(key)
            if conversation is None:
                raise NotFound("conversation", word)
            position = await lookup.position(conn, org_id, before, room_id=conversation.room_id)
            page = await conversations.messages_before(conn, org_id, key, position, limit=limit)
            assigned = dict.fromkeys((message.id for message in page.items), key)
            items = await conversations.with_assignments(conn, org_id, page.items, assigned)
            reading.record_shown([key, *(item.message.id for item in items)])
        return conversation, BoundedPage(items=items, is_truncated=page.is_truncated)

    async def threads(
        self, viewer: Viewer, room: str, *, limit: int, before: lookup.PositionLike
    ) -> "BoundedPage[Thread]":
        """Return the newest threads of a room, or the threads whose root is before a position."""
        # This is the only read of this module that needs numpy.
        from roomlore.search.threads import newest_threads  # noqa: PLC0415

        check_limit(limit)
        async with self.access.reading(viewer, "read room", generic_plan=True) as reading:
            conn, org_id = reading.conn, self.access.org_id
            room_id = await lookup.room(conn, org_id, room)
            position = await lookup.position(conn, org_id, before, room_id=room_id)
            page = await newest_threads(conn, org_id, room_id, limit=limit, before=position)
            reading.record_shown(
                [room_id, *(message.id for thread in page.items for message in thread.messages)]
            )
        return page

    async def log(self, viewer: Viewer, *, subject: UUID | str | None, limit: int) -> list[AuditLine]:
        """Return the newest audit lines, newest first."""
        check_limit(limit)
        about = None if subject is None else ids_matching(str(subject))
        if subject is not None and about is None:
            raise BadInput("subject", "must be an id, or at least four characters of its beginning or end")
        async with self.access.reading(viewer, "read log") as reading:
            return await audit_log.newest_lines(reading.conn, self.access.org_id, about=about, limit=limit)
