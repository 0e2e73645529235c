"""Writes what has changed to copies in other servers, and builds new copies beside those that are read.

A copy is written at least once for every change, each time as things are by then; a subject is never written by two
workers at once. So whatever is killed when, every copy ends up as the database is.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from uuid import UUID

from roomlore.db import projection_subjects, projections, work_queue
from roomlore.db.database import Database
from roomlore.db.projections import NewIndex, Target
from roomlore.db.queries import Connection
from roomlore.db.work_queue import Task
from roomlore.domain.errors import BackendUnavailable
from roomlore.domain.ids import ConversationId, OrgId, uuid7
from roomlore.domain.ports import Projection
from roomlore.domain.projections import Node, Point
from roomlore.jobs import runner
from roomlore.jobs.scheduler import Scheduler, orgs

#: A batch takes no longer, or is given up: before its lease ends, after which another worker may write the same.
TIMEOUT_SECONDS = 60.0
#: In a name this tells one copy of an org from another: when it was begun, in milliseconds, and some chance.
NUMBER_DIGITS, TIME_DIGITS = 20, 12
#: So long nobody takes a copy for left behind.
MIN_INDEX_AGE_SECONDS = 600.0
#: How often copies that are being built are looked after.
POLL_SECONDS = 5.0
#: One transaction asks for so many subjects of a new copy.
CHUNK_SIZE = 10_000
#: How long a drain waits for those who write meanwhile.
WAITING_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionWorker:
    """Keeps the copies in one server up to date."""

    db: Database
    #: Of what `subjects` reads for the stage: points or nodes.
    projection: Projection[Any]
    queue: Target
    batch: int = 512
    chunk_size: int = CHUNK_SIZE
    #: An org whose copies fail is left alone for so long: others have their turn meanwhile.
    backoff_seconds: float = 0.0
    #: Until when which org is left alone.
    _backing_off: dict[OrgId, float] = field(default_factory=dict[OrgId, float], repr=False)

    def orgs_backing_off(self) -> Collection[OrgId]:
        """Return the orgs whose copies have just failed."""
        now = time.monotonic()
        return [org_id for org_id, until in self._backing_off.items() if now < until]

    async def begin(self, only_org: OrgId | None) -> None:
        """Ask for all that a copy is to hold that is being built, and remove copies that nobody reads any more."""
        for org_id in await orgs(self.db, only_org):
            await self.advance_build(org_id)

    async def do(self, org_id: OrgId, tasks: Sequence[Task]) -> int:
        """Write subjects, as they are by now, to every copy, or remove them; return how many.

        Raises:
            BackendUnavailable: the server fails, or is too slow.
            BadInput: the server takes all but some of them.
        """
        held, ids, of_models = await self.db.change(org_id, partial(self._read, org_id=org_id, tasks=tasks))
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                for copy, model in held.indexes if held is not None else ():
                    await self._write(copy, ids, of_models[model])
        except TimeoutError:
            await self._record_failure(org_id, "TimeoutError")
            raise BackendUnavailable(f"{self.queue} is too slow", cure="see how it is doing") from None
        except BackendUnavailable as error:
            await self._record_failure(org_id, error.why)
            raise
        done = [task for task in tasks if task.subject_id in set(ids)]
        there = {one.id for found in of_models.values() for one in found}
        gone = [one for one in ids if one not in there]
        await self.db.change(org_id, partial(self._finish, org_id=org_id, tasks=done, gone=gone))
        return len(tasks)

    async def _read(
        self, conn: Connection, org_id: OrgId, tasks: Sequence[Task]
    ) -> tuple[projections.Projection | None, list[UUID], dict[str | None, Sequence[Point | Node]]]:
        held = await projections.take_fencing_token(conn, org_id, self.queue)
        if held is None:
            return None, [], {}
        # What was taken long ago, behind the work of other orgs, may be somebody else's by now.
        ours = await projections.renew(conn, org_id, self.queue, tasks)
        ids: list[UUID] = [task.subject_id for task in tasks if task.subject_id in ours]
        of_models = {
            model: await projection_subjects.read_subjects(
                conn, org_id, self.queue, ids, model=model, version=held.turn
            )
            for model in dict.fromkeys(model for _, model in held.indexes)
        }
        return held, ids, of_models

    async def _write(self, copy: str, ids: Sequence[UUID], found: Sequence[Point | Node]) -> None:
        there = {one.id for one in found}
        gone = [one for one in ids if one not in there]
        # What is gone goes first: what the server does not take holds up nobody's erasure.
        if gone:
            await self.projection.drop(copy, gone)
        if found:
            await self.projection.put(copy, found)

    async def _finish(
        self, conn: Connection, org_id: OrgId, tasks: Sequence[Task], gone: Sequence[UUID]
    ) -> None:
        await projections.finish(conn, org_id, self.queue, tasks)
        # Of all subjects conversations alone may come back, and their edges went with them: a node that was removed
        # takes those along that messages own.
        await projections.enqueue_conversations(conn, org_id, [ConversationId(one) for one in gone])
        await projections.record_recovery(conn, org_id, self.queue)

    async def _record_failure(self, org_id: OrgId, error: str) -> None:
        self._backing_off[org_id] = time.monotonic() + self.backoff_seconds
        await self.db.change(
            org_id, partial(projections.record_outage, org_id=org_id, target=self.queue, error=error)
        )

    async def tidy(self) -> None:
        """Leave it to the rounds."""

    async def build(
        self, org_id: OrgId, *, model: str | None = None, dimensions: int | None = None, again: bool = False
    ) -> None:
        """Begin a copy beside the one that is read, unless the server has lost that; of points with vectors of a model.

        Args:
            org_id: Whose copy.
            model: Whose vectors it is to hold, and how long they are; None: none.
            dimensions: See there.
            again: Only if the org has copies already: somebody may have given them up meanwhile.

        Raises:
            BackendUnavailable: the server fails.
        """
        there, held = await self.projection.index_names(), await self._current_projection(org_id)
        is_lost = held is not None and held.copy is not None and held.copy not in there
        copy = f"{index_prefix(org_id)}{uuid7().hex[:NUMBER_DIGITS]}"
        await self.projection.prepare(copy, dimensions=dimensions or 0)
        planned = NewIndex(copy=copy, model=model, dimensions=dimensions)

        async def begin(conn: Connection) -> bool:
            if again and await projections.take_fencing_token(conn, org_id, self.queue) is None:
                return False
            await projections.start_rebuild(conn, org_id, self.queue, planned, is_lost=is_lost)
            return True

        if not await self.db.change(org_id, begin):
            # Nobody would come by where an org has no copies.
            await self.projection.remove(copy)

    async def advance_build(self, org_id: OrgId) -> bool:
        """Take the next step with a copy that is being built, and return whether there is another one to come.

        Where the server has lost a copy another one is begun.

        Raises:
            BackendUnavailable: the server fails.
        """
        if await self._current_projection(org_id) is None:
            return False
        try:
            there = await self.projection.index_names()
            held = await self._current_projection(org_id)
            goes_on = held is not None and await self._advance(org_id, held, there)
        except BackendUnavailable as error:
            await self._record_failure(org_id, error.why)
            raise
        recovered = partial(projections.record_recovery, org_id=org_id, target=self.queue)
        await self.db.change(org_id, recovered)
        return goes_on

    async def _advance(self, org_id: OrgId, held: projections.Projection, there: Sequence[str]) -> bool:
        known = {held.copy, held.next_copy}
        if not known - {None} <= set(there):
            model, dimensions = held.next_model or held.model, held.next_dimensions or held.dimensions
            await self.build(org_id, model=model, dimensions=dimensions, again=True)
            return True
        for copy in there:
            # Left behind by somebody who was killed; copies of others are theirs.
            if copy.startswith(index_prefix(org_id)) and copy not in known and _is_abandoned(copy):
                await self.projection.remove(copy)
        if held.next_copy is None:
            return False
        if held.next_since is None:
            announce = partial(projections.publish_rebuild, org_id=org_id, target=self.queue)
            await self.db.change(org_id, announce)
            while await self.db.change(org_id, partial(self._enqueue_chunk, org_id=org_id)):
                pass
            return True
        switch = partial(projections.swap_index, org_id=org_id, target=self.queue)
        if not await self.db.change(org_id, switch):
            return True
        if held.copy is not None:
            await self.projection.remove(held.copy)
        return False

    async def _enqueue_chunk(self, conn: Connection, org_id: OrgId) -> bool:
        """Ask for a portion of what a new copy is to hold, and return whether there is another one."""
        asking = await projections.rebuild_position(conn, org_id, self.queue)
        if asking is None:
            return False
        ids = await projection_subjects.subject_ids_after(
            conn, org_id, self.queue, asking.after, limit=self.chunk_size
        )
        is_last = len(ids) < self.chunk_size
        await projections.enqueue_rebuild_batch(conn, org_id, self.queue, ids, is_last=is_last)
        return not is_last

    async def has_projection(self, org_id: OrgId) -> bool:
        """Return whether an org has copies in the server, or is to have some."""
        return await self._current_projection(org_id) is not None

    async def is_reachable(self) -> bool:
        """Return whether the server is there at all, whatever it has lost."""
        try:
            await self.projection.index_names()
        except BackendUnavailable:
            return False
        return True

    async def _current_projection(self, org_id: OrgId) -> projections.Projection | None:
        held = await self.db.change(org_id, partial(projections.all_projections, org_id=org_id))
        return next((one for one in held if one.target == self.queue), None)

    async def watch(self, stop: asyncio.Event) -> None:
        """Look after the copies of every org until told to stop."""

        async def visit(org_id: OrgId) -> None:
            # The lanes say how the server fails, and try again.
            with contextlib.suppress(BackendUnavailable):
                await self.advance_build(org_id)

        await Scheduler(db=self.db, visit=visit, task_name="building copies", interval=POLL_SECONDS).run(stop)


def index_prefix(org_id: OrgId) -> str:
    """Return how the names of all copies of an org begin: several databases may share a server."""
    return f"{org_id.hex}-"


def _is_abandoned(copy: str) -> bool:
    """Return whether a copy was begun long ago; one that is being made may not be known of yet."""
    begun = copy.rpartition("-")[2][:TIME_DIGITS]
    try:
        milliseconds = int(begun, 16)
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
    """Write all that waits, build the copies that are to be built, and return what was done.

    Args:
        worker: What does it.
        only_org: The copies of this org; None: of every org.
        progress: Told of each batch.
        waiting: Called once, if it has to wait for transactions that began before a copy was announced.

    Raises:
        BackendUnavailable: the server fails.
        DatabaseUnavailable: the database went away.
    """
    done = 0
    while True:
        drained = await runner.drain(worker.db, worker, only_org=only_org, progress=progress)
        done += drained.done
        with work_queue.translate_connection_errors():
            building = [await worker.advance_build(org_id) for org_id in await orgs(worker.db, only_org)]
        if not any(building):
            return replace(drained, done=done)
        if not drained.done and waiting is not None:
            waiting()
            waiting = None
        # Somebody is still writing who may not have known of a new copy.
        await asyncio.sleep(WAITING_SECONDS)
