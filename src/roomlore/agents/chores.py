"""What workers do for agents: remember what they answered, and give them what they may know."""

import asyncio
from collections.abc import Sequence

from roomlore.agents.inject import InjectWorker
from roomlore.agents.remember import InteractWorker
from roomlore.domain.ids import OrgId
from roomlore.store.db import Database
from roomlore.workers import loop


def agents_chores(db: Database) -> Sequence[loop.Chore]:
    """Return what a running worker does for agents."""

    async def remember(stop: asyncio.Event) -> None:
        await loop.run(db, InteractWorker(db=db), stop=stop)

    async def inject(stop: asyncio.Event) -> None:
        await loop.run(db, InjectWorker(db=db), stop=stop)

    return remember, inject


async def remember_and_inject(db: Database, only_org: OrgId | None) -> None:
    """Do what waits for agents, in one org or in all; what is remembered now may be given at once."""
    await loop.drain(db, InteractWorker(db=db), only_org=only_org)
    await loop.drain(db, InjectWorker(db=db), only_org=only_org)
