"""Spoken wishes: kept with what they cover, and what is withheld for them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from roomlore.db.queries import Connection, Queries, columns
from roomlore.domain.ids import IdRanges, MessageId, OrgId, ParticipantId, RoomId, uuid7
from roomlore.domain.incoming import ParticipantKind

QUERIES = Queries("privacy_requests")

#: `proposed`: heard with doubt, it hides nothing until somebody accepts it; `dismissed`: somebody said that it does not count.
RequestStatus = Literal["proposed", "active", "dismissed"]
#: Carry plain requests out, propose all of them, or hear none.
RequestMode = Literal["on", "propose", "off"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRequest:
    """A wish as it is kept: what it covers, and where it was voiced."""

    id: UUID
    room_id: RoomId
    message_id: MessageId
    author_id: ParticipantId
    kind: str
    status: RequestStatus
    #: Why a person is asked first; empty: it was put plainly.
    doubt: str
    heard_by: str
    heard_at: datetime
    decided_at: datetime | None
    decided_by: ParticipantId | None
    target_ids: Sequence[MessageId]
    marks: Sequence[str]
    own_marks: Sequence[str]
    from_ids: Sequence[ParticipantId] | None
    spared_ids: Sequence[ParticipantId]
    is_standing: bool
    since: datetime | None
    permits: Sequence[str]
    denies: Sequence[str]
    of_ids: Sequence[ParticipantId] | None
    told: Mapping[str, Any] | None
    sent_at: datetime
    native_order: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRequest:
    """What a wish covers, to be kept."""

    room_id: RoomId
    message_id: MessageId
    author_id: ParticipantId
    kind: str
    status: RequestStatus
    doubt: str
    heard_by: str
    told: Mapping[str, Any] | None
    target_ids: Collection[MessageId]
    marks: Collection[str]
    own_marks: Collection[str]
    from_ids: Collection[ParticipantId] | None
    spared_ids: Collection[ParticipantId]
    is_standing: bool
    since: datetime | None
    permits: Collection[str]
    denies: Collection[str]
    of_ids: Collection[ParticipantId] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomMessage:
    """A message as wishes look at it."""

    id: MessageId
    room_id: RoomId
    author_id: ParticipantId
    author_name: str
    author_kind: ParticipantKind
    body: str
    sent_at: datetime
    native_order: int
    reply_to: MessageId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRef:
    """A message that was looked for."""

    message_id: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class RestrictionStart:
    """When the first message was sent that a restriction reaches."""

    message_id: MessageId
    sent_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SoughtWord:
    """A word that a wish looks for in its room, as a pattern for small letters."""

    voice_id: MessageId
    pattern: str
    #: When more messages than these had it before, only the wisher's own are looked at.
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WordHolder:
    """A message that has a word that was sought; none where nobody has it."""

    voice_id: MessageId
    pattern: str
    is_common: bool
    message_id: MessageId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomParticipant:
    """Somebody who takes part in a room."""

    room_id: RoomId
    id: ParticipantId
    kind: ParticipantKind
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentParticipant:
    """Somebody who was there when a message was said."""

    message_id: MessageId
    participant_id: ParticipantId


async def in_rooms(conn: Connection, org_id: OrgId, room_ids: Collection[RoomId]) -> list[StoredRequest]:
    """Return the wishes voiced in rooms, in the order of the rooms."""
    return await QUERIES.all(conn, "in_rooms", StoredRequest, {"org_id": org_id, "room_ids": list(room_ids)})


async def messages_before(
    conn: Connection, org_id: OrgId, ids: Collection[MessageId], *, most: int
) -> list[MessageId]:
    """Return so many of what was said last before each of these messages."""
    params = {"org_id": org_id, "message_ids": list(ids), "most": most}
    return _ids(await QUERIES.all(conn, "said_before", MessageRef, params))


async def restriction_starts(
    conn: Connection, org_id: OrgId, ids: Collection[MessageId], *, back: int
) -> list[RestrictionStart]:
    """Return when the message was sent that stands so far before each of these; those with fewer are left out."""
    params = {"org_id": org_id, "message_ids": list(ids), "back": back}
    return await QUERIES.all(conn, "starts", RestrictionStart, params)


async def messages_since(
    conn: Connection,
    org_id: OrgId,
    room_id: RoomId,
    *,
    since: datetime | None,
    author_ids: Collection[ParticipantId] | None,
    among: Collection[MessageId] | None,
) -> list[MessageId]:
    """Return what is said in a room from a time on; None lets everything through."""
    params = {
        "org_id": org_id,
        "room_id": room_id,
        "since": since,
        "author_ids": None if author_ids is None else list(author_ids),
        "among": None if among is None else list(among),
    }
    return _ids(await QUERIES.all(conn, "said_since", MessageRef, params))


async def messages_by_word(
    conn: Connection, org_id: OrgId, room_id: RoomId, words: Collection[tuple[ParticipantId, str]]
) -> list[MessageId]:
    """Return what authors said in a room with a word: pairs of the author and a pattern for small letters."""
    params = {
        "org_id": org_id,
        "room_id": room_id,
        "author_id": [author_id for author_id, _ in words],
        "pattern": [pattern for _, pattern in words],
    }
    return _ids(await QUERIES.all(conn, "said_by", MessageRef, params))


async def word_holders(
    conn: Connection, org_id: OrgId, room_id: RoomId, words: Sequence[SoughtWord]
) -> list[WordHolder]:
    """Return which messages of a room have these words, and of words that many have those of the wisher."""
    params = {"org_id": org_id, "room_id": room_id, **columns(SoughtWord, words)}
    return await QUERIES.all(conn, "holders", WordHolder, params)


async def reply_neighbours(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> list[MessageId]:
    """Return what messages answer and what answers them."""
    return _ids(
        await QUERIES.all(conn, "said_around", MessageRef, {"org_id": org_id, "message_ids": list(ids)})
    )


def _ids(found: Iterable[MessageRef]) -> list[MessageId]:
    return [one.message_id for one in found]


async def messages_by_id(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> list[RoomMessage]:
    """Return those of these messages that were said and have words."""
    return await QUERIES.all(conn, "said_by_ids", RoomMessage, {"org_id": org_id, "message_ids": list(ids)})


async def room_participants(
    conn: Connection, org_id: OrgId, room_ids: Collection[RoomId]
) -> list[RoomParticipant]:
    """Return who takes part in rooms."""
    return await QUERIES.all(
        conn, "people_of", RoomParticipant, {"org_id": org_id, "room_ids": list(room_ids)}
    )


async def add(conn: Connection, org_id: OrgId, wishes: Iterable[NewRequest], *, heard_at: datetime) -> None:
    """Keep wishes, each once for its message."""
    params = {
        "org_id": org_id,
        "rows": json.dumps([_row(wish) for wish in wishes]),
        "heard_at": heard_at,
    }
    await QUERIES.run(conn, "put", params)


def _row(wish: NewRequest) -> dict[str, Any]:
    return {
        "id": str(uuid7()),
        "room_id": str(wish.room_id),
        "message_id": str(wish.message_id),
        "author_id": str(wish.author_id),
        "kind": wish.kind,
        "status": wish.status,
        "doubt": wish.doubt,
        "heard_by": wish.heard_by,
        "told": wish.told,
        "target_ids": _words(wish.target_ids),
        "marks": _words(wish.marks),
        "own_marks": _words(wish.own_marks),
        "from_ids": None if wish.from_ids is None else _words(wish.from_ids),
        "spared_ids": _words(wish.spared_ids),
        "is_standing": wish.is_standing,
        "since": None if wish.since is None else wish.since.isoformat(),
        "permits": _words(wish.permits),
        "denies": _words(wish.denies),
        "of_ids": None if wish.of_ids is None else _words(wish.of_ids),
    }


def _words(values: Collection[object]) -> list[str]:
    return sorted(str(value) for value in values)


async def restrict(conn: Connection, org_id: OrgId, covered: Sequence[tuple[MessageId, MessageId]]) -> None:
    """Withhold messages for the wishes that others voice: pairs of the voicing message and the covered one."""
    params = {
        "org_id": org_id,
        "voice_id": [voice_id for voice_id, _ in covered],
        "message_id": [message_id for _, message_id in covered],
    }
    await QUERIES.run(conn, "add_withheld", params)


async def lift(conn: Connection, org_id: OrgId, voice_ids: Collection[MessageId]) -> int:
    """Withhold nothing any more for the wishes that these messages voice; return how much that was."""
    return await QUERIES.run(conn, "release", {"org_id": org_id, "message_ids": list(voice_ids)})


async def lift_messages(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> int:
    """Withhold these messages no more, but for wishes that are gone; return how often they were."""
    return await QUERIES.run(conn, "release_messages", {"org_id": org_id, "message_ids": list(ids)})


async def lift_request(conn: Connection, org_id: OrgId, wish_id: UUID) -> int:
    """Withhold nothing any more for a wish; return how much that was."""
    return await QUERIES.run(conn, "release_wish", {"org_id": org_id, "id": wish_id})


async def drop(conn: Connection, org_id: OrgId, voice_ids: Collection[MessageId]) -> int:
    """Forget the wishes that these messages voice, and what was withheld for them; return how many there were."""
    await lift(conn, org_id, voice_ids)
    return await QUERIES.run(conn, "drop", {"org_id": org_id, "message_ids": list(voice_ids)})


async def drop_with_messages(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> tuple[int, int]:
    """Forget what is withheld of messages that go, and the wishes they voice; return how many, and how many leave a rest.

    What a wish to forget covers of other messages stays withheld, though nothing else is left of it: whoever has
    their wish erased does not ask that others' words bring back what it was about.
    """
    params = {"org_id": org_id, "message_ids": list(ids)}
    await QUERIES.run(conn, "drop_withheld", params)
    buried = await QUERIES.run(conn, "bury", params)
    dropped = await drop(conn, org_id, ids)
    await QUERIES.run(conn, "drop_idle", {"org_id": org_id})
    return buried + dropped, buried


async def remove_participants(
    conn: Connection, org_id: OrgId, participant_ids: Collection[ParticipantId]
) -> None:
    """Take participants out of all that wishes say of whom."""
    params = {"org_id": org_id, "participant_ids": list(participant_ids)}
    await QUERIES.run(conn, "forget_people", params)
    await QUERIES.run(conn, "forget_people_withheld", params)


async def is_any_restricted(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> bool:
    """Return whether a wish withholds one of these messages from anybody; for the operator's connection."""
    params = {"org_id": org_id, "message_ids": list(ids)}
    return await QUERIES.first(conn, "any_withheld", MessageRef, params) is not None


async def lift_all(conn: Connection, org_id: OrgId) -> int:
    """Withhold nothing any more for the wishes of an org, but for those that are gone; return how much that was."""
    return await QUERIES.run(conn, "release_all", {"org_id": org_id})


async def present_participants(
    conn: Connection, org_id: OrgId, ids: Collection[MessageId]
) -> list[PresentParticipant]:
    """Return who was in the room when these messages were said, as far as the platform tells; and who was whispered to."""
    return await QUERIES.all(
        conn, "present_at", PresentParticipant, {"org_id": org_id, "message_ids": list(ids)}
    )


if TYPE_CHECKING:
    pass


MIN_ID, MAX_ID = UUID(int=0), UUID(int=2**128 - 1)
ANY_ID = IdRanges(low=MIN_ID, high=MAX_ID, end_low=MIN_ID, end_high=MAX_ID)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestReview:
    """A wish as people review it."""

    id: UUID
    room_id: RoomId
    room_name: str
    #: None of a wish that is gone: only what it covers of others' words is kept.
    message_id: MessageId | None
    author_id: ParticipantId | None
    author_name: str
    kind: str
    status: RequestStatus
    doubt: str
    heard_by: str
    sent_at: datetime | None
    body: str
    decided_at: datetime | None
    decided_by: ParticipantId | None
    from_ids: Sequence[ParticipantId] | None
    spared_ids: Sequence[ParticipantId]
    is_standing: bool
    permits: Sequence[str]
    denies: Sequence[str]
    told: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveredMessage:
    """A message that a wish withholds."""

    wish_id: UUID
    message_id: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class RestrictedRef:
    """A message that is withheld."""

    message_id: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class RestrictionFlag:
    """Whether anything is withheld in an org."""

    is_any: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RestrictedMessage:
    """A message that a wish withholds, and what voices that wish."""

    message_id: MessageId
    wish_id: UUID
    kind: str
    #: Whose wish it is; None of one that is gone.
    author_id: ParticipantId | None
    author_name: str
    room_id: RoomId
    room_name: str
    #: From whom; None: from everybody but those who are spared.
    from_ids: Sequence[ParticipantId] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCounts:
    """How many requests were heard, by what became of them."""

    carried_out: int
    proposed: int
    dismissed: int

    def since(self, before: RequestCounts) -> dict[str, int]:
        """Return how many more there are than before."""
        return {
            "carried_out": max(self.carried_out - before.carried_out, 0),
            "proposed": max(self.proposed - before.proposed, 0),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeRow:
    """What an org does with the requests it hears."""

    mode: RequestMode


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomRef:
    """A room in which a wish was heard."""

    room_id: RoomId


async def newest(
    conn: Connection,
    org_id: OrgId,
    *,
    room_id: RoomId | None,
    status: RequestStatus | None,
    limit: int,
    named: IdRanges = ANY_ID,
) -> list[RequestReview]:
    """Return the newest wishes that the viewer may see, newest first, of one room or of all.

    Args:
        conn: Reads for the viewer.
        org_id: The viewer's org.
        room_id: None for all rooms.
        status: None for all.
        limit: How many.
        named: The ids that may be meant.
    """
    params = {
        "org_id": org_id,
        "room_id": room_id,
        "status": status,
        "limit": limit,
        "low": named.low,
        "high": named.high,
        "end_low": named.end_low,
        "end_high": named.end_high,
    }
    return list((await QUERIES.page(conn, "all_of", RequestReview, params)).items)


async def covered_messages(
    conn: Connection, org_id: OrgId, wish_ids: Collection[UUID]
) -> list[CoveredMessage]:
    """Return what wishes withhold, oldest first; for the operator's connection."""
    return await QUERIES.all(
        conn, "covered_by", CoveredMessage, {"org_id": org_id, "wish_ids": list(wish_ids)}
    )


async def restrictions_of(
    conn: Connection, org_id: OrgId, ids: Collection[MessageId]
) -> list[RestrictedMessage]:
    """Return which wishes withhold these messages, and from whom; for the operator's connection."""
    params = {"org_id": org_id, "message_ids": list(ids)}
    return await QUERIES.all(conn, "withheld_of", RestrictedMessage, params)


async def counts(conn: Connection, org_id: OrgId) -> RequestCounts:
    """Return how many of the wishes that the viewer may see were carried out, proposed and dismissed."""
    row = await QUERIES.first(conn, "counts", RequestCounts, {"org_id": org_id})
    assert row is not None, "numbers are always there"
    return row


async def decide(
    conn: Connection,
    org_id: OrgId,
    wish_id: UUID,
    status: RequestStatus,
    *,
    at: datetime,
    by: ParticipantId | None,
) -> bool:
    """Note what somebody decided about a wish; return whether that changed anything."""
    params = {"org_id": org_id, "id": wish_id, "status": status, "at": at, "by": by}
    return bool(await QUERIES.run(conn, "decide", params))


async def mode(conn: Connection, org_id: OrgId) -> RequestMode:
    """Return what an org does with the requests it hears."""
    row = await QUERIES.first(conn, "mode", ModeRow, {"org_id": org_id})
    return "on" if row is None else row.mode


async def set_mode(conn: Connection, org_id: OrgId, mode: RequestMode) -> None:
    """Say what an org does with the requests it hears."""
    await QUERIES.run(conn, "set_mode", {"org_id": org_id, "mode": mode})


async def rooms_with_requests(conn: Connection, org_id: OrgId) -> list[RoomId]:
    """Return the rooms in which wishes were heard."""
    rows = await QUERIES.all(conn, "rooms_with_wishes", RoomRef, {"org_id": org_id})
    return [row.room_id for row in rows]


async def has_restrictions(conn: Connection) -> bool:
    """Return whether anything is withheld in the org that a connection reads."""
    row = await QUERIES.first(conn, "anything_withheld", RestrictionFlag, {})
    return row is not None and row.is_any


async def restricted_in_org(conn: Connection, org_id: OrgId) -> list[MessageId]:
    """Return all that is withheld in an org; for the operator's connection."""
    return [
        row.message_id
        for row in await QUERIES.all(conn, "withheld_in_org", RestrictedRef, {"org_id": org_id})
    ]
