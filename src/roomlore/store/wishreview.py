"""What people review of the wishes that were heard: which there are, what each withholds, and what was decided."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from roomlore.domain.ids import MessageId, IdRanges, OrgId, ParticipantId, RoomId
from roomlore.store.queries import Connection, Queries

if TYPE_CHECKING:
    from roomlore.store.wishes import RequestMode, RequestStatus

QUERIES = Queries("wishreview")
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


async def covered_messages(conn: Connection, org_id: OrgId, wish_ids: Collection[UUID]) -> list[CoveredMessage]:
    """Return what wishes withhold, oldest first; for the operator's connection."""
    return await QUERIES.all(conn, "covered_by", CoveredMessage, {"org_id": org_id, "wish_ids": list(wish_ids)})


async def restrictions_of(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> list[RestrictedMessage]:
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
    return [row.message_id for row in await QUERIES.all(conn, "withheld_in_org", RestrictedRef, {"org_id": org_id})]
