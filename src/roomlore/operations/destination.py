"""Destinations: where an answer is posted. A read for a destination shows only what everybody there may read.

The destination is a room, or the readers of a whisper that is answered. PostgreSQL enforces the limit
(`bind_destination` in `db/database.py`).
"""

from dataclasses import dataclass

from roomlore.db.database import bind_destination
from roomlore.db.queries import Connection
from roomlore.domain.errors import BadInput, NotFound
from roomlore.domain.ids import MessageId, RoomId
from roomlore.domain.records import Message, Postable, Viewer
from roomlore.domain.words import LAST
from roomlore.search import lookup

NO_READERS = "nothing can be posted there: nobody is known to be in it, or you are not; to read for yourself ask for it as private"
NOT_READABLE_BY_ALL = (
    "not everybody who would read the answer may read it; to read for yourself ask for it as private"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """The room and time of a question."""

    room: str | None = None
    #: The question is asked after this message. None means now.
    as_of: str | None = None
    #: The answer is for the viewer alone and may not be posted.
    private: bool = False

    @property
    def postable(self) -> Postable:
        """Where the answer may be posted."""
        return "nowhere" if self.room is None or self.private else "room"

    def audit_action(self, action: str) -> str:
        """Return the audited action of a read for this destination."""
        return audit_action_for(action, private=self.private)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyTarget:
    """A message to answer, and the viewer bound to the destination of the answer."""

    trigger: Message
    viewer: Viewer
    postable: Postable


def audit_action_for(action: str, *, private: bool) -> str:
    """Return the audited action of a read. Private reads are marked as private."""
    return f"private {action}" if private else action


async def restrict_to_readers(
    conn: Connection, viewer: Viewer, destination: RoomId | MessageId, *, word: str
) -> Viewer:
    """Limit the rest of a read to what everybody in a room, or every reader of a whisper, may read.

    Raises:
        BadInput: nobody may read at the destination, or the viewer is not one of its readers.
    """
    if not await bind_destination(conn, destination):
        raise BadInput(f"room {word!r}", NO_READERS)
    return viewer.posting(destination)


async def reply_target(
    conn: Connection,
    viewer: Viewer,
    room: str,
    trigger: str,
    *,
    private: bool = False,
    includes_whispers: bool = False,
) -> ReplyTarget:
    """Return the message to answer, and limit the rest of the read to the destination of the answer.

    The default trigger is the last message that everybody in the room may read. A whisper is answered only if the
    caller names it, so naming a room never reveals a whisper. With `includes_whispers`, the default trigger may be a
    whisper. Use `includes_whispers` only for results that show no content of messages.

    Raises:
        NotFound: there is no such room or message, or the viewer may not see it.
        BadInput: the name is ambiguous, or some readers of the answer may not read the message.
    """
    room_id = await lookup.room(conn, viewer.org_id, room)
    if trigger == LAST and not private:
        last = await _trigger(conn, viewer, trigger, room_id) if includes_whispers else None
        if last is None or last.kind != "whisper":
            bound = await restrict_to_readers(conn, viewer, room_id, word=room)
            return ReplyTarget(
                trigger=await _trigger(conn, viewer, trigger, room_id), viewer=bound, postable="room"
            )
        trigger = str(last.id)
    named = await _trigger(conn, viewer, trigger, room_id)
    if private:
        return ReplyTarget(trigger=named, viewer=viewer, postable="nowhere")
    is_whisper = named.kind == "whisper"
    bound = await restrict_to_readers(conn, viewer, named.id if is_whisper else room_id, word=room)
    try:
        # Read the message again: the destination may see less than the viewer.
        found = await _trigger(conn, viewer, str(named.id), room_id)
    except NotFound:
        raise BadInput(f"message {trigger!r}", NOT_READABLE_BY_ALL) from None
    return ReplyTarget(trigger=found, viewer=bound, postable="whisper" if is_whisper else "room")


async def _trigger(conn: Connection, viewer: Viewer, word: str, room_id: RoomId) -> Message:
    return await lookup.trigger_message(conn, viewer.org_id, word, room_id=room_id)
