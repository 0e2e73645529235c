"""Everything that was said in a scope, newest first, for a question that asks for nothing else."""

from roomlore.db import directory, search
from roomlore.db.queries import Connection
from roomlore.db.search import SearchFilter
from roomlore.domain.ids import MessageId
from roomlore.domain.records import Viewer
from roomlore.search.records import Hit, MatchReason
from roomlore.search.threads import build_threads, load_threads, max_shown, visible_members

#: Of so many messages for each exchange that is wanted the exchanges are looked up: several lie in one.
MESSAGES_PER_THREAD = 5


async def list_recent(conn: Connection, viewer: Viewer, *, scope: SearchFilter, limit: int) -> list[Hit]:
    """Return up to `limit` exchanges with the newest messages of a scope, newest find first."""
    org_id = viewer.org_id
    found = await search.newest_messages(conn, org_id, scope, limit=MESSAGES_PER_THREAD * limit)
    members = await search.thread_messages(conn, org_id, found)
    outline_of = {key: one for one in build_threads(members, last=scope.last) for key in one.member_ids}
    finds: dict[MessageId, list[MessageId]] = {}
    for key in found:
        opening = outline_of[key].root_id
        if opening in finds or len(finds) < limit:
            finds.setdefault(opening, []).append(key)
    outlines = [outline_of[opening] for opening in finds]
    bound = max_shown(limit)
    kept = [visible_members(outline_of[opening], keys, bound=bound) for opening, keys in finds.items()]
    whole = await load_threads(conn, org_id, outlines, kept)
    rooms = await directory.room_names(conn, org_id, {one.messages[0].room_id for one in whole})
    newness = {key: 1 - place / len(found) for place, key in enumerate(found)}
    hits: list[Hit] = []
    for exchange, keys in zip(whole, finds.values(), strict=True):
        # A whisper may be addressed to somebody who cannot see its room.
        room = rooms.get(exchange.messages[0].room_id)
        shown_ids = {message.id for message in exchange.messages}
        hits.append(
            Hit(
                messages=exchange.messages,
                replies=exchange.replies,
                omitted=exchange.omitted,
                why={key: _recency_reason(newness[key]) for key in keys if key in shown_ids},
                room_name=room.name if room else "",
                platform=room.platform if room else "",
            )
        )
    return hits


def _recency_reason(newness: float) -> MatchReason:
    return MatchReason(score=newness, similarity=None, coverage=None, terms=())
