"""Memories injected into a room: which agents may get them, which they got, and the injected messages.

Writes run for the operator. Another package reads which memories an agent may get, with the agent as the viewer.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from roomlore.db.outbox import remove_messages
from roomlore.db.queries import Connection, Queries, RowCount
from roomlore.domain.ids import MemoryId, MessageId, OrgId, ParticipantId, RoomId

QUERIES = Queries("injections")
#: A message that was sent longer ago triggers no injection.
MAX_TRIGGER_AGE = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectionTarget:
    """A message that may trigger an injection, and an agent that may get one."""

    message_id: MessageId
    room_id: RoomId
    is_whisper: bool
    body: str
    sent_at: datetime
    agent_id: ParticipantId

    @property
    def destination(self) -> RoomId | MessageId:
        """The room or whisper to which an answer would be posted."""
        return self.message_id if self.is_whisper else self.room_id


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectedMemory:
    """A memory and the message that injects it."""

    id: MessageId
    memory_id: MemoryId
    body: str


@QUERIES.query
async def enqueue_added(conn: Connection, org_id: OrgId, *, max_age: timedelta = MAX_TRIGGER_AGE) -> RowCount:
    """Enqueue the messages of the current batch that may trigger an injection.

    Old messages of an import trigger none.
    """
    ...


@QUERIES.query
async def injection_targets(
    conn: Connection, org_id: OrgId, message_ids: Collection[MessageId], *, rested_at: datetime
) -> list[InjectionTarget]:
    """Return the agents that may get a memory because of messages.

    The agents are in the room; for a whisper, they are its recipients. They got no memory since `rested_at`.
    """
    ...


@QUERIES.query
async def delivered_ids(
    conn: Connection,
    org_id: OrgId,
    room_id: RoomId,
    *,
    agent_id: ParticipantId,
    memory_ids: Collection[MemoryId],
) -> set[MemoryId]:
    """Return the given memories that an agent got in a room since its context was last reset."""
    ...


@QUERIES.query
async def delivered_by_messages(
    conn: Connection, org_id: OrgId, message_ids: Collection[MessageId]
) -> set[MemoryId]:
    """Return the memories that these messages inject and that the viewer may see."""
    ...


@QUERIES.query
async def is_cooled_down(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, agent_id: ParticipantId, since: datetime
) -> bool:
    """Return whether an agent got no memory in a room since the given time."""
    ...


@QUERIES.query
async def deliver(
    conn: Connection,
    org_id: OrgId,
    memories: Sequence[InjectedMemory],
    *,
    trigger_id: MessageId,
    agent_id: ParticipantId,
    author_id: ParticipantId,
    author_name: str,
    at: datetime,
) -> RowCount:
    """Inject memories for an agent, as messages just before the message that triggered them; return how many.

    A memory is left out if it is inactive, if the agent got it since its context was reset, or if the trigger was
    removed. The transaction must hold the lock of the room.
    """
    ...


async def revoke(conn: Connection, org_id: OrgId, memory_ids: Collection[MemoryId]) -> int:
    """Remove the injected messages of memories; return how many."""
    return await _delete(conn, org_id, await forget_memories(conn, org_id, memory_ids))


async def revoke_from_agents(conn: Connection, org_id: OrgId, agent_ids: Collection[ParticipantId]) -> int:
    """Remove the messages that were injected for agents; return how many."""
    return await _delete(conn, org_id, await forget_agents(conn, org_id, agent_ids))


async def revoke_inactive(conn: Connection, org_id: OrgId, *, limit: int) -> int:
    """Remove up to `limit` injected messages of inactive memories; return how many.

    Agents do not see these messages.
    """
    ids = await carrying_inactive(conn, org_id, limit=limit)
    await forget_messages(conn, org_id, ids)
    return await _delete(conn, org_id, ids)


async def revoke_triggered_by(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> int:
    """Remove the injected messages that these messages triggered; return how many. The caller removes the triggers."""
    return await _delete(conn, org_id, await forget_messages(conn, org_id, ids) - set(ids))


@QUERIES.query
async def forget_memories(
    conn: Connection, org_id: OrgId, memory_ids: Collection[MemoryId]
) -> set[MessageId]:
    """Delete the injections of memories; return the messages that contain them."""
    ...


@QUERIES.query
async def forget_agents(
    conn: Connection, org_id: OrgId, agent_ids: Collection[ParticipantId]
) -> set[MessageId]:
    """Delete the injections for agents; return the messages that contain them."""
    ...


@QUERIES.query
async def forget_messages(
    conn: Connection, org_id: OrgId, message_ids: Collection[MessageId]
) -> set[MessageId]:
    """Delete the injections that these messages triggered or contain; return the messages that contain them."""
    ...


@QUERIES.query
async def carrying_inactive(conn: Connection, org_id: OrgId, *, limit: int) -> set[MessageId]:
    """Return up to `limit` injected messages whose memories are inactive."""
    ...


@QUERIES.query
async def reset_context(conn: Connection, org_id: OrgId, room_id: RoomId, *, at: datetime) -> None:
    """Record that memories injected before a time are no longer in the context of the agents of a room."""
    ...


@QUERIES.query
async def set_enabled(conn: Connection, org_id: OrgId, room_id: RoomId, *, is_enabled: bool) -> None:
    """Switch injection on or off for a room."""
    ...


async def _delete(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> int:
    if not ids:
        return 0
    await remove_messages(conn, org_id, list(ids))
    await delete_replies(conn, org_id, ids)
    await delete_audiences(conn, org_id, ids)
    return await delete_messages(conn, org_id, ids)


@QUERIES.query
async def delete_replies(conn: Connection, org_id: OrgId, message_ids: Collection[MessageId]) -> None:
    """Delete the replies to and by messages."""
    ...


@QUERIES.query
async def delete_audiences(conn: Connection, org_id: OrgId, message_ids: Collection[MessageId]) -> None:
    """Delete the audiences of messages."""
    ...


@QUERIES.query
async def delete_messages(conn: Connection, org_id: OrgId, message_ids: Collection[MessageId]) -> RowCount:
    """Delete injected messages."""
    ...
