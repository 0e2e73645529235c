"""Work that follows from what was stored: done until nothing waits, or as it comes."""

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from roomlore.agents.chores import agent_tasks, drain_agents
from roomlore.app import copies
from roomlore.app.desk import Access
from roomlore.app.embedding import EmbeddingModels
from roomlore.app.following import ProjectionRefresher
from roomlore.app.naming import drain_language_model, language_model_tasks
from roomlore.config import Settings
from roomlore.domain.ids import OrgId, uuid7
from roomlore.store import extracting, work
from roomlore.store.generations import STATE_OF_QUEUE
from roomlore.store.queries import Connection
from roomlore.workers import extract, generations, loop, retain
from roomlore.workers.beating import HeartbeatTask
from roomlore.workers.extract import ExtractionWorker, RuleExtractor
from roomlore.workers.generations import EmbeddingVersionWorker
from roomlore.workers.listen import PrivacyRequestWorker
from roomlore.workers.untangle import DisentanglementWorker


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """The work of an org, or of every org of the database; the operator's."""

    access: Access
    settings: Settings
    models: EmbeddingModels
    #: Starts the embedded server again; None where the server is somebody else's.
    reconnect: loop.Reconnect | None = None

    async def drain(
        self,
        progress: loop.Progress | None = None,
        *,
        untangled: loop.Progress | None = None,
        every_org: bool = False,
    ) -> loop.DrainResult:
        """Do all the work that is waiting or missing, and return what was done.

        Args:
            progress: Told of each batch that was embedded.
            untangled: Told of each portion of a room that was gone through.
            every_org: The work of all orgs in the database.
        """
        await self.access.audit_work("work", every_org=every_org)
        db, only_org = self.access.db, None if every_org else self.access.org_id
        worker, renewing = self._embedding("embed"), self._embedding("reembed")
        gone = await retain.expire_everywhere(db, now=datetime.now(UTC), only_org=only_org)
        # Before memories are drawn: nothing is drawn from a request.
        listened = await loop.drain(db, PrivacyRequestWorker(db=db), only_org=only_org)
        gone_through = await self._disentangle(untangled, only_org)
        drawn = await extract.drain(self._rule_extraction, only_org=only_org)
        await drain_agents(db, only_org)
        # Before anything is embedded: what comes of it is, too.
        await drain_language_model(db, self.settings.language_model, only_org)
        drained = await generations.drain(worker, only_org=only_org, progress=progress)
        renewed = await generations.drain(renewing, only_org=only_org, progress=progress)
        await self._projection_refresher.refresh(only_org)
        return replace(
            drained,
            done=drained.done + renewed.done,
            failing=await copies.write_pending(db, self.settings, only_org),
            unembedded=list(dict.fromkeys([*worker.failing, *renewing.failing])),
            expired=retain.message_count(gone),
            untangled=gone_through.done,
            remembered=drawn.added,
            set_aside=await self._count_failed(only_org) + gone_through.set_aside + listened.set_aside,
        )

    async def untangle(self, progress: loop.Progress | None = None) -> loop.DrainResult:
        """Find what the messages of this org answer and put them into conversations; return what was done."""
        await self.access.audit_work("untangle")
        return await self._disentangle(progress, self.access.org_id)

    async def _disentangle(self, progress: loop.Progress | None, only_org: OrgId | None) -> loop.DrainResult:
        worker = DisentanglementWorker(db=self.access.db)
        return await loop.drain(self.access.db, worker, only_org=only_org, progress=progress)

    async def run(
        self,
        stop: asyncio.Event,
        progress: loop.Progress | None = None,
        expired: retain.OnExpired | None = None,
    ) -> None:
        """Do work as it comes, of every org in the database, until told to stop.

        Args:
            stop: Ends the work once it is set.
            progress: Told of each batch that was embedded.
            expired: Told how many messages were erased, each time that rooms no longer kept some.
        """
        await self.access.audit_work("work", every_org=True)
        db = self.access.db
        worker, renewing = self._embedding("embed"), self._embedding("reembed")
        chores: list[loop.PeriodicTask] = [
            HeartbeatTask(db=db, worker_id=uuid7(), started_at=datetime.now(UTC)).run,
            partial(retain.run, db, on_expired=expired),
            lambda stop: loop.run(db, PrivacyRequestWorker(db=db), stop=stop),
            lambda stop: loop.run(db, DisentanglementWorker(db=db), stop=stop),
            lambda stop: loop.run(db, renewing, stop=stop, progress=progress),
            worker.watch,
            renewing.watch,
            self._projection_refresher.run,
            partial(extract.run, self._rule_extraction),
            *agent_tasks(db),
            *language_model_tasks(db, self.settings.language_model),
            partial(copies.follow_changes, db, self.settings),
        ]
        await loop.run(db, worker, stop=stop, reconnect=self.reconnect, progress=progress, tasks=chores)

    async def waiting(self, stage: work.QueueName = "embed", *, every_org: bool = False) -> work.WorkCount:
        """Return how much of a stage waits and was set aside, messages or rooms, in this org or in every one."""
        await self.access.audit_work("count work", every_org=every_org)
        async with self.access.db.system_connection() as conn:
            return await work.count(conn, stage, None if every_org else self.access.org_id)

    async def retry(self, *, every_org: bool = False) -> int:
        """Let what was set aside be tried again, in this org or in every one, and return how much that is."""
        await self.access.audit_work("retry work", every_org=every_org)
        async with self.access.db.system_connection() as conn:
            org_ids = await work.org_ids(conn) if every_org else [self.access.org_id]
        return sum([await self.access.db.change(org_id, partial(_retry, org_id=org_id)) for org_id in org_ids])

    async def _count_failed(self, only_org: OrgId | None) -> int:
        # Asked for when all is done: what one model could not embed may be another's by then.
        async with self.access.db.system_connection() as conn:
            counts = [await work.count(conn, stage, only_org) for stage in STATE_OF_QUEUE]
        return sum(count.set_aside for count in counts)

    def _embedding(self, queue: work.QueueName) -> EmbeddingVersionWorker:
        return EmbeddingVersionWorker(db=self.access.db, models=self.models, queue=queue)

    @property
    def _projection_refresher(self) -> ProjectionRefresher:
        return ProjectionRefresher(db=self.access.db, settings=self.settings, models=self.models)

    @property
    def _rule_extraction(self) -> ExtractionWorker:
        return ExtractionWorker(db=self.access.db, extractor=RuleExtractor())


async def _retry(conn: Connection, org_id: OrgId) -> int:
    again = [await work.retry(conn, org_id, stage) for stage in work.QUEUE_NAMES]
    return sum(again) + await extracting.retry(conn, org_id)
