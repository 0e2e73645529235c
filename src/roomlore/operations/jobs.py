"""Work that follows from what was stored: done until nothing waits, or as it comes."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from roomlore.agents.injection import InjectionWorker
from roomlore.agents.interactions import InteractionWorker
from roomlore.db import extraction_state, work_queue
from roomlore.db.database import Database
from roomlore.db.embedding_versions import STATE_OF_QUEUE
from roomlore.db.queries import Connection
from roomlore.domain.ids import OrgId, uuid7
from roomlore.jobs import embedding, expiry, extraction, llm_client, llm_extraction, runner, titles
from roomlore.jobs.disentanglement import DisentanglementWorker
from roomlore.jobs.embedding import EmbeddingVersionWorker
from roomlore.jobs.extraction import ExtractionWorker, RuleExtractor
from roomlore.jobs.llm_client import LanguageModelCaller
from roomlore.jobs.llm_extraction import LanguageModelExtractionWorker
from roomlore.jobs.privacy_requests import PrivacyRequestWorker
from roomlore.jobs.scheduler import HeartbeatTask
from roomlore.jobs.titles import TitleWorker
from roomlore.models.chat_model import open_language_model
from roomlore.operations import projection_service
from roomlore.operations.access import Access
from roomlore.operations.embedding_models import EmbeddingModels
from roomlore.operations.projection_service import ProjectionRefresher
from roomlore.settings import LanguageModelSettings, Settings

#: Of what is stated in a portion of a conversation; a statement needs some hundred.
MAX_CLAIM_TOKENS = 1_500
#: Before it is taken for lost: so many tokens take a small machine a while.
CLAIM_TIMEOUT_SECONDS = 120.0


def language_model_tasks(
    db: Database, settings: LanguageModelSettings | None
) -> Sequence[runner.PeriodicTask]:
    """Return what a running worker does to name and to read conversations: nothing without a language model.

    Raises:
        BadInput: one is named, and what asks it is not installed.
    """
    if settings is None:
        return ()
    return partial(llm_client.run, _title_worker(db, settings)), partial(
        llm_client.run, claim_worker(db, settings)
    )


async def drain_language_model(
    db: Database, settings: LanguageModelSettings | None, only_org: OrgId | None
) -> int:
    """Name and read the conversations that wait, in one org or in all, and return how many were read.

    Raises:
        BadInput: a language model is named, and what asks it is not installed.
    """
    if settings is None:
        return 0
    await llm_client.drain(_title_worker(db, settings), only_org=only_org)
    return (await llm_client.drain(claim_worker(db, settings), only_org=only_org))["read"]


def claim_worker(db: Database, settings: LanguageModelSettings) -> LanguageModelExtractionWorker:
    """Return what asks a language model what is stated in conversations.

    Raises:
        BadInput: what asks it is not installed.
    """
    language_model = open_language_model(
        settings.url, settings.name, key=settings.key, seconds=CLAIM_TIMEOUT_SECONDS, tokens=MAX_CLAIM_TOKENS
    )
    return LanguageModelExtractionWorker(
        caller=LanguageModelCaller(db=db, language_model=language_model, purpose=llm_extraction.PURPOSE),
        calls=settings.memory_calls,
        calls_of_room=settings.room_calls,
    )


def _title_worker(db: Database, settings: LanguageModelSettings) -> TitleWorker:
    language_model = open_language_model(settings.url, settings.name, key=settings.key)
    caller = LanguageModelCaller(db=db, language_model=language_model, purpose=titles.PURPOSE)
    return TitleWorker(caller=caller, calls=settings.calls)


def agent_tasks(db: Database) -> Sequence[runner.PeriodicTask]:
    """Return what a running worker does for agents."""

    async def remember(stop: asyncio.Event) -> None:
        await runner.run(db, InteractionWorker(db=db), stop=stop)

    async def inject(stop: asyncio.Event) -> None:
        await runner.run(db, InjectionWorker(db=db), stop=stop)

    return remember, inject


async def drain_agents(db: Database, only_org: OrgId | None) -> None:
    """Do what waits for agents, in one org or in all; what is remembered now may be given at once."""
    await runner.drain(db, InteractionWorker(db=db), only_org=only_org)
    await runner.drain(db, InjectionWorker(db=db), only_org=only_org)


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """The work of an org, or of every org of the database; the operator's."""

    access: Access
    settings: Settings
    models: EmbeddingModels
    #: Starts the embedded server again; None where the server is somebody else's.
    reconnect: runner.Reconnect | None = None

    async def drain(
        self,
        progress: runner.Progress | None = None,
        *,
        untangled: runner.Progress | None = None,
        every_org: bool = False,
    ) -> runner.DrainResult:
        """Do all the work that is waiting or missing, and return what was done.

        Args:
            progress: Told of each batch that was embedded.
            untangled: Told of each portion of a room that was gone through.
            every_org: The work of all orgs in the database.
        """
        await self.access.audit_work("work", every_org=every_org)
        db, only_org = self.access.db, None if every_org else self.access.org_id
        worker, renewing = self._embedding("embed"), self._embedding("reembed")
        gone = await expiry.expire_everywhere(db, now=datetime.now(UTC), only_org=only_org)
        # Before memories are drawn: nothing is drawn from a request.
        listened = await runner.drain(db, PrivacyRequestWorker(db=db), only_org=only_org)
        gone_through = await self._disentangle(untangled, only_org)
        drawn = await extraction.drain(self._rule_extraction, only_org=only_org)
        await drain_agents(db, only_org)
        # Before anything is embedded: what comes of it is, too.
        await drain_language_model(db, self.settings.language_model, only_org)
        drained = await embedding.drain(worker, only_org=only_org, progress=progress)
        renewed = await embedding.drain(renewing, only_org=only_org, progress=progress)
        await self._projection_refresher.refresh(only_org)
        return replace(
            drained,
            done=drained.done + renewed.done,
            failing=await projection_service.write_pending(db, self.settings, only_org),
            unembedded=list(dict.fromkeys([*worker.failing, *renewing.failing])),
            expired=expiry.message_count(gone),
            untangled=gone_through.done,
            remembered=drawn.added,
            set_aside=await self._count_failed(only_org) + gone_through.set_aside + listened.set_aside,
        )

    async def untangle(self, progress: runner.Progress | None = None) -> runner.DrainResult:
        """Find what the messages of this org answer and put them into conversations; return what was done."""
        await self.access.audit_work("untangle")
        return await self._disentangle(progress, self.access.org_id)

    async def _disentangle(
        self, progress: runner.Progress | None, only_org: OrgId | None
    ) -> runner.DrainResult:
        worker = DisentanglementWorker(db=self.access.db)
        return await runner.drain(self.access.db, worker, only_org=only_org, progress=progress)

    async def run(
        self,
        stop: asyncio.Event,
        progress: runner.Progress | None = None,
        expired: expiry.OnExpired | None = None,
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
        chores: list[runner.PeriodicTask] = [
            HeartbeatTask(db=db, worker_id=uuid7(), started_at=datetime.now(UTC)).run,
            partial(expiry.run, db, on_expired=expired),
            lambda stop: runner.run(db, PrivacyRequestWorker(db=db), stop=stop),
            lambda stop: runner.run(db, DisentanglementWorker(db=db), stop=stop),
            lambda stop: runner.run(db, renewing, stop=stop, progress=progress),
            worker.watch,
            renewing.watch,
            self._projection_refresher.run,
            partial(extraction.run, self._rule_extraction),
            *agent_tasks(db),
            *language_model_tasks(db, self.settings.language_model),
            partial(projection_service.follow_changes, db, self.settings),
        ]
        await runner.run(db, worker, stop=stop, reconnect=self.reconnect, progress=progress, tasks=chores)

    async def waiting(
        self, stage: work_queue.QueueName = "embed", *, every_org: bool = False
    ) -> work_queue.WorkCount:
        """Return how much of a stage waits and was set aside, messages or rooms, in this org or in every one."""
        await self.access.audit_work("count work", every_org=every_org)
        async with self.access.db.system_connection() as conn:
            return await work_queue.count(conn, stage, None if every_org else self.access.org_id)

    async def retry(self, *, every_org: bool = False) -> int:
        """Let what was set aside be tried again, in this org or in every one, and return how much that is."""
        await self.access.audit_work("retry work", every_org=every_org)
        async with self.access.db.system_connection() as conn:
            org_ids = await work_queue.org_ids(conn) if every_org else [self.access.org_id]
        return sum(
            [await self.access.db.change(org_id, partial(_retry, org_id=org_id)) for org_id in org_ids]
        )

    async def _count_failed(self, only_org: OrgId | None) -> int:
        # Asked for when all is done: what one model could not embed may be another's by then.
        async with self.access.db.system_connection() as conn:
            counts = [await work_queue.count(conn, stage, only_org) for stage in STATE_OF_QUEUE]
        return sum(count.set_aside for count in counts)

    def _embedding(self, queue: work_queue.QueueName) -> EmbeddingVersionWorker:
        return EmbeddingVersionWorker(db=self.access.db, models=self.models, queue=queue)

    @property
    def _projection_refresher(self) -> ProjectionRefresher:
        return ProjectionRefresher(db=self.access.db, settings=self.settings, models=self.models)

    @property
    def _rule_extraction(self) -> ExtractionWorker:
        return ExtractionWorker(db=self.access.db, extractor=RuleExtractor())


async def _retry(conn: Connection, org_id: OrgId) -> int:
    again = [await work_queue.retry(conn, org_id, stage) for stage in work_queue.QUEUE_NAMES]
    return sum(again) + await extraction_state.retry(conn, org_id)
