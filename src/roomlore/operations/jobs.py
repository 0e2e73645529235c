"""Background jobs, which run until nothing waits or as work arrives; and extraction of memories on request."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from roomlore.agents.injection import InjectionWorker
from roomlore.agents.interactions import InteractionWorker
from roomlore.db import extraction_state, llm_calls, work_queue
from roomlore.db.database import Database
from roomlore.db.embedding_versions import STATE_OF_QUEUE
from roomlore.db.llm_calls import LlmCall
from roomlore.db.queries import Connection
from roomlore.domain.errors import NotFound
from roomlore.domain.ids import ConversationId, OrgId, uuid7
from roomlore.jobs import embedding, expiry, runner
from roomlore.jobs.disentanglement import DisentanglementWorker
from roomlore.jobs.embedding import EmbeddingVersionWorker
from roomlore.jobs.extraction import BATCH, ExtractionWorker
from roomlore.jobs.llm_client import LanguageModelWorker
from roomlore.jobs.llm_extraction import ExtractionRun, LanguageModelExtractionWorker
from roomlore.jobs.message_reading import MessageReader
from roomlore.jobs.scheduler import HeartbeatTask
from roomlore.jobs.titles import TitleWorker
from roomlore.memories.model_extractor import ModelExtractor
from roomlore.memories.supersession import BundledRelations
from roomlore.models.http_models import open_language_model
from roomlore.operations import projection_service
from roomlore.operations.access import Access, check_limit
from roomlore.operations.embedding_models import EmbeddingModels
from roomlore.operations.projection_service import ProjectionRefresher
from roomlore.search import lookup
from roomlore.settings import LanguageModelSettings, Settings

#: The maximum number of tokens of one extraction answer; one claim needs about a hundred.
MAX_CLAIM_TOKENS = 1_500
#: The timeout of one answer. It is long, because a small machine is slow.
CLAIM_TIMEOUT_SECONDS = 120.0


def claim_worker(db: Database, settings: LanguageModelSettings) -> LanguageModelExtractionWorker:
    """Return the worker that extracts claims with a language model.

    Raises:
        BadInput: its package is not installed.
    """
    language_model = open_language_model(
        settings.url, settings.name, key=settings.key, seconds=CLAIM_TIMEOUT_SECONDS, tokens=MAX_CLAIM_TOKENS
    )
    return LanguageModelExtractionWorker(
        db=db,
        language_model=language_model,
        calls=settings.memory_calls,
        calls_of_room=settings.room_calls,
    )


def extraction_worker(db: Database, *, batch: int = BATCH) -> ExtractionWorker:
    """Return the worker that extracts memories with the message model."""
    return ExtractionWorker(db=db, extractor=ModelExtractor(), relations=BundledRelations(), batch=batch)


def _language_model_workers(
    db: Database, settings: LanguageModelSettings | None
) -> Sequence[LanguageModelWorker]:
    """Return the workers for titles and claims; none if no language model is configured."""
    if settings is None:
        return ()
    language_model = open_language_model(settings.url, settings.name, key=settings.key)
    titles = TitleWorker(db=db, language_model=language_model, calls=settings.calls)
    return titles, claim_worker(db, settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """The background jobs of an org, or of every org in the database. For operators."""

    access: Access
    settings: Settings
    models: EmbeddingModels
    #: Starts the embedded server again; None if the database is another server.
    reconnect: runner.Reconnect | None = None

    async def drain(
        self,
        progress: runner.Progress | None = None,
        *,
        disentangled: runner.Progress | None = None,
        every_org: bool = False,
    ) -> runner.DrainResult:
        """Do all work that is waiting or missing, and return what was done.

        Args:
            progress: Called after each batch of embeddings.
            disentangled: Called after each part of a room that was disentangled.
            every_org: Do the work of every org in the database.
        """
        await self.access.audit_work("work", every_org=every_org)
        db, only_org = self.access.db, None if every_org else self.access.org_id
        embedder, reembedder = self._embedding("embed"), self._embedding("reembed")
        gone = await expiry.expire_everywhere(db, now=datetime.now(UTC), only_org=only_org)
        # Privacy requests come first, because no memory may be extracted from them.
        requests = await runner.drain(MessageReader(db=db), only_org=only_org)
        rooms = await self._disentangle(disentangled, only_org)
        extracted = await self._extraction().drain(only_org)
        # Interactions come before injections: a new memory may be injected at once.
        await runner.drain(InteractionWorker(db=db), only_org=only_org)
        await runner.drain(InjectionWorker(db=db), only_org=only_org)
        # Embedding comes last, so that it includes every new memory.
        for llm_worker in _language_model_workers(db, self.settings.language_model):
            await llm_worker.drain(only_org)
        embedded = await embedding.drain(embedder, only_org=only_org, progress=progress)
        reembedded = await embedding.drain(reembedder, only_org=only_org, progress=progress)
        await self._projection_refresher.refresh(only_org)
        return replace(
            embedded,
            done=embedded.done + reembedded.done,
            failing=await projection_service.write_pending(db, self.settings, only_org),
            unembedded=list(dict.fromkeys([*embedder.failing, *reembedder.failing])),
            expired=expiry.message_count(gone),
            disentangled=rooms.done,
            remembered=sum(result.added for result in extracted if result is not None),
            dead_lettered=await self._count_failed(only_org) + rooms.dead_lettered + requests.dead_lettered,
        )

    async def disentangle(self, progress: runner.Progress | None = None) -> runner.DrainResult:
        """Find replies and assign the messages of this org to conversations."""
        await self.access.audit_work("disentangle")
        return await self._disentangle(progress, self.access.org_id)

    async def _disentangle(
        self, progress: runner.Progress | None, only_org: OrgId | None
    ) -> runner.DrainResult:
        worker = DisentanglementWorker(db=self.access.db)
        return await runner.drain(worker, only_org=only_org, progress=progress)

    async def run(
        self,
        stop: asyncio.Event,
        progress: runner.Progress | None = None,
        expired: expiry.OnExpired | None = None,
    ) -> None:
        """Do the work of every org in the database as it arrives, until `stop` is set.

        Args:
            stop: Ends the work.
            progress: Called after each batch of embeddings.
            expired: Called with the number of messages that retention erased.
        """
        await self.access.audit_work("work", every_org=True)
        db, reembedder = self.access.db, self._embedding("reembed")
        policy = replace(runner.DEFAULT_POLICY, poll_seconds=self.settings.workers.pause_seconds)
        workers = [
            MessageReader(db=db),
            DisentanglementWorker(db=db),
            InteractionWorker(db=db),
            InjectionWorker(db=db),
        ]
        embedder = self._embedding("embed")
        tasks: list[runner.PeriodicTask] = [
            HeartbeatTask(db=db, worker_id=uuid7(), started_at=datetime.now(UTC)).run,
            partial(expiry.run, db, on_expired=expired),
            *(_run_worker(worker, policy) for worker in workers),
            lambda stop: runner.run(reembedder, stop=stop, progress=progress, policy=policy),
            embedder.watch,
            reembedder.watch,
            self._projection_refresher.run,
            self._extraction().run,
            *(each.run for each in _language_model_workers(db, self.settings.language_model)),
            partial(projection_service.follow_changes, db, self.settings),
        ]
        await runner.run(
            embedder, stop=stop, reconnect=self.reconnect, progress=progress, tasks=tasks, policy=policy
        )

    async def waiting(
        self, stage: work_queue.QueueName = "embed", *, every_org: bool = False
    ) -> work_queue.WorkCount:
        """Return how many jobs of a queue wait, and how many failed for good.

        They are counted in this org or in every org.
        """
        await self.access.audit_work("count work", every_org=every_org)
        async with self.access.db.system_connection() as conn:
            return await work_queue.count(conn, stage, None if every_org else self.access.org_id)

    async def retry(self, *, every_org: bool = False) -> int:
        """Retry the jobs that failed for good, in this org or in every org; return their number."""
        await self.access.audit_work("retry work", every_org=every_org)
        async with self.access.db.system_connection() as conn:
            org_ids = await work_queue.org_ids(conn) if every_org else [self.access.org_id]
        return sum(
            [await self.access.db.change(org_id, partial(_retry, org_id=org_id)) for org_id in org_ids]
        )

    async def _count_failed(self, only_org: OrgId | None) -> int:
        # They are counted at the end, because the next model may have embedded what the current model could not.
        async with self.access.db.system_connection() as conn:
            counts = [await work_queue.count(conn, queue, only_org) for queue in STATE_OF_QUEUE]
        return sum(count.dead_lettered for count in counts)

    def _embedding(self, queue: work_queue.QueueName) -> EmbeddingVersionWorker:
        batch = self.settings.workers.embedding_batch
        return EmbeddingVersionWorker(db=self.access.db, models=self.models, queue=queue, batch=batch)

    def _extraction(self) -> ExtractionWorker:
        return extraction_worker(self.access.db, batch=self.settings.workers.extraction_batch)

    @property
    def _projection_refresher(self) -> ProjectionRefresher:
        return ProjectionRefresher(db=self.access.db, settings=self.settings, models=self.models)


def _run_worker(worker: runner.QueueWorker, policy: runner.RetryPolicy) -> runner.PeriodicTask:
    return lambda stop: runner.run(worker, stop=stop, policy=policy)


async def _retry(conn: Connection, org_id: OrgId) -> int:
    counts = [await work_queue.retry(conn, org_id, queue) for queue in work_queue.QUEUE_NAMES]
    return sum(counts) + await extraction_state.retry(conn, org_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionResult:
    """The result of an extraction."""

    #: The conversations and messages that the message model processed.
    conversations: int
    messages: int
    #: Memories added by the message model and by a language model.
    added: int
    #: Memories removed because their sources no longer support them.
    released: int
    #: Privacy requests that only the language model found.
    privacy_requests: int
    #: The conversations that a language model processed.
    llm_extracted: int
    #: Conversations that still wait for the language model: the quota is used up, or the model did not answer.
    llm_failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """Extraction of memories on request. For operators."""

    access: Access
    settings: Settings

    async def extract(self, where: str | None = None) -> ExtractionResult:
        """Extract memories from conversations, also from open conversations. Unchanged conversations give nothing new.

        Messages that are not yet assigned to conversations are assigned first.

        Args:
            where: The name or id of a room or conversation, or `message:` and a message. Default: everything.

        Raises:
            NotFound: there is no such room or conversation.
            BadInput: the name is ambiguous.
            NotAllowed: the caller is not an operator.
        """
        await self.access.audit_work("extract")
        db, org_id, now = self.access.db, self.access.org_id, datetime.now(UTC)
        await runner.drain(DisentanglementWorker(db=db), only_org=org_id)
        async with self.access.resolving("extract") as conn:
            ids = await self._resolve(conn, where)
        by_model = await extraction_worker(db).extract(org_id, ids, now=now)
        runs: Sequence[ExtractionRun] = ()
        if self.settings.language_model is not None:
            runs = await claim_worker(db, self.settings.language_model).extract(org_id, ids, now=now)
        read = sum(run.outcome in {"read", "passed"} for run in runs)
        return ExtractionResult(
            conversations=by_model.conversations,
            messages=by_model.messages,
            added=by_model.added + sum(run.result.added for run in runs),
            released=by_model.released + sum(run.result.released for run in runs),
            privacy_requests=sum(run.result.privacy_requests for run in runs),
            llm_extracted=read,
            llm_failed=len(runs) - read,
        )

    async def llm_calls(self, where: str | None = None, *, limit: int = 20) -> list[LlmCall]:
        """Return the language model calls for a conversation, in order.

        Without a conversation, return the newest calls, newest first.

        Args:
            where: A conversation, or `message:` and a message in it.
            limit: The maximum number of calls, if no conversation is named.

        Raises:
            NotFound: there is no such conversation.
            BadInput: the name is ambiguous.
            NotAllowed: the caller is not an operator.
        """
        check_limit(limit)
        await self.access.check("administer", "list language model calls")
        async with self.access.reading(self.access.principal, "list language model calls") as reading:
            conn, org_id = reading.conn, self.access.org_id
            if where is None:
                found = await llm_calls.newest(conn, org_id, limit=limit)
            else:
                conversation_id = await lookup.conversation(conn, org_id, where)
                found = await llm_calls.of_conversation(conn, org_id, conversation_id)
            reading.record_shown({call.conversation_id for call in found})
        return found

    async def _resolve(self, conn: Connection, where: str | None) -> Sequence[ConversationId]:
        org_id = self.access.org_id
        try:
            room_id = None if where is None else await lookup.room(conn, org_id, where)
        except NotFound:
            assert where is not None
            try:
                return [await lookup.conversation(conn, org_id, where)]
            except NotFound as error:
                if error.what != "conversation":
                    raise
                raise NotFound("room or conversation", where) from None
        return await extraction_state.conversations_in(conn, org_id, room_id)
