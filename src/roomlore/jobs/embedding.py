"""Embeds messages and memories for dense search."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from roomlore.db import embedding_versions, erasure_guard, work_queue
from roomlore.db.database import Database
from roomlore.db.embedding_versions import STATE_OF_QUEUE, EmbeddingVersion
from roomlore.db.queries import Connection
from roomlore.db.work_queue import QueueName, Task, TextToEmbed
from roomlore.domain.errors import BadInput, ModelUnavailable, TextRefused
from roomlore.domain.ids import OrgId
from roomlore.domain.ports import Embedder
from roomlore.domain.records import Viewer
from roomlore.jobs import runner
from roomlore.jobs.scheduler import Scheduler, orgs

#: Up to this many vectors, an exact scan is fast enough and no index is built.
MIN_INDEX_SIZE = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingWorker(runner.QueueWorker):
    """Embeds messages and memories that have no vector of one model."""

    queue: QueueName = "embed"
    batch: int = 256
    embedder: Embedder
    min_index_size: int = MIN_INDEX_SIZE
    #: Called in the writing transaction. It returns whether the model is still the current one. If it is not, the
    #: vectors are dropped and the tasks are released.
    is_still_wanted: Callable[[Connection], Awaitable[bool]] | None = None

    async def begin(self, only_org: OrgId | None) -> None:
        """Enqueue all messages and memories without a vector of this model; drop unneeded vectors.

        If the model is new, all messages and memories are enqueued.
        """
        for org_id in await orgs(self.db, only_org):
            await self.db.change(org_id, partial(self._enqueue_missing, org_id=org_id))
            await self.db.change(org_id, partial(work_queue.drop_unneeded, org_id=org_id))

    async def _enqueue_missing(self, conn: Connection, org_id: OrgId) -> None:
        # The lock waits for erasures, so that no task is added for what is being erased.
        await erasure_guard.lock_shared(conn, org_id)
        model, with_tokens = self.embedder.model_id, self.embedder.has_token_vectors
        await work_queue.enqueue_missing(conn, org_id, model, with_tokens=with_tokens, queue=self.queue)

    async def do(self, org_id: OrgId, tasks: Sequence[Task]) -> int:
        """Embed the subjects of these tasks and write their vectors.

        Some subjects need no vector and are skipped, for example replies in a room that embeds whole threads.
        """
        async with self.db.read_transaction(Viewer.operator(org_id)) as conn:
            texts = await work_queue.texts_to_embed(conn, org_id, [task.subject_id for task in tasks])
        embeddings = await asyncio.to_thread(
            self.embedder.embed_with_tokens, [text_to_embed(text) for text in texts]
        )

        async def write(conn: Connection) -> None:
            if self.is_still_wanted is not None and not await self.is_still_wanted(conn):
                await work_queue.release(conn, org_id, self.queue, tasks)
                return
            current = await work_queue.finish(conn, org_id, self.queue, tasks)
            indexes = [index for index, text in enumerate(texts) if text.subject_id in current]
            ids = [texts[index].subject_id for index in indexes]
            tokens = None if embeddings.tokens is None else [embeddings.tokens[index] for index in indexes]
            await work_queue.put_embeddings(
                conn, org_id, self.embedder.model_id, ids, vectors=embeddings.vectors[indexes], tokens=tokens
            )

        await self.db.change(org_id, write)
        return len(tasks)

    async def tidy(self) -> None:
        """Build the vector indexes that are large enough to be useful, and refresh the planner's statistics."""
        await build_indexes(self.db, min_index_size=self.min_index_size)


async def build_indexes(db: Database, *, min_index_size: int = MIN_INDEX_SIZE) -> None:
    """Build the vector indexes that are large enough to be useful, and refresh the planner's statistics.

    Indexes are built after the vectors, because an index that is updated row by row would slow embedding down.
    """
    built = 1
    while built:
        async with db.system_connection() as conn:
            built = await work_queue.build_vector_indexes(conn, worth_it=min_index_size)
    async with db.system_connection() as conn:
        await work_queue.refresh_statistics(conn)


def text_to_embed(text: TextToEmbed) -> str:
    """Return the text to embed.

    The text of a message includes its author, so that questions about who said something match.
    """
    return text.body if text.author_name is None else f"{text.author_name}: {text.body}"


#: The pause before the worker tries a failed model again.
BACKOFF_SECONDS = 30.0
#: The pause between two rounds. A round probes models that are down, and switches to versions that are complete.
POLL_SECONDS = 5.0
#: The number of unused vectors that one transaction removes.
CHUNK_SIZE = 5_000

LOG = logging.getLogger(__name__)


class EmbeddingModelSource(Protocol):
    """Loads embedding models by name."""

    @property
    def default(self) -> str:
        """The name of the default model."""
        ...

    async def load(self, name: str) -> Embedder:
        """Return a model by name. Raises BadInput or ModelUnavailable."""
        ...

    async def warm_up(self, name: str) -> Embedder:
        """Return a model. Give its server time to load it. Raises BadInput or ModelUnavailable."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOutage:
    """A model that is down."""

    provider: str
    reason: str
    #: The time of the next attempt, by the worker's clock.
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingVersionWorker(runner.QueueWorker):
    """Embeds the texts of all orgs.

    The queue `embed` is for the current model of an org, the queue `reembed` for its next model.
    """

    queue: QueueName = "embed"
    batch: int = 256
    models: EmbeddingModelSource
    #: Monotonic seconds.
    clock: Callable[[], float] = time.monotonic
    #: The outage of each org's model, including orgs for which work could not begin.
    outages: dict[OrgId, ModelOutage] = field(default_factory=dict[OrgId, ModelOutage])
    _not_started: set[OrgId] = field(default_factory=set[OrgId])

    def orgs_backing_off(self) -> Sequence[OrgId]:
        """Return the orgs whose model is down."""
        return list(self.outages)

    @property
    def failing(self) -> list[str]:
        """The models that are down, with the reasons."""
        return sorted({f"{one.provider}: {one.reason}" for one in self.outages.values()})

    async def begin(self, only_org: OrgId | None) -> None:
        """Enqueue all messages and memories without a vector, and drop unused vectors.

        If the model is new, all messages and memories are enqueued.
        """
        for org_id in await orgs(self.db, only_org):
            await self._begin(org_id)

    async def do(self, org_id: OrgId, tasks: Sequence[Task]) -> int:
        """Embed the subjects of these tasks; return 0 while the org's model is down."""
        version = await self._current_version(org_id)
        if version is None:
            # Vectors for a model whose switch was cancelled are not written.
            await self.db.change(
                org_id, partial(work_queue.finish, org_id=org_id, queue=self.queue, tasks=tasks)
            )
            return 0
        try:
            worker = await self._worker(org_id, version)
            return await worker.do(org_id, tasks)
        except ModelUnavailable as error:
            await self._note_unreachable(org_id, version, error)
            await self.db.change(
                org_id, partial(work_queue.release, org_id=org_id, queue=self.queue, tasks=tasks)
            )
            return 0

    async def tidy(self) -> None:
        """Build the vector indexes that are large enough to be useful. `watch` and `drain` switch versions."""
        await build_indexes(self.db)

    async def switch_ready(self, only_org: OrgId | None) -> None:
        """Switch every org to its next model if this model has embedded everything."""
        if self.queue == "reembed":
            for org_id in await orgs(self.db, only_org):
                await self._switch_if_ready(org_id)

    async def watch(self, stop: asyncio.Event) -> None:
        """Probe models that are down, and switch complete versions, until told to stop."""
        await Scheduler(db=self.db, visit=self._watch_org, task_name="embedding", interval=POLL_SECONDS).run(
            stop
        )

    async def _watch_org(self, org_id: OrgId) -> None:
        outage = self.outages.get(org_id)
        if outage is not None and self.clock() >= outage.until:
            await self._probe_model(org_id)
        if org_id not in self.outages:
            if org_id in self._not_started:
                await self._begin(org_id)
            elif self.queue == "reembed":
                await self._switch_if_ready(org_id)

    async def _begin(self, org_id: OrgId) -> None:
        self._not_started.discard(org_id)
        version = await self._current_version(org_id)
        if version is None:
            return
        try:
            worker = await self._worker(org_id, version)
        except ModelUnavailable as error:
            self._not_started.add(org_id)
            await self._note_unreachable(org_id, version, error)
            return
        await worker.begin(org_id)
        if self.queue == "reembed":
            await self._switch_if_ready(org_id)
            return
        async with self.db.read_transaction(Viewer.operator(org_id)) as conn:
            is_behind = await embedding_versions.is_behind(conn, org_id, worker.embedder.model_id)
        # This worker's default model may differ from the searchers' default model. In this case, it must not delete the
        # vectors that they use.
        if not is_behind:
            await delete_unused_vectors(self.db, org_id)

    async def _probe_model(self, org_id: OrgId) -> None:
        """Probe a model of an org that was down. If the model works again, resume all orgs that use it."""
        outage, version = self.outages[org_id], await self._current_version(org_id)
        if version is None or version.provider != outage.provider:
            del self.outages[org_id]
        if version is None:
            return
        if version.provider == outage.provider:
            # Other orgs with this model wait for the result of this probe.
            affected = [each for each, away in self.outages.items() if away.provider == outage.provider]
            try:
                embedder = await _open_embedder(self.models.warm_up(version.provider))
                with contextlib.suppress(TextRefused):
                    # A server that refuses this text is not down.
                    await asyncio.to_thread(embedder.embed, ["hello"])
            except ModelUnavailable as error:
                LOG.warning("%s: %s; trying again", version.provider, error.why)
                for each in affected:
                    await self._note_unreachable(each, version, error)
                return
            for each in affected:
                self.outages.pop(each, None)
                await self._note_reachable(each, version, embedder, was_away=True)
        await self.db.change(org_id, partial(work_queue.wake, queue=self.queue))

    async def _switch_if_ready(self, org_id: OrgId) -> None:
        version = await self._current_version(org_id)
        if version is None or org_id in self.outages:
            return
        async with self.db.read_transaction(Viewer.operator(org_id)) as conn:
            if await embedding_versions.has_pending(conn, org_id):
                return
        try:
            embedder = (await self._worker(org_id, version)).embedder
        except ModelUnavailable as error:
            await self._note_unreachable(org_id, version, error)
            return
        if await self.db.change(
            org_id, partial(_switch_version, org_id=org_id, version=version, embedder=embedder)
        ):
            LOG.info("searches use the vectors of %s now", embedder.model_id)
            await delete_unused_vectors(self.db, org_id)

    async def _current_version(self, org_id: OrgId) -> EmbeddingVersion | None:
        """Return the version for which to embed; None if no switch is requested."""
        state = STATE_OF_QUEUE[self.queue]
        async with self.db.read_transaction(Viewer.operator(org_id)) as conn:
            version = (await embedding_versions.all_versions(conn, org_id)).get(state)
        if version is None and state == "current":
            return EmbeddingVersion(state=state, provider=self.models.default)
        return version

    async def _worker(self, org_id: OrgId, version: EmbeddingVersion) -> EmbeddingWorker:
        """Return the worker for a version. Raises ModelUnavailable."""
        for outage in self.outages.values():
            # One timeout is enough: the other orgs with this model do not wait again.
            if outage.provider == version.provider:
                raise ModelUnavailable(outage.reason, cure="wait until it is back")
        embedder = await _open_embedder(self.models.load(version.provider))
        await self._note_reachable(org_id, version, embedder)
        is_unchanged = partial(
            embedding_versions.is_unchanged,
            org_id=org_id,
            state=version.state,
            provider=version.provider,
            default=self.models.default,
        )
        return EmbeddingWorker(
            db=self.db, embedder=embedder, batch=self.batch, queue=self.queue, is_still_wanted=is_unchanged
        )

    async def _note_reachable(
        self, org_id: OrgId, version: EmbeddingVersion, embedder: Embedder, *, was_away: bool = False
    ) -> None:
        known = (version.model, version.dimensions)
        if version.since is not None and (was_away or known != (embedder.model_id, embedder.dimensions)):
            record = partial(
                embedding_versions.record_reached,
                org_id=org_id,
                provider=version.provider,
                model=embedder.model_id,
                dimensions=embedder.dimensions,
            )
            await self.db.change(org_id, record)

    async def _note_unreachable(
        self, org_id: OrgId, version: EmbeddingVersion, error: ModelUnavailable
    ) -> None:
        if org_id not in self.outages:
            LOG.warning("%s: %s; trying again", version.provider, error.why)
        until = self.clock() + BACKOFF_SECONDS
        self.outages[org_id] = ModelOutage(provider=version.provider, reason=error.why, until=until)
        record = partial(
            embedding_versions.record_outage,
            org_id=org_id,
            provider=version.provider,
            error=error.why,
            is_unchosen=version.since is None,
        )
        await self.db.change(org_id, record)


async def _open_embedder(opening: Awaitable[Embedder]) -> Embedder:
    try:
        return await opening
    except BadInput as error:
        raise ModelUnavailable(f"{error.what}: {error.why}", cure="see how it is named") from error


async def _switch_version(
    conn: Connection, org_id: OrgId, version: EmbeddingVersion, embedder: Embedder
) -> bool:
    """Switch to the next model, unless some texts have no vector or the switch was cancelled."""
    # The lock waits for erasures, and keeps out other writers of vectors.
    await erasure_guard.lock_shared(conn, org_id)
    await embedding_versions.lock_embeddings(conn, org_id)
    next_version = (await embedding_versions.all_versions(conn, org_id)).get("next")
    if next_version is None or next_version.provider != version.provider:
        return False
    added = await work_queue.enqueue_missing(
        conn, org_id, embedder.model_id, with_tokens=embedder.has_token_vectors, queue="reembed"
    )
    if added:
        return False
    progress = await embedding_versions.progress(conn, org_id, embedder.model_id, queue="reembed")
    if progress.done * 2 < progress.total:
        # A model that refuses most texts is useless for search.
        why = f"it embedded {progress.done:,} of {progress.total:,} texts"
        await embedding_versions.record_outage(conn, org_id, version.provider, error=why)
        return False
    return await embedding_versions.promote_next(conn, org_id, embedder.model_id)


async def drain(
    worker: EmbeddingVersionWorker, *, only_org: OrgId | None = None, progress: runner.Progress | None = None
) -> runner.DrainResult:
    """Embed everything pending, and switch complete versions; return what was done."""
    done = 0
    while True:
        drained = await runner.drain(worker, only_org=only_org, progress=progress)
        done += drained.done
        with work_queue.translate_connection_errors():
            await worker.switch_ready(only_org)
            async with worker.db.system_connection() as conn:
                # New texts may have arrived in the meantime.
                left = await work_queue.count(conn, worker.queue, only_org, without=worker.orgs_backing_off())
        if not left.waiting:
            return replace(drained, done=done)


async def delete_unused_vectors(db: Database, org_id: OrgId) -> None:
    """Remove unused vectors in chunks."""
    async with db.read_transaction(Viewer.operator(org_id)) as conn:
        unused = await embedding_versions.unused_models(conn, org_id)
    for model in unused:
        drop = partial(_delete_chunk, org_id=org_id, model=model)
        while await db.change(org_id, drop):
            pass


async def _delete_chunk(conn: Connection, org_id: OrgId, model: str) -> int:
    await embedding_versions.lock_embeddings(conn, org_id)
    # A switch that began in the meantime may need this model.
    if model not in await embedding_versions.unused_models(conn, org_id):
        return 0
    return await embedding_versions.drop_vectors(conn, org_id, model, limit=CHUNK_SIZE)
