"""Goes round the orgs again and again, doing some of what there is in each."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from roomlore.domain.errors import DatabaseUnavailable
from roomlore.domain.ids import OrgId
from roomlore.store import work
from roomlore.store.db import Database

#: Does some of what there is in an org. Returns None where there is nothing, else for how many seconds to leave all
#: of them alone, most often 0.
VisitOrg = Callable[[OrgId], Awaitable[float | None]]

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduler:
    """Visits every org in turns."""

    db: Database
    visit: VisitOrg
    #: What is done, as the log tells it.
    task_name: str
    #: Seconds to rest after a round that found nothing.
    interval: float
    #: In which order the orgs have their turns.
    order: Callable[[list[OrgId]], Iterable[OrgId]] = iter

    async def run(self, stop: asyncio.Event) -> None:
        """Go round until told to stop.

        Raises:
            DatabaseUnavailable: the server went away.
        """
        while not stop.is_set():
            if rest := await self._run_once(stop):
                try:
                    await asyncio.wait_for(stop.wait(), rest)
                except TimeoutError:
                    continue

    async def _run_once(self, stop: asyncio.Event) -> float:
        """Visit each org once; return how many seconds to rest."""
        rest = self.interval
        try:
            with work.translate_connection_errors():
                for org_id in self.order(await orgs(self.db)):
                    if stop.is_set():
                        break
                    pause = await self.visit(org_id)
                    if pause:
                        return pause
                    rest = rest if pause is None else 0.0
        except DatabaseUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  whatever breaks here must not stop those who embed and untangle
            # The kind of error only: its text may quote what somebody said.
            LOG.warning("%s: %s; trying again later", self.task_name, type(error).__name__)
            return self.interval
        return rest


async def orgs(db: Database, only_org: OrgId | None = None) -> list[OrgId]:
    """Return every org, or the only one that is wanted."""
    if only_org is not None:
        return [only_org]
    async with db.system_connection() as conn:
        return await work.org_ids(conn)
