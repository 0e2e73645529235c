"""Copies in other servers, as the work keeps them: written until nothing waits, or as changes come."""

import asyncio
import logging

from roomlore.app import projecting
from roomlore.config import Settings
from roomlore.domain.errors import BackendUnavailable, BadInput
from roomlore.domain.ids import OrgId
from roomlore.store.db import Database
from roomlore.workers import loop, project
from roomlore.workers.project import ProjectWorker

LOG = logging.getLogger(__name__)


async def write_waiting(db: Database, settings: Settings, only_org: OrgId | None) -> list[str]:
    """Write what waits to be copied, and return which servers fail."""
    if settings.qdrant is None:
        return []
    try:
        server = projecting.open_projection(settings, "qdrant")
    except BadInput as error:
        return [str(error)]
    try:
        worker = ProjectWorker(db=db, projection=server, stage="qdrant")
        await project.drain(worker, only_org=only_org)
    except BackendUnavailable as error:
        return [f"qdrant: {error.why}"]
    finally:
        await server.close()
    return []


async def keep_up(db: Database, settings: Settings, stop: asyncio.Event) -> None:
    """Write changes to copies as they come, until told to stop."""
    if settings.qdrant is None:
        return
    try:
        server = projecting.open_projection(settings, "qdrant")
    except BadInput as error:
        LOG.warning("nothing is copied: %s", error)
        return
    try:
        worker = ProjectWorker(db=db, projection=server, stage="qdrant")
        await loop.run(db, worker, stop=stop, chores=[worker.rounds])
    finally:
        await server.close()
