"""Remembers what agents answered, after they did, where it is worth it: as their own interaction, in both sides' words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from roomlore.agents.value import SALIENCE_THRESHOLD, Interaction, salience
from roomlore.context.memoryblock import one_line
from roomlore.domain.clock import utc_now
from roomlore.domain.ids import MemoryId, OrgId, uuid7
from roomlore.domain.records import MemorySource
from roomlore.domain.speech import safe_name
from roomlore.remembering.keep import upsert
from roomlore.store import agents, directory, erased, work
from roomlore.store.agents import AgentReply
from roomlore.store.db import Database
from roomlore.store.keeping import MemoryDraft
from roomlore.store.queries import Connection
from roomlore.store.work import QueueName, Task
from roomlore.untangling.unnamed import reject_erased_names

#: Characters of each side that a memory quotes.
_MAX_ASKED_LENGTH, _MAX_ANSWERED_LENGTH = 160, 240
#: What an interaction weighs that is just worth keeping, and how much more the best.
_LEAST_IMPORTANCE, _IMPORTANCE_RANGE = 2.5, 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class InteractionWorker:
    """Makes memories of answers that agents noted."""

    db: Database
    now: Callable[[], datetime] = utc_now
    batch: int = 50
    queue: QueueName = "interact"

    async def begin(self, only_org: OrgId | None) -> None:
        """Do nothing: what is not asked for is not remembered."""

    async def do(self, org_id: OrgId, tasks: Sequence[Task]) -> int:
        """Remember those of these answers that are worth it, and return how many were looked at."""
        await self.db.change(org_id, partial(self._remember, org_id=org_id, tasks=tasks))
        return len(tasks)

    async def tidy(self) -> None:
        """Do nothing."""

    async def _remember(self, conn: Connection, org_id: OrgId, tasks: Sequence[Task]) -> None:
        await erased.lock_shared(conn, org_id)
        found = await agents.agent_replies(conn, org_id, [task.subject_id for task in tasks])
        await directory.lock_rooms(conn, {one.room_id for one in found})
        current = await work.finish(conn, org_id, self.queue, tasks)
        for one in found:
            score = salience(_to_interaction(one))
            if one.reply_id in current and score >= SALIENCE_THRESHOLD:
                for draft in await reject_erased_names(conn, org_id, [interaction_memory(one, salience_score=score, now=self.now())]):
                    await upsert(conn, org_id, draft)


def interaction_memory(answered: AgentReply, *, salience_score: float, now: datetime) -> MemoryDraft:
    """Return what an agent remembers of an exchange."""
    agent, other = safe_name(answered.agent_name), safe_name(answered.other_name)
    return MemoryDraft(
        id=MemoryId(uuid7()),
        kind="interaction",
        title=f"Talk with {other}",
        content=f"{other}: “{one_line(answered.trigger, _MAX_ASKED_LENGTH)}” {agent}: “{one_line(answered.reply, _MAX_ANSWERED_LENGTH)}”",
        importance=round(_LEAST_IMPORTANCE + _IMPORTANCE_RANGE * (salience_score - SALIENCE_THRESHOLD) / (1 - SALIENCE_THRESHOLD), 1),
        sensitivity=answered.sensitivity,
        asserted_by=answered.agent_id,
        asserted_in=answered.room_id,
        # The words are those of the newest edit, by a clock that may be ahead of ours.
        recorded_at=max(now, answered.edited_at or now),
        valid_from=answered.sent_at,
        sources=[MemorySource(message_id=answered.trigger_id), MemorySource(message_id=answered.reply_id)],
        roles=frozenset(
            {("perspective", answered.agent_id), ("author", answered.agent_id), ("involved", answered.other_id)}
        ),
    )


def _to_interaction(one: AgentReply) -> Interaction:
    return Interaction(
        trigger=one.trigger,
        reply=one.reply,
        other_kind=one.other_kind,
        is_addressed=one.is_addressed,
        has_met=one.has_met,
    )
