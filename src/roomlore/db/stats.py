"""What the operator watches: how far each stage has come in each room, and how long reads take."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from roomlore.db.projections import Target
from roomlore.db.queries import Connection, Queries
from roomlore.db.work_queue import EmbeddingPolicy, QueueName
from roomlore.domain.ids import OrgId, RoomId

QUERIES = Queries("stats")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomStats:
    """A room, what it embeds, and how much was said in it; holes do not count."""

    room_id: RoomId
    platform: str
    external_id: str
    name: str
    embedding_policy: EmbeddingPolicy
    messages: int
    #: How long it keeps what was said; None is forever.
    keep_for: timedelta | None
    #: From when on; until then it can be taken back, and the room keeps what it kept before. None where it does so already.
    retention_starts_at: datetime | None
    kept_until_then: timedelta | None
    #: How many messages go then; None where that has begun, or nothing goes.
    in_grace: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestMessage:
    """When the newest message was sent, and what time it is by the clock of the database."""

    sent_at: datetime | None
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomCount:
    """How many of something there are in a room."""

    room_id: RoomId
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueBacklog:
    """What is still to be done of a stage in a room: messages to be embedded, or the room to be untangled."""

    room_id: RoomId
    stage: QueueName
    waiting: int
    set_aside: int
    #: Since when the oldest of it has been waiting; None where nothing is.
    oldest_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionBacklog:
    """Messages of a room of which something is still to be done in the copies in one kind of server."""

    room_id: RoomId
    target: Target
    waiting: int
    set_aside: int
    #: How many of both are counted as messages: a hole is only to be removed.
    still_there: int
    #: Since when the oldest of it has been waiting; None where nothing is.
    oldest_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildBacklog:
    """How much is still to be written to a copy that is being built; None while it is asked what that is to hold."""

    target: Target
    waiting: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomSample:
    """What a look at the newest messages of a room shows."""

    room_id: RoomId
    looked_at: int
    #: Those that answer or are answered.
    in_exchanges: int
    #: Those that are answered and answer nothing.
    exchanges: int
    #: Those that need no vector, because another carries them.
    carried: int
    #: Those imported from pairs of question and answer of an older store.
    legacy: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """How long reads took, in milliseconds."""

    #: search, ask or context.
    action: str
    #: What the room embeds that was looked into: `message` or `exchange`; `several` where it was more than one.
    format: str
    reads: int
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    """What was set aside after its last attempt, all of one kind."""

    stage: str
    #: The kind of error, never its text, which may quote what was said.
    error: str
    #: Messages, rooms or conversations, by stage.
    count: int
    #: When the newest of it was set aside, as far as that is noted.
    newest_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much room something takes, with its indexes."""

    what: str
    bytes: int


async def room_stats(conn: Connection, org_id: OrgId) -> list[RoomStats]:
    """Return every room with how much was said in it, most first."""
    return await QUERIES.all(conn, "ingested", RoomStats, {"org_id": org_id})


async def vector_counts(conn: Connection, org_id: OrgId) -> dict[RoomId, int]:
    """Return how many messages of each room have a vector; of several models that with the most counts."""
    return _by_room(await QUERIES.all(conn, "vectors", RoomCount, {"org_id": org_id}))


async def assigned_counts(conn: Connection, org_id: OrgId) -> dict[RoomId, int]:
    """Return how many messages of each room stand in a conversation."""
    return _by_room(await QUERIES.all(conn, "untangled", RoomCount, {"org_id": org_id}))


async def queue_backlogs(conn: Connection, org_id: OrgId) -> list[QueueBacklog]:
    """Return what is still to be done in each room, by stage."""
    return await QUERIES.all(conn, "waiting", QueueBacklog, {"org_id": org_id})


async def projection_backlogs(conn: Connection, org_id: OrgId) -> list[ProjectionBacklog]:
    """Return of how many messages of each room something is still to be done in copies, by target."""
    return await QUERIES.all(conn, "uncopied", ProjectionBacklog, {"org_id": org_id})


async def rebuild_backlogs(conn: Connection, org_id: OrgId) -> dict[Target, int | None]:
    """Return how much is still to be written to the copies that are being built; None while it is still asked for."""
    rows = await QUERIES.all(conn, "building", RebuildBacklog, {"org_id": org_id})
    return {row.target: row.waiting for row in rows}


async def room_samples(conn: Connection, org_id: OrgId, *, sample: int) -> dict[RoomId, RoomSample]:
    """Return what a look at the newest messages of each room, so many at most, shows."""
    rows = await QUERIES.all(conn, "looks", RoomSample, {"org_id": org_id, "sample": sample})
    return {row.room_id: row for row in rows}


async def newest_message(conn: Connection, org_id: OrgId) -> NewestMessage:
    """Return when the newest message was sent, and what time it is by the clock of the database."""
    row = await QUERIES.first(conn, "newest_said", NewestMessage, {"org_id": org_id})
    assert row is not None
    return row


async def latencies(conn: Connection, org_id: OrgId, *, newest: int) -> list[Latency]:
    """Return how long the newest reads took that are watched, so many at most, by kind."""
    return await QUERIES.all(conn, "latencies", Latency, {"org_id": org_id, "newest": newest})


async def dead_letters(conn: Connection, org_id: OrgId, *, limit: int) -> list[DeadLetters]:
    """Return what was set aside, by stage and kind of error, most first."""
    return await QUERIES.all(conn, "failures", DeadLetters, {"org_id": org_id, "limit": limit})


async def sizes(conn: Connection, *, limit: int) -> list[Size]:
    """Return how large the database is, of all orgs, and then its largest tables, largest first."""
    whole = await QUERIES.all(conn, "database_size", Size, {})
    return whole + await QUERIES.all(conn, "sizes", Size, {"limit": limit})


def _by_room(rows: list[RoomCount]) -> dict[RoomId, int]:
    return {row.room_id: row.count for row in rows}
