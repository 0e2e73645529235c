"""Where an answer is to be posted: what is read for it is bound to that place, unless it is asked for privately.

The database holds a read to what everybody there could read (`db/database.py`, `enter_place`). Here is said which place that
is: the room that was named; or, where a whisper is answered, those who hear it.
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
    """Where and when something is asked."""

    room: str | None = None
    #: The message after which it is asked; now by default.
    as_of: str | None = None
    #: Whether it is for the viewer's eyes alone; otherwise what is found in answer may be posted in the room.
    private: bool = False

    @property
    def postable(self) -> Postable:
        """Where what is found may be posted."""
        return "nowhere" if self.room is None or self.private else "room"

    def audit_action(self, action: str) -> str:
        """Return what the log calls a read of this place."""
        return audit_action_for(action, private=self.private)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyTarget:
    """A message to answer, and for whom it is read."""

    trigger: Message
    #: Bound to where the answer is posted, if it is to be posted.
    viewer: Viewer
    postable: Postable


def audit_action_for(action: str, *, private: bool) -> str:
    """Return what the log calls a read: whether it was held to what everybody there may read, or was for one alone."""
    return f"private {action}" if private else action


async def restrict_to_readers(
    conn: Connection, viewer: Viewer, place: RoomId | MessageId, *, word: str
) -> Viewer:
    """Bind the rest of a read to what everybody at a place could read, and return the viewer as bound to it.

    Args:
        conn: Reads for the viewer.
        viewer: For whom.
        place: A room, or a whisper.
        word: How whoever asks named it.

    Raises:
        BadInput: nobody reads there, or the viewer is not among them.
    """
    if not await bind_destination(conn, place):
        raise BadInput(f"room {word!r}", NO_READERS)
    return viewer.posting(place)


async def reply_target(
    conn: Connection,
    viewer: Viewer,
    room: str,
    trigger: str,
    *,
    private: bool = False,
    includes_whispers: bool = False,
) -> ReplyTarget:
    """Return the message of a room that is to be answered, and bind the rest of the read to where it is answered.

    The room's last is the last that everybody there may read: a whisper is answered where it is named, so that whoever
    names a room alone is never given what was whispered there.

    Args:
        conn: Reads for the viewer, and recalls.
        viewer: For whom.
        room: Name, id or external id.
        trigger: External id or id of the message, or the room's last.
        private: Read all that the viewer may: then nothing of it may be posted.
        includes_whispers: Whether the last may be a whisper, for what tells nothing of what was said.

    Raises:
        NotFound: there is no such room or message, or the viewer may not see it.
        BadInput: several are meant; or not everybody who would read the answer may read the message.
    """
    org_id = viewer.org_id
    room_id = await lookup.room(conn, org_id, room)
    if private:
        found = await lookup.trigger_message(conn, org_id, trigger, room_id=room_id)
        return ReplyTarget(trigger=found, viewer=viewer, postable="nowhere")
    if trigger == LAST and includes_whispers:
        newest = await lookup.trigger_message(conn, org_id, trigger, room_id=room_id)
        trigger = str(newest.id) if newest.kind == "whisper" else trigger
    if trigger == LAST:
        bound = await restrict_to_readers(conn, viewer, room_id, word=room)
        found = await lookup.trigger_message(conn, org_id, trigger, room_id=room_id)
        return ReplyTarget(trigger=found, viewer=bound, postable="room")
    named = await lookup.trigger_message(conn, org_id, trigger, room_id=room_id)
    is_whisper = named.kind == "whisper"
    bound = await restrict_to_readers(conn, viewer, named.id if is_whisper else room_id, word=room)
    try:
        # Read again: what it answers may be for fewer.
        found = await lookup.trigger_message(conn, org_id, str(named.id), room_id=room_id)
    except NotFound:
        raise BadInput(f"message {trigger!r}", NOT_READABLE_BY_ALL) from None
    return ReplyTarget(trigger=found, viewer=bound, postable="whisper" if is_whisper else "room")
