"""What recall does not show because of spoken requests, told to those who may know: operators, and whoever asked for it."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence

from roomlore.app.desk import Access
from roomlore.domain.ids import MessageId, RoomId
from roomlore.domain.records import Viewer
from roomlore.retrieval.records import Answer, Hit, RestrictedResult
from roomlore.store import memories, messages, wishreview
from roomlore.store.db import without_restrictions
from roomlore.store.queries import Connection

#: So many messages that were withheld are told of one call.
MOST_TOLD = 200


async def restrictions_on(access: Access, viewer: Viewer, ids: Sequence[MessageId]) -> list[RestrictedResult]:
    """Return which requests withhold messages, each message at its place in the order given.

    An operator is told of all, everybody else of their own requests only. No other connection may be held meanwhile.
    """
    if not ids:
        return []
    # What is withheld is in a table that operators alone read: that a row is there would tell.
    async with access.db.read_transaction(Viewer.operator(access.org_id)) as whole:
        found = await wishreview.restrictions_of(whole, access.org_id, ids)
    seen = [row for row in found if viewer.is_operator or viewer.is_own(row.author_id)]
    async with access.db.read_transaction(viewer) as conn:
        people = {key for row in seen for key in row.from_ids or ()}
        names = await memories.known_names(conn, access.org_id, people) if people else {}
    place = {message_id: number for number, message_id in enumerate(ids)}
    return [
        RestrictedResult(
            message_id=row.message_id,
            wish_id=row.wish_id,
            kind=row.kind,
            room_name=row.room_name,
            author_name=row.author_name,
            from_names=None
            if row.from_ids is None
            else sorted(names[key] for key in row.from_ids if key in names),
        )
        for row in sorted(seen, key=lambda row: place[row.message_id])
    ]


async def operator_restrictions(
    access: Access, viewer: Viewer, ids: Sequence[MessageId], *, place: RoomId | MessageId | None
) -> list[RestrictedResult]:
    """Return which requests withhold messages from an operator who recalls; nothing for anybody else.

    No connection may be held meanwhile.

    Args:
        desk: Of the org.
        viewer: Who is told.
        ids: What may be withheld.
        place: Where what is recalled is to be posted: whatever is kept from anybody there counts as withheld.
    """
    if not viewer.is_operator or not ids:
        return []
    if place is None:
        return [one for one in await restrictions_on(access, viewer, ids) if one.from_names is None]
    async with access.db.read_transaction(viewer.posting(place), apply_restrictions=True) as conn:
        recalled = {one.id for one in await messages.messages_by_id(conn, access.org_id, list(ids))}
        async with without_restrictions(conn):
            said = {one.id for one in await messages.messages_by_id(conn, access.org_id, list(ids))}
    return await restrictions_on(access, viewer, [key for key in ids if key in said - recalled])


async def hidden_message_ids(
    conn: Connection,
    viewer: Viewer,
    search_again: Callable[[], Awaitable[Iterable[MessageId]]],
    *,
    shown: Collection[MessageId],
) -> list[MessageId]:
    """Return what an operator would have been shown besides, as far as requests may be the reason.

    Nothing for anybody else: that something is left out tells that it is there.

    Args:
        conn: Recalls for the viewer.
        viewer: For whom.
        look: Looks again, as if nothing were withheld.
        shown: What was found.
    """
    if not viewer.is_operator or not await wishreview.has_restrictions(conn):
        return []
    async with without_restrictions(conn):
        found = list(dict.fromkeys(await search_again()))
    return [message_id for message_id in found if message_id not in shown][:MOST_TOLD]


def message_ids_of_hits(hits: Iterable[Hit]) -> list[MessageId]:
    """Return the messages of what was found."""
    return [message.id for hit in hits for message in hit.messages]


def source_ids_of_answer(answer: Answer) -> list[MessageId]:
    """Return the messages that an answer rests on."""
    return [*message_ids_of_hits(answer.hits), *(key for one in answer.memories for key in one.memory.source_ids)]
