"""Brings what wishes may be about from their room, and never the whole room.

What was said just before, what their authors said of a topic, who says a value, and what answers what: each is
looked for in the database by place, author, word or edge.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from roomlore.domain.ids import MessageId, OrgId, ParticipantId, RoomId
from roomlore.store import wishes as kept
from roomlore.store.queries import Connection
from roomlore.store.wishes import Sought
from roomlore.wishes.covering import COMMON, FAR, before_of, meant_by, pieces, stems, values_of
from roomlore.wishes.marks import is_telling, tokens_of
from roomlore.wishes.records import Reach, Said, Voice
from roomlore.wishes.rows import said_of

#: A value that nobody says by chance, and that more messages have than these, is looked for no further.
SPREAD = 200
#: So many messages back a restriction reaches, of those that are there when it is heard.
BACK = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """As much of a room as some wishes may be about."""

    #: In the order of the room.
    said: Sequence[Said]
    #: By the message that voices a wish: what it names that is said too often for all who say it to be here.
    common: Mapping[MessageId, frozenset[str]] = field(default_factory=dict[MessageId, frozenset[str]])
    #: By the same: who was there when it was said.
    present: Mapping[MessageId, frozenset[ParticipantId]] = field(
        default_factory=dict[MessageId, frozenset[ParticipantId]]
    )


async def around(conn: Connection, org_id: OrgId, room_id: RoomId, voices: Sequence[Voice]) -> Surroundings:
    """Return what wishes of a room may be about, themselves included, and whoever may be covered by them."""
    looked = _Looked(conn=conn, org_id=org_id)
    ids = [voice.said.id for voice in voices]
    parents = [voice.said.reply_to for voice in voices if voice.said.reply_to is not None]
    await looked.take([*ids, *parents, *await kept.said_before(conn, org_id, ids, most=FAR)])
    topics = {(voice.said.author_id, _pattern(stem)) for voice in voices for stem in stems(voice.wish.topic)}
    if topics:
        await looked.take(await kept.said_by(conn, org_id, room_id, topics))
    meant = {voice.said.id: looked.meant(voice) for voice in voices}
    about = {message_id for found in meant.values() for message_id in found}
    if about:
        await looked.take(await kept.said_around(conn, org_id, about))
    values = {
        voice.said.id: values_of(voice.wish, voice.said, looked.before(voice), about=meant[voice.said.id])
        for voice in voices
        if voice.wish.kind == "forget"
    }
    common = await looked.holders(room_id, values)
    return Surroundings(said=looked.in_order(), common=common)


async def present(
    conn: Connection, org_id: OrgId, ids: Collection[MessageId]
) -> dict[MessageId, frozenset[ParticipantId]]:
    """Return who was there when messages were said, as far as the platform tells."""
    found: dict[MessageId, set[ParticipantId]] = defaultdict(set)
    for one in await kept.present_at(conn, org_id, ids):
        found[one.message_id].add(one.participant_id)
    return {message_id: frozenset(those) for message_id, those in found.items()}


async def starts(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> dict[MessageId, datetime]:
    """Return how far back restrictions reach that these messages voice; of those left out, to the beginning."""
    found = await kept.starts(conn, org_id, ids, back=BACK)
    return {one.message_id: one.sent_at for one in found}


async def under(
    conn: Connection,
    org_id: OrgId,
    room_id: RoomId,
    reach: Reach,
    *,
    among: Collection[MessageId] | None = None,
) -> list[Said]:
    """Return what a restriction of a room may cover, of everything that was said there or of these."""
    found = await kept.said_since(
        conn, org_id, room_id, since=reach.since, author_ids=reach.of_ids, among=among
    )
    return [said_of(row) for row in await kept.said_by_ids(conn, org_id, found)]


@dataclass(slots=True, kw_only=True)
class _Looked:
    """What was looked up so far."""

    conn: Connection
    org_id: OrgId
    found: dict[MessageId, Said] = field(default_factory=dict[MessageId, Said])

    async def take(self, ids: Iterable[MessageId]) -> None:
        missing = set(ids) - self.found.keys()
        if missing:
            rows = await kept.said_by_ids(self.conn, self.org_id, missing)
            self.found |= {row.id: said_of(row) for row in rows}

    def in_order(self) -> list[Said]:
        return sorted(self.found.values(), key=lambda said: said.position)

    def before(self, voice: Voice) -> Sequence[Said]:
        return before_of(voice.said, self.in_order())

    def meant(self, voice: Voice) -> list[MessageId]:
        return meant_by(voice.wish, voice.said, self.before(voice))

    async def holders(
        self, room_id: RoomId, values: Mapping[MessageId, Sequence[str]]
    ) -> dict[MessageId, frozenset[str]]:
        """Look up who says values, and return those that too many say, by the message that voices a wish."""
        sought: dict[tuple[MessageId, str], Sought] = {}
        wanted: dict[tuple[MessageId, str], tuple[MessageId, str]] = {}
        for voice_id, named in values.items():
            # those that may be said oftener last: of two that are looked for alike they decide
            for value in sorted(named, key=is_telling):
                most = SPREAD if is_telling(value) else COMMON
                for piece in pieces([value]):
                    pattern = _pattern(*tokens_of(piece))
                    wanted[voice_id, piece] = (voice_id, pattern)
                    sought[voice_id, pattern] = Sought(voice_id=voice_id, pattern=pattern, most=most)
        if not sought:
            return {}
        rows = await kept.holders(self.conn, self.org_id, room_id, list(sought.values()))
        await self.take(row.message_id for row in rows if row.message_id is not None)
        many = {(row.voice_id, row.pattern) for row in rows if row.is_common}
        common: dict[MessageId, set[str]] = defaultdict(set)
        for (voice_id, piece), key in wanted.items():
            if key in many:
                common[voice_id].add(piece)
        return {voice_id: frozenset(found) for voice_id, found in common.items()}


def _pattern(*words: str) -> str:
    # What folds otherwise in the database than here is any letter.
    return f"%{'%'.join(''.join(sign if sign.isascii() else '_' for sign in word) for word in words)}%"
