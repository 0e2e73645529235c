"""What was said last in a scope, whatever it was about."""

from dataclasses import dataclass

from roomlore.domain.ids import MessageId, OrgId
from roomlore.store.queries import Connection, Queries
from roomlore.store.search import SearchFilter

QUERIES = Queries("listing")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedMessage:
    """A message that was said in a scope."""

    message_id: MessageId


async def newest_messages(conn: Connection, org_id: OrgId, scope: SearchFilter, *, limit: int) -> list[MessageId]:
    """Return the newest messages of a scope that the viewer may read, newest first.

    Where nobody is named as their author, only those in rooms that the viewer may see.
    """
    last_at, last_order, last_id = scope.last or (None, None, None)
    params = {
        "org_id": org_id,
        "room_ids": scope.room_ids and list(scope.room_ids),
        "author_ids": scope.author_ids and list(scope.author_ids),
        "author_kinds": scope.author_kinds and list(scope.author_kinds),
        "conversation_ids": scope.conversation_ids and list(scope.conversation_ids),
        "answered": scope.answered,
        "since": scope.since,
        "until": scope.until,
        "last_at": last_at,
        "last_order": last_order,
        "last_id": last_id,
        "limit": limit,
    }
    by_author = scope.author_ids is not None or scope.author_kinds is not None
    name = "newest_by_authors" if by_author else "newest_in_rooms"
    return [row.message_id for row in await QUERIES.all(conn, name, ListedMessage, params)]
