"""Gives every message and memory that is to have one a vector, so that it can be found by meaning."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from roomlore.db import embedding_versions, erased, work_queue
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

#: Up to this many vectors an exact scan is fast enough, and needs no index to be built and kept up.
MIN_INDEX_SIZE = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingWorker:
    """Embeds messages and memories that have no vector of one model."""

    db: Database
    embedder: Embedder
    batch: int = 256
    queue: QueueName = "embed"
    min_index_size: int = MIN_INDEX_SIZE
    #: Asked in the transaction that writes: whether the model is still the one that is wanted. What it made is left out
    #: otherwise, and its work stays to be done.
    is_still_wanted: Callable[[Connection], Awaitable[bool]] | None = None

    async def begin(self, only_org: OrgId | None) -> None:
        """Ask for the vectors of this model that are missing, as all are when it is new, and drop spare ones."""
        for org_id in await self._orgs(only_org):
            await self.db.change(org_id, partial(self._enqueue_missing, org_id=org_id))
            await self.db.change(org_id, partial(work_queue.drop_unneeded, org_id=org_id))

    async def _enqueue_missing(self, conn: Connection, org_id: OrgId) -> None:
        # Nothing is asked for that an erasure is just taking away.
        await erased.lock_shared(conn, org_id)
        model, with_tokens = self.embedder.model_id, self.embedder.has_token_vectors
        await work_queue.enqueue_missing(conn, org_id, model, with_tokens=with_tokens, queue=self.queue)

    async def _orgs(self, only_org: OrgId | None) -> list[OrgId]:
        if only_org is not None:
            return [only_org]
        async with self.db.system_connection() as conn:
            return await work_queue.org_ids(conn)

    async def do(self, org_id: OrgId, tasks: Sequence[Task]) -> int:
        """Embed the subjects of these tasks, write their vectors and return how many it was about.

        One that is to have no vector is passed over, such as an answer where its room embeds exchanges.
        """
        async with self.db.read_transaction(Viewer.operator(org_id)) as conn:
            wanted = await work_queue.texts_to_embed(conn, org_id, [task.subject_id for task in tasks])
        read = await asyncio.to_thread(
            self.embedder.embed_with_tokens, [text_to_embed(text) for text in wanted]
        )

        async def write(conn: Connection) -> None:
            if self.is_still_wanted is not None and not await self.is_still_wanted(conn):
                await work_queue.release(conn, org_id, self.queue, tasks)
                return
            current = await work_queue.finish(conn, org_id, self.queue, tasks)
            kept = [place for place, text in enumerate(wanted) if text.subject_id in current]
            ids = [wanted[place].subject_id for place in kept]
            tokens = None if read.tokens is None else [read.tokens[place] for place in kept]
            await work_queue.put_embeddings(
                conn, org_id, self.embedder.model_id, ids, vectors=read.vectors[kept], tokens=tokens
            )

        await self.db.change(org_id, write)
        return len(tasks)

    async def tidy(self) -> None:
        """Build the vector indexes that have become worth it, and tell the planner what has changed."""
        await build_indexes(self.db, min_index_size=self.min_index_size)


async def build_indexes(db: Database, *, min_index_size: int = MIN_INDEX_SIZE) -> None:
    """Build the vector indexes that have become worth it, and tell the planner what has changed.

    Kept up row by row, these indexes would slow embedding.
    """
    while await _build_index(db, min_index_size):
        pass
    async with db.system_connection() as conn:
        await work_queue.refresh_statistics(conn)


async def _build_index(db: Database, worth_indexing: int) -> int:
    async with db.system_connection() as conn:
        return await work_queue.build_vector_indexes(conn, worth_it=worth_indexing)


def text_to_embed(text: TextToEmbed) -> str:
    """Return the text as it is embedded: with its author, which who-said questions need; a memory names whom it is about."""
    return text.body if text.author_name is None else f"{text.author_name}: {text.body}"


#: So long an org is left alone whose model is away, before that is asked again.
BACKOFF_SECONDS = 30.0
#: How often a worker goes round: to ask those who were away, and to switch what has become whole.
POLL_SECONDS = 5.0
#: So many vectors that nobody reads any more are removed in one transaction.
CHUNK_SIZE = 5_000

LOG = logging.getLogger(__name__)


class EmbeddingModelSource(Protocol):
    """The embedding models there are."""

    @property
    def default(self) -> str:
        """Name of the one that serves an org for which nothing else was chosen."""
        ...

    async def load(self, name: str) -> Embedder:
        """Return the one of a name.

        Raises:
            BadInput, ModelUnavailable: it cannot be loaded.
        """
        ...

    async def warm_up(self, name: str) -> Embedder:
        """Return the same, with time for one that has first to be loaded where it is.

        Raises:
            BadInput, ModelUnavailable: it cannot be loaded.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOutage:
    """A model that gives no vectors."""

    provider: str
    reason: str
    #: It is not asked before, by the worker's clock.
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingVersionWorker:
    """Embeds what every org has to embed: by its current model in the stage `embed`, by its next one in `reembed`."""

    db: Database
    models: EmbeddingModelSource
    queue: QueueName = "embed"
    batch: int = 256
    #: Seconds that never run backwards.
    clock: Callable[[], float] = time.monotonic
    #: By org; those that were to be begun among them.
    outages: dict[OrgId, ModelOutage] = field(default_factory=dict[OrgId, ModelOutage])
    _not_started: set[OrgId] = field(default_factory=set[OrgId])

    def orgs_backing_off(self) -> Sequence[OrgId]:
        """Return the orgs whose model is away."""
        return list(self.outages)

    @property
    def failing(self) -> list[str]:
        """Which models are away, and how."""
        return sorted({f"{one.provider}: {one.reason}" for one in self.outages.values()})

    async def begin(self, only_org: OrgId | None) -> None:
        """Ask for the vectors that are missing, as all are of a new model, and drop those that nobody reads any more."""
        for org_id in await orgs(self.db, only_org):
            await self._begin(org_id)

    async def do(self, org_id: OrgId, tasks: Sequence[Task]) -> int:
        """Embed what these tasks are of and return how much it was about; 0 while the org's model is away."""
        held = await self._current_version(org_id)
        if held is None:
            # The next model was given up meanwhile.
            await self.db.change(
                org_id, partial(work_queue.finish, org_id=org_id, queue=self.queue, tasks=tasks)
            )
            return 0
        try:
            worker = await self._worker(org_id, held)
            return await worker.do(org_id, tasks)
        except ModelUnavailable as error:
            await self._note_unreachable(org_id, held, error)
            await self.db.change(
                org_id, partial(work_queue.release, org_id=org_id, queue=self.queue, tasks=tasks)
            )
            return 0

    async def tidy(self) -> None:
        """Build the vector indexes that have become worth it; who takes over the rounds and the drains see to."""
        await build_indexes(self.db)

    async def switch_ready(self, only_org: OrgId | None) -> None:
        """Let each next model take over for which nothing is missing or waits any more."""
        if self.queue == "reembed":
            for org_id in await orgs(self.db, only_org):
                await self._switch_if_ready(org_id)

    async def watch(self, stop: asyncio.Event) -> None:
        """Ask those who were away whether they are back, and settle, until told to stop."""
        await Scheduler(db=self.db, visit=self._watch_org, task_name="embedding", interval=POLL_SECONDS).run(
            stop
        )

    async def _watch_org(self, org_id: OrgId) -> None:
        away = self.outages.get(org_id)
        if away is not None and self.clock() >= away.until:
            await self._probe_model(org_id)
        if org_id not in self.outages:
            if org_id in self._not_started:
                await self._begin(org_id)
            elif self.queue == "reembed":
                await self._switch_if_ready(org_id)

    async def _begin(self, org_id: OrgId) -> None:
        self._not_started.discard(org_id)
        held = await self._current_version(org_id)
        if held is None:
            return
        try:
            worker = await self._worker(org_id, held)
        except ModelUnavailable as error:
            self._not_started.add(org_id)
            await self._note_unreachable(org_id, held, error)
            return
        await worker.begin(org_id)
        if self.queue == "reembed":
            await self._switch_if_ready(org_id)
            return
        async with self.db.read_transaction(Viewer.operator(org_id)) as conn:
            is_behind = await embedding_versions.is_behind(conn, org_id, worker.embedder.model_id)
        # Who begins with another default than those who search takes nothing from them before there is something else.
        if not is_behind:
            await delete_unused_vectors(self.db, org_id)

    async def _probe_model(self, org_id: OrgId) -> None:
        """Ask the model of an org that was away; if it is back, so it is for all whom it serves."""
        left, held = self.outages[org_id], await self._current_version(org_id)
        if held is None or held.provider != left.provider:
            del self.outages[org_id]
        if held is None:
            return
        if held.provider == left.provider:
            # Until it has answered, nobody else waits for it.
            same = [one for one, away in self.outages.items() if away.provider == left.provider]
            try:
                embedder = await _open_embedder(self.models.warm_up(held.provider))
                with contextlib.suppress(TextRefused):
                    # Who refuses a greeting is there.
                    await asyncio.to_thread(embedder.embed, ["hello"])
            except ModelUnavailable as error:
                LOG.warning("%s: %s; trying again", held.provider, error.why)
                for one in same:
                    await self._note_unreachable(one, held, error)
                return
            for one in same:
                self.outages.pop(one, None)
                await self._note_reachable(one, held, embedder, was_away=True)
        await self.db.change(org_id, partial(work_queue.wake, queue=self.queue))

    async def _switch_if_ready(self, org_id: OrgId) -> None:
        held = await self._current_version(org_id)
        if held is None or org_id in self.outages:
            return
        async with self.db.read_transaction(Viewer.operator(org_id)) as conn:
            if await embedding_versions.has_pending(conn, org_id):
                return
        try:
            embedder = (await self._worker(org_id, held)).embedder
        except ModelUnavailable as error:
            await self._note_unreachable(org_id, held, error)
            return
        if await self.db.change(
            org_id, partial(_switch_version, org_id=org_id, version=held, embedder=embedder)
        ):
            LOG.info("searches use the vectors of %s now", embedder.model_id)
            await delete_unused_vectors(self.db, org_id)

    async def _current_version(self, org_id: OrgId) -> EmbeddingVersion | None:
        """Return the generation that is embedded for; None where no next one is wanted."""
        state = STATE_OF_QUEUE[self.queue]
        async with self.db.read_transaction(Viewer.operator(org_id)) as conn:
            held = (await embedding_versions.all_versions(conn, org_id)).get(state)
        if held is None and state == "current":
            return EmbeddingVersion(state=state, provider=self.models.default)
        return held

    async def _worker(self, org_id: OrgId, version: EmbeddingVersion) -> EmbeddingWorker:
        """Return what embeds for a generation.

        Raises:
            ModelUnavailable: its model is away.
        """
        for one in self.outages.values():
            # Not asked for each org anew: each would wait as long for nothing.
            if one.provider == version.provider:
                raise ModelUnavailable(one.reason, cure="wait until it is back")
        embedder = await _open_embedder(self.models.load(version.provider))
        await self._note_reachable(org_id, version, embedder)
        still = partial(
            embedding_versions.is_unchanged,
            org_id=org_id,
            state=version.state,
            provider=version.provider,
            default=self.models.default,
        )
        return EmbeddingWorker(
            db=self.db, embedder=embedder, batch=self.batch, queue=self.queue, is_still_wanted=still
        )

    async def _note_reachable(
        self, org_id: OrgId, version: EmbeddingVersion, embedder: Embedder, *, was_away: bool = False
    ) -> None:
        known = (version.model, version.dimensions)
        if version.since is not None and (was_away or known != (embedder.model_id, embedder.dimensions)):
            note = partial(
                embedding_versions.record_reached,
                org_id=org_id,
                provider=version.provider,
                model=embedder.model_id,
                dimensions=embedder.dimensions,
            )
            await self.db.change(org_id, note)

    async def _note_unreachable(
        self, org_id: OrgId, version: EmbeddingVersion, error: ModelUnavailable
    ) -> None:
        if org_id not in self.outages:
            LOG.warning("%s: %s; trying again", version.provider, error.why)
        until = self.clock() + BACKOFF_SECONDS
        self.outages[org_id] = ModelOutage(provider=version.provider, reason=error.why, until=until)
        note = partial(
            embedding_versions.record_outage,
            org_id=org_id,
            provider=version.provider,
            error=error.why,
            is_unchosen=version.since is None,
        )
        await self.db.change(org_id, note)


async def _open_embedder(opening: Awaitable[Embedder]) -> Embedder:
    try:
        return await opening
    except BadInput as error:
        raise ModelUnavailable(f"{error.what}: {error.why}", cure="see how it is named") from error


async def _switch_version(
    conn: Connection, org_id: OrgId, version: EmbeddingVersion, embedder: Embedder
) -> bool:
    """Let the next model take over, unless something is missing still or it is wanted no more."""
    # Nothing is asked for that an erasure is just taking away, and nobody writes vectors meanwhile.
    await erased.lock_shared(conn, org_id)
    await embedding_versions.lock_embeddings(conn, org_id)
    now = (await embedding_versions.all_versions(conn, org_id)).get("next")
    if now is None or now.provider != version.provider:
        return False
    added = await work_queue.enqueue_missing(
        conn, org_id, embedder.model_id, with_tokens=embedder.has_token_vectors, queue="reembed"
    )
    if added:
        return False
    far = await embedding_versions.progress(conn, org_id, embedder.model_id, stage="reembed")
    if far.done * 2 < far.wanted:
        # Nobody wants to search by what refuses most of what is said.
        why = f"it embedded {far.done:,} of {far.wanted:,} texts"
        await embedding_versions.record_outage(conn, org_id, version.provider, error=why)
        return False
    return await embedding_versions.promote_next(conn, org_id, embedder.model_id)


async def drain(
    worker: EmbeddingVersionWorker, *, only_org: OrgId | None = None, progress: runner.Progress | None = None
) -> runner.DrainResult:
    """Embed all that is missing or waits, let models take over that are whole then, and return what was done."""
    done = 0
    while True:
        drained = await runner.drain(worker.db, worker, only_org=only_org, progress=progress)
        done += drained.done
        with work_queue.translate_connection_errors():
            await worker.switch_ready(only_org)
            async with worker.db.system_connection() as conn:
                # Something came while the last was embedded.
                left = await work_queue.count(conn, worker.queue, only_org, without=worker.orgs_backing_off())
        if not left.waiting:
            return replace(drained, done=done)


async def delete_unused_vectors(db: Database, org_id: OrgId) -> None:
    """Remove vectors that nobody reads any more, a portion at a time."""
    async with db.read_transaction(Viewer.operator(org_id)) as conn:
        spare = await embedding_versions.unused_models(conn, org_id)
    for model in spare:
        drop = partial(_delete_chunk, org_id=org_id, model=model)
        while await db.change(org_id, drop):
            pass


async def _delete_chunk(conn: Connection, org_id: OrgId, model: str) -> int:
    await embedding_versions.lock_embeddings(conn, org_id)
    # Somebody may want this very model by now.
    if model not in await embedding_versions.unused_models(conn, org_id):
        return 0
    return await embedding_versions.drop_vectors(conn, org_id, model, limit=CHUNK_SIZE)
