"""Asks for copies in other servers to be written anew, in the transaction of the change.

What changed is asked for by id; whatever it has become is read when it is written, and what is no longer there is
removed. So the order of changes does not matter, and a change that is asked for twice is written once. Where an org has
no copies nothing is asked for.
"""

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from roomlore.domain.ids import ConversationId, OrgId, ParticipantId
from roomlore.store.queries import Connection, Queries

QUERIES = Queries("copying")


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueuedCount:
    """How much was asked for."""

    count: int


async def enqueue(conn: Connection, org_id: OrgId, ids: Collection[UUID]) -> None:
    """Ask for messages to be written to every copy once the transaction commits, or removed from it."""
    if ids:
        await _enqueue(conn, "ask", {"org_id": org_id, "ids": list(ids)})


async def enqueue_nodes(conn: Connection, org_id: OrgId, ids: Collection[UUID]) -> None:
    """Ask for what only graphs hold: participants, rooms, conversations and memories."""
    if ids:
        await _enqueue(conn, "ask_nodes", {"org_id": org_id, "ids": list(ids)})


async def enqueue_for(conn: Connection, org_id: OrgId, target: str, ids: Collection[UUID]) -> None:
    """Ask for subjects of any kind to be written to the copies of one target."""
    if ids:
        await _enqueue(conn, "ask_in", {"org_id": org_id, "target": target, "ids": list(ids)})


async def enqueue_added(conn: Connection, org_id: OrgId) -> None:
    """Ask for the messages just added."""
    await _enqueue(conn, "ask_added", {"org_id": org_id})


async def enqueue_replies(conn: Connection, org_id: OrgId, ids: Collection[UUID]) -> None:
    """Ask for messages whose place in their exchange has changed, or that go, with all that answers them."""
    if ids:
        await _enqueue(conn, "ask_below", {"org_id": org_id, "ids": list(ids)})
        await _enqueue(conn, "ask_talkers", {"org_id": org_id, "ids": list(ids)})


async def enqueue_replies_to_added(conn: Connection, org_id: OrgId) -> None:
    """Ask for all that answers the messages just added, and came before them."""
    await _enqueue(conn, "ask_below_added", {"org_id": org_id})
    await _enqueue(conn, "ask_talkers_below_added", {"org_id": org_id})


async def enqueue_written_by(conn: Connection, org_id: OrgId, ids: Collection[ParticipantId]) -> None:
    """Ask for what these participants wrote."""
    if ids:
        await _enqueue(conn, "ask_written_by", {"org_id": org_id, "participant_ids": list(ids)})


async def enqueue_naming(conn: Connection, org_id: OrgId, ids: Collection[ParticipantId]) -> None:
    """Ask for participants who go, and for the memories that name them."""
    if ids:
        await _enqueue(conn, "ask_naming", {"org_id": org_id, "participant_ids": list(ids)})


async def enqueue_conversations(conn: Connection, org_id: OrgId, ids: Collection[ConversationId]) -> None:
    """Ask for what stands in these conversations."""
    if ids:
        await _enqueue(conn, "ask_standing_in", {"org_id": org_id, "conversation_ids": list(ids)})


async def _enqueue(conn: Connection, how: str, params: dict[str, object]) -> None:
    await QUERIES.first(conn, how, EnqueuedCount, params)
