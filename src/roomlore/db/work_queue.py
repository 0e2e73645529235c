"""The queue of what is still to be done, and the vectors that the embedding worker writes."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, get_args
from uuid import UUID

from pgvector import HalfVector

from roomlore.db.connections import translate_connection_errors as translate_connection_errors  # noqa: PLC0414  for all who work
from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import MemoryId, MessageId, OrgId, RoomId
from roomlore.domain.vectors import TOKEN_BYTES, TokenVectors, Vectors

QUERIES = Queries("work_queue")

QueueName = Literal["embed", "untangle", "interact", "inject", "qdrant", "neo4j", "reembed", "listen"]
QUEUE_NAMES: tuple[QueueName, ...] = get_args(QueueName)
#: `message`: each message has a vector; `exchange`: what opens one has, and carries what answers it.
EmbeddingPolicy = Literal["message", "exchange"]
CHANNEL = "roomlore_work"
#: With so many bytes of token vectors a row of 384 dimensions is too large to stay whole, see 0008_tokens.sql.
_LEAST_OUTSIDE = 26 * TOKEN_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One leased piece of work."""

    org_id: OrgId
    subject_id: MessageId
    version: int
    #: How often it was taken since it last came to an end, this time included.
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedSubject:
    """A subject whose work is done."""

    subject_id: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySchedule:
    """When failed work is tried again."""

    #: Each wait is four times as long as the one before it, an hour at most.
    first_after: timedelta
    #: Work that fails at this attempt is set aside.
    last_attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkCount:
    """How much is waiting and how much was set aside."""

    waiting: int
    set_aside: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterCount:
    """Why work was set aside: the kind of error, never its text, which may quote what was said."""

    error: str
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OrgRef:
    """An org."""

    org_id: OrgId


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexCount:
    """How many indexes were built."""

    indexes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRow:
    """What a room embeds."""

    embedding_policy: EmbeddingPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChange:
    """What a change of a room's embedding policy did."""

    #: Vectors that were dropped.
    dropped: int
    #: Messages that are asked to be embedded.
    wanted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorChange:
    """How many vectors of messages were written or dropped, and how many of their copies are to be written anew."""

    count: int
    copies: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueuedCount:
    """How many subjects are asked to be embedded, and how many by the next model."""

    count: int
    of_next: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TextToEmbed:
    """What a message or memory says."""

    subject_id: MessageId | MemoryId
    #: Who said it; None of a memory.
    author_name: str | None
    body: str


async def wake(conn: Connection, queue: QueueName) -> None:
    """Tell listening workers that there is something to do, once the transaction commits."""
    await QUERIES.run(conn, "wake", {"stage": queue})


async def enqueue(
    conn: Connection, org_id: OrgId, queue: QueueName, subject_ids: Sequence[MessageId | MemoryId]
) -> None:
    """Ask for a stage to be run on these subjects once the transaction commits."""
    params = {"org_id": org_id, "stage": queue, "subject_ids": list(subject_ids)}
    await QUERIES.run(conn, "enqueue", params)
    await wake(conn, queue)
    if queue == "embed":
        await _enqueue_embedding(conn, "enqueue_next", params)


async def reembed(conn: Connection, org_id: OrgId, message_ids: Sequence[MessageId]) -> None:
    """Put new work in place of vectors that were made from other words or another name of the author."""
    params = {"org_id": org_id, "message_ids": list(message_ids)}
    await _enqueue_embedding(conn, "enqueue_anew", params)
    await wake(conn, "embed")
    await drop_embeddings(conn, org_id, message_ids)


async def enqueue_added(conn: Connection, org_id: OrgId) -> None:
    """Ask for the messages just added to be embedded once the transaction commits."""
    if await _enqueue_embedding(conn, "enqueue_added", {"org_id": org_id}):
        await wake(conn, "embed")


async def enqueue_missing(
    conn: Connection, org_id: OrgId, model: str, *, with_tokens: bool = False, queue: QueueName = "embed"
) -> int:
    """Ask for a vector of this model, and for those of tokens, for whatever is to have them and lacks them.

    Returns how many were not waiting.
    """
    params = {"org_id": org_id, "model": model, "with_tokens": with_tokens, "stage": queue}
    added = await QUERIES.run(conn, "enqueue_missing", params)
    if added:
        await wake(conn, queue)
    return added


async def reconcile_vectors(
    conn: Connection, org_id: OrgId, room_id: RoomId, message_ids: Sequence[MessageId]
) -> None:
    """Where a room embeds exchanges, let vectors and work be as it wants after messages were gone through.

    What was found to answer loses its vector; what no longer answers is asked to be embedded. This goes for the
    messages and for what answers them.
    """
    params = {"org_id": org_id, "room_id": room_id}
    room = await QUERIES.first(conn, "embedding_policy", PolicyRow, params)
    if room is not None and room.embedding_policy == "exchange":
        await drop_unneeded(conn, org_id, room_id, message_ids)
        await _enqueue_wanting(conn, org_id, room_id, message_ids)


async def change_policy(
    conn: Connection, org_id: OrgId, room_id: RoomId, policy: EmbeddingPolicy
) -> PolicyChange:
    """Say what a room embeds: drop the vectors it then needs no more, ask for those that are missing.

    Returns how many vectors were dropped, and how many are asked for.
    """
    params = {"org_id": org_id, "room_id": room_id, "policy": policy}
    await QUERIES.run(conn, "set_embedding_policy", params)
    dropped = await drop_unneeded(conn, org_id, room_id)
    return PolicyChange(dropped=dropped, wanted=await _enqueue_wanting(conn, org_id, room_id))


async def drop_unneeded(
    conn: Connection,
    org_id: OrgId,
    room_id: RoomId | None = None,
    message_ids: Sequence[MessageId] | None = None,
) -> int:
    """Drop work and vectors of messages that are to have none and return how many vectors that were.

    Of every room that embeds exchanges or of one; all of its messages or some, with what answers them.
    """
    params = {"org_id": org_id, "room_id": room_id, "message_ids": _list(message_ids)}
    await QUERIES.run(conn, "drop_spare_work", params)
    return await _change_vectors(conn, "drop_spare_embeddings", params)


async def _enqueue_wanting(
    conn: Connection, org_id: OrgId, room_id: RoomId, message_ids: Sequence[MessageId] | None = None
) -> int:
    params = {"org_id": org_id, "room_id": room_id, "message_ids": _list(message_ids)}
    wanted = await _enqueue_embedding(conn, "enqueue_wanting", params)
    if wanted:
        await wake(conn, "embed")
    return wanted


async def _enqueue_embedding(conn: Connection, name: str, params: Mapping[str, object]) -> int:
    asked = await QUERIES.first(conn, name, EnqueuedCount, params)
    return asked.count if asked else 0


def _list(ids: Sequence[MessageId] | None) -> list[MessageId] | None:
    return None if ids is None else list(ids)


async def retry(conn: Connection, org_id: OrgId, queue: QueueName) -> int:
    """Ask once more for everything that was set aside; return how much that was."""
    again = await QUERIES.run(conn, "retry", {"org_id": org_id, "stage": queue})
    if again:
        await wake(conn, queue)
    return again


async def take(
    conn: Connection,
    queue: QueueName,
    only_org: OrgId | None,
    *,
    per_org: int,
    total: int,
    lease: timedelta,
    without: Collection[OrgId] = (),
) -> list[Task]:
    """Return a fair batch of due work, over all orgs but some or of one, leased until `lease` has passed."""
    params = {"stage": queue, "only_org": only_org, "per_org": per_org, "total": total, "lease": lease}
    return await QUERIES.all(conn, "take", Task, params | {"suspects": False, "without": list(without)})


async def take_poison(
    conn: Connection,
    queue: QueueName,
    only_org: OrgId | None,
    *,
    lease: timedelta,
    without: Collection[OrgId] = (),
) -> list[Task]:
    """Return one piece of work that may have killed its workers, to be done alone; or nothing."""
    params = {"stage": queue, "only_org": only_org, "per_org": 1, "total": 1, "lease": lease}
    return await QUERIES.all(conn, "take", Task, params | {"suspects": True, "without": list(without)})


async def org_ids(conn: Connection) -> list[OrgId]:
    """Return every org, to a transaction that has none."""
    return [row.org_id for row in await QUERIES.all(conn, "org_ids", OrgRef, {})]


async def count(
    conn: Connection, queue: QueueName, only_org: OrgId | None, *, without: Collection[OrgId] = ()
) -> WorkCount:
    """Return how much of a stage is waiting and how much was set aside, over all orgs but some or in one."""
    params = {"stage": queue, "only_org": only_org, "without": list(without)}
    row = await QUERIES.first(conn, "count", WorkCount, params)
    assert row is not None
    return row


async def dead_letters(conn: Connection, org_id: OrgId, queue: QueueName) -> list[DeadLetterCount]:
    """Return why work of an org was set aside."""
    return await QUERIES.all(conn, "set_aside", DeadLetterCount, {"org_id": org_id, "stage": queue})


async def refresh_statistics(conn: Connection) -> None:
    """Let the planner know what tables have become, where they have changed much."""
    await QUERIES.run(conn, "refresh_statistics", {})


async def build_vector_indexes(conn: Connection, *, worth_it: int) -> int:
    """Give one partition where an org has so many vectors its approximate index; return how many were built.

    Whoever writes or drops vectors of that partition waits until the transaction ends: one call in each.
    """
    row = await QUERIES.first(conn, "build_vector_indexes", IndexCount, {"worth_it": worth_it})
    assert row is not None
    return row.indexes


async def finish(
    conn: Connection, org_id: OrgId, queue: QueueName, tasks: Sequence[Task]
) -> frozenset[MessageId]:
    """Forget finished work and return its subjects; one that has changed in the meantime stays to be done.

    Until the transaction ends, whoever changes one of the subjects waits: what is written now is dropped by
    that change, and never outlives it.
    """
    rows = await QUERIES.all(conn, "finish", FinishedSubject, _leased(org_id, queue, tasks))
    return frozenset(row.subject_id for row in rows)


async def fail(
    conn: Connection,
    org_id: OrgId,
    queue: QueueName,
    tasks: Sequence[Task],
    *,
    error: str,
    retries: RetrySchedule,
) -> None:
    """Note an error and try again later, or set the work aside after its last attempt."""
    params = {"error": error, "retry": retries.first_after, "last_attempt": retries.last_attempt}
    await QUERIES.run(conn, "fail", _leased(org_id, queue, tasks) | params)


async def release(conn: Connection, org_id: OrgId, queue: QueueName, tasks: Sequence[Task]) -> None:
    """Give leased work back unfinished."""
    await QUERIES.run(conn, "release", _leased(org_id, queue, tasks))


def _leased(org_id: OrgId, queue: QueueName, tasks: Sequence[Task]) -> dict[str, object]:
    return {
        "org_id": org_id,
        "stage": queue,
        "subject_id": [task.subject_id for task in tasks],
        "version": [task.version for task in tasks],
    }


async def drop(conn: Connection, org_id: OrgId, queue: QueueName, subject_ids: Sequence[MessageId]) -> None:
    """Drop work on subjects that no longer need it; what is not to be embedded is so by no model."""
    stages = ["embed", "reembed"] if queue == "embed" else [queue]
    params = {"org_id": org_id, "stages": stages, "subject_ids": list(subject_ids)}
    await QUERIES.run(conn, "forget", params)


async def texts_to_embed(
    conn: Connection, org_id: OrgId, ids: Sequence[MessageId | MemoryId]
) -> list[TextToEmbed]:
    """Return what these messages and memories say; one that is to have no vector is left out."""
    params = {"org_id": org_id, "subject_ids": list(ids)}
    return await QUERIES.all(conn, "texts_to_embed", TextToEmbed, params)


async def put_embeddings(
    conn: Connection,
    org_id: OrgId,
    model: str,
    ids: Sequence[MessageId | MemoryId],
    *,
    vectors: Vectors,
    tokens: Sequence[TokenVectors] | None = None,
) -> None:
    """Write one vector for each that is to have one, and those of its tokens, replacing older ones of the model."""
    params = {
        "org_id": org_id,
        "model": model,
        "subject_id": list(ids),
        "embedding": [HalfVector(vector) for vector in vectors],
        "tokens": [None] * len(ids) if tokens is None else [_stored_externally(one) for one in tokens],
    }
    await _change_vectors(conn, "put_embeddings", params)


def _stored_externally(tokens: TokenVectors) -> bytes:
    return tokens.tobytes().ljust(_LEAST_OUTSIDE, b"\0")


async def drop_embeddings(conn: Connection, org_id: OrgId, ids: Sequence[MessageId]) -> int:
    """Remove the vectors of messages; return how many."""
    return await _change_vectors(conn, "drop_embeddings", {"org_id": org_id, "message_ids": list(ids)})


async def _change_vectors(conn: Connection, name: str, params: Mapping[str, object]) -> int:
    touched = await QUERIES.first(conn, name, VectorChange, params)
    return touched.count if touched else 0


#: A worker that was not seen for so long is forgotten.
HEARTBEAT_TTL = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A worker: a process that does what waits, of every stage and every org."""

    worker_id: UUID
    started_at: datetime
    #: When it last came by.
    seen_at: datetime


async def record_heartbeat(conn: Connection, org_id: OrgId, worker_id: UUID, *, started_at: datetime) -> None:
    """Note that a worker came by, and forget those that have not for long."""
    params = {"org_id": org_id, "worker_id": worker_id, "started_at": started_at, "kept": HEARTBEAT_TTL}
    await QUERIES.run(conn, "beat", params)
    await QUERIES.run(conn, "drop_stale", params)


async def remove_heartbeat(conn: Connection, org_id: OrgId, worker_id: UUID) -> None:
    """Forget a worker that ended in order."""
    await QUERIES.run(conn, "end", {"org_id": org_id, "worker_id": worker_id})


async def newest_heartbeats(conn: Connection, org_id: OrgId, *, limit: int) -> list[Heartbeat]:
    """Return the workers that were seen last, newest first."""
    return await QUERIES.all(conn, "newest", Heartbeat, {"org_id": org_id, "limit": limit})
