"""Copies of what is known, in other servers: which there are, how far they have come, and the points they hold."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Literal, get_args
from uuid import UUID

from pgvector import HalfVector

from roomlore.db import work_queue
from roomlore.db.queries import Connection, Queries
from roomlore.db.work_queue import Task
from roomlore.domain.ids import ConversationId, MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.incoming import MessageKind, ParticipantKind
from roomlore.domain.projections import MembershipPeriod, Point, VisibilityFilter

QUERIES = Queries("projections")


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueuedCount:
    """How much was asked for."""

    count: int


async def enqueue(conn: Connection, org_id: OrgId, ids: Collection[UUID]) -> None:
    """Ask for messages to be written to every copy once the transaction commits, or removed from it."""
    if ids:
        await _enqueue(conn, "ask", {"org_id": org_id, "ids": list(ids)})


async def enqueue_nodes(conn: Connection, org_id: OrgId, ids: Collection[UUID]) -> None:
    """Ask for what only graphs hold: participants, rooms, conversations and memories."""
    if ids:
        await _enqueue(conn, "ask_nodes", {"org_id": org_id, "ids": list(ids)})


async def enqueue_for(conn: Connection, org_id: OrgId, target: str, ids: Collection[UUID]) -> None:
    """Ask for subjects of any kind to be written to the copies of one target."""
    if ids:
        await _enqueue(conn, "ask_in", {"org_id": org_id, "target": target, "ids": list(ids)})


async def enqueue_added(conn: Connection, org_id: OrgId) -> None:
    """Ask for the messages just added."""
    await _enqueue(conn, "ask_added", {"org_id": org_id})


async def enqueue_replies(conn: Connection, org_id: OrgId, ids: Collection[UUID]) -> None:
    """Ask for messages whose place in their exchange has changed, or that go, with all that answers them."""
    if ids:
        await _enqueue(conn, "ask_below", {"org_id": org_id, "ids": list(ids)})
        await _enqueue(conn, "ask_talkers", {"org_id": org_id, "ids": list(ids)})


async def enqueue_replies_to_added(conn: Connection, org_id: OrgId) -> None:
    """Ask for all that answers the messages just added, and came before them."""
    await _enqueue(conn, "ask_below_added", {"org_id": org_id})
    await _enqueue(conn, "ask_talkers_below_added", {"org_id": org_id})


async def enqueue_written_by(conn: Connection, org_id: OrgId, ids: Collection[ParticipantId]) -> None:
    """Ask for what these participants wrote."""
    if ids:
        await _enqueue(conn, "ask_written_by", {"org_id": org_id, "participant_ids": list(ids)})


async def enqueue_naming(conn: Connection, org_id: OrgId, ids: Collection[ParticipantId]) -> None:
    """Ask for participants who go, and for the memories that name them."""
    if ids:
        await _enqueue(conn, "ask_naming", {"org_id": org_id, "participant_ids": list(ids)})


async def enqueue_conversations(conn: Connection, org_id: OrgId, ids: Collection[ConversationId]) -> None:
    """Ask for what stands in these conversations."""
    if ids:
        await _enqueue(conn, "ask_standing_in", {"org_id": org_id, "conversation_ids": list(ids)})


async def _enqueue(conn: Connection, how: str, params: dict[str, object]) -> None:
    await QUERIES.first(conn, how, EnqueuedCount, params)


#: Which servers may hold copies; each is a stage of work.
Target = Literal["qdrant", "neo4j"]
TARGETS: tuple[Target, ...] = get_args(Target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """The copies of an org in one server."""

    target: Target
    #: The copy that is read; None until the first one is whole.
    copy: str | None
    #: Whose vectors it holds, and how long they are; None: it holds none.
    model: str | None
    dimensions: int | None
    #: The copy that is being built beside it, and since when everything is asked for; None: not yet.
    next_copy: str | None
    next_model: str | None
    next_dimensions: int | None
    next_since: datetime | None
    #: The number of the last reading of what was to be written.
    turn: int
    #: Since when the server fails, and the kind of its error.
    failing_since: datetime | None
    error: str | None

    @property
    def indexes(self) -> list[tuple[str, str | None]]:
        """The copies that are kept up to date, each with the model whose vectors it holds, if any."""
        pairs = ((self.copy, self.model), (self.next_copy, self.next_model))
        return [(copy, model) for copy, model in pairs if copy is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewIndex:
    """A copy that is to be built."""

    copy: str
    #: Whose vectors it is to hold, and how long they are; None: none.
    model: str | None = None
    dimensions: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogRow:
    """What is still to be written to the copies of a target."""

    waiting: int
    #: What its server would not take.
    set_aside: int
    #: How long the oldest has been waiting.
    lag_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LagRow:
    """Whether a copy lags."""

    is_behind: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildPosition:
    """A copy of which it is asked what it is to hold."""

    #: Up to which subject that was done; None: nothing was asked for yet.
    after: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PointRow:
    """A message as it is copied, as it is read."""

    id: MessageId
    room_id: RoomId
    kind: MessageKind
    author_id: ParticipantId
    author_name: str
    author_kind: ParticipantKind
    sent_at: datetime
    native_order: int
    conversation_id: ConversationId | None
    reply_to: MessageId | None
    exchange_id: MessageId
    audience: Sequence[ParticipantId] | None
    embedding: HalfVector | None
    lexemes: Sequence[str]
    counts: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectRef:
    """What is to have a copy."""

    id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibilityRow:
    """What the viewer may read, as far as it is up to open rooms and to whom the viewer is."""

    is_operator: bool
    is_agent: bool
    own_ids: Sequence[ParticipantId]
    open_room_ids: Sequence[RoomId]


async def all_projections(conn: Connection, org_id: OrgId) -> list[Projection]:
    """Return the projections of an org, to its operator."""
    return await QUERIES.all(conn, "all", Projection, {"org_id": org_id})


async def take_fencing_token(conn: Connection, org_id: OrgId, target: Target) -> Projection | None:
    """Return a projection with the number of this reading; None where the org has none.

    Until the transaction ends nobody else reads: what is read under a greater number is at least as new.
    """
    return await QUERIES.first(conn, "turn", Projection, {"org_id": org_id, "target": target})


async def points(
    conn: Connection, org_id: OrgId, ids: Sequence[UUID], *, model: str, version: int
) -> list[Point]:
    """Return those of these messages that are to have a copy, with their vectors of a model."""
    params = {"org_id": org_id, "ids": list(ids), "model": model}
    return [_point(row, version) for row in await QUERIES.all(conn, "points", PointRow, params)]


def _point(row: PointRow, version: int) -> Point:
    return Point(
        id=row.id,
        version=version,
        room_id=row.room_id,
        kind=row.kind,
        author_id=row.author_id,
        author_name=row.author_name,
        author_kind=row.author_kind,
        sent_at=row.sent_at,
        native_order=row.native_order,
        conversation_id=row.conversation_id,
        reply_to=row.reply_to,
        exchange_id=row.exchange_id,
        audience=row.audience,
        vector=None if row.embedding is None else row.embedding.to_numpy().astype("float32"),
        lexemes=dict(zip(row.lexemes, row.counts, strict=True)),
    )


async def ids_after(conn: Connection, org_id: OrgId, after: UUID | None, *, limit: int) -> list[UUID]:
    """Return which messages are to have a copy, in the order of their ids."""
    params = {"org_id": org_id, "after": after, "limit": limit}
    return [row.id for row in await QUERIES.all(conn, "ids_after", SubjectRef, params)]


async def renew(conn: Connection, org_id: OrgId, target: Target, tasks: Sequence[Task]) -> set[UUID]:
    """Lease what was taken for another two minutes, and return what of it nobody else has taken since."""
    params = {"org_id": org_id, "target": target, **_task_columns(tasks)}
    return {row.id for row in await QUERIES.all(conn, "renew", SubjectRef, params)}


async def finish(conn: Connection, org_id: OrgId, target: Target, tasks: Sequence[Task]) -> None:
    """Forget what was written; what has changed since it was taken is due again.

    So is what somebody else has finished meanwhile: which of the two wrote last is not known.
    """
    params = {"org_id": org_id, "target": target, **_task_columns(tasks)}
    ours = {task.subject_id for task in tasks}
    before = {row.id for row in await QUERIES.all(conn, "waiting", SubjectRef, params | {"ids": list(ours)})}
    await QUERIES.run(conn, "finish", params)
    await QUERIES.run(conn, "do_again", params)
    await enqueue(conn, org_id, ours - before)


def _task_columns(tasks: Sequence[Task]) -> dict[str, object]:
    return {
        "subject_id": [task.subject_id for task in tasks],
        "version": [task.version for task in tasks],
        "attempts": [task.attempts for task in tasks],
    }


async def start_rebuild(
    conn: Connection, org_id: OrgId, target: Target, planned: NewIndex, *, is_lost: bool = False
) -> None:
    """Say that a copy is to be built beside the one that is read, or in place of a lost one.

    What changes from now on is asked for.
    """
    about = {"org_id": org_id, "target": target, "is_lost": is_lost, **asdict(planned)}
    await QUERIES.run(conn, "begin_copy", about)
    await work_queue.wake(conn, target)


async def publish_rebuild(conn: Connection, org_id: OrgId, target: Target) -> None:
    """Note that from here on everybody knows of the copy that is to be built; in a transaction after its beginning."""
    await QUERIES.run(conn, "announce", {"org_id": org_id, "target": target})


async def rebuild_position(conn: Connection, org_id: OrgId, target: Target) -> RebuildPosition | None:
    """Return how far all that a new copy is to hold was asked for; None where nothing is left to ask for, or not yet.

    Not before everybody is through who may have changed something without knowing of the copy. Until the transaction
    ends nobody else asks.
    """
    return await QUERIES.first(conn, "asking", RebuildPosition, {"org_id": org_id, "target": target})


async def enqueue_rebuild_batch(
    conn: Connection, org_id: OrgId, target: Target, ids: Sequence[UUID], *, is_last: bool
) -> None:
    """Ask for the next portion of what a new copy is to hold, and note how far that has come."""
    await enqueue_for(conn, org_id, target, ids)
    about = {"org_id": org_id, "target": target, "after": ids[-1] if ids else None, "is_last": is_last}
    await QUERIES.run(conn, "note_asked", about)


async def swap_index(conn: Connection, org_id: OrgId, target: Target) -> bool:
    """Read the copy that is being built from now on, if all that was asked for at its beginning is written."""
    return await QUERIES.run(conn, "switch", {"org_id": org_id, "target": target}) > 0


async def delete_projection(conn: Connection, org_id: OrgId, target: Target) -> None:
    """Have no copies any more, nor anything to write to them."""
    await QUERIES.run(conn, "stop", {"org_id": org_id, "target": target})
    await QUERIES.run(conn, "drop_asked", {"org_id": org_id, "target": target})


async def record_outage(conn: Connection, org_id: OrgId, target: Target, error: str) -> None:
    """Say how a server fails; since when is kept."""
    await QUERIES.run(conn, "note_outage", {"org_id": org_id, "target": target, "error": error})


async def record_recovery(conn: Connection, org_id: OrgId, target: Target) -> None:
    """Say that a server fails no longer."""
    await QUERIES.run(conn, "note_recovery", {"org_id": org_id, "target": target})


async def backlog(conn: Connection, org_id: OrgId, target: Target) -> BacklogRow:
    """Return what is still to be written, to the operator."""
    found = await QUERIES.first(conn, "backlog", BacklogRow, {"org_id": org_id, "target": target})
    assert found is not None
    return found


async def is_behind(conn: Connection, org_id: OrgId, target: Target) -> bool:
    """Return whether something may not be found in a copy that is there to be found, to the operator."""
    found = await QUERIES.first(conn, "behind", LagRow, {"org_id": org_id, "target": target})
    assert found is not None
    return found.is_behind


async def has_pending(conn: Connection, org_id: OrgId, target: Target) -> bool:
    """Return whether anything is still to be written to a copy that is there to be found, to the operator."""
    found = await QUERIES.first(conn, "lacking", LagRow, {"org_id": org_id, "target": target})
    assert found is not None
    return found.is_behind


async def visibility_filter(conn: Connection) -> VisibilityFilter:
    """Return what the viewer of the connection may read, for the filter of a copy."""
    row = await QUERIES.first(conn, "sight", VisibilityRow, {})
    assert row is not None
    return VisibilityFilter(
        is_operator=row.is_operator,
        is_agent=row.is_agent,
        open_room_ids=row.open_room_ids,
        stays=() if row.is_operator else await QUERIES.all(conn, "stays", MembershipPeriod, {}),
        own_ids=row.own_ids,
    )


async def pending_ids(conn: Connection, org_id: OrgId, target: Target, ids: Sequence[UUID]) -> set[UUID]:
    """Return which of these subjects are still to be written, to the operator."""
    params = {"org_id": org_id, "target": target, "ids": list(ids)}
    return {row.id for row in await QUERIES.all(conn, "waiting", SubjectRef, params)}
