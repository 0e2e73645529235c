"""What the operator watches and sets: how far the work has come, how long reads take, what a room embeds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import get_args
from uuid import UUID

from roomlore.agents.section_cache import CacheStatistics, SectionCache
from roomlore.db import erased, extraction_state, llm_calls, stats, work_queue
from roomlore.db.extraction_state import ExtractionProgress
from roomlore.db.projections import Target
from roomlore.db.queries import Connection
from roomlore.db.stats import (
    DeadLetters,
    Latency,
    ProjectionBacklog,
    QueueBacklog,
    RoomSample,
    RoomStats,
    Size,
)
from roomlore.db.work_queue import EmbeddingPolicy, Heartbeat, PolicyChange, QueueName
from roomlore.domain.clock import clock_problems, utc_now
from roomlore.domain.errors import BadInput
from roomlore.domain.ids import OrgId, RoomId
from roomlore.operations.access import Access
from roomlore.operations.embedding_versions import EmbeddingVersions, EmbeddingVersionStatus
from roomlore.operations.projection_service import ProjectionStatus, projection_statuses
from roomlore.operations.registry import operation
from roomlore.search import lookup

#: So many of the newest messages are looked at to see how they stand in exchanges, in all rooms together; more where
#: this leaves a room less than the fewest.
SAMPLE_SIZE, MIN_SAMPLE = 20_000, 20
#: So many of the newest reads tell how long they take.
READS = 10_000
#: Of workers and kinds of failures so many are told, and so many of the largest tables.
MAX_FAILURES, TABLES = 20, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How far a stage has come."""

    #: Messages that it went through.
    done: int
    #: What is still to be done: messages to be embedded, rooms to be untangled.
    waiting: int
    #: What failed too often to be tried again unasked.
    set_aside: int
    #: Since when the oldest of what waits has been waiting: long ago where no worker runs. None where nothing waits.
    oldest_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionCoverage:
    """How far the copies in one kind of server have come with messages."""

    target: Target
    #: Messages of which nothing waits; None while it is still asked what the first copy is to hold.
    done: int | None
    #: Messages that are still to be written there, or to be removed.
    waiting: int
    #: Those that the server would not take.
    set_aside: int
    #: Since when the oldest of what waits has been waiting; None where nothing waits.
    oldest_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomCounts:
    """Numbers of one room, or of all rooms together."""

    messages: int
    #: How many of the newest messages the shares are from: all of them where there are few.
    looked_at: int
    #: Share of messages that are in exchanges of several; None of nothing, as the next two.
    share_in_exchanges: float | None
    #: How many messages such an exchange has on average; None where there is none.
    exchange_size: float | None
    #: Share of messages imported from pairs of question and answer: those whose metadata has `legacy_pair`.
    legacy_share: float | None
    #: Messages that have a vector.
    vectors: int
    #: About how many more there would be if every room embedded each message.
    vectors_saved: int
    embedded: Coverage
    untangled: Coverage
    #: Messages of conversations that rules went through; what is still to be done are conversations that are over.
    extracted: Coverage
    #: Messages that were listened to for requests of privacy; what could not be in time waits for the worker.
    listened: Coverage
    #: One for each kind of server in which the org has copies.
    projected: Sequence[ProjectionCoverage]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomStatistics:
    """A room and its numbers."""

    room_id: RoomId
    platform: str
    external_id: str
    name: str
    embedding_policy: EmbeddingPolicy
    #: How long it keeps what was said; None is forever.
    keep_for: timedelta | None
    #: From when on; until then it can be taken back, and the room keeps what it kept before. None where it does so already.
    retention_starts_at: datetime | None
    kept_until_then: timedelta | None
    #: How many messages go then; None where that has begun, or nothing goes.
    in_grace: int | None
    counts: RoomCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class OrgStatistics:
    """Numbers of an org."""

    at: datetime
    counts: RoomCounts
    #: Most messages first.
    rooms: Sequence[RoomStatistics]
    #: Of the newest reads.
    latencies: Sequence[Latency]
    #: Conversations to be shown to a language model for what is stated in them, where one is named, and how it answers.
    readings: llm_calls.ExtractionBacklog
    #: How often what an agent remembers could be shown again; each process counts its own.
    blocks: CacheStatistics
    #: In each kind of server that holds any.
    copies: Sequence[ProjectionStatus]
    #: The model that searches use, the one that is to come and the one before, as far as there are such.
    embedding: Sequence[EmbeddingVersionStatus]
    #: How the server's clock disagrees with the database's and with what was said; empty where it agrees.
    clock: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """Whether the work of an org is being done, and what stands in its way."""

    at: datetime
    #: Those that were seen last, newest first; one that ended in order is not among them.
    workers: Sequence[Heartbeat]
    #: Most first.
    failures: Sequence[DeadLetters]
    #: The database and its largest tables; None for who came with a key, since other orgs are in them, too.
    sizes: Sequence[Size] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _RoomSample:
    """What was read of one room."""

    room: RoomStats
    look: RoomSample
    vectors: int
    untangled: int
    #: None where nothing is in a conversation.
    extracted: ExtractionProgress | None
    #: By stage.
    waiting: dict[QueueName, QueueBacklog]
    #: By target.
    uncopied: dict[Target, ProjectionBacklog]


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitoring:
    """The running of an org; the operator's."""

    access: Access
    #: Of this process.
    section_cache: SectionCache
    embedding_versions: EmbeddingVersions

    @operation("GET", "/operations", name="read_numbers")
    async def numbers(self) -> OrgStatistics:
        """Return how far the work has come in each room, how messages stand in exchanges and how long reads take.

        Raises:
            NotAllowed: the caller is no operator.
        """
        await self.access.check("administer", "read numbers")
        async with self.access.reading(self.access.principal, "read numbers") as reading:
            now = datetime.now(UTC)
            seen = await _sample_rooms(reading.conn, self.access.org_id, now=now)
            copies = await projection_statuses(reading.conn, self.access.org_id)
            embedding = await self.embedding_versions.known_status(reading.conn)
            backlog = await llm_calls.backlog(reading.conn, self.access.org_id, now=now)
            latencies = await stats.latencies(reading.conn, self.access.org_id, newest=READS)
            newest = await stats.newest_message(reading.conn, self.access.org_id)
            clock = clock_problems(utc_now(), database=newest.now, newest=newest.sent_at)
        rooms = [_room(one, copies) for one in seen]
        return OrgStatistics(
            at=now,
            counts=_counts(seen, copies),
            rooms=rooms,
            latencies=latencies,
            readings=backlog,
            blocks=self.section_cache.hits(self.access.org_id),
            copies=copies,
            embedding=embedding,
            clock=clock,
        )

    @operation("GET", "/operations/state", name="read_state")
    async def state(self) -> JobState:
        """Return which workers there are, what was set aside and why, and how large the database is.

        Raises:
            NotAllowed: the caller is no operator.
        """
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
        "/rooms/{room}/embedding",
        name="set_embedding",
        replay="once",
        is_repeatable=True,
        result_key="change",
    )
    async def embed(self, room: str, policy: EmbeddingPolicy) -> PolicyChange:
        """Say what a room embeds, each message or only what opens an exchange; return what that changed.

        Vectors that it then needs no more are gone when this returns; those that are missing are asked for.

        Raises:
            BadInput: there is no such policy, or several rooms are meant.
            NotFound: there is no such room.
            NotAllowed: the caller is no operator.
        """
        if policy not in get_args(EmbeddingPolicy):
            raise BadInput("policy", f"must be one of {', '.join(get_args(EmbeddingPolicy))}")
        org_id = self.access.org_id

        async def change(conn: Connection) -> tuple[PolicyChange, Sequence[UUID]]:
            await erased.lock_shared(conn, org_id)
            room_id = await lookup.room(conn, org_id, room)
            return await work_queue.change_policy(conn, org_id, room_id, policy), [room_id]

        return await self.access.change("administer", "set embedding", change)


async def _sample_rooms(conn: Connection, org_id: OrgId, *, now: datetime) -> list[_RoomSample]:
    rooms = await stats.room_stats(conn, org_id)
    sample = max(MIN_SAMPLE, SAMPLE_SIZE // max(len(rooms), 1))
    looks = await stats.room_samples(conn, org_id, sample=sample)
    vectors, untangled = await stats.vector_counts(conn, org_id), await stats.assigned_counts(conn, org_id)
    extracted = await extraction_state.coverage(conn, org_id, now=now)
    waiting: dict[RoomId, dict[QueueName, QueueBacklog]] = {}
    for one in await stats.queue_backlogs(conn, org_id):
        waiting.setdefault(one.room_id, {})[one.stage] = one
    uncopied: dict[RoomId, dict[Target, ProjectionBacklog]] = {}
    for one in await stats.projection_backlogs(conn, org_id):
        uncopied.setdefault(one.room_id, {})[one.target] = one
    return [
        _RoomSample(
            room=room,
            look=looks.get(room.room_id, _empty_look(room.room_id)),
            vectors=vectors.get(room.room_id, 0),
            untangled=untangled.get(room.room_id, 0),
            extracted=extracted.get(room.room_id),
            waiting=waiting.get(room.room_id, {}),
            uncopied=uncopied.get(room.room_id, {}),
        )
        for room in rooms
    ]


def _empty_look(room_id: RoomId) -> RoomSample:
    return RoomSample(room_id=room_id, looked_at=0, in_exchanges=0, exchanges=0, carried=0, legacy=0)


def _room(seen: _RoomSample, targets: Sequence[ProjectionStatus]) -> RoomStatistics:
    room = seen.room
    return RoomStatistics(
        room_id=room.room_id,
        platform=room.platform,
        external_id=room.external_id,
        name=room.name,
        embedding_policy=room.embedding_policy,
        keep_for=room.keep_for,
        retention_starts_at=room.retention_starts_at,
        kept_until_then=room.kept_until_then,
        in_grace=room.in_grace,
        counts=_counts([seen], targets),
    )


def _counts(seen: Sequence[_RoomSample], targets: Sequence[ProjectionStatus]) -> RoomCounts:
    """Return the numbers of some rooms together; what was looked at of each stands for all of it."""
    messages = sum(one.room.messages for one in seen)
    in_exchanges = sum(_extrapolated(one, one.look.in_exchanges) for one in seen)
    exchanges = sum(_extrapolated(one, one.look.exchanges) for one in seen)
    return RoomCounts(
        messages=messages,
        looked_at=sum(one.look.looked_at for one in seen),
        share_in_exchanges=_ratio(in_exchanges, messages),
        exchange_size=_ratio(in_exchanges, exchanges),
        legacy_share=_ratio(sum(_extrapolated(one, one.look.legacy) for one in seen), messages),
        vectors=sum(one.vectors for one in seen),
        vectors_saved=round(sum(_extrapolated(one, one.look.carried) for one in seen)),
        embedded=_coverage(seen, "embed", done=sum(one.vectors for one in seen)),
        untangled=_coverage(seen, "untangle", done=sum(one.untangled for one in seen)),
        extracted=_extraction_coverage([one.extracted for one in seen if one.extracted is not None]),
        listened=_privacy_coverage(seen, messages),
        projected=[_projection_coverage(seen, one) for one in targets],
    )


def _extrapolated(seen: _RoomSample, count: int) -> float:
    return count * seen.room.messages / seen.look.looked_at if seen.look.looked_at else 0.0


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _extraction_coverage(drawn: Sequence[ExtractionProgress]) -> Coverage:
    return Coverage(
        done=sum(one.done for one in drawn),
        waiting=sum(one.waiting for one in drawn),
        set_aside=sum(one.set_aside for one in drawn),
        oldest_at=min((one.oldest_at for one in drawn if one.oldest_at is not None), default=None),
    )


def _privacy_coverage(seen: Iterable[_RoomSample], messages: int) -> Coverage:
    left = _coverage(seen, "listen", done=0)
    return replace(left, done=messages - left.waiting - left.set_aside)


def _projection_coverage(seen: Sequence[_RoomSample], copies: ProjectionStatus) -> ProjectionCoverage:
    left = [one.uncopied[copies.target] for one in seen if copies.target in one.uncopied]
    is_asked = copies.is_ready or copies.to_build is not None
    # What is to be removed waits as well: a hole is no part of the messages, so nothing is taken off for it.
    done = max(sum(one.room.messages for one in seen) - sum(one.still_there for one in left), 0)
    return ProjectionCoverage(
        target=copies.target,
        done=done if is_asked else None,
        waiting=sum(one.waiting for one in left),
        set_aside=sum(one.set_aside for one in left),
        oldest_at=min((one.oldest_at for one in left if one.oldest_at is not None), default=None),
    )


def _coverage(seen: Iterable[_RoomSample], queue: QueueName, *, done: int) -> Coverage:
    left = [one.waiting[queue] for one in seen if queue in one.waiting]
    return Coverage(
        done=done,
        waiting=sum(one.waiting for one in left),
        set_aside=sum(one.set_aside for one in left),
        oldest_at=min((one.oldest_at for one in left if one.oldest_at is not None), default=None),
    )
