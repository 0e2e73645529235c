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
from roomlore.store.generations import STATE_OF, Generation
from roomlore.store.queries import Connection
from roomlore.store.work import Stage, Task
from roomlore.workers import embed, loop
from roomlore.workers.embed import EmbedWorker
from roomlore.workers.rounds import Rounds, orgs

#: So long an org is left alone whose model is away, before that is asked again.
REST_SECONDS = 30.0
#: How often a worker goes round: to ask those who were away, and to switch what has become whole.
EVERY_SECONDS = 5.0
#: So many vectors that nobody reads any more are removed in one transaction.
PORTION = 5_000

LOG = logging.getLogger(__name__)


class Models(Protocol):
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

    async def waken(self, name: str) -> Embedder:
        """Return the same, with time for one that has first to be loaded where it is.

        Raises:
            BadInput, ModelUnavailable: it cannot be loaded.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Away:
    """A model that gives no vectors."""

    provider: str
    why: str
    #: It is not asked before, by the worker's clock.
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationWorker:
    """Embeds what every org has to embed: by its current model in the stage `embed`, by its next one in `reembed`."""

    db: Database
    models: Models
    stage: Stage = "embed"
    batch: int = 256
    #: Seconds that never run backwards.
    clock: Callable[[], float] = time.monotonic
    #: By org; those that were to be begun among them.
    away: dict[OrgId, Away] = field(default_factory=dict[OrgId, Away])
    _unbegun: set[OrgId] = field(default_factory=set[OrgId])

    def left_alone(self) -> Sequence[OrgId]:
        """Return the orgs whose model is away."""
        return list(self.away)

    @property
    def failing(self) -> list[str]:
        """Which models are away, and how."""
        return sorted({f"{one.provider}: {one.why}" for one in self.away.values()})

    async def begin(self, only_org: OrgId | None) -> None:
        """Ask for the vectors that are missing, as all are of a new model, and drop those that nobody reads any more."""
        for org_id in await orgs(self.db, only_org):
            await self._begin(org_id)

    async def do(self, org_id: OrgId, tasks: Sequence[Task]) -> int:
        """Embed what these tasks are of and return how much it was about; 0 while the org's model is away."""
        held = await self._held(org_id)
        if held is None:
            # The next model was given up meanwhile.
            await self.db.change(org_id, partial(work.finish, org_id=org_id, stage=self.stage, tasks=tasks))
            return 0
        try:
            worker = await self._worker(org_id, held)
            return await worker.do(org_id, tasks)
        except ModelUnavailable as error:
            await self._left(org_id, held, error)
            await self.db.change(org_id, partial(work.release, org_id=org_id, stage=self.stage, tasks=tasks))
            return 0

    async def tidy(self) -> None:
        """Build the vector indexes that have become worth it; who takes over the rounds and the drains see to."""
        await embed.tidy(self.db)

    async def settle(self, only_org: OrgId | None) -> None:
        """Let each next model take over for which nothing is missing or waits any more."""
        if self.stage == "reembed":
            for org_id in await orgs(self.db, only_org):
                await self._settle(org_id)

    async def rounds(self, stop: asyncio.Event) -> None:
        """Ask those who were away whether they are back, and settle, until told to stop."""
        await Rounds(db=self.db, visit=self._visit, doing="embedding", every=EVERY_SECONDS).run(stop)

    async def _visit(self, org_id: OrgId) -> None:
        away = self.away.get(org_id)
        if away is not None and self.clock() >= away.until:
            await self._ask_again(org_id)
        if org_id not in self.away:
            if org_id in self._unbegun:
                await self._begin(org_id)
            elif self.stage == "reembed":
                await self._settle(org_id)

    async def _begin(self, org_id: OrgId) -> None:
        self._unbegun.discard(org_id)
        held = await self._held(org_id)
        if held is None:
            return
        try:
            worker = await self._worker(org_id, held)
        except ModelUnavailable as error:
            self._unbegun.add(org_id)
            await self._left(org_id, held, error)
            return
        await worker.begin(org_id)
        if self.stage == "reembed":
            await self._settle(org_id)
            return
        async with self.db.reading(Viewer.operator(org_id)) as conn:
            is_behind = await generations.is_behind(conn, org_id, worker.embedder.model_id)
        # Who begins with another default than those who search takes nothing from them before there is something else.
        if not is_behind:
            await drop_spare(self.db, org_id)

    async def _ask_again(self, org_id: OrgId) -> None:
        """Ask the model of an org that was away; if it is back, so it is for all whom it serves."""
        left, held = self.away[org_id], await self._held(org_id)
        if held is None or held.provider != left.provider:
            del self.away[org_id]
        if held is None:
            return
        if held.provider == left.provider:
            # Until it has answered, nobody else waits for it.
            same = [one for one, away in self.away.items() if away.provider == left.provider]
            try:
                embedder = await _opened(self.models.waken(held.provider))
                with contextlib.suppress(TextRefused):
                    # Who refuses a greeting is there.
                    await asyncio.to_thread(embedder.embed, ["hello"])
            except ModelUnavailable as error:
                LOG.warning("%s: %s; trying again", held.provider, error.why)
                for one in same:
                    await self._left(one, held, error)
                return
            for one in same:
                self.away.pop(one, None)
                await self._reached(one, held, embedder, was_away=True)
        await self.db.change(org_id, partial(work.wake, stage=self.stage))

    async def _settle(self, org_id: OrgId) -> None:
        held = await self._held(org_id)
        if held is None or org_id in self.away:
            return
        async with self.db.reading(Viewer.operator(org_id)) as conn:
            if await generations.waits(conn, org_id):
                return
        try:
            embedder = (await self._worker(org_id, held)).embedder
        except ModelUnavailable as error:
            await self._left(org_id, held, error)
            return
        if await self.db.change(org_id, partial(_succeed, org_id=org_id, held=held, embedder=embedder)):
            LOG.info("searches use the vectors of %s now", embedder.model_id)
            await drop_spare(self.db, org_id)

    async def _held(self, org_id: OrgId) -> Generation | None:
        """Return the generation that is embedded for; None where no next one is wanted."""
        state = STATE_OF[self.stage]
        async with self.db.reading(Viewer.operator(org_id)) as conn:
            held = (await generations.all_of(conn, org_id)).get(state)
        if held is None and state == "current":
            return Generation(state=state, provider=self.models.default)
        return held

    async def _worker(self, org_id: OrgId, held: Generation) -> EmbedWorker:
        """Return what embeds for a generation.

        Raises:
            ModelUnavailable: its model is away.
        """
        for one in self.away.values():
            # Not asked for each org anew: each would wait as long for nothing.
            if one.provider == held.provider:
                raise ModelUnavailable(one.why, cure="wait until it is back")
        embedder = await _opened(self.models.load(held.provider))
        await self._reached(org_id, held, embedder)
        still = partial(
            generations.is_still,
            org_id=org_id,
            state=held.state,
            provider=held.provider,
            default=self.models.default,
        )
        return EmbedWorker(db=self.db, embedder=embedder, batch=self.batch, stage=self.stage, still=still)

    async def _reached(
        self, org_id: OrgId, held: Generation, embedder: Embedder, *, was_away: bool = False
    ) -> None:
        known = (held.model, held.dimensions)
        if held.since is not None and (was_away or known != (embedder.model_id, embedder.dimensions)):
            note = partial(
                generations.note_reached,
                org_id=org_id,
                provider=held.provider,
                model=embedder.model_id,
                dimensions=embedder.dimensions,
            )
            await self.db.change(org_id, note)

    async def _left(self, org_id: OrgId, held: Generation, error: ModelUnavailable) -> None:
        if org_id not in self.away:
            LOG.warning("%s: %s; trying again", held.provider, error.why)
        until = self.clock() + REST_SECONDS
        self.away[org_id] = Away(provider=held.provider, why=error.why, until=until)
        note = partial(
            generations.note_outage,
            org_id=org_id,
            provider=held.provider,
            error=error.why,
            is_unchosen=held.since is None,
        )
        await self.db.change(org_id, note)


async def _opened(opening: Awaitable[Embedder]) -> Embedder:
    try:
        return await opening
    except BadInput as error:
        raise ModelUnavailable(f"{error.what}: {error.why}", cure="see how it is named") from error


async def _succeed(conn: Connection, org_id: OrgId, held: Generation, embedder: Embedder) -> bool:
    """Let the next model take over, unless something is missing still or it is wanted no more."""
    # Nothing is asked for that an erasure is just taking away, and nobody writes vectors meanwhile.
    await erased.keep_erasures_out(conn, org_id)
    await generations.keep_embedding_out(conn, org_id)
    now = (await generations.all_of(conn, org_id)).get("next")
    if now is None or now.provider != held.provider:
        return False
    added = await work.enqueue_missing(
        conn, org_id, embedder.model_id, with_tokens=embedder.gives_tokens, stage="reembed"
    )
    if added:
        return False
    far = await generations.progress(conn, org_id, embedder.model_id, stage="reembed")
    if far.done * 2 < far.wanted:
        # Nobody wants to search by what refuses most of what is said.
        why = f"it embedded {far.done:,} of {far.wanted:,} texts"
        await generations.note_outage(conn, org_id, held.provider, error=why)
        return False
    return await generations.succeed(conn, org_id, embedder.model_id)


async def drain(
    worker: GenerationWorker, *, only_org: OrgId | None = None, progress: loop.Progress | None = None
) -> loop.Drained:
    """Embed all that is missing or waits, let models take over that are whole then, and return what was done."""
    done = 0
    while True:
        drained = await loop.drain(worker.db, worker, only_org=only_org, progress=progress)
        done += drained.done
        with work.meeting_outages():
            await worker.settle(only_org)
            async with worker.db.outside_orgs() as conn:
                # Something came while the last was embedded.
                left = await work.count(conn, worker.stage, only_org, without=worker.left_alone())
        if not left.waiting:
            return replace(drained, done=done)


async def drop_spare(db: Database, org_id: OrgId) -> None:
    """Remove vectors that nobody reads any more, a portion at a time."""
    async with db.reading(Viewer.operator(org_id)) as conn:
        spare = await generations.spare_models(conn, org_id)
    for model in spare:
        drop = partial(_drop_some, org_id=org_id, model=model)
        while await db.change(org_id, drop):
            pass


async def _drop_some(conn: Connection, org_id: OrgId, model: str) -> int:
    await generations.keep_embedding_out(conn, org_id)
    # Somebody may want this very model by now.
    if model not in await generations.spare_models(conn, org_id):
        return 0
    return await generations.drop_vectors(conn, org_id, model, limit=PORTION)
