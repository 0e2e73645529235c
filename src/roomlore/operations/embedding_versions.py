"""Switches the embedding model of an org.

The vectors of the next model are made in the background. Then the next model takes over at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from roomlore.db import embedding_versions, erasure_guard, work_queue
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
    """The state of the vectors of one model."""

    state: VersionState
    #: The name of the model in the settings.
    provider: str
    #: The name of the model's vector space and the length of its vectors; None until the model has been reached.
    model: str | None
    dimensions: int | None
    #: None for a default model that nobody chose.
    since: datetime | None
    #: How many messages and memories need a vector, and how many have one.
    total: int
    done: int
    #: How many wait for a vector, and how many failed. Both are 0 for the previous model.
    waiting: int
    dead_lettered: int
    #: When the model began to fail, and the error. Both are None while the worker gets vectors.
    failing_since: datetime | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSwitch:
    """The state of a switch."""

    #: The next model; None if the switch was cancelled.
    provider: str | None
    #: Whether searches already use only this model.
    is_done: bool
    #: The number of messages and memories to embed before the switch is done.
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingVersions:
    """The embedding models of an org, for operators."""

    access: Access
    models: EmbeddingModels

    async def status(self) -> list[EmbeddingVersionStatus]:
        """Return the current, the next and the previous model. The next or previous model may be missing."""
        await self.access.audit_work("embedding models")
        versions = await self._stored_versions()
        spaces = {
            version.provider: await self.models.vector_space(version.provider)
            for version in versions.values()
            if not version.model
        }
        async with self.access.db.read_transaction(self.access.principal) as conn:
            return await self._statuses(conn, versions, spaces)

    async def known_status(self, conn: Connection) -> list[EmbeddingVersionStatus]:
        """Return the same as `status`, without a check of rights and without loading a model."""
        versions = self._with_default(await embedding_versions.all_versions(conn, self.access.org_id))
        spaces = {
            version.provider: self.models.known_space(version.provider)
            for version in versions.values()
            if not version.model
        }
        return await self._statuses(conn, versions, spaces)

    async def switch(self, name: str) -> ModelSwitch:
        """Switch to another model as soon as it has embedded everything. The call returns at once.

        Until then, searches use both models. Repeating the call changes nothing.

        Raises:
            BadInput: there is no such model.
            Conflict: a switch to another model is in progress.
            ModelUnavailable: the model gives no vectors now.
        """
        await self.access.audit_work("switch embedding model")
        if name not in self.models.names:
            raise BadInput(f"embedding model {name!r}", f"must be one of {', '.join(self.models.names)}")
        versions = await self._stored_versions()
        coming = versions.get("next")
        if coming is not None and coming.provider != name:
            raise _switch_conflict(name, coming.provider)
        if coming is None and versions["current"].provider == name:
            return ModelSwitch(provider=name, is_done=True, waiting=0)
        return await self._start_switch(name, versions["current"])

    async def back(self) -> ModelSwitch:
        """Cancel the running switch and delete the vectors of the next model.

        If no switch is running, use the previous model again.

        Raises:
            Conflict: there is no previous model.
            ModelUnavailable: the model gives no vectors now.
        """
        await self.access.audit_work("switch embedding model back")
        versions = await self._stored_versions()
        if "next" in versions:
            if not await self.access.db.change(
                self.access.org_id, partial(_cancel_switch, org_id=self.access.org_id)
            ):
                # The next model has just taken over.
                return await self.back()
            await delete_unused_vectors(self.access.db, self.access.org_id)
            return ModelSwitch(provider=None, is_done=True, waiting=0)
        if "previous" not in versions:
            raise Conflict("embedding model", "there is none to go back to")
        return await self._start_switch(versions["previous"].provider, versions["current"])

    async def finish(self, progress: runner.Progress | None = None) -> ModelSwitch:
        """Embed what the running switch needs, and switch. You can interrupt and repeat this call.

        `progress` is called after each batch.
        """
        await self.access.audit_work("embed for another model")
        await drain(self._worker, only_org=self.access.org_id, progress=progress)
        versions = await self._stored_versions()
        coming = versions.get("next")
        if coming is None:
            return ModelSwitch(provider=versions["current"].provider, is_done=True, waiting=0)
        async with self.access.db.read_transaction(self.access.principal) as conn:
            left = await embedding_versions.progress(conn, self.access.org_id, coming.model, queue="reembed")
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
        return [
            await self._status(conn, version, spaces.get(version.provider, (None, None))) for version in there
        ]

    async def _status(
        self, conn: Connection, version: EmbeddingVersion, space: VectorSpace
    ) -> EmbeddingVersionStatus:
        queue: work_queue.QueueName = "embed" if version.state == STATE_OF_QUEUE["embed"] else "reembed"
        model, dimensions = version.model or space[0], version.dimensions or space[1]
        if model is None and version.state == "current":
            model, dimensions = await self._stored_space(conn)
        progress = await embedding_versions.progress(conn, self.access.org_id, model, queue=queue)
        works = version.state != "previous"
        return EmbeddingVersionStatus(
            state=version.state,
            provider=version.provider,
            model=model,
            dimensions=dimensions,
            # A default model that was never reached has a row only because it failed.
            since=version.since if version.model is not None or version.state != "current" else None,
            total=progress.total,
            done=progress.done,
            waiting=progress.waiting if works else 0,
            dead_lettered=progress.dead_lettered if works else 0,
            failing_since=version.failing_since,
            error=version.error,
        )

    async def _stored_space(self, conn: Connection) -> VectorSpace:
        there = await embedding_versions.vector_lengths(conn, self.access.org_id)
        return next(iter(there.items())) if len(there) == 1 else (None, None)

    async def _start_switch(self, name: str, current: EmbeddingVersion) -> ModelSwitch:
        # Load the model now, so that the caller learns at once if it is unavailable.
        embedder = await self.models.warm_up(name)
        model, dimensions = await self.models.vector_space(current.provider)
        # The settings may no longer contain the current model. In this case, the values of the worker are used.
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
        versions = await self._stored_versions()
        async with self.access.db.read_transaction(self.access.principal) as conn:
            left = await embedding_versions.progress(conn, self.access.org_id, coming.model, queue="reembed")
        return ModelSwitch(provider=name, is_done="next" not in versions, waiting=left.waiting)


async def _enqueue_missing(
    conn: Connection, org_id: OrgId, version: Sequence[EmbeddingVersion], *, with_tokens: bool
) -> None:
    await erasure_guard.lock_shared(conn, org_id)
    await embedding_versions.lock_embeddings(conn, org_id)
    # Another switch may have begun while the model was loaded.
    there = await embedding_versions.all_versions(conn, org_id)
    current, coming, wanted = there.get("current"), there.get("next"), version[-1].provider
    if coming is not None and coming.provider != wanted:
        raise _switch_conflict(wanted, coming.provider)
    if coming is None and current is not None and current.provider == wanted:
        return
    for row in version:
        await embedding_versions.put(conn, org_id, row)
    model = version[-1].model
    assert model is not None
    await work_queue.enqueue_missing(conn, org_id, model, with_tokens=with_tokens, queue="reembed")


async def _cancel_switch(conn: Connection, org_id: OrgId) -> bool:
    await embedding_versions.lock_embeddings(conn, org_id)
    return await embedding_versions.drop_next(conn, org_id)


def _switch_conflict(wanted: str, next_version: str) -> Conflict:
    return Conflict(
        f"embedding model {wanted!r}",
        f"a switch to {next_version!r} is under way; roomlore model revert gives it up",
    )
