"""Projections in other servers: their indexes, the work for them, and the points and nodes that they hold."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, get_args
from uuid import UUID

from pgvector import HalfVector

from roomlore.db import graph_nodes, work_queue
from roomlore.db.queries import ROW_FACTORIES, Connection, Queries, RowCount
from roomlore.db.work_queue import Task
from roomlore.domain.ids import ConversationId, OrgId, ParticipantId
from roomlore.domain.projections import GraphTexts, Node, Point, VisibilityFilter
from roomlore.domain.records import MembershipPeriod

QUERIES = Queries("projections")


#: The servers that may hold a projection; each is a queue of work.
Target = Literal["qdrant", "neo4j"]
TARGETS: tuple[Target, ...] = get_args(Target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """The projection of an org in one server."""

    target: Target
    #: The index that is read; None until the first index is complete.
    index_name: str | None
    #: The embedding model of the vectors, and their length; None if the projection has no vectors.
    model: str | None
    dimensions: int | None
    #: The index that is being built, and the time since when all work for it is enqueued.
    next_index_name: str | None
    next_model: str | None
    next_dimensions: int | None
    next_since: datetime | None
    #: The fencing token.
    fencing_token: int
    #: When the server began to fail, and the kind of error; None while the server works.
    failing_since: datetime | None
    error: str | None

    @property
    def indexes(self) -> list[tuple[str, str | None]]:
        """The indexes that are kept up to date, each with its embedding model or None."""
        pairs = ((self.index_name, self.model), (self.next_index_name, self.next_model))
        return [(copy, model) for copy, model in pairs if copy is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewIndex:
    """An index to build."""

    index_name: str
    model: str | None = None
    dimensions: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogRow:
    """The changes that are still to be written to a projection."""

    waiting: int
    #: The number of these changes that the server refused.
    dead_lettered: int
    #: How long the oldest change has waited.
    lag_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildPosition:
    """How far the content of a new index is enqueued."""

    #: The last enqueued subject; None at the beginning.
    after: UUID | None


def _point(*, vector: HalfVector | None, **columns: Any) -> Point:
    return Point(**columns, vector=None if vector is None else vector.to_numpy().astype("float32"))


ROW_FACTORIES[Point] = _point


@QUERIES.query
async def enqueue(conn: Connection, org_id: OrgId, ids: Collection[UUID]) -> int:
    """Enqueue messages that were written or deleted, for every projection."""
    ...


@QUERIES.query
async def enqueue_nodes(conn: Connection, org_id: OrgId, ids: Collection[UUID]) -> int:
    """Enqueue subjects that only graphs hold: participants, rooms, conversations and memories."""
    ...


@QUERIES.query
async def enqueue_for(conn: Connection, org_id: OrgId, target: str, ids: Collection[UUID]) -> int:
    """Enqueue subjects of any kind for one projection."""
    ...


@QUERIES.query
async def enqueue_added(conn: Connection, org_id: OrgId) -> int:
    """Enqueue the added messages, and for graphs their authors and system messages."""
    ...


async def enqueue_replies(conn: Connection, org_id: OrgId, ids: Collection[UUID]) -> None:
    """Enqueue messages whose place in a thread changed, and all replies below them."""
    if ids:
        await enqueue_reply_trees(conn, org_id, ids)
        await enqueue_authors_around(conn, org_id, ids)


@QUERIES.query
async def enqueue_reply_trees(conn: Connection, org_id: OrgId, ids: Collection[UUID]) -> int:
    """Enqueue messages and all replies below them."""
    ...


@QUERIES.query
async def enqueue_authors_around(conn: Connection, org_id: OrgId, ids: Collection[UUID]) -> int:
    """Enqueue for graphs the authors of messages and of the replies to them."""
    ...


async def enqueue_replies_to_added(conn: Connection, org_id: OrgId) -> None:
    """Enqueue the replies that arrived before the added messages."""
    await enqueue_trees_below_added(conn, org_id)
    await enqueue_authors_below_added(conn, org_id)


@QUERIES.query
async def enqueue_trees_below_added(conn: Connection, org_id: OrgId) -> int:
    """Enqueue all replies below the added messages."""
    ...


@QUERIES.query
async def enqueue_authors_below_added(conn: Connection, org_id: OrgId) -> int:
    """Enqueue for graphs the authors of the replies to the added messages."""
    ...


@QUERIES.query
async def enqueue_written_by(conn: Connection, org_id: OrgId, ids: Collection[ParticipantId]) -> int:
    """Enqueue the messages of participants, and for graphs the participants."""
    ...


@QUERIES.query
async def enqueue_naming(conn: Connection, org_id: OrgId, ids: Collection[ParticipantId]) -> int:
    """Enqueue for graphs participants and the memories that name them."""
    ...


@QUERIES.query
async def enqueue_resting(conn: Connection, org_id: OrgId, ids: Collection[UUID]) -> int:
    """Enqueue for graphs messages and the memories that rest on them."""
    ...


@QUERIES.query
async def enqueue_conversations(conn: Connection, org_id: OrgId, ids: Collection[ConversationId]) -> int:
    """Enqueue the messages of conversations."""
    ...


@QUERIES.query
async def all_projections(conn: Connection, org_id: OrgId) -> list[Projection]:
    """Return the projections of an org."""
    ...


async def current_projection(conn: Connection, org_id: OrgId, target: Target) -> Projection | None:
    """Return an org's projection in one server, if one of its indexes is read. For the operator."""
    found = await all_projections(conn, org_id)
    return next((row for row in found if row.target == target and row.index_name is not None), None)


@QUERIES.query
async def take_fencing_token(conn: Connection, org_id: OrgId, target: Target) -> Projection | None:
    """Return a projection with a new fencing token; None if the org has no projection in the server.

    No other worker gets a token until the transaction ends.
    """
    ...


async def read_subjects(
    conn: Connection,
    org_id: OrgId,
    target: Target,
    ids: Sequence[UUID],
    *,
    model: str | None,
    version: int,
    texts: GraphTexts = "none",
) -> Sequence[Point | Node]:
    """Return the current points or nodes of the given subjects that a projection holds.

    `texts` are the texts that nodes have.
    """
    if target == "neo4j":
        return await graph_nodes.nodes(conn, org_id, ids, version=version, texts=texts)
    assert model is not None
    return await points(conn, org_id, ids, model=model, version=version)


async def subject_ids_after(
    conn: Connection, org_id: OrgId, target: Target, after: UUID | None, *, limit: int
) -> list[UUID]:
    """Return the next ids of subjects that a projection holds."""
    read = graph_nodes.ids_after if target == "neo4j" else ids_after
    return await read(conn, org_id, after, limit=limit)


@QUERIES.query
async def points(
    conn: Connection, org_id: OrgId, ids: Sequence[UUID], *, model: str, version: int
) -> list[Point]:
    """Return the given messages that a vector index holds, with their vectors of a model."""
    ...


@QUERIES.query
async def ids_after(conn: Connection, org_id: OrgId, after: UUID | None, *, limit: int) -> list[UUID]:
    """Return the next ids of messages that a vector index holds."""
    ...


@QUERIES.query
async def renew(conn: Connection, org_id: OrgId, target: Target, tasks: Sequence[Task]) -> set[UUID]:
    """Extend the leases of tasks by two minutes. Return the subjects whose lease no other worker has taken."""
    ...


async def finish(conn: Connection, org_id: OrgId, target: Target, tasks: Sequence[Task]) -> None:
    """Finish tasks. A task whose subject changed meanwhile is enqueued again.

    If another worker also finished a task, the task is enqueued again, because nobody knows which write came last.
    """
    subjects = {task.subject_id for task in tasks}
    pending = await pending_ids(conn, org_id, target, subjects)
    await finish_unchanged(conn, org_id, target, tasks)
    await retry_changed(conn, org_id, target, tasks)
    await enqueue(conn, org_id, subjects - pending)


@QUERIES.query
async def finish_unchanged(conn: Connection, org_id: OrgId, target: Target, tasks: Sequence[Task]) -> None:
    """Delete the tasks whose subjects have not changed."""
    ...


@QUERIES.query
async def retry_changed(conn: Connection, org_id: OrgId, target: Target, tasks: Sequence[Task]) -> None:
    """Make the tasks due again whose subjects have changed."""
    ...


async def start_rebuild(
    conn: Connection, org_id: OrgId, target: Target, planned: NewIndex, *, is_lost: bool = False
) -> None:
    """Start to build a new index next to the current index, or instead of it if it is lost."""
    await begin_rebuild(conn, org_id, target, planned, is_lost=is_lost)
    await work_queue.wake(conn, target)


@QUERIES.query
async def begin_rebuild(
    conn: Connection, org_id: OrgId, target: Target, planned: NewIndex, *, is_lost: bool
) -> None:
    """Record that an index is being built."""
    ...


@QUERIES.query
async def publish_rebuild(conn: Connection, org_id: OrgId, target: Target) -> None:
    """Record that every later transaction knows of the rebuild.

    Call this in a transaction after the start of the rebuild.
    """
    ...


@QUERIES.query
async def rebuild_position(conn: Connection, org_id: OrgId, target: Target) -> RebuildPosition | None:
    """Return how far the content of a new index is enqueued; None if it is complete or cannot start yet.

    The projection stays locked until the transaction ends.
    """
    ...


async def enqueue_rebuild_batch(
    conn: Connection, org_id: OrgId, target: Target, ids: Sequence[UUID], *, is_last: bool
) -> None:
    """Enqueue the next batch of the content of a new index."""
    await enqueue_for(conn, org_id, target, ids)
    await record_position(conn, org_id, target, after=ids[-1] if ids else None, is_last=is_last)


@QUERIES.query
async def record_position(
    conn: Connection, org_id: OrgId, target: Target, *, after: UUID | None, is_last: bool
) -> None:
    """Record how far the content of a new index is enqueued."""
    ...


@QUERIES.query
async def swap_index(conn: Connection, org_id: OrgId, target: Target) -> RowCount:
    """Switch reads to the new index if all work that was enqueued at its start is done."""
    ...


async def delete_projection(conn: Connection, org_id: OrgId, target: Target) -> None:
    """Delete a projection and the work on it."""
    await drop_projection(conn, org_id, target)
    await drop_work(conn, org_id, target)


@QUERIES.query
async def drop_projection(conn: Connection, org_id: OrgId, target: Target) -> None:
    """Delete a projection."""
    ...


@QUERIES.query
async def drop_work(conn: Connection, org_id: OrgId, target: Target) -> None:
    """Delete the work on a projection."""
    ...


@QUERIES.query
async def record_outage(conn: Connection, org_id: OrgId, target: Target, error: str) -> None:
    """Record that a server fails, and since when."""
    ...


@QUERIES.query
async def record_recovery(conn: Connection, org_id: OrgId, target: Target) -> None:
    """Record that a server works again."""
    ...


@QUERIES.query
async def backlog(conn: Connection, org_id: OrgId, target: Target) -> BacklogRow:
    """Return what is still to be written to a projection."""
    ...


@QUERIES.query
async def is_behind(conn: Connection, org_id: OrgId, target: Target) -> bool:
    """Return whether a projection may be incomplete."""
    ...


@QUERIES.query
async def has_pending(conn: Connection, org_id: OrgId, target: Target) -> bool:
    """Return whether anything is still to be written to a projection."""
    ...


async def visibility_filter(conn: Connection) -> VisibilityFilter:
    """Return what the viewer may read, as the filter of a projection."""
    visibility = await viewer_visibility(conn)
    return visibility if visibility.is_operator else replace(visibility, stays=await viewer_memberships(conn))


@QUERIES.query
async def viewer_visibility(conn: Connection) -> VisibilityFilter:
    """Return the accounts of the viewer and the open rooms that they may read; without memberships."""
    ...


@QUERIES.query
async def viewer_memberships(conn: Connection) -> list[MembershipPeriod]:
    """Return the memberships of the viewer."""
    ...


@QUERIES.query
async def pending_ids(conn: Connection, org_id: OrgId, target: Target, ids: Collection[UUID]) -> set[UUID]:
    """Return the given subjects that are still to be written to a projection."""
    ...
