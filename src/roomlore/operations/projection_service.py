"""Indexes in other servers: status, rebuild, comparison with the database, and the jobs that write to them."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from roomlore.db import embedding_versions, projections, stats, work_queue
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

#: The number of subjects compared at once.
PAGE = 1_000
#: The timeout of one request when nobody waits.
TIMEOUT_SECONDS = 30.0
#: The time for which nothing is written for an org after the server failed for this org.
RETRY_SECONDS = 5.0
#: The pause between two checks whether an index has the vectors of the current model.
REFRESH_SECONDS = 30.0

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionStatus:
    """The state of an org's index in one server."""

    target: Target
    #: Whether the current index is complete. Until it is, reads use only the database.
    is_ready: bool
    #: Whether the next index is being built.
    is_building: bool
    #: The names of the current and the next index in the server.
    index_name: str | None
    next_index_name: str | None
    #: The subjects that the next index still lacks; None while they are being counted.
    remaining: int | None
    #: The embedding model of the current or next index; None if the index has no vectors.
    model: str | None
    #: The changes that wait to be written, and the changes that the server rejected.
    waiting: int
    dead_lettered: int
    #: The age of the oldest waiting change.
    lag_seconds: float
    #: When the server began to fail, and the error. Both are None while the server works.
    failing_since: datetime | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionDiff:
    """The differences between an index and the database. Changes that wait to be written do not count."""

    target: Target
    #: The number of subjects compared.
    compared: int
    missing: Sequence[UUID]
    extra: Sequence[UUID]
    different: Sequence[UUID]
    #: Whether all differences are queued to be written again.
    is_repaired: bool

    @property
    def count(self) -> int:
        """The number of differences."""
        return len(self.missing) + len(self.extra) + len(self.different)


@dataclass(frozen=True, slots=True, kw_only=True)
class Projections:
    """The indexes of an org, for operators.

    Methods with a target raise BadInput if there is no such server or the server is not configured. They raise
    BackendUnavailable if the server fails.
    """

    access: Access
    settings: Settings
    #: Loads the embedding model.
    load: Callable[[], Awaitable[Embedder]]

    async def status(self) -> list[ProjectionStatus]:
        """Return the state of the index in each server that has one."""
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
        """Build a new index beside the current one. Return when the new index has replaced it.

        After an outage, call this again.

        Args:
            target: The server.
            progress: Called after each batch.
            again: Whether the org must already have an index in the server.
            waiting: Called once if the call must wait for older transactions.

        Raises:
            NotFound: the index was dropped meanwhile.
        """
        checked = _target(target)
        await self.access.audit_work("rebuild projection")
        async with self._open(checked) as server:
            worker = ProjectionWorker(
                db=self.access.db, projection=server, queue=checked, texts=self.settings.graph_texts
            )
            if checked == "neo4j":
                await worker.build(self.access.org_id, again=again)
            else:
                embedder = await self.load()
                model, dimensions = embedder.model_id, embedder.dimensions
                await worker.build(self.access.org_id, model=model, dimensions=dimensions, again=again)
            await projection.drain(worker, only_org=self.access.org_id, progress=progress, waiting=waiting)
        built = next((status for status in await self.status() if status.target == checked), None)
        if built is None:
            raise NotFound("index in", checked)
        return built

    async def diff(self, target: str, *, repair: bool = False) -> ProjectionDiff:
        """Compare the current index with the database. With `repair`, queue the differences to be written again.

        Raises:
            NotFound: there is no current index.
        """
        checked, org_id = _target(target), self.access.org_id
        await self.access.audit_work("compare projection")
        async with self.access.db.read_transaction(self.access.principal) as conn:
            current = await projections.current_projection(conn, org_id, checked)
        if current is None or current.index_name is None:
            raise NotFound("index in", checked)
        async with self._open(checked) as server:
            compared, *found = await _compare(
                self._expected(current), _stored_digests(server, current.index_name)
            )
        async with self.access.db.read_transaction(self.access.principal) as conn:
            pending = await projections.pending_ids(
                conn, org_id, checked, [key for ids in found for key in ids]
            )
        missing, extra, different = ([key for key in ids if key not in pending] for ids in found)
        ids = [*missing, *extra, *different]
        if repair and ids:
            async with self._open(checked) as server:
                # Allow older versions: the database may have been restored.
                await server.invalidate(current.index_name, ids)
            # Queue the differences last, because the worker may write them at once.
            enqueue = partial(projections.enqueue_for, org_id=org_id, target=checked, ids=ids)
            await self.access.db.change(org_id, enqueue)
        return ProjectionDiff(
            target=checked,
            compared=compared,
            missing=missing,
            extra=extra,
            different=different,
            is_repaired=repair and bool(ids),
        )

    async def drop(self, target: str) -> None:
        """Delete the indexes in a server.

        If the settings do not name the server, Roomlore cannot reach it: it only stops using the indexes.
        """
        checked = _target(target)
        await self.access.audit_work("drop projection")
        stop = partial(projections.delete_projection, org_id=self.access.org_id, target=checked)
        await self.access.db.change(self.access.org_id, stop)
        try:
            async with self._open(checked) as server:
                for name in await server.index_names():
                    if name.startswith(projection.index_prefix(self.access.org_id)):
                        await server.remove(name)
        except BadInput:
            # The server is no longer configured.
            return

    @asynccontextmanager
    async def _open(self, target: Target) -> AsyncGenerator[Projection[Any]]:
        server = open_projection(self.settings, target)
        try:
            yield server
        finally:
            await server.close()

    async def _expected(self, current: projections.Projection) -> AsyncIterator[StoredDigest]:
        """Yield the digests that an index should have, by id. No connection is held between two pages."""
        org_id, after = self.access.org_id, None
        while True:
            async with self.access.db.read_transaction(self.access.principal) as conn:
                ids = await projections.subject_ids_after(conn, org_id, current.target, after, limit=PAGE)
                found = await projections.read_subjects(
                    conn,
                    org_id,
                    current.target,
                    ids,
                    model=current.model,
                    version=0,
                    texts=self.settings.graph_texts,
                )
            if not ids:
                return
            digests = await asyncio.to_thread(_digests, found)
            for key in ids:
                if key in digests:
                    yield StoredDigest(id=key, digest=digests[key])
            after = ids[-1]


async def projection_statuses(conn: Connection, org_id: OrgId) -> list[ProjectionStatus]:
    """Return the state of an org's index in each server that has one, for the operator."""
    building = await stats.rebuild_backlogs(conn, org_id)
    statuses: list[ProjectionStatus] = []
    for row in await projections.all_projections(conn, org_id):
        backlog = await projections.backlog(conn, org_id, row.target)
        statuses.append(
            ProjectionStatus(
                target=row.target,
                is_ready=row.index_name is not None,
                is_building=row.next_index_name is not None,
                index_name=row.index_name,
                next_index_name=row.next_index_name,
                remaining=building.get(row.target),
                model=row.model or row.next_model,
                waiting=backlog.waiting,
                dead_lettered=backlog.dead_lettered,
                lag_seconds=backlog.lag_seconds,
                failing_since=row.failing_since,
                error=row.error,
            )
        )
    return statuses


def configured(settings: Settings) -> list[Target]:
    """Return the configured kinds of servers."""
    return [target for target in TARGETS if getattr(settings, target) is not None]


def open_projection(
    settings: Settings, target: Target, *, seconds: float = TIMEOUT_SECONDS
) -> Projection[Any]:
    """Return a configured server, with a timeout for each request.

    Raises:
        BadInput: it is not configured, or its package is not installed.
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


def _digests(subjects: Sequence[Point | Node]) -> dict[UUID, str]:
    return {subject.id: subject.digest for subject in subjects}


async def _stored_digests(server: Projection[Any], index: str) -> AsyncIterator[StoredDigest]:
    """Yield the digests that an index actually has, by id."""
    after: UUID | None = None
    while page := await server.stored_digests(index, after=after, limit=PAGE):
        for digest in page:
            yield digest
        after = page[-1].id


async def _compare(
    expected: AsyncIterator[StoredDigest], stored: AsyncIterator[StoredDigest]
) -> tuple[int, list[UUID], list[UUID], list[UUID]]:
    """Merge both streams by id. Return the number compared, and the missing, extra and different ids."""
    missing: list[UUID] = []
    extra: list[UUID] = []
    different: list[UUID] = []
    compared = 0
    ours, theirs = await anext(expected, None), await anext(stored, None)
    while ours is not None or theirs is not None:
        if ours is not None and (theirs is None or ours.id < theirs.id):
            missing.append(ours.id)
            ours = await anext(expected, None)
        elif theirs is not None and (ours is None or theirs.id < ours.id):
            extra.append(theirs.id)
            theirs = await anext(stored, None)
        else:
            assert ours is not None
            assert theirs is not None
            compared += 1
            if ours.digest != theirs.digest:
                different.append(ours.id)
            ours, theirs = await anext(expected, None), await anext(stored, None)
    return compared, missing, extra, different


async def write_pending(db: Database, settings: Settings, only_org: OrgId | None) -> list[str]:
    """Write the waiting changes to the indexes, and return the servers that fail."""
    failing: list[str] = []
    for target in configured(settings):
        failing += await _write_to(db, settings, target, only_org)
    return failing


async def _write_to(db: Database, settings: Settings, target: Target, only_org: OrgId | None) -> list[str]:
    try:
        server = open_projection(settings, target)
    except BadInput as error:
        return [str(error)]
    worker = ProjectionWorker(db=db, projection=server, queue=target, texts=settings.graph_texts)
    # Several orgs may have the same error.
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
    """Write changes to the indexes as they arrive, until `stop` is set."""
    async with asyncio.TaskGroup() as group:
        for target in configured(settings):
            group.create_task(_follow_target(db, settings, target, stop))


async def _follow_target(db: Database, settings: Settings, target: Target, stop: asyncio.Event) -> None:
    try:
        server = open_projection(settings, target)
    except BadInput as error:
        LOG.warning("no index is written: %s", error)
        return
    try:
        worker = ProjectionWorker(
            db=db,
            projection=server,
            queue=target,
            backoff_seconds=RETRY_SECONDS,
            texts=settings.graph_texts,
        )
        await runner.run(worker, stop=stop, tasks=[worker.watch])
    finally:
        await server.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionRefresher:
    """Rebuilds indexes with the vectors of a new embedding model."""

    db: Database
    settings: Settings
    models: EmbeddingModels

    async def refresh(self, only_org: OrgId | None) -> None:
        """Rebuild the index of one org, or of all orgs, if a rebuild is needed."""
        if self.settings.qdrant is not None:
            for org_id in await orgs(self.db, only_org):
                await self._refresh_org(org_id)

    async def run(self, stop: asyncio.Event) -> None:
        """Rebuild the indexes of all orgs as needed, until `stop` is set."""
        if self.settings.qdrant is not None:
            await Scheduler(
                db=self.db, visit=self._refresh_org, task_name="copies", interval=REFRESH_SECONDS
            ).run(stop)

    async def _refresh_org(self, org_id: OrgId) -> None:
        operator = Viewer.operator(org_id)
        async with self.db.read_transaction(operator) as conn:
            current = (await embedding_versions.all_versions(conn, org_id)).get("current")
            rows = await projections.all_projections(conn, org_id)
        index = next((row for row in rows if row.target == "qdrant"), None)
        if current is None or current.model is None or index is None:
            return
        if (index.next_model or index.model) == current.model:
            return
        service = Projections(
            access=Access(db=self.db, org_id=org_id, principal=operator),
            settings=self.settings,
            load=partial(self.models.current, org_id),
        )
        try:
            await service.rebuild("qdrant", again=True)
        except NotFound:
            LOG.info("the index was dropped before it was rebuilt")
        except (BackendUnavailable, BadInput, ModelUnavailable) as error:
            # The error is shown in the status of the index or of the model.
            LOG.warning("the index is not rebuilt: %s", error.why)
