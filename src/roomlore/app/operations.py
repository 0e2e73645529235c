"""What the operator watches and sets: how far the work has come, how long reads take, what a room embeds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import get_args
from uuid import UUID

from roomlore.agents.blocks import Blocks, Hits
from roomlore.app.desk import Desk
from roomlore.app.generations import Generations, GenerationStatus
from roomlore.app.operation import operation
from roomlore.app.projecting import Copies, copies_of
from roomlore.domain.clock import disagreements, utc_now
from roomlore.domain.errors import BadInput
from roomlore.domain.ids import OrgId, RoomId
from roomlore.retrieval import meant
from roomlore.store import erased, extracting, heartbeats, operations, readings, work
from roomlore.store.extracting import Drawn
from roomlore.store.heartbeats import Heartbeat
from roomlore.store.operations import Failure, Ingested, Latency, Look, Size, Uncopied, Waiting
from roomlore.store.projections import Target
from roomlore.store.queries import Connection
from roomlore.store.work import EmbeddingPolicy, PolicyChange, Stage

#: So many of the newest messages are looked at to see how they stand in exchanges, in all rooms together; more where
#: this leaves a room less than the fewest.
LOOKED_AT, FEWEST = 20_000, 20
#: So many of the newest reads tell how long they take.
READS = 10_000
#: Of workers and kinds of failures so many are told, and so many of the largest tables.
LISTED, TABLES = 20, 8


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
class Projected:
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
class Counts:
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
    projected: Sequence[Projected]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomNumbers:
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
    counts: Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """Numbers of an org."""

    at: datetime
    counts: Counts
    #: Most messages first.
    rooms: Sequence[RoomNumbers]
    #: Of the newest reads.
    latencies: Sequence[Latency]
    #: Conversations to be shown to a language model for what is stated in them, where one is named, and how it answers.
    readings: readings.Backlog
    #: How often what an agent remembers could be shown again; each process counts its own.
    blocks: Hits
    #: In each kind of server that holds any.
    copies: Sequence[Copies]
    #: The model that searches use, the one that is to come and the one before, as far as there are such.
    embedding: Sequence[GenerationStatus]
    #: How the server's clock disagrees with the database's and with what was said; empty where it agrees.
    clock: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Whether the work of an org is being done, and what stands in its way."""

    at: datetime
    #: Those that were seen last, newest first; one that ended in order is not among them.
    workers: Sequence[Heartbeat]
    #: Most first.
    failures: Sequence[Failure]
    #: The database and its largest tables; None for who came with a key, since other orgs are in them, too.
    sizes: Sequence[Size] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What was read of one room."""

    room: Ingested
    look: Look
    vectors: int
    untangled: int
    #: None where nothing is in a conversation.
    extracted: Drawn | None
    #: By stage.
    waiting: dict[Stage, Waiting]
    #: By target.
    uncopied: dict[Target, Uncopied]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """The running of an org; the operator's."""

    desk: Desk
    #: Of this process.
    blocks: Blocks
    generations: Generations

    @operation("GET", "/operations", name="read_numbers")
    async def numbers(self) -> Numbers:
        """Return how far the work has come in each room, how messages stand in exchanges and how long reads take.

        Raises:
            NotAllowed: the caller is no operator.
        """
        await self.desk.check("administer", "read numbers")
        async with self.desk.reading(self.desk.caller, "read numbers") as reading:
            now = datetime.now(UTC)
            seen = await _seen(reading.conn, self.desk.org_id, now=now)
            copies = await copies_of(reading.conn, self.desk.org_id)
            embedding = await self.generations.as_known(reading.conn)
            backlog = await readings.backlog(reading.conn, self.desk.org_id, now=now)
            latencies = await operations.latencies(reading.conn, self.desk.org_id, newest=READS)
            newest = await operations.newest_said(reading.conn, self.desk.org_id)
            clock = disagreements(utc_now(), database=newest.now, newest=newest.sent_at)
        rooms = [_room(one, copies) for one in seen]
        return Numbers(
            at=now,
            counts=_counts(seen, copies),
            rooms=rooms,
            latencies=latencies,
            readings=backlog,
            blocks=self.blocks.hits(self.desk.org_id),
            copies=copies,
            embedding=embedding,
            clock=clock,
        )

    @operation("GET", "/operations/state", name="read_state")
    async def state(self) -> State:
        """Return which workers there are, what was set aside and why, and how large the database is.

        Raises:
            NotAllowed: the caller is no operator.
        """
        await self.desk.check("administer", "read state")
        async with self.desk.reading(self.desk.caller, "read state") as reading:
            conn, org_id = reading.conn, self.desk.org_id
            has_key = self.desk.caller.key_id is not None
            return State(
                at=datetime.now(UTC),
                workers=await heartbeats.newest(conn, org_id, limit=LISTED),
                failures=await operations.failures(conn, org_id, limit=LISTED),
                sizes=None if has_key else await operations.sizes(conn, limit=TABLES),
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
        org_id = self.desk.org_id

        async def change(conn: Connection) -> tuple[PolicyChange, Sequence[UUID]]:
            await erased.keep_erasures_out(conn, org_id)
            room_id = await meant.room(conn, org_id, room)
            return await work.change_policy(conn, org_id, room_id, policy), [room_id]

        return await self.desk.change("administer", "set embedding", change)


async def _seen(conn: Connection, org_id: OrgId, *, now: datetime) -> list[_Seen]:
    rooms = await operations.ingested(conn, org_id)
    sample = max(FEWEST, LOOKED_AT // max(len(rooms), 1))
    looks = await operations.looks(conn, org_id, sample=sample)
    vectors, untangled = await operations.vectors(conn, org_id), await operations.untangled(conn, org_id)
    extracted = await extracting.coverage(conn, org_id, now=now)
    waiting: dict[RoomId, dict[Stage, Waiting]] = {}
    for one in await operations.waiting(conn, org_id):
        waiting.setdefault(one.room_id, {})[one.stage] = one
    uncopied: dict[RoomId, dict[Target, Uncopied]] = {}
    for one in await operations.uncopied(conn, org_id):
        uncopied.setdefault(one.room_id, {})[one.target] = one
    return [
        _Seen(
            room=room,
            look=looks.get(room.room_id, _nothing(room.room_id)),
            vectors=vectors.get(room.room_id, 0),
            untangled=untangled.get(room.room_id, 0),
            extracted=extracted.get(room.room_id),
            waiting=waiting.get(room.room_id, {}),
            uncopied=uncopied.get(room.room_id, {}),
        )
        for room in rooms
    ]


def _nothing(room_id: RoomId) -> Look:
    return Look(room_id=room_id, looked_at=0, in_exchanges=0, exchanges=0, carried=0, legacy=0)


def _room(seen: _Seen, copies: Sequence[Copies]) -> RoomNumbers:
    room = seen.room
    return RoomNumbers(
        room_id=room.room_id,
        platform=room.platform,
        external_id=room.external_id,
        name=room.name,
        embedding_policy=room.embedding_policy,
        keep_for=room.keep_for,
        retention_starts_at=room.retention_starts_at,
        kept_until_then=room.kept_until_then,
        in_grace=room.in_grace,
        counts=_counts([seen], copies),
    )


def _counts(seen: Sequence[_Seen], copies: Sequence[Copies]) -> Counts:
    """Return the numbers of some rooms together; what was looked at of each stands for all of it."""
    messages = sum(one.room.messages for one in seen)
    in_exchanges = sum(_scaled(one, one.look.in_exchanges) for one in seen)
    exchanges = sum(_scaled(one, one.look.exchanges) for one in seen)
    return Counts(
        messages=messages,
        looked_at=sum(one.look.looked_at for one in seen),
        share_in_exchanges=_ratio(in_exchanges, messages),
        exchange_size=_ratio(in_exchanges, exchanges),
        legacy_share=_ratio(sum(_scaled(one, one.look.legacy) for one in seen), messages),
        vectors=sum(one.vectors for one in seen),
        vectors_saved=round(sum(_scaled(one, one.look.carried) for one in seen)),
        embedded=_coverage(seen, "embed", done=sum(one.vectors for one in seen)),
        untangled=_coverage(seen, "untangle", done=sum(one.untangled for one in seen)),
        extracted=_extracted([one.extracted for one in seen if one.extracted is not None]),
        listened=_listened(seen, messages),
        projected=[_projected(seen, one) for one in copies],
    )


def _scaled(seen: _Seen, count: int) -> float:
    return count * seen.room.messages / seen.look.looked_at if seen.look.looked_at else 0.0


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _extracted(drawn: Sequence[Drawn]) -> Coverage:
    return Coverage(
        done=sum(one.done for one in drawn),
        waiting=sum(one.waiting for one in drawn),
        set_aside=sum(one.set_aside for one in drawn),
        oldest_at=min((one.oldest_at for one in drawn if one.oldest_at is not None), default=None),
    )


def _listened(seen: Iterable[_Seen], messages: int) -> Coverage:
    left = _coverage(seen, "listen", done=0)
    return replace(left, done=messages - left.waiting - left.set_aside)


def _projected(seen: Sequence[_Seen], copies: Copies) -> Projected:
    left = [one.uncopied[copies.target] for one in seen if copies.target in one.uncopied]
    is_asked = copies.is_ready or copies.to_build is not None
    # What is to be removed waits as well: a hole is no part of the messages, so nothing is taken off for it.
    done = max(sum(one.room.messages for one in seen) - sum(one.still_there for one in left), 0)
    return Projected(
        target=copies.target,
        done=done if is_asked else None,
        waiting=sum(one.waiting for one in left),
        set_aside=sum(one.set_aside for one in left),
        oldest_at=min((one.oldest_at for one in left if one.oldest_at is not None), default=None),
    )


def _coverage(seen: Iterable[_Seen], stage: Stage, *, done: int) -> Coverage:
    left = [one.waiting[stage] for one in seen if stage in one.waiting]
    return Coverage(
        done=done,
        waiting=sum(one.waiting for one in left),
        set_aside=sum(one.set_aside for one in left),
        oldest_at=min((one.oldest_at for one in left if one.oldest_at is not None), default=None),
    )
