"""Delivers relevant memories to agents as messages arrive, each as an injected message for one agent.

A memory is delivered under three conditions. It shares words with the triggering message. The agent and every reader of
the agent's answer may see it. The agent did not get it in this room since its context was last reset. Deliveries are
few, with a pause after each. An injected message is placed just before its trigger. Nobody in the room said it, so
nothing is extracted from it, and it is neither embedded nor searched. When its memory becomes inactive, the message is
hidden at once and removed at the next sweep.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from roomlore.agents.recall import RELEVANCE_THRESHOLD, matching_memories
from roomlore.context.memory_section import one_line
from roomlore.context.tokens import estimate_tokens
from roomlore.db import directory, erasure_guard, injections, outbox, work_queue
from roomlore.db.directory import NewAccount
from roomlore.db.injections import InjectedMemory, InjectionTarget
from roomlore.db.queries import Connection
from roomlore.db.work_queue import QueueName, Task
from roomlore.domain.clock import utc_now
from roomlore.domain.ids import MessageId, OrgId, ParticipantId, random_id, uuid7
from roomlore.domain.records import Memory, Viewer
from roomlore.jobs.runner import QueueWorker
from roomlore.jobs.scheduler import orgs

#: The author of injected messages.
PLATFORM = ACCOUNT = AUTHOR = "roomlore"
#: The pause after a delivery to an agent in a room.
COOLDOWN = timedelta(minutes=1)
#: The maximum number of memories, and of tokens, in one delivery.
MAX_INJECTED, BUDGET = 3, 300
#: The maximum number of characters of one memory.
MAX_LINE_LENGTH = 600
_SWEEP_BATCH = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectionWorker(QueueWorker):
    """Delivers memories for new messages in rooms with agents."""

    queue: QueueName = "inject"
    batch: int = 20
    now: Callable[[], datetime] = utc_now
    cooldown: timedelta = COOLDOWN
    threshold: float = RELEVANCE_THRESHOLD

    async def begin(self, only_org: OrgId | None) -> None:
        """Remove injected messages of inactive memories."""
        for org_id in await orgs(self.db, only_org):
            await self._revoke_inactive(org_id)

    async def do(self, org_id: OrgId, tasks: Sequence[Task]) -> int:
        """Deliver memories for these messages; return how many messages there were."""
        now = self.now()
        ids = [task.subject_id for task in tasks]
        async with self.db.read_transaction(Viewer.operator(org_id)) as conn:
            targets = await injections.injection_targets(conn, org_id, ids, rested_at=now - self.cooldown)
        for target in targets:
            agent = Viewer(org_id=org_id, participant_id=target.agent_id).posting(target.destination)
            async with self.db.read_transaction(agent, apply_restrictions=True) as conn:
                found = await matching_memories(
                    conn,
                    org_id,
                    target.body,
                    room_id=target.room_id,
                    sent_at=target.sent_at,
                    threshold=self.threshold,
                )
            if found:
                known = [one.memory for one in found]
                deliver = partial(self._deliver, org_id=org_id, target=target, matches=known, now=now)
                await self.db.change(org_id, deliver)
        await self.db.change(org_id, partial(work_queue.finish, org_id=org_id, queue=self.queue, tasks=tasks))
        return len(tasks)

    async def tidy(self) -> None:
        """Remove injected messages of inactive memories in every org."""
        await self.begin(None)

    async def _deliver(
        self,
        conn: Connection,
        org_id: OrgId,
        *,
        target: InjectionTarget,
        matches: Sequence[Memory],
        now: datetime,
    ) -> None:
        await erasure_guard.lock_shared(conn, org_id)
        author = await _author(conn, org_id)
        await directory.lock_rooms(conn, [target.room_id])
        # Check this again, because another worker may have delivered meanwhile.
        agent = {"agent_id": target.agent_id}
        if not await injections.is_cooled_down(
            conn, org_id, target.room_id, since=now - self.cooldown, **agent
        ):
            return
        ids = {memory.id for memory in matches}
        before = await injections.delivered_ids(conn, org_id, target.room_id, memory_ids=ids, **agent)
        injected = injected_memories([memory for memory in matches if memory.id not in before])
        await injections.deliver(
            conn,
            org_id,
            injected,
            trigger_id=target.message_id,
            author_id=author,
            author_name=AUTHOR,
            at=now,
            **agent,
        )
        await outbox.append(conn, org_id, "message.added", [one.id for one in injected])

    async def _revoke_inactive(self, org_id: OrgId) -> None:
        async def sweep(conn: Connection) -> int:
            await erasure_guard.lock_shared(conn, org_id)
            return await injections.revoke_inactive(conn, org_id, limit=_SWEEP_BATCH)

        while await self.db.change(org_id, sweep) == _SWEEP_BATCH:
            continue


def injected_memories(matches: Sequence[Memory]) -> list[InjectedMemory]:
    """Return the messages of one delivery. Memories come in order; a memory that does not fit is skipped."""
    injected: list[InjectedMemory] = []
    left = BUDGET
    for memory in matches:
        body = f"Known since {memory.valid_from:%Y-%m-%d}: {one_line(memory.content, MAX_LINE_LENGTH)}"
        cost = estimate_tokens(body)
        if len(injected) < MAX_INJECTED and cost <= left:
            injected.append(InjectedMemory(id=MessageId(uuid7()), memory_id=memory.id, body=body))
            left -= cost
    return injected


async def _author(conn: Connection, org_id: OrgId) -> ParticipantId:
    """Return the author of injected messages, created on first use."""
    name = (PLATFORM, ACCOUNT, "")
    known = await directory.accounts_by_key(conn, org_id, [name])
    if name not in known:
        await directory.lock_directory(conn, org_id)
        known = await directory.accounts_by_key(conn, org_id, [name])
    if name in known:
        return known[name].participant_id
    made = NewAccount(
        platform=PLATFORM,
        account_id=ACCOUNT,
        persona="",
        participant_id=ParticipantId(random_id()),
        kind="system",
        name=AUTHOR,
        bridged=False,
    )
    await directory.add_participants_with_accounts(conn, org_id, [made])
    return made.participant_id
