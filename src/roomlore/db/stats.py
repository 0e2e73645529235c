"""Statistics for the operator: the progress of each queue in each room, and how long reads take.

Each statement reads its tables once, whatever the number of rooms.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from roomlore.db.projections import Target
from roomlore.db.queries import Connection, Queries
from roomlore.db.work_queue import EmbeddingPolicy, QueueName
from roomlore.domain.ids import OrgId, RoomId

QUERIES = Queries("stats")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomPolicies:
    """A room with its policies."""

    room_id: RoomId
    platform: str
    external_id: str
    name: str
    embedding_policy: EmbeddingPolicy
    #: The retention period; None is forever.
    retention_period: timedelta | None
    #: When a new retention period starts. Until then, the old period applies and the change can be undone. None if the
    #: new period has started.
    retention_starts_at: datetime | None
    current_retention_period: timedelta | None
    #: The number of messages that expire at that time; None if the new period has started.
    expiring_messages: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomStats(RoomPolicies):
    """A room with its policies and message count, without tombstones."""

    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestMessage:
    """When the newest message was sent, and the time of the database."""

    sent_at: datetime | None
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueBacklog:
    """The work of a queue in a room."""

    room_id: RoomId
    queue: QueueName
    waiting: int
    dead_lettered: int
    #: When the oldest waiting item began to wait; None if nothing waits.
    oldest_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionBacklog:
    """Messages of a room that are still to be written to a projection or deleted there."""

    room_id: RoomId
    target: Target
    waiting: int
    dead_lettered: int
    #: How many of these messages still exist; the others only have to be deleted from the projection.
    still_there: int
    #: When the oldest waiting message began to wait; None if no message waits.
    oldest_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomSample:
    """Counts among the newest messages of a room."""

    room_id: RoomId
    sampled: int
    #: Messages with a parent or a reply.
    in_threads: int
    #: Messages with a reply and no parent.
    threads: int
    #: Messages that need no vector because the vector of another message covers them.
    carried: int
    #: Messages imported from question-answer pairs of an older store.
    legacy: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """How long reads took, in milliseconds."""

    #: search, ask or context.
    action: str
    #: What the room embeds, `message` or `thread`; `several` if the read covered several rooms.
    format: str
    reads: int
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    """Work of one kind that failed at its last attempt."""

    queue: str
    #: The kind of error, never its text, which may quote messages.
    error: str
    count: int
    #: When the newest work failed, if that is recorded.
    newest_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The size of a table with its indexes, or of the database."""

    what: str
    bytes: int


@QUERIES.query
async def room_stats(conn: Connection, org_id: OrgId) -> list[RoomStats]:
    """Return every room with its message count, most first."""
    ...


@QUERIES.query
async def vector_counts(conn: Connection, org_id: OrgId) -> dict[RoomId, int]:
    """Return how many messages of each room have a vector."""
    ...


@QUERIES.query
async def assigned_counts(conn: Connection, org_id: OrgId) -> dict[RoomId, int]:
    """Return how many messages of each room are in a conversation."""
    ...


@QUERIES.query
async def queue_backlogs(conn: Connection, org_id: OrgId) -> list[QueueBacklog]:
    """Return the work in each room, by queue."""
    ...


@QUERIES.query
async def projection_backlogs(conn: Connection, org_id: OrgId) -> list[ProjectionBacklog]:
    """Return the work on projections in each room, by target."""
    ...


@QUERIES.query
async def rebuild_backlogs(conn: Connection, org_id: OrgId) -> dict[Target, int | None]:
    """Return how much is still to be written to each index that is being built.

    The number is None while the work for the index is still being enqueued.
    """
    ...


@QUERIES.query
async def room_samples(conn: Connection, org_id: OrgId, *, sample: int) -> dict[RoomId, RoomSample]:
    """Return counts among the newest messages of each room."""
    ...


@QUERIES.query
async def newest_message(conn: Connection, org_id: OrgId) -> NewestMessage:
    """Return when the newest message was sent, and the time of the database."""
    ...


@QUERIES.query
async def latencies(conn: Connection, org_id: OrgId, *, newest: int) -> list[Latency]:
    """Return how long the newest timed reads took, by kind."""
    ...


@QUERIES.query
async def dead_letters(conn: Connection, org_id: OrgId, *, limit: int) -> list[DeadLetters]:
    """Return the failed work by queue and kind of error, most first."""
    ...


async def sizes(conn: Connection, *, limit: int) -> list[Size]:
    """Return the size of the database, and then of its largest tables."""
    return [await database_size(conn), *await table_sizes(conn, limit=limit)]


@QUERIES.query
async def table_sizes(conn: Connection, *, limit: int) -> list[Size]:
    """Return the sizes of the largest tables. The size of a table includes all its partitions."""
    ...


@QUERIES.query
async def database_size(conn: Connection) -> Size:
    """Return the size of the whole database."""
    ...
