"""Ids that clients state for their messages, separate from the ids of the platform.

A client id belongs to the account that stated it, and is looked up with the digest of this account. A tombstone keeps
the digest. So a late retry of an erased message is rejected, and so is the platform's copy of the message.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from uuid import UUID

from roomlore.db import projections
from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import MessageKind

QUERIES = Queries("client_ids")


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierMessage:
    """A message that its author sent before with the same client id."""

    id: MessageId
    kind: MessageKind
    body: str
    is_gone: bool
    audience: Sequence[ParticipantId]
    earlier: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmatchedMessage:
    """A message with a client id that its platform has not confirmed."""

    id: MessageId
    room_id: RoomId
    stated_id: str
    author_id: ParticipantId
    kind: MessageKind
    audience: Sequence[ParticipantId]


@QUERIES.query
async def earlier_messages(
    conn: Connection,
    org_id: OrgId,
    room_id: RoomId,
    stated_id: str,
    *,
    stated_by: Collection[bytes],
    own: Collection[ParticipantId],
) -> EarlierMessage | None:
    """Return the message of these accounts whose client id or platform id is `stated_id`, even if it was erased.

    `stated_by` are the digests of the accounts, `own` are their participants.
    """
    ...


@QUERIES.query
async def add(
    conn: Connection, org_id: OrgId, message_id: MessageId, stated_id: str, *, stated_by: bytes
) -> None:
    """Store the client id of a message and the digest of the account that stated it."""
    ...


@QUERIES.query
async def unmatched(
    conn: Connection, org_id: OrgId, keys: Collection[tuple[RoomId, str]]
) -> list[UnmatchedMessage]:
    """Return the messages with these client ids, in rooms where no platform message has the same id."""
    ...


@QUERIES.query
async def adopt_platform_ids(conn: Connection, org_id: OrgId, message_ids: Sequence[MessageId]) -> None:
    """Store the client id of each message as its external id."""
    ...


async def link_waiting_replies(conn: Connection, org_id: OrgId, message_id: MessageId) -> set[MessageId]:
    """Link a message that was just sent to the replies that wait for its client id; return these replies."""
    return await _enqueue(conn, org_id, await _link_waiting_replies(conn, org_id, message_id))


async def link_replies(conn: Connection, org_id: OrgId, message_ids: Collection[MessageId]) -> set[MessageId]:
    """Link the given replies that wait for a client id to the message with this client id; return the linked replies.

    If a different platform message with the same id arrives later, the replies are linked to the platform message.
    """
    return await _enqueue(conn, org_id, await _link_replies(conn, org_id, message_ids))


async def relink_replies(conn: Connection, org_id: OrgId) -> set[MessageId]:
    """Move replies to the added platform messages whose id they name; return the replies.

    Until then, the replies were linked to a message that has the same id as its client id.
    """
    return await _enqueue(conn, org_id, await _relink_replies(conn, org_id))


async def _enqueue(conn: Connection, org_id: OrgId, moved: set[MessageId]) -> set[MessageId]:
    await projections.enqueue_replies(conn, org_id, moved)
    return moved


@QUERIES.query
async def _link_waiting_replies(conn: Connection, org_id: OrgId, message_id: MessageId) -> set[MessageId]: ...


@QUERIES.query
async def _link_replies(
    conn: Connection, org_id: OrgId, message_ids: Collection[MessageId]
) -> set[MessageId]: ...


@QUERIES.query
async def _relink_replies(conn: Connection, org_id: OrgId) -> set[MessageId]: ...


@QUERIES.query
async def persons_of_accounts(
    conn: Connection, org_id: OrgId, participant_ids: Collection[ParticipantId]
) -> dict[ParticipantId, UUID]:
    """Return the persons of the given participants. Omit participants that are the only account of their person."""
    ...


@QUERIES.query
async def tombstones(
    conn: Connection, org_id: OrgId, names: Sequence[tuple[str, str, str]]
) -> set[tuple[str, str, str, bytes]]:
    """Return the given names (platform, room, client id) whose message was erased, each with its author's digest."""
    ...
