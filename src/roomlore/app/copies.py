"""Copies in other servers, as the work keeps them: written until nothing waits, or as changes come.

Each server is on its own, and so is each org in it: the outage of one holds up no other.
"""

import asyncio
import logging

from roomlore.app import projecting
from roomlore.config import Settings
from roomlore.domain.errors import BackendUnavailable, BadInput
from roomlore.domain.ids import OrgId
from roomlore.store import work
from roomlore.store.db import Database
from roomlore.store.projections import Target
from roomlore.workers import loop, project
from roomlore.workers.project import ProjectionWorker
from roomlore.workers.rounds import orgs

#: An org whose copies fail is left alone for so long.
RETRY_SECONDS = 5.0

LOG = logging.getLogger(__name__)


async def write_pending(db: Database, settings: Settings, only_org: OrgId | None) -> list[str]:
    """Write what waits to be copied, and return which servers fail."""
    failing: list[str] = []
    for target in projecting.configured(settings):
        failing += await _write_to(db, settings, target, only_org)
    return failing


async def _write_to(db: Database, settings: Settings, target: Target, only_org: OrgId | None) -> list[str]:
    try:
        server = projecting.open_projection(settings, target)
    except BadInput as error:
        return [str(error)]
    worker = ProjectionWorker(db=db, projection=server, queue=target)
    # Several orgs may miss their copies in the same words.
    failing = dict[str, None]()
    try:
        with work.translate_connection_errors():
            org_ids = [org_id for org_id in await orgs(db, only_org) if await worker.has_projection(org_id)]
        for org_id in org_ids:
            try:
                await project.drain(worker, only_org=org_id)
            except BackendUnavailable as error:
                failing[f"{target}: {error.why}"] = None
                if not await worker.is_reachable():
                    break
    finally:
        await server.close()
    return list(failing)


async def follow_changes(db: Database, settings: Settings, stop: asyncio.Event) -> None:
    """Write changes to copies as they come, until told to stop."""
    async with asyncio.TaskGroup() as group:
        for target in projecting.configured(settings):
            group.create_task(_follow_target(db, settings, target, stop))


async def _follow_target(db: Database, settings: Settings, target: Target, stop: asyncio.Event) -> None:
    try:
        server = projecting.open_projection(settings, target)
    except BadInput as error:
        LOG.warning("nothing is copied: %s", error)
        return
    try:
        worker = ProjectionWorker(db=db, projection=server, queue=target, backoff_seconds=RETRY_SECONDS)
        await loop.run(db, worker, stop=stop, tasks=[worker.watch])
    finally:
        await server.close()
