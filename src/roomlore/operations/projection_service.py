"""Copies in other servers, as their operator keeps them: how they do, built anew, compared with the database."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from roomlore.db import embedding_versions, projection_subjects, projections, stats, work_queue
from roomlore.db.database import Database
from roomlore.db.projections import TARGETS, Target
from roomlore.db.queries import Connection
from roomlore.domain.errors import BackendUnavailable, BadInput, ModelUnavailable, NotFound
from roomlore.domain.ids import OrgId
from roomlore.domain.ports import Embedder, Projection
from roomlore.domain.projections import Node, Point, StoredDigest
from roomlore.domain.records import Viewer
from roomlore.jobs import projection, runner
from roomlore.jobs.projection import ProjectionWorker
from roomlore.jobs.scheduler import Scheduler, orgs
from roomlore.operations.access import Access
from roomlore.operations.embedding_models import EmbeddingModels
from roomlore.projections.neo4j import open_neo4j
from roomlore.projections.qdrant import open_qdrant
from roomlore.settings import Settings

#: So many subjects are compared at a time.
PAGE = 1_000
#: For one request of a server, where nobody waits for an answer.
TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionStatus:
    """How the copies of an org in one server do."""

    target: Target
    #: Whether the copy that is read is whole; until then the database alone is read.
    is_ready: bool
    #: Whether another copy is being built beside it.
    is_building: bool
    #: What they are called there: the one that is read, and the one that is being built.
    copy: str | None
    next_copy: str | None
    #: How much is still to be written to that one before it is read; None: it is still asked what it is to hold.
    to_build: int | None
    #: Whose vectors the copy holds, or the one that is being built; None: it holds none.
    model: str | None
    #: What is still to be written, and what the server would not take.
    waiting: int
    set_aside: int
    #: How long the oldest of what is to be written has been waiting.
    lag_seconds: float
    #: Since when the server fails, and how.
    failing_since: datetime | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionDiff:
    """What a copy has otherwise than the database; what is still to be written does not count."""

    target: Target
    #: How much was compared.
    compared: int
    missing: Sequence[UUID]
    extra: Sequence[UUID]
    different: Sequence[UUID]
    #: Whether all of it is asked to be written anew.
    is_repaired: bool

    @property
    def count(self) -> int:
        """How much differs."""
        return len(self.missing) + len(self.extra) + len(self.different)


@dataclass(frozen=True, slots=True, kw_only=True)
class Projections:
    """The copies of an org; the operator's."""

    access: Access
    settings: Settings
    #: Returns the embedding model.
    load: Callable[[], Awaitable[Embedder]]

    async def status(self) -> list[ProjectionStatus]:
        """Return how the copies in each server do, of those that hold any."""
        await self.access.audit_work("projections")
        async with self.access.db.read_transaction(self.access.principal) as conn:
            return await projection_statuses(conn, self.access.org_id)

    async def rebuild(
        self,
        target: str,
        progress: runner.Progress | None = None,
        *,
        again: bool = False,
        waiting: Callable[[], None] | None = None,
    ) -> ProjectionStatus:
        """Build a copy from nothing, beside the one that is read, and return once it is read in its place.

        Args:
            target: Which server.
            progress: Told of each batch.
            again: Only if there is one already: nobody may have dropped it meanwhile.
            waiting: Called once, if it has to wait for transactions that began before.

        Raises:
            BadInput: there is no such server, or none is configured.
            NotFound: the copies were dropped meanwhile.
            BackendUnavailable: the server fails; what is left to do is done when it is back, or by calling again.
        """
        checked = _target(target)
        await self.access.audit_work("rebuild projection")
        async with self._open(checked) as server:
            worker = ProjectionWorker(db=self.access.db, projection=server, queue=checked)
            if checked == "neo4j":
                await worker.build(self.access.org_id, again=again)
            else:
                embedder = await self.load()
                model, dimensions = embedder.model_id, embedder.dimensions
                await worker.build(self.access.org_id, model=model, dimensions=dimensions, again=again)
            await projection.drain(worker, only_org=self.access.org_id, progress=progress, waiting=waiting)
        built = next((one for one in await self.status() if one.target == checked), None)
        if built is None:
            raise NotFound("copy in", checked)
        return built

    async def diff(self, target: str, *, repair: bool = False) -> ProjectionDiff:
        """Compare the copy that is read with the database; let what differs be written anew, if that is wanted.

        Raises:
            BadInput: there is no such server, or none is configured.
            NotFound: no copy is read.
            BackendUnavailable: the server fails, or the copy is gone.
        """
        checked = _target(target)
        await self.access.audit_work("compare projection")
        held = await self._current_projection(checked)
        if held is None or held.copy is None:
            raise NotFound("copy in", checked)
        async with self._open(checked) as server:
            found = await _compare(self._expected(held), _stored_digests(server, held.copy))
        behind = await self._pending_ids(checked, [*found.missing, *found.extra, *found.different])
        left = [
            [one for one in ids if one not in behind] for ids in (found.missing, found.extra, found.different)
        ]
        if repair and any(left):
            await self._repair(checked, held.copy, [one for some in left for one in some])
        return ProjectionDiff(
            target=checked,
            compared=found.compared,
            missing=left[0],
            extra=left[1],
            different=left[2],
            is_repaired=repair and any(left),
        )

    async def _repair(self, target: Target, index: str, ids: Sequence[UUID]) -> None:
        """Let subjects be written anew, or removed, by the worker; until then the copy stays as it is.

        What is asked for may be written at once, so it is asked for last.
        """
        # Whatever number it bears: the database may be an older one, restored.
        async with self._open(target) as server:
            await server.invalidate(index, ids)
        ask = partial(projections.enqueue_for, org_id=self.access.org_id, target=target, ids=ids)
        await self.access.db.change(self.access.org_id, ask)

    async def drop(self, target: str) -> None:
        """Have no copies in a server any more; the database alone is read.

        Without settings for the server its copies are left there, and never brought up to date again.

        Raises:
            BadInput: there is no such server.
            BackendUnavailable: the server fails; copies may be left there.
        """
        checked = _target(target)
        await self.access.audit_work("drop projection")
        stop = partial(projections.delete_projection, org_id=self.access.org_id, target=checked)
        await self.access.db.change(self.access.org_id, stop)
        try:
            async with self._open(checked) as server:
                for copy in await server.index_names():
                    if copy.startswith(projection.index_prefix(self.access.org_id)):
                        await server.remove(copy)
        except BadInput:
            # No server is configured any more.
            return

    @asynccontextmanager
    async def _open(self, target: Target) -> AsyncGenerator[Projection[Any]]:
        server = open_projection(self.settings, target)
        try:
            yield server
        finally:
            await server.close()

    async def _current_projection(self, target: Target) -> projections.Projection | None:
        async with self.access.db.read_transaction(self.access.principal) as conn:
            held = await projections.all_projections(conn, self.access.org_id)
        return next((one for one in held if one.target == target), None)

    async def _expected(self, held: projections.Projection) -> AsyncIterator[StoredDigest]:
        """Yield what a copy is to hold, in the order of ids; no connection is held between two pages."""
        after: UUID | None = None
        while True:
            async with self.access.db.read_transaction(self.access.principal) as conn:
                ids = await projection_subjects.subject_ids_after(
                    conn, self.access.org_id, held.target, after, limit=PAGE
                )
                found = await projection_subjects.read_subjects(
                    conn, self.access.org_id, held.target, ids, model=held.model, version=0
                )
            if not ids:
                return
            digests = await asyncio.to_thread(_digests, found)
            for one in ids:
                if one in digests:
                    yield StoredDigest(id=one, digest=digests[one])
            after = ids[-1]

    async def _pending_ids(self, target: Target, ids: Sequence[UUID]) -> set[UUID]:
        async with self.access.db.read_transaction(self.access.principal) as conn:
            return await projections.pending_ids(conn, self.access.org_id, target, ids)


async def projection_statuses(conn: Connection, org_id: OrgId) -> list[ProjectionStatus]:
    """Return how the copies of an org do in each server that holds any, to its operator."""
    held, building = (
        await projections.all_projections(conn, org_id),
        await stats.rebuild_backlogs(conn, org_id),
    )
    return [
        _to_status(
            one, await projections.backlog(conn, org_id, one.target), to_build=building.get(one.target)
        )
        for one in held
    ]


def configured(settings: Settings) -> list[Target]:
    """Return the kinds of servers that the settings name."""
    return [target for target in TARGETS if getattr(settings, target) is not None]


def open_projection(
    settings: Settings, target: Target, *, seconds: float = TIMEOUT_SECONDS
) -> Projection[Any]:
    """Return the server that is to hold copies, as the settings name it; it has so long for each request.

    Raises:
        BadInput: they name none, or what it needs is not installed.
    """
    if target == "neo4j":
        if settings.neo4j is None:
            raise BadInput(target, "no server is configured; set ROOMLORE_NEO4J_URL")
        named = settings.neo4j
        return open_neo4j(
            named.url, user=named.user, password=named.password, database=named.database, seconds=seconds
        )
    if settings.qdrant is None:
        raise BadInput(target, "no server is configured; set ROOMLORE_QDRANT_URL")
    return open_qdrant(settings.qdrant.url, key=settings.qdrant.key, seconds=seconds)


def _target(word: str) -> Target:
    for target in TARGETS:
        if word == target:
            return target
    raise BadInput(f"projection {word!r}", f"must be one of {', '.join(TARGETS)}")


def _to_status(
    held: projections.Projection, backlog: projections.BacklogRow, *, to_build: int | None
) -> ProjectionStatus:
    return ProjectionStatus(
        target=held.target,
        is_ready=held.copy is not None,
        is_building=held.next_copy is not None,
        copy=held.copy,
        next_copy=held.next_copy,
        to_build=to_build,
        model=held.model or held.next_model,
        waiting=backlog.waiting,
        set_aside=backlog.set_aside,
        lag_seconds=backlog.lag_seconds,
        failing_since=held.failing_since,
        error=held.error,
    )


def _digests(found: Sequence[Point | Node]) -> dict[UUID, str]:
    return {one.id: one.digest for one in found}


async def _stored_digests(server: Projection[Any], index: str) -> AsyncIterator[StoredDigest]:
    """Yield what a copy holds, in the order of ids."""
    after: UUID | None = None
    while page := await server.stored_digests(index, after=after, limit=PAGE):
        for one in page:
            yield one
        after = page[-1].id


@dataclass(frozen=True, slots=True, kw_only=True)
class _Differences:
    compared: int
    missing: Sequence[UUID]
    extra: Sequence[UUID]
    different: Sequence[UUID]


async def _compare(ours: AsyncIterator[StoredDigest], theirs: AsyncIterator[StoredDigest]) -> _Differences:
    """Go through both in the order of ids, side by side."""
    missing: list[UUID] = []
    extra: list[UUID] = []
    different: list[UUID] = []
    compared = 0
    wanted, held = await anext(ours, None), await anext(theirs, None)
    while wanted is not None or held is not None:
        if held is None or (wanted is not None and wanted.id < held.id):
            assert wanted is not None
            missing.append(wanted.id)
            wanted = await anext(ours, None)
        elif wanted is None or held.id < wanted.id:
            extra.append(held.id)
            held = await anext(theirs, None)
        else:
            compared += 1
            if wanted.digest != held.digest:
                different.append(wanted.id)
            wanted, held = await anext(ours, None), await anext(theirs, None)
    return _Differences(compared=compared, missing=missing, extra=extra, different=different)


#: An org whose copies fail is left alone for so long.
RETRY_SECONDS = 5.0

LOG = logging.getLogger(__name__)


async def write_pending(db: Database, settings: Settings, only_org: OrgId | None) -> list[str]:
    """Write what waits to be copied, and return which servers fail."""
    failing: list[str] = []
    for target in configured(settings):
        failing += await _write_to(db, settings, target, only_org)
    return failing


async def _write_to(db: Database, settings: Settings, target: Target, only_org: OrgId | None) -> list[str]:
    try:
        server = open_projection(settings, target)
    except BadInput as error:
        return [str(error)]
    worker = ProjectionWorker(db=db, projection=server, queue=target)
    # Several orgs may miss their copies in the same words.
    failing = dict[str, None]()
    try:
        with work_queue.translate_connection_errors():
            org_ids = [org_id for org_id in await orgs(db, only_org) if await worker.has_projection(org_id)]
        for org_id in org_ids:
            try:
                await projection.drain(worker, only_org=org_id)
            except BackendUnavailable as error:
                failing[f"{target}: {error.why}"] = None
                if not await worker.is_reachable():
                    break
    finally:
        await server.close()
    return list(failing)


async def follow_changes(db: Database, settings: Settings, stop: asyncio.Event) -> None:
    """Write changes to copies as they come, until told to stop."""
    async with asyncio.TaskGroup() as group:
        for target in configured(settings):
            group.create_task(_follow_target(db, settings, target, stop))


async def _follow_target(db: Database, settings: Settings, target: Target, stop: asyncio.Event) -> None:
    try:
        server = open_projection(settings, target)
    except BadInput as error:
        LOG.warning("nothing is copied: %s", error)
        return
    try:
        worker = ProjectionWorker(db=db, projection=server, queue=target, backoff_seconds=RETRY_SECONDS)
        await runner.run(db, worker, stop=stop, tasks=[worker.watch])
    finally:
        await server.close()


#: How often a worker looks whether a copy holds the vectors of another model.
REFRESH_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionRefresher:
    """Builds copies with the vectors of the model that was switched to."""

    db: Database
    settings: Settings
    models: EmbeddingModels

    async def refresh(self, only_org: OrgId | None) -> None:
        """See to the copies of an org, or of all."""
        if self.settings.qdrant is not None:
            for org_id in await orgs(self.db, only_org):
                await self._refresh_org(org_id)

    async def run(self, stop: asyncio.Event) -> None:
        """See to the copies of all orgs until told to stop."""
        if self.settings.qdrant is not None:
            await Scheduler(
                db=self.db, visit=self._refresh_org, task_name="copies", interval=REFRESH_SECONDS
            ).run(stop)

    async def _refresh_org(self, org_id: OrgId) -> None:
        """Build the copy of an org anew, beside the one that is read, where it holds vectors of another model."""
        operator = Viewer.operator(org_id)
        async with self.db.read_transaction(operator) as conn:
            current = (await embedding_versions.all_versions(conn, org_id)).get("current")
            held = await projections.all_projections(conn, org_id)
        copy = next((one for one in held if one.target == "qdrant"), None)
        if current is None or current.model is None or copy is None:
            return
        if (copy.next_model or copy.model) == current.model:
            return
        projecting = Projections(
            access=Access(db=self.db, org_id=org_id, principal=operator),
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
