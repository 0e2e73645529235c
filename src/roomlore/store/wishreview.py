"""What people review of the wishes that were heard: which there are, what each withholds, and what was decided."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from roomlore.domain.ids import MessageId, NamedIds, OrgId, ParticipantId, RoomId
from roomlore.store.queries import Connection, Queries

if TYPE_CHECKING:
    from roomlore.store.wishes import WishMode, WishStatus

QUERIES = Queries("wishreview")
FIRST, LAST = UUID(int=0), UUID(int=2**128 - 1)
ANY = NamedIds(low=FIRST, high=LAST, end_low=FIRST, end_high=LAST)


@dataclass(frozen=True, slots=True, kw_only=True)
class WishRow:
    """A wish as people review it."""

    id: UUID
    room_id: RoomId
    room_name: str
    #: None of a wish that is gone: only what it covers of others' words is kept.
    message_id: MessageId | None
    author_id: ParticipantId | None
    author_name: str
    kind: str
    status: WishStatus
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
class Covered:
    """A message that a wish withholds."""

    wish_id: UUID
    message_id: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A message that is withheld."""

    message_id: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class Withholding:
    """Whether anything is withheld in an org."""

    is_any: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WithheldRow:
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
class WishCounts:
    """How many requests were heard, by what became of them."""

    carried_out: int
    proposed: int
    dismissed: int

    def since(self, before: WishCounts) -> dict[str, int]:
        """Return how many more there are than before."""
        return {
            "carried_out": max(self.carried_out - before.carried_out, 0),
            "proposed": max(self.proposed - before.proposed, 0),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeRow:
    """What an org does with the requests it hears."""

    mode: WishMode


@dataclass(frozen=True, slots=True, kw_only=True)
class WishRoom:
    """A room in which a wish was heard."""

    room_id: RoomId


async def newest(
    conn: Connection,
    org_id: OrgId,
    *,
    room_id: RoomId | None,
    status: WishStatus | None,
    limit: int,
    named: NamedIds = ANY,
) -> list[WishRow]:
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
    return list((await QUERIES.listed(conn, "all_of", WishRow, params)).items)


async def covered_by(conn: Connection, org_id: OrgId, wish_ids: Collection[UUID]) -> list[Covered]:
    """Return what wishes withhold, oldest first; for the operator's connection."""
    return await QUERIES.all(conn, "covered_by", Covered, {"org_id": org_id, "wish_ids": list(wish_ids)})


async def withheld_of(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> list[WithheldRow]:
    """Return which wishes withhold these messages, and from whom; for the operator's connection."""
    params = {"org_id": org_id, "message_ids": list(ids)}
    return await QUERIES.all(conn, "withheld_of", WithheldRow, params)


async def counts(conn: Connection, org_id: OrgId) -> WishCounts:
    """Return how many of the wishes that the viewer may see were carried out, proposed and dismissed."""
    row = await QUERIES.first(conn, "counts", WishCounts, {"org_id": org_id})
    assert row is not None, "numbers are always there"
    return row


async def decide(
    conn: Connection,
    org_id: OrgId,
    wish_id: UUID,
    status: WishStatus,
    *,
    at: datetime,
    by: ParticipantId | None,
) -> bool:
    """Note what somebody decided about a wish; return whether that changed anything."""
    params = {"org_id": org_id, "id": wish_id, "status": status, "at": at, "by": by}
    return bool(await QUERIES.run(conn, "decide", params))


async def mode(conn: Connection, org_id: OrgId) -> WishMode:
    """Return what an org does with the requests it hears."""
    row = await QUERIES.first(conn, "mode", ModeRow, {"org_id": org_id})
    return "on" if row is None else row.mode


async def set_mode(conn: Connection, org_id: OrgId, mode: WishMode) -> None:
    """Say what an org does with the requests it hears."""
    await QUERIES.run(conn, "set_mode", {"org_id": org_id, "mode": mode})


async def rooms_with_wishes(conn: Connection, org_id: OrgId) -> list[RoomId]:
    """Return the rooms in which wishes were heard."""
    rows = await QUERIES.all(conn, "rooms_with_wishes", WishRoom, {"org_id": org_id})
    return [row.room_id for row in rows]


async def is_anything_withheld(conn: Connection) -> bool:
    """Return whether anything is withheld in the org that a connection reads."""
    row = await QUERIES.first(conn, "anything_withheld", Withholding, {})
    return row is not None and row.is_any


async def withheld_in_org(conn: Connection, org_id: OrgId) -> list[MessageId]:
    """Return all that is withheld in an org; for the operator's connection."""
    return [row.message_id for row in await QUERIES.all(conn, "withheld_in_org", Kept, {"org_id": org_id})]
