"""Monitoring for operators: progress of the jobs, durations of reads, and the embedding policy of rooms."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol, get_args
from uuid import UUID

from roomlore.agents.section_cache import CacheStatistics, SectionCache
from roomlore.db import erasure_guard, extraction_state, llm_calls, stats, work_queue
from roomlore.db.extraction_state import ExtractionProgress
from roomlore.db.projections import Target
from roomlore.db.queries import Connection
from roomlore.db.stats import (
    DeadLetters,
    Latency,
    ProjectionBacklog,
    QueueBacklog,
    RoomPolicies,
    RoomSample,
    RoomStats,
    Size,
)
from roomlore.db.work_queue import EmbeddingPolicy, Heartbeat, PolicyChange, QueueName
from roomlore.domain.clock import clock_problems, utc_now
from roomlore.domain.errors import BadInput
from roomlore.domain.ids import OrgId, RoomId
from roomlore.domain.records import convert
from roomlore.operations.access import Access
from roomlore.operations.embedding_versions import EmbeddingVersions, EmbeddingVersionStatus
from roomlore.operations.projection_service import ProjectionStatus, projection_statuses
from roomlore.operations.registry import operation
from roomlore.search import lookup

#: The newest messages that are sampled for thread statistics: in all rooms together, and at least in each room.
SAMPLE_SIZE, MIN_SAMPLE = 20_000, 20
#: The newest reads measured.
READS = 10_000
#: The maximum number of listed workers and failures, and of listed tables.
MAX_FAILURES, TABLES = 20, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The progress of one kind of job."""

    #: Messages done.
    done: int
    #: Items waiting: messages, rooms or conversations, depending on the job.
    waiting: int
    #: Items that failed too often. They are not retried automatically.
    dead_lettered: int
    #: When the oldest item began to wait. A time long ago means that no worker runs.
    oldest_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionCoverage:
    """The progress of the index in one kind of server."""

    target: Target
    #: Messages in the index; None while the first index is being built.
    done: int | None
    #: Messages that wait to be written to the index or removed from it.
    waiting: int
    #: Messages that the server rejected.
    dead_lettered: int
    #: When the oldest message began to wait.
    oldest_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomCounts:
    """The statistics of one room, or of all rooms together."""

    messages: int
    #: The number of messages in the sample from which the shares are computed.
    sampled: int
    #: The share of messages in threads of several messages. None without messages; the same holds for the next two
    #: fields.
    share_in_threads: float | None
    #: The mean number of messages of a thread of several messages.
    mean_thread_size: float | None
    #: The share of messages imported as question and answer pairs (`legacy_pair` in their metadata).
    legacy_share: float | None
    #: Messages with a vector.
    vectors: int
    #: The estimated number of vectors that are saved by rooms that embed only thread roots.
    vectors_saved: int
    embedded: Coverage
    disentangled: Coverage
    #: Messages whose conversation was read for memories. Closed conversations wait.
    extracted: Coverage
    #: Messages searched for privacy requests.
    privacy_checked: Coverage
    #: One entry for each server with an index of the org.
    projected: Sequence[ProjectionCoverage]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomStatistics(RoomPolicies):
    """A room and its statistics."""

    counts: RoomCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class OrgStatistics:
    """The statistics of an org."""

    at: datetime
    counts: RoomCounts
    #: The rooms with the most messages come first.
    rooms: Sequence[RoomStatistics]
    #: Durations of the newest reads.
    latencies: Sequence[Latency]
    #: Conversations that wait for the language model, and the state of the language model.
    llm_calls: llm_calls.ExtractionBacklog
    #: The hits of the memory section cache in this process.
    blocks: CacheStatistics
    #: The indexes in other servers.
    projections: Sequence[ProjectionStatus]
    #: The current, next and previous embedding model.
    embedding: Sequence[EmbeddingVersionStatus]
    #: How the clock of the server differs from the database or the messages.
    clock: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """The workers of an org, and what stops its jobs."""

    at: datetime
    #: Newest first. Workers that ended in order are omitted.
    workers: Sequence[Heartbeat]
    #: The most frequent first.
    failures: Sequence[DeadLetters]
    #: The database and its largest tables. None for callers with a key, because the sizes include other orgs.
    sizes: Sequence[Size] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _RoomData:
    """The counts of one room, as read from the database."""

    room: RoomStats
    sample: RoomSample
    vectors: int
    disentangled: int
    extracted: ExtractionProgress | None
    queues: dict[QueueName, QueueBacklog]
    projections: dict[Target, ProjectionBacklog]

    def extrapolated(self, count: int) -> float:
        """Return a count of the sample as an estimate for all messages of the room."""
        looked_at = self.sample.sampled
        return count * self.room.messages / looked_at if looked_at else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitoring:
    """The statistics of an org. Every method raises NotAllowed unless the caller is an operator."""

    access: Access
    #: The cache of this process.
    section_cache: SectionCache
    embedding_versions: EmbeddingVersions

    @operation("GET", "/statistics", name="read_statistics")
    async def statistics(self) -> OrgStatistics:
        """Return the progress of the jobs, thread statistics and durations of reads."""
        await self.access.check("administer", "read numbers")
        async with self.access.reading(self.access.principal, "read numbers") as reading:
            conn, org_id, now = reading.conn, self.access.org_id, datetime.now(UTC)
            rooms = await _read_rooms(conn, org_id, now=now)
            copies = await projection_statuses(conn, org_id)
            newest = await stats.newest_message(conn, org_id)
            return OrgStatistics(
                at=now,
                counts=_counts(rooms, copies),
                rooms=[convert(RoomStatistics, room.room, counts=_counts([room], copies)) for room in rooms],
                latencies=await stats.latencies(conn, org_id, newest=READS),
                llm_calls=await llm_calls.backlog(conn, org_id, now=now),
                blocks=self.section_cache.hits(org_id),
                projections=copies,
                embedding=await self.embedding_versions.known_status(conn),
                clock=clock_problems(utc_now(), database=newest.now, newest=newest.sent_at),
            )

    @operation("GET", "/jobs", name="read_jobs")
    async def job_state(self) -> JobState:
        """Return the workers, the failed jobs with their errors, and the size of the database."""
        await self.access.check("administer", "read state")
        async with self.access.reading(self.access.principal, "read state") as reading:
            conn, org_id = reading.conn, self.access.org_id
            has_key = self.access.principal.key_id is not None
            return JobState(
                at=datetime.now(UTC),
                workers=await work_queue.newest_heartbeats(conn, org_id, limit=MAX_FAILURES),
                failures=await stats.dead_letters(conn, org_id, limit=MAX_FAILURES),
                sizes=None if has_key else await stats.sizes(conn, limit=TABLES),
            )

    @operation(
        "PUT",
        "/rooms/{room}/embedding-policy",
        name="set_embedding",
        replay="once",
        is_repeatable=True,
        result_key="change",
    )
    async def set_embedding_policy(self, room: str, policy: EmbeddingPolicy) -> PolicyChange:
        """Set whether a room embeds every message or only thread roots; count deleted and missing vectors.

        Vectors that are no longer needed are deleted at once. The worker makes the missing vectors.

        Raises:
            NotFound: there is no such room.
            BadInput: there is no such policy, or the name is ambiguous.
        """
        if policy not in get_args(EmbeddingPolicy):
            raise BadInput("policy", f"must be one of {', '.join(get_args(EmbeddingPolicy))}")
        org_id = self.access.org_id

        async def change(conn: Connection) -> tuple[PolicyChange, Sequence[UUID]]:
            await erasure_guard.lock_shared(conn, org_id)
            room_id = await lookup.room(conn, org_id, room)
            return await work_queue.change_policy(conn, org_id, room_id, policy), [room_id]

        return await self.access.change("administer", "set embedding", change)


async def _read_rooms(conn: Connection, org_id: OrgId, *, now: datetime) -> list[_RoomData]:
    rooms = await stats.room_stats(conn, org_id)
    size = max(MIN_SAMPLE, SAMPLE_SIZE // max(len(rooms), 1))
    samples = await stats.room_samples(conn, org_id, sample=size)
    vectors, disentangled = await stats.vector_counts(conn, org_id), await stats.assigned_counts(conn, org_id)
    extracted = await extraction_state.coverage(conn, org_id, now=now)
    queues: defaultdict[RoomId, dict[QueueName, QueueBacklog]] = defaultdict(dict)
    for queue in await stats.queue_backlogs(conn, org_id):
        queues[queue.room_id][queue.queue] = queue
    projections: defaultdict[RoomId, dict[Target, ProjectionBacklog]] = defaultdict(dict)
    for backlog in await stats.projection_backlogs(conn, org_id):
        projections[backlog.room_id][backlog.target] = backlog
    empty = RoomSample(room_id=RoomId(org_id), sampled=0, in_threads=0, threads=0, carried=0, legacy=0)
    return [
        _RoomData(
            room=room,
            sample=samples.get(room.room_id, empty),
            vectors=vectors.get(room.room_id, 0),
            disentangled=disentangled.get(room.room_id, 0),
            extracted=extracted.get(room.room_id),
            queues=queues[room.room_id],
            projections=projections[room.room_id],
        )
        for room in rooms
    ]


def _counts(rooms: Sequence[_RoomData], targets: Sequence[ProjectionStatus]) -> RoomCounts:
    messages = sum(room.room.messages for room in rooms)
    vectors = sum(room.vectors for room in rooms)
    in_threads = sum(room.extrapolated(room.sample.in_threads) for room in rooms)
    threads = sum(room.extrapolated(room.sample.threads) for room in rooms)
    extracted = [room.extracted for room in rooms if room.extracted is not None]
    to_read = _coverage(_backlogs(rooms, "read"), done=0)
    read = messages - to_read.waiting - to_read.dead_lettered
    return RoomCounts(
        messages=messages,
        sampled=sum(room.sample.sampled for room in rooms),
        share_in_threads=_ratio(in_threads, messages),
        mean_thread_size=_ratio(in_threads, threads),
        legacy_share=_ratio(sum(room.extrapolated(room.sample.legacy) for room in rooms), messages),
        vectors=vectors,
        vectors_saved=round(sum(room.extrapolated(room.sample.carried) for room in rooms)),
        embedded=_coverage(_backlogs(rooms, "embed"), done=vectors),
        disentangled=_coverage(
            _backlogs(rooms, "disentangle"), done=sum(room.disentangled for room in rooms)
        ),
        extracted=_coverage(extracted, done=sum(progress.done for progress in extracted)),
        privacy_checked=replace(to_read, done=read),
        projected=[_projection_coverage(rooms, messages, target) for target in targets],
    )


class _Backlog(Protocol):
    @property
    def waiting(self) -> int: ...
    @property
    def dead_lettered(self) -> int: ...
    @property
    def oldest_at(self) -> datetime | None: ...


def _backlogs(rooms: Iterable[_RoomData], queue: QueueName) -> list[QueueBacklog]:
    return [room.queues[queue] for room in rooms if queue in room.queues]


def _coverage(backlogs: Sequence[_Backlog], *, done: int) -> Coverage:
    return Coverage(
        done=done,
        waiting=sum(backlog.waiting for backlog in backlogs),
        dead_lettered=sum(backlog.dead_lettered for backlog in backlogs),
        oldest_at=min((at for backlog in backlogs if (at := backlog.oldest_at) is not None), default=None),
    )


def _projection_coverage(
    rooms: Sequence[_RoomData], messages: int, status: ProjectionStatus
) -> ProjectionCoverage:
    backlogs = [room.projections[status.target] for room in rooms if status.target in room.projections]
    # Removals wait, too. But tombstones are not counted as messages, so only messages that still exist are subtracted.
    done = max(messages - sum(backlog.still_there for backlog in backlogs), 0)
    left = _coverage(backlogs, done=done)
    return ProjectionCoverage(
        target=status.target,
        done=done if status.is_ready or status.remaining is not None else None,
        waiting=left.waiting,
        dead_lettered=left.dead_lettered,
        oldest_at=left.oldest_at,
    )


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
