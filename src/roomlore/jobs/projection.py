"""Writes changes to projection indexes on other servers, and builds new indexes beside those that are in use.

For every change, the current state of the subject is written at least once, and never by two workers at once. So all
indexes become equal to the database after a while, even if workers are killed.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from uuid import UUID

from roomlore.db import projections, work_queue
from roomlore.db.projections import NewIndex, Target
from roomlore.db.queries import Connection
from roomlore.db.work_queue import Task
from roomlore.domain.errors import BackendUnavailable
from roomlore.domain.ids import ConversationId, OrgId, uuid7
from roomlore.domain.ports import Projection
from roomlore.domain.projections import GraphTexts, Node, Point
from roomlore.jobs import runner
from roomlore.jobs.scheduler import Scheduler, orgs

#: The timeout of a batch. It is shorter than the lease. After the lease, another worker may write the same subjects.
TIMEOUT_SECONDS = 60.0
#: The suffix of an index name: creation time in milliseconds, then random digits.
NUMBER_DIGITS, TIME_DIGITS = 20, 12
#: Indexes that are younger than this are never treated as abandoned.
MIN_INDEX_AGE_SECONDS = 600.0
#: The pause between two steps of unfinished builds.
POLL_SECONDS = 5.0
#: The number of subjects of a new index enqueued per transaction.
CHUNK_SIZE = 10_000
#: Seconds between checks while a drain waits for concurrent transactions.
WAITING_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionWorker(runner.QueueWorker):
    """Keeps the indexes on one server up to date."""

    queue: Target
    batch: int = 512
    #: The index server. It takes points or nodes as `read_subjects` returns them.
    projection: Projection[Any]
    chunk_size: int = CHUNK_SIZE
    #: The texts of a graph.
    texts: GraphTexts = "none"
    #: If an index fails, its org waits for so many seconds, so that other orgs are served.
    backoff_seconds: float = 0.0
    #: The end of the backoff by org.
    _backing_off: dict[OrgId, float] = field(default_factory=dict[OrgId, float], repr=False)

    def orgs_backing_off(self) -> Collection[OrgId]:
        """Return the orgs whose index has just failed."""
        now = time.monotonic()
        return [org_id for org_id, until in self._backing_off.items() if now < until]

    async def begin(self, only_org: OrgId | None) -> None:
        """Advance unfinished builds, and remove unused indexes."""
        for org_id in await orgs(self.db, only_org):
            await self.advance_build(org_id)

    async def do(self, org_id: OrgId, tasks: Sequence[Task]) -> int:
        """Write the current state of subjects to all indexes of an org, or remove the subjects.

        Raises BackendUnavailable if the server fails or is too slow, BadInput if it refuses some subjects.
        """
        projection, ids, subjects_by_model = await self.db.change(
            org_id, partial(self._read, org_id=org_id, tasks=tasks)
        )
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                for index, model in projection.indexes if projection is not None else ():
                    await self._write(index, ids, subjects_by_model[model])
        except TimeoutError:
            await self._record_failure(org_id, "TimeoutError")
            raise BackendUnavailable(f"{self.queue} is too slow", cure="see how it is doing") from None
        except BackendUnavailable as error:
            await self._record_failure(org_id, error.why)
            raise
        done = [task for task in tasks if task.subject_id in set(ids)]
        existing = {subject.id for subjects in subjects_by_model.values() for subject in subjects}
        removed = [subject for subject in ids if subject not in existing]
        await self.db.change(org_id, partial(self._finish, org_id=org_id, tasks=done, removed=removed))
        return len(tasks)

    async def _read(
        self, conn: Connection, org_id: OrgId, tasks: Sequence[Task]
    ) -> tuple[projections.Projection | None, list[UUID], dict[str | None, Sequence[Point | Node]]]:
        projection = await projections.take_fencing_token(conn, org_id, self.queue)
        if projection is None:
            return None, [], {}
        # If the tasks were leased long ago, another worker may have leased them meanwhile.
        leased = await projections.renew(conn, org_id, self.queue, tasks)
        ids: list[UUID] = [task.subject_id for task in tasks if task.subject_id in leased]
        subjects_by_model = {
            model: await projections.read_subjects(
                conn,
                org_id,
                self.queue,
                ids,
                model=model,
                version=projection.fencing_token,
                texts=self.texts,
            )
            for model in dict.fromkeys(model for _, model in projection.indexes)
        }
        return projection, ids, subjects_by_model

    async def _write(self, index: str, ids: Sequence[UUID], subjects: Sequence[Point | Node]) -> None:
        existing = {each.id for each in subjects}
        removed = [each for each in ids if each not in existing]
        # Removals come first, so that refused subjects do not delay erasures.
        if removed:
            await self.projection.drop(index, removed)
        if subjects:
            await self.projection.put(index, subjects)

    async def _finish(
        self, conn: Connection, org_id: OrgId, tasks: Sequence[Task], removed: Sequence[UUID]
    ) -> None:
        await projections.finish(conn, org_id, self.queue, tasks)
        # Only a removed conversation can exist again. Removing its node also removes edges that messages own. So the
        # messages of the conversations are enqueued to be written again.
        await projections.enqueue_conversations(conn, org_id, [ConversationId(each) for each in removed])
        await projections.record_recovery(conn, org_id, self.queue)

    async def _record_failure(self, org_id: OrgId, error: str) -> None:
        self._backing_off[org_id] = time.monotonic() + self.backoff_seconds
        await self.db.change(
            org_id, partial(projections.record_outage, org_id=org_id, target=self.queue, error=error)
        )

    async def build(
        self, org_id: OrgId, *, model: str | None = None, dimensions: int | None = None, again: bool = False
    ) -> None:
        """Start building an index beside the current one. If the server has lost the current index, drop it first.

        `model` and `dimensions` describe the vectors of the index. With `again`, an index is built only if the org
        still has a projection.
        """
        names, current = await self.projection.index_names(), await self._current_projection(org_id)
        is_lost = current is not None and current.index_name is not None and current.index_name not in names
        index = f"{index_prefix(org_id)}{uuid7().hex[:NUMBER_DIGITS]}"
        await self.projection.prepare(index, dimensions=dimensions or 0)
        new_index = NewIndex(index_name=index, model=model, dimensions=dimensions)

        async def begin(conn: Connection) -> bool:
            if again and await projections.take_fencing_token(conn, org_id, self.queue) is None:
                return False
            await projections.start_rebuild(conn, org_id, self.queue, new_index, is_lost=is_lost)
            return True

        if not await self.db.change(org_id, begin):
            # The org's projection was removed meanwhile, so nothing else would remove this index.
            await self.projection.remove(index)

    async def advance_build(self, org_id: OrgId) -> bool:
        """Advance an unfinished build by one step; return whether another step follows.

        An index that the server has lost is built again. Raises BackendUnavailable.
        """
        if await self._current_projection(org_id) is None:
            return False
        try:
            names = await self.projection.index_names()
            projection = await self._current_projection(org_id)
            goes_on = projection is not None and await self._advance(org_id, projection, names)
        except BackendUnavailable as error:
            await self._record_failure(org_id, error.why)
            raise
        recovered = partial(projections.record_recovery, org_id=org_id, target=self.queue)
        await self.db.change(org_id, recovered)
        return goes_on

    async def _advance(self, org_id: OrgId, projection: projections.Projection, names: Sequence[str]) -> bool:
        known = {projection.index_name, projection.next_index_name}
        if not known - {None} <= set(names):
            model, dimensions = (
                projection.next_model or projection.model,
                projection.next_dimensions or projection.dimensions,
            )
            await self.build(org_id, model=model, dimensions=dimensions, again=True)
            return True
        for index in names:
            # A killed worker left this index. Indexes with another prefix belong to other databases.
            if index.startswith(index_prefix(org_id)) and index not in known and _is_abandoned(index):
                await self.projection.remove(index)
        if projection.next_index_name is None:
            return False
        if projection.next_since is None:
            publish = partial(projections.publish_rebuild, org_id=org_id, target=self.queue)
            await self.db.change(org_id, publish)
            while await self.db.change(org_id, partial(self._enqueue_chunk, org_id=org_id)):
                pass
            return True
        switch = partial(projections.swap_index, org_id=org_id, target=self.queue)
        if not await self.db.change(org_id, switch):
            return True
        if projection.index_name is not None:
            await self.projection.remove(projection.index_name)
        return False

    async def _enqueue_chunk(self, conn: Connection, org_id: OrgId) -> bool:
        """Enqueue a chunk of a new index; return whether another chunk follows."""
        position = await projections.rebuild_position(conn, org_id, self.queue)
        if position is None:
            return False
        ids = await projections.subject_ids_after(
            conn, org_id, self.queue, position.after, limit=self.chunk_size
        )
        is_last = len(ids) < self.chunk_size
        await projections.enqueue_rebuild_batch(conn, org_id, self.queue, ids, is_last=is_last)
        return not is_last

    async def has_projection(self, org_id: OrgId) -> bool:
        """Return whether an org has a projection on the server."""
        return await self._current_projection(org_id) is not None

    async def is_reachable(self) -> bool:
        """Return whether the server answers."""
        try:
            await self.projection.index_names()
        except BackendUnavailable:
            return False
        return True

    async def _current_projection(self, org_id: OrgId) -> projections.Projection | None:
        found = await self.db.change(org_id, partial(projections.all_projections, org_id=org_id))
        return next((each for each in found if each.target == self.queue), None)

    async def watch(self, stop: asyncio.Event) -> None:
        """Advance unfinished builds of every org until told to stop."""

        async def visit(org_id: OrgId) -> None:
            # The queue lanes log the outage and retry.
            with contextlib.suppress(BackendUnavailable):
                await self.advance_build(org_id)

        await Scheduler(db=self.db, visit=visit, task_name="building copies", interval=POLL_SECONDS).run(stop)


def index_prefix(org_id: OrgId) -> str:
    """Return the prefix of an org's index names, which is unique among the databases that share a server."""
    return f"{org_id.hex}-"


def _is_abandoned(index: str) -> bool:
    """Return whether an unregistered index is old enough to be abandoned.

    A newer index may not be registered yet.
    """
    created = index.rpartition("-")[2][:TIME_DIGITS]
    try:
        milliseconds = int(created, 16)
    except ValueError:
        return False
    return time.time() * 1000 - milliseconds > MIN_INDEX_AGE_SECONDS * 1000


async def drain(
    worker: ProjectionWorker,
    *,
    only_org: OrgId | None = None,
    progress: runner.Progress | None = None,
    waiting: Callable[[], None] | None = None,
) -> runner.DrainResult:
    """Write all pending changes and finish all builds; return what was done.

    `waiting` is called once if the call has to wait for older transactions. Raises BackendUnavailable or
    DatabaseUnavailable.
    """
    done = 0
    while True:
        drained = await runner.drain(worker, only_org=only_org, progress=progress)
        done += drained.done
        with work_queue.translate_connection_errors():
            building = [await worker.advance_build(org_id) for org_id in await orgs(worker.db, only_org)]
        if not any(building):
            return replace(drained, done=done)
        if not drained.done and waiting is not None:
            waiting()
            waiting = None
        # A concurrent transaction may not know the new index yet.
        await asyncio.sleep(WAITING_SECONDS)
