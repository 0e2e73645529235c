"""Our own store as a source of messages for the context walk.

A walk asks for what was said before the trigger and the replies around it at once, which is mostly all, so each question
is one statement. The transaction is one snapshot: all answers are of the same moment.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from roomlore.domain.ids import MessageId, OrgId
from roomlore.domain.records import Message, Reply
from roomlore.store import messages as said
from roomlore.store.queries import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSource:
    """Messages as the connection's viewer may see them; for one walk in one transaction."""

    conn: Connection
    org_id: OrgId

    async def before(self, message: Message, limit: int) -> list[Message]:
        """Return the messages of the same room just before this one, newest first."""
        found = await said.messages_before(
            self.conn, self.org_id, message.room_id, message.position, limit=limit
        )
        return list(found.items)

    async def after(self, message: Message, limit: int) -> list[Message]:
        """Return the messages of the same room just after this one, oldest first."""
        return list((await said.messages_after(self.conn, self.org_id, message, limit=limit)).items)

    async def messages(self, ids: Sequence[MessageId]) -> list[Message]:
        """Return those of the ids that the viewer may see."""
        return await said.messages_truncated(self.conn, self.org_id, ids)

    async def replies(self, ids: Sequence[MessageId], limit: int) -> list[Reply]:
        """Return reply edges that have one of the ids at either end, most confident first."""
        return await said.replies_around(self.conn, self.org_id, ids, limit=limit)
