"""Privacy requests that messages state, and the messages that they restrict.

Restrictions are read and written with the operator's connection unless a function says otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from roomlore.db.projections import enqueue_resting
from roomlore.db.queries import Connection, Queries, RowCount
from roomlore.domain.ids import IdRanges, MessageId, OrgId, ParticipantId, RoomId, uuid7
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.paging import BoundedPage

QUERIES = Queries("privacy_requests")

#: A `proposed` request hides nothing until a person accepts it. A `dismissed` request was rejected by a person.
RequestStatus = Literal["proposed", "active", "dismissed"]
#: Apply unambiguous requests, propose all of them, or detect none.
RequestMode = Literal["on", "propose", "off"]


#: The sort key of a message in its room.
Position = tuple[datetime, int, MessageId]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRequest:
    """A request to store."""

    room_id: RoomId
    message_id: MessageId
    author_id: ParticipantId
    kind: str
    status: RequestStatus
    #: Why a person has to decide; empty if it is unambiguous.
    review_reason: str
    detected_by: str
    spans: Mapping[str, Any] | None
    target_ids: Collection[MessageId]
    identifiers: Collection[str]
    own_identifiers: Collection[str]
    from_ids: Collection[ParticipantId] | None
    exempt_ids: Collection[ParticipantId]
    is_ongoing: bool
    since: datetime | None
    allowed_topics: Collection[str]
    denied_topics: Collection[str]
    covered_author_ids: Collection[ParticipantId] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRequest(NewRequest):
    """A stored request, with the time of its source message."""

    id: UUID
    detected_at: datetime
    decided_at: datetime | None
    decided_by: ParticipantId | None
    sent_at: datetime
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomMessage:
    """A message in which requests are detected, or that a request may cover."""

    id: MessageId
    room_id: RoomId
    author_id: ParticipantId
    author_name: str
    author_kind: ParticipantKind
    body: str
    sent_at: datetime
    sequence: int
    #: The parent by the platform's own data.
    reply_to: MessageId | None = None

    @property
    def position(self) -> Position:
        """The sort key of the message in its room."""
        return (self.sent_at, self.sequence, self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestrictionStart:
    """The time of the first message that a restriction covers."""

    message_id: MessageId
    sent_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TextBefore:
    """A text before a message."""

    message_id: MessageId
    body: str
    #: Whether the author of the message wrote it.
    is_own: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SoughtWord:
    """A word that a request names, as a pattern for lower case."""

    voice_id: MessageId
    pattern: str
    #: If more earlier messages than this contain the word, only the requester's messages are covered.
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WordHolder:
    """A message with a word, or None if no message has it."""

    voice_id: MessageId
    pattern: str
    is_common: bool
    message_id: MessageId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomParticipant:
    """A participant of a room."""

    room_id: RoomId
    id: ParticipantId
    kind: ParticipantKind
    name: str


@QUERIES.query
async def in_rooms(conn: Connection, org_id: OrgId, room_ids: Collection[RoomId]) -> list[StoredRequest]:
    """Return the requests of rooms, in the order of the rooms."""
    ...


@QUERIES.query
async def messages_before(
    conn: Connection, org_id: OrgId, ids: Collection[MessageId], *, most: int
) -> set[MessageId]:
    """Return up to `most` messages directly before each of these messages, in its room."""
    ...


@QUERIES.query
async def texts_before(
    conn: Connection, org_id: OrgId, ids: Collection[MessageId], *, most: int
) -> list[TextBefore]:
    """Return the texts to read with each of these messages, the most relevant first.

    These are the message that it replies to, then up to `most` messages directly before it in its room. Whispers are
    left out. A message can occur twice.
    """
    ...


@QUERIES.query
async def restriction_starts(
    conn: Connection, org_id: OrgId, ids: Collection[MessageId], *, back: int
) -> list[RestrictionStart]:
    """Return, for each of these messages, the time of the message `back` positions before it in its room.

    A message with fewer messages before it is left out.
    """
    ...


@QUERIES.query
async def messages_since(
    conn: Connection,
    org_id: OrgId,
    room_id: RoomId,
    *,
    since: datetime | None,
    author_ids: Collection[ParticipantId] | None,
    among: Collection[MessageId] | None,
) -> set[MessageId]:
    """Return the messages of a room that were sent since a time, by these authors, among these ids.

    None means no limit.
    """
    ...


@QUERIES.query
async def messages_by_word(
    conn: Connection, org_id: OrgId, room_id: RoomId, words: Collection[tuple[ParticipantId, str]]
) -> set[MessageId]:
    """Return the messages of a room whose author and text match one of the given pairs.

    `words` are these pairs: an author and a lower-case LIKE pattern.
    """
    ...


@QUERIES.query
async def word_holders(
    conn: Connection, org_id: OrgId, room_id: RoomId, words: Sequence[SoughtWord]
) -> list[WordHolder]:
    """Return the messages of a room that contain these words.

    For a common word, return only the requester's messages.
    """
    ...


@QUERIES.query
async def reply_neighbours(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> set[MessageId]:
    """Return the parents of messages and the replies to the messages, as the platform states them."""
    ...


@QUERIES.query
async def messages_by_id(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> list[RoomMessage]:
    """Return the messages with these ids that have a text."""
    ...


@QUERIES.query
async def room_participants(
    conn: Connection, org_id: OrgId, room_ids: Collection[RoomId]
) -> list[RoomParticipant]:
    """Return the authors and members of rooms."""
    ...


async def add(
    conn: Connection, org_id: OrgId, requests: Iterable[NewRequest], *, detected_at: datetime
) -> None:
    """Store new requests, at most one for each source message."""
    for request in requests:
        await put(conn, org_id, request, request_id=uuid7(), detected_at=detected_at)


@QUERIES.query
async def put(
    conn: Connection, org_id: OrgId, request: NewRequest, *, request_id: UUID, detected_at: datetime
) -> None:
    """Store a request."""
    ...


async def restrict(conn: Connection, org_id: OrgId, covered: Sequence[tuple[MessageId, MessageId]]) -> None:
    """Restrict messages for active requests. Each pair is a source message and a covered message."""
    await _restrict(conn, org_id, covered)
    await enqueue_resting(conn, org_id, {message_id for _, message_id in covered})


@QUERIES.query
async def _restrict(
    conn: Connection, org_id: OrgId, covered: Sequence[tuple[MessageId, MessageId]]
) -> None: ...


async def _count_lifted(conn: Connection, org_id: OrgId, lifted: Sequence[MessageId]) -> int:
    # Graphs have no text of a restricted message.
    await enqueue_resting(conn, org_id, set(lifted))
    return len(lifted)


async def lift(conn: Connection, org_id: OrgId, source_ids: Collection[MessageId]) -> int:
    """Lift the restrictions of the requests with these source messages; return how many."""
    return await _count_lifted(conn, org_id, await _lift(conn, org_id, source_ids))


@QUERIES.query
async def _lift(conn: Connection, org_id: OrgId, source_ids: Collection[MessageId]) -> list[MessageId]: ...


async def lift_messages(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> int:
    """Lift the restrictions on these messages; return how many."""
    return await _count_lifted(conn, org_id, await _lift_messages(conn, org_id, ids))


@QUERIES.query
async def _lift_messages(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> list[MessageId]: ...


async def lift_request(conn: Connection, org_id: OrgId, request_id: UUID) -> int:
    """Lift the restrictions of a request; return how many."""
    return await _count_lifted(conn, org_id, await _lift_request(conn, org_id, request_id))


@QUERIES.query
async def _lift_request(conn: Connection, org_id: OrgId, request_id: UUID) -> list[MessageId]: ...


async def lift_all(conn: Connection, org_id: OrgId) -> int:
    """Lift the restrictions of an org; return how many."""
    return await _count_lifted(conn, org_id, await _lift_all(conn, org_id))


@QUERIES.query
async def _lift_all(conn: Connection, org_id: OrgId) -> list[MessageId]: ...


async def drop(conn: Connection, org_id: OrgId, source_ids: Collection[MessageId]) -> int:
    """Delete the requests with these source messages and lift their restrictions; return how many requests."""
    await lift(conn, org_id, source_ids)
    return await drop_requests(conn, org_id, source_ids)


@QUERIES.query
async def drop_requests(conn: Connection, org_id: OrgId, source_ids: Collection[MessageId]) -> RowCount:
    """Delete the requests with these source messages."""
    ...


async def drop_with_messages(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> tuple[int, int]:
    """Delete the restrictions on messages, and the requests in them; return the number of requests, and of tombstones.

    If a request restricts other people's messages, a tombstone without content stays, so that these messages stay
    restricted.
    """
    await drop_restrictions(conn, org_id, ids)
    tombstones = await leave_tombstones(conn, org_id, ids)
    dropped = await drop(conn, org_id, ids)
    await drop_idle_tombstones(conn, org_id)
    return tombstones + dropped, tombstones


@QUERIES.query
async def drop_restrictions(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> None:
    """Delete the restrictions on messages."""
    ...


@QUERIES.query
async def leave_tombstones(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> RowCount:
    """Turn the active requests to forget that restrict messages into tombstones; return how many.

    A tombstone no longer has the source message, the author and the words of the request.
    """
    ...


@QUERIES.query
async def drop_idle_tombstones(conn: Connection, org_id: OrgId) -> None:
    """Delete the tombstones that restrict nothing."""
    ...


async def remove_participants(
    conn: Connection, org_id: OrgId, participant_ids: Collection[ParticipantId]
) -> None:
    """Remove participants from requests and restrictions."""
    await remove_from_requests(conn, org_id, participant_ids)
    await remove_from_restrictions(conn, org_id, participant_ids)


@QUERIES.query
async def remove_from_requests(
    conn: Connection, org_id: OrgId, participant_ids: Collection[ParticipantId]
) -> None:
    """Remove participants from requests."""
    ...


@QUERIES.query
async def remove_from_restrictions(
    conn: Connection, org_id: OrgId, participant_ids: Collection[ParticipantId]
) -> None:
    """Remove participants from restrictions."""
    ...


@QUERIES.query
async def is_any_restricted(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> bool:
    """Return whether a request restricts one of these messages."""
    ...


@QUERIES.query
async def present_participants(
    conn: Connection, org_id: OrgId, ids: Collection[MessageId]
) -> list[tuple[MessageId, ParticipantId]]:
    """Return the members of the room when these messages were sent, and the recipients of whispers."""
    ...


MIN_ID, MAX_ID = UUID(int=0), UUID(int=2**128 - 1)
ANY_ID = IdRanges(low=MIN_ID, high=MAX_ID, end_low=MIN_ID, end_high=MAX_ID)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestReview:
    """A request as people review it."""

    id: UUID
    room_id: RoomId
    room_name: str
    #: None for a tombstone, of which only the restrictions on other people's messages are left.
    message_id: MessageId | None
    author_id: ParticipantId | None
    author_name: str
    kind: str
    status: RequestStatus
    review_reason: str
    detected_by: str
    sent_at: datetime | None
    body: str
    decided_at: datetime | None
    decided_by: ParticipantId | None
    from_ids: Sequence[ParticipantId] | None
    exempt_ids: Sequence[ParticipantId]
    is_ongoing: bool
    allowed_topics: Sequence[str]
    denied_topics: Sequence[str]
    spans: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveredMessage:
    """A message that a request restricts."""

    request_id: UUID
    message_id: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class RestrictedMessage:
    """A message that a request restricts, and the request."""

    message_id: MessageId
    request_id: UUID
    kind: str
    #: None for a tombstone.
    author_id: ParticipantId | None
    author_name: str
    room_id: RoomId
    room_name: str
    #: The people from whom the message is hidden. None means everybody except the exempt participants.
    from_ids: Sequence[ParticipantId] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCounts:
    """How many requests were detected, by status."""

    carried_out: int
    proposed: int
    dismissed: int

    def since(self, before: RequestCounts) -> dict[str, int]:
        """Return the increase of each count since `before`."""
        return {
            "carried_out": max(self.carried_out - before.carried_out, 0),
            "proposed": max(self.proposed - before.proposed, 0),
        }


@QUERIES.query
async def newest(
    conn: Connection,
    org_id: OrgId,
    *,
    room_id: RoomId | None,
    status: RequestStatus | None,
    limit: int,
    named: IdRanges = ANY_ID,
) -> BoundedPage[RequestReview]:
    """Return the newest requests that the viewer may see, newest first, up to the size of one response."""
    ...


@QUERIES.query
async def covered_messages(
    conn: Connection, org_id: OrgId, request_ids: Collection[UUID]
) -> list[CoveredMessage]:
    """Return the messages that requests restrict, oldest first."""
    ...


@QUERIES.query
async def restrictions_of(
    conn: Connection, org_id: OrgId, ids: Collection[MessageId]
) -> list[RestrictedMessage]:
    """Return which requests restrict these messages, and from whom they hide them."""
    ...


@QUERIES.query
async def counts(conn: Connection, org_id: OrgId) -> RequestCounts:
    """Return how many requests that the viewer may see are active, proposed and dismissed."""
    ...


@QUERIES.query
async def decide(
    conn: Connection,
    org_id: OrgId,
    request_id: UUID,
    status: RequestStatus,
    *,
    at: datetime,
    by: ParticipantId | None,
) -> RowCount:
    """Store a decision about a request. Return 0 if the request had this status already."""
    ...


@QUERIES.query
async def mode(conn: Connection, org_id: OrgId) -> RequestMode:
    """Return how an org handles requests: apply, propose or ignore them."""
    ...


@QUERIES.query
async def set_mode(conn: Connection, org_id: OrgId, mode: RequestMode) -> None:
    """Set how an org handles requests."""
    ...


@QUERIES.query
async def rooms_with_requests(conn: Connection, org_id: OrgId) -> list[RoomId]:
    """Return the rooms with requests."""
    ...


@QUERIES.query
async def has_restrictions(conn: Connection) -> bool:
    """Return whether any message is restricted in the org that a connection reads."""
    ...


@QUERIES.query
async def restricted_in_org(conn: Connection, org_id: OrgId) -> set[MessageId]:
    """Return all restricted messages of an org."""
    ...
