"""Which embedding model serves an org: chosen, filled in the background, switched to at once, and left again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from roomlore.db import embedding_versions, erased, work_queue
from roomlore.db.embedding_versions import STATE_OF_QUEUE, EmbeddingVersion, VersionState
from roomlore.db.queries import Connection
from roomlore.domain.errors import BadInput, Conflict
from roomlore.domain.ids import OrgId
from roomlore.jobs import runner
from roomlore.jobs.embedding import EmbeddingVersionWorker, delete_unused_vectors, drain
from roomlore.operations.access import Access
from roomlore.operations.embedding_models import EmbeddingModels, VectorSpace


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingVersionStatus:
    """How the vectors of one model do."""

    state: VersionState
    #: What the model is called, in settings.
    provider: str
    #: The name of its vector space and the length of its vectors; None while it was never reached.
    model: str | None
    dimensions: int | None
    #: None: it was never chosen, it is what there is.
    since: datetime | None
    #: How many messages and memories are to have a vector, and have one of it.
    wanted: int
    done: int
    #: How many are still to be embedded by it, and how many it could not embed; none of the previous one.
    waiting: int
    set_aside: int
    #: Since when it gives no vectors, and why, as the worker met it.
    failing_since: datetime | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSwitch:
    """A switch of models as it was asked for."""

    #: The model that is to come; None where none is, any more.
    provider: str | None
    #: Whether searches use it by now, and no other.
    is_done: bool
    #: How many messages and memories it has to embed before.
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingVersions:
    """The embedding models of an org; the operator's."""

    access: Access
    models: EmbeddingModels

    async def status(self) -> list[EmbeddingVersionStatus]:
        """Return the model that searches use, the one that is to come and the one before, as far as there are such."""
        await self.access.audit_work("embedding models")
        held = await self._stored_versions()
        spaces = {
            one.provider: await self.models.vector_space(one.provider)
            for one in held.values()
            if not one.model
        }
        async with self.access.db.read_transaction(self.access.principal) as conn:
            return await self._statuses(conn, held, spaces)

    async def known_status(self, conn: Connection) -> list[EmbeddingVersionStatus]:
        """Return the same as far as it is known here, for whoever may: no model is loaded or asked for it."""
        held = self._with_default(await embedding_versions.all_versions(conn, self.access.org_id))
        spaces = {
            one.provider: self.models.known_space(one.provider) for one in held.values() if not one.model
        }
        return await self._statuses(conn, held, spaces)

    async def switch(self, name: str) -> ModelSwitch:
        """Ask for an org to be searched by another model once that has embedded everything; return at once.

        Until then both are asked. Asking for the same again changes nothing.

        Raises:
            BadInput: no model is called so here.
            Conflict: a switch to another one is under way.
            ModelUnavailable: the model gives no vectors now.
        """
        await self.access.audit_work("switch embedding model")
        if name not in self.models.names:
            raise BadInput(f"embedding model {name!r}", f"must be one of {', '.join(self.models.names)}")
        held = await self._stored_versions()
        coming = held.get("next")
        if coming is not None and coming.provider != name:
            raise _switch_conflict(name, coming.provider)
        if coming is None and held["current"].provider == name:
            return ModelSwitch(provider=name, is_done=True, waiting=0)
        return await self._start_switch(name, held["current"])

    async def back(self) -> ModelSwitch:
        """Give up the switch that is under way and drop its vectors; else ask for a switch to the model before.

        Raises:
            Conflict: there is none to go back to.
            ModelUnavailable: the model gives no vectors now.
        """
        await self.access.audit_work("switch embedding model back")
        held = await self._stored_versions()
        if "next" in held:
            if not await self.access.db.change(
                self.access.org_id, partial(_cancel_switch, org_id=self.access.org_id)
            ):
                # It has just taken over.
                return await self.back()
            await delete_unused_vectors(self.access.db, self.access.org_id)
            return ModelSwitch(provider=None, is_done=True, waiting=0)
        if "previous" not in held:
            raise Conflict("embedding model", "there is none to go back to")
        return await self._start_switch(held["previous"].provider, held["current"])

    async def finish(self, progress: runner.Progress | None = None) -> ModelSwitch:
        """Embed what is missing for the switch that is under way and switch; what is interrupted goes on later.

        `progress` is told of each batch that was embedded.
        """
        await self.access.audit_work("embed for another model")
        await drain(self._worker, only_org=self.access.org_id, progress=progress)
        held = await self._stored_versions()
        coming = held.get("next")
        if coming is None:
            return ModelSwitch(provider=held["current"].provider, is_done=True, waiting=0)
        async with self.access.db.read_transaction(self.access.principal) as conn:
            left = await embedding_versions.progress(conn, self.access.org_id, coming.model, stage="reembed")
        return ModelSwitch(provider=coming.provider, is_done=False, waiting=left.waiting)

    @property
    def _worker(self) -> EmbeddingVersionWorker:
        return EmbeddingVersionWorker(db=self.access.db, models=self.models, queue="reembed")

    async def _stored_versions(self) -> dict[VersionState, EmbeddingVersion]:
        return self._with_default(await self.models.versions(self.access.org_id))

    def _with_default(
        self, versions: dict[VersionState, EmbeddingVersion]
    ) -> dict[VersionState, EmbeddingVersion]:
        return {"current": EmbeddingVersion(state="current", provider=self.models.default), **versions}

    async def _statuses(
        self,
        conn: Connection,
        versions: dict[VersionState, EmbeddingVersion],
        spaces: Mapping[str, VectorSpace],
    ) -> list[EmbeddingVersionStatus]:
        states: Sequence[VersionState] = ("current", "next", "previous")
        there = [versions[state] for state in states if state in versions]
        return [await self._status(conn, one, spaces.get(one.provider, (None, None))) for one in there]

    async def _status(
        self, conn: Connection, version: EmbeddingVersion, space: VectorSpace
    ) -> EmbeddingVersionStatus:
        stage: work_queue.QueueName = "embed" if version.state == STATE_OF_QUEUE["embed"] else "reembed"
        model, dimensions = version.model or space[0], version.dimensions or space[1]
        if model is None and version.state == "current":
            model, dimensions = await self._stored_space(conn)
        far = await embedding_versions.progress(conn, self.access.org_id, model, stage=stage)
        works = version.state != "previous"
        return EmbeddingVersionStatus(
            state=version.state,
            provider=version.provider,
            model=model,
            dimensions=dimensions,
            # Nobody chose a default that was never reached: it is only known to fail.
            since=version.since if version.model is not None or version.state != "current" else None,
            wanted=far.wanted,
            done=far.done,
            waiting=far.waiting if works else 0,
            set_aside=far.set_aside if works else 0,
            failing_since=version.failing_since,
            error=version.error,
        )

    async def _stored_space(self, conn: Connection) -> VectorSpace:
        """Return what the vectors there are tell of a model that was never chosen, nor loaded here."""
        there = await embedding_versions.vector_lengths(conn, self.access.org_id)
        return next(iter(there.items())) if len(there) == 1 else (None, None)

    async def _start_switch(self, name: str, current: EmbeddingVersion) -> ModelSwitch:
        # Asked once here: whoever switches to a model that is not there learns it at once.
        embedder = await self.models.warm_up(name)
        model, dimensions = await self.models.vector_space(current.provider)
        # As the worker knew it, where the settings name it no more.
        now = replace(current, model=model or current.model, dimensions=dimensions or current.dimensions)
        coming = EmbeddingVersion(
            state="next", provider=name, model=embedder.model_id, dimensions=embedder.dimensions
        )
        begin = partial(
            _enqueue_missing,
            org_id=self.access.org_id,
            version=(now, coming),
            with_tokens=embedder.has_token_vectors,
        )
        await self.access.db.change(self.access.org_id, begin)
        await self._worker.switch_ready(self.access.org_id)
        held = await self._stored_versions()
        async with self.access.db.read_transaction(self.access.principal) as conn:
            left = await embedding_versions.progress(conn, self.access.org_id, coming.model, stage="reembed")
        return ModelSwitch(provider=name, is_done="next" not in held, waiting=left.waiting)


async def _enqueue_missing(
    conn: Connection, org_id: OrgId, version: Sequence[EmbeddingVersion], *, with_tokens: bool
) -> None:
    await erased.lock_shared(conn, org_id)
    await embedding_versions.lock_embeddings(conn, org_id)
    # Somebody may have switched while the model was loaded.
    there = await embedding_versions.all_versions(conn, org_id)
    current, coming, wanted = there.get("current"), there.get("next"), version[-1].provider
    if coming is not None and coming.provider != wanted:
        raise _switch_conflict(wanted, coming.provider)
    if coming is None and current is not None and current.provider == wanted:
        return
    for one in version:
        await embedding_versions.put(conn, org_id, one)
    model = version[-1].model
    assert model is not None
    await work_queue.enqueue_missing(conn, org_id, model, with_tokens=with_tokens, queue="reembed")


async def _cancel_switch(conn: Connection, org_id: OrgId) -> bool:
    await embedding_versions.lock_embeddings(conn, org_id)
    return await embedding_versions.drop_next(conn, org_id)


def _switch_conflict(wanted: str, next_version: str) -> Conflict:
    """Return the refusal of a switch while there is one to another model."""
    return Conflict(
        f"embedding model {wanted!r}",
        f"a switch to {next_version!r} is under way; roomlore embed back gives it up",
    )
