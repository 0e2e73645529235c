"""Memories given unasked: for whom, whether they were given before, and the messages that give them.

All that writes runs for the operator; what an agent may be given is asked for the agent, elsewhere.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from roomlore.db.outbox import remove_messages
from roomlore.db.queries import Connection, Queries, columns
from roomlore.domain.ids import MemoryId, MessageId, OrgId, ParticipantId, RoomId

QUERIES = Queries("injections")
#: What was said longer ago gives no occasion when it comes in.
MAX_TRIGGER_AGE = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectionTarget:
    """A message that gives occasion, and an agent that may be given something."""

    message_id: MessageId
    room_id: RoomId
    #: Whether it was said to some only.
    is_whisper: bool
    body: str
    sent_at: datetime
    agent_id: ParticipantId

    @property
    def destination(self) -> RoomId | MessageId:
        """Where it would be answered."""
        return self.message_id if self.is_whisper else self.room_id


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectedMemoryRef:
    """A memory that was given."""

    memory_id: MemoryId


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokedMessage:
    """A message that gives a memory."""

    message_id: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class CooldownRow:
    """Whether somebody was given nothing for a while."""

    has_rested: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectedMemory:
    """A memory as a message that gives it."""

    id: MessageId
    memory_id: MemoryId
    body: str


async def enqueue_added(conn: Connection, org_id: OrgId) -> bool:
    """Ask for agents to be given what they may know of what was just added; return whether there is any to be asked for."""
    params = {"org_id": org_id, "fresh_for": MAX_TRIGGER_AGE}
    return await QUERIES.run(conn, "ask_for_added", params) > 0


async def injection_targets(
    conn: Connection, org_id: OrgId, ids: Collection[MessageId], *, rested_at: datetime
) -> list[InjectionTarget]:
    """Return which agents may be given something on account of messages, if they were given nothing since a time."""
    params = {"org_id": org_id, "message_ids": list(ids), "rested_at": rested_at}
    return await QUERIES.all(conn, "occasions", InjectionTarget, params)


async def delivered_ids(
    conn: Connection, org_id: OrgId, target: InjectionTarget, ids: Collection[MemoryId]
) -> set[MemoryId]:
    """Return those of these memories that an agent was given in a room since it was last compacted."""
    params = {
        "org_id": org_id,
        "room_id": target.room_id,
        "agent_id": target.agent_id,
        "memory_ids": list(ids),
    }
    return {row.memory_id for row in await QUERIES.all(conn, "known_to_agent", InjectedMemoryRef, params)}


async def delivered_by_messages(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> set[MemoryId]:
    """Return the memories that messages give, as far as the viewer may see it."""
    params = {"org_id": org_id, "message_ids": list(ids)}
    return {row.memory_id for row in await QUERIES.all(conn, "given_as", InjectedMemoryRef, params)}


async def is_cooled_down(
    conn: Connection, org_id: OrgId, target: InjectionTarget, *, since: datetime
) -> bool:
    """Return whether an agent was given nothing in a room since a time."""
    params = {
        "org_id": org_id,
        "room_id": target.room_id,
        "agent_id": target.agent_id,
        "since": since,
    }
    row = await QUERIES.first(conn, "rested", CooldownRow, params)
    assert row is not None
    return row.has_rested


async def deliver(
    conn: Connection,
    org_id: OrgId,
    target: InjectionTarget,
    memories: Sequence[InjectedMemory],
    *,
    author: tuple[ParticipantId, str],
    at: datetime,
) -> int:
    """Put memories before an agent and return how many; in a transaction that has the room to itself.

    Args:
        conn: Writes for the operator.
        org_id: Whose.
        target: To whom, and on account of which message.
        memories: What.
        author: Who writes the messages, and under what name.
        at: When.
    """
    params = {
        "org_id": org_id,
        "trigger_id": target.message_id,
        "agent_id": target.agent_id,
        "author_id": author[0],
        "author_name": author[1],
        "at": at,
        **columns(InjectedMemory, memories),
    }
    return await QUERIES.run(conn, "give", params)


async def revoke(conn: Connection, org_id: OrgId, memory_ids: Collection[MemoryId]) -> int:
    """Remove the messages that gave memories, place and all; return how many."""
    params = {"org_id": org_id, "memory_ids": list(memory_ids)}
    taken = await QUERIES.all(conn, "take_back_memories", RevokedMessage, params)
    return await _drop(conn, org_id, [row.message_id for row in taken])


async def revoke_from_agents(conn: Connection, org_id: OrgId, agent_ids: Collection[ParticipantId]) -> int:
    """Remove what agents were given, place and all; return how many messages that were."""
    params = {"org_id": org_id, "participant_ids": list(agent_ids)}
    taken = await QUERIES.all(conn, "take_back_from", RevokedMessage, params)
    return await _drop(conn, org_id, [row.message_id for row in taken])


async def revoke_inactive(conn: Connection, org_id: OrgId, *, limit: int) -> int:
    """Remove messages that give what does not stand any more, so many at most; return how many.

    No agent is shown them since it fell.
    """
    fallen = await QUERIES.all(conn, "fallen", RevokedMessage, {"org_id": org_id, "limit": limit})
    ids = [row.message_id for row in fallen]
    await QUERIES.all(conn, "take_back_messages", RevokedMessage, {"org_id": org_id, "message_ids": ids})
    return await _drop(conn, org_id, ids)


async def revoke_triggered_by(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> int:
    """Remove what was given on account of messages, and forget what was given as them; return how many messages went.

    The messages themselves are left to whoever removes them.
    """
    params = {"org_id": org_id, "message_ids": list(ids)}
    taken = await QUERIES.all(conn, "take_back_messages", RevokedMessage, params)
    return await _drop(conn, org_id, [row.message_id for row in taken if row.message_id not in set(ids)])


async def reset_context(conn: Connection, org_id: OrgId, room_id: RoomId, *, at: datetime) -> None:
    """Say that what was given in a room up to a time is not before its agents any more."""
    await QUERIES.run(conn, "compact", {"org_id": org_id, "room_id": room_id, "at": at})


async def set_enabled(conn: Connection, org_id: OrgId, room_id: RoomId, *, is_enabled: bool) -> None:
    """Say whether the agents of a room are given what they may know."""
    params = {"org_id": org_id, "room_id": room_id, "is_injecting": is_enabled}
    await QUERIES.run(conn, "set_injecting", params)


async def _drop(conn: Connection, org_id: OrgId, ids: Sequence[MessageId]) -> int:
    if not ids:
        return 0
    params = {"org_id": org_id, "message_ids": list(ids)}
    await remove_messages(conn, org_id, ids)
    await QUERIES.run(conn, "drop_replies", params)
    await QUERIES.run(conn, "drop_audiences", params)
    return await QUERIES.run(conn, "drop_messages", params)
