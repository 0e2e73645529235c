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

from roomlore.agents.fitting import BAR, fitting
from roomlore.context.memoryblock import one_line
from roomlore.context.tokens import estimate_tokens
from roomlore.domain.clock import utc_now
from roomlore.domain.ids import MessageId, OrgId, ParticipantId, timeless, uuid7
from roomlore.domain.records import Memory, Viewer
from roomlore.store import changes, directory, erased, injections, work
from roomlore.store.db import Database
from roomlore.store.directory import NewIdentity
from roomlore.store.injections import Gift, GivingTo
from roomlore.store.queries import Connection
from roomlore.store.work import Stage, Task

#: Who writes what is injected.
PLATFORM = ACCOUNT = AUTHOR = "roomlore"
#: After it was given something, an agent is given nothing more in that room for so long.
COOL_DOWN = timedelta(minutes=1)
#: At a time: memories, and tokens of all together.
MOST, BUDGET = 3, 300
#: Characters of one memory.
LONGEST = 600
_SWEPT_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectWorker:
    """Goes through new messages of rooms with agents, and gives these what they may know."""

    db: Database
    now: Callable[[], datetime] = utc_now
    cool_down: timedelta = COOL_DOWN
    bar: float = BAR
    batch: int = 20
    stage: Stage = "inject"

    async def begin(self, only_org: OrgId | None) -> None:
        """Remove what was given and does not stand any more."""
        if only_org is None:
            await self.tidy()
        else:
            await self._sweep(only_org)

    async def do(self, org_id: OrgId, tasks: Sequence[Task]) -> int:
        """Give what is known of these messages, and return how many messages that were."""
        now = self.now()
        ids = [task.subject_id for task in tasks]
        async with self.db.reading(Viewer.operator(org_id)) as conn:
            occasions = await injections.occasions(conn, org_id, ids, rested_at=now - self.cool_down)
        for occasion in occasions:
            agent = Viewer(org_id=org_id, participant_id=occasion.agent_id).posting(occasion.place)
            async with self.db.reading(agent, recalls=True) as conn:
                found = await fitting(
                    conn,
                    org_id,
                    occasion.body,
                    room_id=occasion.room_id,
                    sent_at=occasion.sent_at,
                    bar=self.bar,
                )
            if found:
                known = [one.memory for one in found]
                await self.db.change(
                    org_id,
                    partial(self._give, org_id=org_id, occasion=occasion, known=known, now=now),
                )
        await self.db.change(org_id, partial(work.finish, org_id=org_id, stage=self.stage, tasks=tasks))
        return len(tasks)

    async def tidy(self) -> None:
        """Remove what was given and does not stand any more, in every org."""
        async with self.db.outside_orgs() as conn:
            org_ids = await work.org_ids(conn)
        for org_id in org_ids:
            await self._sweep(org_id)

    async def _give(
        self, conn: Connection, org_id: OrgId, *, occasion: GivingTo, known: Sequence[Memory], now: datetime
    ) -> None:
        await erased.keep_erasures_out(conn, org_id)
        author = await _author(conn, org_id)
        await directory.lock_rooms(conn, [occasion.room_id])
        # Somebody else may have given something meanwhile.
        if not await injections.has_rested(conn, org_id, occasion, since=now - self.cool_down):
            return
        before = await injections.given(conn, org_id, occasion, [memory.id for memory in known])
        gifts = gifts_of([memory for memory in known if memory.id not in before])
        await injections.give(conn, org_id, occasion, gifts, author=(author, AUTHOR), at=now)
        await changes.note(conn, org_id, "message.added", [gift.id for gift in gifts])

    async def _sweep(self, org_id: OrgId) -> None:
        async def portion(conn: Connection) -> int:
            await erased.keep_erasures_out(conn, org_id)
            return await injections.take_back_fallen(conn, org_id, limit=_SWEPT_AT_ONCE)

        while await self.db.change(org_id, portion) == _SWEPT_AT_ONCE:
            continue


def gifts_of(known: Sequence[Memory]) -> list[Gift]:
    """Return as many of these memories as may be given at a time, each as a message, in the order given."""
    gifts: list[Gift] = []
    left = BUDGET
    for memory in known:
        body = f"Known since {memory.valid_from:%Y-%m-%d}: {one_line(memory.content, LONGEST)}"
        cost = estimate_tokens(body)
        if len(gifts) < MOST and cost <= left:
            gifts.append(Gift(id=MessageId(uuid7()), memory_id=memory.id, body=body))
            left -= cost
    return gifts


async def _author(conn: Connection, org_id: OrgId) -> ParticipantId:
    """Return who writes what is injected; made where there is none yet."""
    name = (PLATFORM, ACCOUNT, "")
    known = await directory.identities_by_account(conn, org_id, [name])
    if name not in known:
        await directory.lock_directory(conn, org_id)
        known = await directory.identities_by_account(conn, org_id, [name])
    if name in known:
        return known[name].participant_id
    made = NewIdentity(
        platform=PLATFORM,
        account_id=ACCOUNT,
        persona="",
        participant_id=ParticipantId(timeless()),
        kind="system",
        name=AUTHOR,
        bridged=False,
    )
    await directory.add_identities(conn, org_id, [made])
    return made.participant_id
