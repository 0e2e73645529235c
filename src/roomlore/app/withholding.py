"""What recall does not show because of spoken requests, told to those who may know: operators, and whoever asked for it."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import replace

from roomlore.app.desk import Desk
from roomlore.context.records import Context
from roomlore.domain.ids import MessageId
from roomlore.domain.records import Viewer
from roomlore.retrieval.records import Answer, Hit, Withheld
from roomlore.store import memories, wishreview
from roomlore.store.db import verbatim
from roomlore.store.queries import Connection

#: So many messages that were withheld are told of one call.
MOST_TOLD = 200


async def withheld_of(desk: Desk, viewer: Viewer, ids: Sequence[MessageId]) -> list[Withheld]:
    """Return which requests withhold messages, each message at its place in the order given.

    An operator is told of all, everybody else of their own requests only. No other connection may be held meanwhile.
    """
    if not ids:
        return []
    # What is withheld is in a table that operators alone read: that a row is there would tell.
    async with desk.db.reading(Viewer.operator(desk.org_id)) as whole:
        found = await wishreview.withheld_of(whole, desk.org_id, ids)
    seen = [row for row in found if viewer.is_operator or viewer.is_own(row.author_id)]
    async with desk.db.reading(viewer) as conn:
        people = {key for row in seen for key in row.from_ids or ()}
        names = await memories.known_names(conn, desk.org_id, people) if people else {}
    place = {message_id: number for number, message_id in enumerate(ids)}
    return [
        Withheld(
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


async def kept_from_all(desk: Desk, viewer: Viewer, ids: Sequence[MessageId]) -> list[Withheld]:
    """Return which requests withhold messages from an operator who recalls, too; nothing for anybody else."""
    found = await withheld_of(desk, viewer, ids) if viewer.is_operator else []
    return [one for one in found if one.from_names is None]


async def left_out(
    conn: Connection,
    viewer: Viewer,
    look: Callable[[], Awaitable[Iterable[MessageId]]],
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
    if not viewer.is_operator or not await wishreview.is_anything_withheld(conn, viewer.org_id):
        return []
    async with verbatim(conn):
        found = list(dict.fromkeys(await look()))
    return [message_id for message_id in found if message_id not in shown][:MOST_TOLD]


async def told_of(desk: Desk, built: Context) -> Context:
    """Return an operator's context with what is withheld of the stretch of the room that it shows; others' as it is.

    No connection may be held meanwhile: that of a context for a room reads as everybody there, who are told nothing.
    """
    if not built.viewer.is_operator or not built.lines:
        return built
    first, last = built.lines[0].message, built.lines[-1].message
    async with desk.db.reading(built.viewer) as conn:
        hidden = await wishreview.withheld_between(
            conn,
            desk.org_id,
            built.room_id,
            since=first.sent_at,
            until=last.sent_at,
            limit=MOST_TOLD,
        )
    return replace(built, withheld=tuple(await kept_from_all(desk, built.viewer, hidden)))


def said_in(hits: Iterable[Hit]) -> list[MessageId]:
    """Return the messages of what was found."""
    return [message.id for hit in hits for message in hit.messages]


def rests_on(answer: Answer) -> list[MessageId]:
    """Return the messages that an answer rests on."""
    return [*said_in(answer.hits), *(key for one in answer.memories for key in one.memory.source_ids)]
