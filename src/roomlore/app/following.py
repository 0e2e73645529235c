"""Copies in other servers follow the embedding model that searches use: after a switch they are built anew."""

import asyncio
import logging
from dataclasses import dataclass
from functools import partial

from roomlore.app.desk import Access
from roomlore.app.embedding import EmbeddingModels
from roomlore.app.projecting import Projections
from roomlore.config import Settings
from roomlore.domain.errors import BackendUnavailable, BadInput, ModelUnavailable, NotFound
from roomlore.domain.ids import OrgId
from roomlore.domain.records import Viewer
from roomlore.store import generations, projections
from roomlore.store.db import Database
from roomlore.workers.rounds import Scheduler, orgs

#: How often a worker looks whether a copy holds the vectors of another model.
REFRESH_SECONDS = 30.0

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionRefresher:
    """Builds copies with the vectors of the model that was switched to."""

    db: Database
    settings: Settings
    models: EmbeddingModels

    async def refresh(self, only_org: OrgId | None) -> None:
        """See to the copies of an org, or of all."""
        if self.settings.qdrant is not None:
            for org_id in await orgs(self.db, only_org):
                await self._refresh_org(org_id)

    async def run(self, stop: asyncio.Event) -> None:
        """See to the copies of all orgs until told to stop."""
        if self.settings.qdrant is not None:
            await Scheduler(db=self.db, visit=self._refresh_org, task_name="copies", interval=REFRESH_SECONDS).run(stop)

    async def _refresh_org(self, org_id: OrgId) -> None:
        """Build the copy of an org anew, beside the one that is read, where it holds vectors of another model."""
        operator = Viewer.operator(org_id)
        async with self.db.read_transaction(operator) as conn:
            current = (await generations.all_versions(conn, org_id)).get("current")
            held = await projections.all_projections(conn, org_id)
        copy = next((one for one in held if one.target == "qdrant"), None)
        if current is None or current.model is None or copy is None:
            return
        if (copy.next_model or copy.model) == current.model:
            return
        projecting = Projections(
            access=Access(db=self.db, org_id=org_id, principal=operator),
            settings=self.settings,
            load=partial(self.models.current, org_id),
        )
        try:
            await projecting.rebuild("qdrant", again=True)
        except NotFound:
            # Dropped since it was looked for: nobody wants it any more.
            LOG.info("there is no copy to be built anew any more")
        except (BackendUnavailable, BadInput, ModelUnavailable) as error:
            # The copy's own status tells of its server, that of the models of a model.
            LOG.warning("the copy is not built anew: %s", error.why)
