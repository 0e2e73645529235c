"""Copies in other servers follow the embedding model that searches use: after a switch they are built anew."""

import asyncio
import logging
from dataclasses import dataclass
from functools import partial

from roomlore.app.desk import Desk
from roomlore.app.embedding import Models
from roomlore.app.projecting import Projecting
from roomlore.config import Settings
from roomlore.domain.errors import BackendUnavailable, BadInput, ModelUnavailable, NotFound
from roomlore.domain.ids import OrgId
from roomlore.domain.records import Viewer
from roomlore.store import generations, projections
from roomlore.store.db import Database
from roomlore.workers.rounds import Rounds, orgs

#: How often a worker looks whether a copy holds the vectors of another model.
EVERY_SECONDS = 30.0

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """Builds copies with the vectors of the model that was switched to."""

    db: Database
    settings: Settings
    models: Models

    async def once(self, only_org: OrgId | None) -> None:
        """See to the copies of an org, or of all."""
        if self.settings.qdrant is not None:
            for org_id in await orgs(self.db, only_org):
                await self._visit(org_id)

    async def run(self, stop: asyncio.Event) -> None:
        """See to the copies of all orgs until told to stop."""
        if self.settings.qdrant is not None:
            await Rounds(db=self.db, visit=self._visit, doing="copies", every=EVERY_SECONDS).run(stop)

    async def _visit(self, org_id: OrgId) -> None:
        """Build the copy of an org anew, beside the one that is read, where it holds vectors of another model."""
        operator = Viewer.operator(org_id)
        async with self.db.reading(operator) as conn:
            current = (await generations.all_of(conn, org_id)).get("current")
            held = await projections.all_of(conn, org_id)
        copy = next((one for one in held if one.target == "qdrant"), None)
        if current is None or current.model is None or copy is None:
            return
        if (copy.next_model or copy.model) == current.model:
            return
        projecting = Projecting(
            desk=Desk(db=self.db, org_id=org_id, caller=operator),
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
