"""Who speaks in a room: each person once, by whatever account, in the order in which they first did."""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from uuid import UUID

from roomlore.domain.ids import OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.records import Message, Viewer
from roomlore.store import timeline as store
from roomlore.store.queries import Connection
from roomlore.store.timeline import Named, Spoke

#: Of a room with very many participants so many are named besides those of the messages shown: the most talkative.
MOST_VOICES = 200
#: Seconds for which it is not asked again who spoke in a room, where only the colours of a few rows hang on it.
LATELY = 10.0
#: Rooms of which that is known.
MOST_KEPT = 200

_Spoken = tuple[Sequence[Spoke], bool]
_Seen = tuple[OrgId, ParticipantId | None, RoomId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Voice:
    """Somebody who spoke in a room, by whatever account."""

    #: The account that spoke first.
    id: ParticipantId
    #: The how manieth to speak, from 0.
    place: int
    accounts: Sequence[ParticipantId]
    name: str
    kind: ParticipantKind
    is_bridged: bool
    #: None in a room that is too large to be gone through.
    message_count: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """Who spoke in a room, by account, in the order in which they first did."""

    spoke: Sequence[Spoke]
    #: Whether that is all they said.
    is_whole: bool
    #: Of very many not all.
    names: Mapping[ParticipantId, Named]

    def is_bridged(self, author_id: ParticipantId) -> bool:
        """Whether a bridge speaks for an author."""
        return author_id in self.names and self.names[author_id].is_bridged

    def voices(self) -> list[Voice]:
        """Return each person once."""
        persons: dict[UUID, list[Spoke]] = {}
        for one in self.spoke:
            persons.setdefault(self.names[one.id].person_id if one.id in self.names else one.id, []).append(
                one
            )
        return [
            _voice(place, [(self.names[one.id], one) for one in accounts], is_whole=self.is_whole)
            for place, accounts in enumerate(persons.values())
            if all(one.id in self.names for one in accounts)
        ]


async def cast(conn: Connection, viewer: Viewer, room_id: RoomId, said: Collection[Message]) -> Cast:
    """Return who spoke in a room, with the names of the most talkative and of whoever said these messages."""
    spoke, is_whole = await store.spoke(conn, viewer.org_id, room_id)
    _LATELY.keep(viewer, room_id, (spoke, is_whole))
    return await _named(conn, viewer, said, spoke=spoke, is_whole=is_whole)


async def cast_lately(conn: Connection, viewer: Viewer, room_id: RoomId, said: Collection[Message]) -> Cast:
    """Return the same as it was some seconds ago at most, for what asks again and again; names are those of now."""
    known = _LATELY.known(viewer, room_id)
    if known is None or not {one.author_id for one in said} <= {one.id for one in known[0]}:
        return await cast(conn, viewer, room_id, said)
    return await _named(conn, viewer, said, spoke=known[0], is_whole=known[1])


async def _named(
    conn: Connection, viewer: Viewer, said: Collection[Message], *, spoke: Sequence[Spoke], is_whole: bool
) -> Cast:
    talkative = sorted(spoke, key=lambda one: -one.message_count)[:MOST_VOICES]
    ids = {one.id for one in talkative} | {one.author_id for one in said}
    return Cast(spoke=spoke, is_whole=is_whole, names=await store.named(conn, viewer.org_id, ids))


@dataclass(frozen=True, slots=True)
class _Lately:
    """Who spoke in rooms, by account, as viewers could tell a few seconds ago; going through a room is dear."""

    _held: OrderedDict[_Seen, tuple[float, _Spoken]] = field(default_factory=OrderedDict)

    def keep(self, viewer: Viewer, room_id: RoomId, spoken: _Spoken) -> None:
        self._held[_seen(viewer, room_id)] = (monotonic(), spoken)
        self._held.move_to_end(_seen(viewer, room_id))
        if len(self._held) > MOST_KEPT:
            self._held.popitem(last=False)

    def known(self, viewer: Viewer, room_id: RoomId) -> _Spoken | None:
        kept_at, spoken = self._held.get(_seen(viewer, room_id), (0.0, None))
        return spoken if spoken is not None and monotonic() - kept_at < LATELY else None


def _seen(viewer: Viewer, room_id: RoomId) -> _Seen:
    return viewer.org_id, viewer.participant_id, room_id


_LATELY = _Lately()


def _voice(place: int, accounts: Sequence[tuple[Named, Spoke]], *, is_whole: bool) -> Voice:
    newest = max(accounts, key=lambda account: account[1].last_at)[0]
    kinds = {named.kind for named, _ in accounts}
    return Voice(
        id=accounts[0][0].id,
        place=place,
        accounts=[named.id for named, _ in accounts],
        name=newest.name,
        kind=newest.kind if len(kinds) == 1 else next(kind for kind in ("human", "system") if kind in kinds),
        is_bridged=any(named.is_bridged for named, _ in accounts),
        message_count=sum(spoke.message_count for _, spoke in accounts) if is_whole else None,
    )
