"""The work queue, the vectors that the embedding worker writes, and the heartbeats of workers."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, get_args
from uuid import UUID

from pgvector import HalfVector

from roomlore.db.connections import translate_connection_errors as translate_connection_errors  # noqa: PLC0414  for workers
from roomlore.db.queries import Connection, Queries, RowCount
from roomlore.domain.ids import MemoryId, MessageId, OrgId, RoomId
from roomlore.domain.vectors import TOKEN_BYTES, TokenVectors, Vectors

QUERIES = Queries("work_queue")

QueueName = Literal["embed", "disentangle", "interactions", "inject", "qdrant", "neo4j", "reembed", "read"]
QUEUE_NAMES: tuple[QueueName, ...] = get_args(QueueName)
#: `message`: each message has a vector. `thread`: the root of a thread has one vector for the whole thread.
EmbeddingPolicy = Literal["message", "thread"]
CHANNEL = "roomlore_work"
#: At this size, PostgreSQL stores token vectors outside the row, so that a scan of vectors does not read them.
_LEAST_OUTSIDE = 26 * TOKEN_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A leased task."""

    org_id: OrgId
    subject_id: MessageId
    version: int
    #: How often the task was leased since its last result, including this lease.
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySchedule:
    """When failed work is retried."""

    #: The delay before the first retry. Each further delay is four times the delay before it, up to an hour.
    first_after: timedelta
    #: Work that fails at this attempt becomes a dead letter.
    last_attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkCount:
    """How much work waits and how much failed."""

    waiting: int
    dead_lettered: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterCount:
    """Why work failed: the kind of error, never its text, which may quote messages."""

    error: str
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChange:
    """The effect of a new embedding policy."""

    #: Deleted vectors.
    dropped: int
    #: Messages to embed.
    wanted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TextToEmbed:
    """The text of a message or memory."""

    subject_id: MessageId | MemoryId
    #: None for a memory.
    author_name: str | None
    body: str


@QUERIES.query
async def wake(conn: Connection, queue: QueueName) -> None:
    """Notify workers when the transaction commits."""
    ...


async def enqueue(
    conn: Connection, org_id: OrgId, queue: QueueName, subject_ids: Sequence[MessageId | MemoryId]
) -> None:
    """Enqueue subjects. If their work was done before, it is done again."""
    await enqueue_work(conn, org_id, queue, subject_ids)
    await wake(conn, queue)
    if queue == "embed":
        await enqueue_next(conn, subject_ids)


@QUERIES.query
async def enqueue_work(
    conn: Connection, org_id: OrgId, queue: QueueName, subject_ids: Sequence[MessageId | MemoryId]
) -> None:
    """Enqueue subjects."""
    ...


@QUERIES.query
async def enqueue_next(conn: Connection, subject_ids: Sequence[MessageId | MemoryId]) -> int:
    """Enqueue subjects for the next embedding model, if there is a next model; return how many."""
    ...


async def reembed(conn: Connection, org_id: OrgId, ids: Sequence[MessageId]) -> None:
    """Delete the vectors of messages whose text or author name changed, and enqueue them."""
    await enqueue_anew(conn, org_id, ids)
    await wake(conn, "embed")
    await drop_embeddings(conn, org_id, ids)


@QUERIES.query
async def enqueue_anew(conn: Connection, org_id: OrgId, ids: Sequence[MessageId]) -> tuple[int, int]:
    """Enqueue messages with a text; return how many for the current embedding model and for the next."""
    ...


async def enqueue_added(conn: Connection, org_id: OrgId) -> None:
    """Enqueue the added messages to be embedded, and to be read for privacy requests."""
    if (await enqueue_added_messages(conn, org_id))[0]:
        await wake(conn, "embed")


@QUERIES.query
async def enqueue_added_messages(conn: Connection, org_id: OrgId) -> tuple[int, int]:
    """Enqueue the added messages; return how many for the current embedding model and for the next."""
    ...


async def enqueue_missing(
    conn: Connection, org_id: OrgId, model: str, *, with_tokens: bool = False, queue: QueueName = "embed"
) -> int:
    """Enqueue everything that lacks a vector of a model; return how many subjects were not enqueued before.

    With `with_tokens`, also enqueue what lacks token vectors.
    """
    added = await enqueue_missing_vectors(conn, org_id, model, with_tokens=with_tokens, queue=queue)
    if added:
        await wake(conn, queue)
    return added


@QUERIES.query
async def enqueue_missing_vectors(
    conn: Connection, org_id: OrgId, model: str, *, with_tokens: bool, queue: QueueName
) -> RowCount:
    """Enqueue everything that lacks a vector of a model, or its token vectors."""
    ...


async def reconcile_vectors(
    conn: Connection, org_id: OrgId, room_id: RoomId, message_ids: Sequence[MessageId]
) -> None:
    """Adjust vectors to changed replies, if the room embeds threads.

    A message that became a reply loses its vector. A message that is no longer a reply is enqueued.
    """
    if await embedding_policy(conn, org_id, room_id) == "thread":
        await drop_unneeded(conn, org_id, room_id, message_ids)
        await _enqueue_wanting(conn, org_id, room_id, message_ids)


@QUERIES.query
async def embedding_policy(conn: Connection, org_id: OrgId, room_id: RoomId) -> EmbeddingPolicy | None:
    """Return the embedding policy of a room."""
    ...


async def change_policy(
    conn: Connection, org_id: OrgId, room_id: RoomId, policy: EmbeddingPolicy
) -> PolicyChange:
    """Set the embedding policy of a room. Delete the vectors that are no longer needed, and enqueue missing vectors."""
    await set_embedding_policy(conn, org_id, room_id, policy)
    dropped = await drop_unneeded(conn, org_id, room_id)
    return PolicyChange(dropped=dropped, wanted=await _enqueue_wanting(conn, org_id, room_id, None))


@QUERIES.query
async def set_embedding_policy(
    conn: Connection, org_id: OrgId, room_id: RoomId, policy: EmbeddingPolicy
) -> None:
    """Set the embedding policy of a room."""
    ...


async def drop_unneeded(
    conn: Connection,
    org_id: OrgId,
    room_id: RoomId | None = None,
    message_ids: Sequence[MessageId] | None = None,
) -> int:
    """Delete the work and vectors of messages that need no vector; return how many vectors.

    Only rooms that embed whole threads are affected: the given room, or all such rooms. In them, all messages are
    affected, or the given messages and their replies.
    """
    await drop_unneeded_work(conn, org_id, room_id, message_ids)
    return (await drop_unneeded_embeddings(conn, org_id, room_id, message_ids))[0]


@QUERIES.query
async def drop_unneeded_work(
    conn: Connection, org_id: OrgId, room_id: RoomId | None, message_ids: Sequence[MessageId] | None
) -> None:
    """Delete the work on messages that need no vector."""
    ...


@QUERIES.query
async def drop_unneeded_embeddings(
    conn: Connection, org_id: OrgId, room_id: RoomId | None, message_ids: Sequence[MessageId] | None
) -> tuple[int, int]:
    """Delete unneeded vectors; return how many, and how many points are enqueued for projections."""
    ...


async def _enqueue_wanting(
    conn: Connection, org_id: OrgId, room_id: RoomId, message_ids: Sequence[MessageId] | None
) -> int:
    wanted, _ = await enqueue_wanting(conn, org_id, room_id, message_ids)
    if wanted:
        await wake(conn, "embed")
    return wanted


@QUERIES.query
async def enqueue_wanting(
    conn: Connection, org_id: OrgId, room_id: RoomId, message_ids: Sequence[MessageId] | None
) -> tuple[int, int]:
    """Enqueue messages of a room that need a vector and have none; return how many for each model."""
    ...


async def retry(conn: Connection, org_id: OrgId, queue: QueueName) -> int:
    """Enqueue the dead letters of a queue again; return how many."""
    again = await retry_dead_letters(conn, org_id, queue)
    if again:
        await wake(conn, queue)
    return again


@QUERIES.query
async def retry_dead_letters(conn: Connection, org_id: OrgId, queue: QueueName) -> RowCount:
    """Enqueue dead letters again."""
    ...


@QUERIES.query
async def take(
    conn: Connection,
    queue: QueueName,
    only_org: OrgId | None,
    *,
    per_org: int,
    total: int,
    lease: timedelta,
    without: Collection[OrgId] = (),
    suspects: bool = False,
) -> list[Task]:
    """Lease a fair batch of due tasks, of one org or of all orgs except some.

    `suspects` are tasks that may have killed a worker.
    """
    ...


async def take_poison(
    conn: Connection,
    queue: QueueName,
    only_org: OrgId | None,
    *,
    lease: timedelta,
    without: Collection[OrgId] = (),
) -> list[Task]:
    """Lease one task that may have killed its workers, so that it runs alone. Return an empty list if there is none."""
    return await take(conn, queue, only_org, per_org=1, total=1, lease=lease, without=without, suspects=True)


@QUERIES.query
async def org_ids(conn: Connection) -> list[OrgId]:
    """Return all orgs; for a connection without an org."""
    ...


@QUERIES.query
async def count(
    conn: Connection, queue: QueueName, only_org: OrgId | None, *, without: Collection[OrgId] = ()
) -> WorkCount:
    """Return how much work of a queue waits and how much failed, in one org or in all orgs except some."""
    ...


@QUERIES.query
async def dead_letters(conn: Connection, org_id: OrgId, queue: QueueName) -> list[DeadLetterCount]:
    """Return why work of an org failed."""
    ...


@QUERIES.query
async def refresh_statistics(conn: Connection) -> None:
    """Analyze tables that have changed much."""
    ...


@QUERIES.query
async def build_vector_indexes(conn: Connection, *, worth_it: int) -> int:
    """Build the approximate index of one partition if an org has at least `worth_it` vectors in it; return 0 or 1.

    Writers of the partition wait until the transaction ends. So call this once in each transaction.
    """
    ...


@QUERIES.query
async def finish(conn: Connection, org_id: OrgId, queue: QueueName, tasks: Sequence[Task]) -> set[MessageId]:
    """Delete tasks whose subjects have not changed; return these subjects.

    Writers of these subjects wait until the transaction ends. So what you write now is never older than a change.
    """
    ...


@QUERIES.query
async def fail(
    conn: Connection,
    org_id: OrgId,
    queue: QueueName,
    tasks: Sequence[Task],
    *,
    error: str,
    retries: RetrySchedule,
) -> None:
    """Record an error. Schedule a retry, or make the tasks dead letters after their last attempt."""
    ...


@QUERIES.query
async def release(conn: Connection, org_id: OrgId, queue: QueueName, tasks: Sequence[Task]) -> None:
    """Release the leases of unfinished tasks."""
    ...


@QUERIES.query
async def drop(conn: Connection, org_id: OrgId, queue: QueueName, subject_ids: Sequence[MessageId]) -> None:
    """Delete the work on subjects. The queue `embed` stands for the queues of all embedding models."""
    ...


@QUERIES.query
async def texts_to_embed(
    conn: Connection, org_id: OrgId, ids: Sequence[MessageId | MemoryId]
) -> list[TextToEmbed]:
    """Return the texts of the given messages and memories that need a vector."""
    ...


async def put_embeddings(
    conn: Connection,
    org_id: OrgId,
    model: str,
    ids: Sequence[MessageId | MemoryId],
    *,
    vectors: Vectors,
    tokens: Sequence[TokenVectors] | None = None,
) -> None:
    """Store the vectors, and for messages the token vectors. Skip ids that need no vector."""
    await write_embeddings(
        conn,
        org_id,
        model,
        ids,
        vectors=[HalfVector(vector) for vector in vectors],
        tokens=[None] * len(ids) if tokens is None else [_stored_externally(part) for part in tokens],
    )


@QUERIES.query
async def write_embeddings(
    conn: Connection,
    org_id: OrgId,
    model: str,
    ids: Sequence[MessageId | MemoryId],
    *,
    vectors: Sequence[HalfVector],
    tokens: Sequence[bytes | None],
) -> tuple[int, int]:
    """Store vectors; return how many belong to messages, and how many points are enqueued for projections."""
    ...


def _stored_externally(tokens: TokenVectors) -> bytes:
    return tokens.tobytes().ljust(_LEAST_OUTSIDE, b"\0")


async def drop_embeddings(conn: Connection, org_id: OrgId, ids: Sequence[MessageId]) -> int:
    """Delete the vectors of messages; return how many."""
    return (await delete_embeddings(conn, org_id, ids))[0]


@QUERIES.query
async def delete_embeddings(conn: Connection, org_id: OrgId, ids: Sequence[MessageId]) -> tuple[int, int]:
    """Delete vectors; return how many, and how many points are enqueued for projections."""
    ...


#: A worker that was not seen for this long is deleted.
HEARTBEAT_TTL = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A worker process."""

    worker_id: UUID
    started_at: datetime
    seen_at: datetime


async def record_heartbeat(conn: Connection, org_id: OrgId, worker_id: UUID, *, started_at: datetime) -> None:
    """Record that a worker runs, and delete workers that were not seen for long."""
    await put_heartbeat(conn, org_id, worker_id, started_at=started_at)
    await drop_stale_heartbeats(conn, org_id)


@QUERIES.query
async def put_heartbeat(conn: Connection, org_id: OrgId, worker_id: UUID, *, started_at: datetime) -> None:
    """Record that a worker runs."""
    ...


@QUERIES.query
async def drop_stale_heartbeats(conn: Connection, org_id: OrgId, *, kept: timedelta = HEARTBEAT_TTL) -> None:
    """Delete workers that were not seen for longer than `kept`."""
    ...


@QUERIES.query
async def remove_heartbeat(conn: Connection, org_id: OrgId, worker_id: UUID) -> None:
    """Delete a worker that stopped."""
    ...


@QUERIES.query
async def newest_heartbeats(conn: Connection, org_id: OrgId, *, limit: int) -> list[Heartbeat]:
    """Return the workers that were seen last, newest first."""
    ...
