"""Remembers what agents answered, after they did, where it is worth it: as their own interaction, in both sides' words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from roomlore.agents.value import WORTH_KEEPING, Exchange, value
from roomlore.context.memoryblock import one_line
from roomlore.domain.clock import utc_now
from roomlore.domain.ids import MemoryId, OrgId, uuid7
from roomlore.domain.records import MemorySource
from roomlore.domain.speech import safe_name
from roomlore.remembering.keep import keep
from roomlore.store import agents, directory, erased, work
from roomlore.store.agents import Exchanged
from roomlore.store.db import Database
from roomlore.store.keeping import Draft
from roomlore.store.queries import Connection
from roomlore.store.work import Stage, Task
from roomlore.untangling.unnamed import unnaming

#: Characters of each side that a memory quotes.
_ASKED, _ANSWERED = 160, 240
#: What an interaction weighs that is just worth keeping, and how much more the best.
_LEAST_IMPORTANCE, _MORE = 2.5, 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class InteractWorker:
    """Makes memories of answers that agents noted."""

    db: Database
    now: Callable[[], datetime] = utc_now
    batch: int = 50
    stage: Stage = "interact"

    async def begin(self, only_org: OrgId | None) -> None:
        """Do nothing: what is not asked for is not remembered."""

    async def do(self, org_id: OrgId, tasks: Sequence[Task]) -> int:
        """Remember those of these answers that are worth it, and return how many were looked at."""
        await self.db.change(org_id, partial(self._remember, org_id=org_id, tasks=tasks))
        return len(tasks)

    async def tidy(self) -> None:
        """Do nothing."""

    async def _remember(self, conn: Connection, org_id: OrgId, tasks: Sequence[Task]) -> None:
        await erased.keep_erasures_out(conn, org_id)
        found = await agents.exchanged(conn, org_id, [task.subject_id for task in tasks])
        await directory.lock_rooms(conn, {one.room_id for one in found})
        current = await work.finish(conn, org_id, self.stage, tasks)
        for one in found:
            score = value(_exchange(one))
            if one.reply_id in current and score >= WORTH_KEEPING:
                for draft in await unnaming(conn, org_id, [interaction(one, score=score, now=self.now())]):
                    await keep(conn, org_id, draft)


def interaction(one: Exchanged, *, score: float, now: datetime) -> Draft:
    """Return what an agent remembers of an exchange."""
    agent, other = safe_name(one.agent_name), safe_name(one.other_name)
    return Draft(
        id=MemoryId(uuid7()),
        kind="interaction",
        title=f"Talk with {other}",
        content=f"{other}: “{one_line(one.trigger, _ASKED)}” {agent}: “{one_line(one.reply, _ANSWERED)}”",
        importance=round(_LEAST_IMPORTANCE + _MORE * (score - WORTH_KEEPING) / (1 - WORTH_KEEPING), 1),
        sensitivity=one.sensitivity,
        asserted_by=one.agent_id,
        asserted_in=one.room_id,
        # The words are those of the newest edit, by a clock that may be ahead of ours.
        recorded_at=max(now, one.edited_at or now),
        valid_from=one.sent_at,
        sources=[MemorySource(message_id=one.trigger_id), MemorySource(message_id=one.reply_id)],
        roles=frozenset(
            {("perspective", one.agent_id), ("author", one.agent_id), ("involved", one.other_id)}
        ),
    )


def _exchange(one: Exchanged) -> Exchange:
    return Exchange(
        trigger=one.trigger,
        reply=one.reply,
        other_kind=one.other_kind,
        is_addressed=one.is_addressed,
        has_met=one.has_met,
    )
