"""Who speaks in a room: each person once, by whatever account, in the order in which they first did."""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from uuid import UUID

from roomlore.db import timeline as store
from roomlore.db.queries import Connection
from roomlore.db.timeline import ParticipantName, SpeakerCount
from roomlore.domain.ids import OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.records import Message, Viewer

#: Of a room with very many participants so many are named besides those of the messages shown: the most talkative.
MOST_VOICES = 200
#: Seconds for which it is not asked again who spoke in a room, where only the colours of a few rows hang on it.
CACHE_SECONDS = 10.0
#: Rooms of which that is known.
MOST_KEPT = 200

_Authors = tuple[Sequence[SpeakerCount], bool]
_CacheKey = tuple[OrgId, ParticipantId | None, RoomId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
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
class RoomSpeakers:
    """Who spoke in a room, by account, in the order in which they first did."""

    authors: Sequence[SpeakerCount]
    #: Whether that is all they said.
    is_complete: bool
    #: Of very many not all.
    names: Mapping[ParticipantId, ParticipantName]

    def is_bridged(self, author_id: ParticipantId) -> bool:
        """Whether a bridge speaks for an author."""
        return author_id in self.names and self.names[author_id].is_bridged

    def speakers(self) -> list[Speaker]:
        """Return each person once."""
        persons: dict[UUID, list[SpeakerCount]] = {}
        for one in self.authors:
            persons.setdefault(self.names[one.id].person_id if one.id in self.names else one.id, []).append(
                one
            )
        return [
            _speaker(place, [(self.names[one.id], one) for one in accounts], is_whole=self.is_complete)
            for place, accounts in enumerate(persons.values())
            if all(one.id in self.names for one in accounts)
        ]


async def load_speakers(
    conn: Connection, viewer: Viewer, room_id: RoomId, said: Collection[Message]
) -> RoomSpeakers:
    """Return who spoke in a room, with the names of the most talkative and of whoever said these messages."""
    spoke, is_whole = await store.speaker_counts(conn, viewer.org_id, room_id)
    _CACHE.put(viewer, room_id, (spoke, is_whole))
    return await _with_names(conn, viewer, said, spoke=spoke, is_whole=is_whole)


async def cached_speakers(
    conn: Connection, viewer: Viewer, room_id: RoomId, said: Collection[Message]
) -> RoomSpeakers:
    """Return the same as it was some seconds ago at most, for what asks again and again; names are those of now."""
    known = _CACHE.get(viewer, room_id)
    if known is None or not {one.author_id for one in said} <= {one.id for one in known[0]}:
        return await load_speakers(conn, viewer, room_id, said)
    return await _with_names(conn, viewer, said, spoke=known[0], is_whole=known[1])


async def _with_names(
    conn: Connection,
    viewer: Viewer,
    said: Collection[Message],
    *,
    spoke: Sequence[SpeakerCount],
    is_whole: bool,
) -> RoomSpeakers:
    talkative = sorted(spoke, key=lambda one: -one.message_count)[:MOST_VOICES]
    ids = {one.id for one in talkative} | {one.author_id for one in said}
    return RoomSpeakers(
        authors=spoke, is_complete=is_whole, names=await store.participant_names(conn, viewer.org_id, ids)
    )


@dataclass(frozen=True, slots=True)
class _SpeakerCache:
    """Who spoke in rooms, by account, as viewers could tell a few seconds ago; going through a room is dear."""

    _entries: OrderedDict[_CacheKey, tuple[float, _Authors]] = field(default_factory=OrderedDict)

    def put(self, viewer: Viewer, room_id: RoomId, spoken: _Authors) -> None:
        self._entries[_cache_key(viewer, room_id)] = (monotonic(), spoken)
        self._entries.move_to_end(_cache_key(viewer, room_id))
        if len(self._entries) > MOST_KEPT:
            self._entries.popitem(last=False)

    def get(self, viewer: Viewer, room_id: RoomId) -> _Authors | None:
        kept_at, spoken = self._entries.get(_cache_key(viewer, room_id), (0.0, None))
        return spoken if spoken is not None and monotonic() - kept_at < CACHE_SECONDS else None


def _cache_key(viewer: Viewer, room_id: RoomId) -> _CacheKey:
    return viewer.org_id, viewer.participant_id, room_id


_CACHE = _SpeakerCache()


def _speaker(
    place: int, accounts: Sequence[tuple[ParticipantName, SpeakerCount]], *, is_whole: bool
) -> Speaker:
    newest = max(accounts, key=lambda account: account[1].last_at)[0]
    kinds = {named.kind for named, _ in accounts}
    return Speaker(
        id=accounts[0][0].id,
        place=place,
        accounts=[named.id for named, _ in accounts],
        name=newest.name,
        kind=newest.kind if len(kinds) == 1 else next(kind for kind in ("human", "system") if kind in kinds),
        is_bridged=any(named.is_bridged for named, _ in accounts),
        message_count=sum(spoke.message_count for _, spoke in accounts) if is_whole else None,
    )
