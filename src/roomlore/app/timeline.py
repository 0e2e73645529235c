"""Rooms and conversations as their pages show them: what was said, each message with all that hangs on it.

Nothing is here that the viewer may not read, nor any sign of it: a window is as long as if it had never been said.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from roomlore.app.desk import Desk
from roomlore.app.voices import Cast, Voice, cast, cast_lately
from roomlore.app.windows import LONGEST, Looking, Part, wanted_of
from roomlore.domain.errors import BadInput, NotFound
from roomlore.domain.ids import ConversationId, MessageId, OrgId, RoomId, uuid7
from roomlore.domain.records import Conversation, Message, Placed, Viewer
from roomlore.retrieval import meant
from roomlore.retrieval.history import newest_begun
from roomlore.retrieval.records import Exchange
from roomlore.store import conversations, messages
from roomlore.store import timeline as store
from roomlore.store.db import recalling
from roomlore.store.queries import Connection
from roomlore.store.timeline import END, Attached, Hearer, Place, Remembered, Titled, Version

Hanging = TypeVar("Hanging", Attached, Hearer, Version, Remembered)

#: Messages of one window.
MOST = 200
#: Characters that are shown of what a message answers, and of what it said before it was edited.
ANSWERED, EARLIER = 200, 400
#: Earlier texts of a message, the newest; and what is attached to it.
MOST_VERSIONS, MOST_ATTACHED = 20, 10
#: Characters of a message of an exchange, of which there are many on a page.
IN_EXCHANGE = 1_000
#: Characters of a message that has a page for itself, on one page.
STRETCH = 50_000
#: Conversations before one, and after it.
NEIGHBOURS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A message with all that hangs on it and that the viewer may see."""

    #: Of its words the beginning, where they are many.
    placed: Placed
    is_cut: bool
    attached: Sequence[Attached]
    #: What it answers, by its beginning.
    answered: Message | None
    conversation: Titled | None
    #: The newest of what it said before it was edited, oldest first.
    versions: Sequence[Version]
    #: To whom it was whispered, as far as known; empty where it was no whisper.
    hearers: Sequence[Hearer]
    memories: Sequence[Remembered]
    #: Whether a bridge spoke for its author.
    is_bridged: bool

    @property
    def message(self) -> Message:
        """The message."""
        return self.placed.message


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A part of a room."""

    room: Place
    #: Oldest first.
    lines: Sequence[Line]
    #: The message around which it is, if it is around one.
    sought: MessageId | None
    #: The messages before and after which to look on; None where there is nothing.
    earlier: MessageId | None
    later: MessageId | None
    #: In the order in which they first spoke; of very many the most talkative, and those of these lines.
    voices: Sequence[Voice]
    first_at: datetime | None
    last_at: datetime | None
    #: Events from here on may tell of what is not in it yet.
    as_of: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A conversation with what was said in it and what was said beside it."""

    conversation: Conversation
    #: None where the viewer may read what was said but not see the room, as with whispers.
    room: Place | None
    #: The newest of what is asked for, oldest first.
    lines: Sequence[Line]
    #: The message before which more was said in it.
    onward: MessageId | None
    voices: Sequence[Voice]
    #: Conversations of the room that ended just before, and just after, the nearest first.
    earlier: Sequence[Titled]
    later: Sequence[Titled]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """A room by its exchanges."""

    room: Place
    #: Newest first, by their openings.
    exchanges: Sequence[Exchange]
    #: Those of their messages of whose words only the beginning is told.
    cut: frozenset[MessageId]
    hearers: Mapping[MessageId, Sequence[Hearer]]
    voices: Sequence[Voice]
    as_of: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """One message, with a stretch of its words."""

    room: Place
    #: Its words are this stretch.
    message: Message
    attached: Sequence[Attached]
    #: Which stretch it is, from 1, and of how many.
    part: int
    parts: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Rooms and conversations, message by message, as far as viewers may read them."""

    desk: Desk

    async def window(self, viewer: Viewer, room: str, part: Part, *, limit: int = 50) -> Window:
        """Return a part of a room; from its newest messages where nothing was said at the day or after it.

        Args:
            viewer: For whom.
            room: Name, id or external id.
            part: Which part.
            limit: How many messages.

        Raises:
            BadInput: several places or rooms are meant, or more is wanted than one window holds.
            NotFound: there is no such room, message or person, or the viewer may not see it.
        """
        _check(limit)
        if sum(place is not None for place in (part.at, part.before, part.after, part.day)) > 1:
            raise BadInput("at", "name one place: at, before, after or day")
        as_of = uuid7()
        async with self.desk.reading(viewer, "read room", keeps_plans=True) as reading:
            conn, org_id = reading.conn, self.desk.org_id
            room_id = await meant.room(conn, org_id, room)
            wanted = await wanted_of(conn, viewer, part)
            looking = Looking(conn=conn, org_id=org_id, room_id=room_id, wanted=wanted, limit=limit)
            found = await looking.part(part)
            spoken = await cast(conn, viewer, room_id, found.said)
            placed = await _placed(conn, org_id, room_id, found.said, are_adjacent=wanted.is_everything)
            lines = await _hung(conn, org_id, placed, spoken)
            reading.shows([room_id, *_shown(lines)])
            place = await _room(conn, org_id, room_id)
        return Window(
            room=place,
            lines=lines,
            sought=found.sought,
            earlier=found.earlier,
            later=found.later,
            voices=spoken.voices(),
            first_at=min((one.first_at for one in spoken.spoke), default=None),
            last_at=max((one.last_at for one in spoken.spoke), default=None),
            as_of=as_of,
        )

    async def lines(
        self, viewer: Viewer, room: str, ids: Sequence[MessageId]
    ) -> tuple[RoomId, list[Line], list[Voice]]:
        """Return a room, those of these messages of it that the viewer may read, in its order, and who spoke in it.

        Raises:
            BadInput: more is wanted than one window holds.
            NotFound: there is no such room, or the viewer may not see it.
        """
        if len(ids) > MOST:
            raise BadInput("ids", f"at most {MOST}")
        async with self.desk.reading(viewer, "read room") as reading:
            conn, org_id = reading.conn, self.desk.org_id
            room_id = await meant.room(conn, org_id, room)
            found = await messages.messages_by_id(conn, org_id, ids, most=LONGEST + 1)
            said = [message for message in found if message.room_id == room_id]
            spoken = await cast_lately(conn, viewer, room_id, said)
            placed = await _placed(conn, org_id, room_id, said, are_adjacent=False)
            lines = await _hung(conn, org_id, placed, spoken)
            reading.shows([room_id, *_shown(lines)])
        return room_id, lines, spoken.voices()

    async def exchanges(
        self, viewer: Viewer, room: str, *, limit: int, before: str | None = None
    ) -> Gathered:
        """Return the newest exchanges of a room, or those that open before a message, with who is in them.

        Raises:
            BadInput: more is wanted than one window holds.
            NotFound: there is no such room or message, or the viewer may not see it.
        """
        _check(limit)
        as_of = uuid7()
        async with self.desk.reading(viewer, "read room", keeps_plans=True) as reading:
            conn, org_id = reading.conn, self.desk.org_id
            room_id = await meant.room(conn, org_id, room)
            place = await meant.place(conn, org_id, before, room_id=room_id)
            found = await newest_begun(conn, org_id, room_id, limit=limit, before=place, most=IN_EXCHANGE + 1)
            said = [message for one in found for message in one.messages]
            spoken = await cast(conn, viewer, room_id, said)
            whispers = [message.id for message in said if message.kind == "whisper"]
            hearers = await store.hearers(conn, org_id, whispers) if whispers else []
            reading.shows([room_id, *(message.id for message in said)])
            held = await _room(conn, org_id, room_id)
        return Gathered(
            room=held,
            exchanges=[
                replace(one, messages=[_begun(message, IN_EXCHANGE) for message in one.messages])
                for one in found
            ],
            cut=frozenset(message.id for message in said if len(message.body) > IN_EXCHANGE),
            hearers=_by_message(hearers),
            voices=spoken.voices(),
            as_of=as_of,
        )

    async def whole(
        self,
        viewer: Viewer,
        room: str,
        message: str,
        *,
        part: int = 1,
        stretch: int = STRETCH,
        recalls: bool = False,
    ) -> Whole:
        """Return a message of a room with all its words, of very many a stretch; `recalls`: unless a wish keeps it away.

        Raises:
            NotFound: there is no such room, message or part of it, or the viewer may not see it.
        """
        async with self.desk.reading(viewer, "read room", recalls=recalls) as reading:
            conn, org_id = reading.conn, self.desk.org_id
            room_id = await meant.room(conn, org_id, room)
            found = await meant.message(conn, org_id, message, room_id=room_id)
            held = await store.stretch(conn, org_id, found.id, start=(part - 1) * stretch, most=stretch)
            parts = 0 if held is None else max(1, -(-held.length // stretch))
            if held is None or part > parts:
                raise NotFound("part", str(part))
            attached = await store.attached(conn, org_id, [found.id], limit=MOST_ATTACHED)
            reading.shows([room_id, found.id])
            place = await _room(conn, org_id, room_id)
        return Whole(
            room=place,
            message=replace(found, body=held.text),
            attached=attached,
            part=part,
            parts=parts,
            length=held.length,
        )

    async def conversation(
        self, viewer: Viewer, word: str, *, limit: int = 100, before: str | None = None
    ) -> Told:
        """Return a conversation with the newest of what was said in it, or before a message, and its neighbours.

        Raises:
            BadInput: nothing or too much is wanted, or several are meant.
            NotFound: there is no such conversation, or the viewer may not see all of it.
        """
        _check(limit)
        async with self.desk.reading(viewer, "read conversation") as reading:
            conn, org_id = reading.conn, self.desk.org_id
            found = await meant.conversation(conn, org_id, word)
            held = (await conversations.by_id(conn, org_id, [found])).get(found)
            if held is None:
                raise NotFound("conversation", word)
            place = END
            if before is not None:
                place = store.at(await meant.message(conn, org_id, before, room_id=held.room_id))
            newest = await store.of_conversation(
                conn, org_id, found, place, limit=limit + 1, most=LONGEST + 1
            )
            said = newest[:limit][::-1]
            standing = dict.fromkeys((one.id for one in said), found)
            spoken = await cast(conn, viewer, held.room_id, said)
            placed = await conversations.placed(conn, org_id, said, standing)
            lines = await _hung(conn, org_id, placed, spoken)
            room = await store.room(conn, org_id, held.room_id)
            around = await store.conversations_around(
                conn, org_id, held.room_id, _titled(held), limit=NEIGHBOURS
            )
            reading.shows([found, *_shown(lines), *(one.id for side in around for one in side)])
        return Told(
            conversation=held,
            room=room,
            lines=lines,
            onward=said[0].id if len(newest) > limit else None,
            voices=spoken.voices(),
            earlier=around[0],
            later=around[1],
        )


def _titled(held: Conversation) -> Titled:
    return Titled(id=held.id, label=held.label, opened_at=held.opened_at, last_at=held.last_at)


async def _room(conn: Connection, org_id: OrgId, room_id: RoomId) -> Place:
    place = await store.room(conn, org_id, room_id)
    assert place is not None, "it was found by the same viewer"
    return place


async def _placed(
    conn: Connection, org_id: OrgId, room_id: RoomId, said: Sequence[Message], *, are_adjacent: bool
) -> list[Placed]:
    """Return messages of a room with what they answer and where they stand."""
    # Between others there may be very many conversations, of which none is asked for.
    standing = (
        await conversations.standing_in_room(conn, org_id, room_id, said)
        if are_adjacent
        else await store.standing(conn, org_id, [one.id for one in said])
    )
    return await conversations.placed(conn, org_id, said, standing)


async def _hung(conn: Connection, org_id: OrgId, said: Sequence[Placed], spoken: Cast) -> list[Line]:
    """Return messages with all that hangs on them."""
    ids = [one.message.id for one in said]
    parents = {one.answers.parent_id for one in said if one.answers is not None}
    found = await messages.messages_by_id(conn, org_id, list(parents), most=ANSWERED)
    answered = {one.id: one for one in found}
    titles = await store.labels(conn, org_id, {one.conversation_id for one in said if one.conversation_id})
    whispers = [one.message.id for one in said if one.message.kind == "whisper"]
    edited = [one.message.id for one in said if one.message.edited_at is not None]
    hearers = _by_message(await store.hearers(conn, org_id, whispers) if whispers else [])
    versions = _by_message(
        await store.versions(conn, org_id, edited, limit=MOST_VERSIONS, most=EARLIER) if edited else []
    )
    attached = _by_message(await store.attached(conn, org_id, ids, limit=MOST_ATTACHED))
    # Those alone whose pages there are: what a wish keeps away has none.
    async with recalling(conn):
        memories = _by_message(await store.remembered(conn, org_id, ids))
    return [
        Line(
            placed=replace(one, message=_begun(one.message, LONGEST)),
            is_cut=len(one.message.body) > LONGEST,
            attached=attached.get(one.message.id, ()),
            answered=None if one.answers is None else answered.get(one.answers.parent_id),
            conversation=_title_of(titles, one.conversation_id),
            versions=versions.get(one.message.id, ()),
            hearers=hearers.get(one.message.id, ()),
            memories=memories.get(one.message.id, ()),
            is_bridged=spoken.is_bridged(one.message.author_id),
        )
        for one in said
    ]


def _shown(lines: Sequence[Line]) -> Iterator[UUID]:
    """Yield what lines show: messages, what they answer, and what is remembered of them."""
    for line in lines:
        yield line.message.id
        if line.answered is not None:
            yield line.answered.id
        yield from (memory.id for memory in line.memories)


def _begun(message: Message, most: int) -> Message:
    return message if len(message.body) <= most else replace(message, body=message.body[:most])


def _check(limit: int) -> None:
    if not 1 <= limit <= MOST:
        raise BadInput("limit", f"must be at least 1 and at most {MOST}")


def _title_of(
    titles: Mapping[ConversationId, Titled], conversation_id: ConversationId | None
) -> Titled | None:
    return None if conversation_id is None else titles.get(conversation_id)


def _by_message(rows: Sequence[Hanging]) -> dict[MessageId, list[Hanging]]:
    held: dict[MessageId, list[Hanging]] = {}
    for row in rows:
        held.setdefault(row.message_id, []).append(row)
    return held
