"""Gives agents unasked what they may know, as messages arrive: each memory as an injected message, for one agent alone.

What is given shares words with the message that gave occasion, the agent may see it as well as everybody who would read
the answer: in the room, or where it is a whisper those who hear that. It was not given to that agent in that room since the room was last compacted. An agent is left alone for a while after it was given something, and is
given little at a time. Injected messages stand just before the one that gave occasion. They are nobody's statement:
nothing is drawn from them, nothing embeds them, no search finds them. One whose memory falls is shown to nobody from
then on, and is removed when the worker next tidies.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from roomlore.agents.recall import RELEVANCE_THRESHOLD, matching_memories
from roomlore.context.memory_section import one_line
from roomlore.context.tokens import estimate_tokens
from roomlore.db import directory, erased, injections, outbox, work_queue
from roomlore.db.database import Database
from roomlore.db.directory import NewAccount
from roomlore.db.injections import InjectedMemory, InjectionTarget
from roomlore.db.queries import Connection
from roomlore.db.work_queue import QueueName, Task
from roomlore.domain.clock import utc_now
from roomlore.domain.ids import MessageId, OrgId, ParticipantId, random_id, uuid7
from roomlore.domain.records import Memory, Viewer

#: Who writes what is injected.
PLATFORM = ACCOUNT = AUTHOR = "roomlore"
#: After it was given something, an agent is given nothing more in that room for so long.
COOLDOWN = timedelta(minutes=1)
#: At a time: memories, and tokens of all together.
MAX_INJECTED, BUDGET = 3, 300
#: Characters of one memory.
MAX_LINE_LENGTH = 600
_SWEEP_BATCH = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectionWorker:
    """Goes through new messages of rooms with agents, and gives these what they may know."""

    db: Database
    now: Callable[[], datetime] = utc_now
    cooldown: timedelta = COOLDOWN
    threshold: float = RELEVANCE_THRESHOLD
    batch: int = 20
    queue: QueueName = "inject"

    async def begin(self, only_org: OrgId | None) -> None:
        """Remove what was given and does not stand any more."""
        if only_org is None:
            await self.tidy()
        else:
            await self._revoke_inactive(only_org)

    async def do(self, org_id: OrgId, tasks: Sequence[Task]) -> int:
        """Give what is known of these messages, and return how many messages that were."""
        now = self.now()
        ids = [task.subject_id for task in tasks]
        async with self.db.read_transaction(Viewer.operator(org_id)) as conn:
            occasions = await injections.injection_targets(conn, org_id, ids, rested_at=now - self.cooldown)
        for occasion in occasions:
            agent = Viewer(org_id=org_id, participant_id=occasion.agent_id).posting(occasion.destination)
            async with self.db.read_transaction(agent, apply_restrictions=True) as conn:
                found = await matching_memories(
                    conn,
                    org_id,
                    occasion.body,
                    room_id=occasion.room_id,
                    sent_at=occasion.sent_at,
                    threshold=self.threshold,
                )
            if found:
                known = [one.memory for one in found]
                await self.db.change(
                    org_id,
                    partial(self._deliver, org_id=org_id, key=occasion, matches=known, now=now),
                )
        await self.db.change(org_id, partial(work_queue.finish, org_id=org_id, queue=self.queue, tasks=tasks))
        return len(tasks)

    async def tidy(self) -> None:
        """Remove what was given and does not stand any more, in every org."""
        async with self.db.system_connection() as conn:
            org_ids = await work_queue.org_ids(conn)
        for org_id in org_ids:
            await self._revoke_inactive(org_id)

    async def _deliver(
        self,
        conn: Connection,
        org_id: OrgId,
        *,
        key: InjectionTarget,
        matches: Sequence[Memory],
        now: datetime,
    ) -> None:
        await erased.lock_shared(conn, org_id)
        author = await _author(conn, org_id)
        await directory.lock_rooms(conn, [key.room_id])
        # Somebody else may have given something meanwhile.
        agent = {"agent_id": key.agent_id}
        if not await injections.is_cooled_down(conn, org_id, key.room_id, since=now - self.cooldown, **agent):
            return
        ids = {memory.id for memory in matches}
        before = await injections.delivered_ids(conn, org_id, key.room_id, memory_ids=ids, **agent)
        gifts = injected_memories([memory for memory in matches if memory.id not in before])
        await injections.deliver(
            conn,
            org_id,
            gifts,
            trigger_id=key.message_id,
            author_id=author,
            author_name=AUTHOR,
            at=now,
            **agent,
        )
        await outbox.append(conn, org_id, "message.added", [gift.id for gift in gifts])

    async def _revoke_inactive(self, org_id: OrgId) -> None:
        async def portion(conn: Connection) -> int:
            await erased.lock_shared(conn, org_id)
            return await injections.revoke_inactive(conn, org_id, limit=_SWEEP_BATCH)

        while await self.db.change(org_id, portion) == _SWEEP_BATCH:
            continue


def injected_memories(matches: Sequence[Memory]) -> list[InjectedMemory]:
    """Return as many of these memories as may be given at a time, each as a message, in the order given."""
    gifts: list[InjectedMemory] = []
    left = BUDGET
    for memory in matches:
        body = f"Known since {memory.valid_from:%Y-%m-%d}: {one_line(memory.content, MAX_LINE_LENGTH)}"
        cost = estimate_tokens(body)
        if len(gifts) < MAX_INJECTED and cost <= left:
            gifts.append(InjectedMemory(id=MessageId(uuid7()), memory_id=memory.id, body=body))
            left -= cost
    return gifts


async def _author(conn: Connection, org_id: OrgId) -> ParticipantId:
    """Return who writes what is injected; made where there is none yet."""
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
