"""What workers do for agents: remember what they answered, and give them what they may know."""

import asyncio
from collections.abc import Sequence

from roomlore.agents.inject import InjectionWorker
from roomlore.agents.remember import InteractionWorker
from roomlore.domain.ids import OrgId
from roomlore.store.db import Database
from roomlore.workers import loop


def agent_tasks(db: Database) -> Sequence[loop.PeriodicTask]:
    """Return what a running worker does for agents."""

    async def remember(stop: asyncio.Event) -> None:
        await loop.run(db, InteractionWorker(db=db), stop=stop)

    async def inject(stop: asyncio.Event) -> None:
        await loop.run(db, InjectionWorker(db=db), stop=stop)

    return remember, inject


async def drain_agents(db: Database, only_org: OrgId | None) -> None:
    """Do what waits for agents, in one org or in all; what is remembered now may be given at once."""
    await loop.drain(db, InteractionWorker(db=db), only_org=only_org)
    await loop.drain(db, InjectionWorker(db=db), only_org=only_org)
