"""Embeds each org's messages and memories by its own model, and by its next one until that can take over.

Nobody waits for a model that is away but those who need it: orgs that it serves are left alone until it is back.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from roomlore.domain.errors import BadInput, ModelUnavailable, TextRefused
from roomlore.domain.ids import OrgId
from roomlore.domain.ports import Embedder
from roomlore.domain.records import Viewer
from roomlore.store import erased, generations, work
from roomlore.store.db import Database
from roomlore.store.generations import STATE_OF_QUEUE, EmbeddingVersion
from roomlore.store.queries import Connection
from roomlore.store.work import QueueName, Task
from roomlore.workers import embed, loop
from roomlore.workers.embed import EmbeddingWorker
from roomlore.workers.rounds import Scheduler, orgs

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
            await self.db.change(org_id, partial(work.finish, org_id=org_id, queue=self.queue, tasks=tasks))
            return 0
        try:
            worker = await self._worker(org_id, held)
            return await worker.do(org_id, tasks)
        except ModelUnavailable as error:
            await self._note_unreachable(org_id, held, error)
            await self.db.change(org_id, partial(work.release, org_id=org_id, queue=self.queue, tasks=tasks))
            return 0

    async def tidy(self) -> None:
        """Build the vector indexes that have become worth it; who takes over the rounds and the drains see to."""
        await embed.build_indexes(self.db)

    async def switch_ready(self, only_org: OrgId | None) -> None:
        """Let each next model take over for which nothing is missing or waits any more."""
        if self.queue == "reembed":
            for org_id in await orgs(self.db, only_org):
                await self._switch_if_ready(org_id)

    async def watch(self, stop: asyncio.Event) -> None:
        """Ask those who were away whether they are back, and settle, until told to stop."""
        await Scheduler(db=self.db, visit=self._watch_org, task_name="embedding", interval=POLL_SECONDS).run(stop)

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
            is_behind = await generations.is_behind(conn, org_id, worker.embedder.model_id)
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
        await self.db.change(org_id, partial(work.wake, queue=self.queue))

    async def _switch_if_ready(self, org_id: OrgId) -> None:
        held = await self._current_version(org_id)
        if held is None or org_id in self.outages:
            return
        async with self.db.read_transaction(Viewer.operator(org_id)) as conn:
            if await generations.has_pending(conn, org_id):
                return
        try:
            embedder = (await self._worker(org_id, held)).embedder
        except ModelUnavailable as error:
            await self._note_unreachable(org_id, held, error)
            return
        if await self.db.change(org_id, partial(_switch_version, org_id=org_id, version=held, embedder=embedder)):
            LOG.info("searches use the vectors of %s now", embedder.model_id)
            await delete_unused_vectors(self.db, org_id)

    async def _current_version(self, org_id: OrgId) -> EmbeddingVersion | None:
        """Return the generation that is embedded for; None where no next one is wanted."""
        state = STATE_OF_QUEUE[self.queue]
        async with self.db.read_transaction(Viewer.operator(org_id)) as conn:
            held = (await generations.all_versions(conn, org_id)).get(state)
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
            generations.is_unchanged,
            org_id=org_id,
            state=version.state,
            provider=version.provider,
            default=self.models.default,
        )
        return EmbeddingWorker(db=self.db, embedder=embedder, batch=self.batch, queue=self.queue, is_still_wanted=still)

    async def _note_reachable(
        self, org_id: OrgId, version: EmbeddingVersion, embedder: Embedder, *, was_away: bool = False
    ) -> None:
        known = (version.model, version.dimensions)
        if version.since is not None and (was_away or known != (embedder.model_id, embedder.dimensions)):
            note = partial(
                generations.record_reached,
                org_id=org_id,
                provider=version.provider,
                model=embedder.model_id,
                dimensions=embedder.dimensions,
            )
            await self.db.change(org_id, note)

    async def _note_unreachable(self, org_id: OrgId, version: EmbeddingVersion, error: ModelUnavailable) -> None:
        if org_id not in self.outages:
            LOG.warning("%s: %s; trying again", version.provider, error.why)
        until = self.clock() + BACKOFF_SECONDS
        self.outages[org_id] = ModelOutage(provider=version.provider, reason=error.why, until=until)
        note = partial(
            generations.record_outage,
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


async def _switch_version(conn: Connection, org_id: OrgId, version: EmbeddingVersion, embedder: Embedder) -> bool:
    """Let the next model take over, unless something is missing still or it is wanted no more."""
    # Nothing is asked for that an erasure is just taking away, and nobody writes vectors meanwhile.
    await erased.lock_shared(conn, org_id)
    await generations.lock_embeddings(conn, org_id)
    now = (await generations.all_versions(conn, org_id)).get("next")
    if now is None or now.provider != version.provider:
        return False
    added = await work.enqueue_missing(
        conn, org_id, embedder.model_id, with_tokens=embedder.has_token_vectors, queue="reembed"
    )
    if added:
        return False
    far = await generations.progress(conn, org_id, embedder.model_id, stage="reembed")
    if far.done * 2 < far.wanted:
        # Nobody wants to search by what refuses most of what is said.
        why = f"it embedded {far.done:,} of {far.wanted:,} texts"
        await generations.record_outage(conn, org_id, version.provider, error=why)
        return False
    return await generations.promote_next(conn, org_id, embedder.model_id)


async def drain(
    worker: EmbeddingVersionWorker, *, only_org: OrgId | None = None, progress: loop.Progress | None = None
) -> loop.DrainResult:
    """Embed all that is missing or waits, let models take over that are whole then, and return what was done."""
    done = 0
    while True:
        drained = await loop.drain(worker.db, worker, only_org=only_org, progress=progress)
        done += drained.done
        with work.translate_connection_errors():
            await worker.switch_ready(only_org)
            async with worker.db.system_connection() as conn:
                # Something came while the last was embedded.
                left = await work.count(conn, worker.queue, only_org, without=worker.orgs_backing_off())
        if not left.waiting:
            return replace(drained, done=done)


async def delete_unused_vectors(db: Database, org_id: OrgId) -> None:
    """Remove vectors that nobody reads any more, a portion at a time."""
    async with db.read_transaction(Viewer.operator(org_id)) as conn:
        spare = await generations.unused_models(conn, org_id)
    for model in spare:
        drop = partial(_delete_chunk, org_id=org_id, model=model)
        while await db.change(org_id, drop):
            pass


async def _delete_chunk(conn: Connection, org_id: OrgId, model: str) -> int:
    await generations.lock_embeddings(conn, org_id)
    # Somebody may want this very model by now.
    if model not in await generations.unused_models(conn, org_id):
        return 0
    return await generations.drop_vectors(conn, org_id, model, limit=CHUNK_SIZE)
